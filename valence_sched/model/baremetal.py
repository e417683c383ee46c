# SPDX-License-Identifier: Apache-2.0
"""Bare metal nodes: hardware that Ironic uses, and the connection to Ironic."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.http import CALLED, SERVER, foreign_phrase
from valence_sched.model.podm_address import is_http_url
from valence_sched.model.registration import PasswordReference

WITHOUT = "--no-ironic, or ironic: false in the settings of a service, skips this check"
#: The provision states in which Ironic does not use the node. Any other state counts as a use,
#: including states that later versions of Ironic add.
IDLE_STATES = frozenset({"enroll", "manageable", "available"})
#: States that end by themselves, and states that only the action ``manage`` ends.
_PASSING_STATES = frozenset({"verifying", "inspecting", "inspect wait", "cleaning", "clean wait"})
_PASSING_STATES |= {"deleting", "deleted", "undeploy"}
_MANAGED_STATES = frozenset({"inspect failed", "adopt failed", "clean failed"})


class BaremetalNode(Struct, frozen=True, kw_only=True):
    """A node of Ironic: its hardware and its uses."""

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
        """Return the uses of the node, empty if its hardware may be changed."""
        found = {
            f"provision state {self.provision_state}": self.provision_state not in IDLE_STATES,
            f"instance {self.instance_uuid}": self.instance_uuid,
            f"allocation {self.allocation_uuid}": self.allocation_uuid,
            f"locked by conductor {self.reservation}": self.reservation,
        }
        return tuple(words for words, holds in found.items() if holds)

    @property
    def remedy(self) -> str:
        state = self.provision_state
        if state in _MANAGED_STATES:
            return "manage it there first"
        if state in IDLE_STATES and self.allocation_uuid:
            return "delete the allocation there first"
        if state in IDLE_STATES and self.instance_uuid:
            return "delete the instance first"
        is_known = state in IDLE_STATES | _PASSING_STATES
        return "wait until Ironic has finished" if is_known else "undeploy it there first"

    @property
    def text(self) -> str:
        server = self.instance_info.get("display_name")
        whose = foreign_phrase(SERVER, server) if isinstance(server, str) else ""
        called = foreign_phrase(CALLED, self.name) if self.name else ""
        return f"node {self.uuid}{called}{whose}"


class Baremetal(Protocol):
    """An Ironic service; every method raises BaremetalUnavailable if Ironic does not answer."""

    def nodes(self) -> Sequence[BaremetalNode]:
        """Return all nodes with their ``driver_info``."""

    def node(self, uuid: str) -> BaremetalNode | None:
        """Read a node and its present uses; None if the node does not exist."""

    def owners(self, mac_addresses: Iterable[str]) -> set[str]:
        """Return the UUIDs of the nodes that have ports with these addresses."""


Baremetals = Callable[[], Sequence[Baremetal]]


class CloudLogin(NamedTuple):
    """A session and an endpoint of a cloud; without a ``region`` all regions are used."""

    session: Any
    interface: Any = "public"
    region: str | None = None
    endpoint: str | None = None


class IronicSettings(Noun, frozen=True, kw_only=True):
    """The connection to Ironic, by default at the endpoint of the service catalogue.

    ``username`` and ``password`` are for HTTP basic. ``cafile`` is the file of CA certificates.
    Ironic must answer within ``timeout_s``.
    """

    url: str | None = None
    username: str | None = None
    password: PasswordReference | None = None
    cafile: str | None = None
    timeout_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


def check_ironic(settings: IronicSettings, file: str, path: str = "$") -> None:
    """Raise InputError for an invalid URL or an incomplete login."""
    url = settings.url
    if url is not None and (not is_http_url(url) or urlsplit(url).query):
        expected = "http://HOST or https://HOST, without a user or a query"
        raise InputError(file, f"{path}.url", "an invalid URL", expected)
    password = settings.password
    if (settings.username is None) != (password is None):
        raise InputError(file, path, "an incomplete login", "username and password, or neither")
    if settings.username is not None and url is None:
        raise InputError(file, path, "a login without a url", "the url of the Ironic service")
    if password:
        password.check_source(file, f"{path}.password")
