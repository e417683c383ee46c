# SPDX-License-Identifier: Apache-2.0
"""Event service of a simulated pod manager: its documents, and the events that changes make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from valence_sched.simulator.server.documents import (
    Change,
    DocumentTree,
    Json,
    collection_document,
    uri_of,
    value_at,
)
from valence_sched.simulator.server.faults import Faults

ROOT = "/redfish/v1"
SERVICE = f"{ROOT}/EventService"
#: The messages of a change, and what services before them call it.
MESSAGES = {
    "ResourceAdded": ("ResourceCreated", "The resource was created successfully."),
    "ResourceUpdated": ("ResourceChanged", "One or more resource properties have changed."),
    "ResourceRemoved": ("ResourceRemoved", "The resource was removed successfully."),
}
#: The properties that say where events can be had.
OFFERS = ("ServerSentEventUri", "Subscriptions")
#: Events of one message.
MOST_EVENTS = 100


def add_event_service(documents: DocumentTree, faults: Faults) -> str:
    """Give a tree an event service; return the URI of its stream, empty where it has none.

    Subscriptions of a recording are not its own, and go.
    """
    root = documents.get(ROOT) or {}
    service_uri = uri_of(value_at(root, "EventService")) or SERVICE
    known = documents.get(service_uri)
    if "no-events" in faults:
        if known is not None:
            documents.put(service_uri, _without_offers(known))
        return ""
    service: Json = known or {
        "@odata.type": "#EventService.v1_10_3.EventService",
        "@odata.id": service_uri,
        "Id": "EventService",
        "Name": "Event Service",
        "ServiceEnabled": True,
        "Status": {"State": "Enabled", "Health": "OK"},
    }
    stream = "" if "no-stream" in faults else f"{service_uri}/SSE"
    collection = uri_of(value_at(service, "Subscriptions")) or f"{service_uri}/Subscriptions"
    for old in documents.member_uris(collection):
        documents.remove(old)
    type_ = "EventDestinationCollection"
    documents.put(collection, collection_document(collection, type_, "Subscriptions"))
    offered: Json = {"Subscriptions": {"@odata.id": collection}}
    offered |= {"ServerSentEventUri": stream} if stream else {}
    documents.put(service_uri, {**_without_offers(service), **offered})
    documents.put(ROOT, {**root, "EventService": {"@odata.id": service_uri}})
    return stream


def _without_offers(service: Json) -> Json:
    """Return an event service without a stream and subscriptions."""
    return {name: value for name, value in service.items() if name not in OFFERS}


def events_of(changes: Iterable[Change], number: int, *, older: bool = False) -> Iterator[bytes]:
    """Yield the messages of changes as server-sent events, as :func:`bodies_of`."""
    for index, body in enumerate(bodies_of(changes, number, older=older)):
        yield b"id: %d\ndata: %s\n\n" % (number + index, msgspec.json.encode(body))


def bodies_of(changes: Iterable[Change], number: int, *, older: bool = False) -> Iterator[Json]:
    """Yield the messages of changes, each resource once, numbered from ``number``.

    ``older`` services name a type in place of a message, and an origin that is no link.
    """
    kinds: dict[str, str] = {}
    for change in changes:
        first = kinds.get(change.uri)
        kinds[change.uri] = first if first and change.kind == "ResourceUpdated" else change.kind
    named = list(kinds.items())
    for start in range(0, len(named), MOST_EVENTS):
        records = [
            _record(kind, uri, index, older=older)
            for index, (uri, kind) in enumerate(named[start : start + MOST_EVENTS])
        ]
        yield {
            "@odata.type": "#Event.v1_2_0.Event" if older else "#Event.v1_10_0.Event",
            "Id": str(number),
            "Name": "Event Array",
            "Events": records,
        }
        number += 1


def _record(kind: str, uri: str, index: int, *, older: bool) -> Json:
    message, text = MESSAGES[kind]
    record: Json = {
        "MemberId": str(index),
        "EventId": str(index),
        "EventTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "Message": text,
    }
    if older:
        return {**record, "EventType": kind, "MessageId": "Base.1.0.Success",
                "OriginOfCondition": uri}  # fmt: skip
    return {**record, "EventType": "Other", "MessageId": f"ResourceEvent.1.3.{message}",
            "MessageSeverity": "OK", "OriginOfCondition": {"@odata.id": uri}}  # fmt: skip
