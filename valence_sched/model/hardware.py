# SPDX-License-Identifier: Apache-2.0
"""Hardware as lists show it: blocks with their devices, pools, and devices counted by model."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from valence_sched.model.base import Noun
from valence_sched.model.inventory import COUNTED_CONDITIONS, Devices
from valence_sched.model.need import has_words
from valence_sched.model.podm_overview import PodmSummary

#: ``shared``: in use, and another node may use it as well. ``unusable``: in nobody's use that is
#: known, and yet no node may use it: it is reserved, disabled, unwell or in another such state.
BlockUse = Literal["free", "shared", "used", "unusable"]


class BlockFilter(Noun, frozen=True, kw_only=True):
    """Which blocks to list; every field that is set must hold.

    ``model`` are words that stand in this order in the model of one of the block's devices, in
    any case. ``free``: at least one more node may use the block now.
    """

    podm: str | None = None
    pool: str | None = None
    type: str | None = None
    model: str | None = None
    free: bool = False


class BlockOverview(Struct, frozen=True, kw_only=True):
    """A block: where it is, what it holds, how many more nodes may use it, and who uses it.

    ``nodes`` are the names of the nodes that it is a part of, ``topology`` its place by domain.
    A block that a claim holds is in use. ``condition`` is the word for what is wrong with it.
    """

    podm: str
    uri: str
    types: tuple[str, ...]
    pools: tuple[str, ...]
    devices: Devices
    slots: int
    use: BlockUse
    nodes: tuple[str, ...] = ()
    topology: dict[str, str] = {}
    condition: str | None = None


class PoolOverview(Struct, frozen=True, kw_only=True):
    """A pool with its free and total amounts."""

    podm: str
    pool: str
    name: str | None
    traits: tuple[str, ...]
    amounts: PodmSummary


class DeviceCount(Struct, frozen=True, kw_only=True):
    """How many devices of one kind and model there are, how many are free, on how many podms.

    A device is free where its block is, unless its state or health forbids it. A number is None
    where that of some devices is unknown.
    """

    kind: str
    model: str | None
    devices: int | None
    free: int | None
    podms: int


#: The word for the devices of a field; an accelerator's is its own kind.
_KINDS = {"processors": "CPU", "memory": "memory module", "drives": "drive", "nics": "NIC"}


def device_groups(devices: Devices) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the kind, the model and the line of each group of equal devices."""
    for field in Devices.__struct_fields__:
        for device in getattr(devices, field):
            model = getattr(device, "model", None) or getattr(device, "type", None)
            yield _KINDS.get(field) or device.kind, model, device


def count_devices(blocks: Iterable[BlockOverview], model: str | None = None) -> list[DeviceCount]:
    """Count the devices of blocks by kind and model; with ``model`` only those of such a model."""
    every: dict[tuple[str, str | None], int | None] = {}
    free: dict[tuple[str, str | None], int | None] = {}
    podms: dict[tuple[str, str | None], set[str]] = defaultdict(set)
    for one in blocks:
        for kind, name, line in device_groups(one.devices):
            if model is None or (name and has_words(name, model)):
                key = (kind, name)
                is_free = one.slots > 0 and line.condition in COUNTED_CONDITIONS
                every[key] = _plus(every.get(key, 0), line.count)
                free[key] = _plus(free.get(key, 0), line.count if is_free else 0)
                podms[key].add(one.podm)
    return [
        DeviceCount(kind=kind, model=name, devices=every[kind, name], free=free[kind, name],
                    podms=len(podms[kind, name]))
        for kind, name in sorted(every, key=lambda key: (key[0], key[1] is None, key[1] or ""))
    ]  # fmt: skip


def added_devices(counts: Iterable[DeviceCount]) -> list[DeviceCount]:
    """Return the counts of several sites, which have no pod manager in common, added up."""
    found: dict[tuple[str, str | None], DeviceCount] = {}
    for one in counts:
        known = found.get((one.kind, one.model))
        found[one.kind, one.model] = one if known is None else DeviceCount(
            kind=one.kind, model=one.model, devices=_plus(known.devices, one.devices),
            free=_plus(known.free, one.free), podms=known.podms + one.podms,
        )  # fmt: skip
    order = sorted(found, key=lambda key: (key[0], key[1] is None, key[1] or ""))
    return [found[key] for key in order]


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
