# SPDX-License-Identifier: Apache-2.0
"""Migrations: the shortest sequence of node moves to a goal, such as room for one more node.

A migration takes the blocks of the destination before it frees the blocks of the source. So
capacity is never exceeded, and each state between two migrations is valid.

The search tries all plans by iterative deepening (Korf, 1985), each node to each pool that it fits.
A node may move several times, so two nodes can swap blocks through spare blocks. Work is counted in
fits; a completed search is a proof. If the goal is room for a node, a greedy search comes first.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.model.need import Need
from valence_sched.model.relocation import NEVER
from valence_sched.planning.optimise.node_types import NodeType, Variant, variants_of
from valence_sched.view.availability import feasible_rows
from valence_sched.view.blocks import BlockTable
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View

MOST_MIGRATIONS = 3
MOST_FITS = 50_000  # fits tried in each search
MOST_WAITING = 2  # nodes that wait for each other's blocks
MOST_COUNTED = 10_000  # counted nodes of one podm; a stock without a total has no limit
Mark = tuple[int, int]  # numbers of steps to undo and of migrations


class MovableNode(Struct, frozen=True):
    """A node that may move: its type by number, and its blocks and amounts, on the podm of ``row``.

    A ``planned`` node frees all its blocks, a composed node those that the pod manager would free.
    """

    name: str
    node_type: int
    row: int
    blocks: tuple[int, ...]
    grants: tuple[tuple[int, float], ...] = ()
    planned: bool = False


class Migration(Struct, frozen=True):
    """A node, by its number, and its fit at the destination."""

    node: int
    fit: Fit


class MigrationPlan(Struct, frozen=True):
    """Migrations in order, and whether they reach the goal; no plan has fewer than ``least``.

    ``complete`` is false if the search reached its limit of fits. ``fit`` is the fit of the new
    node, if room was the goal. ``waiting`` nodes would make room only if they moved simultaneously.
    """

    migrations: tuple[Migration, ...]
    reached: bool
    least: int
    complete: bool
    fit: Fit | None = None
    waiting: tuple[int, ...] = ()


class MigrationState:
    """The overlay after some migrations; ``places`` are the present places of the nodes.

    Each fit reduces ``fits_left``; at 0 the search ends without a fit. ``is_open`` is true
    after an undecided fit: the search then proves nothing.
    """

    def __init__(
        self,
        view: View,
        node_types: Sequence[NodeType],
        nodes: Sequence[MovableNode],
        fits_left: int,
    ) -> None:
        self.view, self.node_types, self.nodes, self.fits_left = view, node_types, nodes, fits_left
        self.migrations: list[Migration] = []
        self.places = list(nodes)
        self.is_open = False
        self._overlay = Overlay(view)
        self.current = self._overlay.view  # with the present free hardware
        self._variants: list[list[Variant]] = [[] for _ in node_types]
        for variant in variants_of(node_types, view.kinds):
            self._variants[variant.node_type].append(variant)
        self._undo: list[Undo] = []
        self._room: dict[tuple[int, int], tuple[BlockTable, int]] = {}

    @property
    def is_spent(self) -> bool:
        return self.fits_left <= 0

    def podm(self, number: int) -> int:
        return int(self.view.podm_of[self.places[number].row])

    def by_podm(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number in range(len(self.places)):
            found.setdefault(self.podm(number), []).append(number)
        return found

    def fit(self, node_type: int, *, avoid: int = -1, only: int | None = None) -> Fit | None:
        """Return the first fit of a node, not on podm ``avoid``, or only on podm ``only``."""
        return next(iter(self.fits(node_type, avoid=avoid, only=only, first=True)), None)

    def fits(
        self, node_type: int, *, avoid: int = -1, only: int | None = None, first: bool = False
    ) -> list[Fit]:
        view, mask = self.current, self.node_types[node_type].rows
        found: dict[int, Fit] = {}
        for variant in self._variants[node_type]:
            self.fits_left -= 1  # finding the feasible rows takes as long as one fit
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
        self.take(fit)
        self.release(number)
        before = self.places[number]
        after = MovableNode(before.name, before.node_type, fit.row, fit.blocks, fit.grants, True)
        self._undo.append(functools.partial(self.places.__setitem__, number, before))
        self.places[number] = after
        self.migrations.append(Migration(number, fit))

    def take(self, fit: Fit) -> None:
        self._undo.append(self._overlay.allocate(fit.row, fit.blocks, fit.grants))

    def place(self, node_type: int, *, only: int | None = None) -> bool:
        fit = self.fit(node_type, only=only)
        if fit is not None:
            self.take(fit)
        return fit is not None

    def release(self, number: int) -> None:
        node, podm = self.places[number], self.podm(number)
        before, base = self.current.block_tables[podm], self.view.block_tables[podm]
        if node.planned:
            after = before.deallocate(node.blocks, node.grants, base)
        else:
            after = before.remove_node(node.blocks).deallocate((), node.grants, base)
        self._overlay.apply([(podm, after, node.blocks, node.grants)])
        undo = [(podm, before, node.blocks, node.grants)]
        self._undo.append(functools.partial(self._overlay.apply, undo))

    def would_help(self, chosen: Iterable[int], node_type: int) -> bool:
        """Return whether a node of a type fits on the podm of these nodes once they are removed."""
        mark, podm = self.mark(), -1
        for number in chosen:
            podm = self.podm(number)
            self.release(number)
        fit = self.fit(node_type, only=podm)
        self.go_back(mark)
        return fit is not None

    def held(self, number: int, resource: Need) -> float:
        """Return the amount of a resource in a node; a block or stock counts once per pool."""
        table, node = self.view.block_tables[self.podm(number)], self.places[number]
        amounts = self.view.kinds.amounts(resource)
        blocks = ((amounts[table.kinds[one]], table.pools[one]) for one in node.blocks)
        grants = (
            (amount, table.stock_pools[one])
            for one, amount in node.grants
            if table.stocks[one].resource == resource.resource
        )
        return float(sum(amount * max(1, len(pools)) for amount, pools in (*blocks, *grants)))

    def mark(self) -> Mark:
        return len(self._undo), len(self.migrations)

    def go_back(self, mark: Mark) -> None:
        steps, migrations = mark
        while len(self._undo) > steps:
            self._undo.pop()()
        del self.migrations[migrations:]

    def signature(self, number: int) -> Hashable:
        """Return a key that is equal for interchangeable nodes of one podm."""
        node = self.places[number]
        table = self.current.block_tables[self.podm(number)]
        blocks = Counter(
            (
                (table.kinds[block], table.pools[block], table.slots[block], table.gains[block]),
                str(table.topologies[block]) if table.topologies else "",
            )
            for block in node.blocks
        )
        return node.node_type, frozenset(blocks.items()), node.grants, node.planned

    def fingerprint(self) -> Hashable:
        """Return a key that is equal for states with the same possible migrations."""
        moved = {migration.node for migration in self.migrations}
        return frozenset(
            (number, self.podm(number), self.places[number].blocks, self.places[number].grants)
            for number in moved
        )


class MigrationGoal(Protocol):
    """The goal of migrations."""

    def lower_bound(self, left: int) -> int:
        """Return a lower bound of the migrations, 0 at the goal; exact only up to ``left``."""

    def candidates(self, left: int) -> Iterable[int]:
        """Return a set of nodes; any plan of ``left`` migrations moves one of them next."""


def search_migrations(
    state: MigrationState, goal: MigrationGoal, most: int
) -> tuple[tuple[Migration, ...] | None, int]:
    """Try all plans of up to ``most`` migrations; the state then contains those of the plan.

    Return a plan that reaches the goal, else None, and a lower bound of the migrations.
    """
    if state.is_spent:
        return None, 0
    least = goal.lower_bound(most)
    for number in range(least, most + 1):
        if _reach(state, goal, number, {}):
            return tuple(state.migrations), least if state.is_open else number
        if state.is_spent or state.is_open:
            return None, least if state.is_open else number
    return None, max(least, most + 1)


def _reach(
    state: MigrationState, goal: MigrationGoal, left: int, tried: dict[Hashable, int]
) -> bool:
    """Make at most ``left`` migrations to the goal; ``tried`` maps failed states to ``left``."""
    state.fits_left -= 1
    bound = goal.lower_bound(left)
    if not bound:
        return True
    if bound > left or state.is_spent:
        return False
    key = state.fingerprint()
    if tried.get(key, -1) >= left:
        return False
    for number, fit in _distinct_migrations(state, goal.candidates(left)):
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
    """Return a plan of at most ``most`` migrations that make room for a node of type ``wanted``."""
    state = MigrationState(view, node_types, nodes, fits)
    aimed = None
    for number in range(most + 1):
        if _make_room(state, wanted, number) is not None:
            aimed = tuple(state.migrations)
        if aimed is not None or state.is_spent:
            break
    state.go_back((0, 0))
    state.fits_left = fits
    shorter = most if aimed is None else len(aimed) - 1
    found, least = search_migrations(state, RoomGoal(state, wanted), shorter)
    if found is None and aimed is not None:
        found = aimed
        for migration in aimed:
            state.migrate(migration.node, migration.fit)
    if found is None:
        state.fits_left = fits
        waiting = _waiting_nodes(state, wanted) if most else ()
        return MigrationPlan((), False, least, least > most, waiting=waiting)
    state.fits_left = max(state.fits_left, 0) + len(view) + 1  # enough fits to find the room
    fit = state.fit(wanted)
    return MigrationPlan(found, fit is not None, least, True, fit)


@dataclass(frozen=True, slots=True)
class RoomGoal:
    """Room for one more node of a type."""

    state: MigrationState
    node_type: int

    def lower_bound(self, left: int) -> int:
        """Return 0 if there is room, else 1; ``NEVER`` if even an empty podm lacks room."""
        if self.state.fit(self.node_type) is not None:
            return 0
        if left and not self._podms() and not (self.state.is_open or self.state.is_spent):
            return NEVER
        return 1

    def candidates(self, left: int) -> Iterable[int]:
        """Return the nodes whose removal makes room: single nodes, or pairs for two moves."""
        state, wanted = self.state, self.node_type
        if left > 2:
            return range(len(state.places))
        podms = self._podms()
        one_each = itertools.chain.from_iterable(podms.values())
        singles = [number for number in one_each if state.would_help([number], wanted)]
        if singles and left == 2:
            return range(len(state.places))
        if singles or left == 1:
            return singles
        pairs = (itertools.combinations(numbers, 2) for numbers in podms.values())
        helpful = (one for pair in pairs for one in pair if state.would_help(one, wanted))
        return sorted(set(itertools.chain.from_iterable(helpful)))

    def _podms(self) -> dict[int, list[int]]:
        # if the removal of all nodes does not help, no subset helps
        nodes = self.state.by_podm().items()
        return {podm: own for podm, own in nodes if self.state.would_help(own, self.node_type)}


def _make_room(state: MigrationState, node_type: int, most: int, avoid: int = -1) -> Fit | None:
    """Make room for a node, not on the podm ``avoid``, by at most ``most`` migrations.

    Each node moves at most once. Return the fit of the node, or None with the state unchanged.
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
        if numbers and podm != avoid and state.would_help(numbers, node_type)
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
                if state.would_help(chosen, node_type):
                    fit = _move_away(state, podm, chosen, node_type, most - size)
                    if fit is not None:
                        return fit
    return None


def _move_away(
    state: MigrationState, podm: int, chosen: tuple[int, ...], node_type: int, spare: int
) -> Fit | None:
    """Migrate these nodes, and up to ``spare`` others to make room for them; return the new fit."""
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
    """Return the fewest nodes that make room for a new node only if they move simultaneously.

    The result is empty if no such nodes exist, or if no fits are left.
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
