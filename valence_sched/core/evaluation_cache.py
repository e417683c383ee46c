# SPDX-License-Identifier: Apache-2.0
"""Evaluation cache: evaluations by key; only rows that changed since are evaluated again.

That is exact, because filters and weighers answer for each row by itself.
"""

from collections import OrderedDict, deque
from typing import Protocol

import msgspec
import numpy as np

from valence_sched.core.evaluation import Evaluation, EvaluationContext, evaluate
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.fit.spending import Spending
from valence_sched.core.policy import INFINITE_COST, BoundPolicy
from valence_sched.model.request import SCARCITY_PART, Mix, MixSupplies, Request
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.update import Splice
from valence_sched.view.view import View

MOST_EVALUATIONS = 64
MOST_MIXES = 16  # of which the scarcity is remembered
MOST_REQUESTS = 1024  # that are remembered with a completed mix
MOST_LAG = 32  # replaced podms after which evaluating all rows is as quick as catching up


class CachedEvaluation(msgspec.Struct):
    """An evaluation, and the version of the snapshot that it is of."""

    bound: BoundPolicy  # held, so that its id stays its own
    evaluation: Evaluation
    fitter: Fitter
    version: int


class CompletedMix:
    """A mix with what weighers need to know of all pools, as of a version of the snapshot.

    ``supplies`` are those of the pools of this snapshot, by the name of the weigher.
    """

    def __init__(self, bound: BoundPolicy, mix: Mix, view: View, version: int) -> None:
        self._bound = bound  # held, so that its id stays its own
        if mix.scarcity:
            mix = msgspec.structs.replace(mix, scarcity=())
        self.supplies = bound.mix_supplies(view, mix)
        self._mix = bound.completed_mix(mix, self.supplies)
        self.version = version
        self._requests: BoundedMemo[int, tuple[Request, Request]] = BoundedMemo(MOST_REQUESTS)

    def request(self, request: Request) -> Request:
        """Return a request with this mix, the same for the same request."""
        if not self._mix.scarcity:
            return request
        known = self._requests.get(id(request))
        if known is None or known[0] is not request:
            completed = msgspec.structs.replace(request, mix=self._mix)
            known = self._requests.store(id(request), (request, completed))
        return known[1]


class Snapshot(Protocol):
    """A View whose rows change; ``version`` counts the changes."""

    version: int
    view: View  # as it is now

    def uncached_view(self) -> View:
        """Return the View to evaluate all rows of."""

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int | None:
        """Evaluate again the rows that changed since; return how many.

        None where that does not pay: then all rows are evaluated.
        """


class EvaluationCache:
    """The latest evaluations of a snapshot, by policy and by what plug-ins read of a request."""

    def __init__(self, snapshot: Snapshot, most: int = MOST_EVALUATIONS) -> None:
        self._snapshot = snapshot
        self._most = most
        self._entries: OrderedDict[tuple[int, bytes], CachedEvaluation] = OrderedDict()
        self._mixes: dict[tuple[int, str], CompletedMix] = {}
        self.rows_evaluated = 0

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return what a decision on a sealed request is made from, as of now.

        Raises:
            PluginError: with ``strict``, the first plug-in that broke its contract.
        """
        mix = request.mix
        if bound.mix_completions and mix.shares and not mix.scarcity:
            request = self._completed_mix(request.mix, bound).request(request)
        key = (id(bound), request.evaluation_key)
        cached = self._entries.get(key)
        if cached is not None:
            self._entries.move_to_end(key)
        if cached is None or cached.version < self._snapshot.version:
            rows = None if cached is None else self._snapshot.catch_up(cached, request, strict)
            if cached is None or rows is None:
                view = self._snapshot.uncached_view()
                evaluation, rows = evaluate(view, request, bound, strict=strict), len(view)
                fitter = Fitter(request.needs, view.kinds, request.bonds, bound.policy.budget)
                cached = CachedEvaluation(bound, evaluation, fitter, self._snapshot.version)
            cached.version = self._snapshot.version
            self.rows_evaluated += rows
            self._entries[key] = cached
            if cached.evaluation.notes:  # a plug-in failed: it is called again next time
                del self._entries[key]
            elif len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return EvaluationContext(
            self._snapshot.view, request, bound, cached.evaluation, cached.fitter, strict,
            spending=Spending(bound.policy.budget),
        )  # fmt: skip

    def mix_supplies(self, mix: Mix, bound: BoundPolicy) -> dict[str, MixSupplies]:
        """Return what the pools supply to the shares of a mix, as they complete it themselves.

        Empty where no weigher has anything to complete.
        """
        if not bound.mix_completions or not mix.shares:
            return {}
        return self._completed_mix(mix, bound).supplies

    def _completed_mix(self, mix: Mix, bound: BoundPolicy) -> CompletedMix:
        """Return the shares of a mix with what weighers need to know of all pools about them.

        That is renewed after some changes, not after each: what was evaluated can then be used
        again. The request carries it, so that the decision can be repeated from the request.
        """
        key, version = (id(bound), mix.digest), self._snapshot.version
        completed = self._mixes.get(key)
        changes = version - completed.version if completed else 0
        if completed is None or (changes and changes >= len(self._snapshot.view) // SCARCITY_PART):
            view = self._snapshot.uncached_view()
            while len(self._mixes) >= MOST_MIXES:
                del self._mixes[next(iter(self._mixes))]
            completed = self._mixes[key] = CompletedMix(bound, mix, view, version)
        return completed


class SplicedSnapshot:
    """A View in which podms are replaced; an evaluation that was handed out stays what it was."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.version = 0
        self._splices: deque[Splice] = deque(maxlen=MOST_LAG)

    def replace(self, view: View, splice: Splice) -> None:
        """Put a newer View in the place of this one, and note which rows it replaces."""
        self.view = view
        self.version += 1
        self._splices.append(splice)

    def uncached_view(self) -> View:
        return self.view  # whatever it has memoised is of the rows that it has

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int | None:
        lag = self.version - cached.version
        if lag > MOST_LAG:
            return None
        splices = list(self._splices)[-lag:]
        evaluation = cached.evaluation
        verdicts, scores, cost = evaluation.verdicts, evaluation.scores, evaluation.cost
        is_new = np.zeros(len(cost), dtype=bool)
        for first, last, count in ((one.first, one.last, one.count) for one in splices):
            new = np.zeros((len(verdicts), count), dtype=bool), np.zeros((len(scores), count))
            verdicts = np.hstack((verdicts[:, :first], new[0], verdicts[:, last:]))
            scores = np.hstack((scores[:, :first], new[1], scores[:, last:]))
            cost = np.concatenate((cost[:first], np.full(count, INFINITE_COST), cost[last:]))
            is_new = np.concatenate((is_new[:first], np.ones(count, dtype=bool), is_new[last:]))
        cached.evaluation = evaluation.with_rows(verdicts, scores, cost).detached()
        dirty = np.flatnonzero(is_new)
        first, last = int(dirty[0]), int(dirty[-1]) + 1
        adjacent = last - first == len(dirty)
        changed = self.view.window(first, last) if adjacent else self.view.take(dirty)
        part = evaluate(changed, request, cached.bound, strict=strict)
        cached.evaluation.write(dirty, part)
        cached.evaluation.notes += part.notes
        return len(dirty)
