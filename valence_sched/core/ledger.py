# SPDX-License-Identifier: Apache-2.0
"""The books of one snapshot: nodes are taken and given back, and many requests are judged of it."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from valence_sched.core.evaluate import evaluate, reevaluate
from valence_sched.core.evaluation import Evaluation, EvaluationContext
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.policy import BoundPolicy
from valence_sched.errors import UsageError
from valence_sched.model.request import Request
from valence_sched.view.overlay import Overlay
from valence_sched.view.view import Ints, View

MOST_ENTRIES = 512  # questions whose judgements are remembered

LedgerKey = tuple[int, bytes]
UsageKey = tuple[int, tuple[int, ...], tuple[tuple[int, float], ...]]


@dataclass(slots=True)
class _LedgerEntry:
    bound: BoundPolicy  # held, so that its id stays its own
    evaluation: Evaluation
    fitter: Fitter
    last_move: int  # the last move that the judgement has taken in


class Ledger:
    """A snapshot that is used up and given back; the View that it began with is not touched.

    What was judged is kept per question, and only the rows of podms that moved since are judged
    again: exact, because filters and weighers are row-local. A case shows the books as they are
    when it is made, so decide on it before the next node is taken.
    """

    def __init__(self, view: View, most: int = MOST_ENTRIES) -> None:
        self._overlay = Overlay(view)
        self._most = most
        self._entries: OrderedDict[LedgerKey, _LedgerEntry] = OrderedDict()
        self._moves = 0
        self._last_move = np.zeros(len(view.podms), dtype=np.int64)  # the last move of each podm
        self._usage: Counter[UsageKey] = Counter()

    @property
    def view(self) -> View:
        """Return what is left."""
        return self._overlay.view

    def context(
        self, request: Request, bound: BoundPolicy, *, strict: bool = False
    ) -> EvaluationContext:
        """Return what a decision on a sealed request is made from, as of now.

        Raises:
            PluginError: with ``strict``, the first plugin that broke its contract.
        """
        key = (id(bound), request.evaluation_key)
        entry = self._entries.get(key)
        if entry is None:
            judgement = evaluate(self._rows(None), request, bound, strict=strict)
            plan = Fitter(request.needs, self.view.kinds, request.bonds)
            entry = _LedgerEntry(bound, judgement, plan, self._moves)
            if not judgement.notes:
                self._entries[key] = entry
                if len(self._entries) > self._most:
                    self._entries.popitem(last=False)
            return EvaluationContext(self.view, request, bound, judgement, plan, strict)
        self._entries.move_to_end(key)
        if entry.last_move < self._moves:
            self._refresh(entry, request, strict)
            if entry.evaluation.notes:
                del self._entries[key]  # a plugin failed: ask again next time
        return EvaluationContext(self.view, request, bound, entry.evaluation, entry.fitter, strict)

    def take(self, fit: Fit) -> None:
        """Take the blocks and amounts of a fit."""
        self._overlay.allocate(fit.row, fit.blocks, fit.grants)
        self._usage[self._usage_key(fit)] += 1
        self._note_move(fit.row)

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
        self._overlay.deallocate(fit.row, fit.blocks, fit.grants)
        self._note_move(fit.row)

    def correct(self, podm: int, used: Mapping[int, float]) -> None:
        """Write down how much of some stocks is used, as their podm tells: by stock number."""
        first, _ = self._overlay.rows(podm)
        stocks = self.view.block_tables[podm].stocks
        more = [(number, amount - stocks[number].used) for number, amount in used.items()]
        moved = [(number, amount) for number, amount in more if amount]
        if moved:
            self._overlay.allocate(first, (), moved)
            self._note_move(first)

    def _usage_key(self, fit: Fit) -> UsageKey:
        return int(self.view.podm_of[fit.row]), fit.blocks, fit.grants

    def _note_move(self, row: int) -> None:
        self._moves += 1
        self._last_move[self.view.podm_of[row]] = self._moves

    def _refresh(self, entry: _LedgerEntry, request: Request, strict: bool) -> None:
        """Judge again what moved since the entry was last asked for."""
        dirty = (self._last_move > entry.last_move)[self.view.podm_of].nonzero()[0]
        mine = entry.evaluation
        part = mine.select(dirty)
        now = self._rows(dirty)
        now.precompute_free(request.needs)
        reevaluate(now, request, entry.bound, part, strict=strict)
        mine.verdicts[:, dirty], mine.scores[:, dirty] = part.verdicts, part.scores
        mine.cost[dirty] = part.cost
        entry.last_move = self._moves

    def _rows(self, rows: Ints | None) -> View:
        """Return rows as they are now, all if None, in a View that nothing was kept of yet."""
        if rows is None or len(rows) == len(self.view):
            return self._overlay.window(0, len(self.view))
        return self.view.take(rows)
