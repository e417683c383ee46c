# SPDX-License-Identifier: Apache-2.0
"""Validation of pod managers that a program or a person wrote as JSON."""

import itertools
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from valence_sched.drivers import recorded
from valence_sched.errors import InputError, one_line
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm, Status, parse_status, to_json
from valence_sched.model.podm_address import conflict_text
from valence_sched.model.quantity import check_time, format_count
from valence_sched.view.builder import ViewBuilder, repeated_id

P = TypeVar("P", bound=Podm[Any, Any])


def check_podm(podm: Podm[Any, Any], file: str, place: str) -> None:
    check_time(podm.read_at, file, f"{place}.read_at")
    for field in ("stocks", "nodes"):
        known: set[str] = set()
        for index, uri in enumerate(one.uri for one in getattr(podm, field)):
            if uri in known:
                where = f"{place}.{field}[{index}].uri"
                raise InputError(file, where, f"{uri!r} again", "a unique URI")
            known.add(uri)


def contradicted_limits(podm: Podm[Any, Any], file: str, place: str) -> Iterator[str]:
    for index, pool in enumerate(podm.pools):
        for kind, limit in pool.limits.items():
            if limit.max is not None and limit.min > limit.max:
                where, found = f"pools[{index}].limits.{kind}", f"{limit.min} above max {limit.max}"
                text = f"found min {found}: no node of the pool meets both"
                yield one_line(f"{file}: {place}.{where}: {text}")
    for index, stock in enumerate(podm.stocks):
        if stock.max is not None and stock.min > stock.max:
            text = f"found min {stock.min:g} above max {stock.max:g}: the stock grants nothing"
            yield one_line(f"{file}: {place}.stocks[{index}]: {text}")


def with_use_of_nodes(podm: P, file: str, place: str, *, lean: bool) -> tuple[P, str | None]:
    """Return a podm in which the blocks of nodes are in use; a remark names the first Unused block.

    A ``lean`` podm stays lean. Shareable blocks are skipped: their number of compositions counts.
    """
    used = {uri: node for node in podm.nodes for uri in node.blocks}
    blocks, doubtful = list(podm.blocks), []
    for index, block in enumerate(podm.blocks if used else ()):
        if block.uri not in used:
            continue
        status = block.status
        known = status if isinstance(status, Status) else parse_status(bytes(status or b""))
        if known.slots > 0 and not known.shareable:  # a node may use it exclusively
            composed = replace(known, state="Composed")
            status = msgspec.Raw(to_json(composed)) if lean else composed
            blocks[index] = replace(block, status=status)
            doubtful.append(index)
    if not doubtful:
        return podm, None
    node = used[blocks[doubtful[0]].uri].uri
    text = f"found Unused, expected Composed: node {node} has the block, and it counts as in use"
    if len(doubtful) > 1:
        text += f"; also {format_count(len(doubtful) - 1, 'other block')}"
    remark = one_line(f"{file}: {place}.blocks[{doubtful[0]}].status: {text}")
    return replace(podm, blocks=tuple(blocks)), remark


class RecordValidator:
    """Validates records one after another; it builds no View of a valid record."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._files)

    def podm(self, record: recorded.Record) -> FullPodm:
        """Return the pod manager of a record; a driver's noun is returned unchanged.

        Raises: InputError, DuplicateId: the record is invalid; an earlier record has its ID.
        """
        podm = _decode_sound(record)
        if podm is None:  # the builder raises the error
            lean = decode(record.json, LeanPodm, record.file, record.place)
            self._check_id(lean.id, record)
            ViewBuilder().add(lean, record.file, record.place)
            podm = decode(record.json, FullPodm, record.file, record.place)
        self._check_id(podm.id, record)
        self._files[podm.id] = record.file
        return record.content if isinstance(record.content, Podm) else podm

    def _check_id(self, podm_id: str, record: recorded.Record) -> None:
        if podm_id in self._files:
            raise repeated_id(podm_id, self._files[podm_id], record.file, record.place)


class Services:
    """The services of an inventory; the blocks of a service with two names would count twice."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def check(self, podm: Podm[Any, Any], record: recorded.Record) -> None:
        if podm.identity is None:
            return
        other = self._names.setdefault(podm.identity, podm.id)
        if other != podm.id:
            text = conflict_text(podm.id, podm.identity, other)
            raise InputError(record.file, f"{record.place}.identity", text)


def _decode_sound(record: recorded.Record) -> FullPodm | None:
    try:
        podm = decode(record.json, FullPodm, record.file, record.place)
    except InputError:
        return None
    pools = {pool.id for pool in podm.pools}
    uris = {block.uri for block in podm.blocks}
    unique = len(pools) == len(podm.pools) and len(uris) == len(podm.blocks)
    named = [block.pools for block in podm.blocks] + [stock.pools for stock in podm.stocks]
    listed = pools.issuperset(itertools.chain.from_iterable(named))
    return podm if unique and listed else None


def decode_lean(
    decoder: msgspec.json.Decoder[LeanPodm], json: bytes | msgspec.Raw, record: recorded.Record
) -> LeanPodm:
    """Decode a podm fast; a document that fails is decoded again for the text of its error."""
    try:
        return decoder.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(json, LeanPodm, record.file, record.place)
