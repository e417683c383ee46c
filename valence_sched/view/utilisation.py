# SPDX-License-Identifier: Apache-2.0
"""Utilisation: the share of what a pool has that stays free after a request, per row.

The free share of a need is ``free / total - amount / total``. The parts that do not depend on the
amounts are kept in tables of one row per need, so that a request costs one pass over a table for
each sum.
"""

import functools
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from valence_sched.model.need import Need
from valence_sched.view.availability import infeasible_rows, subjects_and_amounts
from valence_sched.view.view import By, Floats, Ints, View, read_only

EPSILON = 1e-9  # the rounding error of a share


class _ShareTable(Struct, frozen=True, eq=False):
    """The free share of some needs, and one over the total of each; shape ``(needs, rows)``.

    ``free`` is a share of the total, 0 where the total is 0, and ``mean`` its mean per row.
    ``absent`` is the share of the needs of which a row has a total of 0, None if there is no such
    row. ``exceeds_total`` says that some row has more free than its total: an unknown amount that
    the need allows counts as the whole need when free, and as 0 in the total.
    """

    free: Floats
    inverse: Floats
    mean: Floats
    absent: Floats | None
    exceeds_total: bool


class _Squares(NamedTuple):
    """The parts of the squares of shares: ``mean`` is the mean of the squares of ``free``.

    ``products`` has two rows per need: first all ``inverse * inverse``, then all
    ``free * inverse``.
    """

    products: Floats
    mean: Floats


class FreeShare(NamedTuple):
    """The mean per row of the shares that stay free after a request; valid for feasible rows.

    It may be above 1 if the table ``exceeds_total``. ``absent`` is the share of the needs of which
    a row has a total of 0, None if it is 0 for all rows. ``amounts`` are those of the needs, and
    ``table`` is what the mean was computed from.
    """

    mean: Floats
    absent: Floats | None
    amounts: Floats
    table: _ShareTable


def free_share(view: View, needs: tuple[Need, ...], by: By) -> FreeShare:
    """Return the mean of the shares ``(free - amount) / total``, 0 for infeasible rows.

    A need of which the total is 0 has a share of 0. The View remembers the answer.
    """
    return view.memoise_free(("free share", by), needs, lambda: _free_share(view, needs, by))  # type: ignore[no-any-return]


def free_share_squared(view: View, needs: tuple[Need, ...], by: By) -> Floats:
    """Return the mean of the squares of the same shares; meaningless for infeasible rows."""
    _, _, amounts, table = free_share(view, needs, by)
    squares: _Squares = view.memoise_free(("squares", by), table, lambda: _squares(table))
    # (free - amount * inverse)**2, multiplied out
    mean_amounts = amounts / max(1, len(needs))
    weights = np.concatenate((amounts * mean_amounts, -2.0 * mean_amounts))
    squares_mean = weighted_sum(squares.products, weights)
    return np.add(squares_mean, squares.mean, out=squares_mean)


def weighted_sum(table: Floats, weights: Floats) -> Floats:
    """Return ``sum(weights[i] * table[i])`` per column, added in order.

    One column gets the same sum as many: numpy adds a single column in another order, but not two.
    """
    if table.shape[1] == 1:
        return weighted_sum(np.repeat(table, 2, axis=1), weights)[:1]
    total: Floats = np.einsum("i,ij->j", weights, table)
    return total


def _free_share(view: View, needs: tuple[Need, ...], by: By) -> FreeShare:
    subjects, amounts = subjects_and_amounts(view, needs)
    make = functools.partial(_share_table, view, needs, by)
    table: _ShareTable = view.memoise_free(("shares", by), subjects, make)
    if any(need.count != 1 for need in needs):
        amounts = np.array([need.amount * need.count for need in needs])
    mean = weighted_sum(table.inverse, amounts / max(1, len(needs)))
    np.subtract(table.mean, mean, out=mean)
    np.abs(mean, out=mean)  # rounding may make a 0 negative
    mean[infeasible_rows(view, needs)] = 0.0
    mean.flags.writeable = False
    return FreeShare(mean, table.absent, amounts, table)


def _share_table(view: View, needs: tuple[Need, ...], by: By) -> _ShareTable:
    inverse, absent = _inverses(view, needs, by)
    free = view.free_table(needs, by)  # read-only where it is remembered
    free = np.multiply(free, inverse, out=free if free.flags.writeable else None)
    most = np.maximum.reduce(free, axis=None, initial=0.0)
    mean, exceeds_total = _mean(free), bool(most > 1.0 + EPSILON)
    np.minimum(mean, 1.0, out=mean, where=mean <= 1.0 + EPSILON)  # rounding may make a 1 larger
    return _ShareTable(free, inverse, mean, absent, exceeds_total)


def _inverses(view: View, needs: tuple[Need, ...], by: By) -> tuple[Floats, Floats | None]:
    """Return one over the total of each need, and the share of the needs that have a total of 0.

    The rows of another View, which are few, remember it; they have it from there if that has it.
    """
    if view.origin is None:
        return _new_inverses(view, needs, by)
    key = ("inverses", needs, by)
    return view.memoise_selected(key, _selected, lambda: _new_inverses(view, needs, by))  # type: ignore[no-any-return]


def _selected(
    whole: tuple[Floats, Floats | None], rows: Ints | slice
) -> tuple[Floats, Floats | None]:
    """Return the inverses of some rows of another View."""
    inverse, absent = whole[0][:, rows], whole[1]
    return inverse, None if absent is None or inverse.all() else absent[rows]


def _new_inverses(view: View, needs: tuple[Need, ...], by: By) -> tuple[Floats, Floats | None]:
    size = (len(needs), len(view))
    inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
    has_none = inverse == 0.0
    return inverse, _mean(has_none.astype(np.float64)) if has_none.any() else None


def _squares(table: _ShareTable) -> _Squares:
    products = np.concatenate((table.inverse, table.free)) * np.tile(table.inverse, (2, 1))
    return _Squares(products, _mean(table.free * table.free))


def _mean(table: Floats) -> Floats:
    return weighted_sum(table, _equal_weights(len(table)))


@functools.lru_cache(maxsize=64)
def _equal_weights(size: int) -> Floats:
    return read_only(np.full(size, 1.0 / max(1, size)))
