# SPDX-License-Identifier: Apache-2.0
"""What every filter and every weigher said of every pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from valence_sched.core.fit.fit import Plan
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.view import Floats, Ints, Mask, View

#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, low is best.
SCALE = 1_000_000
NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Judgement:
    """What every filter and weigher said of every pool.

    ``kept`` are the verdicts and ``marks`` the scores 0..1, for each filter and weigher an array
    of pools; ``cost`` is the weighted sum of ``SCALE × (1 - score)`` per pool, ``NEVER`` where a
    filter rejects.
    ``moving`` names the plugins that looked at what is free: depletion can change only these.
    ``social`` names those that looked at the company: a placed node can change these everywhere.
    Those that ``failed`` are not asked again: for one decision they fail throughout.
    """

    kept: Sequence[Mask] | Mask
    marks: Sequence[Floats] | Floats
    cost: Ints
    notes: list[str] = field(default_factory=list)
    moving: frozenset[str] = frozenset()
    failed: set[str] = field(default_factory=set)
    social: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> Mask:
        """The verdicts as one table, filters × pools, which may be written."""
        if not isinstance(self.kept, np.ndarray):
            self.kept = np.array(self.kept, dtype=bool).reshape(len(self.kept), len(self.cost))
        return self.kept

    @property
    def scores(self) -> Floats:
        """The scores as one table, weighers × pools, which may be written."""
        if not isinstance(self.marks, np.ndarray):
            size = (len(self.marks), len(self.cost))
            self.marks = np.array(self.marks, dtype=np.float64).reshape(size)
        return self.marks

    def marks_of(self, row: int) -> tuple[float, ...]:
        """Return the score of one pool by each weigher."""
        if isinstance(self.marks, np.ndarray):
            return tuple(self.marks[:, row].tolist())
        return tuple([float(marks[row]) for marks in self.marks])

    def copy(self) -> Judgement:
        """Return a judgement whose arrays can be changed without changing this one."""
        return Judgement(
            self.verdicts.copy(),
            self.scores.copy(),
            self.cost.copy(),
            list(self.notes),
            self.moving,
            set(self.failed),
            self.social,
        )

    def window(self, first: int, last: int) -> Judgement:
        """Return rows ``[first, last)`` as windows on the same memory."""
        return Judgement(
            self.verdicts[:, first:last],
            self.scores[:, first:last],
            self.cost[first:last],
            self.notes,
            self.moving,
            self.failed,
            self.social,
        )

    def part(self, rows: Ints) -> Judgement:
        """Return a copy of these rows; notes and who failed are shared."""
        return Judgement(
            self.verdicts[:, rows],
            self.scores[:, rows],
            self.cost[rows],
            self.notes,
            self.moving,
            self.failed,
            self.social,
        )


@dataclass(frozen=True, slots=True)
class Case:
    """A snapshot, a request under a policy, what was judged of it, and how its needs are fitted.

    With ``strict`` a plugin that breaks its contract raises. ``beside`` is how many nodes other
    requests ask for at the same time, which may take what an alternate would be made of.
    """

    view: View
    request: Request
    bound: BoundPolicy
    judgement: Judgement
    plan: Plan
    strict: bool = False
    beside: int = 0

    def window(self, first: int, last: int, count: int) -> Case:
        """Return the case of ``count`` nodes on rows ``[first, last)`` alone, whole podms only."""
        return replace(
            self,
            view=self.view.window(first, last),
            judgement=self.judgement.window(first, last),
            request=msgspec.structs.replace(self.request, count=count, alternates=0),
        )
