# SPDX-License-Identifier: Apache-2.0
"""The identity of a service: the UUID of its root, RSD root or manager, else its address."""

import ipaddress
import socket
from urllib.parse import urlsplit

from msgspec.structs import replace

from valence_sched.drivers.document_shape import MEMBERS
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Link, Resource, links, text
from valence_sched.drivers.links import ROOT, LinkedDocuments, collection_pages
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_address import ADDRESS_KIND, uuid_identity


class ServiceManager(Resource):
    """Manager, for its identity."""

    service_uuid = Field("ServiceEntryPointUUID", text, "the UUID of its service")
    uuid = Field("UUID", text, "its own UUID")


class ServiceIdentity(Resource):
    """ServiceRoot, for its identity."""

    uuid = Field("UUID", text, "the UUID of the service")
    rsd_uuid = Field("Oem/Intel_RackScale/UUID", text, "the UUID of a rack")
    provider = Link("Links/ManagerProvidingService", ServiceManager, "the manager it runs on")
    managers = Field("Managers", links, "a single manager identifies the service")

    @property
    def identity(self) -> str | None:
        return uuid_identity(self.uuid) or uuid_identity(self.rsd_uuid)


def root_identity(root: Json | None) -> str | None:
    return ServiceIdentity(ROOT, root, NO_NOTES).identity if root else None


def service_identity(service: LinkedDocuments) -> str | None:
    """Return the identity that a service states in its root or its only manager."""
    quiet = LinkedDocuments(service.get, NO_NOTES)
    root = ServiceIdentity(ROOT, quiet.json(ROOT, ROOT) or {}, service.notes)
    if identity := root.identity:
        return identity
    for value in filter(None, (root.uuid, root.rsd_uuid)):
        what = f"UUID: found {value[:60]!r}, expected a unique UUID"
        service.notes.remark(f"{ROOT}: {what} (identified by its manager or its address)")
    uris = [uri for link in (root.provider, root.managers) for uri in service.uris(link, ROOT)]
    for manager in filter(None, (_only_manager(quiet, uri) for uri in uris)):
        if identity := uuid_identity(manager.service_uuid) or uuid_identity(manager.uuid):
            return identity
    return None


def _only_manager(service: LinkedDocuments, uri: str) -> ServiceManager | None:
    """Return the manager at a URI, or the only member of that collection if it is complete."""

    def read(uri: str) -> Json | None:
        return service.json(uri, ROOT)

    if MEMBERS in (read(uri) or {}):
        uris: list[str] = []
        next_link = None
        for page in collection_pages(read, uri):
            uris += service.uris(page.members, page.uri)
            next_link = page.next_link
            if len(uris) > 1:
                break
        if len(uris) != 1 or next_link is not None:
            return None
        uri = uris[0]
    return ServiceManager(uri, read(uri) or {}, NO_NOTES)


def with_identity(podm: FullPodm) -> FullPodm:
    if podm.identity is not None or podm.url is None:
        return podm
    return replace(podm, identity=address_identity(podm.url))


def address_identity(url: str) -> str:
    return f"{ADDRESS_KIND}{min(addresses(url))}"


def addresses(url: str) -> frozenset[str]:
    """Return the addresses with ports that a URL resolves to; else its host with the port."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or {"https": 443, "http": 80}.get(parts.scheme, 0)
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
        plain.add(f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}")
    return frozenset(plain)
