# SPDX-License-Identifier: Apache-2.0
"""Hints: which events of a pod manager are about what is read of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import ROOT
from valence_sched.errors import one_line

#: Services whose resources are not read. A reading logs in, which is an event of the first: were it
#: a hint, each reading would be followed by another one.
OTHER_SERVICES = frozenset(
    "SessionService AccountService EventService TaskService TelemetryService UpdateService "
    "CertificateService JobService LicenseService KeyService Registries JsonSchemas".lower().split()
)
#: Types of events, as services name them that have no registry of such messages.
TYPES = ("ResourceAdded", "ResourceRemoved", "ResourceUpdated", "StatusChange")
#: Registries whose messages are about resources.
REGISTRIES = ("ResourceEvent", "Composition")
_MOST_TEXT = 120


def hint_of(data: bytes) -> str | None:
    """Return the first record of an event that may change a reading, None where none does.

    What cannot be parsed is no hint.
    """
    try:
        event = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    records = event.get("Events") if isinstance(event, dict) else None
    return hint_of_records(records if isinstance(records, list) else ())


def hint_of_records(records: Iterable[Any]) -> str | None:
    """Return the first of the records of an event that may change a reading, None for none."""
    for record in records:
        if isinstance(record, dict) and (text := _hint_of_record(record)):
            return one_line(text, _MOST_TEXT)
    return None


def _hint_of_record(record: Json) -> str | None:
    kind, message = _text(record, "EventType"), _text(record, "MessageId")
    registry, _, rest = message.partition(".")
    name = rest.rpartition(".")[2] if registry in REGISTRIES and rest else kind
    origin = _origin(record)
    if origin:
        inner = origin.lower().removeprefix(ROOT).strip("/").split("/")
        other = inner[0] in OTHER_SERVICES or "logservices" in inner
        return None if other else f"{name or 'event'} {origin}"
    return name if registry in REGISTRIES or kind in TYPES else None


def _origin(record: Json) -> str:
    """Return the path of the resource of an event: a link, or text of older services."""
    origin: Any = record.get("OriginOfCondition")
    if isinstance(origin, dict):
        origin = origin.get("@odata.id")
    return origin if isinstance(origin, str) else ""


def _text(record: Json, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
