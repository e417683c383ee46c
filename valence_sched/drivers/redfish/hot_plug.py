# SPDX-License-Identifier: Apache-2.0
"""Hot plug: whether a pod manager declares the devices of a block removable while they run."""

import functools
from collections.abc import Iterator

from valence_sched.drivers.composer import Session, get_document, read_resource
from valence_sched.drivers.fields import NO_NOTES, Field, Resource, flag, links, only_objects
from valence_sched.drivers.links import fold_uri, link_paths, linked_members
from valence_sched.drivers.redfish.schema import DeviceHolder, ResourceBlock, Storage
from valence_sched.errors import PodmError


class _Device(Resource):
    """Drive, Processor, PCIeDevice or PCIeFunction, read for its removal."""

    ready = Field("ReadyToRemove", flag, "true if the device can be removed now")
    hot_pluggable = Field("Slot/HotPluggable", flag, "true if its slot supports hot plug")
    carriers = Field("Links/PCIeDevice", links, "the PCIe device of a function or processor")
    functions = Field("Links/PCIeFunctions", links, "the PCIe functions of a device")
    chassis = Field("Links/Chassis", links, "its enclosures")


class _Slots(Resource):
    """The slots of an enclosure: the Chassis links them as PCIeSlots."""

    document = Field("PCIeSlots", links, "the document with the slots")
    slots = Field("Slots", only_objects, "the slots")


class _Slot(Resource):
    hot_pluggable = Field("HotPluggable", flag, "true if the slot supports hot plug")
    devices = Field("Links/PCIeDevice", links, "the devices in the slot")


#: The links from a device to the PCIe device that carries it: at most a function is in between.
_DEPTH = 2
_HOLDERS = (
    *(DeviceHolder.processors, DeviceHolder.memory, DeviceHolder.drives),
    *(DeviceHolder.simple_storage, DeviceHolder.ethernet, DeviceHolder.network),
    ResourceBlock.systems,
)


def is_hot_removable(session: Session, block: str) -> bool:
    """Return whether each device of a block is declared removable; False if that is unknown.

    A block that is itself a device, as in Intel RSD, is judged like a device.
    """
    try:
        found = read_resource(session, ResourceBlock, block)
        devices = list(block_devices(session, found)) or [block]
        return all(_is_removable(session, uri) for uri in devices)
    except PodmError:
        return False


def block_devices(session: Session, block: ResourceBlock) -> Iterator[str]:
    """Yield the URIs of the devices that a block links."""
    get = functools.partial(get_document, session)
    for link in _HOLDERS:
        yield from linked_members(get, link.of(block))
    for uri in linked_members(get, block.storage):
        drives = read_resource(session, Storage, uri).drives
        yield from list(linked_members(get, drives)) or [uri]


def _is_removable(session: Session, uri: str, depth: int = _DEPTH) -> bool:
    """Return whether a device, its slot, or the PCIe device that carries it, declares it."""
    device = read_resource(session, _Device, uri)
    if device.ready or device.hot_pluggable or _is_in_hot_slot(session, device):
        return True
    carriers = link_paths((*device.carriers, *device.functions)) if depth else ()
    return any(_is_removable(session, it, depth - 1) for it in carriers)


def _is_in_hot_slot(session: Session, device: _Device) -> bool:
    for chassis in link_paths(device.chassis):
        for uri in link_paths(read_resource(session, _Slots, chassis).document):
            every = read_resource(session, _Slots, uri).slots
            for slot in (_Slot(uri, json, NO_NOTES) for json in every):
                held = map(fold_uri, link_paths(slot.devices))
                if slot.hot_pluggable and fold_uri(device.uri) in held:
                    return True
    return False
