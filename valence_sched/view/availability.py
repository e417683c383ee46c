# SPDX-License-Identifier: Apache-2.0
"""Availability: per need the rows with sufficient free capacity, and what does not count in one."""

import functools
from collections import Counter
from typing import NamedTuple

import numpy as np

from valence_sched.model.decision import Uncounted
from valence_sched.model.need import Need
from valence_sched.view.block_kinds import is_meant, line_amount
from valence_sched.view.view import Floats, Ints, Mask, View, read_only

FEW_ROWS = 256  # that are compared with each amount anew
NO_ROWS = np.empty(0, dtype=np.int64)


class Threshold:
    """The amounts of one need per row, shape ``(rows,)``; finds the rows below an amount.

    The second search sorts the rows: from then on no search compares all of them.
    """

    def __init__(self, have: Floats) -> None:
        self.have = have
        self.least = float(have.min(initial=np.inf))
        self._searched = False
        self._order, self._sorted = NO_ROWS, have

    def below(self, amount: float) -> Ints:
        """Return the row numbers of the rows that have less than ``amount``."""
        if amount <= self.least:
            return NO_ROWS
        if not self._searched:
            self._searched = True
            return (self.have < amount).nonzero()[0]
        if not len(self._order):
            self._order = self.have.argsort(kind="stable")
            self._sorted = self.have[self._order]
        return self._order[: self._sorted.searchsorted(amount)]


class _Sufficiency(NamedTuple):
    """The rows with enough of each need by itself, and what the needs are compared by."""

    subjects: tuple[object, ...]
    amounts: Floats
    masks: list[Mask]


def sufficient(view: View, needs: tuple[Need, ...]) -> list[Mask]:
    """Return per need a mask of the rows with enough of it free: of a stock, for a single grant.

    A mask is ``view.all_rows`` itself if every row has enough. The View remembers the answer for
    the plug-ins that follow.
    """
    return _sufficiency(view, needs).masks


def subjects_and_amounts(view: View, needs: tuple[Need, ...]) -> tuple[tuple[object, ...], Floats]:
    """Return what amounts are compared with, and per need the amount of a single grant.

    The subject is the need without its amount, a stock its resource; where the amount of the need
    stands for an unknown one, the subject is the need itself.
    """
    return _sufficiency(view, needs)[:2]


def _sufficiency(view: View, needs: tuple[Need, ...]) -> _Sufficiency:
    return view.memoise_free("sufficient", needs, lambda: _sufficient(view, needs))  # type: ignore[no-any-return]


def feasible_rows(view: View, needs: tuple[Need, ...]) -> Mask:
    """Return a mask of the rows with enough of each need by itself, and of all its grants.

    The mask is ``view.all_rows`` itself if every row has enough. The View remembers it, with the
    row numbers of ``infeasible_rows``.
    """
    return _feasible_and_infeasible(view, needs)[0]


def infeasible_rows(view: View, needs: tuple[Need, ...]) -> Ints:
    """Return the row numbers of all other rows: those that certainly cannot make the node."""
    return _feasible_and_infeasible(view, needs)[1]


def _feasible_and_infeasible(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    return view.memoise_free("feasible", needs, lambda: _feasibility(view, needs))  # type: ignore[no-any-return]


def _feasibility(view: View, needs: tuple[Need, ...]) -> tuple[Mask, Ints]:
    all_rows = feasible = view.all_rows
    for need, mask in zip(needs, sufficient(view, needs), strict=True):
        if mask is not all_rows:
            feasible = mask if feasible is all_rows else feasible & mask
        if need.count > 1:
            feasible = feasible & (view.free(need) >= need.total_amount())
    if feasible is all_rows:
        return all_rows, NO_ROWS
    feasible.flags.writeable = False
    return feasible, (~feasible).nonzero()[0]


def _sufficient(view: View, needs: tuple[Need, ...]) -> _Sufficiency:
    subjects = tuple(map(_subject, needs))
    if all(need.kind != "stock" for need in needs):
        return _Sufficiency(subjects, _amounts(needs), [_mask(view, None, need) for need in needs])
    if len(view) <= FEW_ROWS:
        return _Sufficiency(subjects, _amounts(needs), [_few_mask(view, need) for need in needs])
    make = functools.partial(_stock_thresholds, view, needs)
    thresholds, minimums = view.memoise_free("thresholds", subjects, make)
    amounts = _amounts(needs)
    masks = [view.all_rows] * len(needs)
    for number in (minimums < amounts).nonzero()[0].tolist():
        masks[number] = _mask(view, thresholds[number], needs[number])
    return _Sufficiency(subjects, amounts, masks)


def _subject(need: Need) -> object:
    return need.resource or (need if need.unknown == "allow" else need.subject)


@functools.lru_cache(maxsize=1024)
def _amounts(needs: tuple[Need, ...]) -> Floats:
    return read_only(np.array([need.amount for need in needs], dtype=np.float64))


def _stock_thresholds(view: View, needs: tuple[Need, ...]) -> tuple[list[Threshold | None], Floats]:
    """Return a threshold per stock need, None for other needs, and the smallest amount of each."""
    thresholds = [
        Threshold(view.largest_grant(need)) if need.kind == "stock" else None for need in needs
    ]
    return thresholds, np.array([-np.inf if one is None else one.least for one in thresholds])


def _few_mask(view: View, need: Need) -> Mask:
    """Return what :func:`_mask` does: few rows are sooner compared than put in order."""
    have = view.largest_grant(need) if need.kind == "stock" else view.free(need)
    mask: Mask = have >= need.amount
    if need.kind == "stock" and mask.all():
        return view.all_rows
    mask.flags.writeable = False
    return mask


def _mask(view: View, threshold: Threshold | None, need: Need) -> Mask:
    if threshold is None:
        mask = view.free(need) >= need.amount
    else:
        mask = view.all_rows.copy()
        mask[threshold.below(need.amount)] = False
    mask.flags.writeable = False
    return mask


def uncounted(view: View, need: Need, row: int) -> Uncounted | None:
    """Return what a pool has of a need that does not count for its condition, None for nothing.

    A device is in a condition of its own, or in that of its block.
    """
    table, kinds = view.block_tables[view.podm_of[row]], view.kinds
    position = int(view.position_of[row])
    here = Counter(
        kind for kind, pools in zip(table.kinds, table.pools, strict=True) if position in pools
    )
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
    found = {word: amount for word, amount in conditions.items() if amount}
    return Uncounted(installed=installed, conditions=found) if found else None
