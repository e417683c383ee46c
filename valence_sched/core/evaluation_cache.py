# SPDX-License-Identifier: Apache-2.0
"""Judgements kept per question, so that only the rows that moved are judged again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from valence_sched.core.evaluate import evaluate
from valence_sched.core.evaluation import INFINITE_COST, Evaluation
from valence_sched.core.fit.fit import Fitter
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.update import Splice
from valence_sched.view.view import Ints, View

MOST_SPLICES = 10_000
MOST_LAG = 32  # splices after which judging all is as quick as taking them in

CacheKey = tuple[bytes, bytes]


@dataclass(slots=True)
class _CachedEvaluation:
    evaluation: Evaluation
    fitter: Fitter
    splices_applied: int  # how many splices the judgement has taken in


class EvaluationCache:
    """The latest judgements; exact because filters and weighers are row-local."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._entries: OrderedDict[CacheKey, _CachedEvaluation] = OrderedDict()
        self._splices: list[Splice] = []
        self.rows_evaluated = 0

    def note_splice(self, splice: Splice) -> None:
        """Remember that a podm was replaced; what lags too far behind is judged afresh."""
        self._splices.append(splice)
        if len(self._splices) > MOST_SPLICES:
            self._splices.clear()
            self._entries.clear()

    def evaluation(
        self, view: View, request: Request, bound: BoundPolicy, key: CacheKey, *, strict: bool
    ) -> tuple[Evaluation, Fitter]:
        """Return the judgement of a question on this View, and its plan."""
        entry = self._entries.get(key)
        if entry is None or len(self._splices) - entry.splices_applied > MOST_LAG:
            plan = Fitter(request.needs, view.kinds, request.bonds)
            fresh = evaluate(view, request, bound, strict=strict)
            entry = _CachedEvaluation(fresh, plan, len(self._splices))
            self.rows_evaluated += len(view)
            if not entry.evaluation.notes:
                self._entries[key] = entry
                if len(self._entries) > self._most:
                    self._entries.popitem(last=False)
            return entry.evaluation, entry.fitter
        self._entries.move_to_end(key)
        if entry.splices_applied < len(self._splices):
            dirty = self._apply_splices(entry)
            first, last = int(dirty[0]), int(dirty[-1]) + 1
            together = last - first == len(dirty)
            moved = view.window(first, last) if together else view.take(dirty)
            part = evaluate(moved, request, bound, strict=strict)
            entry.evaluation.verdicts[:, dirty] = part.verdicts
            entry.evaluation.scores[:, dirty] = part.scores
            entry.evaluation.cost[dirty] = part.cost
            entry.evaluation.notes += part.notes
            self.rows_evaluated += len(dirty)
            if part.notes:
                del self._entries[key]  # a plugin failed: ask again next time
        return entry.evaluation, entry.fitter

    def _apply_splices(self, entry: _CachedEvaluation) -> Ints:
        """Make room in an entry for the rows that came since; return which are to be judged."""
        old = entry.evaluation
        dirty = np.zeros(len(old.cost), dtype=bool)
        judged = old
        for splice in self._splices[entry.splices_applied :]:
            first, last, count = splice.first, splice.last, splice.count
            dirty = np.concatenate((dirty[:first], np.ones(count, dtype=bool), dirty[last:]))
            verdicts = np.zeros((len(judged.verdicts), count), dtype=bool)
            scores = np.zeros((len(judged.scores), count))
            judged = Evaluation(
                np.hstack((judged.verdicts[:, :first], verdicts, judged.verdicts[:, last:])),
                np.hstack((judged.scores[:, :first], scores, judged.scores[:, last:])),
                np.concatenate(
                    (judged.cost[:first], np.full(count, INFINITE_COST), judged.cost[last:])
                ),
                list(old.notes),
                old.availability_readers,
                set(old.failed_plugins),
                old.group_state_readers,
            )
        entry.evaluation, entry.splices_applied = judged, len(self._splices)
        return np.flatnonzero(dirty)
