# SPDX-License-Identifier: Apache-2.0
"""Tree: requests offers from the child zones and merges them as if all were one flat zone.

All children are queried in parallel; each offer of a child has a token that only the child reads.
Costs are absolute, and names and the seed break ties: the best offer is the best of its zone. Each
zone lists, in order, the nodes that it would place; a node changes only the costs of its zone.
"""

import functools
import heapq
import itertools
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from valence_sched.calls import DEADLINE_SHARE, errors_of, outcomes_of
from valence_sched.core.ranking import pool_lot
from valence_sched.errors import SchedulerError, ServiceBusy, StaleOffer, one_line
from valence_sched.model import zone as nouns
from valence_sched.model.base import MAX_WHOLE
from valence_sched.model.decision import Candidate, SilentZone
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.request import GroupState, Request, with_inherited
from valence_sched.model.scheduler import OwnPodms
from valence_sched.model.zone_registry import RecordedZone
from valence_sched.zones import paths
from valence_sched.zones.mixes import supplies_with_offers, zone_supplies
from valence_sched.zones.report import why_ruled_out
from valence_sched.zones.tokens import ChildToken, OwnToken, Tokens

if TYPE_CHECKING:
    from valence_sched.store.zones import ZoneClaimRows

A = TypeVar("A", nouns.ZoneAnswer, nouns.GroupAnswer)

TokensByChild = dict[str, tuple[nouns.Token, ...]]

MOST_NAMED = 1000  # the most named zones, and undecided pools, in the answer of one child
MOST_PATH = 1 << 12  # characters of the path of a zone


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weight of a zone's scores in its parent zone: ``offset + scale × score``."""

    scale: float = 1.0
    offset: float = 0.0

    def cost(self, cost: int, worst: int) -> float:
        """Return the weighted cost of an offer of this ``cost``; a score of 0 costs ``worst``."""
        if self == PLAIN:
            return cost
        return worst * (1.0 - self.offset) - self.scale * (worst - cost)


PLAIN = Weighting()


@dataclass(frozen=True, slots=True)
class Part:
    """The answer of a child zone; without a ``child``, of the zone's own pod managers."""

    answer: nouns.ZoneAnswer
    child: str = ""
    weighting: Weighting = PLAIN


class OfferOrder:
    """The order of the offers of several zones, with costs scaled to the largest ``worst_cost``."""

    def __init__(self, query: nouns.OfferQuery, parts: Sequence[Part]) -> None:
        self._query = query
        worst = max((part.answer.worst_cost for part in parts), default=0)
        self.worst_cost = worst if query.most_cost is None else min(worst, query.most_cost)

    def as_above(self, part: Part, offer: nouns.Offer) -> nouns.Offer:
        """Return an offer with its cost in this zone, and scores within 0..1."""
        one, cost = offer.candidate, self.cost(part, offer)
        score = round(1.0 - cost / self.worst_cost, 6) if self.worst_cost else 1.0
        scores = {name: min(max(value, 0.0), 1.0) for name, value in one.scores.items()}
        waste = min(max(one.waste, 0), MAX_WHOLE)
        one = replace(one, cost=cost, score=score, scores=scores, waste=waste)
        return replace(offer, candidate=one)

    def cost(self, part: Part, offer: nouns.Offer) -> int:
        worst = part.answer.worst_cost
        cost = min(max(offer.candidate.cost, 0), worst)
        if worst != self.worst_cost and worst:
            cost = cost * self.worst_cost // worst
        weighted = round(part.weighting.cost(cost, self.worst_cost))
        return min(max(weighted, 0), self.worst_cost)

    def key(self, part: Part, offer: nouns.Offer) -> tuple[int, int]:
        one, request = offer.candidate, self._query.request
        if self._query.order == "cost":
            return self.cost(part, offer), pool_lot(one.podm, one.pool, request)
        turn = self._query.turn
        podm_lot = pool_lot(one.podm, "", request, turn)
        return podm_lot, pool_lot(one.podm, one.pool, request, turn)


def merge_ranking(parts: Sequence[Part], order: OfferOrder) -> list[tuple[Part, nouns.Offer]]:
    found = ((part, offer) for part in parts for offer in part.answer.ranking)
    return sorted(found, key=lambda one: order.key(*one))


def merge_nodes(
    parts: Sequence[Part], order: OfferOrder, count: int
) -> list[tuple[Part, nouns.Offer]]:
    rows = ([(part, offer) for offer in part.answer.nodes] for part in parts)
    merged = heapq.merge(*rows, key=lambda one: order.key(*one))
    return list(itertools.islice(merged, count))


def recorded_tree(
    zone: RecordedZone, podms: Callable[[RecordedZone], OwnPodms], path: str = ""
) -> "ZoneTree":
    """Return the tree of a zone; its zones are queried one by one in the caller's thread."""
    children = [
        ChildZone(
            child.name,
            recorded_tree(child, podms, f"{path}/{child.name}"),
            Weighting(child.weight_scale, child.weight_offset),
            parse_capabilities(child.capabilities),
        )
        for child in zone.children
    ]
    own = podms(zone) if zone.inventories else None
    return ZoneTree(path or "/", Tokens([secrets.token_hex(32)], path), own, children)


def flat_request(zone: RecordedZone, request: Request) -> Request:
    ways = sorted((f"{way}/" for way, _ in zone.walk() if way), key=len, reverse=True)

    def flat(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.removeprefix(next(filter(name.startswith, ways), "")) for name in names)

    return replace(request, podms=flat(request.podms), exclude_podms=flat(request.exclude_podms))


@dataclass(frozen=True)
class ChildZone:
    """A child zone, with the ``name`` that its parent gave it.

    It is not queried if its ``capabilities`` rule out a request, or if it is not ``enabled``.
    ``inactive`` is the reason why it cannot be queried. Queries run on its own ``threads``, so that
    a hanging child does not delay others; without ``threads``, they run on the caller's thread.
    """

    name: str
    zone: nouns.OfferingZone | None
    weighting: Weighting = PLAIN
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inactive: str | None = None
    threads: Executor | None = None
    enabled: bool = True

    def begin(
        self, ask: Callable[[nouns.OfferingZone, nouns.OfferQuery], A], query: nouns.OfferQuery
    ) -> Future[A]:
        assert self.zone is not None, "it is queried only while it is active"
        done: Future[A] = Future()
        try:
            if self.threads is not None:
                return self.threads.submit(ask, self.zone, query)
            done.set_result(ask(self.zone, query))
        except RuntimeError:  # the link to the child is closed, or no thread can start
            done.set_exception(ServiceBusy("it cannot be queried at the moment: try again"))
        except Exception as error:
            done.set_exception(error)
        return done


class ZoneTree:
    """A zone: its own pod managers and its children, queried as one.

    A zone detects by its unique ``id`` that a query has returned through a cycle of zones. A zone
    without ``own`` pod managers is a router. Pod managers of its children inherit its
    ``capabilities``. ``members`` knows the members and generations of groups.
    """

    def __init__(
        self,
        id_: str,
        tokens: Tokens,
        own: OwnPodms | None,
        children: Sequence[ChildZone] = (),
        *,
        members: "ZoneClaimRows | None" = None,
        capabilities: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._id, self._tokens, self._own, self._children = id_, tokens, own, children
        self._members, self._stated = members, capabilities or {}
        self._names = {child.name for child in children}

    def offers(self, query: nouns.OfferQuery) -> nouns.ZoneAnswer:
        children, own_query, taken, others = self._split(query)
        generation = query.generations.get("")
        if query.group_state is None:
            generation = self._generation(query.request)
        children.begin(lambda zone, asked: zone.offers(asked))
        own = self._own.offers(own_query, taken, others) if self._own else None
        answers = children.answers()
        parts = [
            Part(_bounded(answers[child.name], query), child.name, child.weighting)
            for child in self._children
            if child.name in answers
        ]
        if own is not None:
            parts.append(Part(own))
        order = OfferOrder(query, parts)

        def above(part: Part, offer: nouns.Offer) -> nouns.Offer:
            place = paths.renamed_place(offer.place, functools.partial(paths.path, part.child))
            content: ChildToken | OwnToken = OwnToken(offer.candidate, generation)
            if part.child:
                content = ChildToken(part.child, offer.token, generation, place)
            token, zone = self._tokens.sign(content), _path(part.child, offer.zone)
            return replace(order.as_above(part, offer), token=token, zone=zone, place=place)

        count, mix = query.request.count, query.request.mix
        supplies = [part.answer.supplies for part in parts]
        free = (part.answer.most_free for part in parts if part.answer.most_free)
        return nouns.ZoneAnswer(
            nodes=tuple(itertools.starmap(above, merge_nodes(parts, order, count))),
            ranking=tuple(itertools.starmap(above, merge_ranking(parts, order)[: query.limit])),
            undecided=tuple(pool for part in parts for pool in part.answer.undecided),
            worst_cost=order.worst_cost,
            coupled=any(part.answer.coupled for part in parts),
            unknown_podms=self._unknown_to_all(parts, query),
            silent=(*children.silent, *_named(parts, "silent")),
            excluded=(*children.excluded, *_named(parts, "excluded")),
            answered=1 + sum(part.answer.answered for part in parts if part.child),
            supplies=supplies_with_offers(supplies, len(mix.shares)) if mix.scarcity else UNSET,
            overtakings=_overtakings(parts, order),
            most_free=tuple(map(max, zip(*free, strict=False))),
        )

    def group_state(self, query: nouns.OfferQuery) -> nouns.GroupAnswer:
        children, own_query, taken, others = self._split(query)
        generation = self._generation(query.request)  # before members are counted
        for_group = query.request.group is not None
        children.begin(lambda zone, asked: zone.group_state(asked), for_group=for_group)
        own = self._own
        states = [own.group_state(own_query, taken, others)] if own is not None else []
        own_supplies = own.mix_supplies(own_query, others) if own is not None else None
        answers = children.answers()
        shares = len(query.request.mix.shares)
        ruled_out = {one.zone for one in children.excluded}
        counted = {name: answer for name, answer in answers.items() if name not in ruled_out}
        supplies, lacking = zone_supplies(own_supplies, counted, shares)
        if self._members is not None and query.request.group is not None:
            states.append(self._members.known(query.request, answers))
        generations = {"": generation} if generation is not None else {}
        silent, uncounted = list(children.silent), list(lacking)
        for name, answer in answers.items():
            path = functools.partial(paths.path, name)
            states.append(paths.renamed_state(answer.group_state, path))
            for lower_zone, number in itertools.islice(answer.generations.items(), MOST_NAMED):
                generations[_path(name, lower_zone)] = number
            silent += (_below(name, one) for one in answer.silent[:MOST_NAMED])
            uncounted += (_below(name, one) for one in answer.uncounted[:MOST_NAMED])
        return nouns.GroupAnswer(
            group_state=merged_group_state(states),
            generations=generations,
            silent=tuple(silent),
            supplies=supplies,
            uncounted=tuple(uncounted),
        )

    def _unknown_to_all(self, parts: Sequence[Part], query: nouns.OfferQuery) -> tuple[str, ...]:
        def is_known(name: str, part: Part) -> bool:
            found = paths.name_in(part.child, name, self._names)
            return bool(found) and found not in part.answer.unknown_podms

        named = (*query.request.podms, *query.request.exclude_podms)
        return tuple(name for name in named if not any(is_known(name, part) for part in parts))

    def _generation(self, request: Request) -> int | None:
        group = request.group
        if self._members is None or group is None or not group.hard:
            return None
        return self._members.generation(group.name)

    def _split(
        self, query: nouns.OfferQuery
    ) -> tuple["_Children", nouns.OfferQuery, list[Candidate], list[nouns.OtherCandidate]]:
        """Return the children to query, and this zone's own query, taken nodes and other nodes."""
        own_taken, own_others = list[Candidate](), list[nouns.OtherCandidate]()
        taken: TokensByChild = {child.name: () for child in self._children}
        others: dict[str, list[nouns.OtherNode]] = {child.name: [] for child in self._children}
        for content in map(self._read, query.taken):
            if isinstance(content, OwnToken):
                own_taken.append(content.candidate)
            else:
                taken[content.child] += (content.token,)
        for other in query.others:
            content = self._read(other.token)
            if isinstance(content, OwnToken):
                one, group = content.candidate, other.group
                own_others.append(
                    nouns.OtherCandidate(candidate=one, group=group, owner=other.owner)
                )
            else:
                others[content.child].append(replace(other, token=content.token))
        lower = replace(query, request=with_inherited(query.request, self._stated))
        children = _Children(self._id, self._children, lower, taken, others)
        own_query = replace(query, request=paths.request_for("", query.request, self._names))
        return children, own_query, own_taken, own_others

    def _read(self, token: nouns.Token) -> ChildToken | OwnToken:
        content = self._tokens.read(token)
        if isinstance(content, ChildToken) and content.child not in self._names:
            raise StaleOffer(f"zone {content.child!r} is no longer a child zone: try again")
        return content


class _Children:
    """The children of a zone, queried once in parallel.

    ``excluded`` children are disabled, or ruled out by capabilities. ``for_group`` also queries the
    children that capabilities rule out, since they may have group members.
    """

    def __init__(
        self,
        zone: str,
        children: Sequence[ChildZone],
        query: nouns.OfferQuery,
        taken: TokensByChild,
        others: Mapping[str, Sequence[nouns.OtherNode]],
    ) -> None:
        if zone in query.route:
            raise SchedulerError("the zones form a cycle: a zone is below itself")
        self._children, self._query, self._taken, self._others = children, query, taken, others
        self._until = time.monotonic() + query.deadline_s
        self._lower = replace(
            query,
            route=(*query.route, zone),
            hops=max(query.hops - 1, 0),
            deadline_s=query.deadline_s * DEADLINE_SHARE,
        )
        self._asked: dict[str, Future[Any]] = {}
        self.silent: list[SilentZone] = []
        self.excluded: list[SilentZone] = []

    def begin(
        self, ask: Callable[[nouns.OfferingZone, nouns.OfferQuery], Any], *, for_group: bool = False
    ) -> None:
        for child in self._children:
            if child.name in self._query.left_out:
                continue
            if not child.enabled:
                self.excluded.append(SilentZone(zone=child.name, reason="disabled"))
                continue
            reason = child.inactive if self._query.hops else "it is nested too deeply to be queried"
            excluded = why_ruled_out(child.capabilities, self._query.request.capabilities)
            if excluded is not None:
                self.excluded.append(SilentZone(zone=child.name, reason=excluded))
            if excluded is not None and (reason is not None or not for_group):
                continue
            if reason is not None:
                self.silent.append(SilentZone(zone=child.name, reason=reason))
            else:
                self._asked[child.name] = child.begin(ask, self._query_of(child))

    def _query_of(self, child: ChildZone) -> nouns.OfferQuery:
        name, query, start = child.name, self._query, f"{child.name}/"
        name_for = functools.partial(paths.name_for, name)
        request = paths.request_for(name, query.request, self._taken)
        left_out = (one for one in query.left_out if one.startswith(start))
        return replace(
            self._lower,
            request=with_inherited(request, child.capabilities),
            taken=self._taken[name],
            others=tuple(self._others[name]),
            left_out=tuple(one.removeprefix(start) for one in left_out),
            group_state=query.group_state and paths.renamed_state(query.group_state, name_for),
            generations=paths.generations_for(name, query.generations),
            closed=tuple(paths.renamed_place(one, name_for) for one in query.closed),
        )

    def answers(self) -> dict[str, Any]:
        outcomes = outcomes_of(self._asked, max(0.0, self._until - time.monotonic()))
        for name, error in errors_of(outcomes).items():
            self.silent.append(SilentZone(zone=name, reason=one_line(str(error))))
            del outcomes[name]
        return outcomes


def merged_group_state(states: Iterable[GroupState]) -> GroupState:
    members: dict[str, Counter[str]] = {}
    owned: Counter[str] = Counter()
    open_values: dict[str, set[str]] = {}
    for state in states:
        owned.update(_valid(state.owned))
        for domain, counts in state.members.items():
            members.setdefault(domain, Counter()).update(_valid(counts))
        for domain, values in state.open.items():
            open_values.setdefault(domain, set()).update(values)
    return GroupState(
        members={domain: dict(counts) for domain, counts in members.items()},
        owned=dict(owned),
        open={domain: tuple(sorted(values)) for domain, values in open_values.items()},
    )


def _valid(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: number for name, number in counts.items() if 0 <= number < MAX_WHOLE}


def _overtakings(
    parts: Sequence[Part], order: OfferOrder
) -> tuple[nouns.Overtaking, ...] | UnsetType:
    """Return the offers of all parts that overtake a rival; UNSET if cost scales differ."""
    found: list[nouns.Overtaking] = []
    for part in parts:
        own, plain = part.answer.overtakings, part.weighting == PLAIN
        if own is UNSET or not plain or (own and part.answer.worst_cost != order.worst_cost):
            return UNSET
        found += (replace(one, zone=_path(part.child, one.zone)) for one in own)
    return tuple(found)


def _bounded(answer: nouns.ZoneAnswer, query: nouns.OfferQuery) -> nouns.ZoneAnswer:
    return replace(
        answer,
        nodes=answer.nodes[: query.request.count],
        ranking=answer.ranking[: query.limit],
        undecided=answer.undecided[:MOST_NAMED],
        silent=answer.silent[:MOST_NAMED],
        excluded=answer.excluded[:MOST_NAMED],
        worst_cost=min(max(0, answer.worst_cost), MAX_WHOLE),
        answered=min(max(1, answer.answered), 1_000_000),
        overtakings=UNSET if answer.overtakings is UNSET else answer.overtakings[:MOST_NAMED],
        most_free=answer.most_free[: len(query.request.needs)],
    )


def _named(parts: Sequence[Part], field_: str) -> tuple[SilentZone, ...]:
    return tuple(_below(part.child, one) for part in parts for one in getattr(part.answer, field_))


def _below(child: str, one: SilentZone) -> SilentZone:
    return SilentZone(zone=_path(child, one.zone), reason=one_line(one.reason))


def _path(child: str, zone: str) -> str:
    return one_line(paths.way(child, zone), MOST_PATH)
