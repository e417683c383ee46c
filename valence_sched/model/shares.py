# SPDX-License-Identifier: Apache-2.0
"""Which shares of what there is a request would leave, added up over its needs.

Of a need the share that is left is ``free / total - asked / total``. Whatever of that does not
depend on the amounts is kept in tables of one row a need, so that a request costs one pass over
a table for each sum that is wanted of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from valence_sched.model.low import Low
from valence_sched.model.need import Need
from valence_sched.model.view import By, Floats, Ints, View


class _Shares(NamedTuple):
    """What is free of some needs, and one over all there is of each; shape ``(needs, rows)``.

    ``free`` is in parts of all there is, 0 where there is nothing, ``mean`` its mean per row.
    ``low`` says of each need which rows have little of it. ``none`` is the part of the needs of
    which a row has nothing at all, None where every row has some of each.
    """

    free: Floats
    inverse: Floats
    low: list[Low]
    mean: Floats
    none: Floats | None


class _Squares(NamedTuple):
    """What the squares of shares are made of: ``mean`` is that of the squares of what is free.

    ``products`` has two rows a need: first all ``inverse * inverse``, then all ``free * inverse``.
    """

    products: Floats
    mean: Floats


class Left(NamedTuple):
    """The mean per row of the shares that a request leaves.

    ``lacking`` are, for each need of which some rows have less than is asked, these rows and by
    how much the share would fall below 0 there. ``none`` is the part of the needs of which a row
    has nothing at all, None where it is 0 for all.
    """

    mean: Floats
    lacking: list[tuple[Ints, Floats]]
    none: Floats | None


def left(view: View, needs: Sequence[Need], by: By) -> Left:
    """Return the mean of the shares ``(free - asked) / total``, none of them below 0.

    Of what there is nothing the share is 0. Kept for the plugins that ask next.
    """
    return view.of_free(("left", by), needs, lambda: _left(view, needs, by))  # type: ignore[no-any-return]


def left_squared(view: View, needs: Sequence[Need], by: By) -> Floats:
    """Return the mean of the squares of the same shares."""
    shares, lacking = _shares(view, needs, by), left(view, needs, by).lacking
    squares: _Squares = view.of_free(("squares", by), _subjects(needs), lambda: _squares(shares))
    asked, number = _asked(needs), _number(needs)
    # (free - asked * inverse)**2, multiplied out
    found = summed(squares.products, np.concatenate((asked * asked, -2.0 * asked)) / number)
    np.add(found, squares.mean, out=found)
    for rows, below in lacking:
        found[rows] -= below * below / number
    return found


def summed(table: Floats, weights: Floats) -> Floats:
    """Return ``sum(weights[i] * table[i])`` per column, one after another.

    Alike for one column and for many: numpy adds up a single one in another order, two it does
    not.
    """
    if table.shape[1] == 1:
        return summed(np.repeat(table, 2, axis=1), weights)[:1]
    found: Floats = np.einsum("i,ij->j", weights, table)
    return found


def _left(view: View, needs: Sequence[Need], by: By) -> Left:
    shares, asked, number = _shares(view, needs, by), _asked(needs), _number(needs)
    mean = summed(shares.inverse, asked / number)
    np.subtract(shares.mean, mean, out=mean)
    lacking = []
    for need, amount in enumerate(asked.tolist()):
        rows = shares.low[need].below(amount)
        if len(rows):
            below = shares.free[need][rows] - amount * shares.inverse[need][rows]
            mean[rows] -= below / number
            lacking.append((rows, below))
    np.abs(mean, out=mean)  # what should be 0 may be a hair below
    mean.flags.writeable = False
    return Left(mean, lacking, shares.none)


def _shares(view: View, needs: Sequence[Need], by: By) -> _Shares:
    return view.of_free(("shares", by), _subjects(needs), lambda: _tables(view, needs, by))  # type: ignore[no-any-return]


def _tables(view: View, needs: Sequence[Need], by: By) -> _Shares:
    size = (len(needs), len(view))
    free = np.array([view.free(need, by) for need in needs]).reshape(size)
    inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
    low = [Low(view.free(need, by)) for need in needs]
    np.multiply(free, inverse, out=free)
    nothing = inverse == 0.0
    none = _mean(nothing.astype(np.float64)) if nothing.any() else None
    return _Shares(free, inverse, low, np.minimum(_mean(free), 1.0), none)


def _squares(shares: _Shares) -> _Squares:
    products = np.concatenate((shares.inverse, shares.free)) * np.tile(shares.inverse, (2, 1))
    return _Squares(products, _mean(shares.free * shares.free))


def _mean(table: Floats) -> Floats:
    return summed(table, np.full(len(table), 1.0 / max(1, len(table))))


def _subjects(needs: Sequence[Need]) -> tuple[object, ...]:
    """Return what stands for the tables of some needs: of a stock any amount will do."""
    return tuple([need.resource or need for need in needs])


def _asked(needs: Sequence[Need]) -> Floats:
    return np.array([need.amount * need.count for need in needs])


def _number(needs: Sequence[Need]) -> int:
    return max(1, len(needs))
