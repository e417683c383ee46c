# SPDX-License-Identifier: Apache-2.0
"""Migration state: nodes on an overlay of a View, the migrations made so far, and what undoes them.

A migration makes before it breaks: the node gets blocks of its destination while it still holds
its own, then those are released. So capacity is never exceeded on the way, and each state between
two migrations is one that the pods can stay in. In its new pool a node gets the blocks that the fit
chooses there, as a decision for that pool would.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from valence_sched.core.fit.fit import Fit
from valence_sched.model.need import MEASURES
from valence_sched.planning.optimise.node_types import NodeType, Variant, variants_of
from valence_sched.view.availability import feasible_rows
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View


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


Mark = tuple[int, int]  # how many steps to undo and migrations there were


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
        """Return the fit of the first pool that makes a node of a type.

        It is on no pool of the podm ``avoid``, and on one of the podm ``only`` where that is given.
        """
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

    def can_make(self, fit: Fit) -> bool:
        """Return whether the blocks and amounts of a fit are free now."""
        table = self._overlay.view.block_tables[self.view.podm_of[fit.row]]
        if not all(table.slots[block] > 0 for block in fit.blocks):
            return False
        granted: dict[int, float] = {}
        for number, amount in fit.grants:
            granted[number] = granted.get(number, 0.0) + amount
        stocks = ((table.stocks[number], amount) for number, amount in granted.items())
        return all(stock.total is None or stock.used + amount <= stock.total
                   for stock, amount in stocks)  # fmt: skip

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
        return float(sum(cards[table.kinds[block]] * max(1, len(table.pools[block]))
                         for block in self.places[number].blocks))  # fmt: skip

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
            (table.kinds[block], table.pools[block], table.slots[block], table.gains[block],
             str(table.topologies[block]) if table.topologies else "")
            for block in node.blocks
        )  # fmt: skip
        return node.node_type, frozenset(blocks.items()), node.grants, node.planned

    def fingerprint(self) -> Hashable:
        """Return what is equal for states from which the same migrations lead on."""
        moved = {migration.node for migration in self.migrations}
        return frozenset(
            (number, self.podm(number), self.places[number].blocks, self.places[number].grants)
            for number in moved
        )
