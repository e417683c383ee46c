# SPDX-License-Identifier: Apache-2.0
"""Bare metal nodes: what Ironic tells of hardware and of its use, and how Ironic is reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.problem import called, of_server
from valence_sched.model.registration import PasswordReference

#: How to do without Ironic, for messages about one that does not answer.
WITHOUT = "--no-ironic, or ironic: false in the settings of a service, does not ask it"

#: The provision states in which a node has no server and Ironic does nothing to it. Every other
#: state is a use, also one that only a later Ironic has. Maintenance is beside the state.
IDLE_STATES = frozenset({"enroll", "manageable", "available"})
#: Those that end by themselves, without a server, and those that only ``manage`` ends.
_PASSING_STATES = frozenset({"verifying", "inspecting", "inspect wait", "cleaning", "clean wait"})
_PASSING_STATES |= {"deleting", "deleted", "undeploy"}
_MANAGED_STATES = frozenset({"inspect failed", "adopt failed", "clean failed"})


class BaremetalNode(Struct, frozen=True, kw_only=True):
    """A node of Ironic, as far as it tells which hardware it is, and what uses it."""

    uuid: str
    name: str | None = None
    driver_info: dict[str, Any] = {}
    provision_state: str | None = None
    maintenance: bool = False
    instance_uuid: str | None = None
    allocation_uuid: str | None = None
    reservation: str | None = None
    instance_info: dict[str, Any] = {}

    @property
    def uses(self) -> tuple[str, ...]:
        """Return in words what uses the node; none where the hardware may be changed."""
        found = {
            f"provision state {self.provision_state}": self.provision_state not in IDLE_STATES,
            f"instance {self.instance_uuid}": self.instance_uuid,
            f"allocation {self.allocation_uuid}": self.allocation_uuid,
            f"locked by conductor {self.reservation}": self.reservation,
        }
        return tuple(words for words, holds in found.items() if holds)

    @property
    def remedy(self) -> str:
        """Return in words how a node that is used becomes free."""
        state = self.provision_state
        if state in _MANAGED_STATES:
            return "manage it there first"
        if state not in IDLE_STATES | _PASSING_STATES:
            return "undeploy it there first"
        if state in IDLE_STATES and self.allocation_uuid:
            return "delete the allocation there first"
        if state in IDLE_STATES and self.instance_uuid:
            return "delete the instance first"
        return "wait until Ironic is done with it"

    @property
    def text(self) -> str:
        server = self.instance_info.get("display_name")
        whose = of_server(server) if isinstance(server, str) else ""
        return f"node {self.uuid}{called(self.name) if self.name else ''}{whose}"


class Baremetal(Protocol):
    """An Ironic; every method raises BaremetalUnavailable where it does not answer well."""

    def nodes(self) -> Sequence[BaremetalNode]:
        """Return all nodes with their ``driver_info``."""

    def node(self, uuid: str) -> BaremetalNode | None:
        """Return a node as it is now, with all that uses it, None where it is gone."""

    def owners(self, mac_addresses: Iterable[str]) -> set[str]:
        """Return the UUIDs of the nodes that have ports with these addresses."""


#: Returns each Ironic that may have the hardware of pod managers; none where none is known.
Baremetals = Callable[[], Sequence[Baremetal]]


class CloudLogin(NamedTuple):
    """A login to a cloud, and which endpoint of its catalogue is meant.

    ``session`` is one of keystoneauth; without a ``region`` every one is meant. The ``endpoint`` is
    that of the configuration, which counts in place of the catalogue.
    """

    session: Any
    interface: Any = "public"
    region: str | None = None
    endpoint: str | None = None


class IronicSettings(Noun, frozen=True, kw_only=True):
    """How Ironic is reached; without a ``url`` at the endpoint of the service catalogue.

    ``username`` and ``password`` are for HTTP basic, ``cafile`` has the authorities to trust.
    Ironic may take ``timeout_s`` for each answer.
    """

    url: str | None = None
    username: str | None = None
    password: PasswordReference | None = None
    cafile: str | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


def check_ironic(settings: IronicSettings, file: str, path: str = "$") -> None:
    """Raise InputError for a URL that is none, and for a login that lacks a part."""
    if settings.url is not None and not _is_url(settings.url):
        expected = "http://HOST or https://HOST, without a user or a query"
        raise InputError(file, f"{path}.url", "a text that is no such URL", expected)
    password = settings.password
    if (settings.username is None) != (password is None):
        raise InputError(file, path, "half of a login", "username and password, or neither")
    if settings.username is not None and settings.url is None:
        raise InputError(file, path, "a login without a url", "the url that it is for")
    if password and not password.names_one_source:
        raise InputError(file, f"{path}.password", "no reference", "exactly one of env and file")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usual = parts.port != 0 and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False
    return usual and text.isprintable() and "@" not in parts.netloc and not parts.query
