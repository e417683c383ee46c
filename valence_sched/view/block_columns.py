# SPDX-License-Identifier: Apache-2.0
"""Block columns: the blocks of many pod managers as plain arrays, and block tables of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex, overload

import msgspec
import numpy as np
import numpy.typing as npt

from valence_sched.model.inventory import Stock
from valence_sched.view.blocks import BlockTable, Positions, Topology

Arrays = dict[str, npt.NDArray[Any]]


class BlockArrays(NamedTuple):
    """The blocks of block tables, one table after another: an element a block.

    ``start`` has the first block of each table, and their number. The pools of a block are
    ``positions[pools[block]]``.
    """

    start: npt.NDArray[np.int64]
    kind: npt.NDArray[Any]
    slots: npt.NDArray[Any]
    shared: npt.NDArray[np.bool_]
    pools: npt.NDArray[Any]
    positions: Sequence[Positions]


def block_arrays(tables: Sequence[BlockTable]) -> BlockArrays:
    """Return the blocks of block tables as arrays, without making tables that are stored so."""
    stored = tables.stored_arrays() if isinstance(tables, StoredTables) else None
    return stored or BlockColumns(tables).block_arrays()


class BlockColumns:
    """The blocks of all pod managers as arrays: numbers by block, texts by pod manager."""

    def __init__(self, tables: Sequence[BlockTable]) -> None:
        self._tables = tables
        self._sizes = [len(table.uris) for table in tables]
        self.positions: list[Positions] = []
        self.topologies: list[dict[str, str]] = []
        self._codes: dict[Positions, int] = {}

    def block_arrays(self) -> BlockArrays:
        """Return what is free of each block, and where it is."""
        tables = self._tables
        return BlockArrays(
            start=_starts(self._sizes),
            kind=self._numbers([table.kinds for table in tables]),
            slots=self._numbers([table.slots for table in tables]),
            shared=self._numbers([table.shared for table in tables]).astype(np.bool_),
            pools=self._numbers([self._pool_codes(table.pools) for table in tables]),
            positions=self.positions,
        )

    def arrays(self) -> Arrays:
        """Return the arrays; ``positions`` and ``topologies`` have what numbers stand for."""
        tables, blocks = self._tables, self.block_arrays()
        arrays = {
            "block_start": blocks.start,
            "block_kind": blocks.kind,
            "block_slots": blocks.slots,
            "block_shared": blocks.shared,
            "block_gain": self._numbers([table.gains for table in tables]),
            "block_pools": blocks.pools,
            "block_topology": self._topology_codes(),
        }
        stock_pools = [self._pool_codes(table.stock_pools) for table in tables]
        arrays |= _texts("uris", (table.uris for table in tables))
        arrays |= _texts("stocks", (table.stocks for table in tables))
        arrays |= _texts("stock_pools", stock_pools)
        return arrays

    def _numbers(self, lists: Iterable[Sequence[int]]) -> npt.NDArray[Any]:
        flat = itertools.chain.from_iterable(lists)
        values = np.fromiter(flat, dtype=np.int64, count=sum(self._sizes))
        largest = int(values.max(initial=0))
        kind = next(kind for kind in (np.uint8, np.uint16, np.uint32, np.int64)
                    if largest <= np.iinfo(kind).max)  # fmt: skip
        return values.astype(kind)

    def _pool_codes(self, pools: Sequence[Positions]) -> list[int]:
        codes = self._codes
        try:
            return [codes[positions] for positions in pools]
        except KeyError:
            for positions in pools:
                if codes.setdefault(positions, len(codes)) == len(self.positions):
                    self.positions.append(positions)
            return [codes[positions] for positions in pools]

    def _topology_codes(self) -> npt.NDArray[Any]:
        """Return per block the number of its topology among all, from 1; 0 without one."""
        codes: dict[int, int] = {}
        lists: list[Sequence[int]] = []
        for table, size in zip(self._tables, self._sizes, strict=True):
            if table.topologies is None:
                lists.append([0] * size)
                continue
            for one in filter(None, table.topologies):
                if codes.setdefault(id(one), len(codes) + 1) > len(self.topologies):
                    self.topologies.append(dict(one))
            lists.append([codes[id(one)] if one else 0 for one in table.topologies])
        return self._numbers(lists)


def _starts(sizes: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def text_array(data: bytes) -> npt.NDArray[np.uint8]:
    """Return the bytes of a text as an array."""
    return np.frombuffer(data, np.uint8)


def _texts(name: str, values: Iterable[Any]) -> Arrays:
    encoder = msgspec.msgpack.Encoder()
    texts = [encoder.encode(value) for value in values]
    return {name: text_array(b"".join(texts)), f"{name}_start": _starts(list(map(len, texts)))}


@dataclass(slots=True, eq=False)
class _Texts:
    """The texts of pod managers, decoded one at a time."""

    data: memoryview
    start: npt.NDArray[np.int64]
    decoder: msgspec.msgpack.Decoder[Any]

    def get(self, number: int) -> Any:
        first, last = self.start[number : number + 2].tolist()
        return self.decoder.decode(self.data[first:last])


class StoredBlocks:
    """The block tables of a View in its arrays; each is made once."""

    def __init__(
        self, arrays: Arrays, positions: Sequence[Positions], topologies: Sequence[Topology]
    ) -> None:
        self._start: npt.NDArray[np.int64] = arrays["block_start"]
        self._columns = [arrays[f"block_{name}"] for name in ("kind", "slots", "shared", "gain")]
        self._pools, self._topology = arrays["block_pools"], arrays["block_topology"]
        self._positions = positions
        self._topologies: list[Topology | None] = [None, *topologies]
        kinds = {"uris": list[str], "stocks": tuple[Stock, ...], "stock_pools": list[int]}
        self._texts: Mapping[str, _Texts] = {
            name: _Texts(arrays[name].data, arrays[f"{name}_start"], msgspec.msgpack.Decoder(kind))
            for name, kind in kinds.items()
        }
        self._tables: dict[int, BlockTable] = {}

    def arrays(self) -> BlockArrays:
        """Return what is free of each block, and where it is."""
        kind, slots, shared, _ = self._columns
        return BlockArrays(self._start, kind, slots, shared, self._pools, self._positions)

    def has_made(self, podm: int, table: BlockTable) -> bool:
        """Return whether a block table is the one that was made of these arrays."""
        return self._tables.get(podm) is table

    def table(self, podm: int) -> BlockTable:
        """Return the block table of a pod manager, by number."""
        known = self._tables.get(podm)
        return known or self._tables.setdefault(podm, self._decode(podm))

    def _decode(self, podm: int) -> BlockTable:
        rows = slice(*self._start[podm : podm + 2].tolist())
        kinds, slots, shared, gains = (column[rows].tolist() for column in self._columns)
        positions, topology = self._positions, self._topology[rows].tolist()
        return BlockTable(
            self._texts["uris"].get(podm),
            kinds,
            slots,
            shared,
            [positions[code] for code in self._pools[rows].tolist()],
            self._texts["stocks"].get(podm),
            tuple([positions[code] for code in self._texts["stock_pools"].get(podm)]),
            gains,
            [self._topologies[code] for code in topology] if any(topology) else None,
        )


class StoredTables(list[BlockTable]):
    """The block tables of pod managers, of which those that nobody reads are never made.

    In every other way it is a list of block tables: a copy of it may have others in their places.
    """

    def __init__(self, size: int, blocks: StoredBlocks) -> None:
        super().__init__([None] * size)  # type: ignore[list-item]
        self._blocks = blocks

    def stored_arrays(self) -> BlockArrays | None:
        """Return the blocks as they are stored; None where another table is in a place."""
        tables = list.__getitem__(self, slice(None))
        made = self._blocks.has_made
        if all(table is None or made(podm, table) for podm, table in enumerate(tables)):
            return self._blocks.arrays()
        return None

    @overload
    def __getitem__(self, index: SupportsIndex) -> BlockTable: ...

    @overload
    def __getitem__(self, index: slice) -> list[BlockTable]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> BlockTable | list[BlockTable]:
        """Return a block table, or a plain list of several."""
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        table = super().__getitem__(index)
        if table is None:
            table = self._blocks.table(range(len(self))[index])
            self[index] = table
        return table

    def __iter__(self) -> Iterator[BlockTable]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, other: list[Any]) -> list[Any]:
        return [*self, *other]

    def copy(self) -> StoredTables:
        """Return a copy, whose block tables are made of the same arrays."""
        copy = StoredTables(0, self._blocks)
        copy.extend(list.__getitem__(self, slice(None)))
        return copy
