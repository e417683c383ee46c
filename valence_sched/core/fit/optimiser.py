# SPDX-License-Identifier: Apache-2.0
"""Optimiser: the second opinion of HiGHS on a set cover that the own searches leave open.

HiGHS is optional (``valence-sched[solver]``) and imported when it is first needed. It counts
with floating-point numbers, so a cover that it finds is checked in whole numbers, and its word
that there is none is taken only where all numbers are so small that tolerances cannot matter. Its
work is bounded by counts: one thread, no clock.
"""

from types import ModuleType
from typing import Any

import numpy as np

from valence_sched.core.fit.cover_table import CoverTable
from valence_sched.core.optimise.highs import optional_highs

#: Of HiGHS: one thread and no clock, prices are whole, and so many nodes of its branch and bound.
OPTIONS = {
    "output_flag": False,
    "threads": 1,
    "random_seed": 0,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.5,
    "mip_max_nodes": 200,
}
LARGEST_TRUSTED = 1_000_000  # amount up to which "there is none" is believed


def is_installed() -> bool:
    """Return whether there is an optimiser to ask."""
    return optional_highs() is not None


def optimal_cover(table: CoverTable) -> tuple[list[int] | None, bool]:
    """Return the cheapest cover of a table's items in their order, and whether that is certain.

    None and True: there is none. None and False: it is still open.
    """
    highs = optional_highs()
    if highs is None:
        return None, False
    solver = highs.Highs()
    for name, value in OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(highs, table))
    solver.run()
    status = solver.getModelStatus()
    if status == highs.HighsModelStatus.kInfeasible:
        largest = max(int(table.demand.max()), int(table.room.max(initial=0)))
        return None, largest <= LARGEST_TRUSTED
    values = np.array(solver.getSolution().col_value)
    if len(values) != len(table.prices) or not np.isfinite(values).all():
        return None, False
    counts = np.rint(values).astype(np.int64)
    if not table.is_cover(counts):
        return None, False
    return counts.tolist(), status == highs.HighsModelStatus.kOptimal


def _model(highs: ModuleType, table: CoverTable) -> Any:
    """Return the cover as a model: a column for each item, a row for each demand and cap."""
    size, demands, caps = len(table.prices), len(table.demand), len(table.room)
    model = highs.HighsLp()
    model.num_col_, model.num_row_ = size, demands + caps
    model.col_cost_ = table.prices.astype(np.float64)
    model.col_lower_ = np.zeros(size)
    model.col_upper_ = table.available.astype(np.float64)
    endless = np.full(max(demands, caps), highs.kHighsInf)
    model.row_lower_ = np.concatenate((table.demand, -endless[:caps]))
    model.row_upper_ = np.concatenate((endless[:demands], table.room))
    matrix = np.hstack((table.gives, table.uses)).astype(np.float64)
    model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    rows = matrix.T
    model.a_matrix_.start_ = np.concatenate(([0], np.cumsum((rows != 0).sum(axis=1))))
    model.a_matrix_.index_ = np.nonzero(rows)[1]
    model.a_matrix_.value_ = rows[np.nonzero(rows)]
    model.integrality_ = [highs.HighsVarType.kInteger] * size
    return model
