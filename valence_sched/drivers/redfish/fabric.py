# SPDX-License-Identifier: Apache-2.0
"""Fabrics whose zones connect hosts with devices: a zone is a port of a host."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

from valence_sched.drivers import composer
from valence_sched.drivers.composer import Uris, get_document, live_documents, read_resource
from valence_sched.drivers.fields import Json, links
from valence_sched.drivers.links import ROOT, LinkedDocuments, fold_uri, link_paths
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.hot_plug import block_devices

#: Classes of entities that are hosts, switches, or amounts that connections attach.
_NOT_POOLED = {"ComputerSystem", "MemoryChunks", "MemoryDomain", "StoragePool", "Switch", "Volume"}


class ZoneMembers(NamedTuple):
    """The endpoints in a zone: the hosts behind them, and the other entities by endpoint."""

    uri: str
    hosts: frozenset[str]
    devices: dict[str, str]


class HostFabric(NamedTuple):
    """A fabric with endpoints of hosts: the endpoints of its devices, and its zones."""

    uri: str
    hosts: frozenset[str]
    ends: dict[str, tuple[str, ...]]
    zones: tuple[ZoneMembers, ...]

    def hosts_of(self, device: str) -> frozenset[str]:
        """Return the hosts that zones connect with a device, or a zone whose host is unknown."""
        zones = (zone for zone in self.zones if device in zone.devices.values())
        return frozenset().union(*(zone.hosts or {zone.uri} for zone in zones))

    def devices_of(self, host: str) -> list[str]:
        """Return the devices that zones connect with a host."""
        zones = (zone for zone in self.zones if host in zone.hosts)
        return [uri for zone in zones for uri in zone.devices.values()]


class EndpointMembers:
    """What stands behind endpoints; ``hosts`` maps systems to the endpoints that they link."""

    def __init__(self, service: LinkedDocuments, hosts: Mapping[str, Iterable[str]]) -> None:
        self._service, self._systems = service, tuple(hosts)
        linked = ((service.uri(end, host), host) for host, ends in hosts.items() for end in ends)
        self._host_of = dict(linked)

    def hosts(self, end: schema.Endpoint) -> frozenset[str]:
        """Return the hosts behind an endpoint: initiators, and systems that link it."""
        found = {self._host_of[end.uri]} if end.uri in self._host_of else set()
        for entity in end.connected:
            for uri in self._service.uris(entity.entity, end.uri):
                above = {it for it in self._systems if f"{uri}/".startswith(f"{it}/")}
                found |= above or (set() if entity.leads else {uri})
        return frozenset(found)

    def devices(self, end: schema.Endpoint) -> list[str]:
        return list(self._service.uris(end.offered, end.uri))

    def of_zone(self, zone: schema.FabricZone) -> ZoneMembers:
        ends = list(self._service.follow(zone.endpoints, schema.Endpoint, zone.uri))
        hosts = frozenset().union(*map(self.hosts, ends))
        devices = {end.uri: uri for end in ends for uri in self.devices(end)}
        return ZoneMembers(zone.uri, hosts, devices)


def read_fabrics(
    service: LinkedDocuments, links: Iterable[str], hosts: Mapping[str, Iterable[str]]
) -> list[HostFabric]:
    """Return the linked fabrics with endpoints of these hosts, each with the endpoints it links."""
    members, found = EndpointMembers(service, hosts), []
    for fabric in service.follow(links, schema.Fabric, ROOT):
        ends = list(service.follow(fabric.endpoints, schema.Endpoint, fabric.uri))
        reached = frozenset().union(*map(members.hosts, ends)) & hosts.keys()
        if not reached:
            continue
        ends_of: dict[str, tuple[str, ...]] = {}
        for end in ends:
            for uri in members.devices(end):
                ends_of[uri] = (*ends_of.get(uri, ()), end.uri)
        zones = service.follow(fabric.zones, schema.FabricZone, fabric.uri)
        every = tuple(map(members.of_zone, zones))
        found.append(HostFabric(fabric.uri, reached, ends_of, every))
    return found


class FabricDevices(NamedTuple):
    """The fabrics of the hosts of a service, and the devices in them that are blocks."""

    every: list[HostFabric]
    devices: dict[str, schema.FabricDevice]

    @classmethod
    def read(
        cls, service: LinkedDocuments, links: Iterable[str], hosts: Mapping[str, Iterable[str]]
    ) -> Self:
        every = read_fabrics(service, links, hosts) if hosts else []
        found: dict[str, schema.FabricDevice] = {}
        for fabric in every:
            devices = list(service.follow(fabric.ends, schema.FabricDevice, fabric.uri))
            found |= {device.uri: device for device in devices if device.pooled_kind}
            others = {it.class_name or it.uri for it in devices if not it.pooled_kind}
            if kinds := ", ".join(sorted(others - _NOT_POOLED)):
                what = f"found endpoints of {kinds}, expected drives and accelerators (left out)"
                service.notes.remark(f"{fabric.uri}: {what}")
        return cls(every, found)

    def hosts_of(self, device: str) -> frozenset[str]:
        return frozenset().union(*(fabric.hosts_of(device) for fabric in self.every))

    def attached_to(self, host: str) -> tuple[str, ...]:
        """Return the devices that zones connect with a host."""
        uris = (uri for fabric in self.every for uri in fabric.devices_of(host))
        return tuple(dict.fromkeys(uri for uri in uris if uri in self.devices))


class EndpointChange(NamedTuple):
    """A zone, and the endpoints to add to it and to remove."""

    zone: schema.FabricZone
    add: tuple[str, ...]
    remove: tuple[str, ...]

    @property
    def endpoints(self) -> list[Json]:
        """The endpoints in the zone after the change."""
        gone = set(map(fold_uri, self.remove))
        stays = [uri for uri in link_paths(self.zone.endpoints) if fold_uri(uri) not in gone]
        return [{"@odata.id": uri} for uri in dict.fromkeys((*stays, *self.add))]


class HostZones:
    """The zones of the hosts of one pod manager.

    The fabrics of a host are read once; the devices that its zones connect are read each time.
    """

    def __init__(self, session: composer.Session) -> None:
        self._session = session
        self._fabrics: dict[str, list[HostFabric]] = {}
        self._root: Json | None = None

    def fabrics(self, host: str) -> list[HostFabric]:
        """Return the fabrics with a zone of a host."""
        if host not in self._fabrics:
            self._root = get_document(self._session, ROOT) or {}
            fabrics = links(self._root.get("Fabrics"))
            hosts = self._hosts(host) if fabrics else {}
            found = read_fabrics(live_documents(self._session), fabrics, hosts)
            self._fabrics[host] = [it for it in found if _zones_of(it, host)]
        return self._fabrics[host]

    def devices(self, host: str) -> tuple[str, ...]:
        """Return the devices that the zones of a host connect with it now."""
        if not (fabrics := self.fabrics(host)):
            return ()
        service, found = live_documents(self._session), dict[str, None]()
        members = EndpointMembers(service, self._hosts(host))
        for uri in (uri for fabric in fabrics for uri in _zones_of(fabric, host)):
            zone = members.of_zone(read_resource(self._session, schema.FabricZone, uri))
            found |= dict.fromkeys(zone.devices.values())
        return tuple(it.uri for it in map(self._device, found) if it.pooled_kind)

    def problem(self, host: str, device: str) -> str | None:
        """Return the reason why a device cannot be attached to a host, None without one."""
        if not any(device in fabric.ends for fabric in self.fabrics(host)):
            return f"{device}: found no endpoint in a fabric of {host}"
        condition = schema.condition_of(self._device(device))
        found = condition.state or condition.health
        return None if condition.counts else f"{device}: found {found}"

    def read_again(self) -> None:
        self._fabrics.clear()

    def user(self, host: str, device: str) -> str | None:
        """Return another host that a device is connected with."""
        users = frozenset().union(*(fabric.hosts_of(device) for fabric in self.fabrics(host)))
        return min(users - {host}, default=None)

    @property
    def is_rack(self) -> bool:
        """Whether the service is one of Intel RSD."""
        oem = (self._root or {}).get("Oem")
        return isinstance(oem, dict) and "Intel_RackScale" in oem

    def change(self, host: str, attach: Uris, detach: Uris) -> EndpointChange | str | None:
        """Return the change of the zone of a host that these blocks need.

        Without a zone of the host, it is None; a text if a block has no endpoint there.
        """
        if not (fabrics := self.fabrics(host)):
            return None
        blocks = (*attach, *detach)
        devices = {uri: self._devices_of(uri, fabrics) for uri in blocks}
        first = devices[blocks[0]]
        fabric = next((it for it in fabrics if first and first <= it.ends.keys()), None)
        if fabric is None:
            return f"{blocks[0]}: found no endpoint in a fabric of {host}"
        zone = read_resource(self._session, schema.FabricZone, _zones_of(fabric, host)[0])
        present = (
            EndpointMembers(live_documents(self._session), self._hosts(host)).of_zone(zone).devices
        )
        added = (it for uri in attach for it in sorted(devices[uri]))
        gone = {it for uri in detach for it in devices[uri]}
        here = fabric.ends.keys() - set(present.values())
        add = tuple(_free_end(fabric, it) for it in added if it in here)
        remove = tuple(end for end, device in present.items() if device in gone)
        return EndpointChange(zone, add, remove)

    def _devices_of(self, block: str, fabrics: Sequence[HostFabric]) -> set[str]:
        """Return the devices of a block; a pooled device is its only device."""
        if any(block in fabric.ends for fabric in fabrics):
            return {block}
        resource_block = read_resource(self._session, schema.ResourceBlock, block)
        return set(block_devices(self._session, resource_block))

    def _device(self, uri: str) -> schema.FabricDevice:
        return read_resource(self._session, schema.FabricDevice, uri)

    def _hosts(self, host: str) -> dict[str, tuple[str, ...]]:
        ends = read_resource(self._session, schema.Server, host).endpoints
        return {host: tuple(link_paths(ends))}


def _zones_of(fabric: HostFabric, host: str) -> list[str]:
    return [zone.uri for zone in fabric.zones if host in zone.hosts]


def _free_end(fabric: HostFabric, device: str) -> str:
    """Return the endpoint of a device, one without a zone if it has several."""
    zoned = {end for zone in fabric.zones for end in zone.devices}
    ends = fabric.ends[device]
    return next((end for end in ends if end not in zoned), ends[0])
