# SPDX-License-Identifier: Apache-2.0
"""Goals: what the joint scheduler prefers among placements of equally many nodes.

Each goal is a number that is to be small. Of a count model it is a linear objective, of nodes that
are placed a plain sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from valence_sched.model.policy import Goal
from valence_sched.planning.optimise.joint_programme import JointProgramme
from valence_sched.planning.optimise.model import Terms
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.optimise.pool_groups import PoolGroup
from valence_sched.planning.optimise.witness import WitnessNode
from valence_sched.view.view import View

COST_UNITS = 10_000  # the largest cost of a node or a block, in the solver's whole numbers


def goal_value(
    goal: Goal, view: View, node_types: Sequence[NodeType], nodes: Iterable[WitnessNode]
) -> float:
    """Return the value of a goal that nodes have; lower is better."""
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
    goal: Goal,
    programme: JointProgramme,
    groups: Sequence[PoolGroup],
    node_types: Sequence[NodeType],
) -> Terms:
    """Return a goal as columns with coefficients; columns and rows are added where it needs them.

    The models of the programme are those of the groups, each once.
    """
    if goal == "least-cost":
        return _scaled(_cost_terms(programme, groups, node_types))
    if goal == "least-fragmentation":
        return _scaled(_price_terms(programme))
    if goal not in ("fewest-podms", "spread"):
        return []
    by_podm: dict[int, list[int]] = {}
    most: Counter[int] = Counter()
    for number, group in enumerate(groups):
        model, _ = programme.models[number]
        for node in model.nodes:
            by_podm.setdefault(group.podm, []).append(programme.first(number) + node.column)
            most[group.podm] += int(min(model.programme.upper[node.column], programme.most_nodes))
    if goal == "spread":
        peak = programme.programme.column()
        for columns in by_podm.values():
            programme.programme.row([*((one, 1.0) for one in columns), (peak, -1.0)], upper=0.0)
        return [(peak, 1.0)]
    terms: Terms = []
    for podm, columns in by_podm.items():
        used = programme.programme.column()
        room = float(min(most[podm], programme.most_nodes))
        programme.programme.row([*((one, 1.0) for one in columns), (used, -room)], upper=0.0)
        terms.append((used, 1.0))
    return terms


def _cost(node_type: NodeType, row: int) -> float:
    return 0.0 if node_type.costs is None else float(node_type.costs[row])


def _cost_terms(
    programme: JointProgramme, groups: Sequence[PoolGroup], node_types: Sequence[NodeType]
) -> Iterator[tuple[int, float]]:
    for number, group in enumerate(groups):
        model, _ = programme.models[number]
        for node in model.nodes:
            node_type = node_types[model.classes.variants[node.variant].node_type]
            cost = _cost(node_type, group.rows[node.pool])
            yield programme.first(number) + node.column, cost


def _price_terms(programme: JointProgramme) -> Iterator[tuple[int, float]]:
    for number, (model, _) in enumerate(programme.models):
        for (_, block_class), terms in model.uses.items():
            price = model.classes.classes[block_class].price
            for column, times in terms:
                yield programme.first(number) + column, price * times


def _scaled(terms: Iterable[tuple[int, float]]) -> Terms:
    """Return the sums by column, so that the largest coefficient is ``COST_UNITS``."""
    sums: dict[int, float] = {}
    for column, value in terms:
        sums[column] = sums.get(column, 0.0) + value
    largest = max(sums.values(), default=0.0)
    return [(column, value * COST_UNITS / largest) for column, value in sums.items() if largest]
