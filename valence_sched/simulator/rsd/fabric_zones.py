# SPDX-License-Identifier: Apache-2.0
"""Zones in the fabrics of a rack: each connects pooled devices with the system of a node."""

import contextlib
import copy
from collections.abc import Iterable, Iterator

from valence_sched.drivers.fields import objects
from valence_sched.drivers.links import ROOT
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, Json


def root_links(documents: DocumentTree, name: str) -> list[str]:
    root = documents.get(ROOT)
    found = [docs.uri_at(root, name), docs.uri_at(root, "Oem", "Intel_RackScale", name)]
    return list(dict.fromkeys(filter(None, found)))


def listed(documents: DocumentTree, *names: str) -> list[tuple[str, Json]]:
    """Return the documents in collections of the root by their URI."""
    links = (link for name in names for link in root_links(documents, name))
    uris = dict.fromkeys(uri for link in links for uri in documents.member_uris(link))
    return [(uri, json) for uri in uris if (json := documents.get(uri)) is not None]


@contextlib.contextmanager
def changed_copy(documents: DocumentTree, uri: str) -> Iterator[Json]:
    """Yield a copy of a document, empty if it is missing; the copy then replaces the document."""
    json = copy.deepcopy(documents.get(uri))
    yield {} if json is None else json
    if json is not None:
        documents.put(uri, json)


def _endpoints_of(documents: DocumentTree, fabric: Json, devices: set[str]) -> list[str]:
    def offers(end: str) -> bool:
        entities = objects(docs.value_at(documents.get(end), "ConnectedEntities"))
        offered = (it for it in entities if it.get("EntityRole") != "Initiator")
        return any(docs.uri_at(it, "EntityLink") in devices for it in offered)

    return list(filter(offers, documents.member_uris(docs.uri_at(fabric, "Endpoints"))))


def connect(documents: DocumentTree, devices: set[str], host: str) -> None:
    """Make a zone in each fabric that offers some of these devices to a system."""
    for _, fabric in listed(documents, "Fabrics"):
        zones, ends = docs.uri_at(fabric, "Zones"), _endpoints_of(documents, fabric, devices)
        if not zones or not ends:
            continue
        id_ = documents.free_id(zones)
        inside = set(documents.member_uris(docs.uri_at(fabric, "Endpoints")))
        hosts = docs.uris_at(documents.get(host), "Links", "Endpoints")
        ends += [end for end in hosts if end in inside]
        uri, name = f"{zones}/{id_}", f"Zone {id_}"
        joined = {"Endpoints": docs.links_to(ends)}
        zone = {"@odata.id": uri, "Id": id_, "Name": name, "Status": docs.OK, "Links": joined}
        documents.add_member(zones, zone)
        _set_zones(documents, ends, [uri])


def disconnect(documents: DocumentTree, devices: set[str]) -> None:
    for _, fabric in listed(documents, "Fabrics"):
        zones, ends = docs.uri_at(fabric, "Zones"), _endpoints_of(documents, fabric, devices)
        _set_zones(documents, ends, [])
        for uri in documents.member_uris(zones):
            inside = docs.uris_at(documents.get(uri), "Links", "Endpoints")
            if not set(ends).isdisjoint(inside):
                documents.remove_member(zones, uri)
                _set_zones(documents, inside, [])


def _set_zones(documents: DocumentTree, endpoints: Iterable[str], zones: list[str]) -> None:
    for end in endpoints:
        with changed_copy(documents, end) as endpoint:
            rack = docs.value_at(endpoint, "Links", "Oem", "Intel_RackScale")
            if isinstance(rack, dict):
                rack["Zones"] = docs.links_to(zones)
