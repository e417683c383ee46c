# SPDX-License-Identifier: Apache-2.0
"""A pod manager as lists show it: what it says of itself, what it has, and what of it is free."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from valence_sched.model.claim import Claim
from valence_sched.model.composition import ComposedNode
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.usage import foreign_blocks

Amounts = tuple[int | None, int | None]


class PodmSummary(Struct, frozen=True, kw_only=True):
    """Free and total amounts of a pod manager or pool, each in the unit of its name.

    They are sums of what is known, and None where there is something of which nothing is known.
    """

    blocks: tuple[int, int]
    cores: Amounts
    memory_mib: Amounts
    gpus: Amounts
    accelerators: Amounts
    drives: Amounts
    nics: Amounts
    stocks: dict[str, tuple[float | None, float | None]]


class PodmOverview(Struct, frozen=True, kw_only=True):
    """A pod manager without its blocks; ``live`` when it was read in this run or reports itself.

    ``pools`` has the amounts of each pool where one pod manager was asked for, else it is empty.
    """

    podm: LeanPodm
    amounts: PodmSummary
    pool_count: int
    live: bool = False
    pools: dict[str, PodmSummary] = {}


class BlockUsage(Struct, frozen=True, kw_only=True):
    """The blocks in use on a pod manager: by the claims that hold them, and by others.

    ``held`` has the ids of claims by the URI of a block; ``foreign`` are the URIs of blocks in use
    that no claim of this state holds.
    """

    held: dict[str, str] = {}
    foreign: tuple[str, ...] = ()


class StatsReport(Struct, frozen=True, kw_only=True):
    """What a pod manager reported by itself, and when and how many seconds ago it last did."""

    stats: dict[str, Any]
    age_s: float | None = None
    at: float | None = None  # by the clock of the database


def block_usage(
    podm: str, stored: FullPodm | None, claims: Iterable[Claim], nodes: Iterable[ComposedNode]
) -> BlockUsage:
    """Return the blocks in use on a pod manager, by its claims and nodes.

    ``stored`` is the pod manager as it was last read, None where it never was.
    """
    holders: dict[str, list[str]] = {}
    for claim in claims:
        for part in claim.parts:
            for uri in part.blocks if part.podm == podm else ():
                holders.setdefault(uri, []).append(claim.id)
    ours = {*holders, *(uri for node in nodes for uri in node.blocks)}
    return BlockUsage(
        held={uri: ", ".join(ids) for uri, ids in sorted(holders.items())},
        foreign=foreign_blocks(stored, ours) if stored else (),
    )
