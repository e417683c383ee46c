# SPDX-License-Identifier: Apache-2.0
"""Compiles the properties of a flavor into needs and topology constraints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from valence_sched.model.flavor_properties import (
    AcceleratorSpec,
    CpuSpec,
    DeviceGroupSpec,
    DriveSpec,
    MemoryModuleSpec,
    MemorySpec,
    NicSpec,
    ProcessorSpec,
    Properties,
)
from valence_sched.model.need import Alternative, Need, Test, TopologyConstraint

GIB = 1 << 30
DeviceGroups = tuple[tuple[str, DeviceGroupSpec], ...]  # the groups of devices with their names


def compile_properties(properties: Properties, after: Properties | None = None) -> Alternative:
    """Return the needs and bonds of properties.

    Where they come ``after`` others, the numbers of their groups go on.
    """
    groups = tuple(_groups(properties, after or Properties()))
    return Alternative(tuple(_needs(properties, groups)), tuple(_constraints(properties, groups)))


def _constraints(asked: Properties, groups: DeviceGroups) -> Iterator[TopologyConstraint]:
    for name, group in groups:
        if group.same:
            yield TopologyConstraint("same", group.same, (name,))
        if group.apart:
            yield TopologyConstraint("apart", group.apart, (name,))
    for bond in asked.bonds:
        yield TopologyConstraint(
            "same" if bond.same else "apart", bond.same or bond.apart or "", bond.of
        )


def _groups(asked: Properties, after: Properties) -> Iterator[tuple[str, DeviceGroupSpec]]:
    """Yield every group with its name: its own, or where it needs one its kind and number."""
    for kind, groups, before in (
        ("processor", asked.cpus, after.cpus),
        ("memory", asked.modules, after.modules),
        ("accelerator", asked.accelerators, after.accelerators),
        ("drive", asked.drives, after.drives),
        ("nic", asked.nics, after.nics),
    ):
        for number, group in enumerate(groups, 1 + len(before)):
            bound = group.same or group.apart
            yield group.name or (f"{kind}-{number}" if bound else ""), group


def _needs(asked: Properties, groups: DeviceGroups) -> Iterator[Need]:
    if asked.processor:
        yield from _processor_needs(asked.processor)
    if asked.memory:
        yield _memory_need(asked.memory)
    for name, group in groups:
        yield _group_need(name, group)
    yield from _pci_needs(asked.pci_device.type if asked.pci_device else ())
    for stock in asked.stocks:
        yield _stock_need(stock.resource, stock.amount, stock.count)
    for resource, amount in asked.resources.items():
        yield _stock_need(resource, amount, 1)
    if asked.remote_storage:
        yield _stock_need("storage_gib", asked.remote_storage.capacity_gib, 1)


def _group_need(name: str, group: DeviceGroupSpec) -> Need:
    if isinstance(group, CpuSpec):
        same = {"architecture": group.architecture, "instruction_set": group.instruction_set}
        return _device_need("processor", group.count, name, words=group.model, equal=same,
                        least={"cores": group.cores, "speed_mhz": group.speed_mhz})  # fmt: skip
    if isinstance(group, MemoryModuleSpec):
        return _device_need("memory", group.count, name, equal={"type": group.type},
                        least={"capacity_mib": group.capacity_mib,
                               "speed_mhz": group.speed_mhz})  # fmt: skip
    if isinstance(group, AcceleratorSpec):
        return _device_need("accelerator", group.count, name, equal={"kind": group.kind},
                        words=group.model, least={"memory_mib": group.memory_mib})  # fmt: skip
    if isinstance(group, DriveSpec):
        size = group.capacity_gib * GIB if group.capacity_gib else None
        remote = None if group.remote is None else str(group.remote)
        where = {"media": group.media, "protocol": group.protocol, "remote": remote}
        return _device_need("drive", group.count, name, words=group.model, equal=where,
                        least={"capacity_bytes": size, "rpm": group.rpm})  # fmt: skip
    assert isinstance(group, NicSpec)
    return _device_need("nic", group.count, name, least={"speed_mbps": group.speed_mbps})


def _processor_needs(asked: ProcessorSpec) -> Iterator[Need]:
    tests = _tests(
        words=asked.model,
        equal={"architecture": asked.architecture, "instruction_set": asked.instruction_set},
        least={"speed_mhz": asked.speed_mhz},
    )
    if asked.total_cores:
        yield Need(kind="processor", measure="cores", amount=asked.total_cores, tests=tests)
    if asked.sockets or not asked.total_cores:
        yield Need(kind="processor", measure="sockets", amount=asked.sockets or 1, tests=tests)


def _memory_need(asked: MemorySpec) -> Need:
    tests = _tests(equal={"type": asked.type}, least={"speed_mhz": asked.speed_mhz})
    return Need(kind="memory", measure="capacity_mib", amount=asked.capacity_mib, tests=tests)


def _pci_needs(types: tuple[str, ...]) -> Iterator[Need]:
    for type_, count in Counter(types).items():
        if type_ == "SSD":
            yield _device_need("drive", count, equal={"media": "SSD"})
        elif type_ == "NIC":
            yield _device_need("nic", count)
        else:
            yield _device_need("accelerator", count, equal={"kind": type_})


def _stock_need(resource: str, amount: float, count: int) -> Need:
    return Need(kind="stock", measure="amount", amount=amount, count=count, resource=resource)


def _device_need(
    kind: str,
    count: int,
    name: str = "",
    *,
    words: str | None = None,
    equal: dict[str, str | None] | None = None,
    least: dict[str, int | None] | None = None,
) -> Need:
    tests = _tests(words=words, equal=equal or {}, least=least or {})
    return Need(kind=kind, measure="devices", amount=count, tests=tests, name=name)  # type: ignore[arg-type]


def _tests(
    *, words: str | None = None, equal: dict[str, str | None], least: dict[str, int | None]
) -> tuple[Test, ...]:
    found = [Test(name, "equal", text) for name, text in equal.items() if text]
    found += [Test("model", "words", words)] if words else []
    found += [Test(name, "at_least", bound) for name, bound in least.items() if bound]
    return tuple(found)
