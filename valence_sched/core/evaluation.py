# SPDX-License-Identifier: Apache-2.0
"""Evaluation: the verdicts, scores and costs of all pools, and the context of a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from valence_sched.core.fit.fit import Fitter
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.view import Floats, Ints, Mask, View

#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, low is best.
COST_SCALE = 1_000_000
INFINITE_COST = np.iinfo(np.int64).max


@dataclass(slots=True)
class Evaluation:
    """The answers of every filter and weigher for every pool.

    ``filter_verdicts`` and ``weigher_scores`` (0..1) hold an array of pools for each filter and
    weigher; ``cost`` is the weighted sum of ``COST_SCALE × (1 - score)`` per pool,
    ``INFINITE_COST`` where a filter rejects.
    ``availability_readers`` names the plug-ins that read free capacity: depletion can change only
    their answers. ``group_state_readers`` names those that read the group state: a placed node can
    change their answers for any pool. ``failed_plugins`` are not called again: for one decision
    they fail throughout.
    """

    filter_verdicts: Sequence[Mask] | Mask
    weigher_scores: Sequence[Floats] | Floats
    cost: Ints
    notes: list[str] = field(default_factory=list)
    availability_readers: frozenset[str] = frozenset()
    failed_plugins: set[str] = field(default_factory=set)
    group_state_readers: frozenset[str] = frozenset()

    @property
    def verdicts(self) -> Mask:
        """The verdicts as one table, filters × pools, which may be written."""
        if not isinstance(self.filter_verdicts, np.ndarray):
            self.filter_verdicts = np.array(self.filter_verdicts, dtype=bool).reshape(
                len(self.filter_verdicts), len(self.cost)
            )
        return self.filter_verdicts

    @property
    def scores(self) -> Floats:
        """The scores as one table, weighers × pools, which may be written."""
        if not isinstance(self.weigher_scores, np.ndarray):
            size = (len(self.weigher_scores), len(self.cost))
            self.weigher_scores = np.array(self.weigher_scores, dtype=np.float64).reshape(size)
        return self.weigher_scores

    def scores_of(self, row: int) -> tuple[float, ...]:
        """Return the score of one pool by each weigher."""
        if isinstance(self.weigher_scores, np.ndarray):
            return tuple(self.weigher_scores[:, row].tolist())
        return tuple([float(scores[row]) for scores in self.weigher_scores])

    def copy(self) -> Evaluation:
        """Return an evaluation whose arrays can be changed without changing this one."""
        copied = self.with_rows(self.verdicts.copy(), self.scores.copy(), self.cost.copy())
        return copied.detached()

    def window(self, first: int, last: int) -> Evaluation:
        """Return rows ``[first, last)`` as windows on the same memory."""
        return self.with_rows(
            self.verdicts[:, first:last], self.scores[:, first:last], self.cost[first:last]
        )

    def select(self, rows: Ints) -> Evaluation:
        """Return a copy of these rows; notes and failed plug-ins are shared."""
        return self.with_rows(self.verdicts[:, rows], self.scores[:, rows], self.cost[rows])

    def write(self, rows: Ints, part: Evaluation) -> None:
        """Write verdicts, scores and costs over these rows."""
        self.verdicts[:, rows], self.scores[:, rows] = part.verdicts, part.scores
        self.cost[rows] = part.cost

    def with_rows(self, verdicts: Mask, scores: Floats, cost: Ints) -> Evaluation:
        """Return an evaluation of other rows; notes and failed plug-ins are shared."""
        return Evaluation(
            verdicts,
            scores,
            cost,
            self.notes,
            self.availability_readers,
            self.failed_plugins,
            self.group_state_readers,
        )

    def detached(self) -> Evaluation:
        """Return this evaluation with notes and failed plug-ins of its own."""
        self.notes, self.failed_plugins = list(self.notes), set(self.failed_plugins)
        return self


@dataclass(frozen=True, slots=True)
class EvaluationContext:
    """A snapshot, a request under a policy, their evaluation, and the fitter of the needs.

    With ``strict`` a plug-in that breaks its contract raises. ``other_nodes`` is how many nodes
    other requests ask for at the same time, which may take the blocks of an alternate.
    """

    view: View
    request: Request
    bound: BoundPolicy
    evaluation: Evaluation
    fitter: Fitter
    strict: bool = False
    other_nodes: int = 0

    def window(self, first: int, last: int, count: int) -> EvaluationContext:
        """Return the context of ``count`` nodes on rows ``[first, last)``: whole podms."""
        return replace(
            self,
            view=self.view.window(first, last),
            evaluation=self.evaluation.window(first, last),
            request=msgspec.structs.replace(self.request, count=count, alternates=0),
        )
