# SPDX-License-Identifier: Apache-2.0
"""Dialects of Redfish services, and the identity of a service: its UUID, else its address."""

import ipaddress
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from valence_sched.drivers.composer import Composer, Session
from valence_sched.drivers.document_shape import MEMBERS, current_form
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Link, Resource, links, text
from valence_sched.drivers.http.exchange import MakePatience
from valence_sched.drivers.links import ROOT, LinkedDocuments, collection_pages, link_paths
from valence_sched.errors import PluginError, UnknownName, describe_error
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_address import ADDRESS_KIND, uuid_identity
from valence_sched.model.registration import AUTO


class ServiceManager(Resource):
    """Manager, read for its identity."""

    service_uuid = Field("ServiceEntryPointUUID", text, "the UUID of its service")
    uuid = Field("UUID", text, "its own UUID")


class ServiceIdentity(Resource):
    """ServiceRoot, read for its identity."""

    uuid = Field("UUID", text, "the UUID of the service")
    rsd_uuid = Field("Oem/Intel_RackScale/UUID", text, "the UUID of a rack")
    provider = Link("Links/ManagerProvidingService", ServiceManager, "the manager of the service")
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
    """Return the manager at a URI; for a complete collection, return its only member."""

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


#: The dialect of a service root that no other dialect recognises.
STANDARD = "redfish"


class Dialect(NamedTuple):
    """One kind of Redfish service; ``name`` is its entry point in ``valence_sched.dialects``."""

    name: str
    #: The class of the service root; the crawl follows each ``fields.Link`` from there.
    root: type[Resource]
    #: Reads a pod manager from its documents, its id and the name of the driver.
    read: Callable[[LinkedDocuments, str, str], FullPodm]
    #: Whether a service root is of this dialect. By default no root is: only a registration
    #: selects the dialect.
    recognise: Callable[[Json], bool] = lambda _root: False
    #: Makes a composer from a session and a factory of Patience; None if the dialect only reads.
    composer: Callable[[Session, MakePatience], Composer] | None = None
    #: The stock resources of which its composer can compose amounts.
    amounts: frozenset[str] = frozenset()
    #: A root with at least one of these links has a composition service; empty means any link.
    services: tuple[Link, ...] = ()
    #: Links to blocks in a root without a composition service.
    bare_blocks: tuple[Link, ...] = ()
    #: Links to the hosts of a root without a composition service: each host is a block.
    hosts: tuple[Link, ...] = ()

    def inventory(self, service: LinkedDocuments, id_: str) -> FullPodm:
        """Read a pod manager and its identity; note a root without a composition service."""
        podm = self.read(service, id_, self.name)
        root = service.json(ROOT, "the protocol")
        now = self.root(ROOT, root or {}, NO_NOTES)
        offers = (podm.blocks and self.host_lists(now)) or (podm.stocks and self.hosts)
        if root and not self.has_service(now) and not offers:
            service.notes.remark(f"{ROOT}: found no link to a composition service, expected one")
        return replace(podm, identity=podm.identity or service_identity(service))

    def has_service(self, root: Resource) -> bool:
        services = self.services or [way for way in root.link_fields if isinstance(way, Link)]
        return any(link for way in services for link in way.of(root))

    def host_lists(self, root: Resource) -> tuple[str, ...]:
        """Return the URIs of the lists of hosts, none with a composition service."""
        return tuple(uri for way in self.hosts for uri in link_paths(way.of(root)))

    def refusal(self, resources: Iterable[str]) -> str | None:
        """Return the reason why no node with amounts of these resources can be composed."""
        if self.composer is None:
            return f"driver {self.name!r} only reads pod managers and cannot compose"
        lacking = sorted(set(resources) - self.amounts)
        return f"driver {self.name!r} cannot compose {', '.join(lacking)}" if lacking else None


#: The installed dialects: functions that return them, by name.
Dialects = Mapping[str, Callable[[], Dialect]]


def recognised_dialect(root: Json | None, dialects: Dialects) -> Dialect:
    """Return the first dialect, in the order of names, that recognises a root, else ``redfish``.

    PluginError: a dialect fails. UnknownName: ``redfish`` is not installed.
    """
    present = current_form(root, root=True) if root else {}
    for name in dialects if present else ():
        try:
            dialect = dialects[name]()
            if dialect.recognise(present):
                return dialect
        except Exception as error:
            raise PluginError(f"dialect {name!r}: {describe_error(error)}") from error
    if STANDARD not in dialects:
        raise UnknownName("dialect", STANDARD, dialects)
    return dialects[STANDARD]()


def dialect_of_driver(driver: str, root: Json | None, dialects: Dialects, podm: str) -> Dialect:
    """Return the dialect that a registration names; ``auto``: :func:`recognised_dialect`."""
    if driver == AUTO:
        return recognised_dialect(root, dialects)
    if driver not in dialects:
        raise UnknownName("driver", driver, dialects, podm)
    return dialects[driver]()
