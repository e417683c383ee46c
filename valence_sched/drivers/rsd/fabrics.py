# SPDX-License-Identifier: Apache-2.0
"""Pooled drives and FPGAs that fabrics offer, and the systems that reach them.

A network is reached by every system. A PCIe fabric is reached by the systems that are cabled to
it; one that names no system at all is taken to be reached by every one, as nothing speaks
against it, and that is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.rsd import schema

NETWORK_TYPES = ("nvmeoverfabrics", "ethernet", "iscsi", "fpga-of", "roce", "rocev2", "infiniband")


@dataclass(frozen=True, slots=True)
class FabricOffer:
    """A pooled device with the endpoints that lead to it.

    ``fabrics`` are the PCIe fabrics that offer it, none where a network does. ``ends`` are its
    endpoints and their switch ports.
    """

    device: schema.PooledDevice
    is_drive: bool
    fabrics: frozenset[str]
    ends: tuple[str, ...]
    is_zoned: bool


class FabricReach(NamedTuple):
    """The PCIe fabrics that a system is assumed to reach, and those that name the system."""

    fabrics: frozenset[str]
    stated: frozenset[str]


def fabric_offers(service: LinkedDocuments, fabrics: Iterable[schema.Fabric]) -> list[FabricOffer]:
    """Return every pooled drive and FPGA once, in the order of the fabrics."""
    found: dict[str, FabricOffer] = {}
    for fabric in fabrics:
        for offer in _offers_of(service, fabric):
            old = found.get(offer.device.uri, offer)
            found[offer.device.uri] = FabricOffer(
                old.device,
                old.is_drive,
                # Every system reaches a device that a network offers too.
                offer.fabrics | old.fabrics if offer.fabrics and old.fabrics else frozenset(),
                tuple(dict.fromkeys(old.ends + offer.ends)),
                old.is_zoned or offer.is_zoned,
            )
    return list(found.values())


def reachable_fabrics(
    service: LinkedDocuments,
    fabrics: Iterable[schema.Fabric],
    systems: Iterable[schema.RackSystem],
    offers: list[FabricOffer],
) -> dict[str, FabricReach]:
    """Return which PCIe fabrics with something to offer each system reaches, by its URI."""
    systems = list(systems)
    named: dict[str, set[str]] = {system.uri: set() for system in systems}
    silent: set[str] = set()
    rich = {fabric for offer in offers for fabric in offer.fabrics}
    for fabric in fabrics:
        if fabric.uri not in rich:
            continue
        hosts = _hosts(service, fabric, systems)
        for uri in hosts:
            named[uri].add(fabric.uri)
        if not hosts and systems:
            silent.add(fabric.uri)
            what = "found no system that it is cabled to (every system is taken to reach it)"
            fabric.notes.remark(f"{fabric.uri}: {what}")
    every = named.items()
    return {uri: FabricReach(frozenset(ends | silent), frozenset(ends)) for uri, ends in every}


def _offers_of(service: LinkedDocuments, fabric: schema.Fabric) -> Iterator[FabricOffer]:
    zones = list(service.follow(fabric.zones, schema.FabricZone, fabric.uri))
    zoned = {service.uri(link, zone.uri) for zone in zones for link in zone.endpoints}
    is_network = fabric.type is not None and fabric.type.casefold() in NETWORK_TYPES
    reached = frozenset() if is_network else frozenset([fabric.uri])
    for endpoint in service.follow(fabric.endpoints, schema.Endpoint, fabric.uri):
        is_zoned = endpoint.uri in zoned or bool(endpoint.zones)
        offered = (link for entity in _entities(endpoint) if entity.leads for link in entity.entity)
        for device in service.follow(offered, schema.PooledDevice, endpoint.uri):
            kind = _kind(device)
            is_card = kind == "processor" and (device.processor_type or "CPU").casefold() != "cpu"
            if kind == "drive" or is_card:
                ends = (endpoint.uri, *endpoint.ports)
                yield FabricOffer(device, kind == "drive", reached, ends, is_zoned)


def _entities(endpoint: schema.Endpoint) -> Iterator[schema.ConnectedEntity]:
    for json in endpoint.entities:
        yield endpoint.part(schema.ConnectedEntity, json, "ConnectedEntities")


def _kind(device: schema.PooledDevice) -> str:
    """Return the resource class of a device by its type, or by its place without a type."""
    if device.kind:
        return device.kind.lstrip("#").partition(".")[0].casefold()
    collection = device.uri.rpartition("/")[0].rpartition("/")[2]
    return collection.casefold().removesuffix("s")


def _hosts(
    service: LinkedDocuments, fabric: schema.Fabric, systems: list[schema.RackSystem]
) -> set[str]:
    known = {system.uri for system in systems}
    hosts: set[str] = set()
    ours: set[str] = set()
    for end in service.follow(fabric.endpoints, schema.Endpoint, fabric.uri):
        ours.add(end.uri)
        for entity in _entities(end):
            hosts.update(() if entity.leads else service.uris(entity.entity, end.uri))
    cables = _cables(service, fabric)
    for system in systems:
        ends = {service.uri(link, system.uri) for link in system.endpoints}
        if ends & ours or cables & set(system.cables):
            hosts.add(system.uri)
    return {uri for uri in hosts if uri in known}


def _cables(service: LinkedDocuments, fabric: schema.Fabric) -> set[str]:
    return {
        cable
        for switch in service.follow(fabric.switches, schema.Switch, fabric.uri)
        for port in service.follow(switch.ports, schema.FabricPort, switch.uri)
        for cable in port.cables
    }
