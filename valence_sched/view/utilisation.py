# SPDX-License-Identifier: Apache-2.0
"""Which shares of what there is a request would leave, added up over its needs.

Of a need the share that is left is ``free / total - asked / total``. Whatever of that does not
depend on the amounts is kept in tables of one row a need, so that a request costs one pass over
a table for each sum that is wanted of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from valence_sched.model.need import Need
from valence_sched.view.availability import lacking
from valence_sched.view.view import By, Floats, View

EPSILON = 1e-9  # what rounding may have added to a share


@dataclass(frozen=True, slots=True, eq=False)
class _Shares:
    """What is free of some needs, and one over all there is of each; shape ``(needs, rows)``.

    ``free`` is in parts of all there is, 0 where there is nothing, ``mean`` its mean per row.
    ``none`` is the part of the needs of which a row has nothing at all, None where every row has
    some of each. ``untold`` says that some row has more free than there is: what nobody told the
    amount of counts as all that is asked, where that is allowed, and in the total as nothing.
    """

    free: Floats
    inverse: Floats
    mean: Floats
    none: Floats | None
    untold: bool


class _Squares(NamedTuple):
    """What the squares of shares are made of: ``mean`` is that of the squares of what is free.

    ``products`` has two rows a need: first all ``inverse * inverse``, then all ``free * inverse``.
    """

    products: Floats
    mean: Floats


class Left(NamedTuple):
    """The mean per row of the shares that a request leaves, of use for rows that do not lack any.

    It may be above 1 where the shares are ``untold``. ``none`` is the part of the needs of which a
    row has nothing at all, None where it is 0 for all. ``asked`` is what the needs ask for and
    ``shares`` what that was worked out from.
    """

    mean: Floats
    none: Floats | None
    asked: Floats
    shares: _Shares


def left(view: View, needs: tuple[Need, ...], by: By) -> Left:
    """Return the mean of the shares ``(free - asked) / total``, 0 for rows that lack something.

    Of what there is nothing the share is 0. Kept for the plugins that ask next.
    """
    return view.of_free(("left", by), needs, lambda: _left(view, needs, by))  # type: ignore[no-any-return]


def left_squared(view: View, needs: tuple[Need, ...], by: By) -> Floats:
    """Return the mean of the squares of the same shares, anything for rows that lack something."""
    _, _, asked, shares = left(view, needs, by)
    squares: _Squares = view.of_free(("squares", by), shares, lambda: _squares(shares))
    # (free - asked * inverse)**2, multiplied out
    each = asked / max(1, len(needs))
    found = summed(squares.products, np.concatenate((asked * each, -2.0 * each)))
    return np.add(found, squares.mean, out=found)


def summed(table: Floats, weights: Floats) -> Floats:
    """Return ``sum(weights[i] * table[i])`` per column, one after another.

    Alike for one column and for many: numpy adds up a single one in another order, two it does
    not.
    """
    if table.shape[1] == 1:
        return summed(np.repeat(table, 2, axis=1), weights)[:1]
    found: Floats = np.einsum("i,ij->j", weights, table)
    return found


def _left(view: View, needs: tuple[Need, ...], by: By) -> Left:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    shares: _Shares = view.of_free(("shares", by), subjects, lambda: _shares(view, needs, by))
    asked = np.array([need.amount * need.count for need in needs])
    mean = summed(shares.inverse, asked / max(1, len(needs)))
    np.subtract(shares.mean, mean, out=mean)
    np.abs(mean, out=mean)  # what should be 0 may be a hair below
    mean[lacking(view, needs)] = 0.0
    mean.flags.writeable = False
    return Left(mean, shares.none, asked, shares)


def _shares(view: View, needs: tuple[Need, ...], by: By) -> _Shares:
    size = (len(needs), len(view))
    free = np.array([view.free(need, by) for need in needs]).reshape(size)
    inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
    np.multiply(free, inverse, out=free)
    nothing = inverse == 0.0
    none = _mean(nothing.astype(np.float64)) if nothing.any() else None
    mean, untold = _mean(free), bool(free.max(initial=0.0) > 1.0 + EPSILON)
    np.minimum(mean, 1.0, out=mean, where=mean <= 1.0 + EPSILON)  # what should be 1
    return _Shares(free, inverse, mean, none, untold)


def _squares(shares: _Shares) -> _Squares:
    products = np.concatenate((shares.inverse, shares.free)) * np.tile(shares.inverse, (2, 1))
    return _Squares(products, _mean(shares.free * shares.free))


def _mean(table: Floats) -> Floats:
    return summed(table, np.full(len(table), 1.0 / max(1, len(table))))
