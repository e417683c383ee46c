# SPDX-License-Identifier: Apache-2.0
"""Ledger: a snapshot from which nodes are taken and given back, to decide many requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from valence_sched.core.evaluate import reevaluate
from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.evaluation_cache import CachedEvaluation, EvaluationCache
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import BoundPolicy
from valence_sched.errors import UsageError
from valence_sched.model.request import Request
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Ints, View

MOST_EVALUATIONS = 512  # evaluations that are remembered

UsageKey = tuple[int, tuple[int, ...], tuple[tuple[int, float], ...]]


class Ledger:
    """A snapshot that is used up and given back; the View that it began with is not touched.

    Evaluations are cached, and only the rows of podms that changed since are evaluated again. A
    context shows the ledger as it is when the context is made, so decide on it before the next
    node is taken.
    """

    def __init__(self, view: View, most: int = MOST_EVALUATIONS) -> None:
        self._snapshot = _UsedSnapshot(view)
        self._cache = EvaluationCache(self._snapshot, most)
        self._usage: Counter[UsageKey] = Counter()

    @property
    def view(self) -> View:
        """Return the View with what is free now."""
        return self._snapshot.view

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return what a decision on a sealed request is made from, as of now.

        Raises:
            PluginError: with ``strict``, the first plug-in that broke its contract.
        """
        return self._cache.context(request, bound, strict=strict)

    def take(self, fit: Fit) -> None:
        """Take the blocks and amounts of a fit."""
        self._snapshot.overlay.allocate(fit.row, fit.blocks, fit.grants)
        self._usage[self._usage_key(fit)] += 1
        self._snapshot.note_change(fit.row)

    def give_back(self, fit: Fit) -> None:
        """Give back what was taken.

        Raises:
            UsageError: it was not taken, or given back before.
        """
        key = self._usage_key(fit)
        if not self._usage[key]:
            podm = self.view.podm(fit.row).id
            raise UsageError(f"nothing to give back to pod manager {podm!r}: it was not taken")
        self._usage[key] -= 1
        self._snapshot.overlay.deallocate(fit.row, fit.blocks, fit.grants)
        self._snapshot.note_change(fit.row)

    def correct(self, podm: int, used: Mapping[int, float]) -> None:
        """Write down how much of some stocks is used, as their podm reports: by stock number."""
        overlay = self._snapshot.overlay
        first, _ = overlay.rows(podm)
        stocks = self.view.block_tables[podm].stocks
        more = [(number, amount - stocks[number].used) for number, amount in used.items()]
        changes = [(number, amount) for number, amount in more if amount]
        if changes:
            overlay.allocate(first, (), changes)
            self._snapshot.note_change(first)

    def _usage_key(self, fit: Fit) -> UsageKey:
        return int(self.view.podm_of[fit.row]), fit.blocks, fit.grants


class _UsedSnapshot:
    """An overlay whose podms change one by one; evaluations of it are changed in place."""

    def __init__(self, view: View) -> None:
        self.overlay = Overlay(view)
        self.version = 0
        self._last_change = np.zeros(len(view.podms), dtype=np.int64)  # its version, by podm

    @property
    def view(self) -> View:
        """Return the View with what is free now."""
        return self.overlay.view

    def note_change(self, row: int) -> None:
        """Note that more or less of the podm of a row is used."""
        self.version += 1
        self._last_change[self.view.podm_of[row]] = self.version

    def uncached_view(self) -> View:
        """Return all rows as they are now, in a View that has memoised nothing yet."""
        return self.overlay.window(0, len(self.view))

    def catch_up(self, cached: CachedEvaluation, request: Request, strict: bool) -> int:
        """Evaluate again the rows of podms that changed since; return how many."""
        dirty: Ints = (self._last_change > cached.version)[self.view.podm_of].nonzero()[0]
        part = cached.evaluation.select(dirty)
        every = len(dirty) == len(self.view)
        view = self.uncached_view() if every else self.view.take(dirty)
        view.precompute_free(request.needs)
        reevaluate(view, request, cached.bound, part, strict=strict)
        cached.evaluation.write(dirty, part)
        return len(dirty)
