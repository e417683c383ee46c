# SPDX-License-Identifier: Apache-2.0
"""Decodes bytes into nouns; an error names the path, the found and the expected value."""

import itertools
import json
import re
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from valence_sched.errors import InputError, NewerSchema, escape, name_some
from valence_sched.model import decode_error, quantity
from valence_sched.model.base import MAX_WHOLE, digest_of
from valence_sched.model.decode_error import HEAD_BYTES, SCHEMA, WRONG_FILE, input_error, types_at
from valence_sched.model.quantity import format_count

T = TypeVar("T")
GIB, MIB = "capacity_gib", "capacity_mib"
TOPOLOGY, BONDS = "topology", "bonds"  # a field, and its alias in files
MAX_HUMAN_BYTES = 1 << 20  # size of a file that a person writes
MAX_NAMED_FIELDS = 5  # unknown fields that a warning names
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # the byte order marks
_ENDLESS = "too many nested lists and objects"
MAX_DEPTH = 64  # levels; documents of programs have about fifteen
#: Maps opening brackets to 1 and closing brackets to -1, as signed bytes; sums are the depth.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)).difference(b"[{]}"))
#: The size limit of a single line that is searched for duplicate keys: a longer line would take
#: a second to search, and only programs write one.
MOST_COMPACT_BYTES = 32 << 20
#: What the parsers of JSON and YAML find, in words of the text instead of their grammar.
_PROBLEMS = {
    "Input data was truncated": "the end of the text",
    "unexpected end of stream": "the end of the text",
    "'<stream end>'": "the end of the text",
    r"'\x00'": "the end of the text",
    "'<scalar>'": "a value",
    "object keys must be strings": "a key that is not a quoted string",
    "mapping values are not allowed here": "a second ':' in a value that is not quoted",
}


def decode(data: bytes | msgspec.Raw, type_: type[T], file: str, document_path: str = "$") -> T:
    """Decode JSON as ``type_``; InputError names the path below ``document_path`` in ``file``."""
    try:
        return msgspec.json.decode(data, type=type_)
    except msgspec.ValidationError as error:
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = None
        raise input_error(str(error), value, type_, file, document_path, strict=True) from None
    except msgspec.DecodeError as error:
        match = re.search(r"byte (\d+)", str(error))
        position = _text_position(bytes(data), int(match[1]) if match else None, document_path)
        problem = re.sub(r"^JSON is malformed: | \(byte \d+\)$", "", str(error))
        problem = _PROBLEMS.get(problem, re.sub("^expected ", "no ", problem))
        if bytes(data[:2]) in _UTF16:
            hint = "save it as UTF-8"
            raise InputError(file, document_path, "text in UTF-16", "JSON in UTF-8", hint) from None
        if bytes(data[:HEAD_BYTES]).lstrip()[:1] in b'{["':
            raise InputError(file, position, problem, "JSON", "is the file complete?") from None
        noun, hint = decode_error.text_kind(bytes(data)) if document_path == "$" else ("", "")
        where, found = ("", noun) if noun else (position, problem)
        raise InputError(file, where, found, "JSON", hint or WRONG_FILE) from None
    except UnicodeDecodeError as error:
        raise InputError(file, f"byte {error.start}", "bytes that are not UTF-8", "JSON") from None
    except RecursionError:
        raise InputError(file, document_path, _ENDLESS, "JSON with fewer levels") from None


def check_depth(data: bytes, file: str) -> None:
    """Raise InputError for JSON that is nested too deeply, before it is decoded."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return
    no_escapes = data.replace(rb"\\", b"").replace(rb"\"", b"")
    steps = b"".join(no_escapes.split(b'"')[::2]).translate(_STEPS, _NO_BRACKETS)
    if max(itertools.accumulate(memoryview(steps).cast("b")), default=0) > MAX_DEPTH:
        found = f"more than {MAX_DEPTH} nested lists and objects"
        raise InputError(file, "", found, "JSON with fewer levels")


def convert(value: object, type_: type[T], file: str, document_path: str = "$") -> T:
    """Convert lists, maps and amounts such as ``256GiB`` to ``type_``; same errors as decode."""
    try:
        amounts = _convert_amounts(value, type_, file, document_path)
        return msgspec.convert(amounts, type_, strict=False)
    except msgspec.ValidationError as error:
        if value is None and document_path == "$":  # YAML with only comments
            raise InputError(file, document_path, "an empty document", "object") from None
        raise input_error(str(error), value, type_, file, document_path) from None
    except RecursionError:
        raise InputError(file, document_path, _ENDLESS, "a document with fewer levels") from None


def _convert_amounts(value: Any, type_: Any, file: str, document_path: str) -> Any:
    """Convert amounts with a unit to numbers in the unit of their name, and rename aliases."""

    def lacks(alias: str, field: str, path: str) -> bool:
        own, other = (types_at(type_, f"{path}.{name}") for name in (alias, field))
        return bool(other) and not own

    def read(item: Any, path: str, name: str) -> Any:
        if isinstance(item, dict):
            # The amount of a stock has the unit of the resource in the same object.
            names = {"amount": str(item["resource"])} if "resource" in item else {}
            named = ((key, names.get(key, str(key)), below) for key, below in item.items())
            found = {key: read(below, f"{path}.{key}", name) for key, name, below in named}
            if BONDS in found and TOPOLOGY not in found and lacks(BONDS, TOPOLOGY, path):
                found = {TOPOLOGY if key == BONDS else key: it for key, it in found.items()}
            if GIB in found and lacks(GIB, MIB, path):
                if isinstance(gib := found[GIB], str) and quantity.is_quantity(gib):
                    found[GIB] = quantity.quantity_in(gib, "GiB")
                return with_mib(found)
            return found
        if isinstance(item, list):
            return [read(below, f"{path}[{number}]", "") for number, below in enumerate(item)]
        if not isinstance(item, str) or not quantity.is_quantity(item):
            return item
        unit = quantity.unit_of(name)
        kinds = {type(kind) for kind in types_at(type_, path)} if unit else set()
        numbers = {inspect.IntType, inspect.FloatType}
        if unit is None or kinds.isdisjoint(numbers) or inspect.StrType in kinds:
            return item
        try:
            amount = quantity.quantity_in(item, unit)
        except ValueError as error:
            raise InputError(file, document_path + path, str(error)) from None
        return amount if inspect.FloatType in kinds else int(amount)

    return read(value, "", "")


def with_mib(item: dict[str, Any]) -> dict[str, Any]:
    """Return an object with ``capacity_mib`` in place of ``capacity_gib``, if it is a number."""
    gib = item.get(GIB)
    if MIB in item or not isinstance(gib, int | float) or isinstance(gib, bool) or gib > MAX_WHOLE:
        return item
    mib = gib * 1024
    whole = int(mib) if isinstance(mib, float) and mib.is_integer() else mib
    return {MIB if key == GIB else key: whole if key == GIB else it for key, it in item.items()}


class ShippedJson(bytes):
    """JSON that ships with the package; tests check it."""


def load_yaml(data: bytes, file: str) -> Any:
    """Load YAML or JSON as plain lists and maps; InputError also for aliases and duplicate keys."""
    if isinstance(data, ShippedJson):
        return msgspec.json.decode(data)
    import yaml

    from valence_sched.model.plain_yaml import PlainLoader

    if len(data) > MAX_HUMAN_BYTES:
        raise InputError(file, "", f"over {MAX_HUMAN_BYTES:,} bytes", "a smaller file")
    noun, _ = decode_error.text_kind(data)
    try:
        # PlainLoader is a SafeLoader, made stricter
        binary = noun in decode_error.NOT_TEXT
        document = "" if binary else yaml.load(data, Loader=PlainLoader)  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        position = f"line {mark.line + 1} column {mark.column + 1}" if mark else ""
        text = error.problem or str(error)
        problem = re.sub(r"^(expected .*?, )?(but )?(found |got )?", "", text)
        problem = _PROBLEMS.get(problem, problem)
        raise InputError(file, position, problem, "plain YAML or JSON", error.note or "") from None
    except (yaml.YAMLError, ValueError, UnicodeDecodeError) as error:
        raise InputError(file, "", str(error), "YAML or JSON") from None
    except RecursionError:
        raise InputError(file, "", _ENDLESS, "YAML with fewer levels") from None
    if isinstance(document, str):
        raise InputError(file, "", noun or "text", "YAML or JSON", WRONG_FILE)
    return document


def item_lines(data: bytes, key: str) -> list[int]:
    """Return the line number, from 1, of each item in the YAML list under a key."""
    import yaml

    from valence_sched.model.plain_yaml import PlainLoader

    root = yaml.compose(data, Loader=PlainLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else ()
    lists = [value for name, value in pairs if name.value == key]
    return [item.start_mark.line + 1 for one in lists for item in one.value]


def escape_json(data: bytes) -> bytes:
    """Return equal JSON in which control characters are escaped."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return escape(data.decode(), keep="\n").encode()


def dump_yaml(value: object) -> str:
    """Return plain values as YAML in block style, unprintable text in double quotes."""
    import yaml

    from valence_sched.model.plain_yaml import PrintingDumper

    return yaml.dump(value, Dumper=PrintingDumper, default_flow_style=False)


def check_schema(found: str, version: str, schema: str, ours: str, file: str) -> list[str]:
    """Refuse another schema or newer major version; return a warning for a newer minor version."""
    if found != schema:
        decode_error.refuse_other_kind({"schema": found}, schema.removeprefix(SCHEMA), file)
        raise InputError(file, "$.schema", repr(found), repr(schema))
    try:
        major, minor = (int(part) for part in version.split("."))
    except ValueError:
        raise InputError(file, "$.version", repr(version), f"a version such as {ours!r}") from None
    our_major, our_minor = (int(part) for part in ours.split("."))
    if major > our_major:
        hint = "upgrade valence-sched, or convert the file with the program that wrote it"
        raise NewerSchema(file, "$.version", version, f"at most {our_major}.x", hint)
    if (major, minor) > (our_major, our_minor):
        return [f"{file}: {schema} {version} is newer than {ours}: unknown fields are refused"]
    return []


def _text_position(data: bytes, offset: int | None, document_path: str) -> str:
    line = document_path.removesuffix(": $") if document_path.startswith("line ") else ""
    if offset is None:
        read = f"{format_count(len(data), 'byte')} in"
        return f"{line}: {read}" if line else read
    newlines, line_start = data.count(b"\n", 0, offset), data.rfind(b"\n", 0, offset)
    return f"{line or f'line {newlines + 1}'} column {offset - line_start}"


class DocumentHead(msgspec.Struct):
    """The fields that identify a document; all others are ignored."""

    schema: str
    version: str
    digest: str = ""


def decode_document(
    data: bytes, kind: type[T], schema: str, ours: str, file: str, *, has_digest: bool = False
) -> tuple[T, list[str]]:
    """Decode a document without its unknown fields, with a warning that names some of them.

    Errors as for :func:`check_schema` and :func:`refuse_duplicate_keys`; with ``has_digest`` also
    for a digest of other content.
    """
    head = decode(data, DocumentHead, file)
    check_schema(head.schema, head.version, schema, ours, file)
    refuse_duplicate_keys(data, file)
    if has_digest and head.digest != document_digest(data):
        found, hint = "the digest of other content", "the plan was changed: make it again"
        raise InputError(file, "$.digest", found, "the digest of this plan", hint)
    check_depth(data, file)
    unknown: list[str] = []
    (known_type,) = types_at(kind, "$")
    known = _drop_unknown_fields(msgspec.json.decode(data), known_type, "$", unknown)
    names = name_some(unknown, MAX_NAMED_FIELDS)
    text = f"{file}: version {head.version} is newer than {ours}: ignored unknown fields: {names}"
    return decode(msgspec.json.encode(known), kind, file), [text] if unknown else []


def document_digest(data: bytes) -> str:
    """Return the digest of a JSON document without its fields ``digest`` and ``signature``."""
    document = msgspec.json.decode(data)
    document.pop("digest", None)
    document.pop("signature", None)
    content = msgspec.json.encode(document, order="deterministic")
    return digest_of(content)


def _drop_unknown_fields(value: Any, kind: Any, path: str, unknown: list[str]) -> Any:
    kinds = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    if isinstance(value, dict):
        maps = (inspect.StructType, inspect.DictType)
        kind = next((one for one in kinds if isinstance(one, maps)), None)
        types = dict.fromkeys(value, getattr(kind, "value_type", None))
        if isinstance(kind, inspect.StructType):
            types = {field.encode_name: field.type for field in kind.fields}
            unknown += [f"{path}.{name}" for name in value if name not in types]
        return {
            name: _drop_unknown_fields(item, types[name], f"{path}.{name}", unknown)
            for name, item in value.items()
            if name in types
        }
    lists = (inspect.ListType, inspect.VarTupleType)
    kind = next((one for one in kinds if isinstance(one, lists)), None)
    if not isinstance(value, list) or kind is None:
        return value
    items = enumerate(value)
    return [_drop_unknown_fields(it, kind.item_type, f"{path}[{n}]", unknown) for n, it in items]


class _Pairs(list[tuple[str, Any]]):
    """The keys of a JSON object with their values."""


class _FoundTwiceError(Exception):
    pass


def refuse_duplicate_keys(
    data: bytes, file: str, document_path: str = "$", *, bytes_before: int = 0
) -> None:
    """Raise InputError if a JSON object has a key twice: a decoder would drop one of the values.

    Invalid JSON passes, as does a single line that ends after byte ``MOST_COMPACT_BYTES``.
    ``bytes_before`` is the position of the text in its file.
    """
    # the last two bytes may be the end of the only line
    has_lines = data.find(b"\n", 0, len(data) - len(b"\r\n")) >= 0
    if bytes_before + len(data) > MOST_COMPACT_BYTES and not has_lines:
        return
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode()
        _read(text, _refuse)
    except _FoundTwiceError:
        path, key = _first_duplicate(_read(text, _Pairs))
        found = f"the key {key!r} twice"
        raise InputError(file, document_path + path, found, "each key once") from None
    except (ValueError, RecursionError):
        return


def _read(text: str, hook: Any) -> Any:
    # numbers remain text, because Python refuses to convert thousands of digits
    return json.loads(text, object_pairs_hook=hook, parse_int=str, parse_float=str)


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _FoundTwiceError


def _first_duplicate(document: Any) -> tuple[str, str]:
    """Return the path of the first object that has a key twice, and the key."""
    left = [("", document)]  # no recursion: lists may be nested deeper than its limit
    while left:
        path, value = left.pop()
        keys: set[str] = set()
        for key, _ in value if isinstance(value, _Pairs) else ():
            if key in keys:
                return path, key
            keys.add(key)
        if isinstance(value, _Pairs):
            left += [(f"{path}.{key}", below) for key, below in reversed(value)]
        elif isinstance(value, list):
            left += [(f"{path}[{n}]", value[n]) for n in reversed(range(len(value)))]
    return "", ""
