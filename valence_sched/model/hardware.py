# SPDX-License-Identifier: Apache-2.0
"""Hardware in lists: pod managers, pools, blocks, and devices counted by model."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.model.base import Noun
from valence_sched.model.claim import Claim, ComposedNode
from valence_sched.model.inventory import (
    COUNTED_CONDITIONS,
    AmountSum,
    Count,
    CountSum,
    Devices,
    FullPodm,
    LeanPodm,
)
from valence_sched.model.need import has_words

Amounts = tuple[CountSum | None, CountSum | None]
#: ``shared``: in use, and another node may use it as well. ``unusable``: not in use, and reserved,
#: tainted, disabled, unhealthy or in another state that forbids it.
BlockUse = Literal["free", "shared", "used", "unusable"]
#: The noun for a device, by field of ``Devices``; the noun for an accelerator is its own kind.
_KINDS = {"processors": "CPU", "memory": "memory module", "drives": "drive", "nics": "NIC"}


class PodmSummary(Struct, frozen=True, kw_only=True):
    """Free and total amounts of a pod manager or pool, each in the unit of its name.

    They are sums of known amounts, None if all are unknown.
    """

    blocks: tuple[CountSum, CountSum]
    cores: Amounts
    memory_mib: Amounts
    gpus: Amounts
    accelerators: Amounts
    drives: Amounts
    nics: Amounts
    stocks: dict[str, tuple[AmountSum | None, AmountSum | None]]


class PodmOverview(Struct, frozen=True, kw_only=True):
    """A pod manager without its blocks.

    It is ``live`` if it was read in this run or reports statistics.

    Only the overview of a single pod manager has the amounts of its ``pools``.
    """

    podm: LeanPodm
    amounts: PodmSummary
    pool_count: Count
    live: bool = False
    pools: dict[str, PodmSummary] = {}


class BlockUsage(Struct, frozen=True, kw_only=True):
    """The blocks in use on a pod manager.

    ``held`` has the ids of claims by the URI of a block; ``unmanaged`` blocks are in use without
    a claim.
    """

    held: dict[str, str] = {}
    unmanaged: tuple[str, ...] = ()


class StatsReport(Struct, frozen=True, kw_only=True):
    """The reported statistics of a pod manager, with the time and age of the last report."""

    stats: dict[str, Any]
    age_s: float | None = None
    at: float | None = None  # by the clock of the database


def block_usage(
    podm: str, stored: FullPodm | None, claims: Iterable[Claim], nodes: Iterable[ComposedNode]
) -> BlockUsage:
    """Return the blocks in use on a pod manager; ``stored`` is its last reading, if any."""
    holders: dict[str, list[str]] = {}
    for claim in claims:
        for part in claim.parts:
            for uri in part.blocks if part.podm == podm else ():
                holders.setdefault(uri, []).append(claim.id)
    ours = {*holders, *(uri for node in nodes for uri in node.blocks)}
    used = (one.uri for one in stored.blocks if one.status and one.status.in_use) if stored else ()
    return BlockUsage(
        held={uri: ", ".join(ids) for uri, ids in sorted(holders.items())},
        unmanaged=tuple(uri for uri in used if uri not in ours),
    )


class BlockFilter(Noun, frozen=True, kw_only=True):
    """A selection of blocks: a listed block matches every field that is set.

    ``model`` are words of the model of a device, in this order. ``free``: at least one more node
    may use the block.
    """

    podm: str | None = None
    pool: str | None = None
    type: str | None = None
    model: str | None = None
    free: bool = False


class BlockOverview(Struct, frozen=True, kw_only=True):
    """A block: place, devices, use, and the number of nodes that may still use it (``slots``).

    ``nodes`` are the names of its nodes, and ``topology`` is its place by domain. ``condition`` is
    its state or health if that is not Enabled or OK, and its taints: a tainted block has no slots,
    although requests that tolerate the taints may use it. A block of a claim is in use.
    """

    podm: str
    uri: str
    types: tuple[str, ...]
    pools: tuple[str, ...]
    devices: Devices
    slots: CountSum
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
    """Devices of one kind and model: all, free, and their pod managers.

    A device is free if its block is free, and its own state and health allow its use. Unknown
    numbers are None.
    """

    kind: str
    model: str | None
    devices: CountSum | None
    free: CountSum | None
    podms: Count


def device_groups(devices: Devices) -> Iterator[tuple[str, str | None, Any]]:
    """Yield the kind and the model of each group of equal devices, and the group."""
    for field in Devices.__struct_fields__:
        for device in getattr(devices, field):
            model = getattr(device, "model", None) or getattr(device, "type", None)
            yield _KINDS.get(field) or device.kind, model, device


def count_devices(blocks: Iterable[BlockOverview], model: str | None = None) -> list[DeviceCount]:
    """Count the devices of blocks by kind and model; with ``model`` only devices of that model."""
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
    return added_devices(
        DeviceCount(
            kind=key[0], model=key[1], devices=number, free=free[key], podms=len(podms[key])
        )
        for key, number in every.items()
    )


def added_devices(counts: Iterable[DeviceCount]) -> list[DeviceCount]:
    """Return the sums of the counts of several sites without common pod managers."""
    found: dict[tuple[str, str | None], DeviceCount] = {}
    for one in counts:
        key = one.kind, one.model
        if (known := found.get(key)) is None:
            found[key] = one
            continue
        devices, free = _plus(known.devices, one.devices), _plus(known.free, one.free)
        found[key] = replace(one, devices=devices, free=free, podms=known.podms + one.podms)
    order = sorted(found, key=lambda key: (key[0], key[1] is None, key[1] or ""))
    return [found[key] for key in order]


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
