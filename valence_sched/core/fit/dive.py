# SPDX-License-Identifier: Apache-2.0
"""Dive: the depth-first branch and bound of a set cover, for a bounded number of states.

Items in order of price per share of the demand, bounds from the most that the remaining items can
give and the least that must cost, and no state visited twice at a higher price.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace


class Item(Struct, frozen=True):
    """One kind of thing to take: its number, the price and gifts of one, and the caps it uses."""

    available: int
    price: int
    gives: tuple[int, ...]
    caps: tuple[int, ...] = ()


def upper_bound(items: Sequence[Item], demand: int, caps: Sequence[int]) -> int:
    """Return an upper bound of what all items together give to one demand within the caps."""
    search = Dive([replace(item, gives=(item.gives[demand],)) for item in items], (0,), None, 0)
    return _most_given(search.remaining_gifts[0][0], search.cap_room(tuple(caps)))


Branch = tuple[int, tuple[int, ...], tuple[int, ...], int]


class Dive:
    """One search: the items in order, their bounds, the best cover so far."""

    def __init__(
        self, items: Sequence[Item], demand: tuple[int, ...], ceiling: int | None, most: int
    ) -> None:
        self.complete, self.improve = True, True
        self.demands = range(len(demand))
        prices = [_price_per_share(item, demand) for item in items]
        self.order = sorted(range(len(items)), key=prices.__getitem__)
        self.items = [items[position] for position in self.order]
        self.best: Sequence[int] | None = None
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
            if self.states > self.most or not (self.improve or self.best is None):
                self.complete = False
                return
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

    def counts(self, numbers: Sequence[int] | None) -> list[int] | None:
        """Return numbers of the items in order as numbers of the items as they were given."""
        if numbers is None:
            return None
        counts = [0] * len(self.items)
        for position, number in zip(self.order, numbers, strict=False):
            counts[position] = number
        return counts

    def _steps(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> Iterator[Branch]:
        """Yield the branches for the item at ``position``, most of it first."""
        state = (position, demand, caps)
        if self.seen.get(state, spent + 1) <= spent or not self._can_improve(*state, spent):
            return
        self.seen[state] = spent
        item = self.items[position]
        for number in range(self._useful(item, demand, caps), -1, -1):
            self.states += 1
            price = spent + number * item.price
            if self.ceiling is not None and price >= self.ceiling:
                if self.states > self.most:
                    return  # as incomplete as :meth:`run` finds it
                continue
            if not number:  # without any of it, demand and caps stay the same
                yield 0, demand, caps, price
                continue
            pairs = zip(demand, item.gives, strict=True)
            unmet = tuple([d - number * g if d > number * g else 0 for d, g in pairs])
            left = [cap - number if index in item.caps else cap for index, cap in enumerate(caps)]
            yield number, unmet, tuple(left), price

    def _can_improve(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> bool:
        rest, unit = self.remaining_gifts[position], self.least_unit_price[position]
        rooms, floor = self.cap_room(caps), 0.0
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
