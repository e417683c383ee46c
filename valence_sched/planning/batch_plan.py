# SPDX-License-Identifier: Apache-2.0
"""Batch plan: places several requests that are known at once so that most of their nodes fit.

The requests are decided scarcest first (``batch_orders``). Where that leaves nodes out, other
orders are tried, all of them where they are few, and then a neighbourhood search moves nodes. A
trial is better if fewer nodes are short of what must be placed, then if more nodes are placed; of
equals the first is taken. The work is counted in fits (``Budget.batch_fits``).
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from valence_sched.core.alternatives import Attempt
from valence_sched.core.batch import Batch
from valence_sched.core.decision import Decision
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.fit import Fit
from valence_sched.core.offers import most_nodes_alone
from valence_sched.model.policy import Budget
from valence_sched.model.request import Request
from valence_sched.planning.batch_orders import (
    Order,
    all_orders,
    most_nodes_together,
    worthwhile_orders,
)
from valence_sched.planning.optimise.neighbourhood_search import NeighbourhoodSearch, Score
from valence_sched.planning.optimise.node_types import NodeType, Variant, variants_of
from valence_sched.planning.optimise.witness import WitnessNode
from valence_sched.planning.succession import Succession
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import View

Part = TypeVar("Part", EvaluationContext, Batch)
PlannedFits = tuple[tuple[Fit, ...], ...]  # of one request, by alternative


@dataclass(frozen=True, slots=True)
class Trial:
    """The decisions of one order, as the requests were asked, and how far they are from all."""

    decisions: list[Decision]
    score: Score

    @property
    def is_short(self) -> bool:
        """Return whether some request has fewer nodes than it must have."""
        return bool(self.score[0])


@dataclass(slots=True)
class BatchPlan:
    """Requests on what a succession has free, which is the same after each trial.

    Requests for equal nodes on the same pools are one node type: ``type_of`` has its number by
    request. ``least`` is how many nodes of a type must be placed; no placement has more than
    ``bound`` nodes.
    """

    succession: Succession
    requests: Sequence[Request]
    budget: Budget
    types: list[NodeType] = field(default_factory=list)
    type_of: list[int] = field(default_factory=list)
    least: list[int] = field(init=False)
    variants: tuple[Variant, ...] = field(init=False)
    bound: int = field(init=False)
    _requested: int = field(init=False)
    _most_alone: list[int] = field(default_factory=list)
    _fits_left: int = field(init=False)

    def __post_init__(self) -> None:
        self._fits_left = self.budget.batch_fits
        self._requested = sum(one.count for one in self.requests)
        self._classify()
        self.least = self._sums([one.required_count for one in self.requests])
        view = self.succession.current_view
        self.variants = variants_of(self.types, view.kinds, self.budget)
        self.bound = most_nodes_together(view, self.types, self._most_alone)

    def best(self) -> Trial | None:
        """Return the best trial, None where too few nodes of some type fit by themselves."""
        pairs = zip(self._most_alone, self.least, strict=True)
        if any(most < least for most, least in pairs) or self.bound < sum(self.least):
            return None
        orders = self._orders()
        best = self.trial(next(orders))
        for order in orders:
            if self._is_enough(best):
                return best
            best = min(best, self.trial(order), key=lambda trial: trial.score)
        if not self._is_enough(best):
            best = min(best, self._searched(best), key=lambda trial: trial.score)
        return best

    def first(self) -> Trial:
        """Return the trial of the first order: scarcest first."""
        return self.trial(next(self._orders()))

    @property
    def is_spent(self) -> bool:
        return self._fits_left <= 0

    def trial(self, order: Sequence[int], planned: Sequence[PlannedFits] | None = None) -> Trial:
        """Decide on the requests in an order, as many nodes of each as fit; give all back."""
        succession, total = self.succession, self._requested
        spending = succession.spending(self.requests)
        decisions: dict[int, Decision] = {}
        taken: list[tuple[Request, Fit]] = []
        for number in order:
            request = self.requests[number]
            decision = decisions[number] = succession.decide(
                request,
                other_nodes=total - request.count,
                spending=spending,
                planned=None if planned is None else planned[number],
            )
            keep_explainable(decision, succession.current_view)
            for node in decision.fitting_nodes:
                succession.take(request, node.chosen)
                taken.append((request, node.chosen))
        for request, fit in reversed(taken):
            succession.give_back(request, fit)
        self._fits_left -= len(taken) + len(order)
        in_order = [decisions[number] for number in range(len(self.requests))]
        short = sum(max(0, one.request.required_count - one.fit_count) for one in in_order)
        return Trial(in_order, (short, total - len(taken)))

    def realised(self, nodes: Sequence[WitnessNode]) -> Trial:
        """Return the trial that places these nodes, which are dealt out to the requests."""
        queues = [deque[WitnessNode]() for _ in self.types]
        for node in nodes:
            queues[node.node_type].append(node)
        shares = self._shares([len(queue) for queue in queues])
        planned = []
        for number, share in zip(self.type_of, shares, strict=True):
            own = [queues[number].popleft() for _ in range(share)]
            planned.append(tuple(
                tuple(node.fit for node in own if node.variant == variant)
                for variant in self._variants_of_type(number)
            ))  # fmt: skip
        return self.trial(range(len(self.requests)), planned)

    def nodes_of(self, trial: Trial) -> Iterator[WitnessNode]:
        """Yield the nodes of a trial with their types and variants."""
        for number, decision in zip(self.type_of, trial.decisions, strict=True):
            for variant, attempt in zip(
                self._variants_of_type(number), decision.attempts, strict=False
            ):
                for node in attempt.batch.nodes:
                    yield WitnessNode(number, variant, node.chosen)

    def _is_enough(self, trial: Trial) -> bool:
        is_best = not trial.is_short and trial.score[1] == self._requested - self.bound
        return is_best or self.is_spent

    def _orders(self) -> Iterator[Order]:
        alone = [self._most_alone[number] for number in self.type_of]
        yield from worthwhile_orders(self.requests, alone)
        count = len(self.requests)
        fits = math.factorial(min(count, 20)) * (count + self._requested)
        if fits <= self.budget.batch_fits // 2:
            yield from all_orders(self.requests)

    def _searched(self, trial: Trial) -> Trial:
        """Return the trial that a neighbourhood search comes to from another one."""
        first = self.requests[0]
        fixed = frozenset(
            number for number, one in zip(self.type_of, self.requests, strict=True)
            if one.group is not None
        )  # fmt: skip
        search = NeighbourhoodSearch(
            self.succession.current_view,
            self.types,
            self.variants,
            list(self.nodes_of(trial)),
            [one.most or 0 for one in self.types],
            self.least,
            fixed,
            self._fits_left,
            first.seed,
            self.succession.spending(self.requests),
        )
        nodes = search.run()
        self._fits_left = search.fits_left
        return self.realised(nodes) if search.score < trial.score else trial

    def _variants_of_type(self, number: int) -> list[int]:
        return [at for at, variant in enumerate(self.variants) if variant.node_type == number]

    def _shares(self, placed: list[int]) -> list[int]:
        """Return how many of the nodes placed each request gets: first what it must have."""
        left = list(placed)
        shares = [0] * len(self.requests)
        for wanted in ([one.required_count for one in self.requests],
                       [one.count for one in self.requests]):  # fmt: skip
            for position, number in enumerate(self.type_of):
                more = min(wanted[position] - shares[position], left[number])
                shares[position] += more
                left[number] -= more
        return shares

    def _classify(self) -> None:
        """Make one node type of requests that ask for equal nodes on the same pools."""
        known: dict[object, int] = {}
        view = self.succession.current_view
        for request in self.requests:
            rows = self.succession.eligible(request)
            key = (request.evaluation_key, rows.tobytes())
            number = known.setdefault(key, len(self.types))
            self.type_of.append(number)
            if number == len(self.types):
                self.types.append(NodeType.of(request, rows))
                self._most_alone.append(most_nodes_alone(view, request, rows))
        counts = self._sums([one.count for one in self.requests])
        self.types = [replace(one, most=most) for one, most in zip(self.types, counts, strict=True)]

    def _sums(self, numbers: Sequence[int]) -> list[int]:
        """Return the sums of numbers by request over the requests of each type."""
        sums = Counter[int]()
        for node_type, number in zip(self.type_of, numbers, strict=True):
            sums[node_type] += number
        return [sums[number] for number in range(len(self.types))]


def keep_explainable(decision: Decision, current: View) -> None:
    """Copy all that later nodes change of a decision that may be explained; else note that."""
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
