# SPDX-License-Identifier: Apache-2.0
"""What came, went and changed between two inventories, pod manager by pod manager.

When a pod manager was read, and which generation that was, is no difference. Pod managers that
are the same to the byte are never decoded, and of the others only the blocks that are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from valence_sched.errors import DuplicateId
from valence_sched.model.codec import decode
from valence_sched.model.inventory import (
    FREE,
    NOTHING,
    Block,
    Devices,
    LeanBlock,
    LeanPodm,
    Status,
)

Kind = Literal["podm", "pool", "block", "stock", "node"]
CAME, WENT = "came", "went"

#: What is no difference of a pod manager, and what is told thing by thing.
_READING = ("id", "generation", "read_at")
_THINGS: tuple[tuple[Kind, str, str], ...] = (
    ("pool", "pools", "id"),
    ("block", "blocks", "uri"),
    ("stock", "stocks", "uri"),
    ("node", "nodes", "uri"),
)
T = TypeVar("T")


class Difference(NamedTuple):
    """One difference of one thing: it came or went whole, or the field ``change`` is another.

    ``was`` and ``is_`` are JSON values, None for what was not told or not there.
    """

    podm: str
    kind: Kind
    name: str
    change: str
    was: Any = None
    is_: Any = None


class Text(NamedTuple):
    """The JSON of one pod manager, and where it stands."""

    json: bytes
    file: str
    place: str


class _Identity(msgspec.Struct):
    id: str


def differences(old: Iterable[Text], new: Iterable[Text]) -> Iterator[Difference]:
    """Yield every difference: of the pod managers of ``new`` in its order, then of those gone.

    Holds the texts of ``old`` and no more than one pod manager of ``new``.

    Raises:
        InputError: a pod manager is not what it must be, or stands twice in one inventory.
    """
    known = dict(_by_id(old))
    for id_, text in _by_id(new):
        was = known.pop(id_, None)
        if was is None:
            yield Difference(id_, "podm", id_, CAME, None, _counts(_podm(text)))
        elif bytes(was.json) != bytes(text.json):
            yield from changes(_podm(was), _podm(text))
    for id_, text in known.items():
        yield Difference(id_, "podm", id_, WENT, _counts(_podm(text)), None)


def changes(old: LeanPodm, new: LeanPodm) -> Iterator[Difference]:
    """Yield what is another in two pictures of one pod manager."""
    several = {field for _, field, _ in _THINGS}
    for field in old.__struct_fields__:
        if field not in _READING and field not in several:
            yield from _field(new.id, "podm", new.id, field, old, new)
    for kind, field, key in _THINGS:
        compare = _block if kind == "block" else _thing
        mine, theirs = getattr(old, field), getattr(new, field)
        yield from _each(new.id, kind, attrgetter(key), mine, theirs, compare)


def _by_id(texts: Iterable[Text]) -> Iterator[tuple[str, Text]]:
    decoder = msgspec.json.Decoder(_Identity)
    seen: set[str] = set()
    for text in texts:
        try:
            id_ = decoder.decode(text.json).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            id_ = _podm(text).id  # raises, in words
        if id_ in seen:
            raise DuplicateId(text.file, f"{text.place}.id", f"{id_!r} again", "an id of its own")
        seen.add(id_)
        yield id_, text


def _podm(text: Text) -> LeanPodm:
    return decode(text.json, LeanPodm, text.file, text.place)


def _counts(podm: LeanPodm) -> dict[str, int]:
    return {field: len(getattr(podm, field)) for _, field, _ in _THINGS}


def _each(
    podm: str,
    kind: Kind,
    key: Callable[[T], str],
    old: Iterable[T],
    new: Iterable[T],
    compare: Callable[[str, Kind, str, T, T], Iterable[Difference]],
) -> Iterator[Difference]:
    """Yield the differences of things that are told apart by their key."""
    known = {key(item): item for item in old}
    for item in new:
        name = key(item)
        was = known.pop(name, None)
        if was is None:
            yield Difference(podm, kind, name, CAME, None, _plain(item))
        else:
            yield from compare(podm, kind, name, was, item)
    for name, item in known.items():
        yield Difference(podm, kind, name, WENT, _plain(item), None)


def _thing(podm: str, kind: Kind, name: str, old: Any, new: Any) -> Iterator[Difference]:
    for field in old.__struct_fields__:
        yield from _field(podm, kind, name, field, old, new)


def _block(
    podm: str, kind: Kind, name: str, old: LeanBlock, new: LeanBlock
) -> Iterator[Difference]:
    for field in ("name", "type", "pools", "places"):
        yield from _field(podm, kind, name, field, old, new)
    if _bytes(old.status) != _bytes(new.status):
        yield from _thing(podm, kind, name, _status(old), _status(new))
    if _bytes(old.devices) != _bytes(new.devices):
        yield from _thing(podm, kind, name, _devices(old), _devices(new))


def _field(podm: str, kind: Kind, name: str, field: str, old: Any, new: Any) -> list[Difference]:
    was, is_ = getattr(old, field), getattr(new, field)
    if was == is_:
        return []
    return [Difference(podm, kind, name, field, _plain(was), _plain(is_))]


def _bytes(raw: msgspec.Raw | None) -> bytes:
    return bytes(raw or b"")


def _status(block: LeanBlock) -> Status:
    return decode(block.status, Status, block.uri) if block.status else FREE


def _devices(block: LeanBlock) -> Devices:
    return decode(block.devices, Devices, block.uri) if block.devices else NOTHING


def _plain(value: Any) -> Any:
    """Return a noun as lists and maps; the parts of a block that are bytes are decoded."""
    if isinstance(value, Block):
        status, devices = _status(value), _devices(value)
        value = msgspec.structs.replace(value, status=status, devices=devices)
    return msgspec.json.decode(msgspec.json.encode(value))
