# SPDX-License-Identifier: Apache-2.0
"""Utilisation: the share of what a pool has that stays free after a request, per row.

Of a need the share that is left is ``free / total - asked / total``. Whatever of that does not
depend on the amounts is kept in tables of one row a need, so that a request costs one pass over
a table for each sum that is wanted of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from valence_sched.model.need import Need
from valence_sched.view.availability import infeasible_rows
from valence_sched.view.view import By, Floats, View

EPSILON = 1e-9  # what rounding may have added to a share


@dataclass(frozen=True, slots=True, eq=False)
class _ShareTable:
    """What is free of some needs, and one over all there is of each; shape ``(needs, rows)``.

    ``free`` is in parts of all there is, 0 where there is nothing, ``mean`` its mean per row.
    ``none`` is the part of the needs of which a row has nothing at all, None where every row has
    some of each. ``untold`` says that some row has more free than there is: what nobody told the
    amount of counts as all that is asked, where that is allowed, and in the total as nothing.
    """

    free: Floats
    inverse: Floats
    mean: Floats
    absent: Floats | None
    exceeds_total: bool


class _Squares(NamedTuple):
    """What the squares of shares are made of: ``mean`` is that of the squares of what is free.

    ``products`` has two rows a need: first all ``inverse * inverse``, then all ``free * inverse``.
    """

    products: Floats
    mean: Floats


class FreeShare(NamedTuple):
    """The mean per row of the shares that a request leaves, of use for rows that do not lack any.

    It may be above 1 where the shares are ``untold``. ``none`` is the part of the needs of which a
    row has nothing at all, None where it is 0 for all. ``asked`` is what the needs ask for and
    ``shares`` what that was worked out from.
    """

    mean: Floats
    absent: Floats | None
    amounts: Floats
    table: _ShareTable


def free_share(view: View, needs: tuple[Need, ...], by: By) -> FreeShare:
    """Return the mean of the shares ``(free - asked) / total``, 0 for rows that lack something.

    Of what there is nothing the share is 0. Kept for the plugins that ask next.
    """
    return view.memoise_free(("left", by), needs, lambda: _free_share(view, needs, by))  # type: ignore[no-any-return]


def free_share_squared(view: View, needs: tuple[Need, ...], by: By) -> Floats:
    """Return the mean of the squares of the same shares, anything for rows that lack something."""
    _, _, asked, shares = free_share(view, needs, by)
    squares: _Squares = view.memoise_free(("squares", by), shares, lambda: _squares(shares))
    # (free - asked * inverse)**2, multiplied out
    each = asked / max(1, len(needs))
    found = weighted_sum(squares.products, np.concatenate((asked * each, -2.0 * each)))
    return np.add(found, squares.mean, out=found)


def weighted_sum(table: Floats, weights: Floats) -> Floats:
    """Return ``sum(weights[i] * table[i])`` per column, one after another.

    Alike for one column and for many: numpy adds up a single one in another order, two it does
    not.
    """
    if table.shape[1] == 1:
        return weighted_sum(np.repeat(table, 2, axis=1), weights)[:1]
    found: Floats = np.einsum("i,ij->j", weights, table)
    return found


def _free_share(view: View, needs: tuple[Need, ...], by: By) -> FreeShare:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    shares: _ShareTable = view.memoise_free(
        ("shares", by), subjects, lambda: _share_table(view, needs, by)
    )
    asked = np.array([need.amount * need.count for need in needs])
    mean = weighted_sum(shares.inverse, asked / max(1, len(needs)))
    np.subtract(shares.mean, mean, out=mean)
    np.abs(mean, out=mean)  # what should be 0 may be a hair below
    mean[infeasible_rows(view, needs)] = 0.0
    mean.flags.writeable = False
    return FreeShare(mean, shares.absent, asked, shares)


def _share_table(view: View, needs: tuple[Need, ...], by: By) -> _ShareTable:
    size = (len(needs), len(view))
    free = np.array([view.free(need, by) for need in needs]).reshape(size)
    inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
    np.multiply(free, inverse, out=free)
    nothing = inverse == 0.0
    none = _mean(nothing.astype(np.float64)) if nothing.any() else None
    mean, untold = _mean(free), bool(free.max(initial=0.0) > 1.0 + EPSILON)
    np.minimum(mean, 1.0, out=mean, where=mean <= 1.0 + EPSILON)  # what should be 1
    return _ShareTable(free, inverse, mean, none, untold)


def _squares(shares: _ShareTable) -> _Squares:
    products = np.concatenate((shares.inverse, shares.free)) * np.tile(shares.inverse, (2, 1))
    return _Squares(products, _mean(shares.free * shares.free))


def _mean(table: Floats) -> Floats:
    return weighted_sum(table, np.full(len(table), 1.0 / max(1, len(table))))
