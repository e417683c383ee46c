# SPDX-License-Identifier: Apache-2.0
"""Named request templates, and how they compile to needs.

A superset of the Valence flavor: ``properties`` with ``memory``, ``processor``, ``pci_device``
and ``remote_storage``, numbers as strings accepted, and the devices Valence had no word for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.noun import Noun
from valence_sched.model.request import Need, Test, Traits

GIB = 1 << 30
More = Annotated[int, Meta(ge=1, le=10**15)]


class ProcessorAsk(Noun, frozen=True):
    """Cores in total, from CPUs of this model, architecture, instruction set, or speed."""

    total_cores: More | None = None
    sockets: More | None = None
    model: str | None = None
    architecture: str | None = None
    instruction_set: str | None = None
    speed_mhz: More | None = None


class MemoryAsk(Noun, frozen=True):
    """Main memory in total, from modules of this type and speed."""

    capacity_mib: More
    type: str | None = None
    speed_mhz: More | None = None


class AcceleratorAsk(Noun, frozen=True):
    """A number of accelerators of one kind and model, each with at least this memory."""

    kind: str = "GPU"
    model: str | None = None
    count: More = 1
    memory_mib: More | None = None


class DriveAsk(Noun, frozen=True):
    """A number of drives, each with at least this capacity and rotation speed."""

    count: More = 1
    capacity_gib: More | None = None
    media: str | None = None
    protocol: str | None = None
    rpm: More | None = None
    model: str | None = None


class NicAsk(Noun, frozen=True):
    """A number of network interfaces, each at least this fast."""

    count: More = 1
    speed_mbps: More | None = None


class StockAsk(Noun, frozen=True):
    """``count`` separate amounts of a resource, each from one stock."""

    resource: Annotated[str, Meta(min_length=1)]
    amount: Annotated[float, Meta(gt=0, le=10**15)]
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class PciDevice(Noun, frozen=True):
    """Valence's devices: a list of types, repeated for more than one."""

    type: tuple[str, ...] = ()


class RemoteStorage(Noun, frozen=True):
    """Valence's remote volume: an amount of the stock ``storage_gib``."""

    capacity_gib: More


class Properties(Noun, frozen=True):
    """What a node of this flavor is made of."""

    processor: ProcessorAsk | None = None
    memory: MemoryAsk | None = None
    accelerators: tuple[AcceleratorAsk, ...] = ()
    drives: tuple[DriveAsk, ...] = ()
    nics: tuple[NicAsk, ...] = ()
    stocks: tuple[StockAsk, ...] = ()
    pci_device: PciDevice | None = None
    remote_storage: RemoteStorage | None = None


class Flavor(Noun, frozen=True, kw_only=True):
    """A named request template."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    description: str = ""
    properties: Properties
    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: Traits = Traits()

    @property
    def wanted_capabilities(self) -> dict[str, tuple[str, ...]]:
        """Return the capabilities as a map; ValueError when their text does not parse."""
        if isinstance(self.capabilities, str):
            return parse_capabilities(self.capabilities)
        return self.capabilities

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return what the properties compile to, totals first."""
        return tuple(_needs(self.properties))


def _needs(asked: Properties) -> Iterator[Need]:
    if asked.processor:
        yield from _processor(asked.processor)
    if asked.memory:
        yield _memory(asked.memory)
    for card in asked.accelerators:
        yield _devices("accelerator", card.count, equal={"kind": card.kind}, words=card.model,
                       least={"memory_mib": card.memory_mib})  # fmt: skip
    for drive in asked.drives:
        size = drive.capacity_gib * GIB if drive.capacity_gib else None
        yield _devices("drive", drive.count, words=drive.model,
                       equal={"media": drive.media, "protocol": drive.protocol},
                       least={"capacity_bytes": size, "rpm": drive.rpm})  # fmt: skip
    for nic in asked.nics:
        yield _devices("nic", nic.count, least={"speed_mbps": nic.speed_mbps})
    yield from _pci(asked.pci_device.type if asked.pci_device else ())
    for stock in asked.stocks:
        yield _stock(stock.resource, stock.amount, stock.count)
    if asked.remote_storage:
        yield _stock("storage_gib", asked.remote_storage.capacity_gib, 1)


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
    *,
    words: str | None = None,
    equal: dict[str, str | None] | None = None,
    least: dict[str, int | None] | None = None,
) -> Need:
    tests = _tests(words=words, equal=equal or {}, least=least or {})
    return Need(kind=kind, measure="devices", amount=count, tests=tests)  # type: ignore[arg-type]


def _tests(
    *, words: str | None = None, equal: dict[str, str | None], least: dict[str, int | None]
) -> tuple[Test, ...]:
    found = [Test(name, "equal", text) for name, text in equal.items() if text]
    found += [Test("model", "words", words)] if words else []
    found += [Test(name, "at_least", bound) for name, bound in least.items() if bound]
    return tuple(found)
