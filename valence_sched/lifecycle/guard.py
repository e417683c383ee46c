# SPDX-License-Identifier: Apache-2.0
"""Hardware guard: refuses to change hardware that another system, such as Ironic, uses.

:meth:`GuardedComposer.may_change` is the only source of a composer that changes a pod manager.
"""

import functools
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from valence_sched.drivers.composer import AmountReads, Composer, ComposerReads, amount_changer
from valence_sched.drivers.hardware import ConcernedHardware
from valence_sched.drivers.links import fold_uri, path_of
from valence_sched.errors import BaremetalUnavailable, HardwareInUse
from valence_sched.model.baremetal import Baremetal, BaremetalNode, Baremetals
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.inventory import uri_tail
from valence_sched.model.podm_address import UUID_KIND, uuid_identity

#: How long a list of nodes is cached; a node that may match the hardware is always read again.
LIST_AGE_S = 10.0
_PORTS = {"http": 80, "https": 443}
#: Suffixes of the keys in ``driver_info`` that have the address of a BMC, for all Ironic drivers.
_ADDRESS_KEYS = ("_address", "_manager_ip", "_host")


#: The parts that a change affects: an existing node by its URI, and blocks.
ConcernedParts = tuple[str | None, Sequence[str]]
#: Raises if the hardware must not be changed; the argument returns the affected parts.
Check = Callable[[Callable[[], ConcernedParts]], None]


class GuardedComposer:
    """The ``reads`` of a composer, and after ``check`` the composer that changes hardware.

    ``written`` has an item if it has sent a write to the pod manager.
    """

    def __init__(
        self,
        composer: Composer,
        check: Check = lambda _concerned: None,
        written: Collection[str] = ("unknown",),
    ) -> None:
        self.reads: ComposerReads = composer
        self.written = written
        self._composer, self._check = composer, check

    @property
    def amount_reads(self) -> AmountReads:
        """Return the reads of amounts; PodmError if the composer has none."""
        return amount_changer(self._composer)

    def may_change(self, request: CompositionRequest, node: str | None = None) -> Composer:
        """Check the blocks of a new node, or an existing node; return the composer to change it.

        Raises:
            HardwareInUse: another system uses the hardware.
            BaremetalUnavailable: Ironic does not answer.
            PodmError: the pod manager does not identify the hardware.
        """
        self._check(lambda: self._concerned(request, node))
        return self._composer

    def _concerned(self, request: CompositionRequest, node: str | None) -> ConcernedParts:
        if node is None:
            return None, request.blocks
        found = self.reads.read_node(request, node or None)
        if found.state == "absent":  # a removal would change nothing
            return None, ()
        return found.node or node or None, found.blocks or request.blocks


class HardwareGuard:
    """Queries each Ironic of ``baremetals`` for its use of hardware; thread-safe."""

    def __init__(
        self, baremetals: Baremetals = tuple, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._baremetals, self._clock = baremetals, clock
        self._lock = threading.Lock()
        self._known: list[tuple[Baremetal, Sequence[BaremetalNode]]] = []
        self._listed_at = float("-inf")
        self._names = functools.cache(host_names)

    def listed(self) -> Sequence[tuple[Baremetal, Sequence[BaremetalNode]]]:
        """Return the nodes of each Ironic, at most ``LIST_AGE_S`` old.

        BaremetalUnavailable if an Ironic does not answer, or hides a needed field.
        """
        with self._lock:
            if self._clock() - self._listed_at > LIST_AGE_S:
                self._known = [(one, one.nodes()) for one in self._baremetals()]
                self._listed_at = self._clock()
            return self._known

    def check(self, podm: str, url: str, read_hardware: Callable[[], ConcernedHardware]) -> None:
        """Check that no Ironic uses hardware of the pod manager at a URL.

        Raises:
            HardwareInUse: an Ironic uses the hardware.
            BaremetalUnavailable: an Ironic may use the hardware, or does not answer.
        """
        known = [(one, nodes) for one, nodes in self.listed() if nodes]
        if not known:
            return
        match = HardwareMatch(url, read_hardware(), self._names)
        for baremetal, nodes in known:
            found = {node.uuid: match.holds(node) for node in nodes}
            found |= dict.fromkeys(baremetal.owners(match.hardware.mac_addresses), True)
            for uuid, holds in found.items():
                node = baremetal.node(uuid) if holds is not False else None
                if node is not None and node.uses:
                    raise _refusal(podm, node, sure=holds is True)


def _refusal(podm: str, node: BaremetalNode, *, sure: bool) -> HardwareInUse | BaremetalUnavailable:
    what = f"in use in Ironic as {node.text}: {'; '.join(node.uses)}"
    what += "; in maintenance" if node.maintenance else ""
    if sure:
        return HardwareInUse(f"{podm}: {what}: {node.remedy}")
    return BaremetalUnavailable(f"{podm}: may be {what}: the host of its BMC has no address here")


class BmcAddress(NamedTuple):
    """Host and port of a URL; the port is None if it is the default of the scheme."""

    host: str
    port: int | None = None

    @classmethod
    def of(cls, text: object) -> Self | None:
        """Return host and port of a URL or of a host without a scheme, None for other text."""
        bare = text.strip() if isinstance(text, str) else ""
        if _address(bare) is not None:
            return cls(bare)
        try:
            parts = urlsplit(bare if "://" in bare else f"https://{bare}")
            port = None if parts.port == _PORTS.get(parts.scheme) else parts.port
        except ValueError:
            return None
        return cls(parts.hostname, port) if parts.hostname else None


class HardwareMatch:
    """Finds the Ironic nodes that are hardware of the pod manager at a URL.

    ``names`` returns the names and addresses of a host.
    """

    def __init__(
        self, url: str, hardware: ConcernedHardware, names: Callable[[str], frozenset[str]]
    ) -> None:
        podm = BmcAddress.of(url)
        assert podm is not None, "a pod manager is registered with a URL"
        self.hardware, self._names, self._port = hardware, names, podm.port
        self._systems = {fold_uri(path_of(uri)) for uri in hardware.systems}
        self._uuids = {f"{UUID_KIND}{uuid}" for uuid in hardware.uuids}
        self._podm = names(podm.host)
        self._bmcs = frozenset().union(*map(names, hardware.bmc_hosts)) - self._podm

    def holds(self, node: BaremetalNode) -> bool | None:
        """Return whether a node is this hardware, None if its host cannot be resolved."""
        info = node.driver_info
        address, uri = BmcAddress.of(info.get("redfish_address")), _system_of(node)
        known_as = {uuid_identity(text) for text in (node.uuid, uri_tail(uri or ""))}
        if not self._uuids.isdisjoint(known_as):
            return True
        keys = [key for key in info if key.endswith(_ADDRESS_KEYS) and key != "redfish_address"]
        others, known = (BmcAddress.of(info[key]) for key in keys), self._bmcs | self._podm
        if any(one and not known.isdisjoint(self._names(one.host)) for one in others):
            return True
        if address is None:
            return False
        found = self._is_at(address, uri)
        return self._has_blocks(address, node) if found is False else found

    def _has_blocks(self, address: BmcAddress, node: BaremetalNode) -> bool:
        uri, blocks = _system_of(node), self.hardware.blocks
        if not (uri and blocks and node.uses and address.port == self._port):
            return False
        is_ours = not self._podm.isdisjoint(self._names(address.host))
        return is_ours and not blocks.isdisjoint(self.hardware.blocks_of(uri))

    def _is_at(self, address: BmcAddress, uri: str | None) -> bool | None:
        """Return whether a system of a Redfish service is this hardware.

        An Ironic node without a system URI stands for the only system of its Redfish service.
        """
        folded = uri and fold_uri(uri)
        is_one = folded in self._systems if folded else bool(self._systems)
        if not (is_one or self._bmcs):
            return False
        names = self._names(address.host)
        if not self._bmcs.isdisjoint(names):
            return True
        if not is_one or address.port != self._port:
            return False
        if not self._podm.isdisjoint(names):
            return True
        is_known = len(names) > 1 or _address(address.host) is not None
        return False if is_known or uri is None else None


def host_names(host: str) -> frozenset[str]:
    """Return the name of a host and its resolved addresses, in canonical spelling."""
    if (address := _address(host)) is not None:
        return frozenset({address})
    name = host.casefold().rstrip(".")
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except (OSError, UnicodeError):
        found = set()
    return frozenset({name, *filter(None, map(_address, found))})


def _address(host: str) -> str | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _system_of(node: BaremetalNode) -> str | None:
    uri = node.driver_info.get("redfish_system_id")
    if not isinstance(uri, str) or not uri:
        return None
    return path_of(uri.partition("://")[2].partition("/")[2] if "://" in uri else uri)
