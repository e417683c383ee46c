# SPDX-License-Identifier: Apache-2.0
"""Block kinds: the amount of a need that each kind of block supplies, and the kinds of each row.

Blocks of one kind have equal types and devices. A site has a million blocks of a few dozen kinds,
so each question about devices is answered once per kind.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct, structs

from valence_sched.model.codec import decode
from valence_sched.model.inventory import (
    COUNTED_CONDITIONS,
    NO_DEVICES,
    BlockType,
    Devices,
    InventoryDevice,
    to_json,
)
from valence_sched.model.need import TAINTED, Need, Test, has_words

Floats = npt.NDArray[np.float64]
D = TypeVar("D", bound=InventoryDevice)

#: The price of a device: of two sets of blocks that make a node, the cheaper one wastes less.
PRICE_BLOCK, PRICE_CORE, PRICE_ACCELERATOR, PRICE_DRIVE, PRICE_NIC = 10, 100, 20_000, 1_000, 200
MIB_PER_POINT, BYTES_PER_POINT = 8, 1 << 30

MOST_CACHED = 10_000  # needs whose amounts are remembered
MOST_DERIVED = 64  # values that other modules compute from the kinds

#: The field of ``Devices`` for each kind of need.
_GROUPS = {field.removesuffix("s"): field for field in Devices.__struct_fields__}


class BlockKind(Struct, frozen=True):
    """One kind of block: types, devices, price, text, and ``Status.condition`` if not OK."""

    types: tuple[BlockType, ...]
    devices: Devices
    price: int
    text: bytes
    condition: str | None = None

    @property
    def sort_key(self) -> bytes:
        """The sort key: of kinds with equal devices, kinds without a condition come first."""
        return self.text if self.condition is None else self.text + self.condition.encode()


class BlockKinds:
    """A table of the kinds of all blocks read, by number; it only grows. Kind 0 has no devices."""

    def __init__(self) -> None:
        self.kinds: list[BlockKind] = []
        #: The number of each kind by its types, the text of its devices as it was read, and its
        #: condition.
        self.numbers: dict[tuple[tuple[BlockType, ...], bytes, str | None], int] = {}
        #: Values that other modules compute from the kinds; keys begin with the name of the value.
        self.derived: BoundedMemo[tuple[object, ...], Any] = BoundedMemo(MOST_DERIVED)
        self._devices: list[tuple[str, Any]] = []
        self._device_numbers: dict[tuple[str, Any], int] = {}
        self._kind_of: list[int] = []
        self._device_of: list[int] = []
        #: The kinds whose block or device is in a condition.
        self.impaired: set[int] = set()
        self._amounts: BoundedMemo[Need, Floats] = BoundedMemo(MOST_CACHED)
        self._matrices: BoundedMemo[tuple[Need, ...], Floats] = BoundedMemo(MOST_DERIVED)
        self._cheapest_first: BoundedMemo[Need, tuple[int, list[int]]] = BoundedMemo(MOST_CACHED)
        self._whole: BoundedMemo[Need, tuple[int, Need]] = BoundedMemo(MOST_CACHED)
        #: The number of kinds, and the kinds in the order in which nodes take them
        #: (``view.leftover``), by the needs of a node.
        self.ranked: BoundedMemo[tuple[Need, ...], tuple[int, Any]] = BoundedMemo(MOST_CACHED)
        self.number((), Raw(b""), "", "")

    def __len__(self) -> int:
        return len(self.kinds)

    def number(
        self,
        types: tuple[BlockType, ...],
        devices: Raw | None,
        file: str,
        document_path: str,
        condition: str | None = None,
    ) -> int:
        """Return the number of this kind; new devices are decoded, InputError if invalid."""
        key = (types, bytes(devices) if devices else b"", condition)
        if key in self.numbers:
            return self.numbers[key]
        decoded = decode(devices, Devices, file, document_path) if devices else NO_DEVICES
        canonical = (types, to_json(decoded), condition)
        number = self.numbers.get(canonical)
        if number is None:
            kind = BlockKind(types, decoded, price(decoded), to_json((types, decoded)), condition)
            number = self.numbers[canonical] = len(self.kinds)
            self.kinds.append(kind)
            if kind.condition or any(device.condition for _, device in self.devices_of(number)):
                self.impaired.add(number)
            for device in self.devices_of(number):
                line = self._device_numbers.setdefault(device, len(self._devices))
                if line == len(self._devices):
                    self._devices.append(device)
                self._kind_of.append(number)
                self._device_of.append(line)
        self.numbers[key] = number
        return number

    def amounts(self, need: Need) -> Floats:
        """Return the amount of ``need`` that a block supplies, by kind; shape ``(len(self),)``."""
        remembered = self._amounts.get(need)
        if remembered is not None and len(remembered) == len(self.kinds):
            return remembered
        per_line = np.array([device_amount(need, *line) for line in self._devices], dtype=float)
        weights = per_line[self._device_of] if self._device_of else None
        sums = np.bincount(self._kind_of, weights, minlength=len(self.kinds))
        return self._amounts.store(need, read_only(sums.astype(np.float64)))

    def amount_matrix(self, needs: tuple[Need, ...]) -> Floats:
        """Return the amounts of several needs; shape ``(needs, len(self))``."""
        matrix = self._matrices.get(needs)
        if matrix is None or matrix.shape[-1] != len(self.kinds):
            matrix = read_only(np.array([self.amounts(need) for need in needs]))
            self._matrices.store(needs, matrix)
        return matrix

    def cheapest_first(self, need: Need) -> list[int]:
        """Return the kinds that supply ``need``, sorted by the price of the whole blocks for it."""
        remembered = self._cheapest_first.get(need)
        if remembered is None or remembered[0] != len(self.kinds):
            amounts = self.amounts(need)
            useful = np.flatnonzero(amounts > 0.0).tolist()
            block_counts = np.ceil(need.amount / np.maximum(amounts, 1.0))

            def cost(number: int) -> tuple[float, float, bytes]:
                kind = self.kinds[number]
                whole, unit = kind.price * block_counts[number], kind.price / amounts[number]
                return whole, unit, kind.sort_key

            useful.sort(key=cost)
            remembered = self._cheapest_first.store(need, (len(self.kinds), useful))
        return remembered[1]

    def whole_amount(self, need: Need) -> Need:
        """Return the need with its amount rounded up to a multiple of the unit that blocks supply.

        If blocks supply 262,144 or 393,216 MiB, 65,536 MiB becomes 131,072 MiB. Needs of stocks,
        and those that allow unknown amounts, do not change.
        """
        if need.kind == "stock" or need.count > 1 or need.unknown == "allow":
            return need
        size, whole = self._whole.get(need, (0, need))
        if size != len(self.kinds):
            unit = math.gcd(*map(int, self.amounts(need).tolist()))  # may exceed 64 bits
            rounded = math.ceil(need.amount / unit) * unit if unit else need.amount
            whole = structs.replace(need, amount=rounded) if rounded != need.amount else need
            self._whole.store(need, (len(self.kinds), whole))
        return whole

    def devices_of(self, number: int) -> list[tuple[str, Any]]:
        """Return ``(need kind, device)`` of a kind; Warning and taints also apply to devices."""
        kind = self.kinds[number]
        lines = [
            (name, one) for name, group in _GROUPS.items() for one in getattr(kind.devices, group)
        ]
        condition = kind.condition or ""
        if condition.startswith("Warning"):
            warned = ((name, one.health or "Warning", one) for name, one in lines)
            lines = [(name, structs.replace(one, health=health)) for name, health, one in warned]
        taints = [word for word in condition.split(", ") if word.startswith(TAINTED)]
        for at, (name, one) in enumerate(lines if taints else ()):
            if one.condition in COUNTED_CONDITIONS:  # else its own state forbids its use
                state = ", ".join((*filter(None, [one.condition]), *taints))
                lines[at] = name, structs.replace(one, state=state)
        return lines


def device_amount(need: Need, kind: str, device: Any) -> int:
    """Return the amount of ``need`` that one device line supplies: 0 if it is of another kind.

    An unknown amount counts as 0, or as the whole need if the need allows the unknown. A device
    in a condition that the need does not accept counts as 0.
    """
    if not is_meant(need, kind, device) or not need.accepts(device.condition):
        return 0
    return line_amount(need, device)


def is_meant(need: Need, kind: str, device: Any) -> bool:
    """Return whether a device has the kind of a need and passes its tests."""
    return kind == need.kind and all(passes(test, device, need.unknown) for test in need.tests)


def line_amount(need: Need, device: Any) -> int:
    """Return the amount of ``need`` of one device line, in any condition."""
    counts = need.measure in ("devices", "sockets")
    per_device = 1 if counts else getattr(device, need.measure)
    if per_device is None or device.count is None:
        return int(need.amount) if need.unknown == "allow" else 0
    return int(device.count * per_device)


def passes(test: Test, device: Any, unknown: str = "reject") -> bool:
    """Return whether a device passes a test; an unknown attribute passes only if allowed."""
    value = getattr(device, test.attribute)
    if value is None:
        return unknown == "allow"
    return bool(_OPERATORS[test.operator](value, test.value))


def price(devices: Devices) -> int:
    """Return the price, in points, of the devices that count; unknown amounts cost nothing."""
    points = PRICE_BLOCK
    for cpu in _counted(devices.processors):
        points += (cpu.count or 0) * (cpu.cores or 0) * PRICE_CORE
    for module in _counted(devices.memory):
        points += (module.count or 0) * (module.capacity_mib or 0) // MIB_PER_POINT
    for drive in _counted(devices.drives):
        per_drive = PRICE_DRIVE + (drive.capacity_bytes or 0) // BYTES_PER_POINT
        points += (drive.count or 0) * per_drive
    points += sum(card.count or 0 for card in _counted(devices.accelerators)) * PRICE_ACCELERATOR
    return points + sum(nic.count or 0 for nic in _counted(devices.nics)) * PRICE_NIC


def _counted(devices: Iterable[D]) -> Iterator[D]:
    return (one for one in devices if one.condition in COUNTED_CONDITIONS)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "words": has_words,
    "equal": lambda value, expected: str(value).casefold() == str(expected).casefold(),
    "at_least": lambda value, bound: float(value) >= float(bound),
}


K = TypeVar("K")
V = TypeVar("V")


class BoundedMemo(dict[K, V]):
    """A memo of at most ``limit`` values; a full memo drops all: a hit needs no bookkeeping."""

    def __init__(self, limit: int, entries: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(entries)
        self._limit = limit

    def store(self, key: K, value: V) -> V:
        """Store a value under a key and return it; drop all other values first if it is full."""
        if len(self) >= self._limit:
            self.clear()
        self[key] = value
        return value


Ints = npt.NDArray[np.int64]
Counts = npt.NDArray[np.float32]
Array = TypeVar("Array", bound=npt.NDArray[Any])


class BlockCounts(Struct, frozen=True):
    """Entries sorted by row: row ``r`` owns ``[start[r], start[r + 1])`` and has at least one.

    An entry has the ``kind`` of block, and the whole numbers of ``free`` blocks and of all, in
    float32, which halves the copying. ``start`` has ``rows + 1`` elements.
    """

    start: Ints
    kind: Ints
    free: Counts
    total: Counts

    def __len__(self) -> int:
        return len(self.start) - 1

    def sum(self, amounts: Floats, *, free: bool) -> Floats:
        """Return the sum of ``amounts[kind]`` over the blocks of each row; shape ``(rows,)``."""
        supply = amounts.take(self.kind)
        supply *= self.free if free else self.total  # in place: new memory takes longer
        return np.add.reduceat(supply, self.start[:-1])

    def sums(self, amounts: Floats, *, free: bool) -> Floats:
        """Return these sums for several needs; shape ``(needs, rows)``."""
        # take, unlike an index, keeps the order in memory, which reduceat is fast in
        supply = amounts.take(self.kind, axis=1)
        supply *= self.free if free else self.total
        return np.add.reduceat(supply, self.start[:-1], axis=1)

    def window(self, first: int, last: int) -> "BlockCounts":
        """Return rows ``[first, last)`` as windows on the same memory."""
        low, high = int(self.start[first]), int(self.start[last])
        start, part = self.start[first : last + 1] - low, slice(low, high)
        return BlockCounts(start, self.kind[part], self.free[part], self.total[part])

    def take(self, rows: Ints) -> "BlockCounts":
        """Return a copy with these rows in this order."""
        start, entries = taken_entries(self.start, rows)
        parts = (start, self.kind[entries], self.free[entries], self.total[entries])
        return BlockCounts(*all_read_only(parts))

    def splice(self, first: int, last: int, other: "BlockCounts") -> "BlockCounts":
        """Return a copy with ``other`` at ``[first, last)``; unchanged arrays are shared."""
        low, high = self.start[[first, last]].tolist()
        mine: tuple[Any, ...] = (self.kind, self.free, self.total)
        pairs = zip(mine, (other.kind, other.free, other.total), strict=True)
        parts = (splice_array(array, low, high, theirs) for array, theirs in pairs)
        start = splice_starts(self.start, first, last, other.start)
        return BlockCounts(*all_read_only((start, *parts)))

    def entry(self, row: int, kind: int) -> int:
        """Return the number of the entry of a row and a kind, which must exist."""
        low = int(self.start[row])
        kinds: list[int] = self.kind[low : self.start[row + 1]].tolist()
        return low + kinds.index(kind)

    def row(self, row: int) -> tuple[Ints, Counts]:
        """Return the kinds of a row, and the number of free blocks of each."""
        low, high = self.start[row], self.start[row + 1]
        return self.kind[low:high], self.free[low:high]

    def kinds(self, row: int) -> list[tuple[int, int]]:
        """Return ``(kind, free blocks)`` of a row, without kinds that have no free block."""
        pairs = zip(*(part.tolist() for part in self.row(row)), strict=True)
        return [(kind, int(free)) for kind, free in pairs if free]


def count_blocks(rows: Ints, kinds: Ints, free: Floats, size: int, kind_count: int) -> BlockCounts:
    """Count blocks: ``rows``, ``kinds`` and ``free`` (0 or 1) have one element per block.

    Every row gets an entry of kind 0, an empty block, so that no row is without entries.
    """
    keys = np.concatenate((np.arange(size) * kind_count, rows * kind_count + kinds))
    order, inverse = np.unique(keys, return_inverse=True)
    weights = (np.concatenate((np.zeros(size), each)) for each in (free, np.ones(len(rows))))
    counts = (np.bincount(inverse, each, minlength=len(order)) for each in weights)
    start = np.searchsorted(order, np.arange(size + 1) * kind_count).astype(np.int64)
    parts = (start, order % kind_count, *(each.astype(np.float32) for each in counts))
    return BlockCounts(*all_read_only(parts))


def splice_array(mine: Array, first: int, last: int, theirs: Array) -> Array:
    """Return ``mine`` with ``[first, last)`` replaced by ``theirs``; ``mine`` itself if equal."""
    if np.array_equal(mine[first:last], theirs):
        return mine
    return np.concatenate((mine[:first], theirs, mine[last:]))  # type: ignore[return-value]


def splice_starts(mine: Ints, first: int, last: int, theirs: Ints) -> Ints:
    """Return the first entry of each row, after ``theirs`` replaces rows ``[first, last)``."""
    low, high = mine[first], mine[last]
    if np.array_equal(mine[first : last + 1] - low, theirs):
        return mine
    later = mine[last:] + (theirs[-1] - (high - low))
    return np.concatenate((mine[:first], theirs[:-1] + low, later))


def taken_entries(start: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return two arrays: the starts of the selected rows, and the entries of these rows."""
    if start[-1] == len(start) - 1:  # one entry per row
        return np.arange(len(rows) + 1), rows
    first, starts = start[rows], np.zeros(len(rows) + 1, dtype=np.int64)
    sizes = start[1:][rows] - first
    np.add.accumulate(sizes, out=starts[1:])
    return starts, (first - starts[:-1]).repeat(sizes) + np.arange(starts[-1])


def read_only(array: Array) -> Array:
    """Make an array read-only and return it."""
    array.setflags(write=False)  # faster than its flags
    return array


def all_read_only(arrays: Iterable[Any]) -> Iterator[Any]:
    """Make arrays read-only and yield them."""
    return map(read_only, arrays)
