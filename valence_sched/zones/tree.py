# SPDX-License-Identifier: Apache-2.0
"""Tree: one zone with its pod managers and its children, which decides as a flat zone would.

It knows what is directly below it and nothing else. Each child is asked the same once, at the same
time as the others; what it offers comes with a token that only the child reads.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Protocol, TypeVar

from msgspec.structs import replace

from valence_sched.errors import SchedulerError, StaleOffer, one_line
from valence_sched.model.decision import Candidate
from valence_sched.model.group import GroupState
from valence_sched.model.zone import (
    GroupAnswer,
    Offer,
    OfferQuery,
    SilentZone,
    Token,
    ZoneAnswer,
)
from valence_sched.zones.merge import PLAIN, OfferOrder, Part, Weighting, merge_nodes, merge_ranking
from valence_sched.zones.tokens import ChildToken, OwnToken, Tokens

A = TypeVar("A", ZoneAnswer, GroupAnswer)

TokensByChild = dict[str, tuple[Token, ...]]

DEADLINE_SHARE = 0.8  # of the time that is left, for the children: the rest is for the way back


class OfferingZone(Protocol):
    """What can be asked for offers: a child over HTTP, or a whole tree in this process."""

    def offers(self, query: OfferQuery) -> ZoneAnswer:
        """Return what the zone and those below it offer; errors as of a scheduler."""

    def group_state(self, query: OfferQuery) -> GroupAnswer:
        """Return the group state of the request on its pod managers and those below."""


class OwnPodms(Protocol):
    """The pod managers directly below a zone; it signs what they offer.

    ``earlier`` are those of their candidates that the tokens of the query stand for.
    """

    def offers(self, query: OfferQuery, earlier: Sequence[Candidate]) -> ZoneAnswer:
        """Return what they offer, without tokens; errors as for a decision."""

    def group_state(self, query: OfferQuery, earlier: Sequence[Candidate]) -> GroupState:
        """Return the group state of the request on them, which counts the ``earlier`` ones."""


@dataclass(frozen=True)
class ChildZone:
    """A zone directly below, as its parent has it: ``name`` is the parent's for it."""

    name: str
    zone: OfferingZone
    weighting: Weighting = PLAIN


class ZoneTree:
    """A zone: what is directly below it, asked as one.

    ``id`` tells it from all others, so that a loop of zones ends. A zone without ``own`` pod
    managers is a router.
    """

    def __init__(
        self, id_: str, tokens: Tokens, own: OwnPodms | None, children: Sequence[ChildZone] = ()
    ) -> None:
        self._id, self._tokens, self._own, self._children = id_, tokens, own, children

    def offers(self, query: OfferQuery) -> ZoneAnswer:
        """Return what this zone and those below it offer, merged as if they were one.

        Raises:
            SchedulerError: the query went in a circle.
            StaleOffer: a token is not one of this zone.
        """
        own, below = self._taken(query)
        answers, silent = self._ask_children(query, below, _offers)
        parts = [
            Part(answers[child.name], child.name, child.weighting)
            for child in self._children
            if child.name in answers
        ]
        if self._own is not None:
            parts.append(Part(self._own.offers(query, own)))
        order = OfferOrder(query, parts)
        above = functools.partial(self._above, order)
        count = query.request.count
        return ZoneAnswer(
            nodes=tuple(itertools.starmap(above, merge_nodes(parts, order, count))),
            ranking=tuple(itertools.starmap(above, merge_ranking(parts, order)[: query.limit])),
            undecided=tuple(pool for part in parts for pool in part.answer.undecided),
            worst_cost=order.worst_cost,
            coupled=any(part.answer.coupled for part in parts),
            unknown_podms=_unknown_to_all(parts, query),
            silent=(*silent, *_named(parts, "silent")),
            excluded=_named(parts, "excluded"),
        )

    def group_state(self, query: OfferQuery) -> GroupAnswer:
        """Return the group state of the request on this zone and on those below it.

        Errors as of ``offers``.
        """
        own, below = self._taken(query)
        answers, silent = self._ask_children(query, below, _group_state)
        states = [answer.company for answer in answers.values()]
        if self._own is not None:
            states.append(self._own.group_state(query, own))
        lower = tuple(
            SilentZone(zone=_path(name, one.zone), reason=one.reason)
            for name, answer in answers.items()
            for one in answer.silent
        )
        return GroupAnswer(company=merged_group_state(states), silent=(*silent, *lower))

    def _above(self, order: OfferOrder, part: Part, offer: Offer) -> Offer:
        """Return an offer as the zone above sees it."""
        candidate = replace(offer.candidate, cost=order.cost(part, offer))
        content = ChildToken(part.child, offer.token) if part.child else OwnToken(offer.candidate)
        token, zone = self._tokens.sign(content), _path(part.child, offer.zone)
        return replace(offer, candidate=candidate, token=token, zone=zone)

    def _taken(self, query: OfferQuery) -> tuple[list[Candidate], dict[str, tuple[Token, ...]]]:
        """Return the query's tokens as those of its own pod managers, and those by child."""
        own: list[Candidate] = []
        below: TokensByChild = {child.name: () for child in self._children}
        for token in query.taken:
            content = self._tokens.read(token)
            if isinstance(content, OwnToken):
                own.append(content.candidate)
            elif content.child in below:
                below[content.child] += (content.token,)
            else:
                raise StaleOffer(f"zone {content.child!r} is no longer a child: ask again")
        return own, below

    def _ask_children(
        self,
        query: OfferQuery,
        taken: TokensByChild,
        ask: Callable[[OfferingZone, OfferQuery], A],
    ) -> tuple[dict[str, A], list[SilentZone]]:
        """Ask every child at once; return the answers by name, and who gave none in time."""
        if self._id in query.route:
            raise SchedulerError("the zones are a circle: one of them is below itself")
        if not self._children:
            return {}, []
        if not query.hops:
            return {}, [SilentZone(zone=child.name, reason="it is too deep to be asked")
                        for child in self._children]  # fmt: skip
        lower = replace(
            query,
            route=(*query.route, self._id),
            hops=query.hops - 1,
            deadline_s=query.deadline_s * DEADLINE_SHARE,
        )
        pool = ThreadPoolExecutor(len(self._children), thread_name_prefix="zone")
        try:
            asked = {
                child.name: pool.submit(ask, child.zone, replace(lower, taken=taken[child.name]))
                for child in self._children
            }
            wait(asked.values(), timeout=query.deadline_s)
            return _collected(asked)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def merged_group_state(states: Iterable[GroupState]) -> GroupState:
    """Return the group state of several zones, which have no pod manager in common."""
    members: dict[str, Counter[str]] = {}
    owned: Counter[str] = Counter()
    open_values: dict[str, set[str]] = {}
    for state in states:
        owned.update(state.owned)
        for domain, counts in state.members.items():
            members.setdefault(domain, Counter()).update(counts)
        for domain, values in state.open.items():
            open_values.setdefault(domain, set()).update(values)
    return GroupState(
        members={domain: dict(counts) for domain, counts in members.items()},
        owned=dict(owned),
        open={domain: tuple(sorted(values)) for domain, values in open_values.items()},
    )


def _offers(zone: OfferingZone, query: OfferQuery) -> ZoneAnswer:
    return zone.offers(query)


def _group_state(zone: OfferingZone, query: OfferQuery) -> GroupAnswer:
    return zone.group_state(query)


def _collected(asked: Mapping[str, Future[A]]) -> tuple[dict[str, A], list[SilentZone]]:
    answers: dict[str, A] = {}
    silent: list[SilentZone] = []
    for name, future in asked.items():
        if not future.done():
            silent.append(SilentZone(zone=name, reason="it did not answer in time"))
        elif isinstance(error := future.exception(), SchedulerError):
            silent.append(SilentZone(zone=name, reason=one_line(str(error))))
        else:
            answers[name] = future.result()
    return answers, silent


def _unknown_to_all(parts: Sequence[Part], query: OfferQuery) -> tuple[str, ...]:
    named = (*query.request.podms, *query.request.exclude_podms)
    unknown = [set(part.answer.unknown_podms) for part in parts]
    return tuple(name for name in named if all(name in names for names in unknown))


def _named(parts: Sequence[Part], field: str) -> tuple[SilentZone, ...]:
    """Return the zones of a field of the answers, with the names of the way down to them."""
    return tuple(
        SilentZone(zone=_path(part.child, one.zone), reason=one.reason)
        for part in parts
        for one in getattr(part.answer, field)
    )


def _path(child: str, zone: str) -> str:
    return "/".join(filter(None, (child, zone)))
