# SPDX-License-Identifier: Apache-2.0
"""A world: which values of the places are open to which needs, and what blocks give in it.

In a world the bonds are a plain cover again. A group of blocks becomes one item for each way to
use one of its blocks; ways that exclude each other share a cap:

- ``same``: the needs of the bond accept blocks at the pinned value only;
- ``apart`` of several names: a value is open to some of the names. Who has it is decided by
  the search (``places``); blocks that do not tell the place decide each for itself;
- ``apart`` of one name (*lone*): of one block at most one device counts for the name (its seat),
  and the blocks at one value share a cap of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from valence_sched.core.fit.demands import Demand, least_blocks
from valence_sched.core.fit.set_cover import Item
from valence_sched.core.fit.topology_groups import Group
from valence_sched.model.inventory import Pool
from valence_sched.model.need import Bond, Need
from valence_sched.view.block_kinds import Kinds, amount

UNTOLD = -1  # the pin of a bond whose devices all stand in blocks that do not tell the place

Owners = Mapping[tuple[int, int], tuple[str, ...]]  # (bond, value) -> names it is open to
Seats = dict[str, int]  # which device line of a block counts for a lone name


class World(NamedTuple):
    """The pinned value of each ``same`` bond so far, and who may have which value."""

    pins: tuple[int, ...]
    owners: Owners


class Way(NamedTuple):
    """One way to use a block of a group: the names it can serve, and as an item of the cover."""

    group: int
    serves: frozenset[str]
    item: Item


class Question(NamedTuple):
    """A cover: its ways in the order of its items, the demands, the caps."""

    ways: list[Way]
    amounts: list[int]
    caps: list[int]

    @property
    def items(self) -> list[Item]:
        """Return the items of the cover."""
        return [way.item for way in self.ways]


@dataclass(slots=True)
class Rules:
    """The needs and bonds of a request, sorted by what they mean for a block."""

    needs: tuple[Need, ...]
    bonds: tuple[Bond, ...]
    demands: list[Demand]
    kinds: Kinds
    places: tuple[str, ...] = field(init=False)
    same: list[Bond] = field(init=False)
    apart: list[Bond] = field(init=False)
    lone: list[Bond] = field(init=False)
    _lines: dict[int, list[dict[Need, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = tuple(sorted({bond.place for bond in self.bonds}))
        self.same = [bond for bond in self.bonds if bond.relation == "same"]
        apart = [bond for bond in self.bonds if bond.relation == "apart"]
        self.apart = [bond for bond in apart if len(set(bond.of)) > 1]
        self.lone = [bond for bond in apart if len(set(bond.of)) == 1]

    def place(self, bond: Bond) -> int:
        """Return the number of a bond's place in a spot."""
        return self.places.index(bond.place)

    def lines(self, kind: int) -> list[dict[Need, int]]:
        """Return what each device line of a kind brings to the needs, where anything."""
        known = self._lines.get(kind)
        if known is None:
            known = [
                {need: n for need in self.needs if (n := amount(need, *line))}
                for line in self.kinds.lines(kind)
            ]
            known = self._lines[kind] = [line for line in known if line]
        return known

    def question(self, world: World, groups: tuple[Group, ...], pool: Pool) -> Question:
        """Return the cover that the groups of a pool are in a world."""
        least = least_blocks(pool.limits)
        capped = [name for name, limit in pool.limits.items() if limit.max is not None]
        caps = [pool.limits[name].max or 0 for name in capped]
        shared: dict[tuple[int, ...], int] = {}
        ways: list[Way] = []
        for index, group in enumerate(groups):
            types = self.kinds.kinds[group.kind].types
            price = self.kinds.kinds[group.kind].price
            common = tuple(int(name in types) for name in least)
            uses = tuple(place for place, name in enumerate(capped) if name in types)
            found = [
                (gives + common, seats, serves)
                for gives, seats, serves in self._ways(world, group)
                if any(gives) or any(common)
            ]
            for gives, seats, serves in found:
                mine: list[tuple[int, ...]] = list(self._seat_caps(group, seats))
                number = 1 if mine else group.number
                if len(found) > 1:
                    mine.append((index,))
                for cap in mine:
                    if cap not in shared:
                        shared[cap] = len(caps)
                        caps.append(group.number if cap == (index,) else 1)
                used = tuple(sorted((*uses, *(shared[cap] for cap in mine))))
                ways.append(Way(index, serves, Item(number, price, gives, used)))
        return Question(ways, [d.amount for d in self.demands] + list(least.values()), caps)

    def _seat_caps(self, group: Group, seats: Seats) -> Iterator[tuple[int, int]]:
        for number, bond in enumerate(self.lone):
            value = group.spot[self.place(bond)]
            if bond.of[0] in seats and value is not None:
                yield number, value

    def _ways(
        self, world: World, group: Group
    ) -> Iterator[tuple[tuple[int, ...], Seats, frozenset[str]]]:
        """Yield what one block gives to each demand, its seats and the names it can serve."""
        lines = self.lines(group.kind)
        seen = set()
        for mine in self._shares(group):
            open_ = {
                need for line in lines for need in line if self._open(world, group, need, mine)
            }
            for seats in self._seatings(lines, open_):
                gives = tuple(self._gives(demand, lines, open_, seats) for demand in self.demands)
                key = (gives, frozenset(seats))
                if key not in seen:
                    seen.add(key)
                    names = {name for name in map(name_of, open_) if not self._is_lone(name)}
                    yield gives, seats, frozenset({*names, *seats})

    def _shares(self, group: Group) -> Iterator[dict[int, str]]:
        """Yield who may have an untold block, by number of the bond that sets names apart."""
        untold = [n for n, bond in enumerate(self.apart) if group.spot[self.place(bond)] is None]
        for names in itertools.product(*(self.apart[number].of for number in untold)):
            yield dict(zip(untold, names, strict=True))

    def _open(self, world: World, group: Group, need: Need, mine: dict[int, str]) -> bool:
        """Return whether devices of a group may count for a need."""
        name = name_of(need)
        for bond in self.bonds:
            if (
                name in bond.of
                and group.spot[self.place(bond)] is None
                and (need.unknown == "reject")
            ):
                return False
        for bond, pin in zip(self.same, world.pins, strict=False):
            value = group.spot[self.place(bond)]
            if name in bond.of and value is not None and value != pin:
                return False
        for number, bond in enumerate(self.apart):
            value = group.spot[self.place(bond)]
            if name in bond.of:
                names = (
                    (mine[number],)
                    if value is None
                    else (world.owners.get((number, value), bond.of))
                )
                if name not in names:
                    return False
        return True

    def _seatings(self, lines: list[dict[Need, int]], open_: set[Need]) -> Iterator[Seats]:
        """Yield each choice of a line, or none, for every lone name that a block can serve."""
        names = sorted({name for name in map(name_of, open_) if self._is_lone(name)})
        choices = [
            [None, *(n for n, line in enumerate(lines)
                     if any(need in open_ and name_of(need) == name for need in line))]
            for name in names
        ]  # fmt: skip
        for chosen in itertools.product(*choices):
            yield {name: n for name, n in zip(names, chosen, strict=True) if n is not None}

    def _gives(
        self, demand: Demand, lines: list[dict[Need, int]], open_: set[Need], seats: Seats
    ) -> int:
        """Return what one block gives to a demand: devices of a line, or those that have a seat."""
        total = 0
        for number, line in enumerate(lines):
            here = [need for need in demand.needs if need in line and need in open_]
            free = max((line[n] for n in here if not self._is_lone(name_of(n))), default=0)
            seated = {name for name in map(name_of, here) if seats.get(name) == number}
            total += free or min(len(seated), max((line[n] for n in here), default=0))
        return total

    def _is_lone(self, name: str) -> bool:
        return any(name in bond.of for bond in self.lone)


def name_of(need: Need) -> str:
    """Return what bonds call a need."""
    return need.name or need.kind
