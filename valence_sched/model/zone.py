# SPDX-License-Identifier: Apache-2.0
"""Zones: the settings of a zone, its queries and answers, and claims over zones below it."""

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from valence_sched.errors import InputError, one_line
from valence_sched.model import inventory
from valence_sched.model.base import MAX_WHOLE, Noun
from valence_sched.model.claim import TTL_S, TtlSeconds
from valence_sched.model.decision import Candidate, InventorySummary, PoolRef, SilentZone
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.inventory import ZoneName
from valence_sched.model.policy import Policy
from valence_sched.model.registration import PasswordReference
from valence_sched.model.request import MAX_NODES, GroupState, MixSupplies, Request

MOST_LEFT_OUT = 10_000
#: The path of a zone below this one: names joined by ``/``.
ZonePath = Annotated[str, Meta(min_length=1, max_length=1 << 13)]
#: The token of an offer; only the zone that made the offer can read it.
Token = Annotated[str, Meta(min_length=1, max_length=1 << 20)]
DomainValues = dict[str, tuple[str, ...]]  # by topology domain
Generations = dict[str, int]  # of a group, by zone path
DEFAULT_NAME = "default"
#: PREPARED: the zones are queried. RELEASING: a zone did not answer the release. The last three
#: states are final.
ZoneClaimState = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING", "RELEASED", "EXPIRED", "FAILED"
]
LIVE_STATES: tuple[ZoneClaimState, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING")
ENDED_STATES: tuple[ZoneClaimState, ...] = ("RELEASED", "EXPIRED", "FAILED")
T = TypeVar("T")
SILENT_HEADER = "Silent-Zones"
MOST_HEADER_CHARS = 4000  # proxies take 8 KiB of headers
MOST_REASON_CHARS = 200


class OtherNode(Noun, frozen=True, kw_only=True):
    """A node of an earlier request in the same decision."""

    token: Token
    group: str | None = None
    owner: str | None = None


class OtherCandidate(Struct, frozen=True, kw_only=True):
    """The candidate of a node of another request, with the group and the owner of the node."""

    candidate: Candidate
    group: str | None
    owner: str | None


class Rival(Noun, frozen=True, kw_only=True):
    """The candidate that a decision chose: cost, lot for ties, and scores in millionths."""

    cost: Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
    lot: Annotated[int, Meta(ge=0)]
    scores: dict[str, Annotated[int, Meta(ge=0, le=1_000_000)]]


class Overtaking(Struct, frozen=True, kw_only=True):
    """The first pool that overtakes a rival as the weight of a weigher changes by a ``step``.

    The step is in thousandths. After the step, the pool has this ``cost``; its ``lot`` breaks ties.
    ``by_lot`` is true if pools of its zone have equal cost. ``zone`` is the path of its zone.
    """

    weigher: str
    step: int
    pool: PoolRef
    cost: int
    lot: int
    by_lot: bool = False
    zone: str = ""


class OfferQuery(Noun, frozen=True, kw_only=True):
    """One request, sent to every zone of a tree in parallel.

    ``request`` has one alternative. A zone offers the nodes of the request, each as if the nodes
    before it were composed. It also ranks ``limit`` candidates for the first node in the ``order``
    of cost or of lots. With ``per_podm``, each pod manager has at most one candidate in the
    ranking. ``taken`` are the tokens of offers of this zone that the decision has taken; ``others``
    are nodes of other requests in the same decision. ``turn`` is the number of nodes that the
    decision has placed in all zones. ``group_state`` counts the group in all zones; ``generations``
    are the generations of these counts. The first node avoids the ``closed`` places. No candidate
    costs more than ``most_cost``.

    ``left_out`` are the zones below that did not answer an earlier query; they are not queried
    again. If ``rival`` is set, a zone also reports the pools that overtake it at another weight.
    ``route`` has the ids of the zones above, to detect loops. The query may go down ``hops`` more
    levels and must be answered within ``deadline_s``.
    """

    request: Request
    order: Literal["cost", "lot"] = "cost"
    limit: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 0
    per_podm: bool = False
    taken: tuple[Token, ...] = ()
    others: tuple[OtherNode, ...] = ()
    turn: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 0
    group_state: GroupState | None = None
    generations: Generations = {}
    closed: tuple[DomainValues, ...] = ()
    most_cost: Annotated[int, Meta(ge=0)] | None = None
    rival: Rival | None = None
    left_out: Annotated[tuple[ZonePath, ...], Meta(max_length=MOST_LEFT_OUT)] = ()
    route: tuple[ZoneName, ...] = ()
    hops: Annotated[int, Meta(ge=0, le=MOST_HOPS)] = MOST_HOPS
    deadline_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


class Offer(Struct, frozen=True, kw_only=True):
    """A candidate of a zone, with the token by which the zone finds it again.

    ``zone`` is the path of the zone. ``place`` has the pod manager's values of the domains that the
    rules of the group name.
    """

    candidate: Candidate
    token: str = ""
    zone: str = ""
    place: DomainValues = {}


class ZoneSupplies(Struct, frozen=True, kw_only=True):
    """The supplies of pools for the mix of a request, by weigher; empty if the mix is complete.

    ``most_nodes`` is an upper bound of the nodes that the pools make; it considers each need alone.
    """

    pools: inventory.Count = 0
    by_weigher: dict[str, MixSupplies] = {}
    most_nodes: inventory.Count = MAX_NODES


class ZoneAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a zone: the nodes that it offers, and a ranking for the first node.

    ``worst_cost`` is the cost of a candidate that scores 0. ``coupled`` is true if a node in
    another zone may change these offers. ``unknown_podms`` are pod managers that the request names
    and that these zones do not have. ``silent`` zones did not answer. ``excluded`` zones cannot
    fulfil the request and were not queried. ``answered`` is the number of zones that answered.
    ``supplies`` are set if every zone reports its supplies for the mix of the request.
    ``overtakings`` are unset if weights differ by pool or zone. If the query has a rival,
    ``most_free`` is the largest free amount of each need in one pool.
    """

    nodes: tuple[Offer, ...] = ()
    ranking: tuple[Offer, ...] = ()
    undecided: tuple[PoolRef, ...] = ()
    worst_cost: int = 0
    coupled: bool = False
    unknown_podms: tuple[str, ...] = ()
    silent: tuple[SilentZone, ...] = ()
    excluded: tuple[SilentZone, ...] = ()
    answered: int = 1
    supplies: ZoneSupplies | UnsetType = UNSET
    overtakings: tuple[Overtaking, ...] | UnsetType = UNSET
    most_free: tuple[float, ...] = ()


class GroupAnswer(Struct, frozen=True, kw_only=True):
    """The group state of a request on the pod managers of a zone and of the zones below it.

    ``generations`` were read before the members. ``supplies`` are the supplies of all these pod
    managers. ``uncounted`` zones reported no or invalid supplies.
    """

    group_state: GroupState
    generations: Generations = {}
    silent: tuple[SilentZone, ...] = ()
    supplies: ZoneSupplies | UnsetType = UNSET
    uncounted: tuple[SilentZone, ...] = ()


class SealedRequest(Struct, frozen=True, kw_only=True):
    """A request in the form sent to every zone, with the policy and inventory of the first zone.

    ``most_cost`` is the largest cost of a pool under the policy. ``needs_supplies`` is true if the
    mix must be completed with the supplies of all zones.
    """

    request: Request
    policy: Policy
    most_cost: int
    inventory: InventorySummary
    needs_supplies: bool = False


class OfferingZone(Protocol):
    """A source of offers: a child over HTTP, or a tree in this process."""

    def offers(self, query: OfferQuery) -> ZoneAnswer:
        """Return the offers of the zone and the zones below it; same errors as a scheduler."""

    def group_state(self, query: OfferQuery) -> GroupAnswer:
        """Return the group state of the request in the zone and the zones below it."""


class ZoneSettings(Noun, frozen=True, kw_only=True):
    """The settings of this zone.

    ``capabilities`` is ``key=value;value, key=value``, for this zone and all below it; a key that
    is not listed may have any value. With ``enable_zone_routing``, child zones can be registered.
    They are polled every ``poll_interval_s``. A query for offers goes down at most ``most_hops``
    levels and ends after ``offer_deadline_s``. ``secrets`` sign plans and offers, the newest last;
    every process of the zone needs the same secrets.
    """

    name: ZoneName = DEFAULT_NAME
    capabilities: str = ""
    enable_zone_routing: bool = False
    poll_interval_s: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    offer_deadline_s: Annotated[float, Meta(gt=0, le=600)] = 10.0
    most_hops: Annotated[int, Meta(ge=1, le=MOST_HOPS)] = MOST_HOPS
    secrets: tuple[PasswordReference, ...] = ()

    @property
    def capability_map(self) -> inventory.Capabilities:
        return inventory.parse_capabilities(self.capabilities)


def check_zone_settings(settings: ZoneSettings, file: str, path: str = "$") -> None:
    """Raise InputError for an invalid name, capability or secret."""
    if not settings.name.isprintable() or settings.name != settings.name.strip():
        raise InputError(file, f"{path}.name", repr(settings.name[:40]), "printable characters")
    inventory.capabilities_in(settings.capabilities, file, path)
    for number, one in enumerate(settings.secrets):
        one.check_source(file, f"{path}.secrets[{number}]")


class ZoneClaimBody(Noun, frozen=True, kw_only=True):
    """Offers that a zone holds for ``ttl_s``, all or nothing.

    ``tokens`` are in the order of the nodes. ``content`` is the digest that the idempotency key is
    bound to, by default the digest of the offers. ``route``, ``hops`` and ``deadline_s`` are as in
    an offer query.
    """

    request: Request
    tokens: Annotated[tuple[Token, ...], Meta(min_length=1, max_length=MAX_NODES)]
    ttl_s: TtlSeconds = TTL_S
    content: str | None = None
    route: tuple[ZoneName, ...] = ()
    hops: Annotated[int, Meta(ge=0, le=MOST_HOPS)] = MOST_HOPS
    deadline_s: Annotated[float, Meta(gt=0, le=600)] = 30.0


class ZoneClaimPart(Noun, frozen=True, kw_only=True):
    """The part of a claim in one zone: its claim there, and the numbers of its nodes.

    ``zone`` is the name of a child, empty for the zone itself. ``claim`` is empty until the zone
    has answered. ``places`` are the places of the nodes of a group, used while the zone is silent.
    """

    zone: str
    claim: str = ""
    nodes: tuple[int, ...] = ()
    places: tuple[DomainValues, ...] = ()


ZoneClaimParts = tuple[ZoneClaimPart, ...]


class ZoneClaim(Noun, frozen=True, kw_only=True):
    """A claim over child zones; times are seconds since 1970 by the database's clock.

    ``content`` is the digest that an idempotency ``key`` is bound to.
    """

    id: str
    state: ZoneClaimState
    owner: str | None = None
    group: str | None = None
    key: str | None = None
    content: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    note: str | None = None
    parts: ZoneClaimParts = ()


class ZonedList(list[T]):
    """A list over zones, without the items of ``silent`` zones."""

    def __init__(self, items: Iterable[T] = (), silent: Iterable[SilentZone] = ()) -> None:
        super().__init__(items)
        self.silent = tuple(silent)


def silent_zones(found: object) -> tuple[SilentZone, ...]:
    """Return the silent zones of a list, empty for a list of one zone."""
    return found.silent if isinstance(found, ZonedList) else ()


def listed(found: Iterable[T]) -> Sequence[T]:
    """Return the items of a scheduler as a sequence; a list over zones is returned unchanged."""
    return found if isinstance(found, ZonedList) else tuple(found)


def silent_header(zones: Sequence[SilentZone]) -> str:
    """Return zones as a JSON array for a header; the last element counts omitted zones."""
    texts: list[str] = []
    for number, text in enumerate(map(_json, zones)):
        if sum(map(len, texts)) + len(text) > MOST_HEADER_CHARS:
            reason = "omitted from the header: list them with scheduler zone tree"
            rest = SilentZone(zone=f"{len(zones) - number:,} more", reason=reason)
            texts.append(_json(rest))
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def parse_silent_header(text: str) -> tuple[SilentZone, ...]:
    """Return the zones of a header; ValueError if it is invalid."""
    if not text:
        return ()
    try:
        zones = msgspec.json.decode(text, type=list[SilentZone])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(one_line(f"{SILENT_HEADER}: {error}")) from None
    lines = [(one_line(one.zone), one_line(one.reason, MOST_REASON_CHARS)) for one in zones]
    return tuple(SilentZone(zone=zone, reason=reason) for zone, reason in lines)


def _json(zone: SilentZone) -> str:
    from valence_sched.model.redact import redact_text  # only where a zone is silent

    reason = one_line(redact_text(zone.reason), MOST_REASON_CHARS)
    return json.dumps({"zone": zone.zone, "reason": reason})
