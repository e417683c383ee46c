# SPDX-License-Identifier: Apache-2.0
"""Where each need of a request by itself finds enough."""

from __future__ import annotations

import numpy as np

from valence_sched.model.need import Need
from valence_sched.view.view import Floats, Ints, Mask, View

NOBODY = np.empty(0, dtype=np.int64)


class Low:
    """What every row has of one thing, shape ``(rows,)``, and who has too little of it.

    The rows are sorted when they are asked for the second time: then the few that have less
    than an amount are found without looking at the others.
    """

    def __init__(self, have: Floats) -> None:
        self.have = have
        self.least = float(have.min(initial=np.inf))
        self._asked = False
        self._order, self._sorted = NOBODY, have

    def below(self, amount: float) -> Ints:
        """Return the rows that have less than ``amount``."""
        if amount <= self.least:
            return NOBODY
        if not self._asked:
            self._asked = True
            return (self.have < amount).nonzero()[0]
        if not len(self._order):
            self._order = self.have.argsort(kind="stable")
            self._sorted = self.have[self._order]
        return self._order[: self._sorted.searchsorted(amount)]


def enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return per need where enough of it is free: of a stock, for a single grant.

    It is ``view.every`` itself where no row lacks any. Kept for the plugins that ask next.
    """
    return view.of_free("enough", needs, lambda: _enough(view, needs))  # type: ignore[no-any-return]


def possible(view: View, needs: tuple[Need, ...]) -> Mask:
    """Return where enough of each need by itself is free, and of all its grants together.

    It is ``view.every`` itself where no row lacks any. Kept, as is what ``lacking`` finds.
    """
    return _possible_and_not(view, needs)[0]


def lacking(view: View, needs: tuple[Need, ...]) -> Ints:
    """Return the other rows: those that surely cannot make the node."""
    return _possible_and_not(view, needs)[1]


def _possible_and_not(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    return view.of_free("possible", needs, lambda: _possible(view, needs))  # type: ignore[no-any-return]


def _possible(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    every = found = view.every
    for need, mask in zip(needs, enough(view, needs), strict=True):
        if mask is not every:
            found = mask if found is every else found & mask
        if need.count > 1:
            found = found & (view.free(need) >= need.asked())
    if found is every:
        return every, NOBODY
    found.flags.writeable = False
    return found, (~found).nonzero()[0]


def _enough(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    subjects = tuple([need.resource or need for need in needs])  # of a stock any amount will do
    have, least = view.of_free("having", subjects, lambda: _having(view, needs))
    asked = np.array([need.amount for need in needs])
    masks = [view.every] * len(needs)
    for number in (least < asked).nonzero()[0].tolist():
        masks[number] = _mask(view, have[number], needs[number])
    return masks


def _having(view: View, needs: tuple[Need, ...]) -> tuple[list[Low | None], Floats]:
    """Return of each stock, that many ask for, who has little, and the least that any row has."""
    low = [Low(view.most(need)) if need.kind == "stock" else None for need in needs]
    return low, np.array([-np.inf if each is None else each.least for each in low])


def _mask(view: View, stock: Low | None, need: Need) -> Mask:
    if stock is None:
        mask = view.free(need) >= need.amount
    else:
        mask = view.every.copy()
        mask[stock.below(need.amount)] = False
    mask.flags.writeable = False
    return mask
