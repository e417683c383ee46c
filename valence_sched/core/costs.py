# SPDX-License-Identifier: Apache-2.0
"""Costs: one whole number per pool, the weighted sum of its scores; the lowest is best."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from valence_sched.core.evaluation import COST_SCALE, INFINITE_COST, Evaluation
from valence_sched.core.policy import BoundPolicy
from valence_sched.view.view import Floats, Ints, Mask, View


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
        evaluation.cost[:] = total.cost()
    evaluation.cost[(~passed).nonzero()[0]] = INFINITE_COST


class CostTotal:
    """The sum of ``weight × SCALE × (1 - score)``, added up weigher by weigher.

    Whole numbers far below 2**53, so that floats hold them exactly. The common factor of the
    weights is multiplied in at the end: most often all weights are equal.
    """

    def __init__(self, bound: BoundPolicy, size: int) -> None:
        self._common = math.gcd(*[weigher.weight for weigher in bound.weighers]) or 1
        self._worst = COST_SCALE * bound.worst_cost
        self._gain, self._gains = np.empty(size), np.empty(size)
        self._first = True

    @classmethod
    def of(cls, scores: Iterable[Floats], bound: BoundPolicy, size: int) -> CostTotal:
        """Return the total of the scores of all weighers."""
        total = cls(bound, size)
        for score, weigher in zip(scores, bound.weighers, strict=True):
            total.add(score, weigher.weight)
        return total

    def add(self, score: Floats, weight: int) -> None:
        """Add the scores of one weigher."""
        if score.strides == (0,) and len(
            score
        ):  # one number for all rows, as by numpy's broadcast_to
            self._worst -= weight * round(float(score[0]) * COST_SCALE)
            return
        gain = np.multiply(score, COST_SCALE, out=self._gains if self._first else self._gain)
        np.rint(gain, out=gain)
        if weight != self._common:
            np.multiply(gain, weight // self._common, out=gain)
        if not self._first:
            np.add(self._gains, gain, out=self._gains)
        self._first = False

    def cost(self) -> Floats:
        """Return the cost per pool; the total cannot be used afterwards."""
        if self._first:
            self._gains[:] = 0.0
        cost = np.multiply(self._gains, -self._common, out=self._gains)
        return np.add(cost, self._worst, out=cost)


def _write_weighted_costs(evaluation: Evaluation, bound: BoundPolicy, weights: Ints) -> None:
    costs = COST_SCALE - np.rint(evaluation.scores * COST_SCALE)
    whole = weights.sum(axis=0)
    mean = np.full(len(evaluation.cost), float(COST_SCALE))
    np.divide((weights * costs).sum(axis=0), whole, out=mean, where=whole > 0)
    evaluation.cost[:] = np.rint(mean * bound.worst_cost)
