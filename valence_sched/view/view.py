# SPDX-License-Identifier: Apache-2.0
"""View: one consistent snapshot of all pools as rows of read-only arrays."""

import functools
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import getitem
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from valence_sched.model.base import as_text
from valence_sched.model.decision import PoolRef
from valence_sched.model.inventory import LeanPodm, Pool, to_json
from valence_sched.model.need import Need, measures
from valence_sched.model.request import FACT_PREFIX, check_domain
from valence_sched.view import stocks
from valence_sched.view.block_kinds import (
    BlockCounts,
    BlockKinds,
    BoundedMemo,
    read_only,
    taken_entries,
)
from valence_sched.view.blocks import BlockTable

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
By = Literal["pool", "podm"]


class Origin(NamedTuple):
    """The View from which rows were taken, the numbers of these rows, and their podms."""

    whole: Any
    rows: Ints | slice
    podms: Ints | slice


def _items(values: Sequence[Any], index: Ints | slice) -> Sequence[Any]:
    return values[index] if isinstance(index, slice) else [values[n] for n in index.tolist()]


def _labels(name: str) -> Callable[[Origin, Any], Any]:
    return lambda origin, _: getattr(origin.whole, name).select(origin.rows)


def _rows(name: str) -> Callable[[Origin, Any], Any]:
    return lambda origin, _: getattr(origin.whole, name)[origin.rows]


LABELLED = ("zone", "status", "aggregates", "capabilities", "traits")  # the fields that are labels
#: The parts of a View that no node changes, by name; they are selected when first read.
DERIVED: dict[str, Callable[[Origin, Any], Any]] = {
    "podms": lambda origin, _: _items(origin.whole.podms, origin.podms),
    "pools": lambda origin, _: _items(origin.whole.pools, origin.rows),
    "first_row": lambda _, view: np.searchsorted(view.podm_of, np.arange(len(view.podms) + 1)),
    "position_of": _rows("position_of"),
    "enabled": _rows("enabled"),
    **{name: _labels(name) for name in LABELLED},
    "lot": _rows("lot"),
    "block_tables": lambda origin, _: _items(origin.whole.block_tables, origin.podms),
    "block_count": lambda _, view: sum([len(table.uris) for table in view.block_tables]),
}


def was_derived(view: object, name: str) -> bool:
    """Return whether a field of a View of taken rows was already derived, at an earlier read."""
    try:
        type(view).__dict__[name].__get__(view)
    except AttributeError:
        return False
    return True


def _renumber(podm_of: Ints) -> tuple[Ints, Ints]:
    """Return the distinct podms in order, and for each row the number of its podm among them."""
    steps = podm_of[1:] - podm_of[:-1]
    if steps.all() and (steps > 0).all():  # one row per podm
        return podm_of, np.arange(len(podm_of))
    new = steps != 0
    if (steps < 0).any():
        return np.unique(podm_of, return_inverse=True)
    first = np.concatenate(([True], new)) if len(podm_of) else np.empty(0, dtype=bool)
    return podm_of[first], np.cumsum(first) - 1


MOST_MEMOISED = 256  # values that a View remembers for plug-ins
Memo = BoundedMemo[Any, Any]


def new_memo(values: Mapping[Any, Any] | None = None) -> Memo:
    """Return a memo of a View with some values, by default without values."""
    return BoundedMemo(MOST_MEMOISED, values.items() if values else ())


class Labels(Struct, frozen=True):
    """One value per row, interned: ``values[codes[row]]``."""

    values: Sequence[Any]
    codes: Ints

    def where(self, accepts: Callable[[Any], bool]) -> Mask:
        """Return whether the value of each row is accepted; each distinct value is tested once."""
        verdicts = np.fromiter(map(accepts, self.values), dtype=bool, count=len(self.values))
        if verdicts.all():
            return np.ones(len(self.codes), dtype=bool)
        return verdicts.take(self.codes)

    def select(self, rows: slice | Ints) -> "Labels":
        return Labels(self.values, self.codes[rows])

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]


@dataclass(slots=True, eq=False)
class View:
    """One consistent snapshot. Rows are pools; the rows of one podm are adjacent.

    ``first_row[p]`` is the first row of podm ``p``; row ``r`` is pool ``position_of[r]`` of
    ``podm_of[r]``. Values depend on own pool and podm alone: ``take`` and ``window`` keep them.
    """

    kinds: BlockKinds
    podms: Sequence[LeanPodm]
    block_tables: list[BlockTable]
    pools: Sequence[Pool]
    first_row: Ints
    podm_of: Ints
    position_of: Ints
    block_counts: BlockCounts
    podm_block_counts: BlockCounts
    resources: Mapping[str, stocks.StockColumn]
    enabled: Mask
    zone: Labels
    status: Labels
    aggregates: Labels
    capabilities: Labels
    traits: Labels
    lot: npt.NDArray[np.uint64]
    block_count: int
    _memo: Memo = field(default_factory=new_memo, repr=False)  # values that no node changes
    #: The View and the rows from which this View was taken; None for a whole View.
    origin: Origin | None = field(default=None, repr=False)
    _free_memo: Memo = field(default_factory=new_memo, repr=False)  # values of free amounts

    def __getattr__(self, name: str) -> Any:
        """Derive a field of taken rows when it is first read."""
        if name not in DERIVED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        assert self.origin is not None, "in other Views every field is set"
        value = DERIVED[name](self.origin, self)
        setattr(self, name, value)
        return value

    def __len__(self) -> int:
        return len(self.podm_of)

    @property
    def all_rows(self) -> Mask:
        """Return an array that is true for every row; all calls return the same array."""
        return self.memoise(("all rows",), np.ones, len(self), bool)  # type: ignore[no-any-return]

    def constant(self, score: float) -> Floats:
        """Return a score for every row, the same array each time."""
        return self.memoise(("constant", score), np.broadcast_to, score, len(self))  # type: ignore[no-any-return]

    def podm(self, row: int) -> LeanPodm:
        """Return the podm of a row, without its blocks."""
        return self.podms[self.podm_of[row]]  # type: ignore[no-any-return]

    def pool_ref(self, row: int) -> PoolRef:
        """Return the names of the podm and the pool of a row."""
        return PoolRef(podm=self.podm(row).id, pool=self.pools[row].id)

    def free(self, need: Need, by: By = "pool") -> Floats:
        """Return the amount of ``need`` per row that free blocks or stocks supply, in its unit."""
        if need.kind == "stock":
            column = self.stock(need.resource)
            return column.free if by == "pool" else column.podm_free
        memo = self._free_memo
        value = memo.get((need, by))
        if value is None:
            # the requested amount matters only where it replaces an unknown amount
            subject = need if need.unknown == "allow" else need.subject
            value = memo.get((subject, by))
            if value is None:
                value = memo.store((subject, by), read_only(self._sum(subject, by, True)))
            memo.store((need, by), value)
        return value  # type: ignore[no-any-return]

    def precompute_free(self, needs: tuple[Need, ...]) -> None:
        """Compute and memoise the free amounts of these needs and their measures in one pass."""
        blocks = tuple([need for need in needs if need.kind != "stock"])
        lines = (*blocks, *measures(blocks))
        ways: tuple[By, By] = ("pool", "podm")
        for by in ways if blocks else ():
            table = read_only(self._sums(lines, by))
            self._free_memo[blocks, by] = table[: len(blocks)]
            for line, row in zip(lines, table, strict=True):
                self._free_memo[line, by] = row

    def free_table(self, needs: tuple[Need, ...], by: By) -> Floats:
        """Return :meth:`free` for several needs; shape ``(needs, rows)``."""
        known: Floats | None = self._free_memo.get((needs, by))
        if known is not None:
            return known
        return np.array([self.free(need, by) for need in needs]).reshape(len(needs), len(self))

    def invalidate_free(self) -> None:
        """Forget all values that a node may change, such as sums of free amounts."""
        self._free_memo.clear()

    forget_changes = invalidate_free

    def total(self, need: Need, by: By = "pool") -> Floats:
        """Return the amount of ``need`` per row, in use or free; an unknown amount counts as 0."""
        if need.kind == "stock":
            column = self.stock(need.resource)
            return column.total if by == "pool" else column.podm_total
        subject = need.subject
        make = functools.partial(self._sum, subject, by, False)
        return self.memoise_selected(("total", subject, by), getitem, make)  # type: ignore[no-any-return]

    def is_unknown(self, need: Need, by: By, *, free: bool) -> Mask:
        """Return whether every amount of ``need`` is unknown, per row."""
        any_unknown = structs.replace(need.subject, amount=1, unknown="allow")
        known, every = (self._sum(it, by, free) for it in (need.subject, any_unknown))
        unknown: Mask = (known == 0.0) & (every > 0.0)
        return unknown

    def inverse(self, need: Need, by: By = "pool") -> Floats:
        """Return ``1 / total(need, by)`` per row, and 0 where the total is 0."""
        if need.kind == "stock":
            column = self.stock(need.resource)
            return column.inverse if by == "pool" else column.podm_inverse
        key = ("inverse", need.subject, by)
        return self.memoise_selected(key, getitem, lambda: stocks.inverse(self.total(need, by)))  # type: ignore[no-any-return]

    def largest_grant(self, need: Need) -> Floats:
        """Return the largest single grant of a stock per row, in the unit of the stock."""
        return self.stock(need.resource).largest_grant

    def grant_count(self, need: Need) -> Floats:
        """Return the number of separate grants of ``need.amount`` by the stocks of each row."""
        return self.stock(need.resource).by_stock.grant_count(need.amount)

    def number(self, fact: str) -> Floats:
        """Return a fact per row as a number; NaN if it is unknown or not a number."""

        def make() -> Floats:
            facts = [podm.facts.get(fact) for podm in self.podms]
            numbers = [value if isinstance(value, (int, float)) else np.nan for value in facts]
            return np.array(numbers, dtype=np.float64)[self.podm_of]

        return self.memoise(("number", fact), make)  # type: ignore[no-any-return]

    def text(self, fact: str) -> Labels:
        """Return a fact per row as it was reported; None if it is unknown."""
        return Labels([podm.facts.get(fact) for podm in self.podms], self.podm_of)

    def has_fact(self, fact: str) -> bool:
        key = ("has fact", fact)
        return self.memoise(key, lambda: any(fact in podm.facts for podm in self.podms))  # type: ignore[no-any-return]

    def memoise(self, key: Any, make: Callable[..., Any], *arguments: Any) -> Any:
        """Return the memoised ``make(*arguments)``, which must not depend on free amounts."""
        value = self._memo.get(key)
        if value is None:
            value = make(*arguments)
            if isinstance(value, np.ndarray):
                read_only(value)
            self._memo.store(key, value)
        return value

    def memoise_selected(
        self, key: tuple[Any, ...], select: Callable[[Any, Any], Any], make: Callable[[], Any]
    ) -> Any:
        """Return a value that placing nodes does not change, memoised.

        It is ``select(value, rows)`` if the View of origin has memoised a value, else ``make()``.
        """
        value = self._memo.get(key)
        if value is not None:
            return value
        known = self.origin.whole._memo.get(key) if self.origin else None
        if known is None or self.origin is None:
            return self.memoise(key, make)
        return self.memoise(key, select, known, self.origin.rows)

    def memoise_latest(self, name: object, key: object, make: Callable[[], Any]) -> Any:
        """Return the value of ``make``; per name only the value of the latest key is memoised."""
        return _latest(self._memo, name, key, make)

    def memoise_free(self, name: object, key: object, make: Callable[[], Any]) -> Any:
        """Return the value of ``make``, memoised until free amounts change."""
        return _latest(self._free_memo, name, key, make)

    def without_memo(self) -> "View":
        """Return this View with an empty memo of its own."""
        return replace(self, _memo=new_memo(), _free_memo=new_memo())

    def with_own_memo(self) -> "View":
        """Return this View with a copy of its memo, which grows independently."""
        memo, free = (new_memo(one.copy()) for one in (self._memo, self._free_memo))
        return replace(self, _memo=memo, _free_memo=free)

    def freeze(self) -> "View":
        """Make the arrays read-only; return the View. Counts and stocks are read-only already."""
        for array in (self.first_row, self.podm_of, self.position_of, self.enabled, self.lot):
            read_only(array)
        for name in LABELLED:
            read_only(getattr(self, name).codes)
        return self

    def window(self, first: int, last: int) -> "View":
        """Return rows ``[first, last)``, whole podms, as windows on the same memory."""
        low, high = int(self.podm_of[first]), int(self.podm_of[last - 1]) + 1
        view = self._part(Origin(self, slice(first, last), slice(low, high)))
        view.podm_of = self.podm_of[first:last] - low
        view.block_counts = self.block_counts.window(first, last)
        view.podm_block_counts = self.podm_block_counts.window(low, high)
        view.resources = {name: one.window(first, last) for name, one in self.resources.items()}
        view.block_tables = self.block_tables[low:high]
        return view

    def take(self, rows: Sequence[int] | Ints) -> "View":
        """Return a copy with these rows in this order."""
        index = np.asarray(rows, dtype=np.int64)
        part = self._take(index, *_renumber(self.podm_of[index]))
        part.block_tables  # noqa: B018 - the present ones
        return part

    def take_podms(self, podms: Ints) -> "View":
        """Return a copy with all rows of some podms, whose block tables are copied when read."""
        starts, rows = taken_entries(self.first_row, podms)
        return self._take(rows, podms, np.arange(len(podms)).repeat(starts[1:] - starts[:-1]))

    def _take(self, rows: Ints, podms: Ints, podm_of: Ints) -> "View":
        view = self._part(Origin(self, rows, podms))
        view.podm_of = podm_of
        view.block_counts = self.block_counts.take(rows)
        view.podm_block_counts = self.podm_block_counts.take(podms)
        view.resources = {name: column.take(rows) for name, column in self.resources.items()}
        return view

    def _part(self, origin: Origin) -> "View":
        view = View.__new__(View)  # fields that are not set are derived from the origin
        view.kinds, view.origin = self.kinds, origin
        view._memo, view._free_memo = new_memo(), new_memo()
        return view

    def rows_of(self, podm_id: str) -> tuple[int, int]:
        """Return the first row of a podm and the row after its last; KeyError if it is missing."""
        ids = self.memoise("ids", lambda: {podm.id: n for n, podm in enumerate(self.podms)})
        return self.rows(ids[podm_id])

    def rows(self, podm: int) -> tuple[int, int]:
        """Return the first row of a podm, by its number, and the row after its last."""
        return int(self.first_row[podm]), int(self.first_row[podm + 1])

    @property
    def podm_lots(self) -> npt.NDArray[np.uint64]:
        """Return the lots of the podms, 64 bits each; shape ``(podms,)``."""
        lots = (lot_of(id_, "") for id_ in self.podm_ids)
        return self.memoise("podm lots", lambda: np.fromiter(lots, np.uint64))  # type: ignore[no-any-return]

    @property
    def podm_ids(self) -> list[str]:
        return [podm.id for podm in self.podms]

    def _sum(self, need: Need, by: By, free: bool) -> Floats:
        amounts = self.kinds.amounts(need)
        if by == "pool":
            return self.block_counts.sum(amounts, free=free)
        return self.podm_block_counts.sum(amounts, free=free)[self.podm_of]

    def _sums(self, needs: tuple[Need, ...], by: By) -> Floats:
        """Return the free amounts of needs of blocks, shape ``(needs, rows)``."""
        amounts = self.kinds.amount_matrix(needs)
        if by == "pool":
            return self.block_counts.sums(amounts, free=True)
        return self.podm_block_counts.sums(amounts, free=True).take(self.podm_of, axis=1)

    def stock(self, resource: str) -> stocks.StockColumn:
        """Return the amounts of a stock resource; all are 0 if no pool has it."""
        column = self.resources.get(resource)  # read once: a tracked View counts each read
        if column is None:
            column = self.memoise(("no stock",), stocks.empty_column, len(self))
        return column


def _latest(memo: Memo, name: object, key: object, make: Callable[[], Any]) -> Any:
    latest = memo.get(name)
    if latest is None or latest[0] != key:
        latest = memo[name] = (key, make())
    return latest[1]


def lot_of(podm: str, pool: str) -> int:
    """Return the lot of a pool: 64 bits that depend on its ids alone, not on the inventory."""
    text = f"{podm}\0{pool}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


class DomainIndex(Struct, frozen=True):
    """The values of a domain by row: ``(rows, most values)``, padded with the next number."""

    values: dict[str, int]
    numbers: Ints

    def largest_count(self, counts: Mapping[str, int]) -> Floats:
        """Return the largest of the counts of the values of each row; NaN if a row has no value."""
        size, last = len(counts), len(self.values)
        if size > last:  # few rows: most values belong to other rows
            by_value = np.array([*(counts.get(value, 0) for value in self.values), np.nan])
        else:
            by_value = np.zeros(last + 1)
            numbers = (self.values.get(value, last) for value in counts)
            index = np.fromiter(numbers, np.int64, size)
            by_value[index] = np.fromiter(counts.values(), np.int64, size)
            by_value[-1] = np.nan
        if self.numbers.shape[1] == 1:
            return by_value.take(self.numbers[:, 0])
        largest: Floats = np.fmax.reduce(by_value[self.numbers], axis=1)
        return largest


def domain_index(view: View, domain: str) -> DomainIndex:
    """Return the values of a domain by row, memoised by the View; RequestError if unknown."""

    def make() -> DomainIndex:
        check_domain(domain)
        values_by_podm = [domain_values(podm, domain) for podm in view.podms]
        numbers: defaultdict[str, int] = defaultdict(lambda: len(numbers))
        rows = [[numbers[value] for value in values] for values in values_by_podm]
        width = max(map(len, rows), default=1) or 1
        padded = [row + [len(numbers)] * (width - len(row)) for row in rows]
        table = np.array(padded, dtype=np.int64).reshape(len(rows), width)
        return DomainIndex(dict(numbers), read_only(table[view.podm_of]))

    return view.memoise(("domain index", domain), make)  # type: ignore[no-any-return]


def domain_values(podm: LeanPodm, domain: str) -> tuple[str, ...]:
    """Return the values that a pod manager reports for a domain; may be empty."""
    if domain == "podm":
        return (podm.id,)
    if domain == "aggregate":
        return tuple(dict.fromkeys(podm.aggregates))
    reported = podm.zone if domain == "zone" else podm.facts.get(domain.removeprefix(FACT_PREFIX))
    values = reported if isinstance(reported, tuple) else (reported,)
    texts = (as_text(item) for item in values if item is not None)
    return tuple(dict.fromkeys(text for text in texts if text))


DIGITS = b"0123456789".ljust(256, b"\0")  # the text of each digit, by number
NAME = "inventory digest"  # the key of the memoised digest


def inventory_digest(view: View) -> str:
    """Return a digest of the inventory of a View, as 32 hexadecimal digits."""
    return view.memoise_free(NAME, None, lambda: _digest(view))  # type: ignore[no-any-return]


def set_inventory_digest(view: View, digest: str) -> None:
    """Give a View the digest of another View of the same inventory."""
    view.memoise_free(NAME, None, lambda: digest)


def _digest(view: View) -> str:
    total = hashlib.blake2b(digest_size=16)
    order = [kind.text for kind in view.kinds.kinds]
    texts = _Texts()
    for podm, table in zip(view.podms, view.block_tables, strict=True):
        total.update(to_json(structs.replace(podm, read_at=None)) + "\0".join(table.uris).encode())
        total.update(b"\0".join([order[number] for number in table.kinds]))
        pools = ", ".join(map(texts.__getitem__, table.pools))
        text = f"([{_digits(table.slots)}], [{pools}], {table.stock_pools!r})"
        total.update(text.encode() + to_json(table.stocks))
        if table.topologies:
            total.update(to_json(table.topologies))
    return total.hexdigest()


def _digits(numbers: list[int]) -> str:
    """Return numbers as ``repr`` prints them in a list; a fast path for single digits."""
    try:
        text = bytes(numbers).translate(DIGITS)
    except ValueError:  # a number is too large for a byte
        text = b"\0"
    return ", ".join(map(str, numbers) if b"\0" in text else text.decode())


class _Texts(dict[object, str]):
    """The ``repr`` of values, computed once for equal values."""

    def __missing__(self, thing: object) -> str:
        text = self[thing] = repr(thing)
        return text
