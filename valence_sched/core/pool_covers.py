# SPDX-License-Identifier: Apache-2.0
"""Pool covers: the blocks that make a node in each pool, for as long as they are free."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable

import numpy as np

from valence_sched.core.evaluation import EvaluationContext
from valence_sched.core.fit.cover_tree import CoverComponent, CoverNode, CoverTree
from valence_sched.core.fit.spending import Spending
from valence_sched.model.inventory import Limit
from valence_sched.view.block_counts import Counts
from valence_sched.view.view import Ints, Mask, View

MIN_POOLS = 8  # pools of equal limits from which on they share their covers
MOST_KINDS = 64  # of blocks in a part: of more, the search in all of them would be too wide


class PoolCovers:
    """The cover of each pool, found when it is asked for.

    A column is a kind of block that helps to make the node in any of the pools. Fewer pools of
    equal limits than ``min_pools`` do not share their covers.
    """

    def __init__(self, context: EvaluationContext, view: View, min_pools: int = MIN_POOLS) -> None:
        self._context, self._view = context, view
        budget = context.bound.policy.budget
        self._states = budget.pool_states
        self._trees: dict[CoverComponent, CoverTree] = {}
        numbers: dict[tuple[tuple[str, Limit], ...], int] = {}  # of different limits
        self._limits = [numbers.setdefault(tuple(pool.limits.items()), len(numbers))
                        for pool in view.pools]  # fmt: skip
        pools, sizes = dict(zip(self._limits, view.pools, strict=True)), Counter(self._limits)
        parts = [context.fitter.cover_components(pools[limits]) for limits in range(len(numbers))]
        self._trees_of = {limits: [self._tree(part) for part in some]
                          for limits, some in enumerate(parts)
                          if sizes[limits] >= min_pools and _is_narrow(some)}  # fmt: skip
        kinds = [kind for some in parts for part in some for kind in part.kinds]
        self._columns = np.unique(np.array(kinds, dtype=np.int64))  # the kind of each
        self._column = {kind: column for column, kind in enumerate(self._columns.tolist())}
        self._nodes: dict[int, list[CoverNode]] = {}  # by row
        self._spending: defaultdict[int, Spending] = defaultdict(lambda: Spending(budget))
        self._podm_of: list[int] = view.podm_of.tolist()
        self._entries, self._has = self._entries_by_column()
        #: The last cover of each row: how many blocks of each column, and whether it is the best.
        self._covers = np.zeros(self._entries.shape, dtype=np.float32)
        self._is_best = np.zeros(len(view), dtype=bool)
        self.undecided_rows: set[int] = set()

    def free(self, rows: Ints) -> Counts:
        """Return how many blocks are free now on some rows; shape ``(rows, columns)``."""
        free: Counts = self._view.block_counts.free[self._entries[rows]] * self._has[rows]
        return free

    def holds(self, rows: Ints, free: Counts) -> Mask:
        """Return for which rows the blocks of the last cover are still there."""
        return self._is_best[rows] & (free >= self._covers[rows]).all(axis=1)

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return what the last covers of some rows take: entries of block counts, and numbers."""
        covers = self._covers[rows]
        places = covers.nonzero()
        return self._entries[rows][places], covers[places].astype(np.int64)

    def settle(self, rows: Ints) -> tuple[Mask, Mask]:
        """Return which of some rows have a cover, and of which that is known by shared searches."""
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
        """Find the cover of a row; false if there is none, or in ``undecided_rows``."""
        nodes = self._find_nodes(row, free)
        if nodes is not None:
            if any(node.cover is None for node in nodes):
                return False
            cover = itertools.chain.from_iterable(node.cover or () for node in nodes)
            return self._keep(row, cover, complete=True)
        spending = self._spending[self._podm_of[row]]
        answer = self._context.fitter.pool_cover(self._view, row, spending)
        if answer.found is None:
            if not answer.complete:
                self.undecided_rows.add(row)
            return False
        return self._keep(row, answer.found.items(), answer.complete)

    def _find_nodes(self, row: int, free: Counts) -> list[CoverNode] | None:
        """Return the nodes of all parts; None where a tree has no sure answer, or there is none."""
        trees = self._trees_of.get(self._limits[row])
        if trees is None:
            return None
        by_kind = dict(zip(self._column, free.tolist(), strict=True))
        before = self._nodes.get(row) or [tree.root for tree in trees]
        nodes = [tree.find(node, by_kind) for tree, node in zip(trees, before, strict=True)]
        self._nodes[row] = nodes
        return nodes if all(node.complete for node in nodes) else None

    def _keep(self, row: int, cover: Iterable[tuple[int, int]], complete: bool) -> bool:
        covers, column = self._covers, self._column
        covers[row] = 0.0
        for kind, number in cover:
            covers[row, column[kind]] = number
        self._is_best[row] = complete
        return True

    def _tree(self, part: CoverComponent) -> CoverTree:
        tree = self._trees.get(part)
        if tree is None:
            tree = self._trees[part] = CoverTree(part, self._states)
        return tree

    def _entries_by_column(self) -> tuple[Ints, Mask]:
        """Return the entry of block counts of each row and column, and where there is one."""
        counts = self._view.block_counts
        columns = np.full(len(self._view.kinds), -1)
        columns[self._columns] = range(len(self._columns))
        rows = np.repeat(np.arange(len(counts)), np.diff(counts.start))
        column = columns[counts.kind]
        useful = (column >= 0).nonzero()[0]
        entries = np.zeros((len(counts), len(self._columns)), dtype=np.int64)
        has = np.zeros(entries.shape, dtype=bool)
        entries[rows[useful], column[useful]] = useful
        has[rows[useful], column[useful]] = True
        return entries, has


def _is_narrow(parts: list[CoverComponent]) -> bool:
    return max(len(part.kinds) for part in parts) <= MOST_KINDS
