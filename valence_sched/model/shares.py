# SPDX-License-Identifier: Apache-2.0
"""Which shares of what there is are free, and what of them a request would leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from valence_sched.model.need import Need
from valence_sched.model.view import By, Floats, View


class Shares(NamedTuple):
    """What is ``free`` of some needs, in parts of all there is of each; shape ``(needs, rows)``.

    0 where there is nothing of it. ``inverse`` is one over all there is, ``least`` the smallest
    amount that is free on any row, ``none`` of how many needs a row has nothing at all, None
    where every row has some of each.
    """

    free: Floats
    inverse: Floats
    least: Floats
    none: Floats | None


class Left(NamedTuple):
    """The shares that a request leaves, shape ``(needs, rows)``, and their sum per row.

    ``none`` says of how many needs a row has nothing at all, None where it is 0 for all.
    """

    shares: Floats
    total: Floats
    none: Floats | None


def left(view: View, needs: Sequence[Need], by: By) -> Left:
    """Return ``(free - asked) / total`` of each need, none below 0, and 0 where there is nothing.

    Kept for the plugins that ask next; what is free is in the tables that the next request finds.
    """
    return view.of_free(("left", by), needs, lambda: _left(view, needs, by))  # type: ignore[no-any-return]


def _left(view: View, needs: Sequence[Need], by: By) -> Left:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    shares: Shares = view.of_free(("shares", by), subjects, lambda: _shares(view, needs, by))
    asked = np.array([need.amount * need.count for need in needs])
    found = shares.inverse * asked[:, None]
    np.subtract(shares.free, found, out=found)
    lacking = (shares.least < asked).nonzero()[0].tolist()  # elsewhere nothing is below 0
    if lacking:
        zeros = np.zeros(len(view))  # numpy is slow to compare with a single number
        for number in lacking:
            np.maximum(found[number], zeros, out=found[number])
    total = added(found)
    found.flags.writeable = total.flags.writeable = False
    return Left(found, total, shares.none)


def _shares(view: View, needs: Sequence[Need], by: By) -> Shares:
    size = (len(needs), len(view))
    free = np.array([view.free(need, by) for need in needs]).reshape(size)
    inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
    nothing = inverse == 0.0
    none = added(nothing.astype(np.float64)) if nothing.any() else None
    return Shares(free * inverse, inverse, free.min(axis=1, initial=np.inf), none)


def added(table: Floats) -> Floats:
    """Return the sum per column, added up one after another: alike for one column and for many."""
    total = np.zeros(table.shape[1])
    for row in table:
        np.add(total, row, out=total)
    return total
