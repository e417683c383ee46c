# SPDX-License-Identifier: Apache-2.0
"""Bound: the most nodes that fit in the pools, as a proven upper bound and as placed nodes.

No placement exceeds ``bound``; ``nodes`` are placed, each verified by the fit. The numbers differ
if the solver did not finish (``Effort``), or if the model is not exact (``model``).

Without a mix, a goal or a common limit of nodes, each pool group is solved alone. Otherwise a small
site is one integer programme. For a large site, the linear relaxation gives the bound, and its
solution is rounded in chunks of groups; a chunk passes its unplaced nodes on to the next chunk.

Each goal is a number to minimise: a linear objective of the model, and a value of placed nodes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from valence_sched.core.fit.optimiser import DEFAULT_EFFORT, Effort, Floats, Programme, Solution
from valence_sched.errors import RequestError
from valence_sched.model.policy import DEFAULT_BUDGET, Budget, Goal
from valence_sched.model.quantity import format_count
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.model import CoverFinder, GroupModel, Terms, merged
from valence_sched.planning.optimise.node_types import BlockClasses, GroupOffer, NodeType, PoolGroup
from valence_sched.planning.optimise.witness import Witness, WitnessNode
from valence_sched.view.view import View

COST_UNITS = 10_000  # the largest cost of a node or a block, in the solver's whole numbers
CHUNK_COLUMNS = 300  # columns of one chunk: a large site is rounded chunk by chunk
CHUNK_NODES, CHUNK_GAP = 50, 0.002  # nodes searched, and accepted gap, per chunk
GOAL_ROUNDING = 1e-3  # a later goal may worsen an earlier one by this rounding error


@dataclass(frozen=True, slots=True)
class Optimum:
    """The nodes placed and a proven bound; with an ``exact_model`` more effort closes the gap.

    ``by_podm`` are the bounds of single podms, if known; they ignore the limit for all podms.
    """

    nodes: tuple[WitnessNode, ...]
    bound: int
    by_podm: dict[str, int]
    exact_model: bool

    @property
    def placed(self) -> int:
        return len(self.nodes)


def most_nodes(
    view: View,
    node_types: Sequence[NodeType],
    *,
    shares: Sequence[int] | None = None,
    effort: Effort = DEFAULT_EFFORT,
    budget: Budget = DEFAULT_BUDGET,
    goals: Sequence[Goal] = (),
) -> Optimum:
    """Return the most nodes of some types that fit together in the pools of a View.

    ``shares`` are whole numbers by type for a mix; nodes beyond the mix do not count. The bound of
    a type without needs is its ``most``, by default ``MAX_NODES``. ``goals`` apply if the site is
    one programme. RequestError: no node type, or a type without a positive share.
    """
    if not node_types:
        raise RequestError("no node types: give at least one flavor")
    if shares is not None and (len(shares) != len(node_types) or min(shares) < 1):
        flavors = format_count(len(node_types), "flavor")
        raise RequestError(f"shares {list(shares)}: must be whole numbers above 0 for {flavors}")
    classes = BlockClasses(node_types, view, budget, by_price="least-fragmentation" in goals)
    groups = classes.pool_groups()
    finder = CoverFinder()
    offers = dict.fromkeys(group.offer for group in groups)
    models = {offer: GroupModel(offer, classes, finder) for offer in offers}
    most = node_types[0].most if len(node_types) == 1 else None
    witness = Witness(view, classes.variants, budget, MAX_NODES if most is None else most)
    by_podm: dict[str, int] = {}
    alone = len(node_types) == 1 or all(one.most is None for one in node_types)
    if shares is None and alone and not goals:
        solved = {offer: _most_of_group(model, effort) for offer, model in models.items()}
        bounds = [0] * len(view.podms)
        for group in groups:
            values, bound = solved[group.offer]
            witness.realise_best(group, models[group.offer], values, bound)
            bounds[group.podm] += bound
        bound = min(sum(bounds), witness.most)
        by_podm = dict(zip(view.podm_ids, bounds, strict=True))
    else:
        coupled = CoupledGroups(groups, models, witness, node_types, shares, effort, goals)
        bound = coupled.solve()
    exact = all(model.is_exact for model in models.values())
    return Optimum(tuple(witness.nodes), bound, by_podm, exact)


def _most_of_group(model: GroupModel, effort: Effort) -> tuple[Floats, int]:
    programme = Programme()
    programme.add(model.programme)
    programme.costs = {node.column: 1.0 for node in model.nodes}
    whole = len(programme) <= effort.most_columns
    solution = programme.solve(effort.on(exact=model.is_exact), whole=whole)
    most = sum(model.programme.upper[node.column] for node in model.nodes)
    values = solution.values if whole and solution.values is not None else np.zeros(len(programme))
    return values, min(round(most), solution.whole_bound)


class JointProgramme:
    """Maximise the nodes of some groups; each model represents a number of equal groups.

    ``most`` limits the nodes of each type, None without limit. With ``shares``, a mix of ``n``
    nodes has ``n × share / sum of shares`` nodes of each type, rounded down or up.
    """

    def __init__(
        self,
        models: Sequence[tuple[GroupModel, int]],
        most: Sequence[int | None],
        shares: Sequence[int] | None = None,
    ) -> None:
        self.models, self.programme = models, Programme()
        self.first: list[int] = []
        self.nodes: Terms = []
        self.most_nodes = sum(MAX_NODES if one is None else one for one in most)
        self.by_type: list[Terms] = [[] for _ in most]
        for model, times in models:
            first = self.programme.add(model.programme, times)
            self.first.append(first)
            for node in model.nodes:
                self.by_type[node.node_type].append((first + node.column, 1.0))
                self.nodes.append((first + node.column, 1.0))
        self.programme.costs = dict(self.nodes)
        for own, limit in zip(self.by_type, most, strict=True):
            if limit is not None and own:
                self.programme.row(own, upper=limit)
        if shares is None:
            return
        # the shares: ``floor(x / w) <= n <= ceil(x / w)`` is ``|w × n - x| <= w - 1``
        size, weight = self.programme.column(), sum(shares)
        self.programme.row([*self.nodes, (size, -1.0)], 0.0, 0.0)
        for own, share in zip(self.by_type, shares, strict=True):
            terms = [(column, float(weight)) for column, _ in own]
            self.programme.row([*terms, (size, -float(share))], 1.0 - weight, weight - 1.0)

    def values_of(self, number: int, values: Floats) -> Floats:
        first = self.first[number]
        return values[first : first + len(self.models[number][0].programme.upper)]


def goal_value(
    goal: Goal, view: View, node_types: Sequence[NodeType], nodes: Iterable[WitnessNode]
) -> float:
    """Return the value of a goal for some nodes; lower is better."""
    nodes = list(nodes)
    podms = Counter(int(view.podm_of[node.fit.row]) for node in nodes)
    if goal == "least-cost":
        return sum(_cost(node_types[node.node_type], node.fit.row) for node in nodes)
    if goal == "least-fragmentation":
        return sum(node.fit.waste for node in nodes)
    if goal == "fewest-podms":
        return len(podms)
    if goal == "spread":
        return max(podms.values(), default=0)
    return -len(nodes)


def goal_terms(
    goal: Goal, joint: JointProgramme, groups: Sequence[PoolGroup], node_types: Sequence[NodeType]
) -> Terms:
    """Add the columns and rows of a goal; return the goal as columns with coefficients."""
    members = list(zip(joint.first, groups, [model for model, _ in joint.models], strict=True))
    if goal == "least-cost":
        return _scaled(
            (first + node.column, _cost(node_types[node.node_type], group.rows[node.pool]))
            for first, group, model in members
            for node in model.nodes
        )
    if goal == "least-fragmentation":
        return _scaled(
            (first + column, model.classes.classes[block_class].price * times)
            for first, _, model in members
            for (_, block_class), terms in model.uses.items()
            for column, times in terms
        )
    if goal not in ("fewest-podms", "spread"):
        return []
    by_podm: dict[int, list[int]] = {}
    most: Counter[int] = Counter()
    for first, group, model in members:
        for node in model.nodes:
            by_podm.setdefault(group.podm, []).append(first + node.column)
            most[group.podm] += int(min(model.programme.upper[node.column], joint.most_nodes))
    programme = joint.programme
    if goal == "spread":
        peak = programme.column()
        for columns in by_podm.values():
            programme.row([*((one, 1.0) for one in columns), (peak, -1.0)], upper=0.0)
        return [(peak, 1.0)]
    terms: Terms = []
    for podm, columns in by_podm.items():
        used, room = programme.column(), float(min(most[podm], joint.most_nodes))
        programme.row([*((one, 1.0) for one in columns), (used, -room)], upper=0.0)
        terms.append((used, 1.0))
    return terms


def _cost(node_type: NodeType, row: int) -> float:
    return 0.0 if node_type.costs is None else float(node_type.costs[row])


def _scaled(terms: Iterable[tuple[int, float]]) -> Terms:
    """Return the sums by column, scaled to ``COST_UNITS`` as the largest coefficient."""
    sums = merged(terms)
    largest = max((value for _, value in sums), default=0.0)
    return [(column, value * COST_UNITS / largest) for column, value in sums if largest]


@dataclass(slots=True)
class CoupledGroups:
    """Solves groups with common limits: places nodes on the witness and returns the bound."""

    groups: Sequence[PoolGroup]
    models: dict[GroupOffer, GroupModel]
    witness: Witness
    node_types: Sequence[NodeType]
    shares: Sequence[int] | None
    effort: Effort
    goals: Sequence[Goal]

    @property
    def _most(self) -> list[int | None]:
        return [node_type.most for node_type in self.node_types]

    def solve(self) -> int:
        columns = sum(len(self.models[group.offer].programme.upper) for group in self.groups)
        if not columns:
            return 0
        if columns <= self.effort.most_columns:
            bound = self._solve_groups(self.groups, self._most, self.effort).whole_bound
        else:
            bound = self._solve_large()
        self._fill(bound)
        # leave out nodes beyond the limit of their type, or beyond the mix
        most: Sequence[int | None] = self._most
        if self.shares is not None:
            most = mix_counts(self._counts(), self.shares)
        chosen, counts = [], Counter[int]()
        for node in self.witness.nodes:
            counts[node.node_type] += 1
            limit = most[node.node_type]
            if limit is None or counts[node.node_type] <= limit:
                chosen.append(node)
        self.witness.nodes[:] = chosen
        return bound

    def _solve_groups(
        self,
        groups: Sequence[PoolGroup],
        most: Sequence[int | None],
        effort: Effort,
        *,
        is_chunk: bool = False,
    ) -> Solution:
        """Place the nodes of one integer programme; a chunk has neither shares nor goals."""
        models = [self.models[group.offer] for group in groups]
        shares = None if is_chunk else self.shares
        joint = JointProgramme([(model, 1) for model in models], most, shares)
        exact = all(model.is_exact for model in models)
        solution = joint.programme.solve(effort.on(exact=exact), whole=True)
        if solution.values is not None:
            best = solution.values if is_chunk else self._aimed(joint, solution, solution.values)
            for number, (group, model) in enumerate(zip(groups, models, strict=True)):
                self.witness.realise(group, model, joint.values_of(number, best))
        return solution

    def _aimed(self, joint: JointProgramme, solution: Solution, best: Floats) -> Floats:
        programme, nodes = joint.programme, round(solution.objective)
        for goal in self.goals:
            terms = goal_terms(goal, joint, self.groups, self.node_types)
            if not terms:
                continue
            programme.row(joint.nodes, lower=nodes)
            programme.costs = {column: -value for column, value in terms}
            aimed = programme.solve(self.effort, whole=True)
            if aimed.values is None:
                break
            best = aimed.values
            reached = sum(value * best[column] for column, value in terms)
            programme.row(terms, upper=reached + GOAL_ROUNDING)
        return best

    def _solve_large(self) -> int:
        times = Counter(group.offer for group in self.groups)
        offers = {offer: number for number, offer in enumerate(times)}
        models = [(self.models[offer], number) for offer, number in times.items()]
        programme = JointProgramme(models, self._most, self.shares)
        solution = programme.programme.solve(self.effort, whole=False)
        if solution.values is None:
            members = (self.models[group.offer] for group in self.groups)
            # the bound of each type in each pool by itself
            return round(sum(one.programme.upper[it.column] for one in members for it in one.nodes))
        wanted = [0.0] * len(self.node_types)
        effort = replace(self.effort, nodes=min(self.effort.nodes, CHUNK_NODES), gap=CHUNK_GAP)
        chunk: list[PoolGroup] = []
        size = 0
        for order, group in enumerate(self.groups, 1):
            chunk.append(group)
            model, number = models[offers[group.offer]]
            values = programme.values_of(offers[group.offer], solution.values) / number
            for node in model.nodes:
                wanted[node.node_type] += float(values[node.column])
            size += len(model.programme.upper)
            if size >= CHUNK_COLUMNS or order == len(self.groups):
                before = len(self.witness.nodes)
                most = [int(one + 1e-6) for one in wanted]
                self._solve_groups(chunk, most, effort, is_chunk=True)
                for placed in self.witness.nodes[before:]:
                    wanted[placed.node_type] -= 1
                chunk, size = [], 0
        return solution.whole_bound

    def _counts(self) -> list[int]:
        placed = Counter(node.node_type for node in self.witness.nodes)
        return [placed[number] for number in range(len(self.node_types))]

    def _fill(self, bound: int) -> None:
        pairs: list[list[tuple[int, int]]] = [[] for _ in self.node_types]
        for row, variant in (pair for group in self.groups for pair in group.pairs()):
            pairs[self.witness.variants[variant].node_type].append((row, variant))
        if self.shares is None:
            for node_type, most in enumerate(self._most):
                missing = bound - len(self.witness.nodes)
                if most is not None:
                    missing = min(missing, most - self._counts()[node_type])
                self.witness.fill(pairs[node_type], missing)
            return
        size = mix_size(self._counts(), self.shares)
        while size < bound:
            counts = self._counts()
            for one in _missing(counts, self.shares, size + 1):
                self.witness.fill(pairs[one], 1)
            grown = mix_size(self._counts(), self.shares)
            if grown == size:
                return
            size = grown


def mix_size(counts: Sequence[int], shares: Sequence[int]) -> int:
    """Return the size of the largest mix of nodes: 11 for 5 and 9 nodes with equal shares."""
    weight = sum(shares)
    pairs = zip(counts, shares, strict=True)
    size = min(sum(counts), *((weight * (count + 1) - 1) // share for count, share in pairs))
    while sum(_most_used(counts, shares, size)) < size:
        size -= 1
    return size


def mix_counts(counts: Sequence[int], shares: Sequence[int]) -> list[int]:
    size, weight = mix_size(counts, shares), sum(shares)
    used = [size * share // weight for share in shares]
    for number, most in enumerate(_most_used(counts, shares, size)):
        used[number] += min(most - used[number], size - sum(used))
    return used


def _most_used(counts: Sequence[int], shares: Sequence[int], size: int) -> list[int]:
    weight = sum(shares)
    pairs = zip(counts, shares, strict=True)
    return [min(count, -(-size * share // weight)) for count, share in pairs]


def _missing(counts: Sequence[int], shares: Sequence[int], size: int) -> list[int]:
    """Return the types with too few nodes for a mix of ``size``, else those with room for more."""
    weight = sum(shares)
    least = [size * share // weight for share in shares]
    missing = [n for n, (have, need) in enumerate(zip(counts, least, strict=True)) if have < need]
    most = _most_used([size] * len(shares), shares, size)
    return missing or [n for n, have in enumerate(counts) if have < most[n]]
