# SPDX-License-Identifier: Apache-2.0
"""Coupled groups: the most nodes of a mix, or of types of which only so many are asked for.

A small site is one integer programme. Of a large one the linear relaxation, in which equal groups
are one, gives the bound. Its solution is rounded in chunks of groups, one after another: a chunk
places whole nodes up to its part of that solution, and what it leaves is left to the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from valence_sched.core.fit.optimiser import Effort, Floats, Solution
from valence_sched.model.policy import Goal
from valence_sched.planning.optimise.goals import goal_terms
from valence_sched.planning.optimise.joint_programme import JointProgramme
from valence_sched.planning.optimise.model import GroupModel
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.optimise.pool_groups import GroupOffer, PoolGroup
from valence_sched.planning.optimise.witness import Witness

CHUNK_COLUMNS = 300  # of the integer programmes in which a large site is rounded
CHUNK_NODES, CHUNK_GAP = 50, 0.002  # what each of them may take

GOAL_ROUNDING = 1e-3  # by which a later goal may exceed what an earlier one reached

OfferMultiplicity = Counter[GroupOffer]


@dataclass(slots=True)
class CoupledGroups:
    """One search: it places nodes on the witness, and returns the bound."""

    groups: Sequence[PoolGroup]
    models: dict[GroupOffer, GroupModel]
    witness: Witness
    node_types: Sequence[NodeType]
    shares: Sequence[int] | None
    effort: Effort
    place: bool = True
    goals: Sequence[Goal] = ()
    _most: list[int | None] = field(init=False)
    _sampled: dict[GroupOffer, GroupModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._most = [node_type.most for node_type in self.node_types]

    def solve(self) -> int:
        """Place as many nodes as are found, if at all; return how many can be at most."""
        columns = sum(len(self.models[group.offer].programme.upper) for group in self.groups)
        if not columns:
            return 0
        sampled = any(model.has_samples for model in self.models.values())
        small = columns <= self.effort.most_columns and not sampled
        bound = self._solve_whole() if small else self._solve_large()
        if self.place:
            self._fill(bound)
            self._trim()
        return bound

    def _solve_whole(self) -> int:
        models = [self.models[group.offer] for group in self.groups]
        programme = JointProgramme([(model, 1) for model in models], self._most, self.shares)
        exact = all(model.is_exact for model in models)
        solution = programme.solve(self.effort.on(exact=exact), whole=True)
        if solution.values is not None and self.place:
            best = self._aimed(programme, solution)
            for number, (group, model) in enumerate(zip(self.groups, models, strict=True)):
                self.witness.realise(group, model, programme.values_of(number, best))
        return solution.whole_bound

    def _aimed(self, programme: JointProgramme, solution: Solution) -> Floats:
        """Return values of as many nodes that are best by the goals, one after another."""
        assert solution.values is not None
        best, nodes = solution.values, round(solution.objective)
        for goal in self.goals:
            terms = goal_terms(goal, programme, self.groups, self.node_types)
            if not terms:
                continue
            programme.minimise(terms, nodes)
            aimed = programme.solve(self.effort, whole=True)
            if aimed.values is None:
                break
            best = aimed.values
            reached = sum(value * best[column] for column, value in terms)
            programme.require(terms, upper=reached + GOAL_ROUNDING)
        return best

    def _solve_large(self) -> int:
        times = Counter(group.offer for group in self.groups)
        offers = {offer: number for number, offer in enumerate(times)}
        models = [(self.models[offer], number) for offer, number in times.items()]
        programme = JointProgramme(models, self._most, self.shares)
        solution = programme.solve(self.effort, whole=False)
        if solution.values is None:
            return self._simple_bound()
        wanted = [0.0] * len(self.node_types)
        for chunk in self._chunks() if self.place else ():
            for group in chunk:
                model, number = models[offers[group.offer]]
                values = programme.values_of(offers[group.offer], solution.values) / number
                for node_type, nodes in _nodes_by_type(model, values):
                    wanted[node_type] += nodes
            self._round(chunk, wanted)
        return solution.whole_bound

    def _chunks(self) -> Iterator[list[PoolGroup]]:
        chunk: list[PoolGroup] = []
        columns = 0
        for group in self.groups:
            chunk.append(group)
            columns += len(self.models[group.offer].programme.upper)
            if columns >= CHUNK_COLUMNS:
                yield chunk
                chunk, columns = [], 0
        if chunk:
            yield chunk

    def _round(self, chunk: Sequence[PoolGroup], wanted: list[float]) -> None:
        """Place whole nodes on a chunk, of each type at most what is wanted; take them off that."""
        models = [self._samples(group.offer) for group in chunk]
        most = [int(one + 1e-6) for one in wanted]
        programme = JointProgramme([(model, 1) for model in models], most)
        effort = replace(self.effort, nodes=min(self.effort.nodes, CHUNK_NODES), gap=CHUNK_GAP)
        exact = all(model.is_exact for model in models)
        solution = programme.solve(effort.on(exact=exact), whole=True)
        if solution.values is None:
            return
        before = len(self.witness.nodes)
        for number, (group, model) in enumerate(zip(chunk, models, strict=True)):
            values = programme.values_of(number, solution.values)
            self.witness.realise(group, model, values)
        for node in self.witness.nodes[before:]:
            wanted[node.node_type] -= 1

    def _samples(self, offer: GroupOffer) -> GroupModel:
        if offer not in self._sampled:
            self._sampled[offer] = self.models[offer].sample()
        return self._sampled[offer]

    def _simple_bound(self) -> int:
        """Return the sum of what each pool makes of each type by itself."""
        return round(sum(
            self.models[group.offer].programme.upper[node.column]
            for group in self.groups for node in self.models[group.offer].nodes
        ))  # fmt: skip

    def _counts(self) -> list[int]:
        placed = Counter(node.node_type for node in self.witness.nodes)
        return [placed[number] for number in range(len(self.node_types))]

    def _fill(self, bound: int) -> None:
        """Place one more node after another, of the types that are missing most."""
        pairs: list[list[tuple[int, int]]] = [[] for _ in self.node_types]
        for group in self.groups:
            for row, variant in group.pairs():
                node_type = self.witness.variants[variant].node_type
                pairs[node_type].append((row, variant))
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

    def _trim(self) -> None:
        """Give back the nodes of a type beyond its number, or beyond the mix."""
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


def _nodes_by_type(model: GroupModel, values: Floats) -> Iterator[tuple[int, float]]:
    for node in model.nodes:
        yield model.classes.variants[node.variant].node_type, float(values[node.column])


def mix_size(counts: Sequence[int], shares: Sequence[int]) -> int:
    """Return the largest mix of these nodes: of each type its share, rounded down or up.

    Worked example: 5 and 9 nodes with equal shares make a mix of 11, of which 5 and 6 are used.
    """
    weight = sum(shares)
    pairs = zip(counts, shares, strict=True)
    size = min(sum(counts), *((weight * (count + 1) - 1) // share for count, share in pairs))
    while sum(_most_used(counts, shares, size)) < size:
        size -= 1
    return size


def mix_counts(counts: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Return how many nodes of each type the largest mix has."""
    size, weight = mix_size(counts, shares), sum(shares)
    used = [size * share // weight for share in shares]
    for number, most in enumerate(_most_used(counts, shares, size)):
        used[number] += min(most - used[number], size - sum(used))
    return used


def _most_used(counts: Sequence[int], shares: Sequence[int], size: int) -> list[int]:
    """Return how many nodes of each type a mix of a size can have at most."""
    weight = sum(shares)
    return [min(count, -(-size * share // weight))
            for count, share in zip(counts, shares, strict=True)]  # fmt: skip


def _missing(counts: Sequence[int], shares: Sequence[int], size: int) -> list[int]:
    """Return the types that a mix of a size lacks; where none does, those it has room for."""
    weight = sum(shares)
    least = [size * share // weight for share in shares]
    missing = [n for n, (have, need) in enumerate(zip(counts, least, strict=True)) if have < need]
    most = _most_used([size] * len(shares), shares, size)
    return missing or [n for n, have in enumerate(counts) if have < most[n]]
