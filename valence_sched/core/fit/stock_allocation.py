# SPDX-License-Identifier: Apache-2.0
"""Stock allocation: assigns each requested amount to one stock with the least surplus (exact)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from valence_sched.model.inventory import Stock
from valence_sched.model.need import Need
from valence_sched.model.stock import free_amount, grant_size
from valence_sched.view.view import View

#: States visited in search of less surplus once all amounts are assigned; see ``set_cover``.
IMPROVE_STATES = 20_000

StockAmount = tuple[int, float]  # which stock of the list, how much of it


def allocate(stocks: list[Stock], amounts: list[float]) -> list[StockAmount] | None:
    """Return one grant per amount, in the order of ``amounts``, or None when they do not fit.

    Exact: if any assignment of the amounts to the stocks exists, one is found. Among the
    stocks, the one that is left with least goes first.
    """
    if not amounts:
        return []
    if len(amounts) == 1:
        return _choices(stocks, amounts[0])[:1] or None
    order = sorted(range(len(amounts)), key=lambda index: (-amounts[index], index))
    search = _AllocationSearch([amounts[index] for index in order])
    search.run(stocks)
    if search.best is None:
        return None
    grants: list[StockAmount] = [(0, 0.0)] * len(amounts)
    for index, grant in zip(order, search.best, strict=True):
        grants[index] = grant
    return grants


@dataclass(slots=True)
class _Level:
    """The stocks before the next amount is assigned, and the choices that are left for it."""

    stocks: list[Stock]
    total: float
    choices: Iterator[StockAmount]
    state: tuple[int, tuple[float, ...]]
    placed: bool = False


class _AllocationSearch:
    """One search over the amounts, largest first."""

    def __init__(self, amounts: list[float]) -> None:
        self.amounts = amounts
        self.least = sum(amounts)
        self.best: list[StockAmount] | None = None
        self.best_total = float("inf")
        self.states = 0
        self.dead_ends: set[tuple[int, tuple[float, ...]]] = set()

    def run(self, stocks: list[Stock]) -> None:
        """Assign every amount, depth first; ``best`` holds the least that can be granted."""
        grants: list[StockAmount] = []
        levels = [self._level(stocks, 0, 0.0)]
        while levels:
            level = levels[-1]
            choice = next(level.choices, None)
            if choice is None or self._is_pruned(level.total + choice[1]):
                levels.pop()
                if choice is None and not level.placed:
                    self.dead_ends.add(level.state)
                if levels:
                    grants.pop()
                    levels[-1].placed |= level.placed
                continue
            number, amount = choice
            given = level.total + amount
            if len(levels) == len(self.amounts):
                level.placed = True
                if given < self.best_total:
                    self.best, self.best_total = [*grants, choice], given
                continue
            filled = level.stocks.copy()
            used = filled[number].used + amount
            filled[number] = msgspec.structs.replace(filled[number], used=used)
            next_level = self._level(filled, len(levels), given)
            if next_level.state not in self.dead_ends:
                grants.append(choice)
                levels.append(next_level)

    def _level(self, stocks: list[Stock], depth: int, total: float) -> _Level:
        self.states += 1
        state = (depth, tuple(stock.used for stock in stocks))
        return _Level(stocks, total, iter(_choices(stocks, self.amounts[depth])), state)

    def _is_pruned(self, total: float) -> bool:
        if self.best is None:
            return False
        return (
            self.states > IMPROVE_STATES or self.best_total <= self.least or total > self.best_total
        )


def _choices(stocks: list[Stock], amount: float) -> list[StockAmount]:
    """Return the stocks that can grant the amount, one of each equal kind, tightest first."""
    seen: set[tuple[float | None, ...]] = set()
    choices: list[tuple[float, float, int]] = []
    for number, stock in enumerate(stocks):
        content = (free_amount(stock), stock.min, stock.max, stock.step)
        granted = None if content in seen else grant_size(stock, amount)
        seen.add(content)
        if granted is not None:
            choices.append((granted, free_amount(stock) - granted, number))
    return [(number, granted) for granted, _, number in sorted(choices)]


AmountsByResource = Mapping[str, list[float]]


def stock_amounts(needs: Iterable[Need]) -> AmountsByResource:
    """Return each amount of a stock that the needs ask for, by resource."""
    by_resource: dict[str, list[float]] = {}
    for need in needs:
        if need.kind == "stock":
            by_resource.setdefault(need.resource, []).extend([need.amount] * need.count)
    return by_resource


def allocate_in_pool(
    view: View, row: int, by_resource: AmountsByResource
) -> list[StockAmount] | None:
    """Return how much of which stock of the podm pool ``row`` gives; None when it cannot."""
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    grants: list[StockAmount] = []
    stocks, stocks_of = table.stocks, table.stocks_of
    for resource, amounts in by_resource.items():
        numbers = stocks_of(position, resource)
        if len(numbers) == len(amounts) == 1:  # no choice, and by far the usual case
            amount = grant_size(stocks[numbers[0]], amounts[0])
            if amount is None:
                return None
            grants.append((numbers[0], amount))
            continue
        assigned = allocate([stocks[number] for number in numbers], amounts)
        if assigned is None:
            return None
        grants += [(numbers[index], amount) for index, amount in assigned]
    return grants


def stock_shortfall(
    view: View, row: int, by_resource: AmountsByResource
) -> tuple[str, float, float] | None:
    """Return a resource that a pool cannot grant: a label, the grants needed, the most."""
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    for resource, amounts in by_resource.items():
        stocks = [table.stocks[number] for number in table.stocks_of(position, resource)]
        if allocate(stocks, amounts) is None:
            return f"grants of {resource}", len(amounts), _most_allocatable(stocks, amounts)
    return None


def _most_allocatable(stocks: list[Stock], amounts: list[float]) -> int:
    """Return how many of the amounts can be granted at most: the smallest ones go first."""
    smallest = sorted(amounts)
    return max(n for n in range(len(amounts)) if allocate(stocks, smallest[:n]) is not None)
