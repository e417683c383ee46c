# SPDX-License-Identifier: Apache-2.0
"""Named request templates, and how they compile to needs.

A superset of the Valence flavor: ``properties`` with ``memory``, ``processor``, ``pci_device``
and ``remote_storage``, numbers as strings accepted, and the devices Valence had no word for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from msgspec import Meta

from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.need import Ask, Bond, Need, Test
from valence_sched.model.noun import Noun
from valence_sched.model.request import Names

GIB = 1 << 30
MAX_ASKS = 16  # alternatives of one flavor
More = Annotated[int, Meta(ge=1, le=10**15)]
Word = Annotated[str, Meta(min_length=1, max_length=255)]


class ProcessorAsk(Noun, frozen=True):
    """Cores in total, from CPUs of this model, architecture, instruction set, or speed."""

    total_cores: More | None = None
    sockets: More | None = None
    model: Word | None = None
    architecture: Word | None = None
    instruction_set: Word | None = None
    speed_mhz: More | None = None


class MemoryAsk(Noun, frozen=True):
    """Main memory in total, from modules of this type and speed."""

    capacity_mib: More
    type: Word | None = None
    speed_mhz: More | None = None


class GroupAsk(Noun, frozen=True, kw_only=True):
    """A number of devices; their ``name`` is for bonds, ``same`` and ``apart`` are places."""

    name: Word | None = None
    count: More = 1
    same: Word | None = None
    apart: Word | None = None


class CpuAsk(GroupAsk, frozen=True, kw_only=True):
    """A number of CPUs, each with at least so many cores and this speed."""

    cores: More | None = None
    model: Word | None = None
    architecture: Word | None = None
    instruction_set: Word | None = None
    speed_mhz: More | None = None


class ModuleAsk(GroupAsk, frozen=True, kw_only=True):
    """A number of memory modules, each with at least this capacity and speed."""

    capacity_mib: More | None = None
    type: Word | None = None
    speed_mhz: More | None = None


class AcceleratorAsk(GroupAsk, frozen=True, kw_only=True):
    """A number of accelerators of one kind and model, each with at least this memory."""

    kind: Word = "GPU"
    model: Word | None = None
    memory_mib: More | None = None


class DriveAsk(GroupAsk, frozen=True, kw_only=True):
    """A number of drives, each with at least this capacity and rotation speed."""

    capacity_gib: More | None = None
    media: Word | None = None
    protocol: Word | None = None
    rpm: More | None = None
    model: Word | None = None
    remote: bool | None = None


class NicAsk(GroupAsk, frozen=True, kw_only=True):
    """A number of network interfaces, each at least this fast."""

    speed_mbps: More | None = None


class StockAsk(Noun, frozen=True):
    """``count`` separate amounts of a resource, each from one stock."""

    resource: Annotated[str, Meta(min_length=1)]
    amount: Annotated[float, Meta(gt=0, le=10**15)]
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class PciDevice(Noun, frozen=True):
    """Valence's devices: a list of types, repeated for more than one."""

    type: tuple[Word, ...] = ()


class RemoteStorage(Noun, frozen=True):
    """Valence's remote volume: an amount of the stock ``storage_gib``."""

    capacity_gib: More


class BondAsk(Noun, frozen=True, kw_only=True):
    """Which named groups share a place (``same``) or share none (``apart``).

    ``processor`` and ``memory`` are names too.
    """

    of: Annotated[tuple[Word, ...], Meta(min_length=1)]
    same: Word | None = None
    apart: Word | None = None

    def __post_init__(self) -> None:
        if (self.same is None) == (self.apart is None):
            raise ValueError("Expected exactly one of same, apart")


Groups = tuple[tuple[str, GroupAsk], ...]  # the groups of devices with their names


class Properties(Noun, frozen=True, kw_only=True):
    """What a node of this flavor is made of; ``resources`` are amounts of one stock each."""

    processor: ProcessorAsk | None = None
    memory: MemoryAsk | None = None
    cpus: tuple[CpuAsk, ...] = ()
    modules: tuple[ModuleAsk, ...] = ()
    accelerators: tuple[AcceleratorAsk, ...] = ()
    drives: tuple[DriveAsk, ...] = ()
    nics: tuple[NicAsk, ...] = ()
    stocks: tuple[StockAsk, ...] = ()
    resources: dict[Word, Annotated[float, Meta(gt=0, le=10**15)]] = {}
    bonds: tuple[BondAsk, ...] = ()
    pci_device: PciDevice | None = None
    remote_storage: RemoteStorage | None = None


class Flavor(Noun, frozen=True, kw_only=True):
    """A named request template.

    ``first_of`` are alternatives, each together with ``properties``, in the order in which they
    are tried. ``aggregates`` as a plain list are all required. ``uuid`` is what another project
    knows it by. ``share`` is how often its nodes are asked for beside those of other flavors: the
    mix that the weigher ``fragmentation`` leaves room for, in which 0 takes no part.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    uuid: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str = ""
    policy: Word | None = None
    share: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    properties: Properties = Properties()
    first_of: Annotated[tuple[Properties, ...], Meta(max_length=MAX_ASKS)] = ()
    zone: Word | None = None
    aggregates: tuple[str, ...] | Names = ()
    locations: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: Names = Names()
    where: Any = None

    @property
    def wanted_capabilities(self) -> dict[str, tuple[str, ...]]:
        """Return the capabilities as a map; ValueError when their text does not parse."""
        if isinstance(self.capabilities, str):
            return parse_capabilities(self.capabilities)
        return self.capabilities

    @property
    def wanted_aggregates(self) -> Names:
        """Return the aggregates that are required, forbidden, or of which one must be."""
        if isinstance(self.aggregates, Names):
            return self.aggregates
        return Names(required=self.aggregates)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Return the ways to make a node, the first that is tried at the front."""
        common = _ask(self.properties)
        others = [_ask(properties, after=self.properties) for properties in self.first_of]
        return tuple(
            Ask(common.needs + other.needs, common.bonds + other.bonds) for other in others
        ) or (common,)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return what the first way to make a node compiles to, totals first."""
        return self.asks[0].needs


def _ask(asked: Properties, after: Properties | None = None) -> Ask:
    """Compile properties; where they come ``after`` others, the numbers of their groups go on."""
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
