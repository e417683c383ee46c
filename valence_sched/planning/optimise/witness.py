# SPDX-License-Identifier: Apache-2.0
"""Witness: converts a solution of the count model to single nodes, each verified by the fit.

A solution has numbers of nodes and of blocks by class; the witness has nodes with blocks and
grants. The fit verifies one node after another, on a View in which only the parts of the node are
free. Refused nodes are dropped, so every counted node has been placed.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from msgspec import Struct

from valence_sched.core.fit.fit import Fit, Spending
from valence_sched.core.fit.optimiser import Floats
from valence_sched.core.fit.set_cover import Item, cheapest_cover
from valence_sched.model.policy import Budget
from valence_sched.model.request import MAX_NODES
from valence_sched.planning.optimise.model import CoverPart, GrantColumn, GroupModel, NodeColumn
from valence_sched.planning.optimise.node_types import PoolGroup, Variant
from valence_sched.view import block_kinds
from valence_sched.view.overlay import Overlay, Undo
from valence_sched.view.view import View

ClassCounts = dict[int, int]


class WitnessNode(Struct, frozen=True, gc=False):
    """One node: the numbers of its node type and of its variant, and its fit."""

    node_type: int
    variant: int
    fit: Fit


class Witness:
    """Nodes taken one after another from an overlay, at most ``most``, within one budget."""

    def __init__(
        self, view: View, variants: tuple[Variant, ...], budget: Budget, most: int = MAX_NODES
    ) -> None:
        self.view, self.variants, self.most = view, variants, most
        self.nodes: list[WitnessNode] = []
        self._overlay, self._spending = Overlay(view), Spending(budget)
        self.current_view = self._overlay.view  # with the present free hardware
        self._undo: list[Undo] = []
        self._full: set[tuple[int, int]] = set()
        self._rows: dict[int, View] = {}

    def realise(self, group: PoolGroup, model: GroupModel, values: Floats) -> None:
        """Take the nodes of a group's solution, except nodes that the fit refuses."""
        table = self.current_view.block_tables[group.podm]
        queues = _block_queues(self.current_view, group, model, values)
        positions = {int(self.view.position_of[row]) for row in group.rows}
        resources = {grant[0] for variant in model.classes.variants for grant in variant.grants}
        pairs = enumerate(zip(table.stocks, table.stock_pools, strict=True))
        stocks = [  # the number in the table of the podm, for each stock that the group offers
            number
            for number, (stock, pools) in pairs
            if stock.resource in resources and positions.intersection(pools)
        ]
        for column in model.nodes:
            row = group.rows[column.pool]
            number = min(round(values[column.column]), self.most - len(self.nodes))
            parts_of_nodes = list(_class_counts(column, values, number)) or [[{}] * number]
            granting = [_expanded(one, values, number, stocks) for one in column.grants]
            for order, parts in enumerate(zip(*parts_of_nodes, strict=False)):
                blocks = _blocks_of(parts, queues, column.pool)
                grants = [grant for each in granting for grant in each[order]]
                fit = self._verified(row, column.variant, blocks, grants)
                if fit is not None:
                    self._take(column.variant, fit)

    def realise_best(self, group: PoolGroup, model: GroupModel, values: Floats, bound: int) -> None:
        """Take the nodes of a group from a solution, or from :meth:`fill` if that gives more."""
        before, pairs = len(self.nodes), group.pairs()
        self.realise(group, model, values)
        bound = min(bound, self.most - before)
        missing = bound - (len(self.nodes) - before)
        if not missing or self.fill(pairs, missing) == missing:
            return
        planned = self.nodes[before:]
        self.undo(before)
        if self.fill(pairs, bound) < len(planned):
            self.undo(before)
            for node in planned:
                self._take(node.variant, node.fit)

    def fill(self, pairs: Iterable[tuple[int, int]], most: int) -> int:
        """Take at most ``most`` nodes of ``(row, variant)`` pairs in order; return the number."""
        before = len(self.nodes)
        for row, variant in pairs:
            while len(self.nodes) - before < most and (row, variant) not in self._full:
                fit = self.variants[variant].fitter.fit(self.current_view, row, self._spending)
                if isinstance(fit, Fit):
                    self._take(variant, fit)
                else:
                    self._full.add((row, variant))
        return len(self.nodes) - before

    def undo(self, number: int) -> None:
        self._full.clear()
        while len(self.nodes) > number:
            self.nodes.pop()
            self._undo.pop()()

    def _take(self, variant: int, fit: Fit) -> None:
        self._undo.append(self._overlay.allocate(fit.row, fit.blocks, fit.grants))
        self.nodes.append(WitnessNode(self.variants[variant].node_type, variant, fit))

    def _verified(
        self, row: int, variant: int, blocks: Sequence[int], grants: Sequence[tuple[int, float]]
    ) -> Fit | None:
        if row not in self._rows:
            self._rows[row] = self.view.take([row])
        table = self.current_view.block_tables[self.view.podm_of[row]]
        if not all(table.slots[block] for block in blocks):
            return None
        counts = Counter(table.kinds[block] for block in blocks)
        kinds = np.array([*counts], dtype=np.int64)
        free = np.array([*counts.values()], dtype=np.float32)
        alone = replace(  # a View in which only the parts of the node are free
            self._rows[row],
            block_tables=[table.only(blocks, grants)],
            block_counts=block_kinds.BlockCounts(np.array([0, len(kinds)]), kinds, free, free),
        )
        fit = self.variants[variant].fitter.fit(alone, 0, self._spending)
        return msgspec.structs.replace(fit, row=row) if isinstance(fit, Fit) else None


def _class_counts(column: NodeColumn, values: Floats, number: int) -> Iterator[list[ClassCounts]]:
    """Yield the numbers of blocks by class for each part, one dict per node."""
    for part, columns in column.parts:
        used = [round(values[one]) for one in columns]
        if part.covers is None:
            yield (_filled if part.is_chain else _covered)(part, used, number)
            continue
        yield [
            {key: count for key, count in zip(part.classes, cover, strict=True) if count}
            for cover, times in zip(part.covers, used, strict=True)
            for _ in range(times)
        ]


def _filled(part: CoverPart, used: list[int], number: int) -> list[ClassCounts]:
    """Fill one node after another, largest blocks first: exact for a chain."""
    order = sorted(range(len(used)), key=lambda position: -part.coverage[position][0])
    queue = deque(position for position in order for _ in range(used[position]))
    nodes = []
    for _ in range(number):
        missing, node = part.demands[0], Counter[int]()
        while missing > 0 and queue:
            position = queue.popleft()
            node[part.classes[position]] += 1
            missing -= part.coverage[position][0]
        nodes.append(dict(node))
    return nodes


def _covered(part: CoverPart, used: list[int], number: int) -> list[ClassCounts]:
    """Choose for one node after another the cover with the least waste."""
    capped = [
        tuple(n for n, (members, _) in enumerate(part.caps) if position in members)
        for position in range(len(part.classes))
    ]
    nodes = []
    for _ in range(number):
        items = [
            Item(left, 1 + sum(coverage), coverage, own)
            for left, coverage, own in zip(used, part.coverage, capped, strict=True)
        ]
        cover = cheapest_cover(items, part.demands, [cap for _, cap in part.caps], improve=False)
        counts = cover.found or [0] * len(used)
        used = [left - count for left, count in zip(used, counts, strict=True)]
        nodes.append({key: n for key, n in zip(part.classes, counts, strict=True) if n})
    return nodes


def _block_queues(
    view: View, group: PoolGroup, model: GroupModel, values: Floats
) -> dict[tuple[int, int], deque[int]]:
    table = view.block_tables[group.podm]
    position_of = {int(view.position_of[row]): n for n, row in enumerate(group.rows)}
    blocks: dict[tuple[int, tuple[int, ...], int], list[int]] = {}
    columns = zip(table.kinds, table.pools, table.slots, strict=True)
    for block, (kind, pools, slots) in enumerate(columns):
        block_class = model.classes.of_kind(kind) if slots else None
        if block_class is not None:
            within = tuple(sorted({position_of[one] for one in pools if one in position_of}))
            blocks.setdefault((block_class, within, slots), []).append(block)
    prices, used = model.classes.kinds.kinds, Counter[tuple[int, int]]()
    for key, terms in model.uses.items():
        used[key] = round(sum(values[column] * number for column, number in terms))
    queues: dict[tuple[int, int], deque[int]] = {}
    for number, offer in enumerate(model.offer.blocks):
        own = blocks.get((offer.block_class, offer.pools, offer.slots), [])
        own.sort(key=lambda block: (prices[table.kinds[block]].price, block))
        needed = sum(used[pool, offer.block_class] for pool in offer.pools)
        queue = deque(own * min(offer.slots, -(-needed // len(own)))) if own else deque()
        for pool in model.takers[number]:
            flow = model.flows.get((number, pool))
            many = len(queue) if flow is None else min(len(queue), round(values[flow]))
            some = [queue.popleft() for _ in range(many)]
            queues.setdefault((pool, offer.block_class), deque()).extend(some)
    return queues


def _blocks_of(
    parts: Iterable[ClassCounts], queues: dict[tuple[int, int], deque[int]], pool: int
) -> list[int]:
    chosen: dict[int, None] = {}
    for counts in parts:
        for key, number in counts.items():
            queue, again = queues[pool, key], []
            missing = number
            while missing and queue:
                block = queue.popleft()
                if block in chosen:
                    again.append(block)
                    continue
                chosen[block] = None
                missing -= 1
            queue.extendleft(reversed(again))
    return list(chosen)


def _expanded(
    grants: Sequence[GrantColumn], values: Floats, number: int, stocks: list[int]
) -> list[list[tuple[int, float]]]:
    """Return the ``(stock, size)`` grants of one amount, for each node."""
    if len(grants) == 1:
        return [[(stocks[grants[0].stock], grants[0].size)] * grants[0].times] * number
    order = [
        (stocks[one.stock], one.size) for one in grants for _ in range(round(values[one.column]))
    ]
    times = len(order) // number if number else 0
    return [order[node * times : (node + 1) * times] for node in range(number)]
