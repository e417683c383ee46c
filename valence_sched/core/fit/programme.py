# SPDX-License-Identifier: Apache-2.0
"""Programme: a linear programme, with whole or real columns, that HiGHS maximises.

The work is bounded by counts: one thread, a fixed seed, so many nodes of the branch and bound, so
much work between them, no clock. Equal programmes get equal answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.model.request import MAX_NODES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

INFINITY = math.inf
ROUNDING = 1e-4  # by which the solver's floating-point bound may be below the true one
RELATIVE_ROUNDING = 1e-6

#: The work of HiGHS in units of about a microsecond, measured: of a round of cuts at the root, of a
#: node of the branch and bound, and of a simplex iteration, beside what depends on the entries.
ROOT_WORK, NODE_WORK, ITERATION_WORK = 800, 300, 30


@dataclass(frozen=True, slots=True)
class Effort:
    """How much the solver may do: nodes of the branch and bound, and the relative gap to leave.

    A model that is not exact is worth ``relaxed_nodes``. Of a programme with more than
    ``most_columns`` only the linear relaxation is solved. ``work`` bounds that of a whole
    programme.
    """

    nodes: int = 500
    work: float = INFINITY
    relaxed_nodes: int = 1
    gap: float = 0.0
    most_columns: int = 20_000

    def on(self, *, exact: bool) -> Effort:
        """Return the effort that a model is worth."""
        return self if exact else replace(self, nodes=min(self.nodes, self.relaxed_nodes))


DEFAULT_EFFORT = Effort()


@dataclass(slots=True)
class ProgrammePart:
    """Columns and rows that belong together, numbered from 0; they can be added several times.

    ``entries`` are ``(row, column, coefficient)``; a row has a least and a largest value.
    """

    upper: list[float] = field(default_factory=list)
    lower_rows: list[float] = field(default_factory=list)
    upper_rows: list[float] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)

    def column(self, upper: float = INFINITY) -> int:
        """Add a column from 0 to ``upper``; return its number."""
        self.upper.append(upper)
        return len(self.upper) - 1

    def row(
        self,
        terms: list[tuple[int, float]],
        lower: float = -INFINITY,
        upper: float = INFINITY,
    ) -> int:
        """Add a row over ``(column, coefficient)``; return its number."""
        number = len(self.lower_rows)
        self.lower_rows.append(lower)
        self.upper_rows.append(upper)
        self.entries += [(number, column, value) for column, value in terms]
        return number


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found: the values of the columns, None for none, and a proven bound.

    ``duals`` are the prices of the rows, of a linear programme only. It is ``optimal`` if no other
    is better, and cost so much ``work``.
    """

    values: Floats | None
    objective: float
    bound: float
    feasible: bool
    duals: Floats | None = None
    optimal: bool = False
    work: int = 0

    @property
    def whole_bound(self) -> int:
        """Return the bound of an objective that is a number of nodes; 0 where it is infeasible."""
        return MAX_NODES if self.bound > MAX_NODES else math.floor(max(self.bound, 0.0) + ROUNDING)


class Programme:
    """Maximise the sum of ``cost × column`` within the rows."""

    def __init__(self) -> None:
        self._columns = self._rows = 0
        self._upper: list[Floats] = []
        self._limits: list[tuple[Floats, Floats]] = []
        self._entries: list[Floats] = []  # row, column, coefficient
        self._cost: dict[int, float] = {}

    def __len__(self) -> int:
        return self._columns

    def add(self, part: ProgrammePart, times: int = 1) -> int:
        """Add a part; return the number of its first column.

        ``times`` equal parts become one of so many times the room: of a relaxation the same.
        """
        first = self._columns
        self._upper.append(np.array(part.upper, dtype=np.float64) * times)
        self._limits.append((np.array(part.lower_rows) * times, np.array(part.upper_rows) * times))
        entries = np.array(part.entries, dtype=np.float64).reshape(-1, 3)
        self._entries.append(entries + np.array((self._rows, first, 0.0)))
        self._columns += len(part.upper)
        self._rows += len(part.lower_rows)
        return first

    def column(self) -> int:
        """Add a column by itself, without a largest value; return its number."""
        part = ProgrammePart()
        part.column()
        return self.add(part)

    def row(
        self, terms: list[tuple[int, float]], lower: float = -INFINITY, upper: float = INFINITY
    ) -> None:
        """Add a row over columns of any parts."""
        part = ProgrammePart()
        part.row(terms, lower, upper)
        columns = self._columns
        self._columns = 0
        self.add(part)
        self._columns = columns

    def set_cost(self, column: int, cost: float) -> None:
        """Set what one of a column adds to the objective."""
        self._cost[column] = cost

    def set_costs(self, costs: dict[int, float]) -> None:
        """Set the whole objective, in place of the one before."""
        self._cost = dict(costs)

    def solve(
        self, effort: Effort = DEFAULT_EFFORT, *, whole: bool, start: Sequence[int] | None = None
    ) -> Solution:
        """Return the best solution found and the bound that is proven.

        ``start`` is a solution that is known.
        """
        import highspy  # a program that decides nothing hard does not wait for it

        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 0),
                            ("solver", "choose" if whole else "ipm"),
                            ("mip_rel_gap", effort.gap), ("mip_abs_gap", 1.0 - 2 * ROUNDING),
                            ("mip_max_nodes", effort.nodes)):  # fmt: skip
            solver.setOptionValue(name, value)
        solver.passModel(self._model(highspy, whole))
        if start is not None:
            known = highspy.HighsSolution()
            known.col_value = [float(value) for value in start]
            solver.setSolution(known)
        entries = sum(map(len, self._entries))
        roots = nodes = 0

        def check(_kind: Any, _message: str, seen: Any, answer: Any, _data: Any) -> None:
            nonlocal roots, nodes
            roots, nodes = roots + (not seen.mip_node_count), nodes + bool(seen.mip_node_count)
            work = roots * (ROOT_WORK + 10 * entries) + nodes * (NODE_WORK + entries)
            answer.user_interrupt = least_work(entries) + work > effort.work

        if whole and effort.work < INFINITY:
            solver.setCallback(check, None)
            solver.startCallback(highspy.cb.HighsCallbackType.kCallbackMipInterrupt)
        solver.run()
        iterations = max(0, solver.getInfo().simplex_iteration_count)
        work = least_work(entries) + roots * ROOT_WORK + nodes * NODE_WORK
        work += iterations * (ITERATION_WORK + entries // 12)
        return replace(_solution(highspy, solver, self._columns, whole), work=work)

    def _model(self, highs: Any, whole: bool) -> Any:
        model = highs.HighsLp()
        model.num_col_, model.num_row_ = self._columns, self._rows
        cost = np.zeros(self._columns)
        cost[list(self._cost)] = [-one for one in self._cost.values()]
        model.col_cost_, model.col_lower_ = cost, np.zeros(self._columns)
        model.col_upper_ = _finite(highs, self._upper)
        model.row_lower_ = _finite(highs, [lower for lower, _ in self._limits])
        model.row_upper_ = _finite(highs, [upper for _, upper in self._limits])
        entries = np.concatenate(self._entries)
        entries = entries[np.argsort(entries[:, 0], kind="stable")]
        starts = np.searchsorted(entries[:, 0], np.arange(self._rows + 1))
        model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
        model.a_matrix_.start_ = starts
        model.a_matrix_.index_ = entries[:, 1].astype(np.int64)
        model.a_matrix_.value_ = entries[:, 2]
        if whole:
            model.integrality_ = [highs.HighsVarType.kInteger] * self._columns
        return model


def least_work(entries: int) -> int:
    """Return the work of HiGHS on so many entries before its first interrupt check."""
    return 3_000 + entries * (3 + entries // 1_000)


def _finite(highs: Any, parts: list[Floats]) -> Floats:
    return np.clip(np.concatenate(parts), -highs.kHighsInf, highs.kHighsInf)


def _solution(highs: Any, solver: Any, columns: int, whole: bool) -> Solution:
    """Return what the solver says; an answer that is not whole is none."""
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highs.HighsModelStatus.kInfeasible:
        return Solution(None, -INFINITY, -INFINITY, False)
    found = solver.getSolution()
    values = np.array(found.col_value)
    objective = -float(info.objective_function_value)
    optimal = status == highs.HighsModelStatus.kOptimal
    if not whole:
        if not optimal:
            return Solution(None, -INFINITY, INFINITY, True)
        bound = objective + abs(objective) * RELATIVE_ROUNDING
        return Solution(values, objective, bound, True, -np.array(found.row_dual))
    bound = -float(info.mip_dual_bound)
    if len(values) != columns or not np.isfinite(values).all() or not found.value_valid:
        return Solution(None, -INFINITY, bound, True)
    return Solution(np.rint(values), objective, bound, True, optimal=optimal)
