# SPDX-License-Identifier: Apache-2.0
"""Sums: how many nodes free amounts would be enough for, if all of them were in one place.

This is what a scheduler sees that knows one total a resource. It is never below the true number:
what nodes have together is at most what is free. Only pools count that the filters of a policy
leave; a block in several of them counts once, and one for several nodes for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from valence_sched.model.need import Need
from valence_sched.model.request import MAX_NODES
from valence_sched.model.stock import free_amount
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.view.view import Floats, Ints, Mask, View

ROUNDING = 1e-6  # by which a sum of grants may exceed what is free

Lines = dict[Need, float]  # the amount of a resource that one node takes


class NodeSums(msgspec.Struct, frozen=True):
    """How many nodes the sums are enough for: podm by podm, those together, and the site."""

    by_podm: tuple[int, ...]
    podms: int
    site: int


def sums_of(view: View, node_type: NodeType) -> NodeSums:
    """Return how many nodes of one type sums promise."""
    free = _FreeAmounts(view, view.all_rows if node_type.rows is None else node_type.rows)
    alternatives = [_lines(one.needs) for one in node_type.alternatives]
    common = _common_lines(alternatives)
    by_podm = [_most_nodes(alternatives, common, free, podm) for podm in range(len(view.podms))]
    whole = _most_nodes(alternatives, common, free)
    return NodeSums(tuple(by_podm), min(sum(by_podm), whole), whole)


def sums_of_mix(view: View, node_types: Sequence[NodeType], shares: Sequence[int]) -> NodeSums:
    """Return how many nodes of a mix sums promise; of single podms nothing is said."""
    alone = [sums_of(view, node_type) for node_type in node_types]
    lines = [_common_lines([_lines(one.needs) for one in each.alternatives]) for each in node_types]
    free: dict[Need, float] = {}
    for line in {line: None for each in lines for line in each}:
        rows = [view.all_rows if each.rows is None else each.rows
                for each, own in zip(node_types, lines, strict=True) if line in own]  # fmt: skip
        free[line] = float(_FreeAmounts(view, np.logical_or.reduce(rows)).of(line).sum())
    site = _largest_mix([one.site for one in alone], shares, lines, free)
    podms = _largest_mix([one.podms for one in alone], shares, lines, free)
    return NodeSums((), podms, site)


def _largest_mix(
    most: Sequence[int],
    shares: Sequence[int],
    lines: Sequence[Lines],
    free: Mapping[Need, float],
) -> int:
    """Return the largest mix of which every flavor has its share, rounded down, by these sums."""
    whole = sum(shares)

    def fits(size: int) -> bool:
        counts = [size * share // whole for share in shares]
        taken: Lines = {}
        for count, own in zip(counts, lines, strict=True):
            for line, amount in own.items():
                taken[line] = taken.get(line, 0.0) + count * amount
        return all(map(int.__le__, counts, most)) and all(
            amount <= free[line] * (1.0 + ROUNDING) for line, amount in taken.items()
        )

    low, high = 0, min(MAX_NODES, sum(most) + len(shares))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return min(low, sum(most))


def _lines(needs: Iterable[Need]) -> Lines:
    """Return what one node takes: devices and grants add up, totals hold for the same devices."""
    lines: Lines = {}
    for need in needs:
        line = need.subject if need.unknown == "reject" else msgspec.structs.replace(need, name="")
        amount = need.total_amount()
        if need.measure in ("devices", "amount"):
            lines[line] = lines.get(line, 0.0) + amount
        else:
            lines[line] = max(lines.get(line, 0.0), amount)
    return {line: amount for line, amount in lines.items() if amount}


def _common_lines(alternatives: Sequence[Lines]) -> Lines:
    """Return what every alternative takes at least."""
    first, *others = alternatives
    return {
        line: min(amount, *(one[line] for one in others)) if others else amount
        for line, amount in first.items()
        if all(line in one for one in others)
    }


def _most_nodes(
    alternatives: Sequence[Lines], common: Lines, free: _FreeAmounts, podm: int | None = None
) -> int:
    """Return how many nodes a podm, or the site, has enough for, by any of the alternatives."""

    def most(lines: Lines) -> int:
        counts = (
            int(amounts / amount + ROUNDING)
            for line, amount in lines.items()
            for amounts in [free.total(line) if podm is None else float(free.of(line)[podm])]
        )
        return min(counts, default=MAX_NODES)

    return min(most(common), sum(map(most, alternatives)), MAX_NODES)


@dataclass(slots=True, eq=False)
class _FreeAmounts:
    """What is free on some rows, podm by podm; shape ``(podms,)``."""

    view: View
    rows: Mask
    _blocks: tuple[Ints, Ints, Floats] | None = None
    _amounts: dict[Need, Floats] = field(default_factory=dict)
    _totals: dict[Need, float] = field(default_factory=dict)

    def of(self, line: Need) -> Floats:
        if line not in self._amounts:
            stock = line.kind == "stock"
            self._amounts[line] = self._of_stocks(line) if stock else self._of_blocks(line)
        return self._amounts[line]

    def total(self, line: Need) -> float:
        if line not in self._totals:
            self._totals[line] = float(self.of(line).sum())
        return self._totals[line]

    def _of_blocks(self, line: Need) -> Floats:
        if self._blocks is None:
            self._blocks = _free_blocks(self.view, self.rows)
        podms, kinds, slots = self._blocks
        amounts = slots * self.view.kinds.amounts(line)[kinds]
        size = len(self.view.podms)
        return np.bincount(podms, weights=amounts, minlength=size).astype(np.float64)

    def _of_stocks(self, line: Need) -> Floats:
        amounts = np.zeros(len(self.view.podms))
        for podm, table in enumerate(self.view.block_tables):
            first = int(self.view.first_row[podm])
            amounts[podm] = sum(
                free_amount(stock)
                for stock, pools in zip(table.stocks, table.stock_pools, strict=True)
                if stock.resource == line.resource and any(self.rows[first + one] for one in pools)
            )
        return amounts


def _free_blocks(view: View, rows: Mask) -> tuple[Ints, Ints, Floats]:
    """Return the podm, the kind and the slots of each free block in one of the rows."""
    parts: list[tuple[Ints, Ints, Floats]] = []
    for podm, table in enumerate(view.block_tables):
        first, last = int(view.first_row[podm]), int(view.first_row[podm + 1])
        open_rows = rows[first:last]
        if not open_rows.any():
            continue
        slots = np.array(table.slots, dtype=np.float64)
        if not open_rows.all():
            slots *= [any(open_rows[one] for one in pools) for pools in table.pools]
        free = np.flatnonzero(slots)
        kinds = np.array(table.kinds, dtype=np.int64)[free]
        parts.append((np.full(len(free), podm), kinds, slots[free]))
    if not parts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    podms, kinds, slots = map(np.concatenate, zip(*parts, strict=True))
    return podms, kinds, slots
