# SPDX-License-Identifier: Apache-2.0
"""Availability: per need the rows with sufficient free capacity, and the rows without."""

from __future__ import annotations

import numpy as np

from valence_sched.model.need import Need
from valence_sched.view.view import Floats, Ints, Mask, View

NO_ROWS = np.empty(0, dtype=np.int64)


class Threshold:
    """What every row has of one thing, shape ``(rows,)``, and who has too little of it.

    The rows are sorted when they are asked for the second time: then the few that have less
    than an amount are found without looking at the others.
    """

    def __init__(self, have: Floats) -> None:
        self.have = have
        self.least = float(have.min(initial=np.inf))
        self._asked = False
        self._order, self._sorted = NO_ROWS, have

    def below(self, amount: float) -> Ints:
        """Return the rows that have less than ``amount``."""
        if amount <= self.least:
            return NO_ROWS
        if not self._asked:
            self._asked = True
            return (self.have < amount).nonzero()[0]
        if not len(self._order):
            self._order = self.have.argsort(kind="stable")
            self._sorted = self.have[self._order]
        return self._order[: self._sorted.searchsorted(amount)]


def sufficient(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return per need where enough of it is free: of a stock, for a single grant.

    It is ``view.every`` itself where no row lacks any. Kept for the plugins that ask next.
    """
    return view.memoise_free("enough", needs, lambda: _sufficient(view, needs))  # type: ignore[no-any-return]


def feasible_rows(view: View, needs: tuple[Need, ...]) -> Mask:
    """Return where enough of each need by itself is free, and of all its grants together.

    It is ``view.every`` itself where no row lacks any. Kept, as is what ``lacking`` finds.
    """
    return _feasible_and_infeasible(view, needs)[0]


def infeasible_rows(view: View, needs: tuple[Need, ...]) -> Ints:
    """Return the other rows: those that surely cannot make the node."""
    return _feasible_and_infeasible(view, needs)[1]


def _feasible_and_infeasible(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    return view.memoise_free("possible", needs, lambda: _feasibility(view, needs))  # type: ignore[no-any-return]


def _feasibility(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    every = found = view.all_rows
    for need, mask in zip(needs, sufficient(view, needs), strict=True):
        if mask is not every:
            found = mask if found is every else found & mask
        if need.count > 1:
            found = found & (view.free(need) >= need.total_amount())
    if found is every:
        return every, NO_ROWS
    found.flags.writeable = False
    return found, (~found).nonzero()[0]


def _sufficient(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    have, least = view.memoise_free("having", subjects, lambda: _stock_thresholds(view, needs))
    asked = np.array([need.amount for need in needs])
    masks = [view.all_rows] * len(needs)
    for number in (least < asked).nonzero()[0].tolist():
        masks[number] = _mask(view, have[number], needs[number])
    return masks


def _stock_thresholds(view: View, needs: tuple[Need, ...]) -> tuple[list[Threshold | None], Floats]:
    """Return of each stock, that many ask for, who has little, and the least that any row has."""
    low = [Threshold(view.largest_grant(need)) if need.kind == "stock" else None for need in needs]
    return low, np.array([-np.inf if each is None else each.least for each in low])


def _mask(view: View, stock: Threshold | None, need: Need) -> Mask:
    if stock is None:
        mask = view.free(need) >= need.amount
    else:
        mask = view.all_rows.copy()
        mask[stock.below(need.amount)] = False
    mask.flags.writeable = False
    return mask
