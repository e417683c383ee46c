# SPDX-License-Identifier: Apache-2.0
"""Batches: plans several requests together so that as many nodes as possible fit.

The requests are decided scarcest first (``batch_orders``). If nodes remain unplaced, an exact
optimiser plans all nodes; if it proves no optimum within its budget, other orders are tried. A
trial is better if fewer required nodes are missing, then if more nodes are placed. The scheduler
``joint`` uses the optimiser even for a single request, and for the goals of its policy.

The optimiser is not first: it ignores the weighers, and where all nodes fit, it takes 4 times as
long as the first order on a site of 20 pod managers, and 20 to 100 times on one of 1,000.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from valence_sched.core import plugins
from valence_sched.core.batch import Attempt, Batch, place
from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.explain import report
from valence_sched.core.fit.fit import Fit, Spending
from valence_sched.core.fit.optimiser import Effort
from valence_sched.core.offers import most_nodes_alone
from valence_sched.core.ranking import rank_rows
from valence_sched.errors import RequestError, UnknownName
from valence_sched.model import decision as nouns
from valence_sched.model.decision import Reports
from valence_sched.model.policy import Budget, Goal
from valence_sched.model.request import Request
from valence_sched.planning import batch_orders
from valence_sched.planning.optimise.bound import Optimum, goal_value, most_nodes
from valence_sched.planning.optimise.node_types import NodeType, variants_of
from valence_sched.planning.optimise.witness import WitnessNode
from valence_sched.planning.succession import Succession
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

Part = TypeVar("Part", EvaluationContext, Batch)
PlannedFits = tuple[tuple[Fit, ...], ...]  # the planned fits of one request, by alternative
Score = tuple[int, int]  # the unplaced required nodes, and all unplaced nodes

#: The work of HiGHS on one integer programme, per node of ``solver_nodes``: rounds of cuts at the
#: root count as well. By default, the largest programme gets about 10 s of a processor.
WORK_PER_NODE = 60_000


@dataclass
class Decisions:
    """The decisions on several requests, in order, up to the first that fails: then all fail.

    No placement has more than ``bound`` nodes; ``limit`` tells why more nodes may fit.
    """

    requests: Sequence[Request]
    view: View
    skipped: Sequence[str] = ()
    decisions: list[Decision] = field(default_factory=list)
    bound: int | None = None
    limit: str | None = None

    def report(self, detail: nouns.Detail = "report") -> Reports:
        """Return all decisions as one document; requests that failed have no placed nodes."""
        source = report.inventory_summary(self.view)
        if detail == "report":
            source = report.inventory_source(self.view, self.skipped)
        reports = [report.decision_report(one, source, detail=detail) for one in self.decisions]
        found = nouns.joined(self.requests, reports, source)
        notes: list[str] = []
        if self.bound is not None and len(self.requests) > 1:
            placed = self.bound if found.failure else found.placed
            notes += report.bound_notes(self.bound, placed, found.requested)
        if self.limit:
            notes.append(self.limit)
        return msgspec.structs.replace(found, warnings=(*found.warnings, *notes))

    def result(self, detail: nouns.Detail = "placements") -> nouns.DecisionResults:
        """Return the report at the level ``detail``, with the details of each decision."""
        details = tuple(map(report.decision_details, self.decisions))
        return nouns.DecisionResults(report=self.report(detail), details=details)


def decide_all(decider: Decider, requests: Sequence[Request]) -> Decisions:
    """Decide on several requests together; the largest budget of their policies is shared.

    Requests that do not all fit are decided in the given order, up to the first that fails. Errors
    are those of a decision, with the number of the request.
    """
    succession, sealed = Succession(decider), []
    for number, request in enumerate(requests, 1):
        try:
            sealed.append(succession.prepare(request))
        except (RequestError, UnknownName) as error:
            raise (error if len(requests) == 1 else error.at(f"request {number}")) from None
    found = Decisions(sealed, succession.view, succession.skipped)
    trial = None
    if len(sealed) > 1:
        plan = BatchPlan(succession, sealed, succession.budget(sealed))
        policies = [succession.policy(one) for one in sealed]
        schedulers = (plugins.load(plugins.SCHEDULERS).get(one.scheduler) for one in policies)
        joint = all(getattr(one, "plans_batches", False) for one in schedulers)
        trial = plan.best(policies[0].goals if joint else (), exact=joint)
        found.bound, found.limit = plan.bound, plan.limit
    if trial is not None and not trial.is_short:
        found.decisions = trial.decisions
    else:
        for _, decision in _decided(succession, sealed, range(len(sealed))):
            found.decisions.append(decision)
            for attempt in decision.attempts if len(sealed) > 1 else ():
                attempt.batch.bound = None  # only the bound of all requests together is reported
            if len(sealed) == 1 or decision.fit_count < decision.request.required_count:
                break
    counts = Counter(podm for one in found.decisions for podm in one.fit_count_by_podm)
    for one in found.decisions:
        if one.request.alternates:  # these must not be on podms with nodes of other requests
            own = one.fit_count_by_podm
            others = (podm for podm, number in counts.items() if number > (podm in own))
            one.exclude_alternates_on(frozenset(others))
        decider.check_decided(one.undecided, one.context.bound.policy)
    return found


def _decided(
    succession: Succession,
    requests: Sequence[Request],
    order: Iterable[int],
    planned: Sequence[PlannedFits] | None = None,
) -> Iterator[tuple[int, Decision]]:
    """Yield the number and the decision of each request in an order; take its nodes afterwards."""
    total, spending = sum(one.count for one in requests), Spending(succession.budget(requests))
    for number in order:
        request = requests[number]
        decision = succession.decide(
            request,
            other_nodes=total - request.count,
            spending=spending,
            planned=None if planned is None else planned[number],
        )
        yield number, decision  # if the caller stops here, its nodes are not taken
        _keep_explainable(decision, succession.current_view)
        for node in decision.fitting_nodes:
            succession.take(request, node.chosen)


@dataclass(frozen=True, slots=True)
class Trial:
    """The decisions of one tried order, by request, and the numbers of unplaced nodes."""

    decisions: list[Decision]
    score: Score

    @property
    def is_short(self) -> bool:
        return bool(self.score[0])


class BatchPlan:
    """Plans requests on a succession, which each trial leaves unchanged.

    Requests for equal nodes on equal pools share a node type, whose number is in ``type_of``;
    ``least`` are the required nodes by type. ``bound`` and ``limit`` are those of ``Decisions``.
    """

    def __init__(self, succession: Succession, requests: Sequence[Request], budget: Budget) -> None:
        self.succession, self.requests, self.budget = succession, requests, budget
        self.types: list[NodeType] = []
        self.type_of: list[int] = []
        self.limit: str | None = None
        self._most_alone: list[int] = []
        self._fits_left = budget.batch_fits
        self._pools = 0  # of all types
        self._requested = sum(one.count for one in requests)
        known: dict[object, int] = {}
        view = succession.current_view
        for request in requests:
            rows = succession.eligible(request)
            key = (request.evaluation_key, rows.tobytes())
            number = known.setdefault(key, len(self.types))
            self.type_of.append(number)
            if number == len(self.types):
                self.types.append(NodeType.of(request, rows))
                self._pools += int(rows.sum())
                self._most_alone.append(most_nodes_alone(view, request, rows))
        counts = self._sums([one.count for one in requests])
        self.types = [replace(one, most=most) for one, most in zip(self.types, counts, strict=True)]
        self.least = self._sums([one.required_count for one in requests])
        self.variants = variants_of(self.types, view.kinds, budget)
        self.bound = batch_orders.most_nodes_together(view, self.types, self._most_alone)

    def best(self, goals: Sequence[Goal] = (), *, exact: bool = False) -> Trial | None:
        """Return the best trial, None if the required nodes certainly do not fit.

        Without ``exact``, the optimiser leaves the nodes of groups as in the first order.
        """
        pairs = zip(self._most_alone, self.least, strict=True)
        if any(most < least for most, least in pairs) or self.bound < sum(self.least):
            return None
        view = self.succession.current_view

        def value(trial: Trial) -> tuple[float, ...]:
            nodes = list(self.nodes_of(trial)) if goals else ()
            return *trial.score, *(goal_value(goal, view, self.types, nodes) for goal in goals)

        orders = self._orders()
        best = self.trial(next(orders))
        self._fits_left = self.budget.batch_fits  # of further orders
        # the optimiser takes about as long as some fits per pool and type
        if self._pools > self.budget.batch_fits:
            self.limit = report.limit_note(self.budget.batch_fits)
        elif goals or not self._is_proven(best):
            groups = [self.requests[self.type_of.index(n)].group for n in range(len(self.types))]
            nodes = () if exact else self.nodes_of(best)
            fixed = [node for node in nodes if groups[node.node_type] is not None]
            best = min(best, self._optimised(goals, fixed), key=value)
        for order in orders:
            if self._is_proven(best) or self._fits_left <= 0:
                break
            best = min(best, self.trial(order), key=value)
        if self._is_proven(best) or self.bound < sum(self.least):
            self.limit = None
        return best

    def _optimised(self, goals: Sequence[Goal], fixed: Sequence[WitnessNode]) -> Trial:
        """Return the trial of ``fixed`` nodes and the optimiser's nodes; lower the bound."""
        if "least-cost" in goals:
            for number, one in enumerate(self.types):
                request = self.requests[self.type_of.index(number)]
                self.types[number] = replace(one, costs=self.succession.costs(request))
        overlay = Overlay(self.succession.current_view)
        for node in fixed:
            overlay.allocate(node.fit.row, node.fit.blocks, node.fit.grants)
        full = {node.node_type for node in fixed}
        types = [replace(one, most=0) if at in full else one for at, one in enumerate(self.types)]
        optimum = _optimum(overlay.view, types, self.budget, goals)
        if optimum.exact_model and optimum.placed < optimum.bound:
            self.limit = report.limit_note()
        if not fixed:
            self.bound = min(self.bound, optimum.bound)
        return self.realised([*fixed, *optimum.nodes])

    def trial(self, order: Sequence[int], planned: Sequence[PlannedFits] | None = None) -> Trial:
        """Decide on the requests in an order and place as many nodes as fit; then undo all."""
        decisions = dict(_decided(self.succession, self.requests, order, planned))
        placed = [
            (self.requests[number], node.chosen)
            for number, decision in decisions.items()
            for node in decision.fitting_nodes
        ]
        for request, fit in reversed(placed):
            self.succession.release(request, fit)
        self._fits_left -= len(placed) + len(order)
        in_order = [decisions[number] for number in range(len(self.requests))]
        short = sum(max(0, one.request.required_count - one.fit_count) for one in in_order)
        return Trial(in_order, (short, self._requested - len(placed)))

    def realised(self, nodes: Sequence[WitnessNode]) -> Trial:
        """Return the trial that places these nodes, distributed among the requests of a type."""
        queues = [deque[WitnessNode]() for _ in self.types]
        for node in nodes:
            queues[node.node_type].append(node)
        left = [len(queue) for queue in queues]
        shares = [0] * len(self.requests)  # required nodes are shared out first
        least, every = zip(*((one.required_count, one.count) for one in self.requests), strict=True)
        for wanted in (least, every):
            for position, number in enumerate(self.type_of):
                more = min(wanted[position] - shares[position], left[number])
                shares[position] += more
                left[number] -= more
        planned = []
        for number, share in zip(self.type_of, shares, strict=True):
            own = [queues[number].popleft() for _ in range(share)]
            by_variant: dict[int, list[Fit]] = {one: [] for one in self._variants_of_type(number)}
            for node in own:
                by_variant[node.variant].append(node.fit)
            planned.append(tuple(map(tuple, by_variant.values())))
        return self.trial(range(len(self.requests)), planned)

    def nodes_of(self, trial: Trial) -> Iterator[WitnessNode]:
        for number, decision in zip(self.type_of, trial.decisions, strict=True):
            tried = zip(self._variants_of_type(number), decision.attempts, strict=False)
            for variant, attempt in tried:
                for node in attempt.batch.nodes:
                    yield WitnessNode(number, variant, node.chosen)

    def _is_proven(self, trial: Trial) -> bool:
        return not trial.is_short and trial.score[1] == self._requested - self.bound

    def _orders(self) -> Iterator[batch_orders.Order]:
        alone = [self._most_alone[number] for number in self.type_of]
        yield from batch_orders.worthwhile_orders(self.requests, alone)
        count = len(self.requests)
        fits = math.factorial(min(count, 20)) * (count + self._requested)
        if fits <= self.budget.batch_fits // 2:
            yield from batch_orders.all_orders(self.requests)

    def _variants_of_type(self, number: int) -> list[int]:
        return [at for at, variant in enumerate(self.variants) if variant.node_type == number]

    def _sums(self, numbers: Sequence[int]) -> list[int]:
        sums = [0] * len(self.types)
        for node_type, number in zip(self.type_of, numbers, strict=True):
            sums[node_type] += number
        return sums


def _keep_explainable(decision: Decision, current: View) -> None:
    """Copy the arrays of a decision that later nodes change, if an explanation may need them."""
    if len(decision.placed_nodes) == decision.request.count and len(decision.attempts) == 1:
        decision.explainable = False
        return
    frozen_view = Overlay(current).view

    def with_copies(part: Part) -> Part:
        view = frozen_view if part.view is current else part.view
        return replace(part, view=view, evaluation=part.evaluation.copy())

    decision.attempts = [
        Attempt(with_copies(one.context), with_copies(one.batch)) for one in decision.attempts
    ]


def plan_nodes(context: EvaluationContext) -> Batch:
    """Place the nodes of one request; the batch has the proven upper bound of their number."""
    start = place(context, rank_rows)
    if context.planned is not None:
        return start
    policy, request = context.bound.policy, context.request
    if len(start.nodes) == request.count and not policy.goals:
        return start
    alone = replace(context, request=msgspec.structs.replace(request, other_alternatives=()))
    costs = context.evaluation.cost
    node_type = replace(NodeType.in_context(alone, request.count), costs=costs)
    optimum = _optimum(context.view, [node_type], policy.budget, policy.goals)
    fits = tuple(node.fit for node in optimum.nodes)

    def value(batch: Batch) -> tuple[float, ...]:
        nodes = [WitnessNode(0, 0, node.chosen) for node in batch.nodes]
        values = (goal_value(goal, context.view, [node_type], nodes) for goal in policy.goals)
        return -len(nodes), *values

    best = min(start, place(replace(context, planned=(fits,)), rank_rows), key=value)
    best.bound = min(request.count, optimum.bound)
    return best


def _optimum(
    view: View, types: Sequence[NodeType], budget: Budget, goals: Sequence[Goal]
) -> Optimum:
    nodes = budget.solver_nodes
    effort = Effort(nodes=nodes, work=nodes * WORK_PER_NODE)
    return most_nodes(view, types, effort=effort, budget=budget, goals=goals)
