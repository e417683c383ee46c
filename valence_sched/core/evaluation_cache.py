# SPDX-License-Identifier: Apache-2.0
"""Judgements kept per question, so that only the rows that moved are judged again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np

from valence_sched.core.evaluate import judge
from valence_sched.core.evaluation import NEVER, Judgement
from valence_sched.core.fit.fit import Plan
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.update import Splice
from valence_sched.view.view import Ints, View

MOST_SPLICES = 10_000
MOST_LAG = 32  # splices after which judging all is as quick as taking them in

Key = tuple[bytes, bytes]


@dataclass(slots=True)
class _Entry:
    judgement: Judgement
    plan: Plan
    seen: int  # how many splices the judgement has taken in


class Kept:
    """The latest judgements; exact because filters and weighers are row-local."""

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._splices: list[Splice] = []
        self.rows_judged = 0

    def moved(self, splice: Splice) -> None:
        """Remember that a podm was replaced; what lags too far behind is judged afresh."""
        self._splices.append(splice)
        if len(self._splices) > MOST_SPLICES:
            self._splices.clear()
            self._entries.clear()

    def judgement(
        self, view: View, request: Request, bound: BoundPolicy, key: Key, *, strict: bool
    ) -> tuple[Judgement, Plan]:
        """Return the judgement of a question on this View, and its plan."""
        entry = self._entries.get(key)
        if entry is None or len(self._splices) - entry.seen > MOST_LAG:
            plan = Plan(request.needs, view.kinds, request.bonds)
            fresh = judge(view, request, bound, strict=strict)
            entry = _Entry(fresh, plan, len(self._splices))
            self.rows_judged += len(view)
            if not entry.judgement.notes:
                self._entries[key] = entry
                if len(self._entries) > self._most:
                    self._entries.popitem(last=False)
            return entry.judgement, entry.plan
        self._entries.move_to_end(key)
        if entry.seen < len(self._splices):
            dirty = self._take_in(entry)
            first, last = int(dirty[0]), int(dirty[-1]) + 1
            together = last - first == len(dirty)
            moved = view.window(first, last) if together else view.take(dirty)
            part = judge(moved, request, bound, strict=strict)
            entry.judgement.verdicts[:, dirty] = part.verdicts
            entry.judgement.scores[:, dirty] = part.scores
            entry.judgement.cost[dirty] = part.cost
            entry.judgement.notes += part.notes
            self.rows_judged += len(dirty)
            if part.notes:
                del self._entries[key]  # a plugin failed: ask again next time
        return entry.judgement, entry.plan

    def _take_in(self, entry: _Entry) -> Ints:
        """Make room in an entry for the rows that came since; return which are to be judged."""
        old = entry.judgement
        dirty = np.zeros(len(old.cost), dtype=bool)
        judged = old
        for splice in self._splices[entry.seen :]:
            first, last, count = splice.first, splice.last, splice.count
            dirty = np.concatenate((dirty[:first], np.ones(count, dtype=bool), dirty[last:]))
            verdicts = np.zeros((len(judged.verdicts), count), dtype=bool)
            scores = np.zeros((len(judged.scores), count))
            judged = Judgement(
                np.hstack((judged.verdicts[:, :first], verdicts, judged.verdicts[:, last:])),
                np.hstack((judged.scores[:, :first], scores, judged.scores[:, last:])),
                np.concatenate((judged.cost[:first], np.full(count, NEVER), judged.cost[last:])),
                list(old.notes),
                old.moving,
                set(old.failed),
                old.social,
            )
        entry.judgement, entry.seen = judged, len(self._splices)
        return np.flatnonzero(dirty)
