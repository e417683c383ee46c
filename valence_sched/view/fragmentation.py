# SPDX-License-Identifier: Apache-2.0
"""A mix compiled: how much of a scarce thing every row has that the mix has no use for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valence_sched.model.need import Need
from valence_sched.view.block_kinds import Kinds
from valence_sched.view.leftover import Leftover
from valence_sched.view.stock_grants import Grants
from valence_sched.view.view import Labels

if TYPE_CHECKING:
    from valence_sched.model.request import Names, Share

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ACCELERATORS = "accelerators"  # the scarce thing that is no stock: all that blocks bring of them
#: A mix is not of one flavor: beside nodes that need much of the rest, lighter ones use the cards.
LIGHTER = 3.0
EVERY = Need(kind="accelerator", measure="devices", amount=0)


class Look(NamedTuple):
    """What the mix sees of some rows.

    ``have`` is what a row has of each line of the mix, shape ``(lines, rows)``; ``supply`` is the
    same in fractions of a grant, and without end of the scarce thing; ``useful`` is how much of
    the scarce thing is of a kind and size for each share, ``(shares, rows)``; ``free`` all of it.
    """

    have: Floats
    supply: Floats
    useful: Floats
    free: Floats

    def take(self, rows: Ints) -> Look:
        """Return a copy with these rows in this order."""
        have, supply, useful = self.have[:, rows], self.supply[:, rows], self.useful[:, rows]
        return Look(have, supply, useful, self.free[rows])


class Workload:
    """The shares of a mix that ask for one scarce thing, and what each of them demands of a row.

    ``of`` is a stock resource, or ``accelerators`` of blocks. ``one`` is an amount of it that is
    a large one in the eyes of the mix: the most that a share asks of one stock, or one device.
    """

    def __init__(self, shares: Sequence[Share], of: str) -> None:
        self.of = of
        self._shares = [share for share in shares if self._scarce(share)]
        weights = np.array([share.weight for share in self._shares])
        self._weights = (weights / weights.sum())[:, None] if len(weights) else weights
        self._useful = np.empty((0, 0))
        self._traits = [share.traits for share in self._shares]
        self._accepts: tuple[Sequence[Any] | None, Mask] = None, np.empty((0, 0), dtype=bool)
        needs = [[need for need in share.needs if need.amount > 0] for share in self._shares]
        flat = list(itertools.chain.from_iterable(needs))
        stocks = sorted({(need.resource, need.amount) for need in flat if need.kind == "stock"})
        self._stocks = {
            name: np.array([[amount] for _, amount in group])
            for name, group in itertools.groupby(stocks, key=lambda line: line[0])
        }
        self._amounts = stocks
        self._blocks = tuple(dict.fromkeys(need for need in flat if need.kind != "stock"))
        lines: dict[object, int] = {line: number for number, line in enumerate(stocks)}
        lines |= {need: len(stocks) + number for number, need in enumerate(self._blocks)}
        self._line = [
            lines[(need.resource, need.amount) if need.kind == "stock" else need] for need in flat
        ]
        self._least = np.array([[_count(need)] for need in flat])
        self._first = [0, *itertools.accumulate(len(asked) for asked in needs)][:-1]
        smallest = [min(need.amount for need in self._scarce(share)) for share in self._shares]
        amounts = [amount for name, amount in stocks if name == of]
        self._unit = [amounts.index(amount) for amount in smallest] if amounts else []
        self.one = float(max(amounts, default=1.0))
        takes = [sum(map(_takes, self._scarce(share))) for share in self._shares]
        #: How much of the scarce thing goes with what a line has, by each unit of the line.
        self._rate = np.repeat(takes, [len(asked) for asked in needs])[:, None] * (
            LIGHTER / self._least
        )
        scarce = [of == ACCELERATORS and need.kind == "accelerator" for need in self._blocks]
        self._endless = np.where(scarce, np.inf, 0.0)[:, None]

    def __bool__(self) -> bool:
        return bool(self._shares)

    @property
    def resources(self) -> tuple[str, ...]:
        """Return the stock resources that it looks at."""
        return tuple(self._stocks)

    @property
    def blocks(self) -> bool:
        """Return whether it looks at blocks."""
        return bool(self._blocks)

    def _scarce(self, share: Share) -> list[Need]:
        if self.of == ACCELERATORS:
            return [need for need in share.needs if need.kind == "accelerator" and need.amount]
        return [need for need in share.needs if need.resource == self.of and need.amount]

    def accepts(self, traits: Labels) -> Mask:
        """Return per share and row whether the row's traits are those that the share wants."""
        if self._accepts[0] is not traits.values:  # selections of a View share their values
            table = [[_accepted(names, has) for has in traits.values] for names in self._traits]
            self._accepts = traits.values, np.array(table, dtype=bool)
        return self._accepts[1][:, traits.codes]

    def look(self, left: Leftover) -> Look:
        """Return what matters to the mix of what is free."""
        have = np.empty((len(self._amounts) + len(self._blocks), left.blocks.shape[1]))
        supply = np.full_like(have, np.inf)
        useful, free = np.zeros((len(self._shares), have.shape[1])), np.zeros(have.shape[1])
        if self._blocks:
            have[len(self._amounts) :] = left.kinds.table(self._blocks) @ left.blocks
        if self.of == ACCELERATORS:
            useful, free = self._cards(left.kinds) @ left.blocks, _every(left.kinds) @ left.blocks
        return self._look_at(left.stocks, Look(have, supply, useful, free))

    def look_after(self, before: Look, left: Leftover, needs: Sequence[Need]) -> Look:
        """Return the same once every row has given what one node needs."""
        have, supply = before.have.copy(), before.supply.copy()
        useful, free = before.useful, before.free
        if self._blocks:
            taken = left.blocks_of(needs)
            some = np.flatnonzero(taken.any(axis=1))
            gone = taken[some]
            have[len(self._amounts) :] -= left.kinds.table(self._blocks)[:, some] @ gone
            if self.of == ACCELERATORS:
                useful = useful - self._cards(left.kinds)[:, some] @ gone
                free = free - _every(left.kinds)[some] @ gone
        return self._look_at(left.stocks_less(needs), Look(have, supply, useful, free))

    def useless(self, look: Look, accepts: Mask) -> Floats:
        """Return per row how much of what is free the mix is expected to have no use for.

        Of each share by its weight: all of it where the row cannot make its node; else the units
        that are too small for it, or of another kind, and what is more than ``LIGHTER`` times as
        much as goes into the nodes for which whatever else they need is enough.
        """
        enough = look.have[self._line] >= self._least
        fits: Mask = np.logical_and.reduceat(enough, self._first, axis=0)
        reach = np.minimum.reduceat(look.supply[self._line] * self._rate, self._first, axis=0)
        used = np.minimum(look.useful, reach) * (fits & accepts) * self._weights
        # added up one after another: alike for one row and for many
        expected: Floats = look.free - np.add.accumulate(used, axis=0)[-1]
        return expected

    def _look_at(self, stocks: Mapping[str, Grants], look: Look) -> Look:
        """Write what these stocks and the blocks have over what was seen of them."""
        useful, free, blocks = look.useful, look.free, len(self._amounts)
        if self._blocks:
            look.supply[blocks:] = look.have[blocks:] + self._endless
        for name, amounts in self._stocks.items():
            if name not in stocks:
                continue
            grants = stocks[name]
            size, number = grants.each(amounts)
            first = self._amounts.index((name, float(amounts[0, 0])))
            look.have[first : first + len(amounts)] = grants.sums(number)
            if name != self.of:
                look.supply[first : first + len(amounts)] = grants.sums(grants.left / size)
            else:
                useful = grants.sums(np.where(number > 0.0, grants.left, 0.0))[self._unit]
                free = grants.sums(grants.left)
        return Look(look.have, look.supply, useful, free)

    def _cards(self, kinds: Kinds) -> Floats:
        """Return per share and kind of block how many accelerators are of use to the share."""
        if self._useful.shape[1] != len(kinds):
            serves = [
                np.logical_or.reduce([kinds.amounts(need) > 0.0 for need in self._scarce(share)])
                for share in self._shares
            ]
            self._useful = _every(kinds) * np.array(serves)
        return self._useful


def _count(need: Need) -> float:
    """Return how much a need asks for of its line: grants, or what blocks bring."""
    return need.count if need.kind == "stock" else need.amount


def _takes(need: Need) -> float:
    """Return how much of the scarce thing a node takes for one need."""
    return need.amount * (need.count if need.kind == "stock" else 1)


def _every(kinds: Kinds) -> Floats:
    return kinds.amounts(EVERY)


def _accepted(names: Names, has: frozenset[str]) -> bool:
    return (
        has.issuperset(names.required)
        and has.isdisjoint(names.forbidden)
        and all(not has.isdisjoint(one) for one in names.any_of)
    )
