# SPDX-License-Identifier: Apache-2.0
"""The blocks of one pool that make a node whose devices share places or stand apart.

The search goes through worlds (``worlds``), depth first: a ``same`` bond is pinned to one value
after another; then the cheapest cover is asked for, and where it uses a value for two names that
are to be apart, the search goes on once for each name that may have it. A cover that uses no
value so is a node. Worlds whose cover cannot cost less than a known node are left out, and of
values at which the same stands only one is tried: ``v`` values of ``t`` sorts under ``s`` same
bonds are ``t ** s`` worlds, and two names that stand apart at them ``(v / t + 1) ** t`` at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from valence_sched.core.fit.demands import Demand, least_blocks
from valence_sched.core.fit.set_cover import cheaper_cover
from valence_sched.core.fit.topology_cases import (
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
from valence_sched.view.blocks import TopologyValues
from valence_sched.view.view import View

#: States visited, over all worlds, in search of a cheaper node once one is known.
IMPROVE_STATES = 20_000
MOST_ANSWERS = 10_000  # offers remembered per request

BlocksByTopology = dict[
    tuple[int, TopologyValues], int
]  # how many blocks of each kind at each spot


@dataclass(slots=True)
class TopologyFitter:
    """A request's needs and bonds, prepared once and asked of many pools."""

    rules: TopologyRules
    _answers: dict[Hashable, dict[int, int] | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        needs: tuple[Need, ...],
        bonds: tuple[TopologyConstraint, ...],
        demands: list[Demand],
        kinds: BlockKinds,
    ) -> TopologyFitter:
        """Prepare; a bond within the pool, which all blocks of a node share, asks for nothing."""
        held = tuple(bond for bond in bonds if bond.place != "zone")
        return cls(
            TopologyRules(tuple(n for n in needs if n.kind != "stock"), held, demands, kinds)
        )

    @property
    def domains(self) -> tuple[str, ...]:
        """Return the places that spots are made of."""
        return self.rules.domains

    def cheapest_blocks(self, view: View, row: int) -> BlocksByTopology | None:
        """Return how many blocks of each kind and spot make the node; None when none do."""
        pool, here = view.pools[row], self.block_offer(view, row)
        key = (here.groups, tuple(pool.limits.items()))
        if key not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[key] = TopologySearch(self.rules, here.groups, pool).run()
        found = self._answers[key]
        return None if found is None else {here.keys[group]: n for group, n in found.items()}

    def block_offer(self, view: View, row: int) -> BlockOffer:
        """Return the free blocks of a pool that could help, by kind and spot."""
        shelf = view.block_tables[view.podm_of[row]]
        free = shelf.free_by_topology(int(view.position_of[row]), self.domains)
        least = least_blocks(view.pools[row].limits)
        useful = {kind: self._useful(kind, least) for kind, _ in free}
        return block_offer(free, self.rules.kinds, useful.__getitem__, sum(useful.values()))

    def _useful(self, kind: int, least: Mapping[BlockType, int]) -> int:
        """Return of how many blocks of a kind a node without a needless block has at most.

        Each of its blocks helps some need: at most one block for each device, and for a total
        as many as bring it.
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
    """One search: the groups of a pool, the worlds still to look at, the best node so far."""

    rules: TopologyRules
    groups: tuple[BlockGroup, ...]
    pool: Pool
    most: int = IMPROVE_STATES
    best_blocks: dict[int, int] | None = None
    price: int | None = None
    states: int = 0
    _blocks_by_value: list[dict[int, Hashable]] = field(default_factory=list)

    def run(self) -> dict[int, int] | None:
        """Return how many blocks of each group make the cheapest node found, None if none do."""
        places = range(len(self.rules.domains))
        self._blocks_by_value = [blocks_by_value(self.groups, place) for place in places]
        worlds = [TopologyCase((), {})]
        while worlds and (self.best_blocks is None or self.states <= self.most):
            worlds += reversed(list(self._branch(worlds.pop())))
        return self.best_blocks

    def _branch(self, case: TopologyCase) -> Iterator[TopologyCase]:
        """Keep the node of a world if it is one and cheaper, else yield the worlds within it."""
        question = self.rules.cover_problem(case, self.groups, self.pool)
        left = self.most - self.states
        unpinned = len(case.assigned) < len(self.rules.same)
        limit = 0 if unpinned and self.price is None else left
        counts, states = cheaper_cover(
            question.items, question.amounts, question.caps, self.price, limit
        )
        if self.price is not None:
            self.states += 1 + states
        if counts is None:
            return
        if unpinned:
            yield from self._assignments(case)
            return
        contested = self._conflict(case, question, counts)
        if contested is not None:
            yield from self._resolutions(case, *contested)
            return
        self.best_blocks = {}
        for way, number in zip(question.uses, counts, strict=True):
            if number:
                self.best_blocks[way.group] = self.best_blocks.get(way.group, 0) + number
        kinds = self.rules.kinds.kinds
        self.price = sum(kinds[self.groups[g].kind].price * n for g, n in self.best_blocks.items())

    def _assignments(self, case: TopologyCase) -> Iterator[TopologyCase]:
        """Yield the worlds in which the next ``same`` bond stands at one value."""
        bond = self.rules.same[len(case.assigned)]
        place = self.rules.domain_index(bond)
        tried = set()
        for value, here in self._blocks_by_value[place].items():
            sort = (here, value if value in self._assigned(case, place) else None)
            if sort not in tried:
                tried.add(sort)
                yield case._replace(assigned=(*case.assigned, value))
        yield case._replace(assigned=(*case.assigned, UNREPORTED))

    def _conflict(
        self, case: TopologyCase, question: CoverProblem, counts: list[int]
    ) -> tuple[int, int] | None:
        """Return a bond and a value that a cover may use for two names that are to be apart."""
        used: dict[tuple[int, int], set[str]] = {}
        for way, count in zip(question.uses, counts, strict=True):
            for number, bond in enumerate(self.rules.apart):
                value = self.groups[way.group].values[self.rules.domain_index(bond)]
                if count and value is not None:
                    used.setdefault((number, value), set()).update(way.serves.intersection(bond.of))
        return min((key for key, names in used.items() if len(names) > 1), default=None)

    def _resolutions(self, case: TopologyCase, number: int, value: int) -> Iterator[TopologyCase]:
        """Yield the worlds in which one name has the value.

        What one name could do at this value it could do at every value like it: the worlds of
        later names keep the earlier ones off those.
        """
        bond = self.rules.apart[number]
        alike = self._interchangeable(case, self.rules.domain_index(bond), value)
        names = case.allowed_names.get((number, value), tuple(dict.fromkeys(bond.of)))
        for index, name in enumerate(names):
            owners = {(number, other): names[index:] for other in alike} if index else {}
            yield case._replace(
                allowed_names={**case.allowed_names, **owners, (number, value): (name,)}
            )

    def _interchangeable(self, case: TopologyCase, domain: int, value: int) -> list[int]:
        """Return the values that could change places with this one and nobody would notice."""
        apart = [
            n for n, bond in enumerate(self.rules.apart) if self.rules.domain_index(bond) == domain
        ]
        pins = self._assigned(case, domain)

        def sort(value: int) -> Hashable:
            owners = tuple(case.allowed_names.get((number, value)) for number in apart)
            return self._blocks_by_value[domain][value], owners, value if value in pins else None

        mine = sort(value)
        return [
            other
            for other in self._blocks_by_value[domain]
            if other != value and sort(other) == mine
        ]

    def _assigned(self, case: TopologyCase, domain: int) -> set[int]:
        pairs = zip(self.rules.same, case.assigned, strict=False)
        return {pin for bond, pin in pairs if self.rules.domain_index(bond) == domain}


def topology_shortfall(
    rules: TopologyRules, groups: tuple[BlockGroup, ...], pool: Pool
) -> tuple[str, float, float] | None:
    """Return which bond keeps the groups of a pool from making the node: what, needed, had."""
    for bond in rules.bonds:
        for need in rules.needs:
            if need_name(need) in bond.of and (
                found := _constraint_shortfall(rules, groups, bond, need)
            ):
                return found
    for bond in rules.bonds:
        alone = TopologyRules(rules.needs, (bond,), rules.demands, rules.kinds)
        place = rules.domain_index(bond)
        moved = tuple(group._replace(values=(group.values[place],)) for group in groups)
        if TopologySearch(alone, moved, pool).run() is None:
            labels = [need.label for need in rules.needs if need_name(need) in bond.of]
            where = f"on one {bond.place}" if bond.relation == "same" else f"apart by {bond.place}"
            return f"{' and '.join(labels)} {where}", 1, 0
    return None


def _constraint_shortfall(
    rules: TopologyRules, groups: tuple[BlockGroup, ...], bond: TopologyConstraint, need: Need
) -> tuple[str, float, float] | None:
    place = rules.domain_index(bond)
    had: dict[int, int] = {}
    loose = blocks = 0
    for group in groups:
        gives = sum(line.get(need, 0) for line in rules.device_gives(group.kind)) * group.number
        value = group.values[place]
        if gives and value is not None:
            had[value] = had.get(value, 0) + gives
        elif gives and need.unknown == "allow":
            loose, blocks = loose + gives, blocks + group.number
    if not had and not blocks:
        return f"blocks with {need.label} that tell their {bond.place}", 1, 0
    wanted = math.ceil(need.amount)
    if bond.relation == "same":
        most = max(had.values(), default=0) + loose
        return (f"{need.label} on one {bond.place}", wanted, most) if most < wanted else None
    most = len(had) + blocks
    if len(set(bond.of)) == 1 and most < wanted:
        return f"{need.label}, each on a {bond.place} of its own", wanted, most
    return None
