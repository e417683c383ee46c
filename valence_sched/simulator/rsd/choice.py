# SPDX-License-Identifier: Apache-2.0
"""Chooses the system of an Allocate body by a sequence of filters.

When no system is left, the reply states the counts after each filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from valence_sched.drivers.fields import NO_NOTES, objects
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_owners as devices
from valence_sched.drivers.redfish.device_schema import (
    Device,
    DriveDevice,
    EthernetInterface,
    MemoryDevice,
    ProcessorDevice,
)
from valence_sched.drivers.rsd.fabrics import FabricOffer
from valence_sched.drivers.rsd.reader import find_resources
from valence_sched.drivers.rsd.schema import RackSystem
from valence_sched.drivers.rsd.status import RackUsage
from valence_sched.model.inventory import Status
from valence_sched.simulator.rsd import matching as greedy
from valence_sched.simulator.rsd.bodies import requested_resources
from valence_sched.simulator.server.documents import DocumentTree, Json

AWAY = ("absent", "unavailableoffline", "standbyoffline", "disabled")

D = TypeVar("D", bound=Device)


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
        uses = RackUsage(service, self._found.nodes, self._found.storages, set(self._pooled))
        self._devices = {
            system.uri: devices.devices_of_system(service, system) for system in self._found.systems
        }
        attached = {uri for held in self._devices.values() for uri in held}
        self._status: dict[str, Status] = {
            **{system.uri: uses.system_status(system) for system in self._found.systems},
            **{
                offer.device.uri: uses.offer_status(offer, attached) for offer in self._found.offers
            },
        }

    def choose(self, body: Json) -> tuple[ChosenSystem | None, str]:
        """Return the system of a valid body, None for none, and the counts after each filter."""
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
        return ChosenSystem(system, self._devices[system.uri], pooled), counts_text

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
        reachable = {
            *self._devices[system.uri],
            *(offer.device.uri for offer in self._free(system)),
        }
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
        remote = [ProcessorDevice(it.uri, it.json, it.notes) for it in pooled]
        wanted = body.get("Processors") or []
        # Devices of the system are taken before those that a fabric would attach.
        return greedy.match_devices(
            wanted,
            [*there, *remote],
            greedy.processor_matches,
            lambda it: (it.uri in self._pooled, greedy.processor_size(it)),
        )

    def _modules(self, system: RackSystem, body: Json) -> list[MemoryDevice] | None:
        there = self._own(system, MemoryDevice)
        return greedy.match_devices(
            body.get("Memory") or [], there, greedy.module_matches, greedy.module_size
        )

    def _drives(self, system: RackSystem, body: Json) -> list[DriveDevice] | None:
        pooled = [o.device for o in self._free(system) if o.is_drive]
        remote = [DriveDevice(it.uri, it.json, it.notes) for it in pooled]
        there = [it for it in self._own(system, DriveDevice) if it.uri not in self._pooled]
        wanted = body.get("LocalDrives") or []
        return greedy.match_devices(
            wanted, [*there, *remote], greedy.drive_matches, greedy.drive_size
        )

    def _interfaces(self, system: RackSystem, body: Json) -> list[EthernetInterface] | None:
        there = self._own(system, EthernetInterface)
        wanted = body.get("EthernetInterfaces") or []
        return greedy.match_devices(wanted, there, greedy.interface_matches, greedy.interface_size)

    def _suits(self, system: RackSystem, body: Json) -> bool:
        cores = sum(
            device.cores or 0
            for device in self._own(system, ProcessorDevice)
            if (device.type or "CPU") == "CPU"
        )
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
        return [
            offer
            for offer in self._found.offers
            if self._status[offer.device.uri].slots
            and (not offer.fabrics or offer.fabrics & reached)
        ]
