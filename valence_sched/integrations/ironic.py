# SPDX-License-Identifier: Apache-2.0
"""Ironic: the bare metal nodes of a cloud, or of a standalone Ironic.

An incomplete answer is an error: without some nodes or ``driver_info``, hardware in use would seem
free.
"""

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from keystoneauth1.exceptions import ClientException
from keystoneauth1.exceptions.connection import SSLError
from keystoneauth1.http_basic import HTTPBasicAuth
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from valence_sched.errors import BaremetalUnavailable
from valence_sched.model.baremetal import WITHOUT, BaremetalNode, CloudLogin
from valence_sched.model.http import MALFORMED

T = TypeVar("T")

SERVICE_TYPE = "baremetal"
VERSION_HEADER = "X-OpenStack-Ironic-API-Version"
LATEST_HEADER = "X-OpenStack-Ironic-API-Maximum-Version"
LEAST_MINOR = 52  # API 1.52 adds the allocation of a node
PROJECT_MINOR = 65  # API 1.65 filters nodes by project, earlier versions by owner
CHILDREN_MINOR = 83  # API 1.83 adds child nodes, which lists contain only on request
PAGE_NODES = 500
MOST_NODES = 100_000
HIDDEN = "** Redacted"  # start of the placeholder of a value that the user may not read
#: Ironic 39 fails on allocations in a list of nodes, so instances are listed instead.
_LISTED = "uuid,name,driver_info,provision_state,instance_uuid,reservation"
_SHOWN = f"{_LISTED},maintenance,allocation_uuid,instance_info"


class _Version(msgspec.Struct):
    version: str


class _VersionAnswer(msgspec.Struct):
    version: _Version


class _NodesAnswer(msgspec.Struct):
    nodes: list[BaremetalNode]
    next: str | None = None


class _Port(msgspec.Struct):
    node_uuid: str


class _PortsAnswer(msgspec.Struct):
    ports: list[_Port]


class Ironic:
    """The Ironic service at a URL; ``session`` logs in. Thread-safe."""

    def __init__(self, session: Session, url: str, timeout_s: float = 30.0) -> None:
        self._session, self._timeout_s = session, timeout_s
        self.url = url.rstrip("/").removesuffix("/v1").rstrip("/")
        self._known_minor: int | None = None

    def is_ironic(self) -> bool:
        """Return True if the service at the URL is an Ironic; else raise BaremetalUnavailable."""
        return LATEST_HEADER in self._send("/v1", {}, None).headers

    def nodes(self) -> list[BaremetalNode]:
        """Return all nodes; the service lists them in pages."""
        self._check_sees_all()
        query: dict[str, Any] = {"fields": _LISTED, "limit": PAGE_NODES}
        if self._minor >= CHILDREN_MINOR:
            query["include_children"] = True
        found: dict[str, BaremetalNode] = {}
        while len(found) <= MOST_NODES:
            page = self._get("/v1/nodes", _NodesAnswer, query)
            new = {node.uuid: self._checked(node) for node in page.nodes}
            if page.next is not None and new.keys() <= found.keys():
                raise self._error("an empty page of nodes that links another page")
            found |= new
            if page.next is None:
                return list(found.values())
            # the link to the next page may be unreachable from this host
            query["marker"] = page.nodes[-1].uuid
        raise self._error(f"more than {MOST_NODES:,} nodes")

    def node(self, uuid: str) -> BaremetalNode | None:
        """Return the present node, None if it is gone."""
        answer = self._send(f"/v1/nodes/{uuid}", {"fields": _SHOWN}, self._minor)
        if answer.status_code == 404:
            return None
        return self._checked(self._decode(answer, BaremetalNode))

    def owners(self, mac_addresses: Iterable[str]) -> set[str]:
        """Return the UUIDs of the nodes that have ports with these addresses."""
        found: set[str] = set()
        for address in sorted(mac_addresses):
            query = {"address": address, "fields": "uuid,node_uuid"}
            found |= {one.node_uuid for one in self._get("/v1/ports", _PortsAnswer, query).ports}
        return found

    @property
    def _minor(self) -> int:
        if self._known_minor is None:
            text = self._decode(self._send("/v1", {}, None), _VersionAnswer).version.version
            match = re.fullmatch(r"1\.([0-9]{1,4})", text)
            if match is None or int(match[1]) < LEAST_MINOR:
                raise self._error(f"API version {text[:20]!r}, expected 1.{LEAST_MINOR} or later")
            self._known_minor = min(int(match[1]), CHILDREN_MINOR)
        return self._known_minor

    def _check_sees_all(self) -> None:
        """Raise if the user sees only the nodes of one project; the list itself does not show this.

        Ironic refuses to list the nodes of another project to such a user.
        """
        name = "project" if self._minor >= PROJECT_MINOR else "owner"
        query = {name: uuid.uuid4().hex, "limit": 1, "fields": "uuid"}
        answer = self._send("/v1/nodes", query, self._minor)
        if answer.status_code == 403:
            raise self._error("HTTP 403: the user may not list the nodes of all projects")
        self._decode(answer, _NodesAnswer)

    def _checked(self, node: BaremetalNode) -> BaremetalNode:
        values = (*node.driver_info.values(), node.reservation)
        if any(isinstance(one, str) and one.startswith(HIDDEN) for one in values):
            lacking = "driver_info or lock, which the user may not read"
            raise self._error(f"node {node.uuid} without {lacking}")
        return node

    def _get(self, path: str, kind: type[T], query: Mapping[str, Any]) -> T:
        return self._decode(self._send(path, query, self._minor), kind)

    def _send(self, path: str, query: Mapping[str, Any], minor: int | None) -> Any:
        headers = {"Accept": "application/json"}
        if minor is not None:
            headers[VERSION_HEADER] = f"1.{minor}"
        try:
            options = {"raise_exc": False, "redirect": False, "timeout": self._timeout_s}
            where = self.url + path
            return self._session.get(where, params=query, headers=headers, log=False, **options)
        except SSLError:
            raise self._error("a certificate that is not trusted") from None
        except (ClientException, OSError, *MALFORMED) as error:
            self._session.invalidate()  # it may hold a token whose end cannot be read
            raise self._error(f"no answer ({type(error).__name__})") from None

    def _decode(self, answer: Any, kind: type[T]) -> T:
        if (status := answer.status_code) != 200:
            why = {401: ": the login is rejected", 403: ": the user may not list nodes"}
            raise self._error(f"HTTP {status}{why.get(status, '')}")
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._error("no document of Ironic") from None

    def _error(self, found: str) -> BaremetalUnavailable:
        return _unavailable(f"Ironic at {self.url} does not report its nodes: found {found}")


def ironic_at(
    url: str,
    username: str | None = None,
    password: str | None = None,
    verify: bool | str = True,
    timeout_s: float = 30.0,
) -> Ironic:
    """Return the Ironic at a URL, without a login or with HTTP basic authentication."""
    auth: Any = NoAuth(endpoint=url)
    if username is not None:
        auth = HTTPBasicAuth(endpoint=url, username=username, password=password)
    return Ironic(Session(auth=auth, verify=verify), url, timeout_s)


def ironics_of(login: CloudLogin, timeout_s: float) -> list[Ironic]:
    """Return each Ironic in the catalogue of a cloud; BaremetalUnavailable without an Ironic."""
    session = login.session
    try:
        if hasattr(session.auth, "get_access"):
            urls = [login.endpoint] if login.endpoint else _catalogue_urls(login)
            return [Ironic(session, url, timeout_s) for url in urls]
        url = login.endpoint or session.auth.get_endpoint(session, service_type=SERVICE_TYPE)
    except (ClientException, OSError, *MALFORMED) as error:
        session.invalidate()
        raise _no_catalogue(f"no token ({type(error).__name__})") from None
    # a login without a catalogue has the same endpoint for all services
    only = [Ironic(session, url, timeout_s)] if url else []
    return [one for one in only if one.is_ironic()]


def _catalogue_urls(login: CloudLogin) -> list[str]:
    access = login.session.auth.get_access(login.session)
    if not access.has_service_catalog():
        raise _no_catalogue("the token has no scope and therefore no catalogue")

    def urls(kind: str | None, interface: str | None) -> list[str]:
        found = access.service_catalog.get_endpoints_data(
            service_type=kind, interface=interface, region_name=login.region
        )
        return list(dict.fromkeys(one.url for some in found.values() for one in some))

    found = urls(SERVICE_TYPE, login.interface)
    if not found and urls(SERVICE_TYPE, None):
        raise _no_catalogue(f"the catalogue has Ironic, but not for interface {login.interface}")
    if not found and login.region and not urls(None, None):
        raise _no_catalogue(f"the catalogue has no region {login.region!r}")
    return found


def _no_catalogue(why: str) -> BaremetalUnavailable:
    return _unavailable(f"the cloud has no URL of Ironic: {why}")


def _unavailable(what: str) -> BaremetalUnavailable:
    return BaremetalUnavailable(f"{what}: no hardware is changed ({WITHOUT})")
