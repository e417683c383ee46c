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
from valence_sched.core.fit.topology_groups import BlockGroup
from valence_sched.model.inventory import Pool
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.view.block_kinds import BlockKinds, device_amount

UNREPORTED = -1  # the pin of a bond whose devices all stand in blocks that do not tell the place

AllowedNames = Mapping[tuple[int, int], tuple[str, ...]]  # (bond, value) -> names it is open to
DeviceChoice = dict[str, int]  # which device line of a block counts for a lone name


class TopologyCase(NamedTuple):
    """The pinned value of each ``same`` bond so far, and who may have which value."""

    assigned: tuple[int, ...]
    allowed_names: AllowedNames


class BlockUse(NamedTuple):
    """One way to use a block of a group: the names it can serve, and as an item of the cover."""

    group: int
    serves: frozenset[str]
    item: Item


class CoverProblem(NamedTuple):
    """A cover: its ways in the order of its items, the demands, the caps."""

    uses: list[BlockUse]
    amounts: list[int]
    caps: list[int]

    @property
    def items(self) -> list[Item]:
        """Return the items of the cover."""
        return [way.item for way in self.uses]


@dataclass(slots=True)
class TopologyRules:
    """The needs and bonds of a request, sorted by what they mean for a block."""

    needs: tuple[Need, ...]
    bonds: tuple[TopologyConstraint, ...]
    demands: list[Demand]
    kinds: BlockKinds
    domains: tuple[str, ...] = field(init=False)
    same: list[TopologyConstraint] = field(init=False)
    apart: list[TopologyConstraint] = field(init=False)
    single_apart: list[TopologyConstraint] = field(init=False)
    _device_gives: dict[int, list[dict[Need, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.domains = tuple(sorted({bond.place for bond in self.bonds}))
        self.same = [bond for bond in self.bonds if bond.relation == "same"]
        apart = [bond for bond in self.bonds if bond.relation == "apart"]
        self.apart = [bond for bond in apart if len(set(bond.of)) > 1]
        self.single_apart = [bond for bond in apart if len(set(bond.of)) == 1]

    def domain_index(self, bond: TopologyConstraint) -> int:
        """Return the number of a bond's place in a spot."""
        return self.domains.index(bond.place)

    def device_gives(self, kind: int) -> list[dict[Need, int]]:
        """Return what each device line of a kind brings to the needs, where anything."""
        known = self._device_gives.get(kind)
        if known is None:
            known = [
                {need: n for need in self.needs if (n := device_amount(need, *line))}
                for line in self.kinds.devices_of(kind)
            ]
            known = self._device_gives[kind] = [line for line in known if line]
        return known

    def cover_problem(
        self, case: TopologyCase, groups: tuple[BlockGroup, ...], pool: Pool
    ) -> CoverProblem:
        """Return the cover that the groups of a pool are in a world."""
        least = least_blocks(pool.limits)
        capped = [name for name, limit in pool.limits.items() if limit.max is not None]
        caps = [pool.limits[name].max or 0 for name in capped]
        shared: dict[tuple[int, ...], int] = {}
        ways: list[BlockUse] = []
        for index, group in enumerate(groups):
            types = self.kinds.kinds[group.kind].types
            price = self.kinds.kinds[group.kind].price
            common = tuple(int(name in types) for name in least)
            uses = tuple(place for place, name in enumerate(capped) if name in types)
            found = [
                (gives + common, seats, serves)
                for gives, seats, serves in self._uses(case, group)
                if any(gives) or any(common)
            ]
            for gives, seats, serves in found:
                mine: list[tuple[int, ...]] = list(self._device_caps(group, seats))
                number = 1 if mine else group.number
                if len(found) > 1:
                    mine.append((index,))
                for cap in mine:
                    if cap not in shared:
                        shared[cap] = len(caps)
                        caps.append(group.number if cap == (index,) else 1)
                used = tuple(sorted((*uses, *(shared[cap] for cap in mine))))
                ways.append(BlockUse(index, serves, Item(number, price, gives, used)))
        return CoverProblem(ways, [d.amount for d in self.demands] + list(least.values()), caps)

    def _device_caps(
        self, group: BlockGroup, device_choice: DeviceChoice
    ) -> Iterator[tuple[int, int]]:
        for number, bond in enumerate(self.single_apart):
            value = group.values[self.domain_index(bond)]
            if bond.of[0] in device_choice and value is not None:
                yield number, value

    def _uses(
        self, case: TopologyCase, group: BlockGroup
    ) -> Iterator[tuple[tuple[int, ...], DeviceChoice, frozenset[str]]]:
        """Yield what one block gives to each demand, its seats and the names it can serve."""
        lines = self.device_gives(group.kind)
        seen = set()
        for mine in self._name_choices(group):
            open_ = {
                need for line in lines for need in line if self._accepts(case, group, need, mine)
            }
            for seats in self._device_choices(lines, open_):
                gives = tuple(self._gives(demand, lines, open_, seats) for demand in self.demands)
                key = (gives, frozenset(seats))
                if key not in seen:
                    seen.add(key)
                    names = {
                        name for name in map(need_name, open_) if not self._is_single_apart(name)
                    }
                    yield gives, seats, frozenset({*names, *seats})

    def _name_choices(self, group: BlockGroup) -> Iterator[dict[int, str]]:
        """Yield who may have an untold block, by number of the bond that sets names apart."""
        untold = [
            n for n, bond in enumerate(self.apart) if group.values[self.domain_index(bond)] is None
        ]
        for names in itertools.product(*(self.apart[number].of for number in untold)):
            yield dict(zip(untold, names, strict=True))

    def _accepts(
        self, case: TopologyCase, group: BlockGroup, need: Need, mine: dict[int, str]
    ) -> bool:
        """Return whether devices of a group may count for a need."""
        name = need_name(need)
        for bond in self.bonds:
            if (
                name in bond.of
                and group.values[self.domain_index(bond)] is None
                and (need.unknown == "reject")
            ):
                return False
        for bond, pin in zip(self.same, case.assigned, strict=False):
            value = group.values[self.domain_index(bond)]
            if name in bond.of and value is not None and value != pin:
                return False
        for number, bond in enumerate(self.apart):
            value = group.values[self.domain_index(bond)]
            if name in bond.of:
                names = (
                    (mine[number],)
                    if value is None
                    else (case.allowed_names.get((number, value), bond.of))
                )
                if name not in names:
                    return False
        return True

    def _device_choices(
        self, lines: list[dict[Need, int]], accepted: set[Need]
    ) -> Iterator[DeviceChoice]:
        """Yield each choice of a line, or none, for every lone name that a block can serve."""
        names = sorted({name for name in map(need_name, accepted) if self._is_single_apart(name)})
        choices = [
            [None, *(n for n, line in enumerate(lines)
                     if any(need in accepted and need_name(need) == name for need in line))]
            for name in names
        ]  # fmt: skip
        for chosen in itertools.product(*choices):
            yield {name: n for name, n in zip(names, chosen, strict=True) if n is not None}

    def _gives(
        self,
        demand: Demand,
        lines: list[dict[Need, int]],
        accepted: set[Need],
        device_choice: DeviceChoice,
    ) -> int:
        """Return what one block gives to a demand: devices of a line, or those that have a seat."""
        total = 0
        for number, line in enumerate(lines):
            here = [need for need in demand.needs if need in line and need in accepted]
            free = max(
                (line[n] for n in here if not self._is_single_apart(need_name(n))), default=0
            )
            seated = {name for name in map(need_name, here) if device_choice.get(name) == number}
            total += free or min(len(seated), max((line[n] for n in here), default=0))
        return total

    def _is_single_apart(self, name: str) -> bool:
        return any(name in bond.of for bond in self.single_apart)


def need_name(need: Need) -> str:
    """Return what bonds call a need."""
    return need.name or need.kind
