# SPDX-License-Identifier: Apache-2.0
"""Stock allocation: each requested amount from one stock, with the least surplus (exact).

The module also defines the outcome of a search.
"""

import bisect
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from valence_sched.model.inventory import Stock, free_amount, grant_size
from valence_sched.model.need import Need
from valence_sched.view.view import View

FREE_STATES, FREE_TOPOLOGY_STATES = 400, 2_000  # states of the short search


class SearchOutcome(Struct, frozen=True, gc=False):
    """The best result found, else None; if ``complete``, no better result exists."""

    found: Any
    complete: bool
    states: int

    @property
    def is_open(self) -> bool:
        return self.found is None and not self.complete


IMPROVE_STATES = 20_000  # states to search for a smaller surplus
#: Assigning an amount takes as long as this many states of a set cover, and more for each stock.
STATES_PER_LEVEL, STATES_PER_STOCK = 20, 8

ROUNDING = 1.0 + 1e-6  # rounding error of a sum of amounts

StockAmount = tuple[int, float]  # the index of the stock, and the amount
NO_GRANTS = SearchOutcome(None, True, 1)


def allocate(stocks: list[Stock], amounts: list[float], states: int) -> SearchOutcome:
    """Return one grant per amount, tightest stocks first; incomplete if it exceeds ``states``."""
    if len(amounts) < 2:
        return SearchOutcome(_choices(stocks, amounts[0])[:1] or None if amounts else [], True, 1)
    if _is_too_much(stocks, amounts):
        return NO_GRANTS
    order = sorted(range(len(amounts)), key=lambda index: (-amounts[index], index))
    search = _AllocationSearch(stocks, [amounts[index] for index in order], states)
    search.run(stocks)
    if search.best is None:
        return SearchOutcome(None, search.complete, search.states)
    grants: list[StockAmount] = [(0, 0.0)] * len(amounts)
    for index, grant in zip(order, search.best, strict=True):
        grants[index] = grant
    return SearchOutcome(grants, search.complete, search.states)


class _Level(msgspec.Struct):
    """The stocks before the next amount is assigned, and the remaining choices for it."""

    stocks: list[Stock]
    total: float
    choices: Iterator[StockAmount]
    state: Hashable
    placed: bool = False


class _AllocationSearch:
    """One search over the amounts, largest first."""

    def __init__(self, stocks: list[Stock], amounts: list[float], most: int) -> None:
        self.amounts, self.most, self.complete = amounts, most, True
        self.least = sum(amounts)
        self.best: list[StockAmount] | None = None
        self.best_total = float("inf")
        self.states = self._levels = 0
        self._limits = [
            (stock.min, -1.0 if stock.max is None else stock.max, stock.step) for stock in stocks
        ]
        self.dead_ends: set[Hashable] = set()

    def run(self, stocks: list[Stock]) -> None:
        """Assign every amount, depth first; ``best`` holds the smallest possible grants."""
        grants: list[StockAmount] = []
        levels = [self._level(stocks, 0, 0.0)]
        while levels:
            if self.states > self.most or (self.best and self.states > IMPROVE_STATES):
                self.complete = self.best_total <= self.least
                return
            level = levels[-1]
            choice = next(level.choices, None)
            enough = self.best_total <= self.least
            if choice is None or (
                self.best is not None and (enough or level.total + choice[1] > self.best_total)
            ):
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
        self._levels += 1
        if self._levels > len(self.amounts):  # the first try of every amount costs no state
            self.states += STATES_PER_LEVEL + STATES_PER_STOCK * len(stocks)
        # equal stocks are interchangeable
        contents = ((stock.total or 0.0) - stock.used for stock in stocks)
        state = (depth, tuple(sorted(zip(contents, self._limits, strict=True))))
        return _Level(stocks, total, iter(_choices(stocks, self.amounts[depth])), state)


def _is_too_much(stocks: list[Stock], amounts: list[float]) -> bool:
    """Return whether the amounts certainly exceed the stocks, by their sum or by their sizes."""
    free = [free_amount(stock) for stock in stocks]
    if sum(amounts) > sum(free) * ROUNDING:
        return True
    number = 0  # amounts of at least this size
    for size, count in sorted(Counter(amounts).items(), reverse=True):
        number += count
        grants = [(grant_size(stock, size), left) for stock, left in zip(stocks, free, strict=True)]
        if number > sum(left * ROUNDING // grant for grant, left in grants if grant):
            return True
    return False


def _choices(stocks: list[Stock], amount: float) -> list[StockAmount]:
    """Return the stocks that can grant the amount, tightest first; equal stocks count once."""
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
    """Return the requested amounts by stock resource, one per grant."""
    by_resource: dict[str, list[float]] = {}
    for need in needs:
        if need.kind == "stock":
            by_resource.setdefault(need.resource, []).extend([need.amount] * need.count)
    return by_resource


def question(view: View, row: int, by_resource: AmountsByResource) -> Hashable:
    """Return the cache key of an allocation in pool ``row``: its stocks, by resource."""
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    return tuple(
        tuple((number, table.stocks[number]) for number in table.stocks_of(position, resource))
        for resource in by_resource
    )


def allocate_in_pool(
    view: View, row: int, by_resource: AmountsByResource, states: int
) -> SearchOutcome:
    """Return the grants ``(stock, amount)`` of pool ``row``; ``states`` are per resource."""
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    grants: list[StockAmount] = []
    complete, visited = True, 0
    stocks, stocks_of = table.stocks, table.stocks_of
    for resource, amounts in by_resource.items():
        numbers = stocks_of(position, resource)
        if len(numbers) == len(amounts) == 1:  # no choice, the usual case
            amount = grant_size(stocks[numbers[0]], amounts[0])
            if amount is None:
                return NO_GRANTS
            grants.append((numbers[0], amount))
            continue
        assigned = allocate([stocks[number] for number in numbers], amounts, states)
        visited += assigned.states
        if assigned.found is None:
            return SearchOutcome(None, assigned.complete, visited)
        complete = complete and assigned.complete
        grants += [(numbers[index], amount) for index, amount in assigned.found]
    return SearchOutcome(grants, complete, visited)


def stock_shortfall(
    view: View, row: int, by_resource: AmountsByResource, states: int
) -> tuple[str, float, float] | None:
    """Return a resource that a pool cannot grant: label, needed and possible number of grants."""
    table, position = view.block_tables[view.podm_of[row]], int(view.position_of[row])
    for resource, amounts in by_resource.items():
        stocks = [table.stocks[number] for number in table.stocks_of(position, resource)]
        answer = allocate(stocks, amounts, states)
        if answer.found is None and answer.complete:
            break
    else:
        return None
    least_first = sorted(amounts)

    def is_too_many(number: int) -> bool:
        return allocate(stocks, least_first[:number], states).found is None

    most = bisect.bisect_left(range(1, len(amounts)), True, key=is_too_many)
    return f"grants of {resource}", len(amounts), most
