# SPDX-License-Identifier: Apache-2.0
"""The blocks of one pool that make a node whose devices share places or stand apart.

The search goes through worlds (``worlds``), depth first: a ``same`` bond is pinned to one value
after another; then the cheapest cover is asked for, and where it uses a value for two names that
are to be apart, the search goes on once for each name that may have it. A cover that uses no
value so is a node. Worlds whose cover cannot cost less than a known node are left out, and of
values at which the same stands only one is tried: ``v`` values of ``t`` sorts under ``s`` same
bonds are ``t ** s`` worlds, and two names that stand apart at them ``(v / t + 1) ** t`` at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field

from valence_sched.core.fit.demands import Demand, least_blocks
from valence_sched.core.fit.set_cover import cheaper
from valence_sched.core.fit.topology_cases import UNTOLD, Question, Rules, World, name_of
from valence_sched.core.fit.topology_groups import Group, Offer, offer, stands
from valence_sched.model.inventory import BlockType, Pool
from valence_sched.model.need import Bond, Need
from valence_sched.view.block_kinds import Kinds
from valence_sched.view.blocks import Spot
from valence_sched.view.view import View

#: States visited, over all worlds, in search of a cheaper node once one is known.
IMPROVE_STATES = 20_000
MOST_ANSWERS = 10_000  # offers remembered per request

Spots = dict[tuple[int, Spot], int]  # how many blocks of each kind at each spot


@dataclass(slots=True)
class Places:
    """A request's needs and bonds, prepared once and asked of many pools."""

    rules: Rules
    _answers: dict[Hashable, dict[int, int] | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls, needs: tuple[Need, ...], bonds: tuple[Bond, ...], demands: list[Demand], kinds: Kinds
    ) -> Places:
        """Prepare; a bond within the pool, which all blocks of a node share, asks for nothing."""
        held = tuple(bond for bond in bonds if bond.place != "zone")
        return cls(Rules(tuple(n for n in needs if n.kind != "stock"), held, demands, kinds))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the places that spots are made of."""
        return self.rules.places

    def wanted(self, view: View, row: int) -> Spots | None:
        """Return how many blocks of each kind and spot make the node; None when none do."""
        pool, here = view.pools[row], self.offer(view, row)
        key = (here.groups, tuple(pool.limits.items()))
        if key not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:
                self._answers.clear()
            self._answers[key] = Search(self.rules, here.groups, pool).run()
        found = self._answers[key]
        return None if found is None else {here.keys[group]: n for group, n in found.items()}

    def offer(self, view: View, row: int) -> Offer:
        """Return the free blocks of a pool that could help, by kind and spot."""
        shelf = view.shelves[view.podm_of[row]]
        free = shelf.free_spots(int(view.position_of[row]), self.names)
        least = least_blocks(view.pools[row].limits)
        useful = {kind: self._useful(kind, least) for kind, _ in free}
        return offer(free, self.rules.kinds, useful.__getitem__, sum(useful.values()))

    def _useful(self, kind: int, least: Mapping[BlockType, int]) -> int:
        """Return of how many blocks of a kind a node without a needless block has at most.

        Each of its blocks helps some need: at most one block for each device, and for a total
        as many as bring it.
        """
        total = 0
        lines = self.rules.lines(kind)
        for need in self.rules.needs:
            gives = sum(line.get(need, 0) for line in lines)
            if gives:
                each = 1 if need.measure == "devices" else gives
                total += math.ceil(need.amount / each)
        types = self.rules.kinds.kinds[kind].types
        return total + sum(n for name, n in least.items() if name in types)


@dataclass(slots=True)
class Search:
    """One search: the groups of a pool, the worlds still to look at, the best node so far."""

    rules: Rules
    groups: tuple[Group, ...]
    pool: Pool
    most: int = IMPROVE_STATES
    best: dict[int, int] | None = None
    price: int | None = None
    states: int = 0
    _stands: list[dict[int, Hashable]] = field(default_factory=list)

    def run(self) -> dict[int, int] | None:
        """Return how many blocks of each group make the cheapest node found, None if none do."""
        places = range(len(self.rules.places))
        self._stands = [stands(self.groups, place) for place in places]
        worlds = [World((), {})]
        while worlds and (self.best is None or self.states <= self.most):
            worlds += reversed(list(self._look(worlds.pop())))
        return self.best

    def _look(self, world: World) -> Iterator[World]:
        """Keep the node of a world if it is one and cheaper, else yield the worlds within it."""
        question = self.rules.question(world, self.groups, self.pool)
        left = self.most - self.states
        unpinned = len(world.pins) < len(self.rules.same)
        limit = 0 if unpinned and self.price is None else left
        counts, states = cheaper(question.items, question.amounts, question.caps, self.price, limit)
        if self.price is not None:
            self.states += 1 + states
        if counts is None:
            return
        if unpinned:
            yield from self._pinned(world)
            return
        contested = self._contested(world, question, counts)
        if contested is not None:
            yield from self._owned(world, *contested)
            return
        self.best = {}
        for way, number in zip(question.ways, counts, strict=True):
            if number:
                self.best[way.group] = self.best.get(way.group, 0) + number
        kinds = self.rules.kinds.kinds
        self.price = sum(kinds[self.groups[g].kind].price * n for g, n in self.best.items())

    def _pinned(self, world: World) -> Iterator[World]:
        """Yield the worlds in which the next ``same`` bond stands at one value."""
        bond = self.rules.same[len(world.pins)]
        place = self.rules.place(bond)
        tried = set()
        for value, here in self._stands[place].items():
            sort = (here, value if value in self._pins(world, place) else None)
            if sort not in tried:
                tried.add(sort)
                yield world._replace(pins=(*world.pins, value))
        yield world._replace(pins=(*world.pins, UNTOLD))

    def _contested(
        self, world: World, question: Question, counts: list[int]
    ) -> tuple[int, int] | None:
        """Return a bond and a value that a cover may use for two names that are to be apart."""
        used: dict[tuple[int, int], set[str]] = {}
        for way, count in zip(question.ways, counts, strict=True):
            for number, bond in enumerate(self.rules.apart):
                value = self.groups[way.group].spot[self.rules.place(bond)]
                if count and value is not None:
                    used.setdefault((number, value), set()).update(way.serves.intersection(bond.of))
        return min((key for key, names in used.items() if len(names) > 1), default=None)

    def _owned(self, world: World, number: int, value: int) -> Iterator[World]:
        """Yield the worlds in which one name has the value.

        What one name could do at this value it could do at every value like it: the worlds of
        later names keep the earlier ones off those.
        """
        bond = self.rules.apart[number]
        alike = self._alike(world, self.rules.place(bond), value)
        names = world.owners.get((number, value), tuple(dict.fromkeys(bond.of)))
        for index, name in enumerate(names):
            owners = {(number, other): names[index:] for other in alike} if index else {}
            yield world._replace(owners={**world.owners, **owners, (number, value): (name,)})

    def _alike(self, world: World, place: int, value: int) -> list[int]:
        """Return the values that could change places with this one and nobody would notice."""
        apart = [n for n, bond in enumerate(self.rules.apart) if self.rules.place(bond) == place]
        pins = self._pins(world, place)

        def sort(value: int) -> Hashable:
            owners = tuple(world.owners.get((number, value)) for number in apart)
            return self._stands[place][value], owners, value if value in pins else None

        mine = sort(value)
        return [other for other in self._stands[place] if other != value and sort(other) == mine]

    def _pins(self, world: World, place: int) -> set[int]:
        pairs = zip(self.rules.same, world.pins, strict=False)
        return {pin for bond, pin in pairs if self.rules.place(bond) == place}


def shortfall(
    rules: Rules, groups: tuple[Group, ...], pool: Pool
) -> tuple[str, float, float] | None:
    """Return which bond keeps the groups of a pool from making the node: what, needed, had."""
    for bond in rules.bonds:
        for need in rules.needs:
            if name_of(need) in bond.of and (found := _lacks(rules, groups, bond, need)):
                return found
    for bond in rules.bonds:
        alone = Rules(rules.needs, (bond,), rules.demands, rules.kinds)
        place = rules.place(bond)
        moved = tuple(group._replace(spot=(group.spot[place],)) for group in groups)
        if Search(alone, moved, pool).run() is None:
            labels = [need.label for need in rules.needs if name_of(need) in bond.of]
            where = f"on one {bond.place}" if bond.relation == "same" else f"apart by {bond.place}"
            return f"{' and '.join(labels)} {where}", 1, 0
    return None


def _lacks(
    rules: Rules, groups: tuple[Group, ...], bond: Bond, need: Need
) -> tuple[str, float, float] | None:
    place = rules.place(bond)
    had: dict[int, int] = {}
    loose = blocks = 0
    for group in groups:
        gives = sum(line.get(need, 0) for line in rules.lines(group.kind)) * group.number
        value = group.spot[place]
        if gives and value is not None:
            had[value] = had.get(value, 0) + gives
        elif gives and need.unknown == "allow":
            loose, blocks = loose + gives, blocks + group.number
    if not had and not blocks:
        return f"blocks with {need.label} that tell their {bond.place}", 1, 0
    wanted = math.ceil(need.amount)
    if bond.relation == "same":
        most = max(had.values(), default=0) + loose
        return (f"{need.label} on one {bond.place}", wanted, most) if most < wanted else None
    most = len(had) + blocks
    if len(set(bond.of)) == 1 and most < wanted:
        return f"{need.label}, each on a {bond.place} of its own", wanted, most
    return None
