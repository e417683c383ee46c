# SPDX-License-Identifier: Apache-2.0
"""Parses a decision report, without the fields that only a newer minor version has."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from valence_sched.model.codec import check_schema, decode
from valence_sched.model.decision import DECISIONS_SCHEMA, SCHEMA, VERSION, Report, Reports

T = TypeVar("T")

MAX_NAMED_FIELDS = 5  # unknown fields that a warning names


class _ReportHead(msgspec.Struct):
    """What tells which document it is, whatever else stands in it."""

    schema: str
    version: str


def parse_report(data: bytes, file: str) -> tuple[Report | Reports, list[str]]:
    """Parse a report of one decision or of several; return it with warnings.

    They are about fields that are unknown and left out.

    Raises:
        InputError: naming the place, what was found and what was expected.
        NewerSchema: its major version is newer than ours.
    """
    head = decode(data, _ReportHead, file)
    many = head.schema == DECISIONS_SCHEMA
    check_schema(head.schema, head.version, DECISIONS_SCHEMA if many else SCHEMA, VERSION, file)
    kind: type[Report | Reports] = Reports if many else Report
    dropped: list[str] = []
    report: Report | Reports = decode_known_fields(data, kind, file, dropped)
    if not dropped:
        return report, []
    names = ", ".join(dropped[:MAX_NAMED_FIELDS])
    more = f" and {len(dropped) - MAX_NAMED_FIELDS} more" if len(dropped) > MAX_NAMED_FIELDS else ""
    return report, [f"{file}: version {head.version}, ours is {VERSION}: unknown and left out: "
                    f"{names}{more}"]  # fmt: skip


def decode_known_fields(data: bytes, kind: type[T], file: str, dropped: list[str]) -> T:
    """Decode a document without the fields that its noun does not have.

    Their places go to ``dropped``. Errors as for any document.
    """
    kept = _drop_unknown_fields(msgspec.json.decode(data), inspect.type_info(kind), "$", dropped)
    return decode(msgspec.json.encode(kept), kind, file)


def _drop_unknown_fields(value: Any, kind: Any, place: str, dropped: list[str]) -> Any:
    """Return JSON without the fields that a type does not have; their places go to ``dropped``."""
    if isinstance(kind, inspect.UnionType):
        kind = next((one for one in kind.types if _matches_type(value, one)), None)
    if isinstance(value, dict) and isinstance(kind, inspect.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        dropped += [f"{place}.{name}" for name in value if name not in fields]
        return {
            name: _drop_unknown_fields(item, fields[name], f"{place}.{name}", dropped)
            for name, item in value.items()
            if name in fields
        }
    if isinstance(value, dict) and isinstance(kind, inspect.DictType):
        return {
            name: _drop_unknown_fields(item, kind.value_type, f"{place}.{name}", dropped)
            for name, item in value.items()
        }
    if isinstance(value, list) and isinstance(kind, (inspect.ListType, inspect.VarTupleType)):
        return [
            _drop_unknown_fields(item, kind.item_type, f"{place}[{number}]", dropped)
            for number, item in enumerate(value)
        ]
    return value


def _matches_type(value: Any, kind: Any) -> bool:
    maps = isinstance(kind, (inspect.StructType, inspect.DictType))
    lists = isinstance(kind, (inspect.ListType, inspect.VarTupleType))
    return (maps and isinstance(value, dict)) or (lists and isinstance(value, list))
