# SPDX-License-Identifier: Apache-2.0
"""Set cover: the cheapest choice of items that meets every demand within the caps.

Minimise ``sum(price * n)`` subject to ``sum(coverage[j] * n) >= demand[j]`` for every demand,
``sum(n over the items that count against a cap) <= cap`` and ``0 <= n <= available``. All numbers
are whole, so an answer is exact. A depth-first search (``Dive``) solves nearly every problem within
``FREE_STATES``. It branches on the items in order of price per share of the demand. Of equally
cheap covers, it prefers the cover with more of the earlier items. HiGHS (``optimiser``) solves the
other problems. If its floating-point answer is not certain, the dive continues.

Work is counted in states, not in time, so equal problems get equal answers. A problem that exceeds
its states is undecided.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from valence_sched.core.fit.stocks import FREE_STATES, SearchOutcome
from valence_sched.model.inventory import BlockType, Limit
from valence_sched.model.need import Need
from valence_sched.view import block_kinds as prices
from valence_sched.view.block_kinds import BlockKinds, device_amount

if TYPE_CHECKING:
    from valence_sched.core.fit.optimiser import ProgrammePart

IMPROVE_STATES = 50_000  # states to search for a cheaper cover after the first one
LONG_WEIGHT = 12  # each state of a later dive counts as this many states of HiGHS
WIDTH = 16  # a state counts as one more state for each further 16 demands and caps


class Item(Struct, frozen=True):
    """One kind of item: number available, price, coverage by demand, and indices of its caps."""

    available: int
    price: int
    coverage: tuple[int, ...]
    caps: tuple[int, ...] = ()


def cheapest_cover(
    items: Sequence[Item],
    demand: Sequence[int],
    caps: Sequence[int] = (),
    *,
    states: int = FREE_STATES,
    improve: bool = True,
) -> SearchOutcome:
    """Return the count of each item in the cheapest cover; without ``improve``, the first cover."""
    if not any(demand):
        return SearchOutcome([0] * len(items), True, 0)
    weight = 1 + (len(demand) + len(caps)) // WIDTH

    def dive(states: int, improve: bool, weight: int) -> SearchOutcome:
        search = Dive(items, tuple(demand), states // weight, improve=improve)
        search.run(tuple(demand), tuple(caps))
        counts = search.counts()
        if counts is not None and not search.complete:
            counts = _without_needless(items, demand, counts)
        return SearchOutcome(counts, search.complete, search.states * weight)

    short = dive(min(states, FREE_STATES), improve, weight)
    if short.complete or states <= FREE_STATES or not (improve or short.found is None):
        return short
    from valence_sched.core.fit import optimiser  # only hard problems need it

    left = states - short.states  # HiGHS gets a third of the states while no cover is known
    left = left // 3 if short.found is None else min(left, IMPROVE_STATES)
    prices = {index: item.price for index, item in enumerate(items)}
    best = optimiser.optimum(_programme(items, demand, caps), prices, left, short.found)
    visited = short.states + best.states
    if best.is_open:
        further = dive(max(0, states - visited), True, weight * LONG_WEIGHT)
        return structs.replace(further, states=visited + further.states)
    counts = best.found and _without_needless(items, demand, best.found)
    return SearchOutcome(counts, best.complete, visited)


def _programme(
    items: Sequence[Item], demand: Sequence[int], caps: Sequence[int]
) -> "ProgrammePart":
    """Return the set cover as an integer programme, with bounds and coefficients tightened."""
    from valence_sched.core.fit.optimiser import ProgrammePart

    part = ProgrammePart()
    for item in items:
        rooms = [caps[one] for one in item.caps]
        part.column(min([item.available, _helpful(item, demand), *rooms]))
    for number, amount in enumerate(demand):
        if amount:
            coverage = [min(item.coverage[number], amount) for item in items]
            least, units = whole_units(amount, coverage)
            part.row([(n, covered) for n, covered in enumerate(units) if covered], lower=least)
    for cap, room in enumerate(caps):
        part.row([(n, 1) for n, item in enumerate(items) if cap in item.caps], upper=room)
    return part


def whole_units(amount: int, coverage: Sequence[int]) -> tuple[int, list[int]]:
    """Divide demand and coverages by the gcd of the coverages below the demand; round up."""
    unit = math.gcd(*[covered for covered in coverage if covered < amount])
    if unit <= 1:
        return amount, list(coverage)
    whole = -(-amount // unit)
    return whole, [min(whole, -(-covered // unit)) for covered in coverage]


def _without_needless(
    items: Sequence[Item], demand: Sequence[int], found: Sequence[int]
) -> list[int]:
    """Drop the items that a cover does not need, the most expensive first; return the counts."""
    counts = list(found)
    taken = list(zip(items, counts, strict=True))
    surplus = [sum(item.coverage[j] * n for item, n in taken) - d for j, d in enumerate(demand)]
    for index in sorted(range(len(items)), key=lambda index: -items[index].price):
        coverage = items[index].coverage
        spare = [
            surplus[j] // covered for j, covered in enumerate(coverage) if covered and demand[j]
        ]
        needless = min([counts[index], *spare])
        counts[index] -= needless
        surplus = [
            left - needless * covered for left, covered in zip(surplus, coverage, strict=True)
        ]
    return counts


def upper_bound(items: Sequence[Item], demand: int, caps: Sequence[int]) -> int:
    """Return an upper bound of the coverage of one demand by all items within the caps."""
    alone = [structs.replace(item, coverage=(item.coverage[demand],)) for item in items]
    search = Dive(alone, (0,), 0)
    return _most_covered(search.remaining_coverage[0][0], search.cap_room(tuple(caps)))


def connected(members: Iterable[int], links: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the connected components of a graph; each link connects all members in it."""
    parent = {member: member for member in members}

    def root(member: int) -> int:
        while parent[member] != member:
            parent[member] = member = parent[parent[member]]
        return member

    for link in links:
        for member in link[1:]:
            low, high = sorted((root(link[0]), root(member)))
            parent[high] = low
    groups: dict[int, list[int]] = {}
    for member in parent:
        groups.setdefault(root(member), []).append(member)
    return list(groups.values())


class Dive:
    """A depth-first search for the cheapest cover, with bounds for the remaining items.

    A state is visited again only at a lower price.
    """

    def __init__(
        self, items: Sequence[Item], demand: tuple[int, ...], most: int, *, improve: bool = True
    ) -> None:
        self.complete, self.improve = True, improve
        self.demands = range(len(demand))
        prices: list[tuple[float, int]] = []  # price of an item for its share of the demand
        for item in items:
            pairs = zip(item.coverage, demand, strict=False)
            share = sum(min(1.0, covered / amount) for covered, amount in pairs if amount)
            prices.append((item.price / share if share else float("inf"), item.price))
        self.order = sorted(range(len(items)), key=prices.__getitem__)
        self.items = [items[position] for position in self.order]
        self.best: Sequence[int] | None = None
        self.ceiling: int | None = None  # a cover must cost less than the best one so far
        self.states, self.most = 0, most
        self.seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        size, self.groups = len(self.items), sorted({item.caps for item in self.items})
        #: [position][demand][set of caps] = (sum, largest) coverage of the items from there on
        self.remaining_coverage: list[list[list[tuple[int, int]]]] = [[]] * (size + 1)
        self.least_unit_price: list[list[float]] = [[]] * (size + 1)
        rest = [[(0, 0)] * len(self.groups) for _ in demand]
        unit = [float("inf")] * len(demand)
        self.remaining_coverage[size], self.least_unit_price[size] = rest, unit
        for position in range(size - 1, -1, -1):
            item = self.items[position]
            group = self.groups.index(item.caps)
            rest = [list(row) for row in rest]
            unit = list(unit)
            for j, covered in zip(self.demands, item.coverage, strict=False):
                if covered:
                    total, best = rest[j][group]
                    rest[j][group] = (total + covered * item.available, max(best, covered))
                    unit[j] = min(unit[j], item.price / covered)
            self.remaining_coverage[position], self.least_unit_price[position] = rest, unit

    def run(self, demand: tuple[int, ...], caps: tuple[int, ...]) -> None:
        """Search depth first; ``best`` is the cheapest cover found, None without a cover."""
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

    def counts(self) -> list[int] | None:
        """Return the best cover in the original order of the items."""
        if self.best is None:
            return None
        counts = [0] * len(self.items)
        for position, number in zip(self.order, self.best, strict=False):
            counts[position] = number
        return counts

    def _steps(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...], int]]:
        """Yield the branches for the item at ``position``, the largest number first."""
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
                    return  # :meth:`run` sees that it is incomplete
                continue
            if not number:  # without the item, demand and caps are unchanged
                yield 0, demand, caps, price
                continue
            pairs = zip(demand, item.coverage, strict=True)
            unmet = tuple([d - number * g if d > number * g else 0 for d, g in pairs])
            left = [cap - number if index in item.caps else cap for index, cap in enumerate(caps)]
            yield number, unmet, tuple(left), price

    def _can_improve(
        self, position: int, demand: tuple[int, ...], caps: tuple[int, ...], spent: int
    ) -> bool:
        rest, unit = self.remaining_coverage[position], self.least_unit_price[position]
        rooms, floor = self.cap_room(caps), 0.0
        for j in self.demands:
            if demand[j]:
                if _most_covered(rest[j], rooms) < demand[j]:
                    return False
                floor = max(floor, demand[j] * unit[j])
        return self.ceiling is None or spent + floor < self.ceiling

    def cap_room(self, caps: tuple[int, ...]) -> list[int | None]:
        """Return the number of items that the caps allow, by set of caps; None without a cap."""
        return [min([caps[index] for index in group]) if group else None for group in self.groups]

    def _useful(self, item: Item, demand: tuple[int, ...], caps: tuple[int, ...]) -> int:
        helpful = _helpful(item, demand)
        return max(0, min([item.available, helpful, *[caps[index] for index in item.caps]]))


def _helpful(item: Item, demand: Sequence[int]) -> int:
    """Return how many of an item are enough for every demand that the item covers."""
    return max([-(-d // g) for d, g in zip(demand, item.coverage, strict=True) if g], default=0)


def _most_covered(rest: Sequence[tuple[int, int]], rooms: Sequence[int | None]) -> int:
    """Return an upper bound of the coverage by the remaining items, within each set of caps."""
    covered = 0
    for room, (total, largest) in zip(rooms, rest, strict=True):
        covered += total if room is None or total < room * largest else room * largest
    return covered


DEVICE_KINDS = ("processor", "memory", "accelerator", "drive", "nic")


class Demand(Struct, frozen=True):
    """One demand of a set cover: an amount, and the needs that it sums up."""

    amount: int
    needs: tuple[Need, ...]

    @property
    def label(self) -> str:
        return " and ".join(need.label for need in self.needs)


def demands(needs: tuple[Need, ...]) -> Iterator[Demand]:
    """Yield a demand per total, and per set of device groups of one kind (Hall's theorem)."""
    for need in needs:
        if need.kind != "stock" and need.measure != "devices":
            yield Demand(math.ceil(need.amount), (need,))
    devices = [need for need in needs if need.measure == "devices"]
    for kind in DEVICE_KINDS:
        groups = [need for need in devices if need.kind == kind]
        for size in range(1, len(groups) + 1):
            for chosen in itertools.combinations(groups, size):
                yield Demand(sum(math.ceil(need.amount) for need in chosen), chosen)


def coverage(kinds: BlockKinds, demands: Iterable[Demand], kind: int) -> tuple[int, ...]:
    """Return the amount of each demand that one block of a kind covers."""
    lines = kinds.devices_of(kind)
    return tuple(
        sum(max(device_amount(need, *line) for need in demand.needs) for line in lines)
        for demand in demands
    )


def problem(
    kinds: BlockKinds,
    limits: dict[BlockType, Limit],
    offer: Iterable[tuple[int, int]],
    demands: Iterable[Demand],
    coverage_of: Callable[[int], tuple[int, ...]],
) -> tuple[list[Item], list[int], list[int]]:
    """Return the items, caps and amounts of the set cover by ``(kind, number)`` blocks."""
    least = least_blocks(limits)
    capped = [name for name, limit in limits.items() if limit.max is not None]
    items = []
    for number, available in offer:
        kind = kinds.kinds[number]
        covered = coverage_of(number) + tuple(int(name in kind.types) for name in least)
        caps = tuple(index for index, name in enumerate(capped) if name in kind.types)
        items.append(Item(available, kind.price, covered, caps))
    amounts = [demand.amount for demand in demands] + list(least.values())
    return items, [limits[name].max or 0 for name in capped], amounts


def least_blocks(limits: dict[BlockType, Limit]) -> dict[BlockType, int]:
    """Return the minimum number of blocks per node by block type, for types with a minimum."""
    return {name: limit.min for name, limit in limits.items() if limit.min}


def waste(kinds: BlockKinds, blocks: Iterable[tuple[int, int]], needs: Iterable[Need]) -> int:
    """Return the price of ``(kind, number)`` blocks minus the price of the needs, at least 0."""
    price = sum([kinds.kinds[kind].price * number for kind, number in blocks])
    return max(0, price - price_of_needs(needs))


def price_of_needs(needs: Iterable[Need]) -> int:
    """Return the price of exactly the needed hardware, in points."""
    return sum(map(_price, needs))


def _price(need: Need) -> int:
    amount = int(need.amount)
    if need.kind == "stock" or need.measure == "sockets":
        return 0
    if need.measure == "cores":
        return amount * prices.PRICE_CORE
    if need.measure == "capacity_mib":
        return amount // prices.MIB_PER_POINT
    if need.kind == "accelerator":
        return amount * prices.PRICE_ACCELERATOR
    if need.kind == "nic":
        return amount * prices.PRICE_NIC
    least = {test.attribute: int(test.value) for test in need.tests if test.operator == "at_least"}
    if need.kind == "processor":
        return amount * least.get("cores", 0) * prices.PRICE_CORE
    if need.kind == "memory":
        return amount * least.get("capacity_mib", 0) // prices.MIB_PER_POINT
    return amount * (prices.PRICE_DRIVE + least.get("capacity_bytes", 0) // prices.BYTES_PER_POINT)
