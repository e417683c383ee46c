# SPDX-License-Identifier: Apache-2.0
"""Bound: the most nodes that the pools can make, as two numbers that are both proven.

``bound`` is a number of nodes that no placement exceeds. ``nodes`` are nodes that were placed, each
verified by the fit. Where they meet, the number is the optimum. Between them lies what the solver
left open (``Effort``), and what the model does not say of single nodes (``model``).

Without a mix, and without a limit to the nodes of several types, nothing couples pool groups: each
is solved alone, and groups with equal offers once. Else they are solved together (``coupled``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from msgspec import Struct

from valence_sched.core.fit.optimiser import DEFAULT_EFFORT, Effort, Floats, Programme
from valence_sched.errors import RequestError
from valence_sched.model.policy import DEFAULT_BUDGET, Budget, Goal
from valence_sched.model.quantity import format_count
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.coupled import CoupledGroups
from valence_sched.planning.optimise.cover_parts import CoverFinder
from valence_sched.planning.optimise.model import GroupModel
from valence_sched.planning.optimise.node_types import BlockClasses, NodeType, variants_of
from valence_sched.planning.optimise.pool_groups import GroupOffer, PoolGroup, pool_groups
from valence_sched.planning.optimise.witness import Witness, WitnessNode
from valence_sched.view.view import View


class PodmOptimum(Struct, frozen=True):
    """What a podm makes: its id, the nodes placed, and how many it never exceeds by itself.

    There is no bound where the nodes of all podms together are limited.
    """

    podm: str
    placed: int
    bound: int | None


@dataclass(frozen=True, slots=True)
class Optimum:
    """The most nodes: those placed, and the number that no placement exceeds.

    ``exact_model`` tells whether the model says of single nodes all that the fit does; where it is
    false, a gap may remain that no effort closes.
    """

    nodes: tuple[WitnessNode, ...]
    bound: int
    podms: tuple[PodmOptimum, ...]
    exact_model: bool

    @property
    def placed(self) -> int:
        return len(self.nodes)

    @property
    def is_optimal(self) -> bool:
        return self.placed == self.bound

    @property
    def gap(self) -> float:
        """Return how far the nodes placed may be below the most, as a share of the bound."""
        return (self.bound - self.placed) / self.bound if self.bound else 0.0


def most_nodes(
    view: View,
    node_types: Sequence[NodeType],
    *,
    shares: Sequence[int] | None = None,
    effort: Effort = DEFAULT_EFFORT,
    budget: Budget = DEFAULT_BUDGET,
    place: bool = True,
    goals: Sequence[Goal] = (),
) -> Optimum:
    """Return the most nodes of some types that the pools of a View can make.

    ``shares`` are whole numbers by type: then the nodes are a mix, and those beyond it are left
    out. ``budget`` is that of the fit. Without ``place`` only the bounds are computed. A type
    without needs has no bound but ``most``, or the largest number that a request may ask for.
    Of placements of equally many nodes ``goals`` say which, but only where the site is solved as
    one programme.

    Raises:
        RequestError: there is no node type, or the shares are not as many or not positive.
    """
    _check(node_types, shares)
    variants = variants_of(node_types, view.kinds, budget)
    limited = frozenset(name for pool in view.pools for name in pool.limits)
    classes = BlockClasses(variants, view.kinds, limited, "least-fragmentation" in goals)
    groups = pool_groups(view, tuple(node_types), classes)
    models: dict[GroupOffer, GroupModel] = {}
    finder = CoverFinder()
    for group in groups:
        if group.offer not in models:
            models[group.offer] = GroupModel(group.offer, classes, finder)
    most = node_types[0].most if len(node_types) == 1 else None
    witness = Witness(view, variants, budget, MAX_NODES if most is None else most)
    bounds = None
    alone = len(node_types) == 1 or all(one.most is None for one in node_types)
    if shares is None and alone and not goals:
        bounds = _solve_alone(groups, models, witness, effort, place)
        bound = min(sum(bounds), witness.most)
    else:
        coupled = CoupledGroups(groups, models, witness, node_types, shares, effort, place, goals)
        bound = coupled.solve()
    exact = all(model.is_exact for model in models.values())
    return Optimum(tuple(witness.nodes), bound, _by_podm(view, witness, bounds), exact)


def _solve_alone(
    groups: Sequence[PoolGroup],
    models: dict[GroupOffer, GroupModel],
    witness: Witness,
    effort: Effort,
    place: bool,
) -> list[int]:
    """Place the most nodes of each group, if at all; return the bounds by podm."""
    solved: dict[GroupOffer, tuple[GroupModel, Floats, int]] = {}
    bounds = [0] * len(witness.view.podms)
    for group in groups:
        if group.offer not in solved:
            solved[group.offer] = _solve(models[group.offer], effort)
        model, values, bound = solved[group.offer]
        if place:
            witness.realise_best(group, model, values, bound)
        bounds[group.podm] += bound
    return bounds


def _solve(model: GroupModel, effort: Effort) -> tuple[GroupModel, Floats, int]:
    """Return a model with the values of the most nodes that were found, and the bound."""
    values = model.closed_values()
    if values is not None:
        return model, values, round(sum(values[node.column] for node in model.nodes))
    if not model.has_samples:
        return model, *_most_of_group(model, effort)
    _, bound = _most_of_group(model, replace(effort, most_columns=0))
    sample = model.sample()
    values, _ = _most_of_group(sample, effort)
    return sample, values, bound


def _most_of_group(model: GroupModel, effort: Effort) -> tuple[Floats, int]:
    """Return the values of the most nodes of a model that the solver found, and the bound."""
    programme = Programme()
    programme.add(model.programme)
    for node in model.nodes:
        programme.set_cost(node.column, 1.0)
    whole = len(programme) <= effort.most_columns
    solution = programme.solve(effort.on(exact=model.is_exact), whole=whole)
    most = sum(model.programme.upper[node.column] for node in model.nodes)
    values = solution.values if whole else None
    found = np.zeros(len(programme)) if values is None else values
    return found, min(round(most), solution.whole_bound)


def _by_podm(view: View, witness: Witness, bounds: list[int] | None) -> tuple[PodmOptimum, ...]:
    placed = Counter(int(view.podm_of[node.fit.row]) for node in witness.nodes)
    return tuple(
        PodmOptimum(name, placed[podm], None if bounds is None else bounds[podm])
        for podm, name in enumerate(view.podm_ids)
    )


def _check(node_types: Sequence[NodeType], shares: Sequence[int] | None) -> None:
    if not node_types:
        raise RequestError("no node types: name at least one flavor")
    if shares is not None and (len(shares) != len(node_types) or min(shares) < 1):
        raise RequestError(f"shares {list(shares)}: give a whole number above 0 for each of "
                           f"{format_count(len(node_types), 'flavor')}")  # fmt: skip
