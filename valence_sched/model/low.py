# SPDX-License-Identifier: Apache-2.0
"""Which rows have less than an amount: asked of the same rows again and again."""

from __future__ import annotations

import numpy as np

from valence_sched.model.view import Floats, Ints

NOBODY = np.empty(0, dtype=np.int64)


class Low:
    """What every row has of one thing, shape ``(rows,)``, and who has too little of it.

    The rows are sorted when they are asked for the second time: then the few that have less
    than an amount are found without looking at the others.
    """

    def __init__(self, have: Floats) -> None:
        self.have = have
        self.least = float(have.min(initial=np.inf))
        self._asked = False
        self._order, self._sorted = NOBODY, have

    def below(self, amount: float) -> Ints:
        """Return the rows that have less than ``amount``."""
        if amount <= self.least:
            return NOBODY
        if not self._asked:
            self._asked = True
            return (self.have < amount).nonzero()[0]
        if not len(self._order):
            self._order = self.have.argsort(kind="stable")
            self._sorted = self.have[self._order]
        return self._order[: self._sorted.searchsorted(amount)]
