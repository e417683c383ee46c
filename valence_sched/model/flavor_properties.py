# SPDX-License-Identifier: Apache-2.0
"""The ``properties`` of a flavor: the devices and amounts of a node as a person writes them.

A superset of the Valence flavor: ``memory``, ``processor``, ``pci_device`` and ``remote_storage``,
with numbers accepted as strings, sizes and rates also with a unit (``256GiB``), and the devices
that Valence does not have.
"""

from typing import Annotated

from msgspec import Meta

from valence_sched.model.base import Noun

PositiveInt = Annotated[int, Meta(ge=1, le=10**15)]
PositiveNumber = PositiveInt | Annotated[float, Meta(gt=0, le=10**15)]
Word = Annotated[str, Meta(min_length=1, max_length=255)]


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
    """A number of devices; bonds refer to their ``name``, ``same`` and ``apart`` name domains."""

    name: Word | None = None
    count: PositiveInt = 1
    same: Word | None = None
    apart: Word | None = None


class CpuSpec(DeviceGroupSpec, frozen=True, kw_only=True):
    """A number of CPUs, each with at least so many cores and this speed."""

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
    """Valence's devices: a list of types, repeated for more than one."""

    type: tuple[Word, ...] = ()


class RemoteStorage(Noun, frozen=True):
    """Valence's remote volume: an amount of the stock ``storage_gib``."""

    capacity_gib: PositiveNumber


class TopologyConstraintSpec(Noun, frozen=True, kw_only=True):
    """The named groups that share a topology domain (``same``) or share none (``apart``).

    ``processor`` and ``memory`` are names, too.
    """

    of: Annotated[tuple[Word, ...], Meta(min_length=1)]
    same: Word | None = None
    apart: Word | None = None

    def __post_init__(self) -> None:
        if (self.same is None) == (self.apart is None):
            raise ValueError("Expected exactly one of same, apart")


class Properties(Noun, frozen=True, kw_only=True):
    """What a node of this flavor is made of; ``resources`` are amounts of one stock each."""

    processor: ProcessorSpec | None = None
    memory: MemorySpec | None = None
    cpus: tuple[CpuSpec, ...] = ()
    modules: tuple[MemoryModuleSpec, ...] = ()
    accelerators: tuple[AcceleratorSpec, ...] = ()
    drives: tuple[DriveSpec, ...] = ()
    nics: tuple[NicSpec, ...] = ()
    stocks: tuple[StockSpec, ...] = ()
    resources: dict[Word, Annotated[float, Meta(gt=0, le=10**15)]] = {}
    bonds: tuple[TopologyConstraintSpec, ...] = ()
    pci_device: PciDevice | None = None
    remote_storage: RemoteStorage | None = None
