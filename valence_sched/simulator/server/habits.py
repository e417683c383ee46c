# SPDX-License-Identifier: Apache-2.0
"""Habits of older and of careless services, each by a fault rule: in what they send and compose."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.system import devices_of
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    array_of,
    object_of,
)
from valence_sched.simulator.server.faults import Faults


def is_root_elsewhere(path: str, faults: Faults) -> bool:
    """Return whether a path is the spelling of the root at which nothing answers."""
    return ("slash-root" in faults and path == ROOT) or (
        "bare-root" in faults and path == f"{ROOT}/"
    )


def shaped_document(json: Json, uri: str, faults: Faults) -> Json:
    """Return a document as a pod manager with these habits sends it."""
    if "no-members" in faults and faults.take("no-members", "GET", uri, uri):
        json = {key: value for key, value in json.items() if not key.startswith("Members")}
    if "short-links" in faults:
        json = _with_short_links(json, uri)
    if "older-collections" in faults:
        json = _with_members_below_links(json)
    if "older-root" in faults and uri == ROOT:
        entries = {key: value for key, value in json.items() if _is_link(value)}
        rest = {key: value for key, value in json.items() if key not in entries}
        json = {**rest, "Links": {**entries, **object_of(json, "Links")}}
    return json


def _with_members_below_links(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_members_below_links(part) for part in value]
    if not isinstance(value, dict):
        return value
    json = {key: _with_members_below_links(part) for key, part in value.items()}
    if "Members" not in json:
        return json
    below = {key: part for key, part in json.items() if key.startswith("Members")}
    rest = {key: part for key, part in json.items() if key not in below}
    return {**rest, "Links": {**object_of(json, "Links"), **below}}


def _with_short_links(value: Any, base: str) -> Any:
    if isinstance(value, list):
        return [_with_short_links(part, base) for part in value]
    if not isinstance(value, dict):
        return value
    if _is_link(value):
        uri: str = value["@odata.id"]
        return {"@odata.id": ROOT + uri.removeprefix(base)} if uri.startswith(f"{base}/") else value
    own = value.get("@odata.id")  # an expanded document has a path of its own
    base = own.rstrip("/") if isinstance(own, str) and "#" not in own else base
    return {key: _with_short_links(part, base) for key, part in value.items()}


def _is_link(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("@odata.id"), str)


#: Bodies that are no document, by the word of the rule ``body``.
BODIES: Mapping[str, bytes] = {
    "text": b"It is done.", "number": b"42", "list": b"[]", "object": b"{}",
}  # fmt: skip
#: Properties that tell one device from another that is equal.
_OWN = ("Id", "Name", "SerialNumber", "UUID", "PartNumber", "MACAddress", "PermanentMACAddress")


class Habits:
    """The habits of one pod manager."""

    def __init__(self, documents: DocumentTree, faults: Faults) -> None:
        self._documents, self._faults = documents, faults

    def __contains__(self, rule: str) -> bool:
        return rule in self._faults

    def name_of(self, wanted: str | None) -> str | None:
        """Return the name that a new node gets, None for one of the pod manager's own."""
        return None if "own-names" in self or "uri-names" in self else wanted

    def id_of(self, wanted: str | None) -> str | None:
        """Return the last part of the URI of a new node, None for one of its own."""
        return None if "own-names" in self else wanted

    def stays_unused(self, block: str) -> bool:
        """Return whether a block never says that a node has it."""
        names = (block, block.rpartition("/")[2])
        patterns = self._faults.paths("stays-unused")
        return any(fnmatch.fnmatchcase(name, it) for it in patterns for name in names)

    def created(self, uri: str) -> SimulatedReply:
        """Return the answer to a composition."""
        if "no-location" in self:
            return SimulatedReply(201)
        return SimulatedReply(201, self._documents.get(uri), {"Location": uri})

    def with_equals(self, named: Sequence[str]) -> tuple[str, ...]:
        """Return blocks with the last free equal one in place of each, where there is one."""
        if "equal-device" not in self:
            return tuple(named)
        zones = [set(inside) for _, _, inside in blocks.zones(self._documents)]
        found: list[str] = []
        for uri in named:
            used, wanted = {*named, *found}, self._content(uri)
            equal = [it for it, json in blocks.blocks(self._documents) if it not in used
                     and self._content(it) == wanted
                     and all((it in zone) == (uri in zone) for zone in zones)
                     and blocks.has_room(json)
                     and not json["CompositionStatus"].get("Reserved")]  # fmt: skip
            found.append(equal[-1] if equal else uri)
        return tuple(found)

    def _content(self, uri: str) -> Any:
        json = self._documents.get(uri) or {}
        devices = devices_of(self._documents, json)
        content = {
            kind: sorted(str(sorted(content_of(one).items())) for one in found.values())
            for kind, found in devices.items()
        }
        return content, array_of(json, "ResourceBlockType"), blocks.is_shareable(json)


def content_of(device: Json) -> Json:
    """Return the properties of a device that an equal one has, too."""
    plain = ((key, value) for key, value in device.items() if not isinstance(value, dict | list))
    return {key: value for key, value in plain if key not in _OWN and not key.startswith("@")}
