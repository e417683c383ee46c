# SPDX-License-Identifier: Apache-2.0
"""View columns: a View as plain arrays in one sequence of bytes, and a View of such bytes.

A header names the arrays; they follow one after another. Texts are arrays of bytes: MessagePack
that is decoded with the types of the inventory, so that bytes make data and never code. Block
tables are decoded when they are first read: a decision reads a few of them.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from valence_sched.model import inventory
from valence_sched.model.inventory import BlockType, Devices, LeanPodm, Pool, to_json
from valence_sched.view.block_columns import (
    Arrays,
    BlockColumns,
    StoredBlocks,
    StoredTables,
    text_array,
)
from valence_sched.view.block_counts import BlockCounts
from valence_sched.view.block_kinds import BlockKinds
from valence_sched.view.blocks import Positions
from valence_sched.view.digest import inventory_digest, set_inventory_digest
from valence_sched.view.stocks import StockColumn, StockGrants
from valence_sched.view.view import Labels, View

VERSION = 4
MAGIC = b"valence-sched view\n"
ALIGNMENT = 16  # bytes, of each array from the beginning of the first
#: The sizes in front of the header: its own, that of the arrays, and the checksum of both.
PREFIX_BYTES = len(MAGIC) + 20
#: Of numbers of this machine's byte order, booleans and bytes.
DTYPES = frozenset(np.dtype(name).str for name in ("u8", "i8", "f8", "f4", "u4", "u2", "u1", "?"))

#: The value of each label of a row, of its podm and its pool.
LABELS: Mapping[str, Callable[[LeanPodm, Pool], Any]] = {
    "zone": lambda podm, _: podm.zone,
    "status": lambda podm, _: podm.status,
    "aggregates": lambda podm, _: frozenset(podm.aggregates),
    "capabilities": lambda podm, _: podm.capabilities,
    "traits": lambda podm, pool: frozenset(podm.traits + pool.traits),
}


class ColumnHeader(msgspec.Struct, forbid_unknown_fields=True):
    """The arrays in order, each with its type and length, and the resources that stocks have.

    ``digest`` is that of the inventory.
    """

    version: int
    digest: str
    arrays: list[tuple[str, str, int]]
    resources: list[str]
    kinds: list[tuple[tuple[BlockType, ...], Devices, str | None]]
    positions: list[Positions]
    topologies: list[dict[str, str]]


def encode_view(view: View) -> list[bytes | memoryview]:
    """Return a View as pieces of bytes, one after another.

    Raises:
        ValueError, OverflowError: a text or a number of it has no such form.
    """
    arrays: Arrays = {name: getattr(view, name) for name in _PLAIN}
    for name in LABELS:
        arrays[name] = getattr(view, name).codes
    for name in _COUNTS:
        counts: BlockCounts = getattr(view, name)
        arrays |= {f"{name} {part}": getattr(counts, part) for part in _COUNT_PARTS}
    for number, column in enumerate(view.resources.values()):
        arrays |= {f"stock {number} {part}": array for part, array in enumerate(column.arrays())}
    arrays["podms"] = text_array(msgspec.msgpack.encode(list(view.podms)))
    blocks = BlockColumns(view.block_tables)
    arrays |= blocks.arrays()
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = _padded(PREFIX_BYTES, msgspec.json.encode(ColumnHeader(
        version=VERSION,
        digest=inventory_digest(view),
        arrays=[(name, array.dtype.str, len(array)) for name, array in contiguous.items()],
        resources=list(view.resources),
        kinds=[(kind.types, kind.devices, kind.condition) for kind in view.kinds.kinds[1:]],
        positions=blocks.positions,
        topologies=blocks.topologies,
    )))  # fmt: skip
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
    """Return the View of bytes that :func:`encode_view` made; it shares their memory.

    Raises:
        ValueError: the bytes are of another version, or not those that were made.
    """
    header, arrays = _read_arrays(data)
    kinds = BlockKinds()
    for types, devices, condition in header.kinds:
        kinds.number(types, msgspec.Raw(to_json(devices)), "", "", condition)
    podms = msgspec.msgpack.decode(arrays["podms"].data, type=list[LeanPodm])
    first_row, podm_of = arrays["first_row"], arrays["podm_of"]
    whole = (Pool(id=inventory.WHOLE_POOL),)
    pools = list(itertools.chain.from_iterable([podm.pools or whole for podm in podms]))
    tables = StoredTables(len(podms), StoredBlocks(arrays, header.positions, header.topologies))
    labels = {name: _labels(name, arrays[name], podms, pools, podm_of) for name in LABELS}
    view = View(
        kinds=kinds,
        podms=podms,
        block_tables=tables,
        pools=pools,
        first_row=first_row,
        podm_of=podm_of,
        position_of=arrays["position_of"],
        block_counts=_counts(arrays, "block_counts"),
        podm_block_counts=_counts(arrays, "podm_block_counts"),
        resources={
            resource: _stock_column(arrays, number)
            for number, resource in enumerate(header.resources)
        },
        enabled=arrays["enabled"],
        lot=arrays["lot"],
        block_count=int(arrays["block_start"][-1]),
        zone=labels["zone"],
        status=labels["status"],
        aggregates=labels["aggregates"],
        capabilities=labels["capabilities"],
        traits=labels["traits"],
    ).freeze()
    set_inventory_digest(view, header.digest)
    return view


_PLAIN = ("first_row", "podm_of", "position_of", "enabled", "lot")
_COUNTS = ("block_counts", "podm_block_counts")
_COUNT_PARTS = ("start", "kind", "free", "total")


def _padded(begin: int, header: bytes) -> bytes:
    """Return a header with spaces after it, so that what follows is aligned."""
    return header + b" " * (-(begin + len(header)) % ALIGNMENT)


def _read_arrays(data: memoryview) -> tuple[ColumnHeader, Arrays]:
    """Return the header and the arrays, which share the memory of the bytes; ValueError as of it.

    The checksum is of all bytes: what it confirms has the form that it was written in.
    """
    prefix, begin = bytes(data[:PREFIX_BYTES]), PREFIX_BYTES
    if len(prefix) < PREFIX_BYTES or not prefix.startswith(MAGIC):
        raise ValueError("it is no view")
    sizes = prefix[len(MAGIC) :]
    header_size, size = (int.from_bytes(sizes[at : at + 8], "little") for at in (0, 8))
    if len(data) != begin + header_size + size:
        raise ValueError("it was cut off")
    if zlib.crc32(data[begin:]) != int.from_bytes(sizes[16:], "little"):
        raise ValueError("its checksum is another one")
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


def _counts(arrays: Arrays, name: str) -> BlockCounts:
    return BlockCounts(*(arrays[f"{name} {part}"] for part in _COUNT_PARTS))


def _stock_column(arrays: Arrays, number: int) -> StockColumn:
    numbers = itertools.count()
    parts = [arrays[f"stock {number} {part}"] for part in itertools.takewhile(
        lambda part: f"stock {number} {part}" in arrays, numbers)]  # fmt: skip
    return StockColumn(*parts[:-5], by_stock=StockGrants(*parts[-5:]))


def _labels(
    name: str,
    codes: npt.NDArray[np.int64],
    podms: Sequence[LeanPodm],
    pools: Sequence[Pool],
    podm_of: npt.NDArray[np.int64],
) -> Labels:
    value_of = LABELS[name]
    _, rows = np.unique(codes, return_index=True)
    return Labels([value_of(podms[podm_of[row]], pools[row]) for row in rows.tolist()], codes)
