# SPDX-License-Identifier: Apache-2.0
"""Topology cases: the domain values each need may use, as a set-cover problem.

A group of blocks becomes one item for each use of one of its blocks; uses that exclude each other
share a cap:

- ``same``: the needs of the constraint accept blocks at the assigned value only;
- ``apart`` of several names: a value is allowed to some of the names. The search (``topology``)
  chooses one where they conflict; each block without a reported value is allowed to one name;
- ``apart`` of one name: of one block at most one device counts for the name (the device choice),
  and the blocks at one value share a cap of one.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from valence_sched.core.fit.demands import Demand, least_blocks
from valence_sched.core.fit.dive import Item
from valence_sched.core.fit.topology_groups import BlockGroup
from valence_sched.model.inventory import Pool
from valence_sched.model.need import Need, TopologyConstraint
from valence_sched.view.block_kinds import BlockKinds, device_amount

UNREPORTED = -1  # assigned to a constraint whose devices are all in blocks without a value

AllowedNames = Mapping[tuple[int, int], tuple[str, ...]]  # by (constraint, value)
DeviceChoice = dict[str, int]  # by name, the device line of a block that counts for it


class TopologyCase(NamedTuple):
    """The values of the ``same`` constraints assigned so far, and the names allowed at values."""

    assigned: tuple[int, ...]
    allowed_names: AllowedNames


class BlockUse(NamedTuple):
    """One way to use a block of a group: the names that it can serve, and its item of the cover."""

    group: int
    serves: frozenset[str]
    item: Item


class CoverProblem(NamedTuple):
    """A set cover: its uses in the order of its items, the demands, the caps."""

    uses: list[BlockUse]
    amounts: list[int]
    caps: list[int]

    @property
    def items(self) -> list[Item]:
        return [use.item for use in self.uses]


@dataclass(slots=True)
class TopologyRules:
    """The needs and the topology constraints of a request, by relation."""

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
        self.domains = tuple(sorted({constraint.place for constraint in self.bonds}))
        self.same = [constraint for constraint in self.bonds if constraint.relation == "same"]
        apart = [constraint for constraint in self.bonds if constraint.relation == "apart"]
        self.apart = [constraint for constraint in apart if len(set(constraint.of)) > 1]
        self.single_apart = [constraint for constraint in apart if len(set(constraint.of)) == 1]

    def domain_index(self, constraint: TopologyConstraint) -> int:
        return self.domains.index(constraint.place)

    def device_gives(self, kind: int) -> list[dict[Need, int]]:
        """Return what each device line of a kind gives to the needs, where it gives anything."""
        gives = self._device_gives.get(kind)
        if gives is None:
            lines = self.kinds.devices_of(kind)
            amounts = ({need: device_amount(need, *line) for need in self.needs} for line in lines)
            useful = ({need: n for need, n in line.items() if n} for line in amounts)
            gives = self._device_gives[kind] = [line for line in useful if line]
        return gives

    def cover_problem(
        self, case: TopologyCase, groups: tuple[BlockGroup, ...], pool: Pool, states: int
    ) -> CoverProblem | None:
        """Return the set cover of the groups of a pool in a case.

        None where one block can be used in more ways than there are states.
        """
        least = least_blocks(pool.limits)
        capped = [name for name, limit in pool.limits.items() if limit.max is not None]
        caps = [pool.limits[name].max or 0 for name in capped]
        shared: dict[tuple[int, ...], int] = {}
        uses: list[BlockUse] = []
        for index, group in enumerate(groups):
            types = self.kinds.kinds[group.kind].types
            price = self.kinds.kinds[group.kind].price
            common = tuple(int(name in types) for name in least)
            if self._most_uses(group) > states:
                return None
            item_caps = tuple(cap for cap, name in enumerate(capped) if name in types)
            block_uses = [
                (gives + common, device_choice, serves)
                for gives, device_choice, serves in self._uses(case, group)
                if any(gives) or any(common)
            ]
            for gives, device_choice, serves in block_uses:
                own_caps: list[tuple[int, ...]] = list(self._device_caps(group, device_choice))
                number = 1 if own_caps else group.number
                own_caps += [(index,)] if len(block_uses) > 1 else []
                for cap in (one for one in own_caps if one not in shared):
                    shared[cap] = len(caps)
                    caps.append(group.number if cap == (index,) else 1)
                caps_used = tuple(sorted((*item_caps, *(shared[cap] for cap in own_caps))))
                uses.append(BlockUse(index, serves, Item(number, price, gives, caps_used)))
        return CoverProblem(uses, [d.amount for d in self.demands] + list(least.values()), caps)

    def _most_uses(self, group: BlockGroup) -> int:
        """Return in how many ways a block of a group can be used at most."""
        lines = self.device_gives(group.kind)
        names = {need_name(need) for line in lines for need in line}
        most = 1
        for constraint in self.apart:
            if group.values[self.domain_index(constraint)] is None:
                most *= len(constraint.of)
        for _ in filter(self._is_single_apart, names):
            most *= len(lines) + 1
        return most

    def _device_caps(
        self, group: BlockGroup, device_choice: DeviceChoice
    ) -> Iterator[tuple[int, int]]:
        for number, constraint in enumerate(self.single_apart):
            value = group.values[self.domain_index(constraint)]
            if constraint.of[0] in device_choice and value is not None:
                yield number, value

    def _uses(
        self, case: TopologyCase, group: BlockGroup
    ) -> Iterator[tuple[tuple[int, ...], DeviceChoice, frozenset[str]]]:
        """Yield what one block gives to each demand, its device choice and the names it serves."""
        lines = self.device_gives(group.kind)
        seen = set()
        for chosen_names in self._name_choices(group):
            offered = set(itertools.chain.from_iterable(lines))
            accepted = {one for one in offered if self._accepts(case, group, one, chosen_names)}
            names = {name for name in map(need_name, accepted) if not self._is_single_apart(name)}
            for choice in self._device_choices(lines, accepted):
                gives = tuple(self._gives(one, lines, accepted, choice) for one in self.demands)
                if (key := (gives, frozenset(choice))) not in seen:
                    seen.add(key)
                    yield gives, choice, frozenset({*names, *choice})

    def _name_choices(self, group: BlockGroup) -> Iterator[dict[int, str]]:
        """Yield the name that may use a block without a value, by number of the constraint."""
        values = [group.values[self.domain_index(constraint)] for constraint in self.apart]
        unreported = [number for number, value in enumerate(values) if value is None]
        for names in itertools.product(*(self.apart[number].of for number in unreported)):
            yield dict(zip(unreported, names, strict=True))

    def _accepts(
        self, case: TopologyCase, group: BlockGroup, need: Need, chosen_names: dict[int, str]
    ) -> bool:
        name = need_name(need)
        for constraint in self.bonds if need.unknown == "reject" else ():
            if name in constraint.of and group.values[self.domain_index(constraint)] is None:
                return False
        for constraint, assigned in zip(self.same, case.assigned, strict=False):
            value = group.values[self.domain_index(constraint)]
            if name in constraint.of and value is not None and value != assigned:
                return False
        for number, constraint in enumerate(self.apart):
            value = group.values[self.domain_index(constraint)]
            if name not in constraint.of:
                continue
            if value is None and name != chosen_names[number]:
                return False
            if value is not None and name not in case.allowed_names.get((number, value), [name]):
                return False
        return True

    def _device_choices(
        self, lines: list[dict[Need, int]], accepted: set[Need]
    ) -> Iterator[DeviceChoice]:
        """Yield each choice of a line, or none, for each single apart name of a block."""
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
        """Return what one block gives to a demand: devices of a line, or those that are chosen."""
        total = 0
        for number, line in enumerate(lines):
            needs = [need for need in demand.needs if need in line and need in accepted]
            free = [line[one] for one in needs if not self._is_single_apart(need_name(one))]
            chosen = {name for name in map(need_name, needs) if device_choice.get(name) == number}
            most = max((line[one] for one in needs), default=0)
            total += max(free, default=0) or min(len(chosen), most)
        return total

    def _is_single_apart(self, name: str) -> bool:
        return any(name in constraint.of for constraint in self.single_apart)


def need_name(need: Need) -> str:
    """Return the name by which topology constraints refer to a need."""
    return need.name or need.kind
