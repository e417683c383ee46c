# SPDX-License-Identifier: Apache-2.0
"""Propagation: a depth-first search of an integer programme with bounds tightening (exact).

Each step adds one to a column of the unmet row that has the least choice left, the first column
that does something already if there is one. What the rows then require of other columns is
propagated, and where they contradict each other the search goes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from valence_sched.core.fit.programme import INFINITY, ProgrammePart

ENTRIES_PER_STATE = 4  # that are propagated in the time of a state of a set cover


class PropagationSearch:
    """The search for the cheapest solution of a programme of whole numbers from 0.

    ``prices`` are by column, and ``demands`` the rows whose least value makes work.
    """

    def __init__(
        self, part: ProgrammePart, prices: Mapping[int, int], demands: Sequence[int]
    ) -> None:
        self.best: list[int] | None = None
        self.price: int | None = None
        self._entries = 0  # propagated so far
        self._prices, self._demands = prices, demands
        self._price_row = len(part.lower_rows)
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
        self._changes: list[tuple[int, int, int]] = []  # a column, its least and most before
        self._waiting = set(range(len(self._rows)))  # rows to propagate

    @property
    def states(self) -> int:
        return -(-self._entries // ENTRIES_PER_STATE)

    def run(self, bound: int | None, states: int) -> bool:
        """Search within so many states; return whether ``best`` is the cheapest, or there is none.

        ``bound`` is a price below which there is none: a solution at it ends the search.
        """
        entries = states * ENTRIES_PER_STATE
        if not self._propagate():
            return True
        self._changes.clear()
        if bound is not None:
            self._descend(bound, entries * 3 // 4)
            if self.best is not None:
                return True
        return self._descend(None, entries)

    def _descend(self, ceiling: int | None, entries: int) -> bool:
        """Return whether all was searched, up to the first solution below a ceiling."""
        self._upper[self._price_row] = INFINITY if ceiling is None else ceiling
        path: list[tuple[int, int]] = []  # the changes before each step, and its column
        self._waiting.add(self._price_row)
        possible = self._propagate()
        while self._entries <= entries:
            row = self._tightest_row() if possible else None
            if row is not None:
                column = self._next_column(row)
                path.append((len(self._changes), column))
                possible = self._set(column, self._least[column] + 1, self._most[column])
            else:
                if possible:
                    self._note_solution()
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
        """Return the unmet demand with the least choice left, None when all are met."""
        self._entries += len(self._demands)
        tightest, least = None, INFINITY
        for row in self._demands:
            lower = self._lower[row]
            if self._row_least[row] < lower:
                choice = (self._row_most[row] - lower) / lower
                if choice < least:
                    tightest, least = row, choice
        return tightest

    def _next_column(self, row: int) -> int:
        open_ = [c for c, a in self._rows[row] if a > 0 and self._least[c] < self._most[c]]
        return next((column for column in open_ if self._least[column]), open_[0])

    def _note_solution(self) -> None:
        self.best = list(self._least)
        self.price = sum(price * self.best[column] for column, price in self._prices.items())
        self._upper[self._price_row] = self.price - 1

    def _set(self, column: int, least: int, most: int) -> bool:
        """Change the bounds of a column; return whether a value is left."""
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
        """Take back all changes but so many, and what waits to be propagated."""
        self._waiting.clear()
        while len(self._changes) > mark:
            column, least, most = self._changes.pop()
            self._move(column, least - self._least[column], most - self._most[column])

    def _propagate(self) -> bool:
        """Tighten columns until no row requires more; return whether no row contradicts."""
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
        """Return the bounds that a row leaves to a column."""
        least, most = self._least[column], self._most[column]
        above, below = most, most  # how far it may be above its least, and below its most
        size = abs(coefficient)
        if self._upper[row] != INFINITY:
            above = int((self._upper[row] - self._row_least[row]) // size)
        if self._lower[row] != -INFINITY:
            below = int((self._row_most[row] - self._lower[row]) // size)
        if coefficient < 0:
            above, below = below, above
        return max(least, most - below), min(most, least + above)
