# SPDX-License-Identifier: Apache-2.0
"""What ``ranked`` yields, kept in order from one node of a batch to the next."""

from __future__ import annotations

import functools
import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from valence_sched.core.evaluation import NEVER
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.view.view import Ints, View

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Lots = npt.NDArray[np.uint64]
#: How a scheduler goes through the pools: (view, cost, request, turn) to rows, best first.
Order = Callable[[View, Ints, Request, int], Iterator[int]]
#: Is told the rows whose costs a node may have moved, before the next turn.
Moved = Callable[[Sequence[int] | Ints], None]
#: Finds what makes the node on a row, if anything does.
Fits = Callable[[int], Fit | None]


def drawn(lots: Lots, request: Request, turn: int = 0) -> Lots:
    """Return lots mixed with (request id, seed, turn): random across requests, equal on replay.

    A pool's lot does not depend on which others are there, so zones draw alike whether they are
    flat or a tree. The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    """
    return _mixed(lots ^ _salt(request.id, request.seed, turn))


def by_lot(view: View, rows: Ints, request: Request, turn: int = 0) -> Ints:
    """Return ``rows`` in the order in which this request draws them."""
    if len(rows) < 2:
        return rows
    if turn or request.count == 1:
        lots = drawn(view.lot[rows], request, turn)
    else:
        lots = batch_lots(view, request)[rows]
    return rows[lots.argsort(kind="stable")]


def batch_lots(view: View, request: Request) -> Lots:
    """Return the lots of all rows, which are asked for again for every node of a batch."""
    key = (request.id, request.seed)
    lots: Lots = view.latest("drawn", key, lambda: drawn(view.lot, request))
    return lots


def _mixed(lots: Lots) -> Lots:
    lots = (lots ^ (lots >> _30)) * _FIRST
    lots = (lots ^ (lots >> _27)) * _SECOND
    return lots ^ (lots >> _31)


@functools.lru_cache(maxsize=16)
def _salt(name: str, seed: int, turn: int) -> np.uint64:
    text = f"{name}\0{seed}\0{turn}".encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))


def ranked(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows that pass, best first; equals by a lot that is the same on every turn."""
    left = cost
    while len(left):
        best = np.minimum.reduce(left)
        if best == NEVER:
            return
        rows = (left == best).nonzero()[0]
        yield from by_lot(view, rows, request).tolist()
        left = left.copy() if left is cost else left
        left[rows] = NEVER


def best(
    view: View,
    rows: Iterator[int],
    fits: Fits,
    request: Request,
    bound: BoundPolicy,
    turn: int,
    barren: set[int],
) -> Fit | None:
    """Return the fit of the first of ``rows`` that makes the node, None when none does.

    With ``pick.best_of`` K, one of the first K by lot. Rows that passed all filters but have no
    set of blocks that makes the node are added to ``barren``, and those in it are not asked.
    """
    found: list[Fit] = []
    for row in rows:
        fit = fits(row) if row not in barren else None
        if fit is None:
            barren.add(row)
            continue
        found.append(fit)
        if len(found) == bound.policy.pick.best_of:
            break
    if len(found) < 2:
        return found[0] if found else None
    order = by_lot(view, np.array([fit.row for fit in found]), request, 1 + turn)
    return next(fit for fit in found if fit.row == order[0])


def alternates(view: View, rows: Iterator[int], fits: Fits, chosen: Fit, wanted: int) -> list[Fit]:
    """Return the fits of the next best pools, each on a podm of its own other than the chosen.

    At most ``wanted`` of them.
    """
    found: list[Fit] = []
    podms = {int(view.podm_of[chosen.row])}
    while len(found) < wanted:
        row = next(rows, None)
        if row is None:
            break
        podm = int(view.podm_of[row])
        fit = fits(row) if podm not in podms else None
        if fit is not None:
            found.append(fit)
            podms.add(podm)
    return found


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
