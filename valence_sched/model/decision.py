# SPDX-License-Identifier: Apache-2.0
"""The decision document ``valence-sched/decision``, version 1, its explanation, and details."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from valence_sched.model import codec
from valence_sched.model.base import Value, format_value, is_number
from valence_sched.model.inventory import Amount, Count, Name, Positive
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request

SCHEMA = "valence-sched/decision"
DECISIONS_SCHEMA = "valence-sched/decisions"
VERSION = "1.0"
#: ``undecided``: no pool is known to fit, and the budget ended before every pool was searched.
Outcome = Literal["placed", "placed_in_part", "nothing_fits", "undecided"]
#: The level of detail of a decision; more takes longer.
#:
#: placements   the nodes, their alternates and the warnings
#: summary      also the verdicts: all if nothing fits or the site is small, else the chosen ones
#: report       the whole report: every verdict, the funnel, the explanation, the digests
Detail = Literal["placements", "summary", "report"]
MAX_LISTED_PODMS = 50  # pod managers that a decision lists by default


class ScorePart(Struct, frozen=True, kw_only=True):
    """The contribution of one weigher to a score: ``weight × score / sum of all weights``."""

    weigher: str
    weight: float
    score: float
    part: float


class Contender(Struct, frozen=True, kw_only=True):
    """A pool in which the first node fits, with the parts of its score, largest first.

    ``excess`` are the cores, MiB of memory and devices of its blocks beyond the request.
    """

    podm: str
    pool: str
    outcome: Literal["chosen", "fits"]
    score: float
    parts: tuple[ScorePart, ...]
    excess: dict[str, float] = {}


class ScoreDifference(Struct, frozen=True, kw_only=True):
    """The preference of one weigher for the chosen pool; negative if it prefers the runner-up."""

    weigher: str
    difference: float


class RunnerUp(Struct, frozen=True, kw_only=True):
    """The best pool on another pod manager; ``margin`` is the sum of ``differences``."""

    podm: str
    pool: str
    score: float
    margin: float
    differences: tuple[ScoreDifference, ...]


class Shortfall(Struct, frozen=True, kw_only=True):
    """One reason against a pool: the need of a filter and the value of the pool."""

    filter: str
    label: str
    need: Value
    have: Value
    unit: str


class NodeRemoval(Struct, frozen=True, kw_only=True):
    """A node whose removal would free the missing blocks, and its pool."""

    node: str
    uri: str
    pool: str


class NearMiss(Struct, frozen=True, kw_only=True):
    """A pod manager that could almost take the node.

    ``kind`` is ``hardware`` if it lacks only free hardware. Then ``freeing`` is a node whose
    removal is enough, None if no ``tried`` node is enough. ``kind`` is ``word`` if exactly one
    filter rejects it, for a reason other than free hardware.
    """

    podm: str
    pool: str
    kind: Literal["hardware", "word"]
    lacks: tuple[Shortfall, ...]
    freeing: NodeRemoval | None = None
    nodes: int = 0
    tried: int = 0


class Sensitivity(Struct, frozen=True, kw_only=True):
    """A change of one weight, or of the amount of one need, that changes the choice.

    ``podm`` and ``pool`` are the choice after the change, None if nothing fits. ``instead_of`` and
    ``instead_of_pool`` are the present choice. ``by_lot`` is true if the seed breaks a tie after
    the change. An amount of 0 drops the need.
    """

    of: Literal["weight", "need"]
    name: str
    unit: str
    was: int | float
    becomes: int | float
    podm: str | None
    pool: str | None
    instead_of: str | None
    instead_of_pool: str | None
    by_lot: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    """The explanation of a decision for its first node, computed from the decision itself.

    ``nearest_misses`` are the near misses of the first node that was not placed. ``flips`` are
    sorted by the relative size of the change; ``notes`` name omitted parts.
    """

    candidates: tuple[Contender, ...] = ()
    runner_up: RunnerUp | None = None
    nearest_misses: tuple[NearMiss, ...] = ()
    flips: tuple[Sensitivity, ...] = ()
    notes: tuple[str, ...] = ()


class SilentZone(Struct, frozen=True, kw_only=True):
    """A zone that did not answer, and the reason; it may have had the best candidate."""

    zone: str
    reason: str


class PlacementZone(Struct, frozen=True, kw_only=True):
    """The zone paths of a node and of its alternates; empty for the queried zone."""

    node: int
    zone: str
    alternates: tuple[str, ...] = ()


class DecisionZones(Struct, frozen=True, kw_only=True):
    """The zones of a decision.

    ``answered`` counts the zones that answered and the queried zone. ``rounds`` is the number of
    queries for offers to the child zones. ``silent`` zones did not answer; ``excluded`` zones were
    not queried, because their capabilities do not match the request.
    """

    answered: int
    rounds: int
    placements: tuple[PlacementZone, ...] = ()
    silent: tuple[SilentZone, ...] = ()
    excluded: tuple[SilentZone, ...] = ()


class BlockRef(Struct, frozen=True, kw_only=True):
    """A block of the node."""

    uri: Name
    type: tuple[str, ...]


class GrantRef(Struct, frozen=True, kw_only=True):
    """An amount of a stock for the node, in the stock's unit."""

    uri: Name
    resource: str
    amount: Count | Amount  # 600 and 600.0 remain distinct
    unit: str


class Candidate(Struct, frozen=True, kw_only=True):
    """A pool with the blocks and amounts for the node.

    ``score`` is 0..1, the weighted mean of ``scores``; ``cost`` is the sum of ``1000 × weight ×
    1,000,000 × (1 - score)`` over the weighers, the lowest is best; ``waste`` measures the devices
    of the blocks beyond the request, in points.
    """

    podm: Name
    pool: Name
    score: float
    cost: int
    scores: dict[str, float]
    blocks: tuple[BlockRef, ...]
    grants: tuple[GrantRef, ...]
    waste: int


class Placement(Struct, frozen=True, kw_only=True):
    """One node: the chosen candidate and its alternates.

    ``choice`` is the number of the used alternative of the request, counted from 1.
    """

    node: Positive
    choice: Positive
    chosen: Candidate
    alternates: tuple[Candidate, ...]


class Uncounted(Struct, frozen=True, kw_only=True):
    """The amounts of a resource that do not count, by their Redfish condition, such as Critical.

    ``installed`` is the whole amount of the resource, in use or not.
    """

    installed: int
    conditions: dict[str, int]


class Reason(Struct, frozen=True, kw_only=True):
    """A reason against a pool: the filter, its need, and the value of the pool.

    ``podm_have`` is the sum over all pools of the pod manager. It is set only if that sum would be
    enough, but a node must fit in one pool. ``instead`` counts the free devices of the same kind by
    model. ``uncounted`` are amounts that do not count because of their health or state.
    """

    filter: str
    label: str
    need: Value
    have: Value
    unit: str
    podm_have: Value = None
    instead: dict[str, int] = {}
    uncounted: Uncounted | UnsetType = UNSET

    @property
    def is_amount(self) -> bool:
        return is_number(self.need) and is_number(self.have)

    @property
    def text(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        what = self.filter if self.label == self.filter else f"{self.filter}: {self.label}"
        need, have = format_value(self.need), format_value(self.have)
        text = f"{what}: needs {need}{unit}, has {have}{unit}"
        if self.podm_have is None:
            return text
        podm_have = f"{format_value(self.podm_have)}{unit}"
        return f"{text} ({podm_have} in all its pools together, but a node must fit in one pool)"


class ReasonGroup(Struct, frozen=True, kw_only=True):
    """The number of pod managers rejected for one reason, and the nearest of them."""

    podms: int
    nearest: str
    reason: Reason | None


class PoolReasons(Struct, frozen=True, kw_only=True):
    """A rejected pool, and every reason against it."""

    pool: str
    reasons: tuple[Reason, ...]


class PodmVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one pod manager: its best pool, or the reasons against its pools.

    ``behind`` is the score of the chosen pool minus the score of the best pool here.
    ``pools_passed`` is the number of its ``pools`` that passed every filter. ``fitting`` is the
    number of nodes of the request that fit on it one after another; they are placed if enough fit
    in total. The ``reason`` of a chosen pod manager explains why it takes no more nodes. On a small
    site, ``pool_reasons`` has all reasons against rejected pools, the nearest first.
    """

    podm: str
    pool: str
    outcome: Literal["chosen", "alternate", "fits", "undecided", "rejected"]
    score: float | None
    behind: float | None
    pools: Count
    pools_passed: Count
    fitting: Count
    reason: Reason | None
    pool_reasons: tuple[PoolReasons, ...] = ()


class PoolRef(Struct, frozen=True, kw_only=True):
    """A pool of a pod manager."""

    podm: str
    pool: str


class FunnelStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One filter of the funnel: the numbers of pools before and after it.

    The step ``fit`` also counts ``undecided`` pools, whose search exceeded the budget of the
    policy.
    """

    filter: str
    came_in: Count = field(name="in")
    went_on: Count = field(name="out")
    undecided: Count = 0


class InventorySummary(Struct, frozen=True, kw_only=True):
    """The inventory on which the decision is based."""

    digest: str
    podms: Count
    pools: Count
    blocks: Count
    skipped: tuple[str, ...]


class Recording(Struct, frozen=True, kw_only=True):
    """The pod managers of a dispatched decision that were not read live.

    ``read_at`` is the time of their oldest reading and ``age_s`` its age at the dispatch; both are
    None if either is unknown.
    """

    podms: tuple[str, ...]
    read_at: str | None
    age_s: float | None


class Report(Struct, frozen=True, kw_only=True):
    """A decision with all its inputs; the same inputs and seed give the same bytes.

    ``fitting`` nodes fit. They are ``placed`` if they are as many as the request requires, or more.
    ``undecided`` are pools that might be chosen, but whose search exceeded the budget of the
    policy. Only a dispatched decision on recorded pod managers has a ``recording``. Only a decision
    over a tree of zones has ``zones``. Such a decision may lack verdicts, and its ``inventory`` is
    only that of the queried zone.
    """

    schema: str = SCHEMA
    version: str = VERSION
    outcome: Outcome
    requested: Count
    placed: Count
    fitting: Count
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
    undecided: tuple[PoolRef, ...] = ()
    recording: Recording | UnsetType = UNSET
    zones: DecisionZones | UnsetType = UNSET


class Reports(Struct, frozen=True, kw_only=True):
    """The decisions on several requests, in order, up to the first that fails.

    If a request fails, no node is placed, and the earlier decisions show their ``fitting`` nodes.
    """

    schema: str = DECISIONS_SCHEMA
    version: str = VERSION
    outcome: Outcome
    requested: Count
    placed: Count
    inventory: InventorySummary
    decisions: tuple[Report, ...]
    warnings: tuple[str, ...]

    @property
    def failure(self) -> Report | None:
        last = self.decisions[-1] if self.decisions else None
        return last if last and last.placed < last.request.required_count else None


def outcome_of(placed: int, requested: int, *, undecided: bool) -> Outcome:
    if not placed:
        return "undecided" if undecided else "nothing_fits"
    return "placed" if placed == requested else "placed_in_part"


def joined(
    requests: Sequence[Request], reports: Sequence[Report], inventory: InventorySummary
) -> Reports:
    """Return the decisions on several requests together; after a failure, no nodes are placed."""
    requested = sum(request.count for request in requests)
    placed = sum(one.placed for one in reports)
    found = Reports(
        outcome=outcome_of(placed, requested, undecided=any(one.undecided for one in reports)),
        requested=requested,
        placed=placed,
        inventory=inventory,
        decisions=tuple(reports),
        warnings=tuple(dict.fromkeys(note for one in reports for note in one.warnings)),
    )
    if (failure := found.failure) is None:
        return found
    decisions = (*map(_unplaced, reports[:-1]), failure)
    return replace(found, outcome=failure.outcome, placed=0, decisions=decisions)


def _unplaced(report: Report) -> Report:
    zones = report.zones and replace(report.zones, placements=())
    none = {"placed": 0, "placements": (), "podms": (), "funnel": (), "explanation": None}
    return replace(report, outcome="nothing_fits", zones=zones, **none)


def with_podm_paths(report: Report) -> Report:
    """Return a report over zones with the path of the zone in the name of each pod manager."""
    if not report.zones:
        return report
    placements = []
    for one, zones in zip(report.placements, report.zones.placements, strict=True):
        chosen = _in_zone(one.chosen, zones.zone)
        alternates = tuple(map(_in_zone, one.alternates, zones.alternates))
        placements.append(replace(one, chosen=chosen, alternates=alternates))
    return replace(report, placements=tuple(placements))


def _in_zone(candidate: Candidate, zone: str) -> Candidate:
    return replace(candidate, podm=f"{zone}/{candidate.podm}") if zone else candidate


class FailedChoice(Struct, frozen=True, kw_only=True):
    """An alternative of the request, numbered from 1, that does not fit."""

    choice: int
    funnel: tuple[FunnelStep, ...]


class DecisionDetails(Struct, frozen=True, kw_only=True):
    """Details of a decision besides its report."""

    failed_choices: tuple[FailedChoice, ...] = ()


class DecisionResult(Struct, frozen=True, kw_only=True):
    """A decision: its report, and its details (None if later requests changed the inventory)."""

    report: Report
    details: DecisionDetails | None = None


class DecisionResults(Struct, frozen=True, kw_only=True):
    """The decisions on several requests: their report, and the details of each in order."""

    report: Reports
    details: tuple[DecisionDetails | None, ...] = ()

    @property
    def results(self) -> tuple[DecisionResult, ...]:
        pairs = zip(self.report.decisions, self.details, strict=True)
        return tuple(DecisionResult(report=one, details=details) for one, details in pairs)


class FitCounts(Struct, frozen=True, kw_only=True):
    """The number of nodes of one request that fit, by pod manager.

    On ``undecided`` pod managers, more may fit, because their search exceeded the budget.
    ``silent`` zones are not counted.
    """

    podms: tuple[tuple[str, Count], ...]
    warnings: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()


class Ranking(Struct, frozen=True, kw_only=True):
    """Candidates best first; equal ``request_id`` and ``seed`` give equal candidates."""

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()
    request_id: str = ""
    seed: int = 0


def parse_report(data: bytes, file: str) -> tuple[Report | Reports, list[str]]:
    """Parse a report of one or several decisions, with warnings; InputError or NewerSchema."""
    many = codec.decode(data, codec.DocumentHead, file).schema == DECISIONS_SCHEMA
    kind: type[Report | Reports] = Reports if many else Report
    return codec.decode_document(data, kind, DECISIONS_SCHEMA if many else SCHEMA, VERSION, file)


class DecisionSummary(Struct, frozen=True, kw_only=True):
    """A summary of a stored decision.

    ``podms`` are the first of ``podm_count`` pod managers that take nodes. ``decided_at`` is
    seconds since 1970 by the clock of the database.
    """

    id: str
    decided_at: float
    owner: str | None = None
    request: str | None = None
    outcome: Outcome | None = None
    requested: int | None = None
    placed: int | None = None
    podms: tuple[str, ...] = ()
    podm_count: int = 0
