# SPDX-License-Identifier: Apache-2.0
"""Ranking: orders pools by cost, breaks ties by seeded lots, and chooses the fit of the node."""

import functools
import hashlib
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit.fit import Fit, Undecided
from valence_sched.core.policy import INFINITE_COST
from valence_sched.model.request import Request
from valence_sched.view.view import Ints, View, lot_of

_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_MULTIPLIER_1, _MULTIPLIER_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Lots = npt.NDArray[np.uint64]
#: The order in which a scheduler tries the pools: (view, cost, request, turn) to rows, best first.
RowOrder = Callable[[View, Ints, Request, int], Iterator[int]]
#: Finds the fit of the node in a row; None if it does not fit, or Undecided.
FitFinder = Callable[[int], Fit | Undecided | None]


def draw_lots(lots: Lots, request: Request, turn: int = 0) -> Lots:
    """Mix lots (random numbers) with request id, seed and turn; a replay gets equal lots.

    The lot of a pool does not depend on other pools, so a flat zone and a tree draw the same lots.
    The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    """
    lots = lots ^ _salt(request.id, request.seed, turn)
    lots = (lots ^ (lots >> _30)) * _MULTIPLIER_1
    lots = (lots ^ (lots >> _27)) * _MULTIPLIER_2
    return lots ^ (lots >> _31)


def pool_lot(podm: str, pool: str, request: Request, turn: int = 0) -> int:
    """Return the lot that a pool draws, in any View."""
    return int(draw_lots(np.array([lot_of(podm, pool)], dtype=np.uint64), request, turn)[0])


def order_by_lot(view: View, rows: Ints, request: Request, turn: int = 0) -> Ints:
    """Return ``rows`` in the order in which this request draws them."""
    if len(rows) < 2:
        return rows
    if turn or request.count == 1:
        lots = draw_lots(view.lot[rows], request, turn)
    else:
        lots = batch_lots(view, request)[rows]
    return rows[lots.argsort(kind="stable")]


def batch_lots(view: View, request: Request) -> Lots:
    """Return the lots of all rows; the View memoises them for the nodes of a batch."""
    key = (request.id, request.seed)
    lots: Lots = view.memoise_latest("drawn", key, lambda: draw_lots(view.lot, request))
    return lots


@functools.lru_cache(maxsize=16)
def _salt(name: str, seed: int, turn: int) -> np.uint64:
    text = f"{name}\0{seed}\0{turn}".encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big"))


def rank_rows(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows that pass, best first; lots break ties, the same lots on every turn."""
    remaining = cost
    while len(remaining):
        best = np.minimum.reduce(remaining)
        if best == INFINITE_COST:
            return
        rows = (remaining == best).nonzero()[0]
        yield from order_by_lot(view, rows, request).tolist()
        remaining = remaining.copy() if remaining is cost else remaining
        remaining[rows] = INFINITE_COST


def random_order(view: View, cost: Ints, request: Request, turn: int) -> Iterator[int]:
    """Yield the rows podm by podm in random order: the number of pools of a podm has no effect."""
    podm_lots = draw_lots(view.podm_lots, request, turn)[view.podm_of]
    row_lots = draw_lots(view.lot, request, turn)
    for row in np.lexsort((row_lots, podm_lots)).tolist():
        if cost[row] != INFINITE_COST:
            yield row


def choose_fit(
    view: View,
    rows: Iterator[int],
    find_fit: FitFinder,
    request: Request,
    best_of: int,
    turn: int,
    rows_without_fit: set[int],
    undecided_rows: set[int],
) -> Fit | None:
    """Return the first fit, or a random one of the ``best_of`` first, and note rows without one."""
    fits: list[Fit] = []
    for row in rows:
        fit = find_fit(row) if row not in rows_without_fit else None
        if isinstance(fit, Undecided):
            undecided_rows.add(row)
        elif fit is None:
            rows_without_fit.add(row)
        else:
            fits.append(fit)
        if len(fits) == best_of:
            break
    if len(fits) < 2:
        return fits[0] if fits else None
    order = order_by_lot(view, np.array([fit.row for fit in fits]), request, 1 + turn)
    return next(fit for fit in fits if fit.row == order[0])


def alternate_fits(
    view: View, rows: Iterator[int], find_fit: FitFinder, chosen: Fit, most: int
) -> list[Fit]:
    """Return the fits of the ``most`` next best pools, each on a different podm."""
    fits: list[Fit] = []
    podms = {int(view.podm_of[chosen.row])}
    while len(fits) < most and (row := next(rows, None)) is not None:
        podm = int(view.podm_of[row])
        fit = find_fit(row) if podm not in podms else None
        if isinstance(fit, Fit):
            fits.append(fit)
            podms.add(podm)
    return fits
