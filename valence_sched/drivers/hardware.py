# SPDX-License-Identifier: Apache-2.0
"""The hardware that a change concerns: the affected computer systems and their identifiers."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from valence_sched.drivers.composer import Session, get_document
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, links, text, words
from valence_sched.drivers.links import Get, fold_uri, link_paths, linked_members
from valence_sched.drivers.redfish.schema import EthernetInterface, ListedSystem, ResourceBlock
from valence_sched.drivers.rsd.schema import RackNode
from valence_sched.model.podm_address import UUID_KIND, uuid_identity

_SYSTEM = re.compile(r"/redfish/v1/systems/[^/?#]+", re.IGNORECASE)
_MAC_DIGITS = 12


def addresses(value: Any) -> tuple[str, ...]:
    """Read the addresses of an array of IP addresses; skip other elements."""
    items = value if isinstance(value, list) else [value]
    found = (item.get("Address") for item in items if isinstance(item, dict))
    return tuple(one for one in found if isinstance(one, str) and one)


class IdentifiedSystem(Resource):
    """ComputerSystem, read for its identity."""

    uuid = Field("UUID", text, "the UUID of the system")
    ethernet = Field("EthernetInterfaces", links, "its network interfaces, or their collection")
    managers = Field("Links/ManagedBy", links, "its BMC")


class BmcInterface(Resource):
    """EthernetInterface of a manager."""

    ipv4 = Field("IPv4Addresses", addresses, "its addresses")
    ipv6 = Field("IPv6Addresses", addresses, "its addresses")
    full_name = Field("FQDN", words, "its name and domain")
    name = Field("HostName", words, "its name")


@dataclass
class ConcernedHardware:
    """The systems that a change affects, by URI, and their other identifiers."""

    systems: set[str] = field(default_factory=set)
    uuids: set[str] = field(default_factory=set)
    #: In lower case with colons.
    mac_addresses: set[str] = field(default_factory=set)
    #: Addresses and names.
    bmc_hosts: set[str] = field(default_factory=set)
    #: Blocks of a node to compose.
    blocks: set[str] = field(default_factory=set)
    #: Reads the blocks of a system, since some blocks do not link their system.
    blocks_of: Callable[[str], set[str]] = field(default=lambda _uri: set(), compare=False)


def read_hardware(session: Session, node: str | None, blocks: Sequence[str]) -> ConcernedHardware:
    """Return the hardware of blocks and of an existing node, by their URIs.

    The systems are the node, the systems that the node or a block links, and the systems whose URI
    is a prefix of a block's URI. Other nodes that share a block are not affected. PodmError if a
    system is unreadable.
    """
    get = functools.cache(functools.partial(get_document, session))

    def blocks_of(uri: str) -> set[str]:
        listed = ListedSystem(uri, get(uri) or {}, NO_NOTES).blocks
        return set(map(fold_uri, link_paths(listed)))

    hardware = ConcernedHardware(blocks_of=blocks_of)
    if node:
        hardware.systems.add(node)
    else:
        hardware.blocks.update(map(fold_uri, blocks))
    for uri in filter(None, (node, *blocks)):
        json = get(uri) or {}
        kind = json.get("@odata.type")
        if isinstance(kind, str) and kind.startswith("#ComputerSystem."):
            hardware.systems.add(uri)
        block, rack_node = ResourceBlock(uri, json, NO_NOTES), RackNode(uri, json, NO_NOTES)
        users = () if block.sharing_capable and block.sharing_enabled else block.in_systems
        linked = link_paths((*block.systems, *users, *rack_node.system))
        matches = (_SYSTEM.match(one) for one in (uri, *linked))
        hardware.systems.update(match[0] for match in matches if match)
        hardware.mac_addresses.update(_mac_addresses(get, uri, json))
    for uri in sorted(hardware.systems):
        json = get(uri) or {}
        system = IdentifiedSystem(uri, json, NO_NOTES)
        if identity := uuid_identity(system.uuid):
            hardware.uuids.add(identity.removeprefix(UUID_KIND))
        hardware.mac_addresses.update(_mac_addresses(get, uri, json))
        for manager in link_paths(system.managers):
            for one, document in _interfaces(get, manager, get(manager) or {}):
                bmc = BmcInterface(one, document, NO_NOTES)
                hardware.bmc_hosts.update(bmc.ipv4, bmc.ipv6, bmc.full_name, bmc.name)
    return hardware


def _mac_addresses(get: Get, uri: str, json: Json) -> Iterator[str]:
    for one, document in _interfaces(get, uri, json):
        port = EthernetInterface(one, document, NO_NOTES)
        for spelled in (*port.mac, *port.permanent_mac):
            digits = re.sub(r"[^0-9a-f]", "", spelled.lower())
            if len(digits) == _MAC_DIGITS and digits.strip("0"):
                yield ":".join(re.findall("..", digits))


def _interfaces(get: Get, uri: str, json: Json) -> Iterator[tuple[str, Json]]:
    for one in linked_members(get, IdentifiedSystem(uri, json, NO_NOTES).ethernet):
        yield one, get(one) or {}
