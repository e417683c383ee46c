# SPDX-License-Identifier: Apache-2.0
"""ZoneSelection: the nodes of a request over a tree of zones, chosen as in a flat zone.

Each zone is queried once for all nodes, unless nodes of one zone change costs in another zone or
are drawn at random.
"""

import functools
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from valence_sched.core.ranking import pool_lot
from valence_sched.errors import UnknownName
from valence_sched.model import zone as nouns
from valence_sched.model.decision import DecisionResult, PoolRef, SilentZone
from valence_sched.model.http import MOST_HOPS
from valence_sched.model.need import Alternative
from valence_sched.model.policy import Policy
from valence_sched.model.request import MAX_NODES, GroupState, Request
from valence_sched.zones.mixes import CompletedRequest, as_asked_below

LEAST_DEADLINE_S = 0.001  # seconds for a query if its decision has no time left
MOST_ANCHORS = 64  # places that are tried for the first node of a group; the best is used

#: Places the nodes of a request; the first node avoids the given places.
Attempt = Callable[[tuple[nouns.DomainValues, ...]], "list[PlacedOffer]"]

#: Completes the mix of a request. The first argument asks all zones for their supplies; if the
#: second argument is true, the first one is always called.
Complete = Callable[[Callable[[], nouns.GroupAnswer], bool], CompletedRequest]


@dataclass(frozen=True)
class PlacedOffer:
    """One node: the number of its alternative (``choice``, from 1), its offer and alternates."""

    choice: int
    chosen: nouns.Offer
    alternates: tuple[nouns.Offer, ...] = ()


@dataclass(frozen=True)
class OtherOffer:
    """A node of another request, and the path down to its zone."""

    node: nouns.OtherNode
    zone: str


@dataclass
class Selected:
    """The nodes that zones offer, and the details of the answer.

    ``queries`` counts the queries to the child zones, ``rounds`` those for offers.
    ``answered`` is the largest number of zones in one answer. ``request`` has its mix completed,
    without the supplies of ``uncounted`` zones. ``explain`` returns the decision with its reasons.
    """

    nodes: list[PlacedOffer] = field(default_factory=list)
    undecided: dict[tuple[str, str], PoolRef] = field(default_factory=dict)
    silent: dict[str, SilentZone] = field(default_factory=dict)
    excluded: dict[str, SilentZone] = field(default_factory=dict)
    uncounted: dict[str, SilentZone] = field(default_factory=dict)
    queries: int = 0
    rounds: int = 0
    answered: int = 1
    request: Request | None = None
    explain: Callable[[], DecisionResult] | None = None


class _Outdated(Exception):
    """A zone with a chosen node is silent, or the mix was completed from outdated supplies.

    ``supplies`` are the present supplies, if known.
    """

    def __init__(self, supplies: nouns.ZoneSupplies | UnsetType = UNSET) -> None:
        super().__init__()
        self.supplies = supplies


class ZoneSelection:
    """Selects the nodes of one sealed request from a zone and the zones below it.

    A zone that does not answer is not queried again. If a node was chosen there, the decision is
    repeated without the zone. ``others`` are offers that earlier requests took. Zones to ``avoid``
    are not queried and count as silent. If ``complete`` used the supplies of an earlier decision,
    the first offers must confirm them; otherwise the decision is repeated with the present
    supplies.
    """

    def __init__(
        self,
        zone: nouns.OfferingZone,
        policy: Policy,
        request: Request,
        *,
        deadline_s: float = 30.0,
        most_hops: int = MOST_HOPS,
        most_cost: int | None = None,
        others: Sequence[OtherOffer] = (),
        avoid: Iterable[SilentZone] = (),
        complete: Complete | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._zone, self._policy = zone, policy
        self._sealed = self._request = request  # sealed, and with its mix completed
        by_lot = policy.scheduler == "chance"
        self._query = nouns.OfferQuery(
            request=request,
            order="lot" if by_lot else "cost",
            most_cost=most_cost,
            others=tuple(one.node for one in others),
            hops=most_hops,
        )
        self._complete = complete
        self._unconfirmed: nouns.ZoneSupplies | None = None
        self._clock, self._until = clock, clock() + deadline_s
        self._noted = Selected()
        self._note(avoid, self._noted.silent)
        # the taken offers, by token
        self._zones = {one.node.token: one.zone for one in others}

    def ranking(self, limit: int) -> tuple[Sequence[nouns.Offer], Selected]:
        """Return the best candidates for the first node, and the details of the answer."""
        self._complete_mix()
        try:
            offers = self._best_offers(limit)
        except _Outdated as outdated:
            self._begin_anew(outdated.supplies)
            offers = self._best_offers(limit)
        return offers, self._noted

    def _best_offers(self, limit: int) -> Sequence[nouns.Offer]:
        query = replace(self._query, order="cost", limit=limit)
        return self._first_node(query, self._request.alternatives[0]).ranking[:limit]

    def first_node(
        self, alternative: Alternative, limit: int, rival: nouns.Rival | None = None
    ) -> nouns.ZoneAnswer:
        """Return the answer for one node by an alternative, with pools that overtake a rival."""
        per_podm = self._policy.pick.best_of == 1
        query = replace(self._query, limit=limit, per_podm=per_podm, rival=rival)
        return self._first_node(query, alternative)

    def _first_node(self, query: nouns.OfferQuery, alternative: Alternative) -> nouns.ZoneAnswer:
        query = replace(query, request=_by_alternative(self._request, alternative, count=1))
        return self._ask(self._with_group_state(query))

    def drawn(self, offers: Sequence[nouns.Offer], turn: int = 1) -> nouns.Offer | None:
        def lot(offer: nouns.Offer) -> int:
            return pool_lot(offer.candidate.podm, offer.candidate.pool, self._request, turn)

        return min(offers, key=lot, default=None)

    @property
    def silent(self) -> frozenset[str]:
        return frozenset(self._noted.silent)

    def most_nodes(self) -> int:
        """Return an upper bound of the nodes in all zones, computed for each need separately."""
        self._complete_mix()
        supplies = self._group_answer(self._query).supplies
        return MAX_NODES if supplies is UNSET else supplies.most_nodes

    def nodes(self) -> Selected:
        """Return the nodes of the request, or as many as fit; UnknownName for a podm in no zone."""
        begin: Callable[[], None] = self._complete_mix
        while True:  # each retry leaves out one more zone; one retry uses the present supplies
            try:
                begin()
                self._noted.nodes = self._with_alternates(self._nodes())
            except _Outdated as outdated:
                begin = functools.partial(self._begin_anew, outdated.supplies)
            else:
                return self._noted

    def _begin_anew(self, supplies: nouns.ZoneSupplies | UnsetType = UNSET) -> None:
        self._noted.undecided.clear()
        vars(self).pop("needs_anchor", None)
        self._complete_mix(anew=True, supplies=supplies)

    def _complete_mix(
        self, *, anew: bool = False, supplies: nouns.ZoneSupplies | UnsetType = UNSET
    ) -> None:
        if self._complete is None:
            return

        def ask() -> nouns.GroupAnswer:
            if supplies is not UNSET:
                return nouns.GroupAnswer(group_state=GroupState(), supplies=supplies)
            return self._group_answer(replace(self._query, request=self._sealed))

        completed = self._complete(ask, anew)
        self._noted.request, self._unconfirmed = completed.request, completed.unconfirmed
        self._noted.uncounted.clear()
        self._note(completed.uncounted, self._noted.uncounted)
        self._request = as_asked_below(completed.request)
        self._query = replace(self._query, request=self._request)

    def _nodes(self) -> list[PlacedOffer]:
        if len(self._request.alternatives) > 1 and self.needs_anchor:
            return self._best_by_anchor(self._attempt, self._request.count)
        return self._attempt(())

    def _best_by_anchor(self, attempt: Attempt, count: int) -> list[PlacedOffer]:
        group = self._request.group
        assert group is not None, "only a group has an anchor"
        best = nodes = attempt(())
        closed: list[nouns.DomainValues] = []
        for _ in range(MOST_ANCHORS):
            if len(nodes) in (0, count):
                break
            place = nodes[0].chosen.place
            closed.append({domain: place[domain] for domain in group.affinity if domain in place})
            nodes = attempt(tuple(closed))
            best = max(best, nodes, key=len)
        return best

    def _attempt(self, closed: tuple[nouns.DomainValues, ...]) -> list[PlacedOffer]:
        nodes: list[PlacedOffer] = []
        for choice, alternative in enumerate(self._request.alternatives, 1):
            missing = self._request.count - len(nodes)
            if not missing:
                break
            request = _by_alternative(self._request, alternative, missing)
            taken = tuple(self._take(node.chosen) for node in nodes)
            query = replace(self._query, request=request, taken=taken)
            first = functools.partial(self._placed, query, choice)
            if nodes or closed:
                nodes += first(() if nodes else closed)
            elif self.needs_anchor:
                nodes += self._best_by_anchor(first, missing)
            else:
                nodes += first(())
        return nodes

    def _placed(
        self, query: nouns.OfferQuery, choice: int, closed: tuple[nouns.DomainValues, ...]
    ) -> list[PlacedOffer]:
        query = replace(query, closed=closed)
        by_lot = query.order == "lot" and query.request.count > 1
        in_rounds = by_lot or self._policy.pick.best_of > 1 or crosses_zones(query.request)
        if not in_rounds:
            answer = self._ask(query)
            in_rounds = answer.coupled and query.request.count > 1
        offers = self._in_rounds(query) if in_rounds else answer.nodes
        return [PlacedOffer(choice, offer) for offer in offers]

    def _in_rounds(self, query: nouns.OfferQuery) -> list[nouns.Offer]:
        count, best_of = query.request.count, self._policy.pick.best_of
        limit = best_of if best_of > 1 else 0
        taken, found = list(query.taken), list[nouns.Offer]()
        for turn in range(count):
            current = replace(
                query,
                request=replace(query.request, count=1),
                limit=limit,
                turn=turn,
                taken=tuple(taken),
                closed=() if turn else query.closed,
            )
            answer = self._ask(self._with_group_state(current))
            offers = answer.ranking[:best_of] if limit else answer.nodes[:1]
            chosen = self.drawn(offers, 1 + turn)
            if chosen is None:
                break
            found.append(chosen)
            taken.append(self._take(chosen))
        return found

    def _take(self, offer: nouns.Offer) -> nouns.Token:
        self._zones[offer.token] = offer.zone
        return offer.token

    def _with_alternates(self, nodes: list[PlacedOffer]) -> list[PlacedOffer]:
        wanted = self._request.alternates
        if not wanted or not nodes:
            return nodes
        podms = {podm_of(node.chosen) for node in nodes}
        query = replace(self._query, limit=wanted + len(podms), per_podm=True)
        group = self._request.group
        domains = group.domains if group is not None and group.hard else ()
        known: dict[Hashable, tuple[nouns.Offer, ...]] = {}
        found = []
        for number, node in enumerate(nodes):
            # in random order, each node of an alternative is drawn separately
            turn = sum(one.choice == node.choice for one in nodes[:number])
            turn = turn if query.order == "lot" else 0
            key = node.choice, turn, *(node.chosen.place.get(domain) for domain in domains)
            if key not in known:
                alternative = self._request.alternatives[node.choice - 1]
                request = _by_alternative(self._request, alternative, count=1)
                current = replace(query, request=request, turn=turn)
                if domains:  # the other nodes count for the rules of the group
                    others = [one.chosen for one in nodes if one is not node]
                    current = replace(current, taken=tuple(map(self._take, others)))
                    current = self._with_group_state(current)
                ranking = self._ask(current).ranking
                free = [one for one in ranking if podm_of(one) not in podms]
                known[key] = tuple(free[:wanted])
            found.append(PlacedOffer(node.choice, node.chosen, known[key]))
        return found

    @functools.cached_property
    def needs_anchor(self) -> bool:
        """Return whether the first node determines the places of all others."""
        group = self._request.group
        if group is None or not group.affinity:
            return False
        state = self._group_answer(self._query).group_state
        return not all(map(state.decides, group.affinity))

    def _ask(self, query: nouns.OfferQuery) -> nouns.ZoneAnswer:
        answer = self._zone.offers(self._bounded(query))
        self._noted.queries += 1
        self._noted.rounds += 1
        self._noted.answered = max(self._noted.answered, answer.answered)
        self._note(answer.silent, self._noted.silent)
        self._check_taken(query, answer.silent)
        if self._unconfirmed is not None:
            expected, self._unconfirmed = self._unconfirmed, None
            if answer.supplies != expected:
                raise _Outdated(answer.supplies)
        self._note(answer.excluded, self._noted.excluded)
        self._noted.undecided.update(((one.podm, one.pool), one) for one in answer.undecided)
        for name in answer.unknown_podms if not self._noted.silent else ():
            # a plain name may be in a zone that is not queried; a path names its zone
            starts = (f"{one.zone}/" if "/" in name else "" for one in answer.excluded)
            if not f"{name}/".startswith(tuple(starts)):
                raise UnknownName("pod manager", name, ())
        return answer

    def _with_group_state(self, query: nouns.OfferQuery) -> nouns.OfferQuery:
        if query.request.group is None and query.request.owner is None:
            return query
        answer = self._group_answer(query)
        return replace(query, group_state=answer.group_state, generations=answer.generations)

    def _group_answer(self, query: nouns.OfferQuery) -> nouns.GroupAnswer:
        answer = self._zone.group_state(self._bounded(query))
        self._noted.queries += 1
        self._note(answer.silent, self._noted.silent)
        self._check_taken(query, answer.silent)
        return answer

    def _check_taken(self, query: nouns.OfferQuery, silent: Sequence[SilentZone]) -> None:
        tokens = (*query.taken, *(other.token for other in query.others))
        zones = {f"{self._zones[token]}/" for token in tokens}
        if any(zone.startswith(f"{one.zone}/") for one in silent for zone in zones):
            raise _Outdated

    def _bounded(self, query: nouns.OfferQuery) -> nouns.OfferQuery:
        left_s = max(self._until - self._clock(), LEAST_DEADLINE_S)
        silent = tuple(self._noted.silent)[: nouns.MOST_LEFT_OUT]
        return replace(query, deadline_s=left_s, left_out=silent)

    @staticmethod
    def _note(zones: Iterable[SilentZone], noted: dict[str, SilentZone]) -> None:
        noted.update((one.zone, one) for one in zones)


def _by_alternative(request: Request, alternative: Alternative, count: int) -> Request:
    return replace(
        request,
        needs=alternative.needs,
        topology=alternative.topology,
        other_alternatives=(),
        count=count,
        min_count=None,
    )


def podm_of(offer: nouns.Offer) -> tuple[str, str]:
    """Return the zone and name of the pod manager of an offer: names may be equal in two zones."""
    return offer.zone, offer.candidate.podm


def crosses_zones(request: Request) -> bool:
    """Return whether a node of a request restricts other pod managers."""
    group = request.group
    if group is None:
        return False
    return bool(group.affinity or group.spread or set(group.domains) - {"podm"})
