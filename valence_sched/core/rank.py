# SPDX-License-Identifier: Apache-2.0
"""Ranking: through the pools best first, equals by lot, until one makes the node."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from valence_sched.core.fit import Fit
from valence_sched.core.judgement import NEVER
from valence_sched.core.policies import BoundPolicy
from valence_sched.model.request import Request
from valence_sched.model.view import Ints, View

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
