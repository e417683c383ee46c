# SPDX-License-Identifier: Apache-2.0
"""Inventories as JSON text: one document, JSON Lines, or a map from URI to Redfish document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Raw

from valence_sched.drivers.bounds import MAX_JSON_BYTES, MAX_LINE_BYTES
from valence_sched.errors import InputError
from valence_sched.model import inventory
from valence_sched.model.codec import GIB, check_schema, decode, refuse_duplicate_keys, with_mib
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.quantity import check_time

if TYPE_CHECKING:
    from valence_sched.drivers.files.tree import RecordedTree

Fields = Mapping[str, Raw]
#: Makes a record from documents by URI or file name, an id, and the name of the file.
TreeReader = Callable[[Mapping[str, bytes | Path], str, str], "Record"]
EXPECTED = f"an inventory ({inventory.SCHEMA}), JSON Lines of podms, or a map from URI to document"
SUFFIXES = (".json", ".jsonl", ".ndjson", ".gz", ".tgz", ".zst", ".zip", ".tar")
_MARK = b"\xef\xbb\xbf"
_HEADER = b'{"schema"'
_GIB_KEY = f'"{GIB}"'.encode()
MAX_BLANK_LINES = 1000


class Record(NamedTuple):
    """One unvalidated pod manager: its file and place, tree, and capture time.

    ``content`` is its JSON, or the pod manager that a driver read from its documents. ``stated``
    has the capabilities of its zones; its own capabilities override them.
    """

    content: inventory.FullPodm | bytes | Raw
    file: str
    place: str
    tree: RecordedTree | None = None
    captured_at: str | None = None
    stated: Mapping[str, tuple[str, ...]] | None = None

    @property
    def json(self) -> bytes | Raw:
        content = self.content
        return inventory.to_json(content) if isinstance(content, inventory.Podm) else content

    def podm(self) -> inventory.FullPodm:
        """Return the pod manager; InputError for JSON that breaks the format."""
        if isinstance(self.content, inventory.Podm):
            return self.content
        return decode(self.content, inventory.FullPodm, self.file, self.place)


def is_inventory_name(name: str) -> bool:
    return name.casefold().endswith(SUFFIXES) and not name.startswith(".")


class NotAnInventory(InputError):
    """Valid JSON of another kind."""


def text_records(
    stream: BinaryIO, file: str, id_: str, diagnostics: Diagnostics, read_tree: TreeReader
) -> Iterator[Record]:
    """Yield the pod managers of a JSON text; InputError unless it is an inventory."""
    blank, first = _next_line(stream)
    first = first.removeprefix(_MARK)
    between, second = _next_line(stream) if first.endswith(b"\n") else ([], b"")
    fields = _fields(first)
    goes_on = first.rstrip().endswith((b"[", b"{", b",", b":")) or not second.startswith(b"{")
    captured_at = _captured_at(fields or {})
    if fields is None and goes_on:
        begun = b"".join([first, *between, second])
        whole = begun + stream.read(max(0, MAX_JSON_BYTES + 1 - len(begun)))
        if len(whole) > MAX_JSON_BYTES:
            hint = "JSON Lines (one podm per line) has no such bound"
            raise InputError(file, "", "a larger document", f"at most {MAX_JSON_BYTES} bytes", hint)
        fields = decode(whole, dict[str, Raw], file)
        yield from _document(fields, whole, file, id_, diagnostics, read_tree)
    elif fields is not None and not _is_line(fields, second):
        yield from _document(fields, first, file, id_, diagnostics, read_tree)
        if any(line and not line.isspace() for line in chain([second], stream)):
            found = "more data after the first document"
            hint = "only the first document was read; to join inventories, write one podm per line"
            diagnostics.skip(InputError(file, "", found, "one document", hint))
    else:
        if fields and "schema" in fields:
            _header(first, file, f"line {len(blank) + 1}", diagnostics)
            first = b""
        yield from _lines(stream, [*blank, first, *between, second], file, diagnostics, captured_at)


def _next_line(stream: BinaryIO) -> tuple[list[bytes], bytes]:
    blank: list[bytes] = []
    line = stream.readline(MAX_LINE_BYTES + 1)
    while line.isspace() and len(blank) < MAX_BLANK_LINES:
        blank.append(line)
        line = stream.readline(MAX_LINE_BYTES + 1)
    return blank, line


def _fields(line: bytes) -> Fields | None:
    try:
        return msgspec.json.decode(line, type=dict[str, Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _is_line(fields: Fields, second: bytes) -> bool:
    if "schema" in fields:
        return "podms" not in fields and second != b""
    if _is_map(fields):
        return False
    return "id" in fields or second.startswith(b"{")


def _is_map(fields: Fields) -> bool:
    return bool(fields) and all(key.startswith("/") for key in fields)


def _document(
    fields: Fields, whole: bytes, file: str, id_: str, diagnostics: Diagnostics, read: TreeReader
) -> Iterator[Record]:
    if "schema" in fields:
        captured_at = _captured_at(fields)
        refuse_duplicate_keys(whole, file)
        if _check_header(fields, file, diagnostics):  # unknown fields of a newer schema are noted
            podms = decode(fields.get("podms", Raw(b"[]")), tuple[Raw, ...], file, "$.podms")
        else:
            podms = decode(whole, inventory.InventoryEnvelope, file).podms
        for index, podm in enumerate(podms):
            yield Record(_in_mib(podm), file, f"$.podms[{index}]", captured_at=captured_at)
    elif _is_map(fields):
        refuse_duplicate_keys(whole, file)
        yield read({uri: bytes(document) for uri, document in fields.items()}, id_, file)
    elif "id" in fields and "blocks" in fields:
        refuse_duplicate_keys(whole, file)
        yield Record(_in_mib(whole), file, "$")
    else:
        names = ", ".join(sorted(fields)[:5]) or "no fields"
        kind = InputError if "podms" in fields else NotAnInventory
        raise kind(file, "$", f"an object with {names}", EXPECTED)


def _check_header(fields: Fields, file: str, diagnostics: Diagnostics) -> bool:
    """Return whether the schema has a newer minor version, and note it."""
    schema = decode(fields["schema"], str, file, "$.schema")
    version = fields.get("version")
    text = decode(version, str, file, "$.version") if version else inventory.VERSION
    warnings = check_schema(schema, text, inventory.SCHEMA, inventory.VERSION, file)
    at = bytes(fields.get("captured_at", b"null"))
    if at != b"null":
        check_time(decode(at, str, file, "$.captured_at"), file, "$.captured_at")
    for warning in warnings:
        diagnostics.remark(warning)
    return bool(warnings)


def _header(line: bytes, file: str, place: str, diagnostics: Diagnostics) -> None:
    fields = decode(line, dict[str, Raw], file, place)
    refuse_duplicate_keys(line, file, f"{place}: $")
    if not _check_header(fields, file, diagnostics):
        decode(line, inventory.InventoryHeader, file, place)


def _lines(
    stream: BinaryIO, begun: list[bytes], file: str, diagnostics: Diagnostics, at: str | None
) -> Iterator[Record]:
    more = iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b"")
    bytes_before = 0
    for number, line in enumerate(chain(begun, more), 1):
        if len(line) > MAX_LINE_BYTES:
            rest = line
            while rest and not rest.endswith(b"\n"):
                rest = stream.readline(MAX_LINE_BYTES)
            place, most = f"line {number}", f"at most {MAX_LINE_BYTES} bytes"
            diagnostics.skip(InputError(file, place, "a longer line", most, "left out"))
        elif line.startswith(_HEADER):
            _header(line, file, f"line {number}", diagnostics)
            at = _captured_at(_fields(line) or {})
        elif line and not line.isspace():
            place = f"line {number}: $"
            try:
                refuse_duplicate_keys(line, file, place, bytes_before=bytes_before)
            except InputError as error:
                diagnostics.skip(error)
            else:
                yield Record(_in_mib(line), file, place, captured_at=at)
        bytes_before += len(line)


def _in_mib(podm: bytes | Raw) -> bytes | Raw:
    """Return a pod manager with memory in MiB; the usual text without GiB is unchanged."""
    text = bytes(podm)
    if _GIB_KEY not in text:
        return podm
    try:
        return msgspec.json.encode(_memory_in_mib(msgspec.json.decode(text)))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return podm  # its decoder raises the error


def _memory_in_mib(value: Any, name: str = "") -> Any:
    if isinstance(value, list):
        return [_memory_in_mib(item, name) for item in value]
    if not isinstance(value, dict):
        return value
    if name == "memory":
        return with_mib(value)
    return {key: _memory_in_mib(item, key) for key, item in value.items()}


def _captured_at(fields: Fields) -> str | None:
    try:
        return msgspec.json.decode(fields.get("captured_at", b"null"), type=str | None)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
