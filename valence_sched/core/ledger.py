# SPDX-License-Identifier: Apache-2.0
"""Ledger: a snapshot from which nodes are taken and given back, to decide many requests."""

from collections.abc import Iterable, Mapping

import numpy as np

from valence_sched.core.evaluation import EvaluationContext, reevaluate
from valence_sched.core.evaluation_cache import CachedEvaluation, EvaluationCache
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import BoundPolicy
from valence_sched.errors import UsageError
from valence_sched.model.request import Request
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View

MOST_EVALUATIONS = 512  # evaluations that are remembered
UsageKey = tuple[int, tuple[int, ...], tuple[tuple[int, float], ...]]


class Ledger:
    """A snapshot that is used up and given back; the View that it began with is not touched.

    Evaluations are cached, and only the rows of podms that changed since are evaluated again. A
    context shows the ledger as it is when made, so decide on it before the next node is taken.
    """

    def __init__(self, view: View, most: int = MOST_EVALUATIONS) -> None:
        self._snapshot = _UsedSnapshot(view)
        self.view = self._snapshot.view  # with what is free now
        self._cache = EvaluationCache(self._snapshot, most)
        self._usage: dict[UsageKey, int] = {}
        self._podm_of: list[int] = view.podm_of.tolist()  # quicker to look up one by one

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return what a decision on a sealed request is made from; errors as for the cache."""
        return self._cache.context(request, bound, strict=strict)

    def take(self, fit: Fit) -> None:
        self._snapshot.overlay.allocate_each([(fit.row, fit.blocks, fit.grants)])
        key = self._usage_key(fit)
        self._usage[key] = self._usage.get(key, 0) + 1
        self._snapshot.note_change(key[0])

    def give_back(self, fit: Fit) -> None:
        """Give back what was taken; UsageError if it was not taken, or given back before."""
        key = self._usage_key(fit)
        count = self._usage.pop(key, 0)  # what nobody has is forgotten: there is ever more of it
        if not count:
            podm = self.view.podm(fit.row).id
            raise UsageError(f"nothing to give back to pod manager {podm!r}: it was not taken")
        if count > 1:
            self._usage[key] = count - 1
        self._snapshot.overlay.deallocate(fit.row, fit.blocks, fit.grants)
        self._snapshot.note_change(key[0])

    def remove_node(self, podm: int, blocks: Iterable[int]) -> None:
        """Free the blocks of a node that the inventory has on a podm, by block number."""
        self._snapshot.overlay.remove_node(podm, blocks)
        self._snapshot.note_change(podm)

    def close(self, podm: int) -> Undo:
        """Leave nothing free on a podm; return what makes it as it is now."""
        undo = self._snapshot.overlay.close(podm)
        self._snapshot.note_change(podm)

        def reopen() -> None:
            undo()
            self._snapshot.note_change(podm)

        return reopen

    def correct(self, podm: int, used: Mapping[int, float]) -> None:
        """Write down how much of some stocks is used, as their podm reports: by stock number."""
        overlay = self._snapshot.overlay
        first, _ = overlay.rows(podm)
        stocks = self.view.block_tables[podm].stocks
        more = [(number, amount - stocks[number].used) for number, amount in used.items()]
        changes = [(number, amount) for number, amount in more if amount]
        if changes:
            overlay.allocate(first, (), changes)
            self._snapshot.note_change(podm)

    def _usage_key(self, fit: Fit) -> UsageKey:
        return self._podm_of[fit.row], fit.blocks, fit.grants


class _UsedSnapshot:
    """An overlay whose podms change one by one; evaluations of it are changed in place."""

    def __init__(self, view: View) -> None:
        self.overlay = Overlay(view)
        self.view = self.overlay.view
        self.version = 0
        self.overlay.remember_tables()
        self._whole: View | None = None  # all rows, as they are at any time
        self._evaluated = False  # since what no node changes was last remembered
        self._last_change = np.zeros(len(view.podms), dtype=np.int64)  # its version, by podm

    def note_change(self, podm: int) -> None:
        self.version += 1
        self._last_change[podm] = self.version

    def uncached_view(self) -> View:
        if self._whole is None:
            self._whole = self.overlay.whole_window()
        self._whole.forget_changes()
        self._evaluated = True
        return self._whole

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int:
        """Evaluate the rows of the podms that changed since."""
        if self._evaluated and self._whole is not None:
            self.overlay.remember_fixed(self._whole)
            self._evaluated = False
        rows = np.flatnonzero((self._last_change > cached.version)[self.view.podm_of])
        if not len(rows):
            return 0
        every = len(rows) == len(self.view)
        view = self.uncached_view() if every else self.view.take_counts(rows)
        view.precompute_free(request.needs)
        part = cached.evaluation.select(rows)
        reevaluate(view, request, cached.bound, part, strict=strict)
        cached.evaluation.write(rows, part)
        return len(rows)
