# SPDX-License-Identifier: Apache-2.0
"""Validates Allocate requests to a rack, and chooses a system by a sequence of filters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from valence_sched.drivers.fields import NO_NOTES, objects
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import device_owners as devices, schema
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.drivers.rsd import reader
from valence_sched.drivers.rsd.schema import RackSystem
from valence_sched.model.inventory import Status
from valence_sched.simulator.redfish.composition import content_of
from valence_sched.simulator.server.documents import DocumentTree, Json, value_at

#: Returns the expected value, or None if the value is valid.
Check = Callable[[Any], str | None]


def violations(body: Any, knows: Callable[[str], bool]) -> list[str]:
    if not isinstance(body, dict):
        return ["The body: expected an object"]
    found = list(_property_violations(body, BODY, ""))
    for place, drive in _items(body, "RemoteDrives"):
        if drive.get("CapacityGiB") is None:
            found.append(f"{place}.CapacityGiB: expected a number above 0")
        if drive.get("Master") and drive.get("Protocol") == "NVMeOverFabrics":
            found.append(f"{place}.Master: no clone or snapshot over NVMeOverFabrics")
    for place, item in (one for key in LISTS for one in _items(body, key)):
        for word in ("Resource", "Chassis"):
            uri = value_at(item, word, "@odata.id")
            if isinstance(uri, str) and not knows(uri):
                found.append(f"{place}.{word}: {uri} does not exist")
    return found


def requested_resources(body: Json) -> dict[str, list[str]]:
    return {
        key: [item["Resource"]["@odata.id"] for item in body.get(key) or () if item.get("Resource")]
        for key in LISTS
    }


def _property_violations(value: Json, allowed: Mapping[str, Check], place: str) -> Iterator[str]:
    for key, item in value.items():
        if key not in allowed:
            yield f"{place}{key}: no such property"
        elif key not in LISTS:
            if item is not None and (expected := allowed[key](item)):
                yield f"{place}{key}: expected {expected}"
        elif item is not None and not isinstance(item, list):
            yield f"{place}{key}: expected an array"
        else:
            for number, one in enumerate(item or ()):
                inside = f"{place}{key}[{number}]"
                if isinstance(one, dict):
                    yield from _property_violations(one, LISTS[key], f"{inside}.")
                else:
                    yield f"{inside}: expected an object"


def _items(body: Json, key: str) -> Iterator[tuple[str, Json]]:
    items = body.get(key)
    for number, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict):
            yield f"{key}[{number}]", item


def _more(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return None if is_number and value > 0 else "a number above 0"


def _kind(kind: type, text: str) -> Check:
    return lambda value: None if isinstance(value, kind) else text


_text, _flag = _kind(str, "text"), _kind(bool, "true or false")
_object, _array = _kind(dict, "an object"), _kind(list, "an array")


def _link(value: Any) -> str | None:
    return None if isinstance(value_at(value, "@odata.id"), str) else "a link with @odata.id"


def _oem(value: Any) -> str | None:
    parts = [value, value.get("Intel_RackScale")] if isinstance(value, dict) else [value]
    for part in (part for part in parts if part is not None):
        words = part.get("Capabilities") if isinstance(part, dict) else part
        is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
        if not isinstance(part, dict) or not (words is None or is_list):
            return "Brand and Capabilities, an array of text"
    return None


def _word(*words: str) -> Check:
    return lambda value: None if value in words else "one of " + ", ".join(words)


_PLACE: Mapping[str, Check] = {"Resource": _link, "Chassis": _link, "Oem": _object}
#: The allowed properties of the elements of each list, with the check of each.
LISTS: Mapping[str, Mapping[str, Check]] = {
    "Processors": dict.fromkeys(("Model", "InstructionSet", "ProcessorType"), _text)
    | dict.fromkeys(("TotalCores", "AchievableSpeedMHz"), _more)
    | {**_PLACE, "Connectivity": _array, "Oem": _oem},
    "Memory": dict.fromkeys(("MemoryDeviceType", "MemoryType", "Manufacturer"), _text)
    | dict.fromkeys(("CapacityMiB", "SpeedMHz", "DataWidthBits"), _more)
    | {**_PLACE},
    "LocalDrives": {"CapacityGiB": _more, "MinRPM": _more, "SerialNumber": _text}
    | {"Type": _word("HDD", "SSD"), "Interface": _word("SAS", "SATA", "NVMe")}
    | {**_PLACE, "FabricSwitch": _flag},
    "RemoteDrives": {"CapacityGiB": _more, "Protocol": _word("iSCSI", "NVMeOverFabrics")}
    | {**_PLACE, "Master": _object, "iSCSIAddress": _text},
    "EthernetInterfaces": {"SpeedMbps": _more, "PrimaryVLAN": _more, "VLANs": _array, **_PLACE},
}
BODY: Mapping[str, Check] = (
    dict.fromkeys(("Name", "Description"), _text)
    | dict.fromkeys(("TotalSystemCoreCount", "TotalSystemMemoryMiB"), _more)
    | dict.fromkeys(("Security", "Oem"), _object)
    | dict.fromkeys(LISTS, _array)
)
AWAY = ("absent", "unavailableoffline", "standbyoffline", "disabled")

D = TypeVar("D", bound=schema.Device)
Matches = Callable[[D, Json], bool]


class ChosenSystem(NamedTuple):
    """A system with all its devices, and the pooled devices that are allocated with it."""

    system: RackSystem
    devices: dict[str, schema.Device]
    pooled: list[str]


class SystemChooser:
    """The systems and pooled devices of a rack, read from its present documents."""

    def __init__(self, documents: DocumentTree) -> None:
        self._documents = documents
        service = LinkedDocuments(documents.get, NO_NOTES, documents)
        self._found = found = reader.find_resources(service)
        self._pooled = {offer.device.uri: offer for offer in found.offers}
        used_by = found.nodes, found.storages, found.systems
        uses = reader.RackUsage(service, *used_by, set(self._pooled))
        self._devices, _ = devices.devices_of_systems(service, found.systems)
        attached = {uri for own in self._devices.values() for uri in own}
        attached |= reader.drives_of_storage(service, found.storages)
        self._status: dict[str, Status] = {it.uri: uses.system_status(it) for it in found.systems}
        self._status |= {it.device.uri: uses.offer_status(it, attached) for it in found.offers}

    def choose(self, body: Json, *, equal: bool = False) -> tuple[ChosenSystem | None, str]:
        filters: dict[str, Callable[[RackSystem], bool]] = {
            "available": self._is_available,
            "status": _is_healthy,
            "resource": lambda system: self._has_named(system, body),
            "chassis": lambda system: self._is_in_chassis(system, body),
            "processors": lambda system: self._processors(system, body) is not None,
            "memory": lambda system: self._modules(system, body) is not None,
            "local drives": lambda system: self._drives(system, body) is not None,
            "ethernet interfaces": lambda system: self._interfaces(system, body) is not None,
            "computer system attributes": lambda system: self._suits(system, body),
        }
        there, counts = list(self._found.systems), []
        for name, keeps in filters.items():
            there = [system for system in there if keeps(system)]
            counts.append(f"{name}: {len(there)}")
        counts_text = f"Available assets count after applying filters: [{' -> '.join(counts)}]"
        if not there:
            return None, counts_text
        system = there[0]
        chosen = [*(self._processors(system, body) or ()), *(self._drives(system, body) or ())]
        pooled = [device.uri for device in chosen if device.uri in self._pooled]
        if equal:
            pooled = self._equals(system, pooled)
        return ChosenSystem(system, self._devices[system.uri], pooled), counts_text

    @property
    def pooled(self) -> set[str]:
        return set(self._pooled)

    def attachable(self, system: str) -> set[str]:
        """Return the free pooled devices that a system reaches."""
        found = (it for it in self._found.systems if it.uri == system)
        return {offer.device.uri for it in found for offer in self._free(it)}

    def _equals(self, system: RackSystem, uris: Sequence[str]) -> list[str]:
        found: list[str] = []
        for uri in uris:
            content = content_of(self._documents.get(uri) or {})
            free = (it.device for it in self._free(system))
            spare = (it for it in free if it.uri not in (*uris, *found))
            equal = [it.uri for it in spare if content_of(it.json) == content]
            found.append(equal[-1] if equal else uri)
        return found

    def _is_available(self, system: RackSystem) -> bool:
        used = self._status[system.uri]
        hosts = {link for storage in self._found.storages for link in storage.host}
        is_online = (system.state or "").casefold() not in AWAY
        return is_online and used.compositions == 0 and system.uri not in hosts

    def _has_named(self, system: RackSystem, body: Json) -> bool:
        reachable = {*self._devices[system.uri], *(it.device.uri for it in self._free(system))}
        named = requested_resources(body)
        return all(uri in reachable for key in named if key != "RemoteDrives" for uri in named[key])

    def _is_in_chassis(self, system: RackSystem, body: Json) -> bool:
        around: set[str] = set()
        left = list(system.chassis)
        while left:
            uri = left.pop()
            if uri not in around:
                around.add(uri)
                holder = value_at(self._documents.get(uri), "Links", "ContainedBy")
                left += [holder["@odata.id"]] if holder else []
        lists = ("Processors", "Memory", "LocalDrives", "EthernetInterfaces")
        wanted = (item.get("Chassis") for key in lists for item in body.get(key) or ())
        return {chassis["@odata.id"] for chassis in wanted if chassis} <= around

    def _processors(self, system: RackSystem, body: Json) -> list[schema.ProcessorDevice] | None:
        there = self._own(system, schema.ProcessorDevice)
        pooled = [o.device for o in self._free(system) if not o.is_drive]
        there += [schema.ProcessorDevice(it.uri, it.json, it.notes) for it in pooled]

        def size(device: schema.ProcessorDevice) -> object:
            # Devices of the system come before devices that a fabric would attach.
            own_size = (device.model or "", device.cores or 0, device.speed_mhz or 0)
            return (device.uri in self._pooled, own_size)

        return match_devices(body.get("Processors") or [], there, _processor_matches, size)

    def _modules(self, system: RackSystem, body: Json) -> list[schema.MemoryDevice] | None:
        own, wanted = self._own(system, schema.MemoryDevice), body.get("Memory") or []
        return match_devices(wanted, own, _module_matches, lambda it: it.capacity_mib or 0)

    def _drives(self, system: RackSystem, body: Json) -> list[schema.DriveDevice] | None:
        pooled = (one.device for one in self._free(system) if one.is_drive)
        drives = [it for it in self._own(system, schema.DriveDevice) if it.uri not in self._pooled]
        drives += [schema.DriveDevice(it.uri, it.json, it.notes) for it in pooled]
        wanted = body.get("LocalDrives") or []
        return match_devices(wanted, drives, _drive_matches, lambda it: it.capacity_bytes or 0)

    def _interfaces(self, system: RackSystem, body: Json) -> list[schema.EthernetInterface] | None:
        def matches(device: schema.EthernetInterface, wanted: Json) -> bool:
            return _at_least(device.speed_mbps, wanted.get("SpeedMbps"))

        own, wanted = self._own(system, schema.EthernetInterface), body.get("EthernetInterfaces")
        return match_devices(wanted or [], own, matches, lambda it: it.speed_mbps or 0)

    def _suits(self, system: RackSystem, body: Json) -> bool:
        processors = self._own(system, schema.ProcessorDevice)
        cores = sum(it.cores or 0 for it in processors if (it.type or "CPU") == "CPU")
        memory = sum(device.capacity_mib or 0 for device in self._own(system, schema.MemoryDevice))
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

    def _free(self, system: RackSystem) -> list[reader.FabricOffer]:
        reached = self._found.reach[system.uri].fabrics
        free = (it for it in self._found.offers if self._status[it.device.uri].slots)
        return [offer for offer in free if not offer.fabrics or offer.fabrics & reached]


def match_devices(
    requested: Iterable[Json], there: Sequence[D], matches: Matches[D], size: Callable[[D], object]
) -> list[D] | None:
    """Return the smallest remaining device for each request, or None if a request gets no device.

    Requests with a URI come first. As on a real pod manager, the choice is greedy: it may refuse a
    body although other devices would fit.
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


def _is_healthy(system: RackSystem) -> bool:
    health = system.health or system.rollup or "OK"
    return (system.state or "Enabled").casefold() == "enabled" and health == "OK"


def _processor_matches(device: schema.ProcessorDevice, wanted: Json) -> bool:
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


def _module_matches(device: schema.MemoryDevice, wanted: Json) -> bool:
    return (
        _at_least(device.capacity_mib, wanted.get("CapacityMiB"))
        and _equals(device.device_type, wanted.get("MemoryDeviceType"))
        and _equals(device.type, wanted.get("MemoryType"))
        and _at_least(device.speed_mhz, wanted.get("SpeedMHz"))
        and _equals(device.json.get("Manufacturer"), wanted.get("Manufacturer"))
        and _at_least(device.json.get("DataWidthBits"), wanted.get("DataWidthBits"))
    )


def _drive_matches(device: schema.DriveDevice, wanted: Json) -> bool:
    gib, behind = wanted.get("CapacityGiB"), wanted.get("FabricSwitch")
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
