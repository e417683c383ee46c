# SPDX-License-Identifier: Apache-2.0
"""Parses a decision report, without the fields that only a newer minor version has."""

from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from valence_sched.model.codec import check_depth, check_schema, decode
from valence_sched.model.decision import DECISIONS_SCHEMA, SCHEMA, VERSION, Report, Reports

T = TypeVar("T")

MAX_NAMED_FIELDS = 5  # unknown fields that a warning names


class _ReportHead(msgspec.Struct):
    """The fields that identify a document; all others are ignored."""

    schema: str
    version: str


def parse_report(data: bytes, file: str) -> tuple[Report | Reports, list[str]]:
    """Parse a report of one decision or of several; return it with warnings.

    The warnings are about unknown fields, which are left out.

    Raises:
        InputError: the report is invalid; it names the path, what was found and expected.
        NewerSchema: its major version is newer than ours.
    """
    head = decode(data, _ReportHead, file)
    many = head.schema == DECISIONS_SCHEMA
    check_schema(head.schema, head.version, DECISIONS_SCHEMA if many else SCHEMA, VERSION, file)
    kind: type[Report | Reports] = Reports if many else Report
    unknown: list[str] = []
    report: Report | Reports = decode_known_fields(data, kind, file, unknown)
    if not unknown:
        return report, []
    names = ", ".join(unknown[:MAX_NAMED_FIELDS])
    rest = f" and {len(unknown) - MAX_NAMED_FIELDS} more" if len(unknown) > MAX_NAMED_FIELDS else ""
    return report, [f"{file}: version {head.version}, ours is {VERSION}: unknown and left out: "
                    f"{names}{rest}"]  # fmt: skip


def decode_known_fields(data: bytes, kind: type[T], file: str, unknown: list[str]) -> T:
    """Decode a document without the fields that its noun does not have.

    The paths of those fields are added to ``unknown``. Errors as for any document.
    """
    check_depth(data, file)
    known = _drop_unknown_fields(msgspec.json.decode(data), inspect.type_info(kind), "$", unknown)
    return decode(msgspec.json.encode(known), kind, file)


def _drop_unknown_fields(value: Any, kind: Any, path: str, unknown: list[str]) -> Any:
    """Return JSON without the fields that a type does not have; add them to ``unknown``."""
    if isinstance(kind, inspect.UnionType):
        kind = next((member for member in kind.types if _matches_type(value, member)), None)
    if isinstance(value, dict) and isinstance(kind, inspect.StructType):
        types = {field.encode_name: field.type for field in kind.fields}
        unknown += [f"{path}.{name}" for name in value if name not in types]
    elif isinstance(value, dict) and isinstance(kind, inspect.DictType):
        types = dict.fromkeys(value, kind.value_type)
    else:
        types = None
    if types is not None:
        return {
            name: _drop_unknown_fields(item, types[name], f"{path}.{name}", unknown)
            for name, item in value.items()
            if name in types
        }
    if isinstance(value, list) and isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return [
            _drop_unknown_fields(item, kind.item_type, f"{path}[{number}]", unknown)
            for number, item in enumerate(value)
        ]
    return value


def _matches_type(value: Any, kind: Any) -> bool:
    maps = isinstance(kind, (inspect.StructType, inspect.DictType))
    lists = isinstance(kind, (inspect.ListType, inspect.VarTupleType))
    return (maps and isinstance(value, dict)) or (lists and isinstance(value, list))
