# SPDX-License-Identifier: Apache-2.0
"""Joint plan: the most nodes of one request or of several, by an exact optimiser.

It starts from the nodes that the filter scheduler places, or from the batch plan of several
requests. The count model is asked for more, or for nodes that are better by the goals of the
policy; the fit verifies each of its nodes, and filters judge each when it is placed. The better of
both is taken, so that no answer is worse than the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from valence_sched.core.batch import Batch, place
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.optimiser import Effort
from valence_sched.core.ranking import RankedRows
from valence_sched.model.policy import Budget, Goal
from valence_sched.planning.batch_plan import BatchPlan, Trial
from valence_sched.planning.optimise.bound import Optimum, most_nodes
from valence_sched.planning.optimise.goals import goal_value
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.optimise.witness import WitnessNode
from valence_sched.view.view import View


@dataclass(frozen=True, slots=True)
class JointTrial:
    """The trial of several requests, and the number of nodes that no placement exceeds."""

    trial: Trial
    bound: int


def plan_nodes(context: EvaluationContext) -> Batch:
    """Place the nodes of one request; ``bound`` of the batch is the most that any placement has."""
    start = _placed(context)
    if context.planned is not None:
        return start
    policy, request = context.bound.policy, context.request
    if len(start.nodes) == request.count and not policy.goals:
        return start
    alone = replace(context, request=msgspec.structs.replace(request, fallbacks=()))
    costs = context.evaluation.cost
    node_type = replace(NodeType.in_context(alone, request.count), costs=costs)
    optimum = _optimum(context.view, [node_type], policy.budget, policy.goals)
    fits = tuple(node.fit for node in optimum.nodes)
    planned = _placed(replace(context, planned=(fits,)))
    best = min(start, planned, key=lambda batch: _value(context, batch, node_type))
    best.bound = min(request.count, optimum.bound)
    return best


def plan_requests(plan: BatchPlan, goals: Sequence[Goal]) -> JointTrial:
    """Place several requests as one plan; where that is not proven, as the batch plan does."""
    start = plan.first()
    if start.score == (0, 0) and not goals:
        return JointTrial(start, plan.bound)
    types = [
        replace(one, costs=plan.succession.costs(plan.requests[plan.type_of.index(number)]))
        for number, one in enumerate(plan.types)
    ]
    view = plan.succession.current_view
    optimum = _optimum(view, types, plan.budget, goals)
    bound = min(plan.bound, optimum.bound)

    def value(trial: Trial) -> tuple[float, ...]:
        nodes = list(plan.nodes_of(trial))
        return *trial.score, *(goal_value(goal, view, types, nodes) for goal in goals)

    best = min(start, plan.realised(optimum.nodes), key=value)
    missing = sum(one.count for one in plan.requests) - bound
    if best.score > (0, missing) and not plan.is_spent:
        other = plan.best()
        best = best if other is None else min(best, other, key=value)
    return JointTrial(best, bound)


def _placed(context: EvaluationContext) -> Batch:
    ranking = RankedRows()
    return place(context, ranking.rows, ranking.note_changes)


def _optimum(
    view: View, types: Sequence[NodeType], budget: Budget, goals: Sequence[Goal]
) -> Optimum:
    effort = Effort(nodes=budget.solver_nodes)
    return most_nodes(view, types, effort=effort, budget=budget, goals=goals)


def _value(context: EvaluationContext, batch: Batch, node_type: NodeType) -> tuple[float, ...]:
    nodes = [WitnessNode(0, 0, node.chosen) for node in batch.nodes]
    goals = context.bound.policy.goals
    values = (goal_value(goal, context.view, [node_type], nodes) for goal in goals)
    return -len(nodes), *values
