# SPDX-License-Identifier: Apache-2.0
"""Zones: the settings of a zone, what it is asked and answers, and claims over those below it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from valence_sched.errors import InputError, one_line
from valence_sched.model.base import MAX_WHOLE, Noun
from valence_sched.model.claim import TTL_S, TtlSeconds
from valence_sched.model.decision import Candidate, InventorySummary, PoolRef, SilentZone
from valence_sched.model.http_headers import MOST_HOPS
from valence_sched.model.inventory import Capabilities, ZoneName, parse_capabilities
from valence_sched.model.policy import Policy
from valence_sched.model.registration import PasswordReference
from valence_sched.model.request import MAX_NODES, GroupState, MixSupplies, Request

MOST_LEFT_OUT = 10_000

#: The way down to a zone: names with a slash between them.
ZonePath = Annotated[str, Meta(min_length=1, max_length=1 << 13)]
#: What a zone gave with an offer, and alone can read.
Token = Annotated[str, Meta(min_length=1, max_length=1 << 20)]


#: The values that a pod manager has in some domains, by domain.
DomainValues = dict[str, tuple[str, ...]]

#: The generation of a group in each zone, by the way down to it; that of the zone itself is "".
Generations = dict[str, int]


class OtherNode(Noun, frozen=True, kw_only=True):
    """A node of another request, which is decided together with this one, before it."""

    token: Token
    group: str | None = None
    owner: str | None = None


class OtherCandidate(Struct, frozen=True, kw_only=True):
    """The candidate of a node of another request, with the group and the owner of the node."""

    candidate: Candidate
    group: str | None
    owner: str | None


class Rival(Noun, frozen=True, kw_only=True):
    """The candidate that a decision chose: its cost, its lot, and what each weigher gives it.

    ``scores`` are in millionths, by the name of the weigher.
    """

    cost: Annotated[int, Meta(ge=0, le=MAX_WHOLE)]
    lot: Annotated[int, Meta(ge=0)]
    scores: dict[str, Annotated[int, Meta(ge=0, le=1_000_000)]]


class Overtaking(Struct, frozen=True, kw_only=True):
    """The first pool that overtakes a rival as the weight of a weigher changes by some ``step``.

    The step is in thousandths, up or down; ``cost`` and ``lot`` are those of the pool after it.
    ``by_lot``: another pod manager of its zone makes the node at the same cost. ``zone`` is the way
    down to it.
    """

    weigher: str
    step: int
    pool: PoolRef
    cost: int
    lot: int
    by_lot: bool = False
    zone: str = ""


class OfferQuery(Noun, frozen=True, kw_only=True):
    """One request, as each zone of a tree is asked it: every zone once, at the same time.

    ``request`` asks for one alternative. A zone offers up to its ``count`` of nodes one after
    another, and ranks ``limit`` candidates for the first of them, at most one ``per_podm`` where
    that is set. The scheduler of its policy takes candidates in the ``order`` of their cost, or by
    lot.

    ``taken`` are the tokens of the zone's offers that the decision took before, and ``others``
    those that decisions on other requests took; ``turn`` is how many nodes it has placed in all
    zones, and ``company`` is the group state of all of them, with the ``generations`` of the group
    in the zones that told it. The first node goes to none of the ``closed`` places, each of which
    has the values of its domains.

    No candidate costs more than ``most_cost``, whatever a zone says. ``left_out`` are the zones
    below that gave no answer to the same decision before: they are not asked again. With a
    ``rival`` a zone says what overtakes it at another weight, too.

    ``route`` are the ids of the zones from the first one down, which end a loop; ``hops`` is how
    many levels may still be asked, and ``deadline_s`` how long the answer is waited for.
    """

    request: Request
    order: Literal["cost", "lot"] = "cost"
    limit: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 0
    per_podm: bool = False
    taken: tuple[Token, ...] = ()
    others: tuple[OtherNode, ...] = ()
    turn: Annotated[int, Meta(ge=0, le=MAX_NODES)] = 0
    company: GroupState | None = None
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

    ``zone`` is the way down to it, names with a slash between them; empty for the zone's own.
    ``place`` has the values of the domains that rules of its group may be about.
    """

    candidate: Candidate
    token: str = ""
    zone: str = ""
    place: DomainValues = {}


class ZoneSupplies(Struct, frozen=True, kw_only=True):
    """What so many pools supply to the mix of a request, by the weigher that reads it.

    Empty where the mix has all that a weigher needs to know of it; then ``most_nodes`` bounds how
    many nodes of the request the pools make, by each need alone.
    """

    pools: int = 0
    by_weigher: dict[str, MixSupplies] = {}
    most_nodes: int = MAX_NODES


class ZoneAnswer(Struct, frozen=True, kw_only=True):
    """What a zone answers: its nodes one after another, and its best candidates now.

    ``worst_cost`` is the cost of a candidate that scores 0. With ``coupled`` a node that another
    zone takes may change these offers. ``unknown_podms`` are the pod managers of the request that
    no zone of this answer has. ``silent`` zones did not answer; ``excluded`` ones were not asked,
    as their capabilities rule the request out. ``answered`` counts the zones of this answer.

    ``supplies`` are those of all their pods to the mix of the request, where that is complete and
    each of the zones tells its own: a mix that was completed by others is out of date.

    ``overtakings`` of the rival are unset where weights of pools or zones differ. ``most_free`` is
    the most that one pool has of each need of the request, where a rival was told.
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
    """The group state of a request on the pod managers of a zone and of those below it.

    ``generations`` were read before the members. ``supplies`` are those of all these pod managers.
    A zone of an older version says nothing of them: it is ``uncounted``, as is one that gave
    amounts that are none.
    """

    company: GroupState
    generations: Generations = {}
    silent: tuple[SilentZone, ...] = ()
    supplies: ZoneSupplies | UnsetType = UNSET
    uncounted: tuple[SilentZone, ...] = ()


class SealedRequest(Struct, frozen=True, kw_only=True):
    """A request as it is asked of every zone, with what the zone that is asked first knows of it.

    ``most_cost`` is the largest cost that its policy knows. ``inventory`` is the summary of the pod
    managers of that zone itself. With ``needs_supplies`` the mix of the request is yet to be
    completed by what all zones supply to it.
    """

    request: Request
    policy: Policy
    most_cost: int
    inventory: InventorySummary
    needs_supplies: bool = False


class OfferingZone(Protocol):
    """What can be asked for offers: a child over HTTP, or a whole tree in this process."""

    def offers(self, query: OfferQuery) -> ZoneAnswer:
        """Return what the zone and those below it offer; errors as of a scheduler."""

    def group_state(self, query: OfferQuery) -> GroupAnswer:
        """Return the group state of the request on its pod managers and those below."""


DEFAULT_NAME = "default"


class ZoneSettings(Noun, frozen=True, kw_only=True):
    """The settings of this zone.

    ``capabilities`` is ``key=value;value, key=value``: what its operator states of it and of all
    zones below it; a key that is not named may have any value. With ``enable_zone_routing`` child
    zones can be registered, are polled every ``poll_interval_s``, and are asked for what they
    offer: all of them have ``offer_deadline_s`` to answer, over at most ``most_hops`` levels.
    ``secrets`` sign the plans and offers of this zone, the newest last; every process of the zone
    has the same.
    """

    name: ZoneName = DEFAULT_NAME
    capabilities: str = ""
    enable_zone_routing: bool = False
    poll_interval_s: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    offer_deadline_s: Annotated[float, Meta(gt=0, le=600)] = 10.0
    most_hops: Annotated[int, Meta(ge=1, le=MOST_HOPS)] = MOST_HOPS
    secrets: tuple[PasswordReference, ...] = ()

    @property
    def capability_map(self) -> Capabilities:
        """Return the capabilities as a map; ValueError if their text does not parse."""
        return parse_capabilities(self.capabilities)


DEFAULT_ZONE_SETTINGS = ZoneSettings()


def check_zone_settings(settings: ZoneSettings, file: str, path: str = "$") -> None:
    """Raise InputError where the capabilities do not parse, or a secret has no source, or two."""
    if not settings.name.isprintable() or settings.name != settings.name.strip():
        raise InputError(file, f"{path}.name", repr(settings.name[:40]), "printable characters")
    try:
        _ = settings.capability_map
    except ValueError as error:
        raise InputError(file, f"{path}.capabilities", str(error), "key=value") from None
    for number, one in enumerate(settings.secrets):
        if not one.names_one_source:
            where = f"{path}.secrets[{number}]"
            raise InputError(file, where, "no reference", "exactly one of env and file")


#: PREPARED: the zones are asked. RELEASING: a zone did not answer to a release. The last three are
#: final, as of a claim.
ZoneClaimState = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING", "RELEASED", "EXPIRED", "FAILED"
]
LIVE_STATES: tuple[ZoneClaimState, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "RELEASING")
ENDED_STATES: tuple[ZoneClaimState, ...] = ("RELEASED", "EXPIRED", "FAILED")


class ZoneClaimBody(Noun, frozen=True, kw_only=True):
    """Offers that a zone is to hold, all of them or none, for ``ttl_s``.

    ``tokens`` are those of its own offers, in the order of the nodes. ``content`` is what the
    idempotency key stands for, the offers themselves where it is None. ``route``, ``hops`` and
    ``deadline_s`` are as of an offer query.
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

    ``zone`` is a child by its name, empty for the pod managers of the zone itself. ``claim`` is
    empty until the zone has answered. ``places`` are those of the nodes of a group: while the zone
    does not answer, they count where they are.
    """

    zone: str
    claim: str = ""
    nodes: tuple[int, ...] = ()
    places: tuple[DomainValues, ...] = ()


ZoneClaimParts = tuple[ZoneClaimPart, ...]


class ZoneClaim(Noun, frozen=True, kw_only=True):
    """A claim over zones directly below; times are seconds since 1970 by the database's clock.

    ``content`` is a digest of what an idempotency ``key`` stands for.
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


T = TypeVar("T")

SILENT_HEADER = "Silent-Zones"
MOST_HEADER_CHARS = 4000  # proxies take 8 KiB of headers
MOST_REASON_CHARS = 200


class ZonedList(list[T]):
    """A list over zones; ``silent`` are those that gave no answer, whose part it lacks."""

    def __init__(self, items: Iterable[T] = (), silent: Iterable[SilentZone] = ()) -> None:
        super().__init__(items)
        self.silent = tuple(silent)


def silent_zones(found: object) -> tuple[SilentZone, ...]:
    """Return the zones that a list lacks: none for one that is not over zones."""
    return found.silent if isinstance(found, ZonedList) else ()


def listed(found: Iterable[T]) -> Sequence[T]:
    """Return what a scheduler yields or lists as a sequence; one over zones stays what it is."""
    return found if isinstance(found, ZonedList) else tuple(found)


def silent_header(zones: Sequence[SilentZone]) -> str:
    """Return zones as a header, an array in JSON whose last element counts those left out."""
    texts: list[str] = []
    for number, text in enumerate(map(_json, zones)):
        if sum(map(len, texts)) + len(text) > MOST_HEADER_CHARS:
            reason = "left out of the header: scheduler zone tree tells which"
            rest = SilentZone(zone=f"{len(zones) - number:,} more", reason=reason)
            texts.append(_json(rest))
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def parse_silent_header(text: str) -> tuple[SilentZone, ...]:
    """Return the zones of a header, none for an empty one; ValueError where it is invalid."""
    if not text:
        return ()
    try:
        zones = msgspec.json.decode(text, type=list[SilentZone])
    except msgspec.DecodeError as error:
        raise ValueError(one_line(f"{SILENT_HEADER}: {error}")) from None
    lines = [(one_line(one.zone), one_line(one.reason, MOST_REASON_CHARS)) for one in zones]
    return tuple(SilentZone(zone=zone, reason=reason) for zone, reason in lines)


def _json(zone: SilentZone) -> str:
    from valence_sched.model.redact import redact_text  # only where a zone is silent

    reason = one_line(redact_text(zone.reason), MOST_REASON_CHARS)
    return json.dumps({"zone": zone.zone, "reason": reason})
