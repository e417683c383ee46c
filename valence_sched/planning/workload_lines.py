# SPDX-License-Identifier: Apache-2.0
"""Workload lines: the lines of a workload file as plain words: CSV, JSON Lines, JSON or YAML.

CSV and JSON Lines are streams, of which one line at a time is in memory. A column of CSV is called
after its field, within others with dots: ``properties.processor.total_cores``,
``properties.accelerators.0.count``. A list of words has semicolons between them, and any other
list or object is written as JSON.
"""

from __future__ import annotations

import csv
import functools
import io
import itertools
import math
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec
from msgspec import inspect

from valence_sched.errors import InputError, one_line, suggest
from valence_sched.model.codec import decode, load_yaml, refuse_duplicate_keys
from valence_sched.model.decode_error import types_at
from valence_sched.model.quantity import format_count
from valence_sched.model.workload import TIMES, TraceColumn, WorkloadLine

MAX_LINE_BYTES = 1 << 20
MAX_JSON_BYTES = 1 << 27  # of one document; what is larger is written as JSON Lines
SNIFFED_BYTES = 4096

Row = Sequence[str]
#: Of each field its column, and the factor of its numbers in a recorded trace.
Positions = dict[str, tuple[int, float | None]]
Step = str | int


class Cells:
    """Reads the cells of rows: ``positions`` has by field its column and the factor of a trace.

    Raises:
        InputError: a field does not exist; one line, with the nearest.
    """

    def __init__(self, positions: Positions, file: str) -> None:
        self._positions = positions
        self._fields: list[tuple[list[Step], int, Callable[[str], Any]]] = []
        self._has_group = any(name.partition(".")[0] == "group" for name in positions)
        for name, (position, factor) in positions.items():
            if name not in TIMES and (name != "id" or self._has_group):
                steps, path = _steps(name, file)
                self._fields.append((steps, position, _reader(path, factor)))

    def time(self, name: str) -> Callable[[Row], str | float | None]:
        """Return what reads a time of a row, None where its cell is empty or has no column."""
        if name not in self._positions:
            return lambda row: None
        position, factor = self._positions[name]
        if factor in (None, 1.0):
            return lambda row: row[position] or None
        scale = _scaled(factor or 1.0, whole=False)
        return lambda row: scale(row[position]) if row[position] else None

    def key(self, names: Sequence[str]) -> Callable[[Row], Hashable]:
        """Return what reads all cells of a row but those of some fields."""
        left_out = [name for name in names if name != "id" or not self._has_group]
        others = [at for name, (at, _) in self._positions.items() if name not in left_out]
        return lambda row: tuple([row[position] for position in others])

    def document(self, row: Row) -> dict[str, Any]:
        """Return the fields of a row in plain words; an empty cell says nothing."""
        document: dict[Step, Any] = {}
        for steps, position, read in self._fields:
            value = read(row[position].strip())
            if value is None:
                continue
            place = document
            for step in steps[:-1]:
                place = place.setdefault(step, {})
            place[steps[-1]] = value
        return _with_lists(document)  # type: ignore[no-any-return]


def _steps(name: str, file: str) -> tuple[list[Step], str]:
    steps: list[Step] = []
    path, words = "", name.split(".")
    for number, word in enumerate(words):
        if any(isinstance(kind, inspect.DictType) for kind in types_at(WorkloadLine, path)):
            steps.append(".".join(words[number:]))  # a key of its own, which may have dots
            return steps, f"{path}[...]"
        below = f"{path}[{word}]" if word.isdigit() else f"{path}.{word}"
        if not types_at(WorkloadLine, below):
            kinds = types_at(WorkloadLine, path)
            known = [one.encode_name for kind in kinds for one in getattr(kind, "fields", ())]
            hint = suggest(word, known) if known else "name the fields of a request"
            raise InputError(f"{file}: line 1", "", f"unknown column {name!r}", hint=hint)
        steps.append(int(word) if word.isdigit() else word)
        path = below
    return steps, path


def _reader(path: str, factor: float | None) -> Callable[[str], Any]:
    """Return what reads a cell of a field, None for nothing; in a trace a 0 is nothing as well."""
    kinds = types_at(WorkloadLine, path)
    lists = [kind for kind in kinds if isinstance(kind, inspect.VarTupleType)]
    of_words = any(isinstance(kind.item_type, inspect.StrType) for kind in lists)
    whole = not any(isinstance(kind, inspect.FloatType) for kind in kinds)
    numeric = any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in kinds)
    scale = _scaled(factor or 1.0, whole=whole) if factor is not None and numeric else None

    def read(cell: str) -> Any:
        if not cell:
            return None
        if scale is not None:
            return scale(cell) or None
        if cell.startswith(("{", "[")):
            try:
                return msgspec.json.decode(cell)
            except msgspec.DecodeError:
                return cell
        if of_words:
            return [word.strip() for word in cell.split(";") if word.strip()]
        return cell

    return read


def _scaled(factor: float, *, whole: bool) -> Callable[[str], Any]:
    """Return what turns a number of a trace into our unit; where only whole ones may be, more."""

    def scale(cell: str) -> Any:
        try:
            number = float(cell)
        except ValueError:
            return cell  # the reader of the field says what is wrong with it
        number = round(number * factor, 9)
        return math.ceil(number) if whole and math.isfinite(number) else number

    return scale


def _with_lists(value: Any) -> Any:
    """Return maps whose keys are numbers as lists, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}


Form = Literal["csv", "jsonl", "json", "yaml"]
_FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
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
    return _json_lines(stream, file) if form == "jsonl" else _document_lines(stream, file, form)


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
        try:
            msgspec.json.decode(first)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return "json"
        return "jsonl"
    return "yaml" if first.startswith((b"-", b"#")) or b":" in first else "csv"


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
    for number in itertools.count(1):
        text = stream.readline(MAX_LINE_BYTES + 1)
        if not text:
            return
        if len(text) > MAX_LINE_BYTES:
            place, found = line_place(file, number), format_count(len(text), "byte")
            raise InputError(place, "", found, f"at most {MAX_LINE_BYTES:,}")
        yield number, text


def _csv_lines(stream: BinaryIO, file: str, columns: Mapping[str, TraceColumn]) -> Iterator[Line]:
    rows = _rows(stream, file)
    number, header = next(rows, (1, []))
    names = [name.strip() for name in header]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(line_place(file, number), "", f"the column {twice!r} twice")
    positions: Positions = {name: (position, None) for position, name in enumerate(names)}
    if columns:
        for field, source in columns.items():
            if source.column not in names:
                found = f"no column {source.column!r} for {field}"
                hint = suggest(source.column, names)
                raise InputError(line_place(file, 1), "", found, hint=hint)
        positions = {field: (names.index(one.column), one.factor) for field, one in columns.items()}
    cells = Cells(positions, file)
    arrival, departure, duration = map(cells.time, TIMES)
    key = cells.key(NOT_IN_KEY)
    for number, row in rows:
        if len(row) != len(names):
            place, found = line_place(file, number), format_count(len(row), "cell")
            raise InputError(place, "", found, f"{len(names)}, as the first line has")
        document = functools.partial(cells.document, row)
        yield Line(number, arrival(row), departure(row), duration(row), key(row), document)


def _rows(stream: BinaryIO, file: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of CSV with the number of their last line; empty ones are passed over."""

    def text_of(number: int, text: bytes) -> str:
        try:
            return text.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            found = "bytes that are not UTF-8"
            raise InputError(line_place(file, number), "", found, "CSV") from None

    texts = itertools.starmap(text_of, _numbered(stream, file))
    reader = csv.reader(texts, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        place, found = line_place(file, reader.line_num), one_line(str(error))
        raise InputError(place, "", found, "CSV") from None
