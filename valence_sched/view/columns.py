# SPDX-License-Identifier: Apache-2.0
"""View columns: encode a View as plain arrays in one sequence of bytes, and decode it.

A header names the arrays; they follow one after another. Texts are MessagePack, decoded with the
types of the inventory; block tables are decoded when they are first read.
"""

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex, overload

import msgspec
import numpy as np
import numpy.typing as npt

from valence_sched.model import inventory
from valence_sched.model.inventory import BlockType, Devices, LeanPodm, Pool, Stock, to_json
from valence_sched.view.block_kinds import BlockCounts, BlockKinds
from valence_sched.view.blocks import BlockTable, Positions, Topology
from valence_sched.view.stocks import StockColumn, StockGrants
from valence_sched.view.view import Labels, View, inventory_digest, set_inventory_digest

Arrays = dict[str, npt.NDArray[Any]]

VERSION = 4
MAGIC = b"valence-sched view\n"
ALIGNMENT = 16  # bytes: each array begins at a multiple of it after the first array
#: Before the header: the size of the header, the size of the arrays, and the checksum of both.
PREFIX_BYTES = len(MAGIC) + 20
#: The types: numbers in the byte order of this machine, booleans and bytes.
DTYPES = frozenset(np.dtype(name).str for name in ("u8", "i8", "f8", "f4", "u4", "u2", "u1", "?"))

#: The value of each label of a row, from its podm and its pool.
LABELS: Mapping[str, Callable[[LeanPodm, Pool], Any]] = {
    "zone": lambda podm, _: podm.zone,
    "status": lambda podm, _: podm.status,
    "aggregates": lambda podm, _: frozenset(podm.aggregates),
    "capabilities": lambda podm, _: podm.capabilities,
    "traits": lambda podm, pool: frozenset(podm.traits + pool.traits),
}


class ColumnHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The arrays in order, each with type and length, and the ``digest`` of the inventory."""

    version: int
    digest: str
    arrays: list[tuple[str, str, int]]
    resources: list[str]
    kinds: list[tuple[tuple[BlockType, ...], Devices, str | None]]
    positions: list[Positions]
    topologies: list[dict[str, str]]


def encode_view(view: View) -> list[bytes | memoryview]:
    """Return a View as pieces of bytes; ValueError, OverflowError if it cannot be encoded."""
    arrays: Arrays = {name: getattr(view, name) for name in _PLAIN}
    arrays |= {name: getattr(view, name).codes for name in LABELS}
    for name in _COUNTS:
        counts: BlockCounts = getattr(view, name)
        arrays |= {f"{name} {part}": getattr(counts, part) for part in _COUNT_PARTS}
    for number, column in enumerate(view.resources.values()):
        arrays |= {f"stock {number} {part}": array for part, array in enumerate(column.arrays())}
    arrays["podms"] = np.frombuffer(msgspec.msgpack.encode(list(view.podms)), np.uint8)
    blocks = BlockColumns(view.block_tables)
    arrays |= blocks.arrays()
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = msgspec.json.encode(
        ColumnHeader(
            version=VERSION,
            digest=inventory_digest(view),
            arrays=[(name, array.dtype.str, len(array)) for name, array in contiguous.items()],
            resources=list(view.resources),
            kinds=[(kind.types, kind.devices, kind.condition) for kind in view.kinds.kinds[1:]],
            positions=list(blocks.codes),
            topologies=blocks.topologies,
        )
    )
    header += b" " * (-(PREFIX_BYTES + len(header)) % ALIGNMENT)
    body: list[bytes | memoryview] = []
    size = 0
    for array in contiguous.values():
        padding = bytes(-size % ALIGNMENT)
        body += [padding, array.view(np.uint8).data]
        size += len(padding) + array.nbytes
    checksum = zlib.crc32(header)
    for piece in body:
        checksum = zlib.crc32(piece, checksum)
    sizes = (len(header).to_bytes(8, "little"), size.to_bytes(8, "little"))
    return [MAGIC, *sizes, checksum.to_bytes(4, "little"), header, *body]


def decode_view(data: memoryview) -> View:
    """Return the View of encoded bytes; it shares their memory. ValueError: damaged, or old."""
    header, arrays = _read_arrays(data)
    kinds = BlockKinds()
    for types, devices, condition in header.kinds:
        kinds.number(types, msgspec.Raw(to_json(devices)), "", "", condition)
    podms = msgspec.msgpack.decode(arrays["podms"].data, type=list[LeanPodm])
    whole = (Pool(id=inventory.WHOLE_POOL),)
    pools = list(itertools.chain.from_iterable([podm.pools or whole for podm in podms]))
    tables = StoredTables(len(podms), StoredBlocks(arrays, header.positions, header.topologies))
    fields: dict[str, Any] = {name: arrays[name] for name in _PLAIN}
    for name in _COUNTS:
        fields[name] = BlockCounts(*(arrays[f"{name} {part}"] for part in _COUNT_PARTS))
    for name, value_of in LABELS.items():
        _, rows = np.unique(arrays[name], return_index=True)
        pairs = ((podms[arrays["podm_of"][row]], pools[row]) for row in rows.tolist())
        fields[name] = Labels([value_of(*pair) for pair in pairs], arrays[name])
    resources = {}
    for number, resource in enumerate(header.resources):
        parts = [arrays[f"stock {number} {part}"] for part in range(_STOCK_ARRAYS)]
        resources[resource] = StockColumn(StockGrants(False, *parts[-5:]), *parts[:-5])
    view = View(
        kinds=kinds,
        podms=podms,
        block_tables=tables,
        pools=pools,
        resources=resources,
        block_count=int(arrays["block_start"][-1]),
        **fields,
    ).freeze()
    set_inventory_digest(view, header.digest)
    return view


_PLAIN = ("first_row", "podm_of", "position_of", "enabled", "lot")
_COUNTS = ("block_counts", "podm_block_counts")
_COUNT_PARTS = ("start", "kind", "free", "total")
_STOCK_ARRAYS = 12  # arrays of a stock column; the last five belong to its grants


def _read_arrays(data: memoryview) -> tuple[ColumnHeader, Arrays]:
    """Return the header and the arrays, which share the memory of the bytes; ValueError."""
    prefix, begin = bytes(data[:PREFIX_BYTES]), PREFIX_BYTES
    if len(prefix) < PREFIX_BYTES or not prefix.startswith(MAGIC):
        raise ValueError("it is not a view")
    sizes = prefix[len(MAGIC) :]
    header_size, size = (int.from_bytes(sizes[at : at + 8], "little") for at in (0, 8))
    if len(data) != begin + header_size + size:
        raise ValueError("it is truncated")
    if zlib.crc32(data[begin:]) != int.from_bytes(sizes[16:], "little"):
        raise ValueError("its checksum is wrong")
    header = msgspec.json.decode(data[begin : begin + header_size], type=ColumnHeader)
    if header.version != VERSION or not DTYPES.issuperset(kind for _, kind, _ in header.arrays):
        raise ValueError("it is of another version")
    arrays: Arrays = {}
    at, start = 0, begin + header_size
    for name, kind, length in header.arrays:
        at += -at % ALIGNMENT
        arrays[name] = np.frombuffer(data, np.dtype(kind), length, start + at)
        at += arrays[name].nbytes
    return header, arrays


class BlockArrays(NamedTuple):
    """The blocks of all tables; the pools of one are ``positions[pools[block]]``."""

    start: npt.NDArray[np.int64]
    kind: npt.NDArray[Any]
    slots: npt.NDArray[Any]
    shared: npt.NDArray[np.bool_]
    pools: npt.NDArray[Any]
    positions: Sequence[Positions]


def block_arrays(tables: Sequence[BlockTable]) -> BlockArrays:
    """Return the blocks of block tables as arrays; stored arrays are used as they are."""
    stored = tables.stored_arrays() if isinstance(tables, StoredTables) else None
    return stored or BlockColumns(tables).block_arrays()


class BlockColumns:
    """The blocks of all pod managers as arrays: numbers by block, texts by pod manager."""

    def __init__(self, tables: Sequence[BlockTable]) -> None:
        self._tables = tables
        self._sizes = [len(table.uris) for table in tables]
        self.topologies: list[dict[str, str]] = []
        self.codes: defaultdict[Positions, int] = defaultdict(itertools.count().__next__)

    def block_arrays(self) -> BlockArrays:
        """Return the kind, the free slots and the pools of each block."""
        tables = self._tables
        return BlockArrays(
            start=_starts(self._sizes),
            kind=self._numbers([table.kinds for table in tables]),
            slots=self._numbers([table.slots for table in tables]),
            shared=self._numbers([table.shared for table in tables]).astype(np.bool_),
            pools=self._numbers([self._pool_codes(table.pools) for table in tables]),
            positions=list(self.codes),
        )

    def arrays(self) -> Arrays:
        """Return the arrays; their numbers are indexes of ``codes`` and ``topologies``."""
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
        kinds = (np.uint8, np.uint16, np.uint32, np.int64)
        return values.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))

    def _pool_codes(self, pools: Sequence[Positions]) -> list[int]:
        return [self.codes[positions] for positions in pools]

    def _topology_codes(self) -> npt.NDArray[Any]:
        """Return the topology number of each block, from 1; 0 for a block without topology."""
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


def _texts(name: str, values: Iterable[Any]) -> Arrays:
    encoder = msgspec.msgpack.Encoder()
    texts = [encoder.encode(value) for value in values]
    start = _starts(list(map(len, texts)))
    return {name: np.frombuffer(b"".join(texts), np.uint8), f"{name}_start": start}


class StoredBlocks:
    """The block tables of a stored View, each made from its arrays once."""

    def __init__(
        self, arrays: Arrays, positions: Sequence[Positions], topologies: Sequence[Topology]
    ) -> None:
        self._start: npt.NDArray[np.int64] = arrays["block_start"]
        self._columns = [arrays[f"block_{name}"] for name in ("kind", "slots", "shared", "gain")]
        self._pools, self._topology = arrays["block_pools"], arrays["block_topology"]
        self._positions = positions
        self._topologies: list[Topology | None] = [None, *topologies]
        self._arrays = arrays
        kinds = {"uris": list[str], "stocks": tuple[Stock, ...], "stock_pools": list[int]}
        self._decoders = {name: msgspec.msgpack.Decoder(kind) for name, kind in kinds.items()}
        self.tables: dict[int, BlockTable] = {}  # those made so far, by podm

    def arrays(self) -> BlockArrays:
        kind, slots, shared, _ = self._columns
        return BlockArrays(self._start, kind, slots, shared, self._pools, self._positions)

    def table(self, podm: int) -> BlockTable:
        if (known := self.tables.get(podm)) is not None:
            return known
        rows = slice(*self._start[podm : podm + 2].tolist())
        kinds, slots, shared, gains = (column[rows].tolist() for column in self._columns)
        positions, topology = self._positions, self._topology[rows].tolist()
        texts: dict[str, Any] = {}
        for name, decoder in self._decoders.items():
            first, last = self._arrays[f"{name}_start"][podm : podm + 2].tolist()
            texts[name] = decoder.decode(self._arrays[name].data[first:last])
        table = BlockTable(
            texts["uris"],
            kinds,
            slots,
            shared,
            [positions[code] for code in self._pools[rows].tolist()],
            texts["stocks"],
            tuple([positions[code] for code in texts["stock_pools"]]),
            gains,
            [self._topologies[code] for code in topology] if any(topology) else None,
        )
        return self.tables.setdefault(podm, table)


class StoredTables(list[BlockTable]):
    """A list of the block tables of pod managers, each decoded when it is first read."""

    def __init__(self, size: int, blocks: StoredBlocks) -> None:
        super().__init__([None] * size)  # type: ignore[list-item]
        self._blocks = blocks

    def stored_arrays(self) -> BlockArrays | None:
        """Return the blocks as they are stored; None if a table was replaced."""
        tables = list.__getitem__(self, slice(None))  # without decoding any
        made = self._blocks.tables
        if all(table is None or made.get(podm) is table for podm, table in enumerate(tables)):
            return self._blocks.arrays()
        return None

    @overload
    def __getitem__(self, index: SupportsIndex) -> BlockTable: ...

    @overload
    def __getitem__(self, index: slice) -> list[BlockTable]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> BlockTable | list[BlockTable]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        table = super().__getitem__(index)
        if table is None:
            table = self[index] = self._blocks.table(range(len(self))[index])
        return table

    def __iter__(self) -> Iterator[BlockTable]:
        return map(self.__getitem__, range(len(self)))

    def __add__(self, other: list[Any]) -> list[Any]:
        return [*self, *other]

    def copy(self) -> "StoredTables":
        """Return a copy that makes its block tables from the same arrays."""
        copy = StoredTables(0, self._blocks)
        copy.extend(list.__getitem__(self, slice(None)))
        return copy
