# SPDX-License-Identifier: Apache-2.0
"""A pod manager as lists show it: what it says of itself, what it has, and what of it is free."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from valence_sched.model.inventory import LeanPodm
from valence_sched.model.measures import PodmSummary


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
    """What a pod manager reported by itself, and how many seconds ago it last did."""

    stats: dict[str, Any]
    age_s: float | None = None
