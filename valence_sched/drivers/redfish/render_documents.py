# SPDX-License-Identifier: Apache-2.0
"""Writes Redfish documents at unique URIs, with the properties each must have, such as blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import islice
from urllib.parse import unquote

import msgspec

from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import path_of
from valence_sched.model.inventory import (
    FREE_STATUS,
    NO_DEVICES,
    Accelerator,
    Drive,
    FullBlock,
    Memory,
    Nic,
    Processor,
    Status,
)

#: The schema of each type of document and the version that has the properties written here.
_TYPES = {
    "Chassis": "v1_20_0",
    "CompositionService": "v1_2_0",
    "ComputerSystem": "v1_19_0",
    "Drive": "v1_15_0",
    "Endpoint": "v1_7_0",
    "EthernetInterface": "v1_8_0",
    "Fabric": "v1_3_0",
    "Memory": "v1_15_0",
    "MemoryChunks": "v1_5_0",
    "MemoryDomain": "v1_4_0",
    "Port": "v1_8_0",
    "Processor": "v1_16_0",
    "ResourceBlock": "v1_4_0",
    "ServiceRoot": "v1_14_0",
    "Storage": "v1_15_0",
    "StoragePool": "v1_9_0",
    "Switch": "v1_9_0",
    "Zone": "v1_6_1",
}
_COLLECTIONS = {"Chassis": "ChassisCollection", "MemoryChunks": "MemoryChunksCollection"}
OEM = "ValenceSched"


class DocumentWriter:
    """Documents by URI. A URI is reserved before its document is written."""

    def __init__(self) -> None:
        self.documents: dict[str, Json] = {}
        self._uris: set[str] = set()
        self._folded: set[str] = set()

    def inventory_uri(self, uri: str) -> str:
        """Keep a URI that the inventory gives, as links spell it; a reserved one is extended."""
        return self._unique(path_of(uri), self._uris)

    def new_uri(self, uri: str) -> str:
        """Keep a URI of our choice, extended until it is no other's, in whatever case."""
        return self._unique(uri, self._folded)

    def put(self, uri: str, type_: str, name: str | None, body: Json) -> str:
        """Write the document of a reserved URI; its name is its Id where none is given."""
        last = uri.rpartition("/")[2]
        version = _TYPES.get(type_)
        kind = f"#{type_}.{version}.{type_}" if version else f"#{type_}.{type_}"
        head = {"@odata.id": uri, "@odata.type": kind, "Id": last, "Name": name or last}
        self.documents[uri] = head | {key: value for key, value in body.items() if is_set(value)}
        return uri

    def collection(self, uri: str, type_: str, members: Iterable[str], **body: object) -> str:
        """Write a collection of these members at a reserved URI."""
        kind = _COLLECTIONS.get(type_, f"{type_}Collection")
        found = links(members)
        tail = {"Members@odata.count": len(found), "Members": found, **body}
        head = {"@odata.id": uri, "@odata.type": f"#{kind}.{kind}", "Name": f"{type_} Collection"}
        self.documents[uri] = head | tail
        return uri

    def _unique(self, uri: str, reserved: set[str]) -> str:
        number, found = 1, uri
        while (_fold(found) if reserved is self._folded else found) in reserved:
            number += 1
            found = f"{uri}-{number}"
        self._uris.add(found)
        self._folded.add(_fold(found))
        return found


def link(uri: str) -> Json:
    """Return a link to a document."""
    return {"@odata.id": uri}


def links(uris: Iterable[str]) -> list[Json]:
    """Return links to documents."""
    return [link(uri) for uri in uris]


def is_set(value: object) -> bool:
    """Return whether a value says anything: it is not None and not empty."""
    return value is not None and value != {} and value != [] and value != ()


def oem(**facts: object) -> Json | None:
    """Return an ``Oem`` object with what Redfish has no word for, None without any."""
    known = {key: value for key, value in facts.items() if is_set(value)}
    found: Json = msgspec.json.decode(msgspec.json.encode(known))
    kind = {"@odata.type": f"#{OEM}.v1_0_0.{OEM}"}
    return {OEM: kind | found} if found else None


def segment(text: str) -> str:
    """Return a text as one part of a URI; only what would end the part is encoded."""
    codes = {"/": "%2F", "?": "%3F", "#": "%23"}
    return "".join(codes.get(letter, letter) for letter in text)


def _fold(uri: str) -> str:
    return unquote(uri).casefold()


#: Devices of one kind in one block that get a document; an inventory can promise any number.
MAX_DEVICES = 4096

_FABRIC = re.compile(r"(?P<fabric>/(?:.*/)?Fabrics/[^/?#]+)", re.IGNORECASE)
_SWITCH = re.compile(_FABRIC.pattern + r"/Switches/[^/?#]+", re.IGNORECASE)
_PARTS_OF_A_CPU = ("cpu", "core", "thread")

DeviceNoun = Processor | Accelerator | Memory | Drive | Nic


def write_block(writer: DocumentWriter, uri: str, noun: FullBlock, chassis: str | None) -> str:
    """Write a block and its devices; return its URI."""
    devices = noun.devices or NO_DEVICES
    places = noun.places or {}
    ends = _ends(places)
    kinds: tuple[tuple[str, str, Iterable[DeviceNoun], Callable[..., Json]], ...] = (
        ("Processors", "Processor", devices.processors, processor_json),
        ("Processors", "Processor", devices.accelerators, _accelerator),
        ("Memory", "Memory", devices.memory, memory_json),
        ("Drives", "Drive", devices.drives, _drive),
        ("EthernetInterfaces", "EthernetInterface", devices.nics, nic_json),
    )
    groups: dict[str, list[str]] = {}
    for name, type_, lines, json_of in kinds:
        uris = _write_devices(writer, f"{uri}/{name}", type_, lines, json_of, ends)
        groups.setdefault(name, []).extend(uris)
    linked = {"chassis"} if chassis else set()
    if ends and devices != NO_DEVICES:
        linked |= {"fabric", "switch"}
    body: Json = {
        "ResourceBlockType": list(noun.type),
        **_status(noun.status or FREE_STATUS),
        **{name: links(uris) for name, uris in groups.items()},
        "Links": {"Chassis": links([chassis])} if chassis else None,
        "Oem": oem(
            places={name: value for name, value in places.items() if name not in linked},
            of_unknown_count=[
                type_ for _, type_, lines, _ in kinds for line in lines if line.count is None
            ],
        ),
    }
    return writer.put(uri, "ResourceBlock", noun.name, body)


def chassis_of(noun: FullBlock) -> str | None:
    """Return the chassis that a block names, if it does so by a URI."""
    uri = (noun.places or {}).get("chassis")
    return uri if uri and path_of(uri) == uri else None


def fabric_of(places: dict[str, str]) -> tuple[str, str | None] | None:
    """Return the fabric and switch that places name, if URIs of fabrics can say it."""
    switch, fabric = places.get("switch"), places.get("fabric")
    if switch is not None and (found := _SWITCH.fullmatch(switch)):
        return (found["fabric"], switch) if fabric == found["fabric"] else None
    if switch is None and fabric is not None and _FABRIC.fullmatch(fabric):
        return fabric, None
    return None


def end_of(fabric: str, switch: str | None) -> str:
    """Return the URI of the port or endpoint at which devices meet a fabric."""
    return f"{switch}/Ports/1" if switch else f"{fabric}/Endpoints/1"


def _ends(places: dict[str, str]) -> Json:
    if (found := fabric_of(places)) is None:
        return {}
    name = "ConnectedSwitchPorts" if found[1] else "Endpoints"
    return {name: [link(end_of(*found))]}


def _status(status: Status) -> Json:
    disabled = status.resource_state or "Disabled"
    state = {None: None, True: "Enabled", False: disabled}[status.enabled]
    shares = status.shareable
    composition = {
        "CompositionState": status.state,
        "Reserved": status.reserved,
        "SharingCapable": shares,
        "SharingEnabled": shares if shares else None,
        "MaxCompositions": status.max_compositions,
        "NumberOfCompositions": status.compositions,
    }
    health = {"State": state, "Health": status.health}
    return {
        "Status": {key: value for key, value in health.items() if is_set(value)},
        "CompositionStatus": {key: value for key, value in composition.items() if is_set(value)},
        "Pool": "Active" if status.active else None,
        "Client": status.client,
    }


def _write_devices(
    writer: DocumentWriter,
    below: str,
    type_: str,
    lines: Iterable[DeviceNoun],
    body: Callable[..., Json],
    ends: Json,
) -> list[str]:
    every = (line for line in lines for _ in range(min(line.count or 0, MAX_DEVICES)))
    uris = []
    for number, line in enumerate(islice(every, MAX_DEVICES), 1):
        uri = writer.new_uri(f"{below}/{type(line).__name__}-{number}")
        told = {"State": line.state, "Health": line.health}
        status = {"Status": {key: word for key, word in told.items() if word}}
        parts = status if status["Status"] else {}
        uris.append(writer.put(uri, type_, None, {**body(line), **parts, "Links": ends}))
    return uris


def processor_json(cpu: Processor) -> Json:
    """Return what Redfish says of a processor; None where it is unknown."""
    return {
        "ProcessorType": "CPU",
        "TotalCores": cpu.cores,
        "TotalThreads": cpu.threads,
        "Model": cpu.model,
        "ProcessorArchitecture": cpu.architecture,
        "InstructionSet": cpu.instruction_set,
        "MaxSpeedMHz": cpu.speed_mhz,
    }


def _accelerator(card: Accelerator) -> Json:
    sizes = {"TotalMemorySizeMiB": card.memory_mib}
    hidden = card.kind.casefold() in _PARTS_OF_A_CPU  # would be read as no accelerator at all
    return {
        "ProcessorType": "OEM" if hidden else card.kind,
        "Model": card.model,
        "MemorySummary": None if card.memory_mib is None else sizes,
        "Oem": oem(kind=card.kind if hidden else None),
    }


def memory_json(module: Memory) -> Json:
    """Return what Redfish says of a memory module; None where it is unknown."""
    return {
        "MemoryType": "DRAM",
        "MemoryDeviceType": module.type,
        "CapacityMiB": module.capacity_mib,
        "OperatingSpeedMhz": module.speed_mhz,
    }


def _drive(drive: Drive) -> Json:
    return {
        "CapacityBytes": drive.capacity_bytes,
        "MediaType": drive.media,
        "Protocol": drive.protocol,
        "RotationSpeedRPM": drive.rpm,
        "Model": drive.model,
        "Oem": oem(remote=drive.remote),
    }


def nic_json(nic: Nic) -> Json:
    """Return what Redfish says of a network interface; None where it is unknown."""
    return {"SpeedMbps": nic.speed_mbps}
