# SPDX-License-Identifier: Apache-2.0
"""Errors of invalid documents: another kind of file, or a value of the wrong type."""

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from msgspec import inspect

from valence_sched.errors import InputError, closest, suggest
from valence_sched.model.quantity import UNITS, unit_of

SCHEMA = "valence-sched/"
WRONG_FILE = "is this the right file?"
HEAD_BYTES = 4096  # at the start of a text, in which its kind is detected
#: The Python types by which a value is checked; the items of containers are not checked.
_PLAIN: dict[type[inspect.Type], Any] = {inspect.StrType: str, inspect.BoolType: bool}
_PLAIN |= {inspect.IntType: int, inspect.FloatType: float}
_PLAIN |= dict.fromkeys((inspect.DictType, inspect.StructType), dict)
_PLAIN |= dict.fromkeys((inspect.ListType, inspect.VarTupleType, inspect.TupleType), list)
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


class FileKind(NamedTuple):
    """The noun of a kind of file, and the option or command that reads it."""

    noun: str
    use: str


KINDS = {
    "inventory": FileKind("an inventory", "--inventory"),
    "decision": FileKind("a decision", "scheduler explain"),
    "decisions": FileKind("decisions", "scheduler explain"),
    "plan": FileKind("a plan", "podm apply"),
    "node-change": FileKind("a change of a node", "podm apply"),
    "replay": FileKind("a replay", "scheduler whatif run --compare"),
    "check": FileKind("expectations", "scheduler check"),
    "request": FileKind("requests", "--request-file"),
    "scenario": FileKind("scenarios", "--scenario"),
    "zones": FileKind("a tree of zones", "--zone-file"),
    "flavors": FileKind("flavors", "--flavor-file"),
    "policies": FileKind("policies", "--policy-file"),
    "resources": FileKind("resources", "--resource-file"),
    "podms": FileKind("pod managers", "--podm-file"),
    "columns": FileKind("columns of a trace", "--map-file"),
    "workload": FileKind("a workload", "--workload"),
}
#: The kind of a document, by a top-level field that no other kind has.
_FIELDS = {"flavors": "flavors", "policies": "policies", "requests": "request"}
_FIELDS |= {"scenarios": "scenario", "expectations": "check"}
_SCHEMA = re.compile(rb"schema['\"]?\s*:\s*['\"]?valence-sched/([a-z-]+)")
_MAGIC = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "a zip archive", b"%PDF": "PDF", b"\x89PNG": "PNG"}
NOT_TEXT = frozenset({"HTML", "XML", *_MAGIC.values()})
_KEY = re.compile(rb"(?:- )?['\"]?[\w.-]+['\"]?:(?:\s|$)")  # the key at the start of a YAML line


def refuse_other_kind(document: Any, kind: str, file: str) -> None:
    """Raise InputError for a document of another kind; it names the command that reads it."""
    if not isinstance(document, dict):
        return
    found = str(document.get("schema", "")).removeprefix(SCHEMA)
    if found not in KINDS:
        kinds = {_FIELDS[field] for field in _FIELDS.keys() & document.keys()}
        found = kind if kind in kinds or kind in document else next(iter(kinds), kind)
    if found != kind and kind in KINDS:
        hint = f"use {KINDS[found].use}"
        raise InputError(file, "", KINDS[found].noun, KINDS[kind].noun, hint)


def text_kind(data: bytes) -> tuple[str, str]:
    """Return the kind of a text that is not JSON, and a hint; both empty if it is unknown."""
    head = data[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    for magic, noun in _MAGIC.items():
        if head.startswith(magic):
            return noun, WRONG_FILE
    if head[:64].lower().startswith((b"<!doctype html", b"<html")):
        return "HTML", WRONG_FILE
    if head.startswith((b"<?xml", b"<svg")):
        return "XML", WRONG_FILE
    lines = (line.strip() for line in head.splitlines())
    first = next((one for one in lines if one not in (b"", b"---") and one[:1] != b"#"), b"")
    if not _KEY.match(first):
        return ("", "") if b"\0" in head else ("text", WRONG_FILE)
    schema = _SCHEMA.search(head)
    fields = _FIELDS | {"podms": "podms"}  # a request in JSON may have podms
    kinds = (kind for field, kind in fields.items() if first.startswith(f"{field}:".encode()))
    found = schema[1].decode() if schema else next(kinds, "")
    if found in KINDS:
        return f"{KINDS[found].noun} in YAML", f"use {KINDS[found].use}"
    return "YAML", WRONG_FILE


def input_error(
    message: str, value: object, type_: Any, file: str, document_path: str, *, strict: bool = False
) -> InputError:
    """Return the error for msgspec's ``message``; with ``strict``, a text is never a number."""
    text, _, inner = re.sub(r"`key` in ", "", message).partition(" - at `$")
    inner = inner.rstrip("`")
    kinds = types_at(type_, inner)
    field = re.match(r"Object (contains unknown|missing required) field `(.+)`", text)
    enum = re.match(r"Invalid enum value '?(.+?)'?$", text)
    is_unknown = field is not None and field[1] == "contains unknown"

    def is_wrong(item: Any) -> bool:
        if field:
            return isinstance(item, dict) and (field[2] in item) == is_unknown
        if enum:
            return str(item) == enum[1]
        return not any(_accepts(kind, item, strict=strict) for kind in kinds)

    shown_path, found = _located(value, inner, is_wrong)
    where = document_path + shown_path
    if field and is_unknown:
        structs = [kind for kind in kinds if isinstance(kind, inspect.StructType)]
        fields = {one.encode_name for kind in structs for one in kind.fields}
        fields = fields or set().union(*_fields_by_type(type_, {}).values())
        hint = _field_hint(field[2], fields)
        return InputError(file, where, f"unknown field {field[2]!r}", hint=hint)
    if field:
        return InputError(file, where, f"no field {field[2]!r}, which is required")
    if enum:
        literals = [kind for kind in kinds if isinstance(kind, inspect.LiteralType)]
        hint = suggest(enum[1], {str(word) for kind in literals for word in kind.values})
        return InputError(file, where, repr(enum[1]), "one of the values of the schema", hint)
    if expected := re.match(r"Expected ((?:(?!, got `).)+)(?:, got `(.+)`)?$", text):
        shown = found or expected[2] or "something else"
        return InputError(file, where, shown, expected[1].replace("`", ""))
    return InputError(file, where, text[0].lower() + text[1:], "a number in range")


def _field_hint(name: str, fields: set[str]) -> str:
    """Return the hint for an unknown field; it never suggests a field with another unit."""
    if name == "capacity_gib" and "capacity_mib" in fields:  # not a number, or both given
        return "give one number: capacity_gib or capacity_mib"
    nearest = closest(name, fields) or ""
    word = name.rpartition("_")[2].casefold()
    unit = unit_of(name) or next((one for one in UNITS if one.casefold() == word), None)
    changes_unit = unit is not None and unit != unit_of(nearest)
    return suggest(name, fields, cutoff=1.0) if changes_unit else suggest(name, fields)


def _located(value: Any, path: str, is_wrong: Callable[[Any], bool]) -> tuple[str, str]:
    """Return msgspec's ``path`` with keys of maps in place of ``[...]``, and the value at it."""
    if value is None:  # not JSON
        return path, ""
    steps = _STEP.findall(path)
    if "[...]" in path and (found := _find(value, steps, is_wrong)):
        return found[0], _shortened(found[1])
    for key, index in steps:
        if not key and not index:  # msgspec does not name the key of a map
            break
        at = next(_items_at(value, key, index), None)
        if at is None:
            return path, "something else"
        value = at[1]
    return path, _shortened(value)


def _find(
    value: Any, steps: Sequence[tuple[str, str]], is_wrong: Callable[[Any], bool]
) -> tuple[str, Any] | None:
    if not steps:
        return ("", value) if is_wrong(value) else None
    (key, index), *rest = steps
    for shown, below in _items_at(value, key, index):
        if found := _find(below, rest, is_wrong):
            return shown + found[0], found[1]
    return None


def _items_at(value: Any, key: str, index: str) -> Iterator[tuple[str, Any]]:
    """Yield the values of one step with their paths; without key and index all values of a map."""
    if key or index:
        with contextlib.suppress(KeyError, IndexError, TypeError):
            yield (f".{key}", value[key]) if key else (f"[{index}]", value[int(index)])
    elif isinstance(value, dict):
        for name, below in value.items():
            yield f"[{str(name)[:60]!r}]", below


def _accepts(kind: inspect.Type, value: Any, *, strict: bool) -> bool:
    for type_, plain in _PLAIN.items():
        if isinstance(kind, type_):
            limits = msgspec.Meta(**{name: getattr(kind, name, None) for name in _LIMITS})
            try:
                msgspec.convert(value, Annotated[plain, limits], strict=strict)
            except msgspec.ValidationError:
                return False
            return True
    return not isinstance(kind, inspect.NoneType) or value is None


def _shortened(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def _fields_by_type(type_: Any, visited: dict[Any, set[str]]) -> dict[Any, set[str]]:
    if type_ in visited:
        return visited
    visited[type_] = set()
    for argument in get_args(type_):
        with contextlib.suppress(TypeError):  # an unhashable annotation holds no nouns
            _fields_by_type(argument, visited)
    origin = getattr(type_, "__origin__", type_)
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        for field in msgspec.structs.fields(type_):
            visited[type_].add(field.encode_name)
            _fields_by_type(field.type, visited)
    return visited


def types_at(type_: Any, path: str) -> list[inspect.Type]:
    """Return the types that are allowed at msgspec's ``path`` in a type."""
    kinds: Iterable[inspect.Type] = [_type_info(type_)]
    for key, index in _STEP.findall(path):
        members = [member for kind in kinds for member in getattr(kind, "types", (kind,))]
        kinds = [one for kind in members for one in _types_below(kind, key, int(index or 0))]
    return [member for kind in kinds for member in getattr(kind, "types", (kind,))]


# msgspec takes milliseconds to describe a large noun
_type_info = functools.cache(inspect.type_info)


def _types_below(kind: inspect.Type, key: str, number: int) -> Sequence[inspect.Type]:
    if isinstance(kind, inspect.DictType):  # "[...]": any of its values
        return [kind.value_type]
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields if key and field.encode_name == key]
    if isinstance(kind, inspect.TupleType) and not key:
        return kind.item_types[number : number + 1]
    lists = (inspect.ListType, inspect.VarTupleType)
    return [kind.item_type] if isinstance(kind, lists) and not key else []
