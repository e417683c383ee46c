# SPDX-License-Identifier: Apache-2.0
"""Changes to the documents of a rack: collection members, links, fabric zones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from valence_sched.drivers.fields import links, objects
from valence_sched.simulator.server.documents import DocumentTree, Json, value_at

ROOT = "/redfish/v1"


def link(json: Json | None, *keys: str) -> str | None:
    """Return the link below these keys."""
    return next((uri for uri in links(value_at(json, *keys)) if uri), None)


def root_links(documents: DocumentTree, name: str) -> list[str]:
    """Return the links of this name in the service root: its own, and those of the rack."""
    root = documents.get(ROOT)
    found = [link(root, name), link(root, "Oem", "Intel_RackScale", name)]
    return list(dict.fromkeys(uri for uri in found if uri))


def members(documents: DocumentTree, uri: str | None) -> list[str]:
    """Return the members of a collection, none where there is no such collection."""
    found = links(value_at(documents.get(uri), "Members")) if uri else ()
    return [member for member in found if member]


def change(documents: DocumentTree, uri: str, by: Callable[[Json], object]) -> None:
    """Change a document, if it is there."""
    if (json := documents.get(uri)) is not None:
        json = copy.deepcopy(json)
        by(json)
        documents.put(uri, json)


def add_member(documents: DocumentTree, collection: str, json: Json) -> None:
    """Put a document and list it in its collection."""
    uri = json["@odata.id"]
    documents.put(uri, json)
    _list(documents, collection, lambda listed: [*listed, {"@odata.id": uri}])


def remove_member(documents: DocumentTree, collection: str, uri: str) -> None:
    """Remove a document and its place in its collection."""
    documents.remove(uri)
    _list(
        documents,
        collection,
        lambda listed: [
            it for it in listed if str(value_at(it, "@odata.id")).rstrip("/") != uri.rstrip("/")
        ],
    )


def free_id(documents: DocumentTree, collection: str) -> str:
    """Return the first number that no document below a collection has."""
    number = 1
    while f"{collection}/{number}" in documents:
        number += 1
    return str(number)


def fabrics(documents: DocumentTree) -> Iterator[Json]:
    """Yield the fabrics."""
    for collection in root_links(documents, "Fabrics"):
        for uri in members(documents, collection):
            if (json := documents.get(uri)) is not None:
                yield json


def endpoints_of(documents: DocumentTree, fabric: Json, devices: Iterable[str]) -> list[str]:
    """Return the endpoints of a fabric that offer one of these devices."""
    wanted = set(devices)
    return [
        uri
        for uri in members(documents, link(fabric, "Endpoints"))
        if any(
            link(entity, "EntityLink") in wanted and entity.get("EntityRole") != "Initiator"
            for entity in objects(value_at(documents.get(uri), "ConnectedEntities"))
        )
    ]


def connect(documents: DocumentTree, devices: Iterable[str], host: str) -> None:
    """Make a zone in each fabric that offers some of these devices to a system."""
    devices = list(devices)
    for fabric in fabrics(documents):
        zones, ends = link(fabric, "Zones"), endpoints_of(documents, fabric, devices)
        if zones is None or not ends:
            continue
        id_ = free_id(documents, zones)
        hosts = [*links(value_at(documents.get(host), "Links", "Endpoints"))]
        inside = set(members(documents, link(fabric, "Endpoints")))
        ends += [end for end in hosts if end in inside]
        zone = {
            "@odata.id": f"{zones}/{id_}",
            "Id": id_,
            "Name": f"Zone {id_}",
            "Status": {"State": "Enabled", "Health": "OK"},
            "Links": {"Endpoints": [{"@odata.id": end} for end in ends]},
        }
        add_member(documents, zones, zone)
        for end in ends:
            change(documents, end, partial(_set_zones, zones=[f"{zones}/{id_}"]))


def disconnect(documents: DocumentTree, devices: Iterable[str]) -> None:
    """Remove the zones that connect one of these devices."""
    devices = list(devices)
    for fabric in fabrics(documents):
        zones, ends = link(fabric, "Zones"), set(endpoints_of(documents, fabric, devices))
        for end in ends:
            change(documents, end, partial(_set_zones, zones=[]))
        for uri in members(documents, zones):
            inside = links(value_at(documents.get(uri), "Links", "Endpoints"))
            if zones and ends & set(inside):
                remove_member(documents, zones, uri)
                for end in inside:
                    change(documents, end, partial(_set_zones, zones=[]))


def _set_zones(endpoint: Json, zones: list[str]) -> None:
    rack = value_at(endpoint, "Links", "Oem", "Intel_RackScale")
    if isinstance(rack, dict):
        rack["Zones"] = [{"@odata.id": uri} for uri in zones]


def _list(documents: DocumentTree, collection: str, edit: Callable[[list[Any]], list[Any]]) -> None:
    def by(json: Json) -> None:
        listed = json.get("Members")
        json["Members"] = edit(listed if isinstance(listed, list) else [])
        json["Members@odata.count"] = len(json["Members"])

    change(documents, collection, by)
