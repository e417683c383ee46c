# SPDX-License-Identifier: Apache-2.0
"""Availability: the rows with enough free capacity for each need, and the share that stays free.

The free share of a need is ``free / total - amount / total``. Tables with one row per need hold the
parts that do not depend on the amounts, so a request needs one weighted sum over such a table.
"""

import functools
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from valence_sched.model.decision import Uncounted
from valence_sched.model.need import Need
from valence_sched.view.block_kinds import is_meant, line_amount, read_only
from valence_sched.view.view import By, Floats, Ints, Mask, View

NO_ROWS = np.empty(0, dtype=np.int64)


def sufficient(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return a mask of rows with enough for each need; ``view.all_rows`` itself if all have."""

    def make() -> list[Mask]:
        make_grants = functools.partial(_grants, view, needs)
        grants, least = view.memoise_free("grants", _subjects(needs), make_grants)
        masks = [view.all_rows] * len(needs)
        for number in (least < _amounts(needs)).nonzero()[0].tolist():
            masks[number] = read_only(grants[number] >= needs[number].amount)
        return masks

    return view.memoise_free("sufficient", needs, make)  # type: ignore[no-any-return]


def feasible_rows(view: View, needs: tuple[Need, ...]) -> Mask:
    """Return the rows with enough for each need and all its grants; ``view.all_rows`` if all."""
    return _feasibility(view, needs)[0]


def infeasible_rows(view: View, needs: tuple[Need, ...]) -> Ints:
    """Return the numbers of the rows that certainly cannot make the node."""
    return _feasibility(view, needs)[1]


def _feasibility(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    def make() -> tuple[Mask, Ints]:
        all_rows = feasible = view.all_rows
        for need, mask in zip(needs, sufficient(view, needs), strict=True):
            if mask is not all_rows:
                feasible = mask if feasible is all_rows else feasible & mask
            if need.count > 1:
                feasible = feasible & (view.free(need) >= need.total_amount())
        if feasible is all_rows:
            return all_rows, NO_ROWS
        return read_only(feasible), (~feasible).nonzero()[0]

    return view.memoise_free("feasible", needs, make)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=1024)
def _subjects(needs: tuple[Need, ...]) -> tuple[object, ...]:
    """Return memo keys: stocks by resource, other needs without their irrelevant amounts."""
    subjects = (need if need.unknown == "allow" else need.subject for need in needs)
    return tuple([need.resource or one for need, one in zip(needs, subjects, strict=True)])


@functools.lru_cache(maxsize=1024)
def _amounts(needs: tuple[Need, ...]) -> Floats:
    return read_only(np.array([need.amount for need in needs], dtype=np.float64))


@functools.lru_cache(maxsize=1024)
def _total_amounts(needs: tuple[Need, ...]) -> Floats:
    return read_only(np.array([need.amount * need.count for need in needs], dtype=np.float64))


def _grants(view: View, needs: tuple[Need, ...]) -> tuple[Floats, Floats]:
    """Return the largest grant of each row by need, all free devices, and the least of all rows."""
    grants = [view.largest_grant(one) if one.kind == "stock" else view.free(one) for one in needs]
    table = np.array(grants).reshape(len(needs), len(view))
    return table, np.minimum.reduce(table, axis=1, initial=np.inf)


def uncounted(view: View, need: Need, row: int) -> Uncounted | None:
    """Return the amount of a need in hardware whose condition does not count; None for 0."""
    table, kinds = view.block_tables[view.podm_of[row]], view.kinds
    position = int(view.position_of[row])
    pairs = zip(table.kinds, table.pools, strict=True)
    here = Counter(kind for kind, pools in pairs if position in pools)
    if kinds.impaired.isdisjoint(here):
        return None
    installed, conditions = 0, Counter[str]()
    for number, blocks in here.items():
        of_block = kinds.kinds[number].condition
        for kind, device in kinds.devices_of(number):
            if is_meant(need, kind, device):
                amount = blocks * line_amount(need, device)
                installed += amount
                word = of_block if need.accepts(device.condition) else device.condition
                if not need.accepts(word):
                    conditions[str(word)] += amount
    found = dict(+conditions)
    return Uncounted(installed=installed, conditions=found) if found else None


EPSILON = 1e-9  # the rounding error of a share


class _ShareTable(Struct, frozen=True, eq=False):
    """The free share of some needs, and ``1 / total`` of each; shape ``(needs, rows)``."""

    free: Floats  # 0 where the total is 0
    inverse: Floats
    mean: Floats  # of the free shares of a row
    absent: Floats | None  # the share of the needs with a total of 0; None if 0 for all rows
    exceeds_total: bool  # a row has more free than its total: its need allows unknown amounts


class FreeShare(NamedTuple):
    """The mean free share per feasible row; above 1 only if its ``table`` ``exceeds_total``."""

    mean: Floats
    absent: Floats | None
    amounts: Floats
    table: _ShareTable


def free_share(view: View, needs: tuple[Need, ...], by: By) -> FreeShare:
    """Return the mean of the shares ``(free - amount) / total``, 0 for rows without a total."""

    def make() -> FreeShare:
        amounts = _total_amounts(needs)
        make_table = functools.partial(_share_table, view, needs, by)
        table: _ShareTable = view.memoise_free(("shares", by), _subjects(needs), make_table)
        mean = weighted_sum(table.inverse, amounts / max(1, len(needs)))
        np.subtract(table.mean, mean, out=mean)
        np.abs(mean, out=mean)  # rounding may make a 0 negative
        mean[infeasible_rows(view, needs)] = 0.0
        return FreeShare(read_only(mean), table.absent, amounts, table)

    return view.memoise_free(("free share", by), needs, make)  # type: ignore[no-any-return]


def free_share_squared(view: View, needs: tuple[Need, ...], by: By) -> Floats:
    """Return the mean of the squares of these shares; undefined for infeasible rows."""
    _, _, amounts, table = free_share(view, needs, by)

    def make() -> tuple[Floats, Floats]:  # inverse**2 and free * inverse; mean of free**2
        products = np.concatenate((table.inverse, table.free)) * np.tile(table.inverse, (2, 1))
        return products, _mean(table.free * table.free)

    squares, mean_squares = view.memoise_free(("squares", by), table, make)
    # (free - amount * inverse)**2, multiplied out
    mean_amounts = amounts / max(1, len(needs))
    mean = weighted_sum(squares, np.concatenate((amounts * mean_amounts, -2.0 * mean_amounts)))
    mean += mean_squares
    return mean


def weighted_sum(table: Floats, weights: Floats) -> Floats:
    """Return ``sum(weights[i] * table[i])`` per column, added in order.

    Unlike with numpy's sum, the sum of a column does not depend on the number of columns.
    """
    if table.shape[1] == 1:
        return weighted_sum(np.repeat(table, 2, axis=1), weights)[:1]
    total: Floats = np.einsum("i,ij->j", weights, table)
    return total


def _share_table(view: View, needs: tuple[Need, ...], by: By) -> _ShareTable:
    inverse, absent = _inverses(view, needs, by)
    free = view.free_table(needs, by)  # read-only, because it is memoised
    free = np.multiply(free, inverse, out=free if free.flags.writeable else None)
    most = np.maximum.reduce(free, axis=None, initial=0.0)
    mean, exceeds_total = _mean(free), bool(most > 1.0 + EPSILON)
    np.minimum(mean, 1.0, out=mean, where=mean <= 1.0 + EPSILON)  # rounding may make a 1 larger
    return _ShareTable(free, inverse, mean, absent, exceeds_total)


def _inverses(view: View, needs: tuple[Need, ...], by: By) -> tuple[Floats, Floats | None]:
    """Return ``1 / total`` of each need, and per row the share of needs with a total of 0."""

    def select(whole: tuple[Floats, Floats | None], rows: Any) -> tuple[Floats, Floats | None]:
        inverse, absent = whole[0], whole[1]
        is_slice = isinstance(rows, slice)
        inverse = np.ascontiguousarray(inverse[:, rows]) if is_slice else inverse.take(rows, axis=1)
        return inverse, None if absent is None or inverse.all() else absent[rows]

    def make() -> tuple[Floats, Floats | None]:
        size = (len(needs), len(view))
        inverse = np.array([view.inverse(need, by) for need in needs]).reshape(size)
        has_none = inverse == 0.0
        return inverse, _mean(has_none.astype(np.float64)) if has_none.any() else None

    if view.origin is None:
        return make()
    return view.memoise_selected(("inverses", needs, by), select, make)  # type: ignore[no-any-return]


def _mean(table: Floats) -> Floats:
    return weighted_sum(table, np.full(len(table), 1.0 / max(1, len(table))))
