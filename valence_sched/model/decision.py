# SPDX-License-Identifier: Apache-2.0
"""The decision document ``valence-sched/decision``, version 1."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from valence_sched.model.base import Value, format_value
from valence_sched.model.explanation import Explanation
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request

SCHEMA = "valence-sched/decision"
DECISIONS_SCHEMA = "valence-sched/decisions"
VERSION = "1.0"

Outcome = Literal["placed", "placed_in_part", "nothing_fits"]


class BlockRef(Struct, frozen=True, kw_only=True):
    """A block of the node."""

    uri: str
    type: tuple[str, ...]


class GrantRef(Struct, frozen=True, kw_only=True):
    """An amount of a stock for the node, in the stock's unit."""

    uri: str
    resource: str
    amount: float
    unit: str


class Candidate(Struct, frozen=True, kw_only=True):
    """A pool and the very blocks and amounts that would make the node.

    ``score`` is 0..1, the weighted mean of ``scores``; ``cost`` is the weighted sum of
    1,000,000 × (1 - score), in thousandths of a weight, low is best; ``waste`` is what the
    blocks hold beyond what was asked, in points.
    """

    podm: str
    pool: str
    score: float
    cost: int
    scores: dict[str, float]
    blocks: tuple[BlockRef, ...]
    grants: tuple[GrantRef, ...]
    waste: int


class Placement(Struct, frozen=True, kw_only=True):
    """One node: where it goes, and where else it could have gone at that moment.

    ``choice`` says which of the request's alternatives it is made by, from 1.
    """

    node: int
    choice: int
    chosen: Candidate
    alternates: tuple[Candidate, ...]


class Reason(Struct, frozen=True, kw_only=True):
    """Why a pool was rejected: the filter, what it needs and what it has.

    ``podm_have`` is what the pod manager has in all its pools together, where that is enough:
    a node is made in one pool, so it does not help.
    """

    filter: str
    label: str
    need: Value
    have: Value
    unit: str
    podm_have: Value = None

    @property
    def text(self) -> str:
        """Return the reason as a person reads it."""
        unit = f" {self.unit}" if self.unit else ""
        elsewhere = ""
        if self.podm_have is not None:
            elsewhere = (
                f" ({format_value(self.podm_have)} in all its pools, but a node is made in one)"
            )
        what = self.filter if self.label == self.filter else f"{self.filter}: {self.label}"
        need, have = format_value(self.need), format_value(self.have)
        return f"{what}: needs {need}{unit}, has {have}{unit}{elsewhere}"


class PodmVerdict(Struct, frozen=True, kw_only=True):
    """What became of one pod manager: its best pool, or why none of its pools would do.

    ``behind`` is how far its score lies below the chosen one's. ``pools`` counts its pools and
    ``pools_passed`` those that passed every filter. ``fitting`` nodes of the request fit there one
    after another; they are placed when enough fit in all. The ``reason`` of a chosen one says
    why it took no more nodes, where fewer were placed than asked for.
    """

    podm: str
    pool: str
    outcome: Literal["chosen", "alternate", "fits", "rejected"]
    score: float | None
    behind: float | None
    pools: int
    pools_passed: int
    fitting: int
    reason: Reason | None


class FunnelStep(Struct, frozen=True, kw_only=True):
    """One filter of the funnel: how many pools came in and how many went on."""

    filter: str
    came_in: int = field(name="in")
    went_on: int = field(name="out")


class InventorySummary(Struct, frozen=True, kw_only=True):
    """The inventory that was decided on."""

    digest: str
    podms: int
    pools: int
    blocks: int
    skipped: tuple[str, ...]


class Report(Struct, frozen=True, kw_only=True):
    """A decision with everything it rests on; the same inputs and seed give the same bytes.

    ``fitting`` nodes fit; they are ``placed`` when they are as many as the request must have.
    """

    schema: str = SCHEMA
    version: str = VERSION
    outcome: Outcome
    requested: int
    placed: int
    fitting: int
    seed: int
    request: Request
    policy: Policy
    policy_digest: str
    inventory: InventorySummary
    placements: tuple[Placement, ...]
    podms: tuple[PodmVerdict, ...]
    funnel: tuple[FunnelStep, ...]
    warnings: tuple[str, ...]
    explanation: Explanation | None = None


class Reports(Struct, frozen=True, kw_only=True):
    """The decisions on several requests, in order; after one that fails there are none.

    Reasons and funnels are there for requests of which not every node was placed. Where one
    fails, those before it show how many of their nodes were ``fitting``, and none that is placed.
    """

    schema: str = DECISIONS_SCHEMA
    version: str = VERSION
    outcome: Outcome
    requested: int
    placed: int
    inventory: InventorySummary
    decisions: tuple[Report, ...]
    warnings: tuple[str, ...]
