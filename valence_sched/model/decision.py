# SPDX-License-Identifier: Apache-2.0
"""The decision document ``valence-sched/decision``, version 1, its explanation, and details."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from valence_sched.model import codec
from valence_sched.model.base import Value, format_value, is_number
from valence_sched.model.inventory import Amount, Count, Name, Positive
from valence_sched.model.policy import Policy
from valence_sched.model.request import Request


class ScorePart(Struct, frozen=True, kw_only=True):
    """The part of a score that one weigher adds: ``weight × score / sum of all weights``."""

    weigher: str
    weight: float
    score: float
    part: float


class Contender(Struct, frozen=True, kw_only=True):
    """A pool that could take the first node; its parts, largest first, add up to its score.

    ``excess`` is what the blocks would have beyond the request: cores, MiB of memory, devices.
    """

    podm: str
    pool: str
    outcome: Literal["chosen", "fits"]
    score: float
    parts: tuple[ScorePart, ...]
    excess: dict[str, float] = {}


class ScoreDifference(Struct, frozen=True, kw_only=True):
    """How much one weigher prefers the chosen pool; below 0 it prefers the runner-up."""

    weigher: str
    difference: float


class RunnerUp(Struct, frozen=True, kw_only=True):
    """The next best pool on another pod manager; the differences add up to the margin."""

    podm: str
    pool: str
    score: float
    margin: float
    differences: tuple[ScoreDifference, ...]


class Shortfall(Struct, frozen=True, kw_only=True):
    """One reason against a pool: what a filter needs and what the pool has."""

    filter: str
    label: str
    need: Value
    have: Value
    unit: str


class NodeRemoval(Struct, frozen=True, kw_only=True):
    """A node whose removal would free the blocks that are missing, and the pool it is in."""

    node: str
    uri: str
    pool: str


class NearMiss(Struct, frozen=True, kw_only=True):
    """A pod manager that could almost take the node.

    ``hardware``: every reason against it depends on what is free; ``freeing`` is the node whose
    removal would be enough, None if no single one of the ``tried`` nodes is. ``word``: one filter
    alone rejects it, for another reason than what is free.
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

    ``podm`` and ``pool`` are the choice after the change, None if nothing fits; ``instead_of`` and
    ``instead_of_pool`` the present choice. ``by_lot``: after the change the seed breaks a tie. An
    amount of 0 means without that need.
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
    """The explanation of a decision for its first node, computed from the decision's own matrices.

    If not every node was placed, ``nearest_misses`` are about the next node. ``flips`` are sorted
    by the size of the change relative to the present value; ``notes`` say what was left out, and
    why.
    """

    candidates: tuple[Contender, ...] = ()
    runner_up: RunnerUp | None = None
    nearest_misses: tuple[NearMiss, ...] = ()
    flips: tuple[Sensitivity, ...] = ()
    notes: tuple[str, ...] = ()


class SilentZone(Struct, frozen=True, kw_only=True):
    """A zone that has no part in an answer, and why: the answer may lack the best."""

    zone: str
    reason: str


class PlacementZone(Struct, frozen=True, kw_only=True):
    """The zones of one placement: the way down to each, empty for the zone that was asked."""

    node: int
    zone: str
    alternates: tuple[str, ...] = ()


class DecisionZones(Struct, frozen=True, kw_only=True):
    """The zones of a decision: ``answered`` of them had a part in it, the one asked included.

    The children were asked for offers in ``rounds``. ``silent`` zones were asked and did not
    answer, or could not be asked; ``excluded`` ones were not asked: their capabilities rule the
    request out.
    """

    answered: int
    rounds: int
    placements: tuple[PlacementZone, ...] = ()
    silent: tuple[SilentZone, ...] = ()
    excluded: tuple[SilentZone, ...] = ()


SCHEMA = "valence-sched/decision"
DECISIONS_SCHEMA = "valence-sched/decisions"
VERSION = "1.0"

#: ``undecided``: no pool is known to fit, and of some it was not settled within the budget.
Outcome = Literal["placed", "placed_in_part", "nothing_fits", "undecided"]


class BlockRef(Struct, frozen=True, kw_only=True):
    """A block of the node."""

    uri: Name
    type: tuple[str, ...]


class GrantRef(Struct, frozen=True, kw_only=True):
    """An amount of a stock for the node, in the stock's unit."""

    uri: Name
    resource: str
    amount: Count | Amount  # read back as it was written: 600, or 600.0
    unit: str


class Candidate(Struct, frozen=True, kw_only=True):
    """A pool with the blocks and amounts that the node would be made of.

    ``score`` is 0..1, the weighted mean of ``scores``; ``cost`` is the weighted sum of
    1,000,000 × (1 - score), in thousandths of a weight, low is best; ``waste`` is what the
    blocks have beyond the request, in points.
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
    """One node: the chosen candidate, and the alternates it had at that moment.

    ``choice`` is the number of the request's alternative that the node is made by, from 1.
    """

    node: Positive
    choice: Positive
    chosen: Candidate
    alternates: tuple[Candidate, ...]


class Uncounted(Struct, frozen=True, kw_only=True):
    """What does not count of a resource of a pool, by the condition that it is in.

    A condition is a word of Redfish: Critical, UnavailableOffline, Failed and so on. ``installed``
    is all there is of the resource, in use or not.
    """

    installed: int
    conditions: dict[str, int]


class Reason(Struct, frozen=True, kw_only=True):
    """Why a pool was rejected: the filter, what it needs and what it has.

    ``podm_have`` is what the pod manager has in all its pools together, if that is enough; it
    does not help, because a node is made in one pool. Where the pool has none, ``instead`` counts
    the free devices of that kind by model. ``uncounted`` is what does not count for its health or
    state, if there is any.
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
        """Whether both what is needed and what there is are numbers."""
        return is_number(self.need) and is_number(self.have)

    @property
    def text(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        what = self.filter if self.label == self.filter else f"{self.filter}: {self.label}"
        need, have = format_value(self.need), format_value(self.have)
        text = f"{what}: needs {need}{unit}, has {have}{unit}"
        if self.podm_have is None:
            return text
        return (
            f"{text} ({format_value(self.podm_have)} in all its pools, but a node is made in one)"
        )


class PoolReasons(Struct, frozen=True, kw_only=True):
    """A pool that makes no node, and every reason against it."""

    pool: str
    reasons: tuple[Reason, ...]


class PodmVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on one pod manager: its best pool, or why all its pools are rejected.

    ``behind`` is how far its score is below that of the chosen pool. ``pools`` counts its pools
    and ``pools_passed`` those that passed every filter. ``fitting`` nodes of the request fit there
    one after another; they are placed if enough fit in total. If fewer nodes were placed than
    requested, the ``reason`` of a chosen pod manager says why it took no more. On a small site
    ``pool_reasons`` has every reason against each pool of one that is rejected, the nearest first.
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
    """One filter of the funnel: how many pools it was given and how many it kept.

    The step ``fit`` is there where pools are ``undecided``: they passed every filter, and whether
    their blocks make the node was not settled within the budget of the policy.
    """

    filter: str
    came_in: Count = field(name="in")
    went_on: Count = field(name="out")
    undecided: Count = 0


class InventorySummary(Struct, frozen=True, kw_only=True):
    """The inventory that the decision was made on."""

    digest: str
    podms: Count
    pools: Count
    blocks: Count
    skipped: tuple[str, ...]


class Recording(Struct, frozen=True, kw_only=True):
    """What a dispatched decision took from inventories: nodes on pod managers not read live.

    ``read_at`` is the oldest of their readings and ``age_s`` its age when the decision was
    dispatched; both are None where one of them does not tell when it was read.
    """

    podms: tuple[str, ...]
    read_at: str | None
    age_s: float | None


class Report(Struct, frozen=True, kw_only=True):
    """A decision with all its inputs; the same inputs and seed give the same bytes.

    ``fitting`` nodes fit; they are ``placed`` if they are as many as the request requires.
    ``undecided`` are pools that would have been chosen if they make the node, which was not
    settled within the budget of the policy. Only a dispatched decision has a ``recording``, where
    it is not about live pod managers. Only one over a tree of zones has ``zones``; if it places
    enough nodes and not the whole report was asked for, its inventory is that of the zone that was
    asked, and it has no verdicts.
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
    """The decisions on several requests, in order; the first that fails is the last.

    Requests of which not every node was placed have reasons and funnels. If one request fails,
    the earlier ones show how many of their nodes were ``fitting``, and no node is placed.
    """

    schema: str = DECISIONS_SCHEMA
    version: str = VERSION
    outcome: Outcome
    requested: Count
    placed: Count
    inventory: InventorySummary
    decisions: tuple[Report, ...]
    warnings: tuple[str, ...]


def with_podm_paths(report: Report) -> Report:
    """Return a report over zones with its pod managers by path, the zones before their name."""
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


#: How much is said about a decision; saying more takes longer.
#:
#: placements   the nodes, their alternates and the warnings
#: summary      also the verdicts, where nothing fits or at most MAX_LISTED_PODMS are listed
#: report       the whole report: every verdict, the funnel, the explanation, the digests
Detail = Literal["placements", "summary", "report"]

MAX_LISTED_PODMS = 50  # how many pod managers a decision lists unless every one is asked for


class FailedChoice(Struct, frozen=True, kw_only=True):
    """An alternative of the request, numbered from 1, that was tried and made no node."""

    choice: int
    funnel: tuple[FunnelStep, ...]


class DecisionDetails(Struct, frozen=True, kw_only=True):
    """What a screen shows of a decision beside its report."""

    failed_choices: tuple[FailedChoice, ...] = ()


class DecisionResult(Struct, frozen=True, kw_only=True):
    """A decision: its report, as whole as the caller asked for, and details for a screen.

    ``details`` is None where what was decided on has changed since, by later requests.
    """

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

    @property
    def failure(self) -> Report | None:
        """Return the report of the request that must have more nodes than fit, if there is one."""
        last = self.report.decisions[-1] if self.report.decisions else None
        return last if last and last.placed < last.request.required_count else None


class FitCounts(Struct, frozen=True, kw_only=True):
    """How many more nodes of one request fit, by pod manager; and what to know about that.

    Pod managers that are ``undecided`` may make more: it was not settled within the budget. What
    ``silent`` zones have is not counted.
    """

    podms: tuple[tuple[str, int], ...]
    warnings: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()


class Ranking(Struct, frozen=True, kw_only=True):
    """Candidates best first, and the parts of the scheduler that did not answer.

    The request has the same candidates again with this ``request_id`` and ``seed``.
    """

    candidates: tuple[Candidate, ...]
    missing: tuple[str, ...] = ()
    request_id: str = ""
    seed: int = 0


def parse_report(data: bytes, file: str) -> tuple[Report | Reports, list[str]]:
    """Parse a report of one decision or of several, with warnings about unknown fields.

    InputError if it is invalid, NewerSchema if its major version is newer than ours.
    """
    many = codec.decode(data, codec.DocumentHead, file).schema == DECISIONS_SCHEMA
    head = codec.decode_head(data, DECISIONS_SCHEMA if many else SCHEMA, VERSION, file)
    kind: type[Report | Reports] = Reports if many else Report
    return codec.decode_known_fields(data, kind, file, head.version, VERSION)


class DecisionSummary(Struct, frozen=True, kw_only=True):
    """A stored decision: what was asked for, by whom, and what came of it.

    ``podms`` are the first pod managers that take nodes, of ``podm_count``. ``decided_at`` is
    seconds since 1970 by the clock of the database. Of a decision that an older program stored
    only ``id`` and ``decided_at`` are known.
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
