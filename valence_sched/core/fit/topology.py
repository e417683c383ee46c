# SPDX-License-Identifier: Apache-2.0
"""Topology search: the cheapest blocks of one pool that satisfy every topology constraint.

The search goes through topology cases (``topology_cases``), depth first: each ``same`` constraint
is assigned one domain value after another; then the cheapest cover is computed, and where it uses
a value for two names that are to be apart, the search branches once for each name that may use the
value. A cover without such a conflict is a node. Cases whose cover cannot cost less than a known
node are skipped, and of values with equal blocks only one is tried: ``v`` values of ``t`` kinds
under ``s`` same constraints are ``t ** s`` cases, and two names that are apart at them
``(v / t + 1) ** t`` at most. All cases together may take as many states as one question.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from valence_sched.core.fit.demands import Demand, least_blocks
from valence_sched.core.fit.set_cover import cheapest_cover
from valence_sched.core.fit.spending import SearchOutcome
from valence_sched.core.fit.topology_cases import (
    STATES_PER_USE,
    UNREPORTED,
    CoverProblem,
    TopologyCase,
    TopologyRules,
    need_name,
)
from valence_sched.core.fit.topology_groups import (
    BlockGroup,
    BlockOffer,
    block_offer,
    blocks_by_value,
)
from valence_sched.model.inventory import BlockType, Pool
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.view import View

IMPROVE_STATES = 50_000  # states visited, over all cases, in search of a cheaper node


@dataclass(slots=True)
class TopologyFitter:
    """A request's needs and topology constraints, prepared once and fitted in many pools."""

    rules: TopologyRules

    @classmethod
    def of(
        cls,
        needs: tuple[Need, ...],
        bonds: tuple[TopologyConstraint, ...],
        demands: list[Demand],
        kinds: BlockKinds,
    ) -> TopologyFitter:
        """Prepare; a constraint on the pool, which all blocks of a node share, requires nothing."""
        constraints = tuple(constraint for constraint in bonds if constraint.place != "zone")
        device_needs = tuple(need for need in needs if need.kind != "stock")
        return cls(TopologyRules(device_needs, constraints, demands, kinds))

    @property
    def domains(self) -> tuple[str, ...]:
        return self.rules.domains

    def question(
        self, offer: BlockOffer, pool: Pool
    ) -> tuple[Hashable, Callable[[int], SearchOutcome]]:
        """Return what is asked about a pool; equal groups pose equal questions.

        What is found is how many blocks of each group make the node.
        """
        key = (offer.groups, tuple(pool.limits.items()))
        return key, functools.partial(self._solve, offer.groups, pool)

    def _solve(self, groups: tuple[BlockGroup, ...], pool: Pool, states: int) -> SearchOutcome:
        return TopologySearch(self.rules, groups, pool, states).run()

    def block_offer(self, view: View, row: int) -> BlockOffer:
        """Return the free blocks of a pool that could help, by kind and topology."""
        table = view.block_tables[view.podm_of[row]]
        free = table.free_by_topology(int(view.position_of[row]), self.domains)
        least = least_blocks(view.pools[row].limits)
        useful = {kind: self._useful(kind, least) for kind, _ in free}
        return block_offer(free, self.rules.kinds, useful.__getitem__, sum(useful.values()))

    def _useful(self, kind: int, least: Mapping[BlockType, int]) -> int:
        """Return how many blocks of a kind a node without a needless block has at most.

        Each of its blocks helps some need: at most one block for each device, and for a total
        as many as add up to it.
        """
        total = 0
        lines = self.rules.device_gives(kind)
        for need in self.rules.needs:
            gives = sum(line.get(need, 0) for line in lines)
            if gives:
                each = 1 if need.measure == "devices" else gives
                total += math.ceil(need.amount / each)
        types = self.rules.kinds.kinds[kind].types
        return total + sum(n for name, n in least.items() if name in types)


@dataclass(slots=True)
class TopologySearch:
    """One search: the groups of a pool, and the best node so far."""

    rules: TopologyRules
    groups: tuple[BlockGroup, ...]
    pool: Pool
    most: int
    best_blocks: dict[int, int] | None = None
    price: int | None = None
    states: int = 0
    complete: bool = True
    _states_of_first: int = 0
    _blocks_by_value: list[dict[int, Hashable]] = field(default_factory=list)
    _enough: dict[tuple[TopologyConstraint, int], bool] = field(default_factory=dict)

    def run(self) -> SearchOutcome:
        """Return how many blocks of each group make the cheapest node found within the states."""
        domains = range(len(self.rules.domains))
        self._blocks_by_value = [blocks_by_value(self.groups, domain) for domain in domains]
        cases = [TopologyCase((), {})]
        while cases and self._states_left > 0:
            cases += reversed(list(self._branch(cases.pop())))
        return SearchOutcome(self.best_blocks, self.complete and not cases, self.states)

    @property
    def _states_left(self) -> int:
        if self.price is None:
            return self.most - self.states
        return min(self.most, self._states_of_first + IMPROVE_STATES) - self.states

    def _branch(self, case: TopologyCase) -> Iterator[TopologyCase]:
        """Record the node of a case if it is cheaper, else yield the cases within it."""
        problem = self.rules.cover_problem(case, self.groups, self.pool, self._states_left)
        if problem is None:
            self.states, self.complete = self.most, False
            return
        is_open = len(case.assigned) < len(self.rules.same)
        cover = cheapest_cover(problem.items, problem.amounts, problem.caps, ceiling=self.price,
                               states=max(1, self._states_left),
                               improve=not is_open or self.price is not None)  # fmt: skip
        self.states += cover.states + STATES_PER_USE * (1 + len(problem.uses))
        if cover.counts is None:
            self.complete = self.complete and cover.complete
            return
        if is_open:
            yield from self._assignments(case)
            return
        conflict = self._conflict(problem, cover.counts)
        if conflict is not None:
            yield from self._resolutions(case, *conflict)
            return
        self.complete = self.complete and cover.complete
        if self.price is None:
            self._states_of_first = self.states
        self.best_blocks = {}
        for use, number in zip(problem.uses, cover.counts, strict=True):
            if number:
                self.best_blocks[use.group] = self.best_blocks.get(use.group, 0) + number
        kinds = self.rules.kinds.kinds
        self.price = sum(kinds[self.groups[g].kind].price * n for g, n in self.best_blocks.items())

    def _assignments(self, case: TopologyCase) -> Iterator[TopologyCase]:
        """Yield the cases in which the next ``same`` constraint is assigned one value."""
        constraint = self.rules.same[len(case.assigned)]
        domain = self.rules.domain_index(constraint)
        tried = set()
        for value, blocks in self._blocks_by_value[domain].items():
            signature = (blocks, value if value in self._assigned(case, domain) else None)
            if signature not in tried and self._has_enough(constraint, value):
                tried.add(signature)
                yield case._replace(assigned=(*case.assigned, value))
        if self._has_enough(constraint, UNREPORTED):
            yield case._replace(assigned=(*case.assigned, UNREPORTED))

    def _has_enough(self, constraint: TopologyConstraint, value: int) -> bool:
        """Return whether the blocks at a value, and those without, have all that is to be there."""
        key = (constraint, value)
        if key not in self._enough:
            domain = self.rules.domain_index(constraint)
            groups = [group for group in self.groups if group.values[domain] in (value, None)]
            needs = (need for need in self.rules.needs if need_name(need) in constraint.of)
            self._enough[key] = all(self._gifts(need, groups) >= need.amount for need in needs)
        return self._enough[key]

    def _gifts(self, need: Need, groups: list[BlockGroup]) -> int:
        gives = self.rules.device_gives
        return sum(line.get(need, 0) * one.number for one in groups for line in gives(one.kind))

    def _conflict(self, problem: CoverProblem, counts: list[int]) -> tuple[int, int] | None:
        """Return a constraint and a value that a cover may use for two names that must be apart."""
        used: dict[tuple[int, int], set[str]] = {}
        for use, count in zip(problem.uses, counts, strict=True):
            for number, constraint in enumerate(self.rules.apart):
                value = self.groups[use.group].values[self.rules.domain_index(constraint)]
                if count and value is not None:
                    names = used.setdefault((number, value), set())
                    names.update(use.serves.intersection(constraint.of))
        return min((key for key, names in used.items() if len(names) > 1), default=None)

    def _resolutions(self, case: TopologyCase, number: int, value: int) -> Iterator[TopologyCase]:
        """Yield the cases in which the value is allowed to one name.

        Values with equal blocks are interchangeable: the cases of later names exclude the earlier
        names from all of them.
        """
        constraint = self.rules.apart[number]
        interchangeable = self._interchangeable(case, self.rules.domain_index(constraint), value)
        names = case.allowed_names.get((number, value), tuple(dict.fromkeys(constraint.of)))
        for index, name in enumerate(names):
            allowed = {(number, other): names[index:] for other in interchangeable} if index else {}
            allowed[number, value] = (name,)
            yield case._replace(allowed_names={**case.allowed_names, **allowed})

    def _interchangeable(self, case: TopologyCase, domain: int, value: int) -> list[int]:
        """Return the values that are interchangeable with this one: equal blocks, equal rules."""
        domains = map(self.rules.domain_index, self.rules.apart)
        apart = [number for number, other in enumerate(domains) if other == domain]
        assigned, blocks = self._assigned(case, domain), self._blocks_by_value[domain]

        def signature(value: int) -> Hashable:
            allowed = tuple(case.allowed_names.get((number, value)) for number in apart)
            return blocks[value], allowed, value if value in assigned else None

        own = signature(value)
        return [other for other in blocks if other != value and signature(other) == own]

    def _assigned(self, case: TopologyCase, domain: int) -> set[int]:
        domains = map(self.rules.domain_index, self.rules.same)
        pairs = zip(domains, case.assigned, strict=False)
        return {value for other, value in pairs if other == domain}


def topology_shortfall(
    rules: TopologyRules, groups: tuple[BlockGroup, ...], pool: Pool, states: int
) -> tuple[str, float, float] | None:
    """Return the constraint that a pool cannot satisfy: a label, the number needed, the most."""
    for constraint in rules.bonds:
        for need in rules.needs:
            if need_name(need) in constraint.of:
                shortfall = _constraint_shortfall(rules, groups, constraint, need)
                if shortfall:
                    return shortfall
    for constraint in rules.bonds:
        alone = TopologyRules(rules.needs, (constraint,), rules.demands, rules.kinds)
        domain = rules.domain_index(constraint)
        projected = tuple(group._replace(values=(group.values[domain],)) for group in groups)
        answer = TopologySearch(alone, projected, pool, states).run()
        if answer.found is None and answer.complete:
            labels = [need.label for need in rules.needs if need_name(need) in constraint.of]
            where = "on one" if constraint.relation == "same" else "apart by"
            return f"{' and '.join(labels)} {where} {constraint.place}", 1, 0
    return None


def _constraint_shortfall(
    rules: TopologyRules, groups: tuple[BlockGroup, ...], constraint: TopologyConstraint, need: Need
) -> tuple[str, float, float] | None:
    domain = rules.domain_index(constraint)
    gifts_by_value: dict[int, int] = {}
    unreported = blocks = 0
    for group in groups:
        gives = sum(line.get(need, 0) for line in rules.device_gives(group.kind)) * group.number
        value = group.values[domain]
        if gives and value is not None:
            gifts_by_value[value] = gifts_by_value.get(value, 0) + gives
        elif gives and need.unknown == "allow":
            unreported, blocks = unreported + gives, blocks + group.number
    if not gifts_by_value and not blocks:
        return f"blocks with {need.label} that tell their {constraint.place}", 1, 0
    needed = math.ceil(need.amount)
    if constraint.relation == "same":
        most = max(gifts_by_value.values(), default=0) + unreported
        return (f"{need.label} on one {constraint.place}", needed, most) if most < needed else None
    most = len(gifts_by_value) + blocks
    if len(set(constraint.of)) == 1 and most < needed:
        return f"{need.label}, each on a {constraint.place} of its own", needed, most
    return None
