# SPDX-License-Identifier: Apache-2.0
"""Reads the identity of a service: UUID of its root, its RSD root or its manager, else address."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from msgspec.structs import replace

from valence_sched.drivers.document_shape import MEMBERS
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Link, Resource, links, text
from valence_sched.drivers.links import ROOT, Get, LinkedDocuments, collection_pages
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_address import ADDRESS_KIND, uuid_identity

PORTS = {"https": 443, "http": 80}


class ServiceManager(Resource):
    """Manager, for its identity."""

    service_uuid = Field("ServiceEntryPointUUID", text, "the UUID of the service it provides")
    uuid = Field("UUID", text, "its own UUID")


class ServiceIdentity(Resource):
    """ServiceRoot, for its identity."""

    uuid = Field("UUID", text, "the UUID of the service")
    rsd_uuid = Field("Oem/Intel_RackScale/UUID", text, "the UUID of a rack")
    provider = Link("Links/ManagerProvidingService", ServiceManager, "the manager it runs on")
    managers = Field("Managers", links, "if there is one, it stands for the service")

    @property
    def told(self) -> str | None:
        return uuid_identity(self.uuid) or uuid_identity(self.rsd_uuid)


def root_identity(root: Json | None) -> str | None:
    """Return the identity that a service root tells, None where it tells none."""
    return ServiceIdentity(ROOT, root, NO_NOTES).told if root else None


def told_identity(get: Get, service: LinkedDocuments) -> str | None:
    """Return the identity that a service tells in its root or by its manager, None for neither.

    The managers of many systems stand for those, and not for the service. ``get`` reads a document;
    ``service`` spells links and takes the notes.
    """
    quiet = LinkedDocuments(get, NO_NOTES)
    found = ServiceIdentity(ROOT, quiet.json(ROOT, ROOT) or {}, service.notes)
    if told := found.told:
        return told
    for value in (found.uuid, found.rsd_uuid):
        if value is not None:
            what = f"UUID: found {value[:60]!r}, expected a UUID of its own"
            service.notes.remark(f"{ROOT}: {what} (it is known by its manager or its address)")
    uris = [uri for link in (found.provider, found.managers) for uri in service.uris(link, ROOT)]
    for uri in uris:
        members = list(_members(quiet, uri))
        if len(members) == 1:
            manager = ServiceManager(*members[0], NO_NOTES)
            told = uuid_identity(manager.service_uuid) or uuid_identity(manager.uuid)
            if told:
                return told
    return None


def _members(service: LinkedDocuments, uri: str) -> list[tuple[str, Json]]:
    """Of several members none is read; a collection with an unread page may have several."""

    def read(uri: str) -> Json | None:
        return service.json(uri, ROOT)

    json = read(uri) or {}
    if MEMBERS not in json:
        return [(uri, json)]
    named: list[str] = []
    unread: str | None = None
    for page in collection_pages(read, uri):
        named += service.uris(page.members, page.uri)
        unread = page.next_link
        if len(named) > 1:
            break
    is_only = len(named) == 1 and unread is None
    return [(named[0], read(named[0]) or {})] if is_only else []


def with_identity(podm: FullPodm) -> FullPodm:
    """Return a pod manager that was read, known by its address where it tells no identity."""
    if podm.identity is not None or podm.url is None:
        return podm
    return replace(podm, identity=address_identity(podm.url))


def address_identity(url: str) -> str:
    """Return the identity of a service by the address that its URL resolves to."""
    return f"{ADDRESS_KIND}{min(addresses(url))}"


def addresses(url: str) -> frozenset[str]:
    """Return the addresses with ports that a URL resolves to; a host that does not is its own."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0)
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return frozenset([f"{host.casefold()}:{port}"])
    plain: set[str] = set()
    for one in found:
        address = ipaddress.ip_address(str(one).partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        if address == ipaddress.IPv6Address("::1"):
            address = ipaddress.IPv4Address("127.0.0.1")
        plain.add(str(address) if address.version == 4 else f"[{address}]")
    return frozenset(f"{address}:{port}" for address in plain)
