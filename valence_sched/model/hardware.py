# SPDX-License-Identifier: Apache-2.0
"""Hardware as lists show it: blocks with their devices, pools, and devices counted by model."""

from msgspec import Struct

from valence_sched.model.base import Noun
from valence_sched.model.inventory import Devices
from valence_sched.model.podm_overview import PodmSummary


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
    """

    podm: str
    uri: str
    types: tuple[str, ...]
    pools: tuple[str, ...]
    devices: Devices
    slots: int
    nodes: tuple[str, ...] = ()
    topology: dict[str, str] = {}


class PoolOverview(Struct, frozen=True, kw_only=True):
    """A pool with its free and total amounts."""

    podm: str
    pool: str
    name: str | None
    traits: tuple[str, ...]
    amounts: PodmSummary


class DeviceCount(Struct, frozen=True, kw_only=True):
    """How many devices of one kind and model there are, how many are free, on how many podms.

    A device is free where its block is. A number is None where that of some devices is unknown.
    """

    kind: str
    model: str | None
    devices: int | None
    free: int | None
    podms: int
