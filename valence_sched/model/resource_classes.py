# SPDX-License-Identifier: Apache-2.0
"""Placement resource classes and the properties that an amount of each compiles to.

============================================  =================================================
``VCPU``, ``PCPU``, ``NUMA_CORE``             cores, all of them together
``NUMA_SOCKET``                               CPUs
``MEMORY_MB``                                 memory in MiB, which is what Placement means by MB
``DISK_GB``                                   one drive of at least so many GiB
``PGPU``, ``VGPU``, ``FPGA``                  so many accelerators of that kind
``NET_BW_EGR_KILOBIT_PER_SEC``, ``..IGR..``   one network interface at least so fast
``CUSTOM_STORAGE_GIB``                        so much of the stock ``storage_gib``
``storage_gib``                               the same: a word in small letters is a stock
============================================  =================================================
"""

import re
from collections.abc import Mapping

from msgspec.structs import replace

from valence_sched.errors import one_line, suggest
from valence_sched.model.flavor import (
    AcceleratorSpec,
    DriveSpec,
    MemorySpec,
    NicSpec,
    ProcessorSpec,
    Properties,
)
from valence_sched.model.need import Alternative, Need

CORES = ("VCPU", "PCPU", "NUMA_CORE")
SOCKETS = "NUMA_SOCKET"
MEMORY = "MEMORY_MB"
DRIVE = "DISK_GB"
ACCELERATORS = {"PGPU": "GPU", "VGPU": "GPU", "FPGA": "FPGA"}
BANDWIDTHS = ("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC")
CUSTOM = "CUSTOM_"
TOTALS = ("cores", "sockets", "capacity_mib")  # measures of a need that are sums of devices
STANDARD = (*CORES, SOCKETS, MEMORY, DRIVE, *ACCELERATORS, *BANDWIDTHS)

_VIRTUAL = "of a hypervisor, which a node of one's own does not have"
REFUSED = {
    "PCI_DEVICE": "say which: PGPU, FPGA, DISK_GB",
    "SRIOV_NET_VF": "a node gets whole interfaces: NET_BW_EGR_KILOBIT_PER_SEC is their speed",
    "NUMA_THREAD": "cores are counted, not threads: VCPU",
    "NUMA_MEMORY_MB": "memory is counted whole: MEMORY_MB",
    "IPV4_ADDRESS": "pod managers hand out no addresses",
    "VGPU_DISPLAY_HEAD": _VIRTUAL,
    "MEM_ENCRYPTION_CONTEXT": _VIRTUAL,
    "NET_PACKET_RATE_KILOPACKET_PER_SEC": _VIRTUAL,
    "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": _VIRTUAL,
    "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC": _VIRTUAL,
}
_KBPS_PER_MBPS = 1000
_CUSTOM_CLASS = re.compile(rf"{CUSTOM}[A-Z0-9_]+")
_STOCK = re.compile(r"[\w.-]+")
_MAX_CLASS = 255  # characters, as in Placement's schema


def resource_class_problem(name: str) -> str | None:
    """Return the problem with the name of a class, None if an amount of it can be requested."""
    if name in REFUSED:
        return f"resource class {name!r} has no counterpart here: {REFUSED[name]}"
    if name in STANDARD or (_CUSTOM_CLASS.fullmatch(name) and len(name) <= _MAX_CLASS):
        return None
    capitals = name.upper()
    if capitals.startswith(CUSTOM):
        expected = f"{CUSTOM} and then capitals, digits and underscores, {_MAX_CLASS} at most"
        return one_line(f"no resource class named {name!r} ({expected})")
    if _STOCK.fullmatch(name) and name != capitals and capitals not in (*STANDARD, *REFUSED):
        return None
    hint = suggest(capitals, STANDARD)
    return one_line(f"no resource class named {name!r} ({hint}; a class of your own is CUSTOM_...)")


def stock_name(name: str) -> str:
    """Return the name of the stock of a class that is not a standard one."""
    return name.removeprefix(CUSTOM).lower() if name.startswith(CUSTOM) else name


def compile_amounts(amounts: Mapping[str, float]) -> Properties:
    """Return what amounts above 0 of valid classes ask for; only ``DISK_GB`` keeps a fraction."""
    whole = {name: int(amount) for name, amount in amounts.items()}
    cores = sum(whole.get(name, 0) for name in CORES)
    sockets = whole.get(SOCKETS)
    kbps = max(whole.get(name, 0) for name in BANDWIDTHS)
    cards = [(kind, whole[name]) for name, kind in ACCELERATORS.items() if name in amounts]
    others = [(name, amount) for name, amount in amounts.items() if name not in STANDARD]
    return Properties(
        processor=ProcessorSpec(cores or None, sockets) if cores or sockets else None,
        memory=MemorySpec(whole[MEMORY]) if MEMORY in amounts else None,
        accelerators=tuple(AcceleratorSpec(kind=kind, count=count) for kind, count in cards),
        drives=(DriveSpec(capacity_gib=amounts[DRIVE]),) if DRIVE in amounts else (),
        nics=(NicSpec(speed_mbps=-(-kbps // _KBPS_PER_MBPS)),) if kbps else (),
        resources={stock_name(name): float(amount) for name, amount in others},
    )


def add_needs(alternative: Alternative, needs: tuple[Need, ...]) -> Alternative:
    """Return an alternative with more needs: totals are added up, devices are appended.

    A total of devices with tests stays, and the sum is required of all devices.
    """
    before = alternative.needs
    totals = {
        need.measure: max(old.amount for old in before if old.measure == need.measure)
        for need in needs
        if any(old.measure == need.measure and need.measure in TOTALS for old in before)
    }
    untouched = [old for old in before if old.tests or old.measure not in totals]
    amounts = [need.amount + totals.get(need.measure, 0) for need in needs]
    added = [replace(need, amount=amount) for need, amount in zip(needs, amounts, strict=True)]
    return Alternative((*untouched, *added), alternative.bonds)
