# SPDX-License-Identifier: Apache-2.0
"""What ``ranked`` yields, kept in order from one node of a batch to the next."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

import numpy as np

from valence_sched.core.judgement import NEVER
from valence_sched.core.rank import batch_lots, ranked
from valence_sched.model.request import Request
from valence_sched.model.view import Ints, View

LONG = 4  # nodes of a batch after which it pays to keep an order
FEW = 64  # rows that are put in their new place one by one; more, and all are ranked again
FIRST, GROWTH = 64, 2  # rows that are put in order at first, and how many times as many after that

Entry = tuple[int, int, int]  # cost, lot, row


class Ranking:
    """An order for a batch: a node moves the costs of a few rows, so all others keep their place.

    A few turns it ranks anew. From then on it keeps in order all rows up to some cost, a few at
    first, and puts those that moved in their new place.
    """

    def __init__(self) -> None:
        self._moved: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._order: list[Entry] = []  # of all rows that cost at most this:
        self._most = -1
        self._entries: dict[int, Entry] = {}  # the same by row
        self._more = FIRST
        self._moved.clear()
        self._keeps = False

    def rows(self, view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
        """Yield the rows that pass as ``ranked`` does.

        Costs may differ from those of the turn before only where it was told that they moved.
        """
        if turn < LONG or not self._keeps:
            return ranked(view, cost, request, turn)
        return self._kept(view, cost, request)

    def moved(self, rows: Sequence[int] | Ints) -> None:
        """Note that the costs of these rows may be others than on the turn before."""
        if len(rows) > FEW:
            self._forget()
        else:
            self._keeps = True
            self._moved.extend(map(int, rows))

    def _kept(self, view: View, cost: Ints, request: Request) -> Iterator[int]:
        self._put_in_place(view, cost, request)
        place = 0
        while place < len(self._order) or self._extend(view, cost, request):
            yield self._order[place][2]
            place += 1

    def _put_in_place(self, view: View, cost: Ints, request: Request) -> None:
        """Put the rows that moved where their costs are now."""
        for row in self._moved:
            if row in self._entries:
                del self._order[bisect_left(self._order, self._entries.pop(row))]
            if cost[row] <= self._most:
                entry = int(cost[row]), int(batch_lots(view, request)[row]), row
                insort(self._order, entry)
                self._entries[row] = entry
        self._moved.clear()

    def _extend(self, view: View, cost: Ints, request: Request) -> bool:
        """Put the next best rows in order, ever more of them; return whether there are any."""
        wanted = len(self._order) + self._more
        most = int(np.partition(cost, wanted)[wanted]) if wanted < len(cost) else NEVER
        most = min(most, NEVER - 1)
        rows = ((cost > self._most) & (cost <= most)).nonzero()[0]
        costs, lots = cost[rows], batch_lots(view, request)[rows]
        best_first = np.lexsort((rows, lots, costs))
        columns = (column[best_first].tolist() for column in (costs, lots, rows))
        found: list[Entry] = list(zip(*columns, strict=True))
        self._order += found
        self._entries.update((entry[2], entry) for entry in found)
        self._most, self._more = most, self._more * GROWTH
        return bool(found)
