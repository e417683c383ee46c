# SPDX-License-Identifier: Apache-2.0
"""Subscriptions of a simulated pod manager: where its events are sent."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    uri_of,
    value_at,
)
from valence_sched.simulator.server.errors import not_found, refusal
from valence_sched.simulator.server.event_service import SERVICE

MOST_SUBSCRIPTIONS = 20


class Destination(NamedTuple):
    """Where events are sent, and the words of the client that asked for them."""

    url: str
    context: str


class Subscriptions:
    """The subscriptions of one pod manager; its documents are theirs."""

    def __init__(self, documents: DocumentTree) -> None:
        self._documents = documents
        service = value_at(documents.get("/redfish/v1"), "EventService")
        found = value_at(documents.get(uri_of(service) or SERVICE), "Subscriptions")
        self.collection = uri_of(found)

    def destinations(self) -> Iterator[Destination]:
        """Yield where events are sent."""
        for uri in self._documents.member_uris(self.collection) if self.collection else ():
            json = self._documents.get(uri) or {}
            yield Destination(str(json.get("Destination")), str(json.get("Context") or ""))

    def create(self, body: Json) -> SimulatedReply:
        """Subscribe: 201 with where it is, or why not."""
        destination, protocol = body.get("Destination"), body.get("Protocol")
        if not isinstance(destination, str) or not isinstance(protocol, str):
            text = "A subscription needs Destination and Protocol."
            return refusal(400, "CreateFailedMissingReqProperties", text, "Destination")
        if protocol != "Redfish" or not _on_loopback(destination):
            text = "Events are sent by the protocol Redfish, to http URLs on this machine."
            return refusal(400, "PropertyValueNotInList", text, protocol, "Protocol")
        if len(self._documents.member_uris(self.collection)) >= MOST_SUBSCRIPTIONS:
            text = f"No more than {MOST_SUBSCRIPTIONS} subscriptions at a time."
            return refusal(503, "EventSubscriptionLimitExceeded", text)
        id_ = self._documents.free_id(self.collection)
        uri = f"{self.collection}/{id_}"
        context = body.get("Context")
        json: Json = {
            "@odata.type": "#EventDestination.v1_13_0.EventDestination",
            "@odata.id": uri,
            "Id": id_,
            "Name": f"Subscription {id_}",
            "Destination": destination,
            "Protocol": protocol,
            "Context": context if isinstance(context, str) else None,
            "SubscriptionType": "RedfishEvent",
        }
        self._documents.put(uri, json)
        self._documents.list_member(self.collection, uri)
        return SimulatedReply(201, json, {"Location": uri})

    def delete(self, uri: str) -> SimulatedReply:
        """Unsubscribe."""
        if uri not in self._documents.member_uris(self.collection):
            return not_found(uri)
        self._documents.remove(uri)
        self._documents.unlist_member(self.collection, uri)
        return SimulatedReply(204)


def _on_loopback(url: str) -> bool:
    """Return whether a URL is of this machine: a simulator sends nothing anywhere else."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
        return parts.scheme == "http" and loopback and (parts.port or 80) > 0
    except ValueError:
        return False
