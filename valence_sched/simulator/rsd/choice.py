# SPDX-License-Identifier: Apache-2.0
"""Chooses the system of an Allocate body by a sequence of filters.

When no system is left, the reply states the counts after each filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from valence_sched.drivers.fields import NO_NOTES, objects
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_owners as devices
from valence_sched.drivers.redfish.schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.drivers.rsd.reader import FabricOffer, RackUsage, find_resources
from valence_sched.drivers.rsd.schema import RackSystem
from valence_sched.drivers.rsd.stocks import drives_of_storage
from valence_sched.model.inventory import Status
from valence_sched.simulator.rsd.bodies import requested_resources
from valence_sched.simulator.server.documents import DocumentTree, Json, value_at
from valence_sched.simulator.server.habits import content_of

AWAY = ("absent", "unavailableoffline", "standbyoffline", "disabled")

GIB = 2**30

D = TypeVar("D", bound=Device)
Matches = Callable[[D, Json], bool]


class ChosenSystem(NamedTuple):
    """A system with all its devices, and the pooled devices that go with it."""

    system: RackSystem
    devices: dict[str, Device]
    pooled: list[str]


class SystemChooser:
    """The systems and pooled devices of a rack, as its documents are now."""

    def __init__(self, documents: DocumentTree) -> None:
        self._documents = documents
        service = LinkedDocuments(documents.get, NO_NOTES, documents)
        self._found = find_resources(service)
        self._pooled = {offer.device.uri: offer for offer in self._found.offers}
        found, systems, offers = self._found, self._found.systems, self._found.offers
        uses = RackUsage(service, found.nodes, found.storages, systems, set(self._pooled))
        self._devices, _ = devices.devices_of_systems(service, systems)
        attached = {uri for held in self._devices.values() for uri in held}
        attached |= drives_of_storage(service, self._found.storages)
        self._status: dict[str, Status] = {it.uri: uses.system_status(it) for it in systems}
        self._status |= {it.device.uri: uses.offer_status(it, attached) for it in offers}

    def choose(self, body: Json, *, equal: bool = False) -> tuple[ChosenSystem | None, str]:
        """Return the system of a valid body, None for none, and the counts after each filter.

        With ``equal`` the last equal device of a fabric stands in for one that was chosen.
        """
        there = [system for system in self._found.systems if self._is_available(system)]
        counts = [f"available: {len(there)}"]
        for name, keeps in self._filters(body):
            there = [system for system in there if keeps(system)]
            counts.append(f"{name}: {len(there)}")
        counts_text = f"Available assets count after applying filters: [{' -> '.join(counts)}]"
        if not there:
            return None, counts_text
        system = there[0]
        taken = [*(self._processors(system, body) or ()), *(self._drives(system, body) or ())]
        pooled = [device.uri for device in taken if device.uri in self._pooled]
        if equal:
            pooled = self._equals(system, pooled)
        return ChosenSystem(system, self._devices[system.uri], pooled), counts_text

    def _equals(self, system: RackSystem, uris: Sequence[str]) -> list[str]:
        found: list[str] = []
        for uri in uris:
            content = content_of(self._documents.get(uri) or {})
            free = (it.device for it in self._free(system))
            spare = (it for it in free if it.uri not in (*uris, *found))
            equal = [it.uri for it in spare if content_of(it.json) == content]
            found.append(equal[-1] if equal else uri)
        return found

    def _filters(self, body: Json) -> Iterable[tuple[str, Callable[[RackSystem], bool]]]:
        return (
            ("status", self._is_healthy),
            ("resource", lambda system: self._has_named(system, body)),
            ("chassis", lambda system: self._is_in_chassis(system, body)),
            ("processors", lambda system: self._processors(system, body) is not None),
            ("memory", lambda system: self._modules(system, body) is not None),
            ("local drives", lambda system: self._drives(system, body) is not None),
            ("ethernet interfaces", lambda system: self._interfaces(system, body) is not None),
            ("computer system attributes", lambda system: self._suits(system, body)),
        )

    def _is_available(self, system: RackSystem) -> bool:
        used = self._status[system.uri]
        hosts = {link for storage in self._found.storages for link in storage.host}
        is_online = (system.state or "").casefold() not in AWAY
        return is_online and used.compositions == 0 and system.uri not in hosts

    def _is_healthy(self, system: RackSystem) -> bool:
        health = system.health or system.rollup or "OK"
        return (system.state or "Enabled").casefold() == "enabled" and health == "OK"

    def _has_named(self, system: RackSystem, body: Json) -> bool:
        reachable = {*self._devices[system.uri], *(it.device.uri for it in self._free(system))}
        named = requested_resources(body)
        return all(uri in reachable for key in named if key != "RemoteDrives" for uri in named[key])

    def _is_in_chassis(self, system: RackSystem, body: Json) -> bool:
        enclosures = {
            item["Chassis"]["@odata.id"]
            for key in ("Processors", "Memory", "LocalDrives", "EthernetInterfaces")
            for item in body.get(key) or ()
            if item.get("Chassis")
        }
        return enclosures <= self._enclosures(system)

    def _enclosures(self, system: RackSystem) -> set[str]:
        found: set[str] = set()
        left = list(system.chassis)
        while left:
            uri = left.pop()
            if uri not in found:
                found.add(uri)
                links = (self._documents.get(uri) or {}).get("Links") or {}
                left += [up["@odata.id"] for up in [links.get("ContainedBy")] if up]
        return found

    def _processors(self, system: RackSystem, body: Json) -> list[ProcessorDevice] | None:
        there = self._own(system, ProcessorDevice)
        pooled = [o.device for o in self._free(system) if not o.is_drive]
        there += [ProcessorDevice(it.uri, it.json, it.notes) for it in pooled]

        def size(device: ProcessorDevice) -> object:
            # Devices of the system are taken before those that a fabric would attach.
            own_size = (device.model or "", device.cores or 0, device.speed_mhz or 0)
            return (device.uri in self._pooled, own_size)

        return match_devices(body.get("Processors") or [], there, processor_matches, size)

    def _modules(self, system: RackSystem, body: Json) -> list[MemoryDevice] | None:
        there, wanted = self._own(system, MemoryDevice), body.get("Memory") or []
        return match_devices(wanted, there, module_matches, lambda it: it.capacity_mib or 0)

    def _drives(self, system: RackSystem, body: Json) -> list[DriveDevice] | None:
        pooled = [o.device for o in self._free(system) if o.is_drive]
        remote = [DriveDevice(it.uri, it.json, it.notes) for it in pooled]
        there = [it for it in self._own(system, DriveDevice) if it.uri not in self._pooled]
        there, wanted = [*there, *remote], body.get("LocalDrives") or []
        return match_devices(wanted, there, drive_matches, lambda it: it.capacity_bytes or 0)

    def _interfaces(self, system: RackSystem, body: Json) -> list[EthernetInterface] | None:
        there, wanted = self._own(system, EthernetInterface), body.get("EthernetInterfaces") or []
        return match_devices(
            wanted,
            there,
            lambda device, one: _at_least(device.speed_mbps, one.get("SpeedMbps")),
            lambda it: it.speed_mbps or 0,
        )

    def _suits(self, system: RackSystem, body: Json) -> bool:
        processors = self._own(system, ProcessorDevice)
        cores = sum(it.cores or 0 for it in processors if (it.type or "CPU") == "CPU")
        memory = sum(device.capacity_mib or 0 for device in self._own(system, MemoryDevice))
        security = body.get("Security") or {}
        modules = objects(system.json.get("TrustedModules"))
        kinds = {module.get("InterfaceType") for module in modules}
        tpm, kind = security.get("TpmPresent"), security.get("TpmInterfaceType")
        return (
            cores >= (body.get("TotalSystemCoreCount") or 0)
            and memory >= (body.get("TotalSystemMemoryMiB") or 0)
            and (tpm is None or tpm == bool(modules))
            and (kind is None or kind in kinds)
        )

    def _own(self, system: RackSystem, type_: type[D]) -> list[D]:
        return [it for it in self._devices[system.uri].values() if isinstance(it, type_)]

    def _free(self, system: RackSystem) -> list[FabricOffer]:
        reached = self._found.reach[system.uri].fabrics
        free = (it for it in self._found.offers if self._status[it.device.uri].slots)
        return [offer for offer in free if not offer.fabrics or offer.fabrics & reached]


def match_devices(
    requested: Iterable[Json], there: Sequence[D], matches: Matches[D], size: Callable[[D], object]
) -> list[D] | None:
    """Return the device of each wanted one, the smallest left; None when one gets none.

    Those that are named by their URI come first. Greedy is how these pod managers work, so a body
    may be refused that could be served.
    """
    left = sorted(there, key=size)  # type: ignore[arg-type]
    found: list[D] = []
    for wanted in sorted(requested, key=lambda one: not one.get("Resource")):
        named = (wanted.get("Resource") or {}).get("@odata.id")
        fitting = (it for it in left if matches(it, wanted) and named in (None, it.uri))
        one = next(fitting, None)
        if one is None:
            return None
        left.remove(one)
        found.append(one)
    return found


def processor_matches(device: ProcessorDevice, wanted: Json) -> bool:
    """Return whether a processor matches; its type is CPU unless another is wanted."""
    oem = wanted.get("Oem") or {}
    detail: Json = oem.get("Intel_RackScale") or oem
    own = value_at(device.json, "Oem", "Intel_RackScale")
    capabilities = value_at(own, "Capabilities")
    capabilities = capabilities if isinstance(capabilities, list) else []
    return (
        _equals(device.type or "CPU", wanted.get("ProcessorType") or "CPU")
        and _equals(device.model, wanted.get("Model"))
        and _equals(device.instruction_set, wanted.get("InstructionSet"))
        and _at_least(device.cores, wanted.get("TotalCores"))
        and _at_least(device.speed_mhz, wanted.get("AchievableSpeedMHz"))
        and _equals(value_at(own, "Brand"), detail.get("Brand"))
        and all(word in capabilities for word in detail.get("Capabilities") or ())
    )


def module_matches(device: MemoryDevice, wanted: Json) -> bool:
    """Return whether a memory module matches."""
    return (
        _at_least(device.capacity_mib, wanted.get("CapacityMiB"))
        and _equals(device.device_type, wanted.get("MemoryDeviceType"))
        and _equals(device.type, wanted.get("MemoryType"))
        and _at_least(device.speed_mhz, wanted.get("SpeedMHz"))
        and _equals(device.json.get("Manufacturer"), wanted.get("Manufacturer"))
        and _at_least(device.json.get("DataWidthBits"), wanted.get("DataWidthBits"))
    )


def drive_matches(device: DriveDevice, wanted: Json) -> bool:
    """Return whether a drive matches; one behind a switch has endpoints."""
    gib = wanted.get("CapacityGiB")
    behind = wanted.get("FabricSwitch")
    return (
        _at_least(device.capacity_bytes, None if gib is None else gib * GIB)
        and _equals(device.media, wanted.get("Type"))
        and _equals(device.protocol, wanted.get("Interface"))
        and _at_least(device.rpm, wanted.get("MinRPM"))
        and _equals(device.json.get("SerialNumber"), wanted.get("SerialNumber"))
        and (behind is None or behind == bool(device.endpoints))
    )


def _equals(value: str | None, wanted: str | None) -> bool:
    return wanted is None or value == wanted


def _at_least(value: Any, wanted: float | None) -> bool:
    return wanted is None or (isinstance(value, int | float) and value >= wanted)
