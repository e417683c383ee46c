# SPDX-License-Identifier: Apache-2.0
"""Relaxation: prices of demands and caps, from the cover in which items may be taken in part.

The linear relaxation of a set cover has a multiplier for each demand and each cap. Whatever the
multipliers are, no choice of whole items can do better than they say, so that a rounding error
makes a bound weaker and never wrong; the best ones make it tight. They are found by the primal
simplex method with bounded variables, from the empty choice: how often all demands can be met, also
beyond once, or the multipliers of a possible cover would be 0 and tell no states apart; then the
least price.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_PIVOTS = 400  # of one linear programme; the multipliers are valid wherever it stops
EPSILON = 1e-9


class Multipliers(NamedTuple):
    """What a unit of each demand, and of the room below each cap, is worth; never below 0."""

    demands: Floats
    caps: Floats


def multipliers(
    gives: Ints, demand: Ints, uses: Ints, room: Ints, available: Ints, prices: Ints
) -> tuple[Multipliers, Multipliers | None]:
    """Return the multipliers of how often all demands can be met, and those of the least price.

    ``gives`` is items × demands (all above 0) and ``uses`` items × caps. The second are None where
    not even parts of items meet all demands: the first prove it.
    """
    size, demands = len(gives), len(demand)
    objective = np.zeros(size + 1 + demands + len(room))
    objective[size] = 1.0
    simplex = _simplex(gives, demand, uses, room, available, np.inf)
    worth = simplex.maximise(objective)
    met = Multipliers(worth[:demands] / demand, worth[demands:])
    if simplex.value(size) < 1.0 - EPSILON:
        return met, None
    simplex = _simplex(gives, demand, uses, room, available, 1.0)
    simplex.maximise(objective)
    scale = max(1.0, float(prices.max(initial=1)))
    objective[:size], objective[size] = -prices / scale, 0.0
    simplex.fixed[size] = True
    worth = simplex.maximise(objective) * scale
    return met, Multipliers(worth[:demands] / demand, worth[demands:])


def _simplex(
    gives: Ints, demand: Ints, uses: Ints, room: Ints, available: Ints, most: float
) -> "_Simplex":
    """Return the programme of how often all demands are met, ``most`` times at most.

    Its variables are the items, that number and the slacks of demands and caps.
    """
    size, (demands, caps) = len(gives), (len(demand), len(room))
    rows = demands + caps
    table = np.zeros((rows, size + 1 + rows))
    table[:demands, :size] = -(gives / demand).T
    table[:demands, size] = 1.0
    table[demands:, :size] = uses.T
    table[:, size + 1 :] = np.eye(rows)
    upper = np.concatenate((available, [most], np.full(rows, np.inf)))
    return _Simplex(table, np.concatenate((np.zeros(demands), room)), upper)


class _Simplex:
    """A table whose basis begins with the slacks; a variable is at 0 or at its upper bound."""

    def __init__(self, table: Floats, values: Floats, upper: Floats) -> None:
        self.table, self.values, self.upper = table, values, upper
        rows, size = table.shape
        self.basis = np.arange(size - rows, size)
        self.at_upper = np.zeros(size, dtype=bool)
        self.fixed = np.zeros(size, dtype=bool)

    def value(self, variable: int) -> float:
        """Return the present value of a variable."""
        row = np.flatnonzero(self.basis == variable)
        if len(row):
            return float(self.values[row[0]])
        return float(self.upper[variable]) if self.at_upper[variable] else 0.0

    def maximise(self, objective: Floats) -> Floats:
        """Pivot until nothing improves the objective; return the multipliers of the rows."""
        rows, size = self.table.shape
        for pivots in range(MOST_PIVOTS):
            gain = objective - objective[self.basis] @ self.table
            gain[self.basis] = 0.0
            gain[self.fixed] = 0.0
            useful = np.where(self.at_upper, -gain, gain)
            entering = int(useful.argmax())
            if useful[entering] <= EPSILON:
                break
            if pivots > MOST_PIVOTS // 2:  # against a circle: the first that is useful
                entering = int((useful > EPSILON).argmax())
            self._pivot(entering)
        worth = objective[self.basis] @ self.table[:, size - rows :]
        return np.maximum(worth - objective[size - rows :], 0.0)

    def _pivot(self, entering: int) -> None:
        """Move a variable off its bound as far as the basis, or its other bound, allows."""
        direction = -1.0 if self.at_upper[entering] else 1.0
        column = self.table[:, entering] * direction
        limits = np.full(len(column), np.inf)
        falls, rises = column > EPSILON, column < -EPSILON
        limits[falls] = self.values[falls] / column[falls]
        limits[rises] = (self.upper[self.basis[rises]] - self.values[rises]) / -column[rises]
        fixed = self.fixed[self.basis]
        limits[fixed & (falls | rises)] = 0.0
        leaving = int(limits.argmin())
        step = min(max(limits[leaving], 0.0), self.upper[entering])
        self.values -= step * column
        if limits[leaving] > self.upper[entering]:
            self.at_upper[entering] = ~self.at_upper[entering]
            return
        at = self.upper[entering] - step if self.at_upper[entering] else step
        self.at_upper[self.basis[leaving]] = bool(rises[leaving] or fixed[leaving])
        self.at_upper[entering] = False
        row = self.table[leaving] / self.table[leaving, entering]
        self.table -= np.outer(self.table[:, entering], row)
        self.table[leaving] = row
        self.basis[leaving], self.values[leaving] = entering, at
