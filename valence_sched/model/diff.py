# SPDX-License-Identifier: Apache-2.0
"""Differences between two inventories, or two readings of one pod manager, without their times."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from valence_sched.errors import DuplicateId
from valence_sched.model import inventory
from valence_sched.model.codec import decode
from valence_sched.model.inventory import LeanBlock, LeanPodm

ItemKind = Literal["podm", "pool", "block", "stock", "node"]
ADDED, REMOVED = "added", "removed"
_IGNORED_FIELDS = ("id", "generation", "read_at")
_ITEM_LISTS: tuple[tuple[ItemKind, str, str], ...] = (
    ("pool", "pools", "id"),
    ("block", "blocks", "uri"),
    ("stock", "stocks", "uri"),
    ("node", "nodes", "uri"),
)
_Item = tuple[str, ItemKind, str]  # pod manager, kind and name


class Difference(NamedTuple):
    """A change: ``added``, ``removed``, or a field, with JSON values; None is a missing value."""

    podm: str
    kind: ItemKind
    name: str
    change: str
    before: Any = None
    after: Any = None


class PodmDocument(NamedTuple):
    """The JSON of one pod manager, its file and its path in the file."""

    json: bytes
    file: str
    document_path: str


class _Identity(msgspec.Struct):
    id: str


def differences(old: Iterable[PodmDocument], new: Iterable[PodmDocument]) -> Iterator[Difference]:
    """Yield all differences in the order of ``new``, which is streamed, then removed podms."""
    old_by_id = dict(_by_id(old))
    for id_, text in _by_id(new):
        old_text = old_by_id.pop(id_, None)
        if old_text is None:
            yield Difference(id_, "podm", id_, ADDED, None, _counts(_decode_podm(text)))
        elif bytes(old_text.json) != bytes(text.json):
            yield from podm_differences(_decode_podm(old_text), _decode_podm(text))
    for id_, text in old_by_id.items():
        yield Difference(id_, "podm", id_, REMOVED, _counts(_decode_podm(text)), None)


def podm_differences(old: LeanPodm, new: LeanPodm) -> Iterator[Difference]:
    """Yield the differences between two readings of one pod manager."""
    item_fields = {field for _, field, _ in _ITEM_LISTS}
    for field in old.__struct_fields__:
        if field not in _IGNORED_FIELDS and field not in item_fields:
            yield from _field_differences((new.id, "podm", new.id), [field], old, new)
    for kind, field, key in _ITEM_LISTS:
        old_by_key = {getattr(one, key): one for one in getattr(old, field)}
        for one in getattr(new, field):
            item: _Item = new.id, kind, getattr(one, key)
            if (before := old_by_key.pop(item[2], None)) is not None:
                yield from _item_differences(item, before, one)
            else:
                yield Difference(*item, ADDED, None, _to_builtins(one))
        for name, one in old_by_key.items():
            yield Difference(new.id, kind, name, REMOVED, _to_builtins(one), None)


def _by_id(texts: Iterable[PodmDocument]) -> Iterator[tuple[str, PodmDocument]]:
    decoder = msgspec.json.Decoder(_Identity)
    ids: set[str] = set()
    for text in texts:
        try:
            id_ = decoder.decode(text.json).id
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            id_ = _decode_podm(text).id  # raises an InputError with the reason
        if id_ in ids:
            path = f"{text.document_path}.id"
            raise DuplicateId(text.file, path, f"{id_!r} again", "a unique id")
        ids.add(id_)
        yield id_, text


def _decode_podm(text: PodmDocument) -> LeanPodm:
    return decode(text.json, LeanPodm, text.file, text.document_path)


def _counts(podm: LeanPodm) -> dict[str, int]:
    return {field: len(getattr(podm, field)) for _, field, _ in _ITEM_LISTS}


def _item_differences(item: _Item, old: Any, new: Any) -> Iterator[Difference]:
    if not isinstance(new, inventory.Block):
        yield from _field_differences(item, old.__struct_fields__, old, new)
        return
    yield from _field_differences(item, ("name", "type", "pools", "places"), old, new)
    for field, decoded in (("status", _status), ("devices", _devices)):
        if bytes(getattr(old, field) or b"") != bytes(getattr(new, field) or b""):
            yield from _item_differences(item, decoded(old), decoded(new))


def _field_differences(
    item: _Item, fields: Iterable[str], old: Any, new: Any
) -> Iterator[Difference]:
    for field in fields:
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            yield Difference(*item, field, _to_builtins(before), _to_builtins(after))


def _status(block: LeanBlock) -> inventory.Status:
    return decode(block.status or b"{}", inventory.Status, block.uri)


def _devices(block: LeanBlock) -> inventory.Devices:
    return decode(block.devices or b"{}", inventory.Devices, block.uri)


def _to_builtins(value: Any) -> Any:
    if isinstance(value, inventory.Block):
        status, devices = _status(value), _devices(value)
        value = msgspec.structs.replace(value, status=status, devices=devices)
    return msgspec.json.decode(msgspec.json.encode(value))
