# SPDX-License-Identifier: Apache-2.0
"""The replay document ``valence-sched/replay``: what became of a workload on sites, by policy."""

from __future__ import annotations

from msgspec import Struct

from valence_sched.model.codec import check_schema, decode
from valence_sched.model.decision import FunnelStep, InventorySummary, Reason

SCHEMA = "valence-sched/replay"
VERSION = "1.0"


class NodeCount(Struct, frozen=True, kw_only=True):
    """How many nodes of one flavor were requested and placed; ``requested`` is the sum of the rest.

    ``flavor`` is None for requests with properties of their own.
    """

    flavor: str | None
    requested: int
    placed: int
    refused: int
    undecided: int


class Refusal(Struct, frozen=True, kw_only=True):
    """How many nodes of a flavor were refused at one step of the funnel: there the last pools went.

    ``step`` is the name of a filter, or ``fit`` where the blocks of a pool do not make the node.
    """

    flavor: str | None
    step: str
    nodes: int


class ReasonGroup(Struct, frozen=True, kw_only=True):
    """How many pod managers were rejected for one reason, and the one that came nearest."""

    podms: int
    nearest: str
    reason: Reason | None


class FirstRefusal(Struct, frozen=True, kw_only=True):
    """Why the first request of a flavor was refused: its line, the funnel, the reasons.

    ``time_s`` is how many seconds after the first arrival it was.
    """

    flavor: str | None
    line: int
    time_s: float
    funnel: tuple[FunnelStep, ...]
    reasons: tuple[ReasonGroup, ...]


class Utilisation(Struct, frozen=True, kw_only=True):
    """The share of a resource that no further node can have: mean over time and peak, from 0 to 1.

    Nodes have it, or it cannot be used. ``total`` is all there is, in the unit of its name.
    """

    total: float
    mean: float
    peak: float


class Fragmentation(Struct, frozen=True, kw_only=True):
    """The share of the free amount of a resource that the mix of flavors has no use for."""

    resource: str
    mean: float
    peak: float


class NodeSpread(Struct, frozen=True, kw_only=True):
    """Nodes per pod manager: the mean over time of those that have any, and the most on one.

    ``placed`` is how many nodes of the workload each one took in all.
    """

    mean: float
    most: int
    placed: dict[str, int]


class ReplaySeries(Struct, frozen=True, kw_only=True):
    """What happened over time, in buckets of equal length; the last one may be shorter.

    Bucket ``i`` begins ``i × bucket_s`` seconds after the first arrival. ``used`` and
    ``fragmentation`` are shares, ``nodes`` and ``podms`` are those in use: means over the bucket,
    ``fragmentation`` its end. ``requested``, ``placed``, ``refused`` and ``undecided`` are counts.
    """

    bucket_s: float
    used: dict[str, tuple[float, ...]]
    nodes: tuple[float, ...]
    podms: tuple[float, ...]
    fragmentation: tuple[float, ...] | None
    requested: tuple[int, ...]
    placed: tuple[int, ...]
    refused: tuple[int, ...]
    undecided: tuple[int, ...]


class ReplayResult(Struct, frozen=True, kw_only=True):
    """What became of a workload on one site under one policy; the same inputs, the same bytes.

    ``policy`` is the one that all requests were decided by, None where each has its own. Numbers
    of nodes are over all requests: ``placed + refused + undecided = requested``. All means are
    over the time from the first arrival to the last, which is ``duration_s``; nodes that depart
    later are in use until then. ``podms_needed`` is how many pod managers had nodes at once, at
    most. ``cost`` is the sum over pod managers of their fact ``price``, which is that of an hour,
    times the hours in which they had nodes; None where no pod manager has a price.
    """

    site: str
    policy: str | None
    inventory: InventorySummary
    requests: int
    requested: int
    placed: int
    refused: int
    undecided: int
    departed: int
    duration_s: float
    peak_nodes: int
    podms_needed: int
    spread: NodeSpread
    utilisation: dict[str, Utilisation]
    fragmentation: Fragmentation | None
    cost: float | None
    by_flavor: tuple[NodeCount, ...]
    refusals: tuple[Refusal, ...]
    first_refusals: tuple[FirstRefusal, ...]
    series: ReplaySeries
    warnings: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return what the run is called: its site, and the policy if it has one of its own."""
        return self.site if self.policy is None else f"{self.site}/{self.policy}"


class Replay(Struct, frozen=True, kw_only=True):
    """One workload, replayed on sites and under policies: a run for each pair."""

    schema: str = SCHEMA
    version: str = VERSION
    workload: str
    runs: tuple[ReplayResult, ...]


def parse_replay(data: bytes, file: str) -> tuple[Replay, list[str]]:
    """Parse a written replay; also return warnings.

    Raises:
        InputError: it is none.
        NewerSchema: it is of a newer major version.
    """
    head = decode(data, _ReplayHead, file)
    warnings = check_schema(head.schema, head.version, SCHEMA, VERSION, file)
    return decode(data, Replay, file), warnings


class _ReplayHead(Struct, frozen=True):
    schema: str
    version: str
