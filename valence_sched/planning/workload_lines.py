# SPDX-License-Identifier: Apache-2.0
"""Workload lines: reads the lines of a workload file in CSV, JSON Lines, JSON or YAML.

CSV and JSON Lines are streams with one line in memory at a time. The name of a CSV column is the
path of its field: ``properties.processor.total_cores``, ``properties.accelerators.0.count``. A list
of texts is ``;``-separated, and any other list or object is JSON.
"""

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
from valence_sched.model.decode_error import refuse_other_kind, types_at
from valence_sched.model.quantity import format_count
from valence_sched.model.request_spec import TIMES, TraceColumn, WorkloadLine

MAX_LINE_BYTES = 1 << 20
MAX_JSON_BYTES = 1 << 27  # the size limit of one document; larger workloads are JSON Lines
SNIFFED_BYTES = 4096
Row = Sequence[str]
#: For each field its column, and the factor of its numbers in a recorded trace.
Positions = dict[str, tuple[int, float | None]]
Step = str | int


class Cells:
    """Reads the cells of rows; InputError, with the nearest name, if a field does not exist."""

    def __init__(self, positions: Positions, file: str) -> None:
        self._positions, self._file = positions, file
        self._fields: list[tuple[list[Step], int, Callable[[str, str], Any]]] = []
        self._has_group = any(name.partition(".")[0] == "group" for name in positions)
        for name, (position, factor) in positions.items():
            if name not in TIMES and (name != "id" or self._has_group):
                steps, path = _steps(name, file)
                self._fields.append((steps, position, _reader(path, factor)))

    def time(self, name: str) -> Callable[[Row], str | float | None]:
        """Return the reader of a time in a row, None for an empty cell or a missing column."""
        if name not in self._positions:
            return lambda row: None
        position, factor = self._positions[name]
        if factor in (None, 1.0):
            return lambda row: row[position] or None
        scale = _scaled(factor or 1.0, whole=False)
        return lambda row: scale(row[position]) if row[position] else None

    def key(self, names: Sequence[str]) -> Callable[[Row], Hashable]:
        """Return the reader of all cells of a row except the cells of some fields."""
        others = [
            position
            for name, (position, _) in self._positions.items()
            if name not in names or (name == "id" and self._has_group)
        ]
        return lambda row: tuple([row[position] for position in others])

    def document(self, number: int, row: Row) -> dict[str, Any]:
        """Return the request of a line; InputError for a JSON cell with a key twice."""
        document: dict[Step, Any] = {}
        line = line_place(self._file, number)
        for steps, position, read in self._fields:
            value = read(row[position].strip(), line)
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
            steps.append(".".join(words[number:]))  # a single key, which may have dots
            return steps, f"{path}[...]"
        below = f"{path}[{word}]" if word.isdigit() else f"{path}.{word}"
        if not types_at(WorkloadLine, below):
            kinds = types_at(WorkloadLine, path)
            known = [one.encode_name for kind in kinds for one in getattr(kind, "fields", ())]
            hint = suggest(word, known) if known else "use the fields of a request"
            raise InputError(f"{file}: line 1", "", f"unknown column {name!r}", hint=hint)
        steps.append(int(word) if word.isdigit() else word)
        path = below
    return steps, path


def _reader(path: str, factor: float | None) -> Callable[[str, str], Any]:
    """Return the reader of the cells of a field: None for an empty cell, and for 0 in a trace.

    Its arguments are the cell and the place of the line in messages.
    """
    kinds = types_at(WorkloadLine, path)
    lists = [kind for kind in kinds if isinstance(kind, inspect.VarTupleType)]
    of_texts = any(isinstance(kind.item_type, inspect.StrType) for kind in lists)
    whole = not any(isinstance(kind, inspect.FloatType) for kind in kinds)
    numeric = any(isinstance(kind, inspect.IntType | inspect.FloatType) for kind in kinds)
    scale = _scaled(factor or 1.0, whole=whole) if factor is not None and numeric else None

    def read(cell: str, line: str) -> Any:
        if not cell:
            return None
        if scale is not None:
            return scale(cell) or None
        if cell.startswith(("{", "[")):
            try:
                value = msgspec.json.decode(cell)
            except (msgspec.DecodeError, RecursionError):
                return cell
            refuse_duplicate_keys(cell.encode(), line, f"${path}")
            return value
        if of_texts:
            return [word.strip() for word in cell.split(";") if word.strip()]
        return cell

    return read


def _scaled(factor: float, *, whole: bool) -> Callable[[str], Any]:
    """Return the conversion of a number of a trace to our unit, rounded up if ``whole``."""

    def scale(cell: str) -> Any:
        try:
            number = round(float(cell) * factor, 9)
        except ValueError:
            return cell  # the decoder of the field reports the error
        return math.ceil(number) if whole and math.isfinite(number) else number

    return scale


def _with_lists(value: Any) -> Any:
    """Convert each map with numbers as keys to a list, in the order of the numbers."""
    if not isinstance(value, dict):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_with_lists(value[key]) for key in sorted(value)]
    return {key: _with_lists(item) for key, item in value.items()}


Form = Literal["csv", "jsonl", "json", "yaml"]
DELIMITERS = ",;\t"  # separators of CSV; the most frequent one in the first line is used
_FORMS: dict[str, Form] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".yaml": "yaml",
    ".yml": "yaml",
}
NOT_IN_KEY = (*TIMES, "id")  # lines that differ only in these share a request


class Line(NamedTuple):
    """One line: its number from 1, its times as written, and its request by ``document()``.

    Lines with equal ``key`` have the same request; ``word`` is ``line`` or ``request`` in errors.
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
    """Yield the lines of a workload; the suffix of the file, else its content, shows the format.

    ``columns`` are the columns of a recorded trace in CSV, by field; other columns are ignored.
    InputError: the content is invalid, or a column is unknown.
    """
    stream = io.BufferedReader(stream) if not hasattr(stream, "peek") else stream  # type: ignore[type-var]
    form = "csv" if columns else _form(stream, file)
    if form == "csv":
        return _csv_lines(stream, file, columns or {})
    return _json_lines(stream, file) if form == "jsonl" else _document_lines(stream, file, form)


def line_place(file: str, number: int, word: str = "line") -> str:
    return f"{file}: {word} {number}"


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
            return "jsonl"
        except (msgspec.DecodeError, UnicodeDecodeError):
            return "json"
    return "yaml" if first.startswith((b"-", b"#")) or b":" in first else "csv"


def _document_lines(stream: BinaryIO, file: str, form: Form) -> Iterator[Line]:
    data = stream.read(MAX_JSON_BYTES + 1)
    if len(data) > MAX_JSON_BYTES:
        hint = "write JSON Lines or CSV, which are read as a stream"
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
    else:
        refuse_other_kind(document, "workload", file)
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
        place, found = line_place(file, number, word), one_line(repr(item), 60)
        raise InputError(place, "", found, "an object")
    arrival, departure, duration = (item.pop(name, None) for name in TIMES)
    if "group" not in item:  # a group without a name is named by its request's id
        item.pop("id", None)
    key = msgspec.json.encode(item)
    return Line(number, arrival, departure, duration, key, lambda: item, word)


def _numbered(stream: BinaryIO, file: str) -> Iterator[tuple[int, bytes]]:
    for number in itertools.count(1):
        text = stream.readline(MAX_LINE_BYTES + 1)
        if not text:
            return
        if len(text) > MAX_LINE_BYTES:
            found, expected = format_count(len(text), "byte"), f"at most {MAX_LINE_BYTES:,}"
            raise InputError(line_place(file, number), "", found, expected)
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
            found = format_count(len(row), "cell")
            expected = f"{len(names)}, the number of the first line"
            raise InputError(line_place(file, number), "", found, expected)
        document = functools.partial(cells.document, number, row)
        yield Line(number, arrival(row), departure(row), duration(row), key(row), document)


def _rows(stream: BinaryIO, file: str) -> Iterator[tuple[int, list[str]]]:
    def text_of(number: int, text: bytes) -> str:
        try:
            return text.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            place = line_place(file, number)
            raise InputError(place, "", "bytes that are not UTF-8", "CSV") from None

    texts = itertools.starmap(text_of, _numbered(stream, file))
    header = next(texts, "")
    delimiter = max(DELIMITERS, key=header.count)
    reader = csv.reader(itertools.chain([header], texts), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        place, found = line_place(file, reader.line_num), one_line(str(error))
        raise InputError(place, "", found, "CSV") from None
