# SPDX-License-Identifier: Apache-2.0
"""Flavors: named request templates, a superset of the Valence flavor, compiled into needs."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import replace

from valence_sched.errors import is_not, must_be, one_line, suggest
from valence_sched.model import need
from valence_sched.model.base import Noun
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.need import Alternative, NameRequirements, Need, NeedKind, need_for_stock
from valence_sched.model.quantity import is_quantity, quantity_in, unit_of

PositiveInt = Annotated[int, Meta(ge=1, le=10**15)]
PositiveNumber = PositiveInt | Annotated[float, Meta(gt=0, le=10**15)]
Word = Annotated[str, Meta(min_length=1, max_length=255)]
MAX_ALTERNATIVES = 16  # alternatives of one flavor
# Placement resource classes; CUSTOM_STORAGE_GIB, or in lower case storage_gib, is a stock.
CORES = ("VCPU", "PCPU", "NUMA_CORE")
SOCKETS = "NUMA_SOCKET"
MEMORY = "MEMORY_MB"
DRIVE = "DISK_GB"
ACCELERATORS = {"PGPU": "GPU", "VGPU": "GPU", "FPGA": "FPGA"}
BANDWIDTHS = ("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC")
CUSTOM = "CUSTOM_"
TOTALS = ("cores", "sockets", "capacity_mib")  # measures of a need that are sums of devices
STANDARD = (*CORES, SOCKETS, MEMORY, DRIVE, *ACCELERATORS, *BANDWIDTHS)
REFUSED = {
    "PCI_DEVICE": "use PGPU, FPGA or DISK_GB",
    "SRIOV_NET_VF": "use NET_BW_EGR_KILOBIT_PER_SEC, the speed of whole interfaces",
    "NUMA_THREAD": "use VCPU: cores are counted, not threads",
    "NUMA_MEMORY_MB": "use MEMORY_MB",
    "IPV4_ADDRESS": "pod managers have no addresses to grant",
}
_VIRTUAL = {"VGPU_DISPLAY_HEAD", "MEM_ENCRYPTION_CONTEXT", "NET_PACKET_RATE_KILOPACKET_PER_SEC"}
_VIRTUAL |= {f"NET_PACKET_RATE_{way}_KILOPACKET_PER_SEC" for way in ("EGR", "IGR")}
REFUSED |= dict.fromkeys(_VIRTUAL, "it is a resource of hypervisors")
_KBPS_PER_MBPS = 1000
_CUSTOM_CLASS = re.compile(rf"{CUSTOM}[A-Z0-9_]+")
_STOCK = re.compile(r"[\w.-]+")
MOST_OF_A_CLASS = 10**15
_MAX_CLASS = 255  # characters of a resource class, as in Placement's schema


class ProcessorSpec(Noun, frozen=True):
    """Cores in total, from CPUs of this model, architecture, instruction set and speed."""

    total_cores: PositiveInt | None = None
    sockets: PositiveInt | None = None
    model: Word | None = None
    architecture: Word | None = None
    instruction_set: Word | None = None
    speed_mhz: PositiveInt | None = None


class MemorySpec(Noun, frozen=True):
    """Main memory in total, from modules of this type and speed."""

    capacity_mib: PositiveInt
    type: Word | None = None
    speed_mhz: PositiveInt | None = None


class DeviceGroupSpec(Noun, frozen=True, kw_only=True):
    """A number of devices; constraints refer to its ``name``. ``same``, ``apart``: domains."""

    name: Word | None = None
    count: PositiveInt = 1
    same: Word | None = None
    apart: Word | None = None


class CpuSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of CPUs, each with at least this number of cores and this speed."""

    cores: PositiveInt | None = None
    model: Word | None = None
    architecture: Word | None = None
    instruction_set: Word | None = None
    speed_mhz: PositiveInt | None = None


class MemoryModuleSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of memory modules, each with at least this capacity and speed."""

    capacity_mib: PositiveInt | None = None
    type: Word | None = None
    speed_mhz: PositiveInt | None = None


class AcceleratorSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of accelerators of one kind and model, each with at least this memory."""

    kind: Word = "GPU"
    model: Word | None = None
    memory_mib: PositiveInt | None = None


class DriveSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of drives, each with at least this capacity and rotation speed."""

    capacity_gib: PositiveNumber | None = None
    media: Word | None = None
    protocol: Word | None = None
    rpm: PositiveInt | None = None
    model: Word | None = None
    remote: bool | None = None


class NicSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of network interfaces, each at least this fast."""

    speed_mbps: PositiveInt | None = None


class StockSpec(Noun, frozen=True):
    """``count`` separate amounts of a resource, each from one stock."""

    resource: Annotated[str, Meta(min_length=1)]
    amount: Annotated[float, Meta(gt=0, le=10**15)]
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class PciDevice(Noun, frozen=True):
    """Valence's devices: a list of types, in which each device is one item."""

    type: tuple[Word, ...] = ()


class RemoteStorage(Noun, frozen=True):
    """Valence's remote volume: an amount of the stock ``storage_gib``."""

    capacity_gib: PositiveNumber


class TopologyConstraintSpec(Noun, frozen=True, kw_only=True):
    """Named groups ``of`` devices in one (``same``) or in different (``apart``) places of a domain.

    ``processor`` and ``memory`` are names, too.
    """

    of: Annotated[tuple[Word, ...], Meta(min_length=1)]
    same: Word | None = None
    apart: Word | None = None

    def __post_init__(self) -> None:
        if (self.same is None) == (self.apart is None):
            raise ValueError("Expected exactly one of same, apart")


class Properties(Noun, frozen=True, kw_only=True):
    """The devices and amounts of a node; each amount of ``resources`` comes from one stock."""

    processor: ProcessorSpec | None = None
    memory: MemorySpec | None = None
    cpus: tuple[CpuSpec, ...] = ()
    modules: tuple[MemoryModuleSpec, ...] = ()
    accelerators: tuple[AcceleratorSpec, ...] = ()
    drives: tuple[DriveSpec, ...] = ()
    nics: tuple[NicSpec, ...] = ()
    stocks: tuple[StockSpec, ...] = ()
    resources: dict[Word, Annotated[float, Meta(gt=0, le=10**15)]] = {}
    topology: tuple[TopologyConstraintSpec, ...] = ()
    pci_device: PciDevice | None = None
    remote_storage: RemoteStorage | None = None


class Flavor(Noun, frozen=True, kw_only=True):
    """A named request template.

    ``first_of`` are alternatives in the order in which they are tried, each with ``properties``
    added. All names of a plain list of ``aggregates`` are required. ``uuid`` is its id in another
    project. ``share`` is its frequency in requests relative to other flavors; the weigher
    ``fragmentation`` keeps room for this mix of flavors.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    uuid: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str = ""
    policy: Word | None = None
    share: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    properties: Properties = Properties()
    first_of: Annotated[tuple[Properties, ...], Meta(max_length=MAX_ALTERNATIVES)] = ()
    zone: Word | None = None
    aggregates: tuple[str, ...] | NameRequirements = ()
    locations: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    tolerations: tuple[need.Toleration, ...] = ()

    @property
    def capability_map(self) -> dict[str, tuple[str, ...]]:
        return parse_capabilities(self.capabilities)

    @property
    def aggregate_names(self) -> NameRequirements:
        return NameRequirements.of(self.aggregates)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        common = _compile_properties(self.properties)
        others = [_compile_properties(one, preceding=self.properties) for one in self.first_of]
        return tuple(
            Alternative(common.needs + other.needs, common.topology + other.topology)
            for other in others
        ) or (common,)

    @property
    def needs(self) -> tuple[Need, ...]:
        needs = self.alternatives[0].needs
        if not self.tolerations:
            return needs
        return tuple(replace(one, tolerations=self.tolerations) for one in needs)


GIB = 1 << 30
#: The devices of Valence that are not accelerators, by their type.
_PCI_DEVICES: dict[str, DeviceGroupSpec] = {"SSD": DriveSpec(media="SSD"), "NIC": NicSpec()}
#: Per spec: the kind of need, the fields compared as text, and the fields that are minimums.
_DEMANDS: dict[type[Noun], tuple[NeedKind, tuple[str, ...], tuple[str, ...]]] = {
    ProcessorSpec: ("processor", ("architecture", "instruction_set"), ("speed_mhz",)),
    MemorySpec: ("memory", ("type",), ("speed_mhz",)),
    CpuSpec: ("processor", ("architecture", "instruction_set"), ("cores", "speed_mhz")),
    MemoryModuleSpec: ("memory", ("type",), ("capacity_mib", "speed_mhz")),
    AcceleratorSpec: ("accelerator", ("kind",), ("memory_mib",)),
    DriveSpec: ("drive", ("media", "protocol", "remote"), ("capacity_gib", "rpm")),
    NicSpec: ("nic", (), ("speed_mbps",)),
}


def _compile_properties(properties: Properties, preceding: Properties | None = None) -> Alternative:
    """Return needs and constraints; numbers of unnamed groups follow those of ``preceding``."""
    groups: list[tuple[str, DeviceGroupSpec]] = []
    for field in ("cpus", "modules", "accelerators", "drives", "nics"):
        earlier = len(getattr(preceding, field)) if preceding else 0
        for number, group in enumerate(getattr(properties, field), 1 + earlier):
            bound = f"{_DEMANDS[type(group)][0]}-{number}" if group.same or group.apart else ""
            groups.append((group.name or bound, group))
    named: list[tuple[tuple[str, ...], str | None, str | None]]
    named = [((name,), group.same, group.apart) for name, group in groups]
    named += [(one.of, one.same, one.apart) for one in properties.topology]
    topology = []
    for names, same, apart in named:
        if same:
            topology.append(need.TopologyConstraint("same", same, names))
        if apart:
            topology.append(need.TopologyConstraint("apart", apart, names))
    return Alternative(tuple(_needs(properties, groups)), tuple(topology))


def _needs(properties: Properties, groups: Sequence[tuple[str, DeviceGroupSpec]]) -> Iterator[Need]:
    if cpus := properties.processor:
        tests = _tests(cpus)
        if cpus.total_cores:
            yield Need(kind="processor", measure="cores", amount=cpus.total_cores, tests=tests)
        if cpus.sockets or not cpus.total_cores:
            yield Need(kind="processor", measure="sockets", amount=cpus.sockets or 1, tests=tests)
    if memory := properties.memory:
        amount = memory.capacity_mib
        yield Need(kind="memory", measure="capacity_mib", amount=amount, tests=_tests(memory))
    for name, group in groups:
        yield _group_need(group, name)
    types = properties.pci_device.type if properties.pci_device else ()
    for type_, count in Counter(types).items():
        device = _PCI_DEVICES.get(type_) or AcceleratorSpec(kind=type_)
        yield _group_need(replace(device, count=count))
    for stock in properties.stocks:
        yield replace(need_for_stock(stock.resource, stock.amount), count=stock.count)
    for resource, number in properties.resources.items():
        yield need_for_stock(resource, number)
    if properties.remote_storage:
        yield need_for_stock("storage_gib", properties.remote_storage.capacity_gib)


def _group_need(group: DeviceGroupSpec, name: str = "") -> Need:
    kind, tests = _DEMANDS[type(group)][0], _tests(group)
    return Need(kind=kind, measure="devices", amount=group.count, tests=tests, name=name)


def _tests(spec: Noun) -> tuple[need.Test, ...]:
    _, texts, numbers = _DEMANDS[type(spec)]
    values = [(name, getattr(spec, name)) for name in texts]
    tests = [need.Test(name, "equal", str(value)) for name, value in values if value is not None]
    if model := getattr(spec, "model", None):
        tests.append(need.Test("model", "words", model))
    bounds = {name: getattr(spec, name) or 0 for name in numbers}
    if "capacity_gib" in bounds:
        bounds = {"capacity_bytes": round(bounds.pop("capacity_gib") * GIB), **bounds}
    tests += [need.Test(name, "at_least", least) for name, least in bounds.items() if least]
    return tuple(tests)


def resource_class_problem(name: str) -> str | None:
    """Return the problem of the name of a resource class, None if it can be requested."""
    if name in REFUSED:
        return f"resource class {name!r} has no counterpart here: {REFUSED[name]}"
    if name in STANDARD or (_CUSTOM_CLASS.fullmatch(name) and len(name) <= _MAX_CLASS):
        return None
    capitals = name.upper()
    if capitals.startswith(CUSTOM):
        expected = f"{CUSTOM} and upper-case letters, digits or _, at most {_MAX_CLASS} characters"
        return one_line(f"no resource class named {name!r} ({expected})")
    if _STOCK.fullmatch(name) and name != capitals and capitals not in (*STANDARD, *REFUSED):
        return None
    hint = suggest(capitals, STANDARD)
    return one_line(f"no resource class named {name!r} ({hint}; a class of your own is CUSTOM_...)")


def compile_amounts(amounts: Mapping[str, float]) -> Properties:
    """Return amounts of resource classes as properties; custom and ``DISK_GB`` keep fractions."""
    whole = {name: int(amount) for name, amount in amounts.items()}
    cores = sum(whole.get(name, 0) for name in CORES)
    sockets = whole.get(SOCKETS)
    kbps = max(whole.get(name, 0) for name in BANDWIDTHS)
    cards = [(kind, whole[name]) for name, kind in ACCELERATORS.items() if name in amounts]
    stocks = {
        name.removeprefix(CUSTOM).lower() if name.startswith(CUSTOM) else name: float(amount)
        for name, amount in amounts.items()
        if name not in STANDARD
    }
    return Properties(
        processor=ProcessorSpec(cores or None, sockets) if cores or sockets else None,
        memory=MemorySpec(whole[MEMORY]) if MEMORY in amounts else None,
        accelerators=tuple(AcceleratorSpec(kind=kind, count=count) for kind, count in cards),
        drives=(DriveSpec(capacity_gib=amounts[DRIVE]),) if DRIVE in amounts else (),
        nics=(NicSpec(speed_mbps=-(-kbps // _KBPS_PER_MBPS)),) if kbps else (),
        resources=stocks,
    )


def add_needs(before: tuple[Need, ...], needs: tuple[Need, ...]) -> tuple[Need, ...]:
    """Return the needs of an alternative with more needs; totals of the same measure are added up.

    A total with tests remains a separate need. All devices together must also have the sum of the
    totals.
    """
    totals = {
        new.measure: max(old.amount for old in before if old.measure == new.measure)
        for new in needs
        if any(old.measure == new.measure and new.measure in TOTALS for old in before)
    }
    untouched = [old for old in before if old.tests or old.measure not in totals]
    added = [replace(new, amount=new.amount + totals.get(new.measure, 0)) for new in needs]
    return (*untouched, *added)


def parse_gpus(text: str) -> dict[str, Any]:
    """Parse ``2``, ``A100`` or ``2xA100`` into accelerators of properties; else ValueError."""
    match = re.fullmatch(r"([0-9]{1,4})(?:x(\S.*))?|((?![-0-9.,]+x?$)\S.*)", text.strip())
    count, model = (int(match[1] or 1), match[2] or match[3]) if match else (0, None)
    if count < 1:
        raise is_not("2, A100 or 2xA100", text)
    return {"kind": "GPU", "count": count} | ({"model": model} if model else {})


def parse_drives(text: str) -> dict[str, Any]:
    """Parse ``1TB`` or ``2x1TB`` into drives of properties; else ValueError."""
    match = re.fullmatch(r"(?:([0-9]{1,4})x)?(.*)", text)
    count, size = (int(match[1] or 1), match[2]) if match else (0, "")
    if count < 1:
        raise is_not("1TB or 2x1TB", text)
    return {"count": count, "capacity_gib": _amount_above_0(size, "GiB")}


def parse_memory_mib(text: str) -> int:
    """Parse an amount of memory above 0 into whole MiB; else ValueError."""
    return math.ceil(_amount_above_0(text, "MiB"))


def _amount_above_0(text: str, unit: str) -> float:
    number = quantity_in(text, unit)
    if number <= 0:
        raise must_be("above 0", text)
    return number


def parse_resource(text: str) -> tuple[str, float]:
    """Parse ``CLASS=N``; an amount of a class whose name ends in a unit may have another unit."""
    name, equals, amount = text.partition("=")
    if not equals:
        raise is_not("CLASS=N, as in VCPU=4", text)
    if wrong := resource_class_problem(name):
        raise ValueError(wrong)
    unit = unit_of(name)
    if unit and is_quantity(amount):
        try:
            number = quantity_in(amount, unit)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if number > 0:
            return name, number
    if not re.fullmatch(r"[0-9]{1,16}", amount) or not 0 < int(amount) <= MOST_OF_A_CLASS:
        found = f"a whole number of 1 to {MOST_OF_A_CLASS:,}, got {amount[:40]!r}"
        raise ValueError(f"{name} must be {found}")
    return name, int(amount)
