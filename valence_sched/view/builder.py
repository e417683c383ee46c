# SPDX-License-Identifier: Apache-2.0
"""Builds a View of pod managers, or of a View and a newer reading of one pod manager."""

import itertools
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from msgspec import Struct, structs

from valence_sched.errors import DuplicateId, InputError, suggest
from valence_sched.model import inventory
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanPodm, Pool, Status, Stock
from valence_sched.view import stocks
from valence_sched.view.block_kinds import BlockKinds, count_blocks, splice_array
from valence_sched.view.blocks import BlockTable, Positions, Topology
from valence_sched.view.view import LABELLED, Ints, Labels, View, lot_of

UriKey = Callable[[str], Any]
Layout = dict[tuple[str, ...], Positions]  # by the ids of some pools

_places_of, _uri_of = operator.attrgetter("places"), operator.attrgetter("uri")


class ViewBuilder:
    """Collects podms and builds one View of them; each distinct text of a block is decoded once."""

    def __init__(self, kinds: BlockKinds | None = None) -> None:
        self.kinds = kinds or BlockKinds()
        self.podms: list[LeanPodm] = []
        self.block_tables: list[BlockTable] = []
        self.pools: list[Pool] = []
        self._files: dict[str, str] = {}
        #: By the text of a status: the free slots, whether it is shared, the slots that a
        #: removal gives back, and the condition.
        self._uses: dict[bytes, tuple[int, bool, int, str | None]] = {
            b"": (inventory.FREE_STATUS.slots, False, inventory.FREE_STATUS.release_gain, None)
        }
        self._positions: dict[Positions, Positions] = {}
        self._layouts: dict[tuple[str, ...], Layout] = {}
        self._topologies: dict[tuple[tuple[str, str], ...], Topology] = {}

    def empty_copy(self) -> "ViewBuilder":
        """Return a builder without podms that shares all decoded texts with this one."""
        builder = ViewBuilder(self.kinds)
        builder._uses, builder._positions = self._uses, self._positions
        builder._layouts, builder._topologies = self._layouts, self._topologies
        return builder

    def add(self, podm: LeanPodm, file: str, document_path: str = "$", key: UriKey = str) -> None:
        """Add a podm; a fit tries its blocks in the order of the ``key`` of their URIs.

        InputError, without a change: a duplicate id or URI, an unknown pool, or invalid devices.
        """
        if podm.id in self._files:
            raise repeated_id(podm.id, self._files[podm.id], file, document_path)
        table = self._block_table(podm, file, document_path, key)
        self._files[podm.id] = file
        self.podms.append(structs.replace(podm, blocks=(), stocks=(), nodes=podm.nodes))
        self.block_tables.append(table)
        self.pools += podm.pools or (Pool(id=inventory.WHOLE_POOL),)

    def view(self) -> View:
        """Return the View of all podms added so far."""
        counts = [len(podm.pools) or 1 for podm in self.podms]
        first_row = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        podm_of = np.repeat(np.arange(len(counts)), counts)
        sizes = [len(table.kinds) for table in self.block_tables]
        kind = _flat((table.kinds for table in self.block_tables), sum(sizes))
        slots = _flat((table.slots for table in self.block_tables), sum(sizes))
        free = (slots > 0).astype(np.float64)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        block, row = self._memberships(first_row, owner)
        count = len(self.kinds)
        podms = [self.podms[podm] for podm in podm_of]
        rows = range(len(self.pools))
        return View(
            kinds=self.kinds,
            podms=self.podms,
            block_tables=self.block_tables,
            pools=self.pools,
            first_row=first_row,
            podm_of=podm_of,
            position_of=np.arange(len(podm_of)) - first_row[podm_of],
            block_counts=count_blocks(row, kind[block], free[block], len(podm_of), count),
            podm_block_counts=count_blocks(owner, kind, free, len(sizes), count),
            resources=_stock_columns(self.block_tables, first_row, podm_of),
            enabled=np.array([podm.enabled for podm in podms], dtype=bool),
            zone=_labels([podm.zone for podm in podms]),
            status=_labels([podm.status for podm in podms]),
            aggregates=_labels([podm.aggregates for podm in podms], frozenset),
            capabilities=_labels([tuple(podm.capabilities.items()) for podm in podms], dict),
            traits=_labels([podms[r].traits + self.pools[r].traits for r in rows], frozenset),
            lot=np.array([lot_of(podms[r].id, self.pools[r].id) for r in rows], dtype=np.uint64),
            block_count=int(sum(sizes)),
        ).freeze()

    def _block_table(self, podm: LeanPodm, file: str, path: str, key: UriKey) -> BlockTable:
        if len({block.uri for block in podm.blocks}) != len(podm.blocks):
            uris: set[str] = set()
            for index, block in enumerate(podm.blocks):
                if block.uri in uris:
                    where, found = f"{path}.blocks[{index}].uri", f"{block.uri!r} again"
                    raise InputError(file, where, found, "a unique URI")
                uris.add(block.uri)
        names = tuple(pool.id for pool in podm.pools)
        if len(set(names)) != len(names):
            raise InputError(file, f"{path}.pools", "a pool id twice", "unique ids")
        everywhere: Layout = {} if names else {(): self._positions.setdefault((0,), (0,))}
        layout = self._layouts.setdefault(names, everywhere)  # podms with equal pools share it
        try:
            return self._look_up(podm, layout, key)
        except KeyError:  # a text that was not decoded before
            self._decode_new(podm, layout, file, path)
            return self._look_up(podm, layout, key)

    def _look_up(self, podm: LeanPodm, layout: Layout, key: UriKey) -> BlockTable:
        """Return the block table of a podm, in the order of ``key``; KeyError for a new text."""
        blocks, amounts = sorted(podm.blocks, key=_uri_of), sorted(podm.stocks, key=_uri_of)
        if key is not str:
            blocks.sort(key=lambda block: key(block.uri))
        use = [self._uses[bytes(block.status or b"")] for block in blocks]
        pairs, numbers = zip(blocks, use, strict=True), self.kinds.numbers
        kinds = [numbers[one.type, bytes(one.devices or b""), state[3]] for one, state in pairs]
        places: list[Topology | None] = list(map(_places_of, blocks))
        topologies: list[Topology | None] | None = None
        if any(places):
            intern = self._topologies.setdefault
            topologies = [intern(tuple(sorted(it.items())), it) if it else None for it in places]
        return BlockTable(
            [block.uri for block in blocks],
            kinds,
            [slots for slots, _, _, _ in use],
            [shared for _, shared, _, _ in use],
            [layout[block.pools] for block in blocks],
            tuple(amounts),
            tuple(layout[stock.pools] for stock in amounts),
            [gain for _, _, gain, _ in use],
            topologies,
        )

    def _decode_new(self, podm: LeanPodm, layout: Layout, file: str, path: str) -> None:
        number = {pool.id: index for index, pool in enumerate(podm.pools)}
        for index, block in sorted(enumerate(podm.blocks), key=lambda one: one[1].uri):
            at = f"{path}.blocks[{index}]"
            key = bytes(block.status or b"")
            if key not in self._uses:
                status = decode(key, Status, file, f"{at}.status")
                shared = status.state == "ComposedAndAvailable"
                self._uses[key] = (status.slots, shared, status.release_gain, status.condition)
            condition = self._uses[key][3]
            self.kinds.number(block.type, block.devices, file, f"{at}.devices", condition)
            self._add_to_layout(number, block.pools, layout, file, at)
        for index, stock in enumerate(podm.stocks):
            self._add_to_layout(number, stock.pools, layout, file, f"{path}.stocks[{index}]")

    def _add_to_layout(
        self, number: dict[str, int], pools: tuple[str, ...], layout: Layout, file: str, path: str
    ) -> None:
        if pools in layout:  # also (), if the podm has no pools
            return
        for name in pools:
            if name not in number:
                expected, hint = "a pool of this podm", suggest(name, number)
                raise InputError(file, f"{path}.pools", repr(name), expected, hint)
        positions = tuple(sorted({number[name] for name in pools}))
        layout[pools] = self._positions.setdefault(positions, positions)

    def _memberships(self, first_row: Ints, owner: Ints) -> tuple[Ints, Ints]:
        codes = {positions: code for code, positions in enumerate(self._positions)}
        code_lists = (list(map(codes.__getitem__, table.pools)) for table in self.block_tables)
        code_of = _flat(code_lists, len(owner))
        blocks, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        by_code = np.argsort(code_of, kind="stable")
        starts = np.searchsorted(code_of[by_code], np.arange(len(codes) + 1))
        for positions, code in codes.items():
            members = by_code[starts[code] : starts[code + 1]]
            for position in positions:
                blocks.append(members)
                rows.append(first_row[owner[members]] + position)
        return np.concatenate(blocks), np.concatenate(rows)


def repeated_id(podm_id: str, first_file: str, file: str, document_path: str) -> DuplicateId:
    """Return the error about a podm with the same id as an earlier podm in ``first_file``."""
    found = f"{podm_id!r} again, first in {first_file}"
    hint = "give every pod manager a unique id"
    return DuplicateId(file, f"{document_path}.id", found, "a unique id", hint)


def _flat(lists: Iterable[list[int]], size: int) -> Ints:
    return np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int64, count=size)


def _labels(values: Sequence[Hashable], shape: Callable[[Any], Any] | None = None) -> Labels:
    numbers: dict[Hashable, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return Labels([*map(shape, numbers)] if shape else [*numbers], np.array(codes, dtype=np.int64))


def _stock_columns(
    tables: Sequence[BlockTable], first_row: Ints, podm_of: Ints
) -> dict[str, stocks.StockColumn]:
    values: dict[str, dict[int, tuple[float, ...]]] = {}
    pools: dict[str, dict[int, list[Stock]]] = {}
    for podm, table in enumerate(tables):
        by_name: dict[str, list[int]] = {}
        for number, stock in enumerate(table.stocks):
            by_name.setdefault(stock.resource, []).append(number)
        for name, numbers in by_name.items():
            podm_stocks = [table.stocks[number] for number in numbers]
            row_values, row_stocks = values.setdefault(name, {}), pools.setdefault(name, {})
            for row in range(first_row[podm], first_row[podm + 1]):
                position = row - first_row[podm]
                pool = [table.stocks[n] for n in numbers if position in table.stock_pools[n]]
                row_stocks[int(row)] = pool
                row_values[int(row)] = stocks.row_values(pool, podm_stocks)
    return {name: stocks.build_column(values[name], pools[name], len(podm_of)) for name in values}


T = TypeVar("T")


class Splice(Struct, frozen=True):
    """Rows ``[first, last)`` of the old View became ``count`` rows of the new one."""

    first: int
    last: int
    count: int


def splice(view: View, podm: int, part: View) -> tuple[View, Splice]:
    """Return the View after ``part`` replaces the podm with number ``podm``, and the changed rows.

    ``part`` is built with the same kinds; ``podm == len(view.podms)`` appends.
    """
    next_podm = min(podm + 1, len(view.podms))  # the podm itself if ``part`` is appended
    first, last = int(view.first_row[podm]), int(view.first_row[next_podm])
    growth = len(part) - (last - first)
    shift = len(part.podms) - (next_podm - podm)
    old_blocks = sum(len(table.uris) for table in view.block_tables[podm:next_podm])
    first_row, podm_of = view.first_row, view.podm_of
    if growth or shift:
        new_rows = part.first_row[:-1] + first
        first_row = np.concatenate((first_row[:podm], new_rows, first_row[next_podm:] + growth))
        podm_of = np.concatenate((podm_of[:first], part.podm_of + podm, podm_of[last:] + shift))
    names = {**view.resources, **part.resources}
    labels: dict[str, Any] = {
        name: _splice_labels(getattr(view, name), first, last, getattr(part, name))
        for name in LABELLED
    }
    changed = View(
        kinds=view.kinds,
        podms=_splice_items(view.podms, podm, next_podm, part.podms),
        block_tables=_with_slice(view.block_tables, podm, next_podm, part.block_tables),
        pools=_splice_items(view.pools, first, last, part.pools),
        first_row=first_row,
        podm_of=podm_of,
        position_of=splice_array(view.position_of, first, last, part.position_of),
        block_counts=view.block_counts.splice(first, last, part.block_counts),
        podm_block_counts=view.podm_block_counts.splice(podm, next_podm, part.podm_block_counts),
        resources={name: view.stock(name).splice(first, last, part.stock(name)) for name in names},
        enabled=splice_array(view.enabled, first, last, part.enabled),
        lot=splice_array(view.lot, first, last, part.lot),
        block_count=view.block_count - old_blocks + part.block_count,
        **labels,
    )
    return changed.freeze(), Splice(first, last, len(part))


def _splice_items(mine: Sequence[T], first: int, last: int, theirs: Sequence[T]) -> Sequence[T]:
    if list(mine[first:last]) == list(theirs):
        return mine
    return _with_slice(mine, first, last, theirs)


def _with_slice(mine: Sequence[T], first: int, last: int, theirs: Sequence[T]) -> list[T]:
    items = list(mine)  # faster than joining two long slices, which copies their items twice
    items[first:last] = theirs
    return items


def _splice_labels(mine: Labels, first: int, last: int, theirs: Labels) -> Labels:
    new = [theirs.values[code] for code in theirs.codes]
    if [mine.values[code] for code in mine.codes[first:last]] == new:
        return mine
    values = list(mine.values)
    values += [value for value in theirs.values if value not in values]
    codes = np.array([values.index(value) for value in new], dtype=np.int64)
    return Labels(values, splice_array(mine.codes, first, last, codes))
