# SPDX-License-Identifier: Apache-2.0
"""Optimiser: the second opinion of HiGHS on a set cover that the own searches leave open.

HiGHS is optional (``valence-sched[optimiser]``) and imported when it is first needed. It counts
with floating-point numbers, so a cover that it finds is checked in whole numbers, and its word
that there is none is taken only where all numbers are so small that tolerances cannot matter. Its
work is bounded by counts: one thread, no clock.
"""

import functools
from types import ModuleType
from typing import Any

import numpy as np

from valence_sched.core.fit.layered_search import LayeredSearch

MOST_NODES = 200  # of its branch and bound
LARGEST_TRUSTED = 1_000_000  # amount up to which "there is none" is believed


@functools.cache
def _highs() -> ModuleType | None:
    try:
        import highspy
    except ImportError:
        return None
    return highspy


def is_installed() -> bool:
    """Return whether there is an optimiser to ask."""
    return _highs() is not None


def optimal_cover(search: LayeredSearch) -> tuple[list[int] | None, bool]:
    """Return the cheapest cover of a search's items in their order, and whether that is certain.

    None and True: there is none. None and False: it is still open.
    """
    highs = _highs()
    if highs is None or not search.within_range:
        return None, False
    solver = highs.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 0),
                        ("mip_rel_gap", 0.0), ("mip_abs_gap", 0.5),
                        ("mip_max_nodes", MOST_NODES)):  # fmt: skip
        solver.setOptionValue(name, value)
    solver.passModel(_model(highs, search))
    solver.run()
    status = solver.getModelStatus()
    if status == highs.HighsModelStatus.kInfeasible:
        largest = max(int(search.demand.max()), int(search.room.max(initial=0)))
        return None, largest <= LARGEST_TRUSTED
    values = np.array(solver.getSolution().col_value)
    if len(values) != len(search.prices) or not np.isfinite(values).all():
        return None, False
    counts = np.rint(values).astype(np.int64)
    if not search.is_cover(counts):
        return None, False
    return counts.tolist(), status == highs.HighsModelStatus.kOptimal


def _model(highs: ModuleType, search: LayeredSearch) -> Any:
    """Return the cover as a model: a column for each item, a row for each demand and cap."""
    size, demands, caps = len(search.prices), len(search.demand), len(search.room)
    model = highs.HighsLp()
    model.num_col_, model.num_row_ = size, demands + caps
    model.col_cost_ = search.prices.astype(np.float64)
    model.col_lower_ = np.zeros(size)
    model.col_upper_ = search.available.astype(np.float64)
    endless = np.full(max(demands, caps), highs.kHighsInf)
    model.row_lower_ = np.concatenate((search.demand, -endless[:caps]))
    model.row_upper_ = np.concatenate((endless[:demands], search.room))
    matrix = np.hstack((search.gives, search.uses)).astype(np.float64)
    model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    rows = matrix.T
    model.a_matrix_.start_ = np.concatenate(([0], np.cumsum((rows != 0).sum(axis=1))))
    model.a_matrix_.index_ = np.nonzero(rows)[1]
    model.a_matrix_.value_ = rows[np.nonzero(rows)]
    model.integrality_ = [highs.HighsVarType.kInteger] * size
    return model
