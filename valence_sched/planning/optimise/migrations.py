# SPDX-License-Identifier: Apache-2.0
"""Migrations: the fewest moves of nodes that reach a goal, such as room for one more, in order.

A migration makes before it breaks: the node gets blocks of its destination, those that the fit
chooses there, while it still holds its own, then those are released. So capacity is never exceeded
on the way, and each state between two migrations is one that the pods can stay in.

The search tries all plans by iterative deepening (Korf, 1985): no migration, then one, then two and
more, each node to each pool that makes it, also a node that has moved before: so it finds a spare
place for two nodes that need each other's place. The work is counted in fits; what was tried to the
end is proven. For room an aimed search goes before it: to make room on a podm it removes a set of
its nodes on paper, and where that helps finds a destination for each, for which room may have to be
made first.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.model.need import MEASURES
from valence_sched.model.relocation import NEVER
from valence_sched.planning.optimise.node_types import NodeType, Variant, variants_of
from valence_sched.view.availability import feasible_rows
from valence_sched.view.blocks import BlockTable
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View

MOST_MIGRATIONS = 3
MOST_FITS = 50_000  # tried in each search
MOST_WAITING = 2  # nodes that wait for each other
MOST_COUNTED = 10_000  # nodes of one podm: a stock without a total makes any number

Mark = tuple[int, int]  # how many steps to undo and migrations there were


class MovableNode(Struct, frozen=True):
    """A node that may move: its type by number, and the blocks and amounts that it holds.

    ``row`` is any of its podm. A ``planned`` node was taken from the View, so that all of its
    blocks become free with it; of a composed one those do that the pod manager would free.
    """

    name: str
    node_type: int
    row: int
    blocks: tuple[int, ...]
    grants: tuple[tuple[int, float], ...] = ()
    planned: bool = False


class Migration(Struct, frozen=True):
    """A node, by its number, and what makes it at its destination."""

    node: int
    fit: Fit


class MigrationPlan(Struct, frozen=True):
    """Migrations in order, and whether they reach the goal; none does with fewer than ``least``.

    ``complete`` is false where the fits ran out before all plans of so many migrations were tried.
    ``fit`` is what then makes the new node, where room for one was the goal. ``waiting`` are nodes
    that would make room if they could move at once: they need each other's places.
    """

    migrations: tuple[Migration, ...]
    reached: bool
    least: int
    complete: bool
    fit: Fit | None = None
    waiting: tuple[int, ...] = ()


@dataclass(slots=True)
class MigrationState:
    """The overlay with the migrations made so far; ``places`` is where each node is now.

    ``fits_left`` counts down with the work; where it is 0 or less, no fit is found any more.
    ``is_open`` tells whether a fit was left undecided by its budget: then nothing is proven.
    """

    view: View
    node_types: tuple[NodeType, ...]
    nodes: Sequence[MovableNode]
    fits_left: int
    migrations: list[Migration] = field(default_factory=list)
    places: list[MovableNode] = field(init=False)
    is_open: bool = False
    _overlay: Overlay = field(init=False)
    _variants: list[list[Variant]] = field(init=False)
    _undo: list[Undo] = field(default_factory=list)
    _room: dict[tuple[int, int], tuple[BlockTable, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._overlay = Overlay(self.view)
        self._variants = [[] for _ in self.node_types]
        for variant in variants_of(self.node_types, self.view.kinds):
            self._variants[variant.node_type].append(variant)
        self.places = list(self.nodes)

    @property
    def current(self) -> View:
        """Return the View with what is free now."""
        return self._overlay.view

    @property
    def is_spent(self) -> bool:
        return self.fits_left <= 0

    def podm(self, number: int) -> int:
        """Return the podm that a node is on now."""
        return int(self.view.podm_of[self.places[number].row])

    def by_podm(self) -> dict[int, list[int]]:
        """Return the numbers of the nodes by the podm that they are on now."""
        found: dict[int, list[int]] = {}
        for number in range(len(self.places)):
            found.setdefault(self.podm(number), []).append(number)
        return found

    def fit(self, node_type: int, *, avoid: int = -1, only: int | None = None) -> Fit | None:
        """Return the fit of the first pool, not of podm ``avoid`` or ``only`` of one, if any."""
        return next(iter(self.fits(node_type, avoid=avoid, only=only, first=True)), None)

    def fits(
        self, node_type: int, *, avoid: int = -1, only: int | None = None, first: bool = False
    ) -> list[Fit]:
        """Return the fit of each pool that makes a node of a type, or of the ``first`` only."""
        view, mask = self._overlay.view, self.node_types[node_type].rows
        found: dict[int, Fit] = {}
        for variant in self._variants[node_type]:
            self.fits_left -= 1  # looking for the rows takes about as long as one fit
            rows = feasible_rows(view, variant.fitter.needs)
            rows = rows if mask is None else rows & mask
            rows = rows & (view.podm_of != avoid if only is None else view.podm_of == only)
            for row in rows.nonzero()[0].tolist():
                if row in found:
                    continue
                if self.is_spent:
                    return list(found.values())
                self.fits_left -= 1
                fit = variant.fitter.fit(view, row)
                if isinstance(fit, Fit):
                    found[row] = fit
                    if first:
                        return [fit]
                else:
                    self.is_open |= fit is not None
        return list(found.values())

    def room(self, node_type: int) -> int:
        """Return how many more nodes of a type all podms make, each one after another."""
        total = 0
        for podm, table in enumerate(self.current.block_tables):
            known = self._room.get((podm, node_type))
            if known is None or known[0] is not table:
                mark, nodes = self.mark(), 0
                while nodes < MOST_COUNTED and self.place(node_type, only=podm):
                    nodes += 1
                self.go_back(mark)
                known = self._room[podm, node_type] = table, nodes
            total += known[1]
        return total

    def migrate(self, number: int, fit: Fit) -> None:
        """Make a node at its destination, then release what it held."""
        self.take(fit)
        self.release(number)
        before = self.places[number]
        after = MovableNode(before.name, before.node_type, fit.row, fit.blocks, fit.grants, True)
        self._undo.append(functools.partial(self.places.__setitem__, number, before))
        self.places[number] = after
        self.migrations.append(Migration(number, fit))

    def take(self, fit: Fit) -> None:
        """Take the blocks and amounts of a fit."""
        self._undo.append(self._overlay.allocate(fit.row, fit.blocks, fit.grants))

    def place(self, node_type: int, *, only: int | None = None) -> bool:
        """Take the first fit of a node of a type; return whether there is one."""
        fit = self.fit(node_type, only=only)
        if fit is not None:
            self.take(fit)
        return fit is not None

    def release(self, number: int) -> None:
        """Free what a node holds where it is now."""
        node, podm = self.places[number], self.podm(number)
        before, base = self._overlay.view.block_tables[podm], self.view.block_tables[podm]
        if node.planned:
            after = before.deallocate(node.blocks, node.grants, base)
        else:
            after = before.remove_node(node.blocks).deallocate((), node.grants, base)
        self._overlay.apply([(podm, after, node.blocks, node.grants)])
        undo = [(podm, before, node.blocks, node.grants)]
        self._undo.append(functools.partial(self._overlay.apply, undo))

    def held_accelerators(self, number: int) -> float:
        """Return how many accelerators a node has, those of a block in each of its pools."""
        cards = self.view.kinds.amounts(MEASURES["accelerators"])
        table = self.view.block_tables[self.podm(number)]
        blocks = self.places[number].blocks
        return float(sum(cards[table.kinds[one]] * max(1, len(table.pools[one])) for one in blocks))

    def mark(self) -> Mark:
        return len(self._undo), len(self.migrations)

    def go_back(self, mark: Mark) -> None:
        """Undo all that was done since a mark."""
        steps, migrations = mark
        while len(self._undo) > steps:
            self._undo.pop()()
        del self.migrations[migrations:]

    def signature(self, number: int) -> Hashable:
        """Return what nodes of one podm have in common that can stand for one another."""
        node = self.places[number]
        table = self._overlay.view.block_tables[self.podm(number)]
        blocks = Counter(
            (
                (table.kinds[block], table.pools[block], table.slots[block], table.gains[block]),
                str(table.topologies[block]) if table.topologies else "",
            )
            for block in node.blocks
        )
        return node.node_type, frozenset(blocks.items()), node.grants, node.planned

    def fingerprint(self) -> Hashable:
        """Return what is equal for states from which the same migrations lead on."""
        moved = {migration.node for migration in self.migrations}
        return frozenset(
            (number, self.podm(number), self.places[number].blocks, self.places[number].grants)
            for number in moved
        )


class MigrationGoal(Protocol):
    """What migrations are made for."""

    def lower_bound(self, state: MigrationState, left: int) -> int:
        """Return a number that no plan is below, 0 if reached; above ``left`` it may be inexact."""

    def candidates(self, state: MigrationState, left: int) -> Iterable[int]:
        """Return the nodes of which one moves next in every plan of ``left`` migrations."""


def search_migrations(
    state: MigrationState, goal: MigrationGoal, most: int
) -> tuple[tuple[Migration, ...] | None, int]:
    """Try all plans of up to ``most`` migrations, while fits are left.

    Return the migrations that reach the goal, which the state keeps, None if none were found; and
    the least number that any plan has.
    """
    if state.is_spent:
        return None, 0
    least = goal.lower_bound(state, most)
    for number in range(least, most + 1):
        if _reach(state, goal, number, {}):
            return tuple(state.migrations), least if state.is_open else number
        if state.is_spent or state.is_open:
            return None, least if state.is_open else number
    return None, max(least, most + 1)


def _reach(
    state: MigrationState, goal: MigrationGoal, left: int, tried: dict[Hashable, int]
) -> bool:
    """Make at most so many migrations that reach the goal.

    ``tried`` are the states that were tried in vain, with the number of migrations then left.
    """
    state.fits_left -= 1
    bound = goal.lower_bound(state, left)
    if not bound:
        return True
    if bound > left or state.is_spent:
        return False
    key = state.fingerprint()
    if tried.get(key, -1) >= left:
        return False
    for number, fit in _distinct_migrations(state, goal.candidates(state, left)):
        mark = state.mark()
        state.migrate(number, fit)
        if _reach(state, goal, left - 1, tried):
            return True
        state.go_back(mark)
    if not state.is_spent:
        tried[key] = left
    return False


def _distinct_migrations(
    state: MigrationState, candidates: Iterable[int]
) -> Iterator[tuple[int, Fit]]:
    """Yield each node with each destination; of those that stand for one another one."""
    seen: set[Hashable] = set()
    fits: dict[int, Sequence[Fit]] = {}
    podms = state.view.podm_of
    for number in candidates:
        key = state.podm(number), state.signature(number)
        if key in seen:
            continue
        seen.add(key)
        node_type = state.places[number].node_type
        if node_type not in fits:
            found = state.fits(node_type)
            distinct = {(int(podms[fit.row]), fit.blocks, fit.grants): fit for fit in found}
            fits[node_type] = list(distinct.values())
        for fit in fits[node_type]:
            yield number, fit


def fewest_migrations(
    view: View,
    node_types: Sequence[NodeType],
    wanted: int,
    nodes: Sequence[MovableNode],
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> MigrationPlan:
    """Return a plan of at most ``most`` migrations: room for one more node of type ``wanted``."""
    state = MigrationState(view, tuple(node_types), nodes, fits)
    aimed = None
    for number in range(most + 1):
        if _make_room(state, wanted, number) is not None:
            aimed = tuple(state.migrations)
        if aimed is not None or state.is_spent:
            break
    state.go_back((0, 0))
    state.fits_left = fits
    shorter = most if aimed is None else len(aimed) - 1
    found, least = search_migrations(state, RoomGoal(wanted), shorter)
    if found is None and aimed is not None:
        found = aimed
        for migration in aimed:
            state.migrate(migration.node, migration.fit)
    if found is None:
        state.fits_left = fits
        waiting = _waiting_nodes(state, wanted) if most else ()
        return MigrationPlan((), False, least, least > most, waiting=waiting)
    state.fits_left = max(state.fits_left, 0) + len(view) + 1  # enough to look where the room is
    fit = state.fit(wanted)
    return MigrationPlan(found, fit is not None, least, True, fit)


@dataclass(frozen=True, slots=True)
class RoomGoal:
    """Room for one more node of a type."""

    node_type: int

    def lower_bound(self, state: MigrationState, left: int) -> int:
        """Return 0 with room, 1 without, and never where no podm would make the node if empty."""
        if state.fit(self.node_type) is not None:
            return 0
        if left and not self._podms(state) and not (state.is_open or state.is_spent):
            return NEVER
        return 1

    def candidates(self, state: MigrationState, left: int) -> Iterable[int]:
        """Return the nodes that make room alone as the last ones that move, in pairs before."""
        if left > 2:
            return range(len(state.places))
        podms = self._podms(state)
        one_each = itertools.chain.from_iterable(podms.values())
        singles = [number for number in one_each if would_help(state, [number], self.node_type)]
        if singles and left == 2:
            return range(len(state.places))
        if singles or left == 1:
            return singles
        pairs = (itertools.combinations(numbers, 2) for numbers in podms.values())
        helpful = (one for pair in pairs for one in pair if would_help(state, one, self.node_type))
        return sorted(set(itertools.chain.from_iterable(helpful)))

    def _podms(self, state: MigrationState) -> dict[int, list[int]]:
        """Return the nodes of each podm that makes the node once all of its own have gone."""
        # where the removal of all nodes does not help, that of some does not
        nodes = state.by_podm().items()
        return {podm: own for podm, own in nodes if would_help(state, own, self.node_type)}


def would_help(state: MigrationState, chosen: Iterable[int], node_type: int) -> bool:
    """Return whether the podm of these nodes makes one of a type once they have gone."""
    mark, podm = state.mark(), -1
    for number in chosen:
        podm = state.podm(number)
        state.release(number)
    fit = state.fit(node_type, only=podm)
    state.go_back(mark)
    return fit is not None


def _make_room(state: MigrationState, node_type: int, most: int, avoid: int = -1) -> Fit | None:
    """Return what makes a node after at most so many migrations, which are made; else None.

    They move nodes away that stand in the way, each node once. None leaves the state as it was.
    The node shall not come to the podm ``avoid``.
    """
    fit = state.fit(node_type, avoid=avoid)
    if fit is not None or not most:
        return fit
    moved = {migration.node for migration in state.migrations}
    unmoved = {
        podm: [number for number in numbers if number not in moved]
        for podm, numbers in state.by_podm().items()
    }
    podms = [
        podm
        for podm, numbers in unmoved.items()
        if numbers and podm != avoid and would_help(state, numbers, node_type)
    ]
    for size in range(1, most + 1):
        for podm in podms:
            seen: set[Hashable] = set()
            for chosen in itertools.combinations(unmoved[podm], size):
                key = frozenset(Counter(map(state.signature, chosen)).items())
                if key in seen:
                    continue
                seen.add(key)
                if state.is_spent:
                    return None
                if would_help(state, chosen, node_type):
                    fit = _move_away(state, podm, chosen, node_type, most - size)
                    if fit is not None:
                        return fit
    return None


def _move_away(
    state: MigrationState, podm: int, chosen: tuple[int, ...], node_type: int, spare: int
) -> Fit | None:
    """Migrate these nodes, with so many others to make room for them; return the new fit."""
    mark, before = state.mark(), len(state.migrations)
    for order, number in enumerate(chosen):
        moving = state.places[number].node_type
        left = spare - (len(state.migrations) - before - order)
        fit = _make_room(state, moving, left, podm) or state.fit(moving, only=podm)
        if fit is None:
            state.go_back(mark)
            return None
        state.migrate(number, fit)
    fit = state.fit(node_type, only=podm)
    if fit is None:
        state.go_back(mark)
    return fit


def _waiting_nodes(state: MigrationState, wanted: int) -> tuple[int, ...]:
    """Return the fewest nodes that, all released first, leave room for a node and for themselves.

    They are looked for where no order of migrations makes room for a node of the type ``wanted``:
    each then waits for a place that another one, or it itself, still holds. Empty for none, and
    where the fits run out.
    """
    start = state.mark()
    for size in range(1, MOST_WAITING + 1):
        for chosen in itertools.combinations(range(len(state.places)), size):
            if state.is_spent:
                return ()
            for number in chosen:
                state.release(number)
            freed = state.mark()
            for order in itertools.permutations(chosen):
                types = [wanted, *(state.places[number].node_type for number in order)]
                together = all(map(state.place, types))
                state.go_back(freed)
                if together:
                    state.go_back(start)
                    return chosen
            state.go_back(start)
    return ()
