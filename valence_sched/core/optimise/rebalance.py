# SPDX-License-Identifier: Apache-2.0
"""Rebalance: the fewest migrations of nodes that make room for one more, in a safe order.

A migration makes before it breaks: the node gets blocks of its destination while it still holds
its own, then those are released. So capacity is never exceeded on the way, and each state between
two migrations is one that the pods can stay in.

The search tries no migration, then one, then two and more. To make room on a podm it removes a set
of its nodes on paper, and where that helps finds a destination for each, for which room may have to
be made first. The work is counted in fits. ``least`` is proven: no plan has fewer migrations.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.core.optimise.node_types import NodeType, Variant, variants_of
from valence_sched.view.availability import feasible_rows
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View

MOST_MIGRATIONS = 3
MOST_FITS = 50_000  # tried in one search


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
    """Migrations in order, and what then makes the new node; None where no plan was found.

    No plan has fewer than ``least`` migrations. ``complete`` is false where the fits
    ran out before.
    """

    migrations: tuple[Migration, ...]
    fit: Fit | None
    least: int
    complete: bool

    @property
    def is_fewest(self) -> bool:
        return self.fit is not None and len(self.migrations) == self.least


def fewest_migrations(
    view: View,
    node_types: Sequence[NodeType],
    wanted: int,
    nodes: Sequence[MovableNode],
    *,
    most: int = MOST_MIGRATIONS,
    fits: int = MOST_FITS,
) -> MigrationPlan:
    """Return a plan that makes room for one more node of the type ``wanted``.

    ``rows`` of a node type are also the destinations of its nodes.
    """
    search = _MigrationSearch(view, tuple(node_types), nodes, fits)
    least = 0
    for number in range(most + 1):
        fit = search.make_room(wanted, number)
        if fit is not None or search.is_spent:
            complete = fit is not None or not search.is_spent
            return MigrationPlan(tuple(search.migrations), fit, least, complete)
        if not search.is_open and (number == 0 or (number == 1 and not search.single_may_help)):
            least = number + 1
    return MigrationPlan((), None, least, True)


@dataclass(slots=True)
class _MigrationSearch:
    """The overlay with the migrations made so far, and what undoes them."""

    view: View
    node_types: tuple[NodeType, ...]
    nodes: Sequence[MovableNode]
    fits_left: int
    migrations: list[Migration] = field(default_factory=list)
    #: whether a fit was left open by its budget: then nothing is proven
    is_open: bool = False
    #: whether some node has a destination, and its blocks would make room
    single_may_help: bool = False
    _overlay: Overlay = field(init=False)
    _variants: list[list[Variant]] = field(init=False)
    _undo: list[Undo] = field(default_factory=list)
    _by_podm: dict[int, list[int]] = field(default_factory=dict)
    _signatures: list[Hashable] = field(init=False)

    def __post_init__(self) -> None:
        self._overlay = Overlay(self.view)
        self._variants = [[] for _ in self.node_types]
        for variant in variants_of(self.node_types, self.view.kinds):
            self._variants[variant.node_type].append(variant)
        self._signatures = [self._signature(node) for node in self.nodes]
        for number in range(len(self.nodes)):
            self._by_podm.setdefault(self._podm(number), []).append(number)

    @property
    def is_spent(self) -> bool:
        return self.fits_left <= 0

    def make_room(self, node_type: int, most: int, avoid: int = -1) -> Fit | None:
        """Return what makes a node after at most so many migrations, which are made; else None.

        None leaves the overlay as it was. The node shall not come to the podm ``avoid``.
        """
        fit = self._fit(node_type, avoid=avoid)
        if fit is not None:
            return fit
        if not most:
            return None
        # where the removal of all nodes does not help, that of some does not
        podms = [
            podm for podm, numbers in self._unmoved(avoid).items()
            if self._would_help(podm, numbers, node_type)
        ]  # fmt: skip
        for size in range(1, most + 1):
            for podm, chosen in self._removals(size, podms):
                if self.is_spent:
                    return None
                if self._would_help(podm, chosen, node_type):
                    fit = self._move_away(podm, chosen, node_type, most - size)
                    if fit is not None:
                        return fit
        return None

    def _unmoved(self, avoid: int) -> dict[int, tuple[int, ...]]:
        """Return by podm the nodes that have not moved, but for the podm ``avoid``."""
        moved = {migration.node for migration in self.migrations}
        return {
            podm: tuple(number for number in numbers if number not in moved)
            for podm, numbers in self._by_podm.items()
            if podm != avoid
        }

    def _removals(self, size: int, podms: Iterable[int]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield sets of nodes of one podm that have not moved yet; of equal sets one."""
        left = self._unmoved(avoid=-1)
        for podm in podms:
            seen: set[Hashable] = set()
            for chosen in itertools.combinations(left[podm], size):
                key = frozenset(Counter(self._signatures[number] for number in chosen).items())
                if key not in seen:
                    seen.add(key)
                    yield podm, chosen

    def _would_help(self, podm: int, chosen: tuple[int, ...], node_type: int) -> bool:
        """Return whether the podm makes the node once these have gone."""
        before = len(self._undo)
        for number in chosen:
            self._release(number)
        fit = self._fit(node_type, only=podm)
        self._go_back(before, len(self.migrations))
        return fit is not None

    def _move_away(
        self, podm: int, chosen: tuple[int, ...], node_type: int, spare: int
    ) -> Fit | None:
        """Migrate these nodes, with so many others to make room for them; return the new fit."""
        undo, before = len(self._undo), len(self.migrations)
        for order, number in enumerate(chosen):
            moving = self.nodes[number].node_type
            left = spare - (len(self.migrations) - before - order)
            fit = self.make_room(moving, left, avoid=podm) or self._fit(moving, only=podm)
            if fit is None:
                self._go_back(undo, before)
                return None
            self.single_may_help |= not self.migrations
            self._undo.append(self._overlay.allocate(fit.row, fit.blocks, fit.grants))
            self._release(number)
            self.migrations.append(Migration(number, fit))
        fit = self._fit(node_type, only=podm)
        if fit is None:
            self._go_back(undo, before)
        return fit

    def _fit(self, node_type: int, *, avoid: int = -1, only: int | None = None) -> Fit | None:
        """Return the fit of the first pool that makes a node of a type."""
        view, mask = self._overlay.view, self.node_types[node_type].rows
        for variant in self._variants[node_type]:
            self.fits_left -= 1  # looking for the rows takes about as long as one fit
            rows = feasible_rows(view, variant.fitter.needs)
            rows = rows if mask is None else rows & mask
            rows = rows & (view.podm_of != avoid if only is None else view.podm_of == only)
            for row in rows.nonzero()[0].tolist():
                if self.is_spent:
                    return None
                self.fits_left -= 1
                fit = variant.fitter.fit(view, row)
                if isinstance(fit, Fit):
                    return fit
                self.is_open |= fit is not None
        return None

    def _release(self, number: int) -> None:
        """Free what a node holds where it is now."""
        node, podm = self.nodes[number], self._podm(number)
        before, base = self._overlay.view.block_tables[podm], self.view.block_tables[podm]
        if node.planned:
            after = before.deallocate(node.blocks, node.grants, base)
        else:
            after = before.remove_node(node.blocks).deallocate((), node.grants, base)
        self._overlay.apply([(podm, after, node.blocks, node.grants)])
        undo = [(podm, before, node.blocks, node.grants)]
        self._undo.append(functools.partial(self._overlay.apply, undo))

    def _go_back(self, undo: int, migrations: int) -> None:
        while len(self._undo) > undo:
            self._undo.pop()()
        del self.migrations[migrations:]

    def _podm(self, number: int) -> int:
        return int(self.view.podm_of[self.nodes[number].row])

    def _signature(self, node: MovableNode) -> Hashable:
        """Return what nodes have in common that can stand for one another."""
        table = self.view.block_tables[self.view.podm_of[node.row]]
        blocks = Counter(
            (table.kinds[block], table.pools[block], table.slots[block], table.gains[block],
             str(table.topologies[block]) if table.topologies else "")
            for block in node.blocks
        )  # fmt: skip
        return node.node_type, frozenset(blocks.items()), node.grants, node.planned
