# SPDX-License-Identifier: Apache-2.0
"""Zones: what a zone is asked for a request, and what it answers to the zone above."""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

from msgspec import UNSET, Meta, Struct, UnsetType

from valence_sched.model.base import Noun
from valence_sched.model.decision import Candidate, InventorySummary, PoolRef
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.group import GroupState
from valence_sched.model.policy import Policy
from valence_sched.model.request import MAX_NODES, MixSupplies, Request
from valence_sched.model.zone_depth import MOST_HOPS

MOST_LEFT_OUT = 10_000

ZoneName = Annotated[str, Meta(min_length=1, max_length=255)]
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

    cost: Annotated[int, Meta(ge=0)]
    lot: Annotated[int, Meta(ge=0)]
    scores: dict[str, int]


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
