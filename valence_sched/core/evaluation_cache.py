# SPDX-License-Identifier: Apache-2.0
"""Evaluation cache: evaluations by key, and the ledger that takes and releases nodes.

Only rows that changed since the last evaluation are evaluated again: filters and weighers evaluate
each row by itself.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from valence_sched.core.evaluation import Evaluation, EvaluationContext, evaluate, reevaluate
from valence_sched.core.fit.fit import Fit, Fitter, Spending
from valence_sched.core.policy import INFINITE_COST, BoundPolicy
from valence_sched.errors import UsageError
from valence_sched.model.request import SCARCITY_PART, Mix, MixSupplies, Request
from valence_sched.view.block_kinds import BoundedMemo
from valence_sched.view.builder import Splice
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import Ints, View

MOST_EVALUATIONS = 64
MOST_MIXES = 16  # mixes whose scarcity is remembered
MOST_REQUESTS = 1024  # requests remembered with a completed mix
MOST_LAG = 32  # the number of replaced podms at which evaluating all rows is as fast as an update


class CachedEvaluation(msgspec.Struct):
    """An evaluation, and the version of its snapshot."""

    bound: BoundPolicy  # referenced, so that no other object gets its id
    evaluation: Evaluation
    fitter: Fitter
    version: int


class CompletedMix:
    """A mix completed with the supplies of all pools, by weigher."""

    def __init__(self, bound: BoundPolicy, mix: Mix, view: View, version: int) -> None:
        self._bound = bound  # referenced, so that no other object gets its id
        if mix.scarcity:
            mix = msgspec.structs.replace(mix, scarcity=())
        self.supplies = bound.mix_supplies(view, mix)
        self._mix = bound.completed_mix(mix, self.supplies)
        self.version = version
        self._requests: BoundedMemo[int, tuple[Request, Request]] = BoundedMemo(MOST_REQUESTS)

    def request(self, request: Request) -> Request:
        """Return a request with this mix; repeated calls return the same object."""
        if not self._mix.scarcity:
            return request
        known = self._requests.get(id(request))
        if known is None or known[0] is not request:
            completed = msgspec.structs.replace(request, mix=self._mix)
            known = self._requests.store(id(request), (request, completed))
        return known[1]


class EvaluationCache:
    """The latest evaluations of a snapshot, by policy and by the fields that it reads."""

    def __init__(self, snapshot: "SplicedSnapshot | Ledger", most: int = MOST_EVALUATIONS) -> None:
        self._snapshot = snapshot
        self._most = most
        self._entries: OrderedDict[tuple[int, bytes], CachedEvaluation] = OrderedDict()
        self._mixes: dict[tuple[int, str], CompletedMix] = {}
        #: The fitters, which remember the fits of equal pools, by all that they depend on.
        self._fitters: BoundedMemo[tuple[object, ...], Fitter] = BoundedMemo(most)
        self.rows_evaluated = 0

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return the present context of a decision; PluginError as for :func:`evaluate`."""
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
                needed = request.needs, view.kinds, request.topology, bound.policy.budget
                fitter = self._fitters.get(needed) or self._fitters.store(needed, Fitter(*needed))
                cached = CachedEvaluation(bound, evaluation, fitter, self._snapshot.version)
            cached.version = self._snapshot.version
            self.rows_evaluated += rows
            self._entries[key] = cached
            if cached.evaluation.notes:  # a plug-in failed: call it again next time
                del self._entries[key]
            elif len(self._entries) > self._most:
                self._entries.popitem(last=False)
        return EvaluationContext(
            self._snapshot.view,
            request,
            bound,
            cached.evaluation,
            cached.fitter,
            strict,
            spending=Spending(bound.policy.budget),
        )

    def mix_supplies(self, mix: Mix, bound: BoundPolicy) -> dict[str, MixSupplies]:
        """Return the nodes that the pools can supply for each share of a mix, by weigher."""
        if not bound.mix_completions or not mix.shares:
            return {}
        return self._completed_mix(mix, bound).supplies

    def _completed_mix(self, mix: Mix, bound: BoundPolicy) -> CompletedMix:
        """Return a mix completed with the supplies of all pools, renewed after enough changes.

        The completed mix becomes part of the request, so that the decision can be repeated.
        """
        key, version = (id(bound), mix.digest), self._snapshot.version
        completed = self._mixes.get(key)
        changes = version - completed.version if completed else 0
        if completed is None or (changes and changes >= len(self._snapshot.view) // SCARCITY_PART):
            while len(self._mixes) >= MOST_MIXES:
                del self._mixes[next(iter(self._mixes))]
            view = self._snapshot.uncached_view()
            completed = self._mixes[key] = CompletedMix(bound, mix, view, version)
        return completed


class SplicedSnapshot:
    """A View in which podms are replaced; evaluations that were returned do not change.

    ``version`` counts the replaced podms.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.version = 0
        self._splices: deque[Splice] = deque(maxlen=MOST_LAG)

    def replace(self, view: View, splice: Splice) -> None:
        """Replace the View by a newer View, and note the replaced rows."""
        self.view = view
        self.version += 1
        self._splices.append(splice)

    def uncached_view(self) -> View:
        return self.view

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int | None:
        """Evaluate the changed rows again; None if evaluating all rows is faster."""
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
        changed.precompute_free(request.needs)
        part = evaluate(changed, request, cached.bound, strict=strict)
        cached.evaluation.write(dirty, part)
        cached.evaluation.notes += part.notes
        # some plug-ins read free amounts only of podms with several pools: there may be none before
        cached.evaluation.availability_readers |= part.availability_readers
        cached.evaluation.group_state_readers |= part.group_state_readers
        return len(dirty)


MOST_LEDGER_EVALUATIONS = 512  # evaluations that are remembered
UsageKey = tuple[int, tuple[int, ...], tuple[tuple[int, float], ...]]


class Ledger:
    """A snapshot in which nodes take and release hardware; its first View is unchanged.

    Evaluations change in place, so a context is valid only until the next node is taken.
    """

    def __init__(self, view: View, most: int = MOST_LEDGER_EVALUATIONS) -> None:
        self._overlay = Overlay(view)
        self.view = self._overlay.view  # with the present free hardware
        self.version = 0
        self._cache = EvaluationCache(self, most)
        self._usage: dict[UsageKey, int] = {}
        self._podm_of: list[int] = view.podm_of.tolist()  # a list is faster for single elements
        self._whole: View | None = None  # all rows in their present state
        # the version of the last change, by podm
        self._last_change = np.zeros(len(view.podms), dtype=np.int64)

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return the context of a decision on a sealed request.

        PluginError: with ``strict``, a plug-in broke its contract.
        """
        return self._cache.context(request, bound, strict=strict)

    def take(self, fit: Fit) -> None:
        """Take the blocks and amounts of a fit, until :meth:`release`."""
        self._overlay.allocate_each([(fit.row, fit.blocks, fit.grants)])
        key = self._usage_key(fit)
        self._usage[key] = self._usage.get(key, 0) + 1
        self._note_change(key[0])

    def release(self, fit: Fit) -> None:
        """Release a fit that was taken; UsageError if it was not taken, or already released."""
        key = self._usage_key(fit)
        count = self._usage.pop(key, 0)
        if not count:
            podm = self.view.podm(fit.row).id
            raise UsageError(f"nothing to release on pod manager {podm!r}: it was not taken")
        if count > 1:
            self._usage[key] = count - 1
        self._overlay.deallocate(fit.row, fit.blocks, fit.grants)
        self._note_change(key[0])

    def remove_node(self, podm: int, blocks: Iterable[int]) -> None:
        """Free the blocks, by number, of a node that the inventory lists on a podm."""
        self._overlay.remove_node(podm, blocks)
        self._note_change(podm)

    def close(self, podm: int) -> Undo:
        """Close a podm to all nodes; return the function that undoes this."""
        undo = self._overlay.close(podm)
        self._note_change(podm)

        def reopen() -> None:
            undo()
            self._note_change(podm)

        return reopen

    def correct(self, podm: int, used: Mapping[int, float]) -> None:
        """Set the used amounts of some stocks, by stock number, as their podm reports them."""
        first, _ = self._overlay.rows(podm)
        stocks = self.view.block_tables[podm].stocks
        more = [(number, amount - stocks[number].used) for number, amount in used.items()]
        changes = [(number, amount) for number, amount in more if amount]
        if changes:
            self._overlay.allocate(first, (), changes)
            self._note_change(podm)

    def _usage_key(self, fit: Fit) -> UsageKey:
        return self._podm_of[fit.row], fit.blocks, fit.grants

    def _note_change(self, podm: int) -> None:
        self.version += 1
        self._last_change[podm] = self.version

    def uncached_view(self) -> View:
        if self._whole is None:
            self._whole = self._overlay.whole_window()
        self._whole.invalidate_free()
        return self._whole

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int:
        """Evaluate the rows of the podms that changed after the cached evaluation."""
        podms = (self._last_change > cached.version).nonzero()[0]
        if not len(podms):
            return 0
        rows: Ints | slice = slice(None)
        if len(podms) == len(self.view.podms):
            view = self.uncached_view()
        elif len(podms) == 1:  # a window is faster than a copy
            rows = slice(*self._overlay.rows(podms[0]))
            view = self.view.window(rows.start, rows.stop)
        else:
            view = self.view.take_podms(podms)
            rows = view.origin.rows if view.origin else rows
        view.precompute_free(request.needs)
        part = cached.evaluation.select(rows)
        reevaluate(view, request, cached.bound, part, strict=strict)
        cached.evaluation.write(rows, part)
        return len(view)
