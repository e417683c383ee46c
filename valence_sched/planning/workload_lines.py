# SPDX-License-Identifier: Apache-2.0
"""Workload lines: the lines of a workload file as plain words: CSV, JSON Lines, JSON or YAML.

CSV and JSON Lines are streams, of which one line at a time is in memory.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec

from valence_sched.errors import InputError, one_line, suggest
from valence_sched.model.codec import decode, load_yaml
from valence_sched.model.duplicate_keys import refuse_duplicate_keys
from valence_sched.model.quantity import format_count
from valence_sched.model.workload import TIMES, TraceColumn
from valence_sched.planning.cells import Cells, Positions

MAX_LINE_BYTES = 1 << 20
MAX_JSON_BYTES = 1 << 27  # of one document; what is larger is written as JSON Lines
SNIFFED_BYTES = 4096

Form = Literal["csv", "jsonl", "json", "yaml"]
_FORMS: dict[str, Form] = {
    ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json", ".yaml": "yaml",
    ".yml": "yaml",
}  # fmt: skip
NOT_IN_KEY = (*TIMES, "id")  # lines that differ only in these are one request


class Line(NamedTuple):
    """One line: its number from 1, its times as written, and the rest, which is one request.

    ``word`` is what it is called in its file: a ``line``, or in a document a ``request``.
    Lines with equal ``key`` are the same request, and ``document`` returns it in plain words.
    """

    number: int
    arrival: Any
    departure: Any
    duration: Any
    key: Hashable
    document: Callable[[], dict[str, Any]]
    word: str = "line"


def read_lines(
    stream: BinaryIO, file: str, columns: Mapping[str, TraceColumn] | None = None
) -> Iterator[Line]:
    """Yield the lines of a workload, in the form that its name or else its beginning tells.

    ``columns`` are those of a recorded trace by field: then it is CSV, of which the other columns
    are passed over.

    Raises:
        InputError: it is none of these forms, or has an unknown column.
    """
    stream = io.BufferedReader(stream) if not hasattr(stream, "peek") else stream  # type: ignore[type-var]
    form = "csv" if columns else _form(stream, file)
    if form == "csv":
        return _csv_lines(stream, file, columns or {})
    if form == "jsonl":
        return _json_lines(stream, file)
    return _document_lines(stream, file, form)


def line_place(file: str, number: int) -> str:
    """Return where a line is, as an error names it."""
    return f"{file}: line {number}"


def _form(stream: Any, file: str) -> Form:
    name = file.removesuffix(".gz").removesuffix(".zst")
    if form := _FORMS.get(os.path.splitext(name)[1].lower()):
        return form
    head = bytes(stream.peek(SNIFFED_BYTES)[:SNIFFED_BYTES]).lstrip(b"\xef\xbb\xbf \r\n\t")
    first = head.partition(b"\n")[0]
    if head.startswith(b"["):
        return "json"
    if head.startswith(b"{"):
        return "jsonl" if _is_json(first) else "json"
    return "yaml" if first.startswith((b"-", b"#")) or b":" in first else "csv"


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _document_lines(stream: BinaryIO, file: str, form: Form) -> Iterator[Line]:
    """Yield the items of a list, or of a list under ``requests``; each item is one."""
    data = stream.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        hint = "write a line for each request, as JSON Lines or CSV: they are read as a stream"
        raise InputError(file, "", f"over {MAX_JSON_BYTES:,} bytes", "a smaller document", hint)
    if form == "json":
        document = decode(data, Any, file)
        refuse_duplicate_keys(data, file)
    else:
        document = load_yaml(data, file)
    if isinstance(document, dict) and "requests" in document:
        if extra := sorted(map(str, set(document) - {"requests"})):
            raise InputError(file, "$", f"unknown field {extra[0]!r}", "only 'requests'")
        document = document["requests"]
    items = [document] if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise InputError(file, "$", "no list", "a list of requests")
    return (_object_line(number, item, file, "request") for number, item in enumerate(items, 1))


def _json_lines(stream: BinaryIO, file: str) -> Iterator[Line]:
    decoder = msgspec.json.Decoder()
    bytes_before = 0
    for number, text in _numbered(stream, file):
        if text.isspace():
            continue
        try:
            item = decoder.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            item = decode(text, Any, file, f"line {number}: $")
        refuse_duplicate_keys(text, file, f"line {number}: $", bytes_before=bytes_before)
        bytes_before += len(text)
        yield _object_line(number, item, file)


def _object_line(number: int, item: Any, file: str, word: str = "line") -> Line:
    if not isinstance(item, dict):
        raise InputError(f"{file}: {word} {number}", "", one_line(repr(item), 60), "an object")
    arrival, departure = item.pop("arrival", None), item.pop("departure", None)
    duration = item.pop("duration", None)
    if "group" not in item:  # a group without a name has the id of its request
        item.pop("id", None)
    key = msgspec.json.encode(item)
    return Line(number, arrival, departure, duration, key, lambda: item, word)


def _numbered(stream: BinaryIO, file: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream with their numbers, each of bounded length."""
    for number in itertools.count(1):
        text = stream.readline(MAX_LINE_BYTES + 1)
        if not text:
            return
        if len(text) > MAX_LINE_BYTES:
            expected = f"at most {MAX_LINE_BYTES:,}"
            raise InputError(
                line_place(file, number), "", format_count(len(text), "byte"), expected
            )
        yield number, text


def _csv_lines(stream: BinaryIO, file: str, columns: Mapping[str, TraceColumn]) -> Iterator[Line]:
    rows = _rows(stream, file)
    number, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(line_place(file, number), "", f"the column {twice!r} twice")
    plain: Positions = {name: (position, None) for position, name in enumerate(names)}
    cells = Cells(_positions(names, columns, file) if columns else plain, file)
    arrival, departure, duration = map(cells.time, TIMES)
    key = cells.key(NOT_IN_KEY)
    for number, row in rows:
        if len(row) != len(names):
            place, found = line_place(file, number), format_count(len(row), "cell")
            raise InputError(place, "", found, f"{len(names)}, as the first line has")
        yield Line(number, arrival(row), departure(row), duration(row), key(row),
                   lambda row=row: cells.document(row))  # type: ignore[misc] # fmt: skip


def _positions(names: list[str], columns: Mapping[str, TraceColumn], file: str) -> Positions:
    """Return the position of the column of each field, and the factor of its numbers."""
    for field, source in columns.items():
        if source.column not in names:
            found = f"no column {source.column!r} for {field}"
            raise InputError(line_place(file, 1), "", found, hint=suggest(source.column, names))
    return {field: (names.index(one.column), one.factor) for field, one in columns.items()}


def _rows(stream: BinaryIO, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of CSV with the number of their last line; empty ones are passed over."""
    texts = (_text(text, file, number) for number, text in _numbered(stream, file))
    reader = csv.reader(texts, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(line_place(file, reader.line_num), "", one_line(str(error)),
                         "CSV") from None  # fmt: skip


def _text(text: bytes, file: str, number: int) -> str:
    try:
        return text.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise InputError(line_place(file, number), "", "bytes that are not UTF-8", "CSV") from None
