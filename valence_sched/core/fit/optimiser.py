# SPDX-License-Identifier: Apache-2.0
"""Optimiser: a linear programme, with integer or real columns, that HiGHS maximises.

Work is limited by counts, not by a clock, so equal programmes get equal answers.

HiGHS uses floating-point numbers, so ``optimum`` checks an integer solution in integer arithmetic.
It trusts the answer *infeasible* only if the numbers of the programme are small enough for the
tolerances of HiGHS. ``PropagationSearch`` uses only integers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit.stocks import SearchOutcome
from valence_sched.model.request import MAX_NODES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

INFINITY = math.inf
ROUNDING = 1e-4  # possible error of the solver's floating-point bound
RELATIVE_ROUNDING = 1e-6

#: The work of HiGHS, in units of about a microsecond: per round of cuts at the root, per node of
#: the branch and bound, per simplex iteration. The work that depends on the entries is added.
ROOT_WORK, NODE_WORK, ITERATION_WORK = 800, 300, 30
#: Options of HiGHS that search outside the branch and bound, or restart it.
_RUNS = ("feasibility_jump", "rins", "rens", "root_reduced_cost")
HEURISTICS = ("mip_allow_restart", *(f"mip_heuristic_run_{name}" for name in _RUNS))
#: Of a linear relaxation. It needs no presolve, which can take longer than the solution.
RELAXED = {"presolve": "off", "ipm_iteration_limit": 200, "simplex_iteration_limit": 10_000}
WORK_PER_STATE = 5  # a state of a set cover takes as long as this work of HiGHS
LARGEST_TRUSTED = 1_000_000  # largest number with which "infeasible" is trusted
PROPAGATED_PER_STATE = 4  # a state of a set cover takes as long as propagating these entries
LARGEST = 1 << 45  # largest number that is exact in the solver


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of the solver: nodes of the branch and bound, work, and the relative gap.

    A model with more than ``most_columns`` is solved only as its linear relaxation. The
    ``heuristics`` of HiGHS find a first solution sooner, but are expensive if one is known.
    """

    nodes: int = 500
    work: float = INFINITY
    gap: float = 0.0
    most_columns: int = 20_000
    heuristics: bool = True

    def on(self, *, exact: bool) -> "Effort":
        """Return the effort for a model; one that is not exact gets at most one node."""
        return self if exact else replace(self, nodes=min(self.nodes, 1))


DEFAULT_EFFORT = Effort()


@dataclass(slots=True)
class ProgrammePart:
    """A group of columns and rows, numbered from 0; it can be added to a programme several times.

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
        self, terms: list[tuple[int, float]], lower: float = -INFINITY, upper: float = INFINITY
    ) -> int:
        """Add a row over ``(column, coefficient)``; return its number."""
        number = len(self.lower_rows)
        self.lower_rows.append(lower)
        self.upper_rows.append(upper)
        self.entries += [(number, column, value) for column, value in terms]
        return number


@dataclass(frozen=True, slots=True)
class Solution:
    """The result of the solver: the values of the columns, if any, and a proven bound."""

    values: Floats | None
    objective: float
    bound: float
    feasible: bool
    optimal: bool = False
    work: int = 0

    @property
    def whole_bound(self) -> int:
        """The bound as a whole number, for an objective that counts nodes."""
        return MAX_NODES if self.bound > MAX_NODES else math.floor(max(self.bound, 0.0) + ROUNDING)


class Programme:
    """Maximise the sum of ``cost × column`` within the rows; ``costs`` are by column."""

    def __init__(self) -> None:
        self._columns = self._rows = 0
        self._upper: list[Floats] = []
        self._limits: list[tuple[Floats, Floats]] = []
        self._entries: list[Floats] = []  # row, column, coefficient
        self.costs: Mapping[int, float] = {}

    def __len__(self) -> int:
        return self._columns

    def add(self, part: ProgrammePart, times: int = 1) -> int:
        """Add a part with its limits multiplied by ``times``; return its first column."""
        first = self._columns
        self._upper.append(np.array(part.upper, dtype=np.float64) * times)
        self._limits.append((np.array(part.lower_rows) * times, np.array(part.upper_rows) * times))
        entries = np.array(part.entries, dtype=np.float64).reshape(-1, 3)
        self._entries.append(entries + np.array((self._rows, first, 0.0)))
        self._columns += len(part.upper)
        self._rows += len(part.lower_rows)
        return first

    def column(self) -> int:
        return self.add(ProgrammePart([INFINITY]))

    def row(
        self, terms: list[tuple[int, float]], lower: float = -INFINITY, upper: float = INFINITY
    ) -> None:
        """Add a row over columns of any parts."""
        part, columns = ProgrammePart(), self._columns
        part.row(terms, lower, upper)
        self._columns = 0
        self.add(part)
        self._columns = columns

    def solve(
        self, effort: Effort = DEFAULT_EFFORT, *, whole: bool, start: Sequence[int] | None = None
    ) -> Solution:
        """Return the best solution found and a proven bound; ``start`` is a known solution."""
        import highspy  # imported late: most decisions do not need it

        # Highs() prints the version of HiGHS on standard output before it takes an option
        solver = highspy._Highs()  # type: ignore[attr-defined]
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "random_seed": 0}
        options |= {"solver": "choose" if whole else "ipm", "mip_max_nodes": effort.nodes}
        options |= {"mip_rel_gap": effort.gap, "mip_abs_gap": 1.0 - 2 * ROUNDING}
        if not whole:
            options |= RELAXED
        if not effort.heuristics:
            options |= dict.fromkeys(HEURISTICS, False)
        for name, value in options.items():
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
        def finite(parts: list[Floats]) -> Floats:
            return np.clip(np.concatenate(parts), -highs.kHighsInf, highs.kHighsInf)

        model = highs.HighsLp()
        model.num_col_, model.num_row_ = self._columns, self._rows
        cost = np.zeros(self._columns)
        cost[list(self.costs)] = [-one for one in self.costs.values()]
        model.col_cost_, model.col_lower_ = cost, np.zeros(self._columns)
        model.col_upper_ = finite(self._upper)
        model.row_lower_ = finite([lower for lower, _ in self._limits])
        model.row_upper_ = finite([upper for _, upper in self._limits])
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
    """Return the work of HiGHS on these entries before its first interrupt check."""
    return 3_000 + entries * (3 + entries // 1_000)


def _solution(highs: Any, solver: Any, columns: int, whole: bool) -> Solution:
    """Return the solution of the solver; the values are None if they are not valid."""
    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highs.HighsModelStatus.kInfeasible:
        return Solution(None, -INFINITY, -INFINITY, False)
    if status.value <= highs.HighsModelStatus.kPostsolveError.value:  # an error: nothing is proven
        return Solution(None, -INFINITY, INFINITY, True)
    found = solver.getSolution()
    values = np.array(found.col_value)
    objective = -float(info.objective_function_value)
    optimal = status == highs.HighsModelStatus.kOptimal
    if not whole and not optimal:
        return Solution(None, -INFINITY, INFINITY, True)
    if not whole:
        bound = objective + abs(objective) * RELATIVE_ROUNDING
        return Solution(values, objective, bound, True)
    bound = -float(info.mip_dual_bound)
    if len(values) != columns or not np.isfinite(values).all() or not found.value_valid:
        return Solution(None, -INFINITY, bound, True)
    return Solution(np.rint(values), objective, bound, True, optimal=optimal)


def optimum(
    part: ProgrammePart, prices: Mapping[int, int], states: int, start: Sequence[int] | None = None
) -> SearchOutcome:
    """Return the cheapest column values found within ``states``; ``start`` is a known solution."""
    known = None if start is None else list(start)
    limits = [abs(one) for one in (*part.lower_rows, *part.upper_rows) if abs(one) != INFINITY]
    largest = max([0, *limits, *part.upper])
    if largest > LARGEST or states * WORK_PER_STATE <= least_work(len(part.entries)):
        return SearchOutcome(known, False, 0)
    programme = Programme()
    programme.add(part)
    programme.costs = {column: -price for column, price in prices.items()}
    effort = Effort(nodes=states, work=states * WORK_PER_STATE, heuristics=False)
    solution = programme.solve(effort, whole=True, start=start)
    spent = solution.work // WORK_PER_STATE
    if not solution.feasible:
        trusted = known is None and largest <= LARGEST_TRUSTED
        return SearchOutcome(known, trusted, spent)
    found = None if solution.values is None else [int(value) for value in solution.values]
    if found is None or not is_solution(part, found):
        return SearchOutcome(known, False, spent)
    return SearchOutcome(found, solution.optimal, spent)


def is_solution(part: ProgrammePart, values: Sequence[int]) -> bool:
    """Return whether integer values are within the bounds of all columns and rows."""
    sums = [0] * len(part.lower_rows)
    for row, column, coefficient in part.entries:
        sums[row] += int(coefficient) * values[column]
    rows = zip(part.lower_rows, sums, part.upper_rows, strict=True)
    columns = zip(values, part.upper, strict=True)
    return all(0 <= value <= most for value, most in columns) and all(
        least <= value <= most for least, value, most in rows
    )


class PropagationSearch:
    """A depth-first search for the cheapest solution of an integer programme, by column ``prices``.

    Each step raises the lower bound of a column of the tightest unmet row in ``demands`` by 1, the
    first column above 0 if any, and propagates the bounds. At a contradiction it backtracks.
    """

    def __init__(
        self, part: ProgrammePart, prices: Mapping[int, int], demands: Sequence[int]
    ) -> None:
        self.best: list[int] | None = None
        self.price: int | None = None
        self._entries = 0  # entries propagated so far
        self._prices, self._demands, self._price_row = prices, demands, len(part.lower_rows)
        self._lower, self._upper = [*part.lower_rows, -INFINITY], [*part.upper_rows, INFINITY]
        self._least, self._most = [0] * len(part.upper), [int(one) for one in part.upper]
        self._rows: list[list[tuple[int, int]]] = [[] for _ in self._lower]
        self._uses: list[list[tuple[int, int]]] = [[] for _ in part.upper]
        priced = ((self._price_row, column, price) for column, price in prices.items())
        for row, column, coefficient in (*part.entries, *priced):
            self._rows[row].append((column, int(coefficient)))
            self._uses[column].append((row, int(coefficient)))
        most = self._most
        self._row_least = [sum(a * most[c] for c, a in row if a < 0) for row in self._rows]
        self._row_most = [sum(a * most[c] for c, a in row if a > 0) for row in self._rows]
        self._changes: list[tuple[int, int, int]] = []  # a column and its bounds before the change
        self._waiting = set(range(len(self._rows)))  # rows to propagate

    @property
    def states(self) -> int:
        return -(-self._entries // PROPAGATED_PER_STATE)

    def run(self, bound: int | None, states: int) -> bool:
        """Search within the states; return whether it is complete. A price of ``bound`` ends it."""
        entries = states * PROPAGATED_PER_STATE
        if not self._propagate():
            return True
        self._changes.clear()
        if bound is not None:
            self._descend(bound, entries * 3 // 4)
            if self.best is not None:
                return True
        return self._descend(None, entries)

    def _descend(self, ceiling: int | None, entries: int) -> bool:
        """Find a solution up to ``ceiling``, else the cheapest; return whether the search ended."""
        self._upper[self._price_row] = INFINITY if ceiling is None else ceiling
        path: list[tuple[int, int]] = []  # per step: the number of earlier changes, and the column
        self._waiting.add(self._price_row)
        possible = self._propagate()
        while self._entries <= entries:
            row = self._tightest_row() if possible else None
            if row is not None:
                open_ = [c for c, a in self._rows[row] if a > 0 and self._least[c] < self._most[c]]
                column = next((one for one in open_ if self._least[one]), open_[0])
                path.append((len(self._changes), column))
                possible = self._set(column, self._least[column] + 1, self._most[column])
            else:
                if possible:
                    best = self.best = list(self._least)
                    self.price = sum(price * best[one] for one, price in self._prices.items())
                    self._upper[self._price_row] = self.price - 1
                if not path or (possible and ceiling is not None):
                    self._undo(0)
                    return True
                mark, column = path.pop()
                self._undo(mark)
                self._waiting.add(self._price_row)
                possible = self._set(column, self._least[column], self._least[column])
            possible = possible and self._propagate()
        self._undo(0)
        return False

    def _tightest_row(self) -> int | None:
        """Return the unmet demand with the least slack, None if all are met."""
        self._entries += len(self._demands)
        lower, most = self._lower, self._row_most
        unmet = [row for row in self._demands if self._row_least[row] < lower[row]]
        return min(unmet, key=lambda row: (most[row] - lower[row]) / lower[row], default=None)

    def _set(self, column: int, least: int, most: int) -> bool:
        """Change the bounds of a column; return whether any value remains between them."""
        before = self._least[column], self._most[column]
        self._changes.append((column, *before))
        self._move(column, least - before[0], most - before[1])
        self._waiting.update([row for row, _ in self._uses[column]])
        return least <= most

    def _move(self, column: int, least: int, most: int) -> None:
        self._least[column] += least
        self._most[column] += most
        for row, coefficient in self._uses[column]:
            low, high = (least, most) if coefficient > 0 else (most, least)
            self._row_least[row] += coefficient * low
            self._row_most[row] += coefficient * high

    def _undo(self, mark: int) -> None:
        """Undo all changes after a mark, and clear the queue of the propagation."""
        self._waiting.clear()
        while len(self._changes) > mark:
            column, least, most = self._changes.pop()
            self._move(column, least - self._least[column], most - self._most[column])

    def _propagate(self) -> bool:
        """Tighten the bounds of columns by the rows; return whether all rows are consistent."""
        while self._waiting:
            row = self._waiting.pop()
            lower, upper = self._lower[row], self._upper[row]
            if self._row_least[row] > upper or self._row_most[row] < lower:
                return False
            if self._row_most[row] <= upper and self._row_least[row] >= lower:
                continue
            self._entries += len(self._rows[row])
            for column, coefficient in self._rows[row]:
                if self._least[column] < self._most[column]:
                    least, most = self._tightened(row, column, coefficient)
                    changed = (least, most) != (self._least[column], self._most[column])
                    if changed and not self._set(column, least, most):
                        return False
        return True

    def _tightened(self, row: int, column: int, coefficient: int) -> tuple[int, int]:
        least, most = self._least[column], self._most[column]
        above, below = most, most  # the column is at most this far above least, and below most
        size = abs(coefficient)
        if self._upper[row] != INFINITY:
            above = int((self._upper[row] - self._row_least[row]) // size)
        if self._lower[row] != -INFINITY:
            below = int((self._row_most[row] - self._lower[row]) // size)
        if coefficient < 0:
            above, below = below, above
        return max(least, most - below), min(most, least + above)
