# SPDX-License-Identifier: Apache-2.0
"""Evaluation: the verdicts, scores and costs of all pools, and the context of a decision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.fit.spending import Spending, Undecided
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.view import Floats, Ints, Mask, View

#: A score of 1 costs 0, a score of 0 costs this much: costs are whole numbers, low is best.
COST_SCALE = 1_000_000
INFINITE_COST = np.iinfo(np.int64).max
#: From this float on the last bit counts one: the bits of a sum with it are a whole number, read
#: several times as fast as floats are converted. Holds for whole numbers within ±2**51.
_UNIT_FLOAT = 1.5 * 2**52
_UNIT_BITS = int(np.float64(_UNIT_FLOAT).view(np.int64))


#: The verdicts, scores and costs of some rows, and which of these rows are meant.
Answers = tuple[Mask, Floats, Ints, slice]


class LateAnswers:
    """Verdicts and scores of whole podms that are written into an evaluation once they are read.

    Ranking reads costs alone: of most podms nobody reads more before their answers change again.
    ``podm_of`` has the podm of each row, and ``rows`` the rows of each podm.
    """

    __slots__ = ("_podm_of", "_rows", "by_podm")

    def __init__(self, podm_of: Sequence[int], rows: Sequence[slice]) -> None:
        self.by_podm: dict[int, Answers] = {}
        self._podm_of, self._rows = podm_of, rows

    def write(self, verdicts: Mask, scores: Floats) -> None:
        """Write all into the tables of an evaluation."""
        for podm, answers in self.by_podm.items():
            rows, part = self._rows[podm], answers[3]
            verdicts[:, rows], scores[:, rows] = answers[0][:, part], answers[1][:, part]
        self.by_podm.clear()

    def scores_of(self, row: int) -> tuple[float, ...] | None:
        """Return the scores of a row; None where the evaluation has them."""
        podm = self._podm_of[row]
        answers = self.by_podm.get(podm)
        if answers is None:
            return None
        first = answers[3].start or 0
        return tuple(answers[1][:, first + row - self._rows[podm].start].tolist())


class Evaluation(msgspec.Struct):
    """The answers of every filter and weigher for every pool.

    ``filter_verdicts`` and ``weigher_scores`` (0..1) hold an array of pools for each filter and
    weigher; ``cost`` is the weighted sum of ``COST_SCALE × (1 - score)`` per pool,
    ``INFINITE_COST`` where a filter rejects.
    ``availability_readers`` names the plug-ins that read free capacity: depletion can change only
    their answers. ``group_state_readers`` names those that read the group state: a placed node can
    change their answers for any pool. ``failed_plugins`` are not called again in one decision.
    ``late`` has verdicts and scores that both tables get when they are read.
    """

    filter_verdicts: Sequence[Mask] | Mask
    weigher_scores: Sequence[Floats] | Floats
    cost: Ints
    notes: list[str] = msgspec.field(default_factory=list)
    availability_readers: frozenset[str] = frozenset()
    failed_plugins: set[str] = msgspec.field(default_factory=set)
    group_state_readers: frozenset[str] = frozenset()
    late: LateAnswers | None = None

    @property
    def verdicts(self) -> Mask:
        """The verdicts as one table, filters × pools, which may be written."""
        if self.late is not None:
            self.late.write(self._verdict_table, self._score_table)
        return self._verdict_table

    @property
    def scores(self) -> Floats:
        """The scores as one table, weighers × pools, which may be written."""
        if self.late is not None:
            self.late.write(self._verdict_table, self._score_table)
        return self._score_table

    @property
    def _verdict_table(self) -> Mask:
        if not isinstance(self.filter_verdicts, np.ndarray):
            size = (len(self.filter_verdicts), len(self.cost))
            self.filter_verdicts = np.array(self.filter_verdicts, dtype=bool).reshape(size)
        return self.filter_verdicts

    @property
    def _score_table(self) -> Floats:
        if not isinstance(self.weigher_scores, np.ndarray):
            size = (len(self.weigher_scores), len(self.cost))
            self.weigher_scores = np.array(self.weigher_scores, dtype=np.float64).reshape(size)
        return self.weigher_scores

    def scores_of(self, row: int) -> tuple[float, ...]:
        if self.late is not None:
            scores = self.late.scores_of(row)
            if scores is not None:
                return scores
        if isinstance(self.weigher_scores, np.ndarray):
            return tuple(self.weigher_scores[:, row].tolist())
        return tuple([float(scores[row]) for scores in self.weigher_scores])

    def copy(self) -> Evaluation:
        """Return an evaluation whose arrays can be changed without changing this one."""
        copied = self.with_rows(self.verdicts.copy(), self.scores.copy(), self.cost.copy())
        return copied.detached()

    def window(self, first: int, last: int) -> Evaluation:
        rows = slice(first, last)
        return self.with_rows(self.verdicts[:, rows], self.scores[:, rows], self.cost[rows])

    def current_part(self, rows: Ints | slice) -> Evaluation:
        """Return the evaluation of some rows, of which none are late."""
        verdicts, scores = self._verdict_table[:, rows], self._score_table[:, rows]
        return self.with_rows(verdicts, scores, self.cost[rows])

    def select(self, rows: Ints) -> Evaluation:
        return self.with_rows(self.verdicts[:, rows], self.scores[:, rows], self.cost[rows])

    def write(self, rows: Ints | slice, part: Evaluation) -> None:
        """Write the evaluation of some rows, of which none are late."""
        self._verdict_table[:, rows] = part.verdicts
        self._score_table[:, rows] = part.scores
        self.cost[rows] = part.cost

    def with_rows(self, verdicts: Mask, scores: Floats, cost: Ints) -> Evaluation:
        """Return an evaluation of other rows; notes and failed plug-ins are shared."""
        readers = self.availability_readers, self.failed_plugins, self.group_state_readers
        return Evaluation(verdicts, scores, cost, self.notes, *readers)

    def detached(self) -> Evaluation:
        """Return this evaluation with notes and failed plug-ins of its own."""
        self.notes, self.failed_plugins = list(self.notes), set(self.failed_plugins)
        return self


@dataclass(slots=True)
class EvaluationContext:
    """A snapshot, a request under a policy, their evaluation, and the fitter of the needs.

    A context never changes. (It is not frozen because one is made for every decision, and a
    frozen one takes three times as long.)
    With ``strict`` a plug-in that breaks its contract raises. ``other_nodes`` is how many nodes
    other requests ask for at the same time, which may take the blocks of an alternate.
    ``spending`` is what the decision has left for questions that are hard to settle. ``planned``
    has the fits of the nodes by alternative, this one first, where a plan over several requests
    or nodes chose them: those are placed, and no others. None: the scheduler chooses. ``earlier``
    has the fits of nodes that the same decision placed here before, and ``turn`` counts its nodes
    that were placed before, here and in other zones.
    """

    view: View
    request: Request
    bound: BoundPolicy
    evaluation: Evaluation
    fitter: Fitter
    strict: bool = False
    other_nodes: int = 0
    spending: Spending = field(default_factory=Spending)
    planned: tuple[tuple[Fit, ...], ...] | None = None
    earlier: tuple[Fit, ...] = ()
    turn: int = 0

    def fit(self, view: View, row: int) -> Fit | Undecided | None:
        """Return what makes the node of the request on a row of a view of these podms."""
        return self.fitter.fit(view, row, self.spending)

    def with_others(self, nodes: int, spending: Spending | None) -> EvaluationContext:
        """Return the context of a part of a decision, which asks for ``nodes`` elsewhere."""
        return replace(self, other_nodes=nodes, spending=spending or self.spending)

    def window(self, first: int, last: int, count: int) -> EvaluationContext:
        """Return the context of ``count`` nodes on rows ``[first, last)``: whole podms."""
        return replace(
            self,
            view=self.view.window(first, last),
            evaluation=self.evaluation.window(first, last),
            request=msgspec.structs.replace(self.request, count=count, alternates=0),
            spending=Spending(self.bound.policy.budget),
        )


def row_weights(view: View, bound: BoundPolicy) -> Ints | None:
    """Return the weights, weighers × rows, where they differ between rows; else None."""
    if not bound.weights_vary:
        return None
    return np.array([weigher.weights(view) for weigher in bound.weighers])


def write_costs(
    evaluation: Evaluation,
    bound: BoundPolicy,
    weights: Ints | None = None,
    passed: Mask | None = None,
    total: CostTotal | None = None,
) -> None:
    """Write the costs of verdicts and scores into an evaluation.

    A caller that knows them passes the rows that pass all filters (``passed``) and the sum of the
    scores (``total``). With ``weights`` a row's cost is the mean by its own weights, scaled as all
    others are, so that rows compare: ``worst × sum(weight × cost) / sum(weight)``, a whole number.
    A row on which no weigher has any weight costs the most.
    """
    if passed is None:
        passed = np.logical_and.reduce(evaluation.verdicts)
    if weights is not None:
        _write_weighted_costs(evaluation, bound, weights)
    else:
        total = total or CostTotal.of(evaluation.weigher_scores, bound, len(evaluation.cost))
        total.write(evaluation.cost)
    evaluation.cost[(~passed).nonzero()[0]] = INFINITE_COST


class CostTotal:
    """The sum of ``weight × SCALE × (1 - score)``, added up weigher by weigher.

    Whole numbers far below 2**51, so that floats hold them exactly. The common factor of the
    weights is multiplied in at the end: most often all weights are equal.
    """

    def __init__(self, bound: BoundPolicy, size: int) -> None:
        self._common = math.gcd(*[weigher.weight for weigher in bound.weighers]) or 1
        self._worst = COST_SCALE * bound.worst_cost
        self._gains = np.empty(size)
        self._gain: Floats | None = None  # of the weighers after the first one
        self._first = True

    @classmethod
    def of(cls, scores: Iterable[Floats], bound: BoundPolicy, size: int) -> CostTotal:
        total = cls(bound, size)
        for score, weigher in zip(scores, bound.weighers, strict=True):
            total.add(score, weigher.weight)
        return total

    def add(self, score: Floats, weight: int) -> None:
        if score.strides == (0,) and len(score):  # one number, as by numpy's broadcast_to
            self._worst -= weight * round(float(score[0]) * COST_SCALE)
            return
        if not self._first and self._gain is None:
            self._gain = np.empty_like(self._gains)
        gain = np.multiply(score, COST_SCALE, out=self._gains if self._first else self._gain)
        np.rint(gain, out=gain)
        if weight != self._common:
            np.multiply(gain, weight // self._common, out=gain)
        if not self._first:
            np.add(self._gains, gain, out=self._gains)
        self._first = False

    def write(self, cost: Ints) -> None:
        """Write the cost per pool into an array; the total cannot be used afterwards."""
        if self._first:
            self._gains[:] = 0.0
        total = np.multiply(self._gains, -self._common, out=self._gains)
        np.add(total, self._worst + _UNIT_FLOAT, out=total)
        np.subtract(total.view(np.int64), _UNIT_BITS, out=cost)


def _write_weighted_costs(evaluation: Evaluation, bound: BoundPolicy, weights: Ints) -> None:
    costs = COST_SCALE - np.rint(evaluation.scores * COST_SCALE)
    whole = weights.sum(axis=0)
    mean = np.full(len(evaluation.cost), float(COST_SCALE))
    np.divide((weights * costs).sum(axis=0), whole, out=mean, where=whole > 0)
    evaluation.cost[:] = np.rint(mean * bound.worst_cost)
