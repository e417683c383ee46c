# SPDX-License-Identifier: Apache-2.0
"""Pool covers: the cheapest set cover of a node in each pool, with searches shared by pools.

A set cover is divided into components that have no kind of block in common. The cheapest covers of
all components together are the cheapest cover of the node. Pools with equal limits share a tree of
covers for each component (``CoverTree``).
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct, structs

from valence_sched.core.fit.fit import Fitter, Spending
from valence_sched.core.fit.set_cover import Item, cheapest_cover, connected
from valence_sched.model.inventory import Limit, Pool
from valence_sched.view.block_kinds import Counts
from valence_sched.view.view import Ints, Mask, View

MIN_POOLS = 8  # the smallest number of pools with equal limits that share their covers
MOST_KINDS = 64  # most block kinds of a component with a tree; more take too long

Offer = tuple[int, ...]  # numbers by kind


class CoverComponent(Struct, frozen=True):
    """An independent set cover; item ``n`` is the block kind ``kinds[n]``."""

    kinds: tuple[int, ...]
    items: tuple[Item, ...]
    amounts: tuple[int, ...]
    caps: tuple[int, ...]


@dataclass(slots=True, eq=False)
class CoverNode:
    """An offer and its cheapest cover as ``(kind, number)``; None: no cover or not ``complete``."""

    offer: Offer
    cover: tuple[tuple[int, int], ...] | None
    complete: bool
    children: "dict[tuple[int, float], CoverNode]" = field(default_factory=dict)


class PoolCovers:
    """The last cover of each pool; at least ``min_pools`` with equal limits share trees.

    A column is a kind of block that is useful in some pool.
    """

    def __init__(self, fitter: Fitter, view: View, min_pools: int = MIN_POOLS) -> None:
        self._fitter, self._view = fitter, view
        self._trees: dict[CoverComponent, CoverTree] = {}
        # a number for each distinct set of limits
        numbers: dict[tuple[tuple[str, Limit], ...], int] = {}
        limits_of = [tuple(pool.limits.items()) for pool in view.pools]
        self._limits = [numbers.setdefault(limits, len(numbers)) for limits in limits_of]
        pools, sizes = dict(zip(self._limits, view.pools, strict=True)), Counter(self._limits)
        parts = [cover_components(fitter, pools[limits]) for limits in range(len(numbers))]
        self._trees_of = {
            limits: [self._tree(part) for part in some]
            for limits, some in enumerate(parts)
            if sizes[limits] >= min_pools and all(len(part.kinds) <= MOST_KINDS for part in some)
        }
        kinds = [kind for some in parts for part in some for kind in part.kinds]
        # the kind of block of each column
        self._columns = np.unique(np.array(kinds, dtype=np.int64))
        self._column = {kind: column for column, kind in enumerate(self._columns.tolist())}
        self._nodes: dict[int, list[CoverNode]] = {}  # by row
        self._spending: defaultdict[int, Spending] = defaultdict(lambda: Spending(fitter.budget))
        self._podm_of: list[int] = view.podm_of.tolist()
        counts = view.block_counts
        columns = np.full(len(view.kinds), -1)
        columns[self._columns] = range(len(self._columns))
        rows = np.repeat(np.arange(len(counts)), np.diff(counts.start))
        column = columns[counts.kind]
        useful = (column >= 0).nonzero()[0]
        self._entries: Ints = np.zeros((len(counts), len(self._columns)), dtype=np.int64)
        self._has: Mask = np.zeros(self._entries.shape, dtype=bool)
        self._entries[rows[useful], column[useful]] = useful
        self._has[rows[useful], column[useful]] = True
        # the last cover of each row: the number of blocks of each column, and whether it is best
        self._covers = np.zeros(self._entries.shape, dtype=np.float32)
        self._is_best = np.zeros(len(view), dtype=bool)
        self.undecided_rows: set[int] = set()

    def free(self, rows: Ints) -> Counts:
        """Return the present numbers of free blocks; shape ``(rows, columns)``."""
        return self._view.block_counts.free[self._entries[rows]] * self._has[rows]

    def holds(self, rows: Ints, free: Counts) -> Mask:
        """Return a mask of the ``rows`` on which the blocks of the last cover are still free."""
        return self._is_best[rows] & (free >= self._covers[rows]).all(axis=1)

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the last covers of some rows: entries of ``block_counts``, and block numbers."""
        covers = self._covers[rows]
        places = covers.nonzero()
        return self._entries[rows][places], covers[places].astype(np.int64)

    def settle(self, rows: Ints) -> tuple[Mask, Mask]:
        """Return two masks of ``rows``: rows with a cover, and rows that the trees decided."""
        free = self.free(rows)
        has_cover, known = np.ones(len(rows), dtype=bool), np.ones(len(rows), dtype=bool)
        limits_of = np.array(self._limits)[rows]
        for limits in np.unique(limits_of).tolist():
            some = (limits_of == limits).nonzero()[0]
            trees = self._trees_of.get(limits)
            if trees is None:
                known[some] = False
                continue
            columns = {kind: free[some, column] for kind, column in self._column.items()}
            for tree in trees:
                covered, settled = tree.settle(columns, len(some))
                has_cover[some] &= covered
                known[some] &= settled
        return has_cover, known

    def find(self, row: int, free: Counts) -> bool:
        """Find the cover of a row; false if there is none or the row is in ``undecided_rows``."""
        if (trees := self._trees_of.get(self._limits[row])) is not None:
            by_kind = dict(zip(self._column, free.tolist(), strict=True))
            before = self._nodes.get(row) or [tree.root for tree in trees]
            nodes = [tree.find(node, by_kind) for tree, node in zip(trees, before, strict=True)]
            self._nodes[row] = nodes
            if all(node.complete for node in nodes):
                if any(node.cover is None for node in nodes):
                    return False
                cover = itertools.chain.from_iterable(node.cover or () for node in nodes)
                return self._keep(row, cover, complete=True)
        answer = self._fitter.pool_cover(self._view, row, self._spending[self._podm_of[row]])
        if answer.found is None:
            if not answer.complete:
                self.undecided_rows.add(row)
            return False
        return self._keep(row, answer.found.items(), answer.complete)

    def _keep(self, row: int, cover: Iterable[tuple[int, int]], complete: bool) -> bool:
        covers, column = self._covers, self._column
        covers[row] = 0.0
        for kind, number in cover:
            covers[row, column[kind]] = number
        self._is_best[row] = complete
        return True

    def _tree(self, part: CoverComponent) -> "CoverTree":
        if part not in self._trees:
            self._trees[part] = CoverTree(part, self._fitter.budget.pool_states)
        return self._trees[part]


def cover_components(fitter: Fitter, pool: Pool) -> list[CoverComponent]:
    """Return the independent components of the set cover of a node in a pool."""
    offer, items, caps, amounts = fitter.whole_cover(pool)
    return connected_components([kind for kind, _ in offer], items, amounts, caps)


def connected_components(
    kinds: Sequence[int], items: Sequence[Item], amounts: Sequence[int], caps: Sequence[int]
) -> list[CoverComponent]:
    """Return the components of a set cover; item ``n`` is the block kind ``kinds[n]``."""
    demands = [number for number, amount in enumerate(amounts) if amount]
    links = [
        [number for number in demands if item.coverage[number]] + [~cap for cap in item.caps]
        for item in items
    ]
    components = []
    for group in connected([*demands, *(~cap for cap in range(len(caps)))], links):
        own = [number for number in group if number >= 0]
        capped = [~number for number in group if number < 0]
        mine = [n for n, item in enumerate(items) if any(item.coverage[number] for number in own)]
        if not own:
            continue
        cut = [
            structs.replace(
                items[n],
                coverage=tuple(items[n].coverage[number] for number in own),
                caps=tuple(capped.index(cap) for cap in items[n].caps),
            )
            for n in mine
        ]
        component = CoverComponent(
            kinds=tuple(kinds[n] for n in mine),
            items=tuple(cut),
            amounts=tuple(amounts[number] for number in own),
            caps=tuple(caps[cap] for cap in capped),
        )
        components.append(component)
    return components


class CoverTree:
    """The cheapest covers of one component by offer, each found within a limit of search states.

    A cover is also cheapest in every smaller offer that contains it. The root offers enough of each
    kind; a child offers fewer blocks of one kind than the cover of its parent takes.
    """

    def __init__(self, part: CoverComponent, states: int) -> None:
        self._part, self._states = part, states
        self._position = {kind: position for position, kind in enumerate(part.kinds)}
        self._nodes: dict[Offer, CoverNode] = {}
        self.root = self._node(tuple(item.available for item in part.items))

    def find(self, node: CoverNode, free: Mapping[int, float]) -> CoverNode:
        """Return the tree node with the cheapest cover by the ``free`` blocks of each kind.

        The search begins at ``node``, which must offer at least as many blocks of each kind.
        """
        while node.complete and node.cover is not None:
            for kind, number in node.cover:
                fewer = free[kind]
                if fewer < number:
                    child = node.children.get((kind, fewer))
                    node = child or self._child(node, kind, int(fewer))
                    break
            else:
                return node
        return node

    def settle(self, free: Mapping[int, Counts], size: int) -> tuple[Mask, Mask]:
        """Return two masks of shape ``(size,)``: offers with a cover, and decided offers."""
        has_cover, known = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
        waiting = [(self.root, np.arange(size))]
        while waiting:
            node, offers = waiting.pop()
            if not node.complete:
                known[offers] = False
                continue
            for kind, number in node.cover or ():
                numbers = free[kind][offers]
                lacking = numbers < number
                if lacking.any():
                    for fewer in np.unique(numbers[lacking]).tolist():
                        child = self._child(node, kind, int(fewer))
                        waiting.append((child, offers[numbers == fewer]))
                    offers = offers[~lacking]
            if node.cover is not None:
                has_cover[offers] = True
        return has_cover, known

    def _child(self, node: CoverNode, kind: int, number: int) -> CoverNode:
        child = node.children.get((kind, number))
        if child is None:
            position = self._position[kind]
            offer = (*node.offer[:position], number, *node.offer[position + 1 :])
            child = node.children[kind, number] = self._node(offer)
        return child

    def _node(self, offer: Offer) -> CoverNode:
        node = self._nodes.get(offer)
        if node is None:
            part = self._part
            kinds = [kind for kind, number in zip(part.kinds, offer, strict=True) if number]
            offered = [pair for pair in zip(part.items, offer, strict=True) if pair[1]]
            items = [structs.replace(item, available=number) for item, number in offered]
            found = cheapest_cover(items, part.amounts, part.caps, states=self._states)
            cover = None
            if found.complete and found.found is not None:
                pairs = zip(kinds, found.found, strict=True)
                cover = tuple((kind, number) for kind, number in pairs if number)
            node = self._nodes[offer] = CoverNode(offer, cover, found.complete)
        return node
