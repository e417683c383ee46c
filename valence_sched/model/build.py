# SPDX-License-Identifier: Apache-2.0
"""Pod managers become a View: read one after another, counted together at the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from valence_sched.errors import InputError, nearest
from valence_sched.model import census, stocks
from valence_sched.model.documents import decode
from valence_sched.model.inventory import FREE, Block, LeanPodm, Pool, Status, Stock
from valence_sched.model.kinds import Kinds
from valence_sched.model.shelf import Positions, Shelf
from valence_sched.model.view import Ints, Labels, View, lot_of

WHOLE = "all"  # the pool of a podm that names none


class ViewBuilder:
    """Collects podms and builds one View of them.

    Blocks of one kind or one status are alike to the byte, so each distinct text is decoded
    once: reading a million blocks costs little more than decoding their podms.
    """

    def __init__(self, kinds: Kinds | None = None) -> None:
        self.kinds = kinds or Kinds()
        self.podms: list[LeanPodm] = []
        self.shelves: list[Shelf] = []
        self.pools: list[Pool] = []
        self._files: dict[str, str] = {}
        self._statuses: dict[bytes, tuple[int, bool]] = {b"": (FREE.slots, False)}
        self._positions: dict[Positions, Positions] = {}

    def add(self, podm: LeanPodm, file: str, place: str = "$") -> None:
        """Add a podm.

        Raises:
            InputError: an id or a block URI that was there before, a block in a pool that the
                podm does not list, or devices that are not what they must be. The podm is then
                left out and the builder is as it was.
        """
        if podm.id in self._files:
            hint = "give every pod manager an id of its own"
            raise InputError(file, f"{place}.id", f"{podm.id!r} again, first in "
                             f"{self._files[podm.id]}", "an id of its own", hint)  # fmt: skip
        shelf = self._shelf(podm, file, place)
        self._files[podm.id] = file
        self.podms.append(msgspec.structs.replace(podm, blocks=(), stocks=(), nodes=podm.nodes))
        self.shelves.append(shelf)
        self.pools += podm.pools or (Pool(id=WHOLE),)

    def view(self) -> View:
        """Return the View of all podms added so far."""
        counts = [len(podm.pools) or 1 for podm in self.podms]
        first_row = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        podm_of = np.repeat(np.arange(len(counts)), counts)
        kind = np.fromiter((k for s in self.shelves for k in s.kinds), dtype=np.int64)
        free = np.fromiter((n > 0 for s in self.shelves for n in s.slots), dtype=np.float64)
        sizes = [len(shelf.kinds) for shelf in self.shelves]
        owner = np.repeat(np.arange(len(sizes)), sizes)
        block, row = self._memberships(first_row, owner)
        podms = [self.podms[podm] for podm in podm_of]
        rows = range(len(self.pools))
        return View(
            kinds=self.kinds,
            podms=self.podms,
            shelves=self.shelves,
            pools=self.pools,
            first_row=first_row,
            podm_of=podm_of,
            position_of=np.arange(len(podm_of)) - first_row[podm_of],
            census=census.count(row, kind[block], free[block], len(podm_of), len(self.kinds)),
            podm_census=census.count(owner, kind, free, len(sizes), len(self.kinds)),
            resources=_resources(self.shelves, first_row, podm_of),
            enabled=np.array([podm.enabled for podm in podms], dtype=bool),
            zone=_labels([podm.zone for podm in podms]),
            status=_labels([podm.status for podm in podms]),
            aggregates=_labels([podm.aggregates for podm in podms], frozenset),
            capabilities=_labels([tuple(podm.capabilities.items()) for podm in podms], dict),
            traits=_labels([podms[r].traits + self.pools[r].traits for r in rows], frozenset),
            lot=np.array([lot_of(podms[r].id, self.pools[r].id) for r in rows], dtype=np.uint64),
            block_count=int(sum(sizes)),
        )

    def _shelf(self, podm: LeanPodm, file: str, place: str) -> Shelf:
        blocks = podm.blocks
        uris = [block.uri for block in blocks]
        if len(set(uris)) != len(uris):
            self._refuse_repeated(podm, file, place)
        positions = self._pool_positions(podm, file, place)
        try:
            pools = [positions[block.pools] for block in blocks]
            stock_pools = tuple(positions[stock.pools] for stock in podm.stocks)
        except KeyError:
            pools, stock_pools = self._resolve_pools(podm, positions, file, place)
        kinds = self._known_kinds(blocks) or [
            self.kinds.number(block.type, block.devices, file, f"{place}.blocks[{index}].devices")
            for index, block in enumerate(blocks)
        ]
        use = [
            self._use(block.status, file, f"{place}.blocks[{i}].status")
            for i, block in enumerate(blocks)
        ]
        return Shelf(uris, kinds, [slots for slots, _ in use], [used for _, used in use],
                     pools, podm.stocks, stock_pools)  # fmt: skip

    def _known_kinds(self, blocks: Sequence[Block[Raw, Raw]]) -> list[int] | None:
        known = self.kinds.known
        try:
            return [known[block.type, bytes(block.devices or b"")] for block in blocks]
        except KeyError:
            return None

    def _use(self, raw: Raw | None, file: str, place: str) -> tuple[int, bool]:
        key = bytes(raw) if raw else b""
        known = self._statuses.get(key)
        if known is None:
            status = decode(key, Status, file, place)
            known = self._statuses[key] = (status.slots, status.state == "ComposedAndAvailable")
        return known

    def _pool_positions(
        self, podm: LeanPodm, file: str, place: str
    ) -> dict[tuple[str, ...], Positions]:
        if not podm.pools:
            return {(): self._positions.setdefault((0,), (0,))}
        names = [pool.id for pool in podm.pools]
        if len(set(names)) != len(names):
            raise InputError(file, f"{place}.pools", "a pool id twice", "an id of its own")
        return {
            (name,): self._positions.setdefault((number,), (number,))
            for number, name in enumerate(names)
        }

    def _resolve_pools(
        self, podm: LeanPodm, positions: dict[tuple[str, ...], Positions], file: str, place: str
    ) -> tuple[list[Positions], tuple[Positions, ...]]:
        number = {pool.id: index for index, pool in enumerate(podm.pools)}

        def resolve(member: Block[Raw, Raw] | Stock, at: str) -> Positions:
            if member.pools not in positions:
                for name in member.pools:
                    if name not in number:
                        raise InputError(file, f"{place}.{at}.pools", repr(name),
                                         "a pool of this podm", nearest(name, number))  # fmt: skip
                found = tuple(sorted({number[name] for name in member.pools}))
                positions[member.pools] = self._positions.setdefault(found, found)
            return positions[member.pools]

        return (
            [resolve(block, f"blocks[{index}]") for index, block in enumerate(podm.blocks)],
            tuple(resolve(stock, f"stocks[{index}]") for index, stock in enumerate(podm.stocks)),
        )

    def _refuse_repeated(self, podm: LeanPodm, file: str, place: str) -> None:
        seen: set[str] = set()
        for index, block in enumerate(podm.blocks):
            if block.uri in seen:
                where = f"{place}.blocks[{index}].uri"
                raise InputError(file, where, f"{block.uri!r} again", "a URI of its own")
            seen.add(block.uri)

    def _memberships(self, first_row: Ints, owner: Ints) -> tuple[Ints, Ints]:
        """Return parallel arrays: a block's number and the row of a pool that it stands in."""
        codes = {positions: code for code, positions in enumerate(self._positions)}
        code_of = np.fromiter(
            (codes[positions] for shelf in self.shelves for positions in shelf.pools),
            dtype=np.int64,
        )
        blocks, rows = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for positions, code in codes.items():
            members = np.flatnonzero(code_of == code)
            for position in positions:
                blocks.append(members)
                rows.append(first_row[owner[members]] + position)
        return np.concatenate(blocks), np.concatenate(rows)


def _labels(values: Sequence[Hashable], shape: Callable[[Any], Any] = lambda value: value) -> Labels:
    numbers: dict[Hashable, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return Labels([shape(value) for value in numbers], np.array(codes, dtype=np.int64))


def _resources(
    shelves: Sequence[Shelf], first_row: Ints, podm_of: Ints
) -> dict[str, stocks.Column]:
    found: dict[str, dict[int, tuple[float, ...]]] = {}
    for podm, shelf in enumerate(shelves):
        by_name: dict[str, list[int]] = {}
        for number, stock in enumerate(shelf.stocks):
            by_name.setdefault(stock.resource, []).append(number)
        for name, numbers in by_name.items():
            every = [shelf.stocks[number] for number in numbers]
            rows = found.setdefault(name, {})
            for row in range(first_row[podm], first_row[podm + 1]):
                position = row - first_row[podm]
                pool = [shelf.stocks[n] for n in numbers if position in shelf.stock_pools[n]]
                rows[int(row)] = stocks.row_values(pool, every)
    return {name: stocks.column(rows, len(podm_of)) for name, rows in found.items()}

