# SPDX-License-Identifier: Apache-2.0
"""The needs and bonds that the properties of a flavor compile to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from valence_sched.model.flavor_properties import (
    AcceleratorAsk,
    CpuAsk,
    DriveAsk,
    GroupAsk,
    MemoryAsk,
    ModuleAsk,
    NicAsk,
    ProcessorAsk,
    Properties,
)
from valence_sched.model.need import Ask, Bond, Need, Test

GIB = 1 << 30
Groups = tuple[tuple[str, GroupAsk], ...]  # the groups of devices with their names


def ask_of(asked: Properties, after: Properties | None = None) -> Ask:
    """Return the needs and bonds of properties.

    Where they come ``after`` others, the numbers of their groups go on.
    """
    groups = tuple(_groups(asked, after or Properties()))
    return Ask(tuple(_needs(asked, groups)), tuple(_bonds(asked, groups)))


def _bonds(asked: Properties, groups: Groups) -> Iterator[Bond]:
    for name, group in groups:
        if group.same:
            yield Bond("same", group.same, (name,))
        if group.apart:
            yield Bond("apart", group.apart, (name,))
    for bond in asked.bonds:
        yield Bond("same" if bond.same else "apart", bond.same or bond.apart or "", bond.of)


def _groups(asked: Properties, after: Properties) -> Iterator[tuple[str, GroupAsk]]:
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


def _needs(asked: Properties, groups: Groups) -> Iterator[Need]:
    if asked.processor:
        yield from _processor(asked.processor)
    if asked.memory:
        yield _memory(asked.memory)
    for name, group in groups:
        yield _group(name, group)
    yield from _pci(asked.pci_device.type if asked.pci_device else ())
    for stock in asked.stocks:
        yield _stock(stock.resource, stock.amount, stock.count)
    for resource, amount in asked.resources.items():
        yield _stock(resource, amount, 1)
    if asked.remote_storage:
        yield _stock("storage_gib", asked.remote_storage.capacity_gib, 1)


def _group(name: str, asked: GroupAsk) -> Need:
    if isinstance(asked, CpuAsk):
        same = {"architecture": asked.architecture, "instruction_set": asked.instruction_set}
        return _devices("processor", asked.count, name, words=asked.model, equal=same,
                        least={"cores": asked.cores, "speed_mhz": asked.speed_mhz})  # fmt: skip
    if isinstance(asked, ModuleAsk):
        return _devices("memory", asked.count, name, equal={"type": asked.type},
                        least={"capacity_mib": asked.capacity_mib,
                               "speed_mhz": asked.speed_mhz})  # fmt: skip
    if isinstance(asked, AcceleratorAsk):
        return _devices("accelerator", asked.count, name, equal={"kind": asked.kind},
                        words=asked.model, least={"memory_mib": asked.memory_mib})  # fmt: skip
    if isinstance(asked, DriveAsk):
        size = asked.capacity_gib * GIB if asked.capacity_gib else None
        remote = None if asked.remote is None else str(asked.remote)
        where = {"media": asked.media, "protocol": asked.protocol, "remote": remote}
        return _devices("drive", asked.count, name, words=asked.model, equal=where,
                        least={"capacity_bytes": size, "rpm": asked.rpm})  # fmt: skip
    assert isinstance(asked, NicAsk)
    return _devices("nic", asked.count, name, least={"speed_mbps": asked.speed_mbps})


def _processor(asked: ProcessorAsk) -> Iterator[Need]:
    tests = _tests(
        words=asked.model,
        equal={"architecture": asked.architecture, "instruction_set": asked.instruction_set},
        least={"speed_mhz": asked.speed_mhz},
    )
    if asked.total_cores:
        yield Need(kind="processor", measure="cores", amount=asked.total_cores, tests=tests)
    if asked.sockets or not asked.total_cores:
        yield Need(kind="processor", measure="sockets", amount=asked.sockets or 1, tests=tests)


def _memory(asked: MemoryAsk) -> Need:
    tests = _tests(equal={"type": asked.type}, least={"speed_mhz": asked.speed_mhz})
    return Need(kind="memory", measure="capacity_mib", amount=asked.capacity_mib, tests=tests)


def _pci(types: tuple[str, ...]) -> Iterator[Need]:
    for type_, count in Counter(types).items():
        if type_ == "SSD":
            yield _devices("drive", count, equal={"media": "SSD"})
        elif type_ == "NIC":
            yield _devices("nic", count)
        else:
            yield _devices("accelerator", count, equal={"kind": type_})


def _stock(resource: str, amount: float, count: int) -> Need:
    return Need(kind="stock", measure="amount", amount=amount, count=count, resource=resource)


def _devices(
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
