# SPDX-License-Identifier: Apache-2.0
"""Set cover: the cheapest choice of items that meets every demand within the caps (exact).

Minimise ``sum(price * n)`` subject to ``sum(gives[j] * n) >= demand[j]`` for every demand,
``sum(n over the items that count against a cap) <= cap`` and ``0 <= n <= available``. All
numbers are whole, so feasibility is exact; the cover is the cheapest that ``IMPROVE_STATES`` states
find. The method is depth-first branch and bound: items in order of price per share of the demand,
bounds from the most that the remaining items can give and the least that must cost, and no state
visited twice at a higher price.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: States visited in search of a cheaper cover once one is known. The search for any cover at all
#: is never cut short. Counted, not timed: equal problems get equal answers.
IMPROVE_STATES = 20_000


@dataclass(frozen=True, slots=True)
class Item:
    """One kind of thing to take: its number, the price and gifts of one, and the caps it uses."""

    available: int
    price: int
    gives: tuple[int, ...]
    caps: tuple[int, ...] = ()


def cheapest_cover(
    items: Sequence[Item], demand: Sequence[int], caps: Sequence[int] = ()
) -> list[int] | None:
    """Return how many to take of each item, or None when no choice meets the demand.

    Of equally cheap covers the one that takes more of the earlier items wins, so callers that
    pass items in a stable order get stable answers.
    """
    return cheaper_cover(items, demand, caps)[0]


def cheaper_cover(
    items: Sequence[Item],
    demand: Sequence[int],
    caps: Sequence[int] = (),
    ceiling: int | None = None,
    states: int | None = None,
) -> tuple[list[int] | None, int]:
    """Return the cheapest cover that costs less than ``ceiling``, and the states visited.

    ``states`` bounds the search for a better one once there is a ceiling or a cover
    (default ``IMPROVE_STATES``): then None means that none was found, not that there is none.
    """
    if not any(demand):
        return ([0] * len(items) if ceiling is None or ceiling > 0 else None), 0
    search = _BranchAndBound(
        items, tuple(demand), ceiling, IMPROVE_STATES if states is None else states
    )
    search.run(tuple(demand), tuple(caps))
    if search.best is None:
        return None, search.states
    counts = [0] * len(items)
    for position, number in zip(search.order, search.best, strict=False):
        counts[position] = number
    return counts, search.states


def upper_bound(items: Sequence[Item], demand: int, caps: Sequence[int]) -> int:
    """Return an upper bound of what all items together give to one demand within the caps."""
    search = _BranchAndBound(items, (0,) * (demand + 1), None, 0)
    return _most_given(search.remaining_gifts[0][demand], search.cap_room(tuple(caps)))


Branch = tuple[int, tuple[int, ...], tuple[int, ...], int]


class _BranchAndBound:
    """One search: the items in order, their bounds, the best cover so far."""

    def __init__(
        self, items: Sequence[Item], demand: tuple[int, ...], ceiling: int | None, most: int
    ) -> None:
        self.demands = range(len(demand))
        self.order = sorted(
            range(len(items)), key=lambda position: _price_per_share(items[position], demand)
        )
        self.items = [items[position] for position in self.order]
        self.best: tuple[int, ...] | None = None
        self.ceiling = ceiling  # a cover must cost less; the best one so far, once there is one
        self.states, self.most = 0, most
        self.seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        self._bounds(len(demand))

    def _bounds(self, demands: int) -> None:
        """Prepare, per item onward: the gifts that remain per cap set, and the least unit price."""
        size = len(self.items)
        self.groups = sorted({item.caps for item in self.items})
        #: [item][demand][group] = (sum of gifts, largest gift) of the items from here on
        self.remaining_gifts: list[list[list[tuple[int, int]]]] = [[]] * (size + 1)
        self.least_unit_price: list[list[float]] = [[]] * (size + 1)
        rest = [[(0, 0)] * len(self.groups) for _ in range(demands)]
        unit = [float("inf")] * demands
        self.remaining_gifts[size], self.least_unit_price[size] = rest, unit
        for position in range(size - 1, -1, -1):
            item = self.items[position]
            group = self.groups.index(item.caps)
            rest = [list(row) for row in rest]
            unit = list(unit)
            for j, gift in zip(range(demands), item.gives, strict=False):
                if gift:
                    total, best = rest[j][group]
                    rest[j][group] = (total + gift * item.available, max(best, gift))
                    unit[j] = min(unit[j], item.price / gift)
            self.remaining_gifts[position], self.least_unit_price[position] = rest, unit

    def run(self, demand: tuple[int, ...], caps: tuple[int, ...]) -> None:
        """Search depth first; ``best`` holds the cheapest cover found, None when there is none."""
        numbers: list[int] = []
        stack = [self._steps(0, demand, caps, 0)]
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
                if stack:
                    numbers.pop()
                continue
            number, unmet, room, price = step
            numbers.append(number)
            if any(unmet):
                stack.append(self._steps(len(numbers), unmet, room, price))
                continue
            if self.ceiling is None or price < self.ceiling:
                self.best, self.ceiling = tuple(numbers), price
            numbers.pop()

    def _steps(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> Iterator[Branch]:
        """Yield the branches for the item at ``position``, most of it first."""
        state = (position, demand, caps)
        if self.seen.get(state, spent + 1) <= spent or not self._can_improve(*state, spent):
            return
        self.seen[state] = spent
        self.states += 1
        item = self.items[position]
        for number in range(self._useful(item, demand, caps), -1, -1):
            price = spent + number * item.price
            if self.ceiling is not None and (price >= self.ceiling or self.states > self.most):
                continue
            if not number:  # without any of it, demand and caps stay the same
                yield 0, demand, caps, price
                continue
            pairs = zip(demand, item.gives, strict=True)
            unmet = tuple([d - number * g if d > number * g else 0 for d, g in pairs])
            room = tuple(
                [cap - number if index in item.caps else cap for index, cap in enumerate(caps)]
            )
            yield number, unmet, room, price

    def _can_improve(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> bool:
        rest, unit, rooms = (
            self.remaining_gifts[position],
            self.least_unit_price[position],
            self.cap_room(caps),
        )
        floor = 0.0
        for j in self.demands:
            if demand[j]:
                if _most_given(rest[j], rooms) < demand[j]:
                    return False
                floor = max(floor, demand[j] * unit[j])
        return self.ceiling is None or spent + floor < self.ceiling

    def cap_room(self, caps: tuple[int, ...]) -> list[int | None]:
        """Return how many items the caps leave room for, per cap set; None where nothing caps."""
        return [min([caps[index] for index in group]) if group else None for group in self.groups]

    def _useful(self, item: Item, demand: tuple[int, ...], caps: tuple[int, ...]) -> int:
        """Return how many of an item could help at most."""
        helpful = max([-(-d // g) for d, g in zip(demand, item.gives, strict=True) if g], default=0)
        return max(0, min([item.available, helpful, *[caps[index] for index in item.caps]]))


def _most_given(rest: Sequence[tuple[int, int]], rooms: Sequence[int | None]) -> int:
    """Return the most that the rest gives: per cap set its sum, or the room times its best."""
    give = 0
    for room, (total, largest) in zip(rooms, rest, strict=True):
        give += total if room is None or total < room * largest else room * largest
    return give


def _price_per_share(item: Item, demand: tuple[int, ...]) -> tuple[float, int]:
    """Order items by price per share of the demand met, then by price."""
    gifts = zip(item.gives, demand, strict=False)
    share = sum(min(1.0, give / amount) for give, amount in gifts if amount)
    return (item.price / share if share else float("inf"), item.price)
