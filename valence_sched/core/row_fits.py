# SPDX-License-Identifier: Apache-2.0
"""Row fits: which rows make a node as a decision left them, without which blocks those are."""

from __future__ import annotations

import functools
from typing import Literal

import numpy as np

from valence_sched.core.batch import Batch
from valence_sched.core.evaluation import INFINITE_COST, EvaluationContext
from valence_sched.core.fit.fit import Fit

MIN_ROWS = 64  # that pass all filters, from which on it pays to settle them together

RowFit = Literal["fits", "none", "undecided"]


class RowFits:
    """Says of rows that pass every filter whether they make the next node of a batch.

    Of many rows at once where their fit is a cover of blocks alone, else one by one. Rows that the
    batch has left open are undecided.
    """

    def __init__(self, context: EvaluationContext, batch: Batch) -> None:
        self._context, self._batch = context, batch

    def of(self, row: int) -> RowFit:
        """Return whether the blocks of a row make the node, whatever the filters say."""
        known = self._known.get(row)
        if known is None:
            fit = self._context.fit(self._batch.view, row)
            known = "none" if fit is None else "fits" if isinstance(fit, Fit) else "undecided"
            self._known[row] = known
        return known

    @functools.cached_property
    def _known(self) -> dict[int, RowFit]:
        """What is known by row: at first what is settled for all rows together."""
        passing = (self._batch.evaluation.cost != INFINITE_COST).nonzero()[0]
        if len(passing) < MIN_ROWS or not self._context.fitter.covers_blocks_alone:
            return {}
        from valence_sched.core.fit.pool_covers import PoolCovers  # only for many rows

        has_cover, known = PoolCovers(self._context.fitter, self._batch.view).settle(passing)
        left = known & ~np.isin(passing, list(self._batch.undecided_rows))
        rows, fits = passing[left].tolist(), has_cover[left].tolist()
        return {row: "fits" if fit else "none" for row, fit in zip(rows, fits, strict=True)}
