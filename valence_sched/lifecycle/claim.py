# SPDX-License-Identifier: Apache-2.0
"""Claimer: decides on the state of a store, claims the choice, and retries after a conflict."""

import functools
import hashlib
import random
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from valence_sched.core.decider import Decider
from valence_sched.core.decision import Decision
from valence_sched.core.explain.report import decision_result
from valence_sched.core.fit.fit import Fit
from valence_sched.errors import ClaimLost, ClaimState, StaleOffer
from valence_sched.lifecycle.follower import Follower
from valence_sched.model.claim import Claim, ClaimPart, Grant, NodeAllocation
from valence_sched.model.decision import Candidate, Report
from valence_sched.model.inventory import DECLARED_SCHEME, free_amount, to_json
from valence_sched.model.need import NodeRequest
from valence_sched.model.quantity import format_count
from valence_sched.model.quota import block_charges
from valence_sched.model.request import Request, asked_content
from valence_sched.planning.succession import verify
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store
from valence_sched.view.view import View
from valence_sched.words.phrases import state_text

MOST_ATTEMPTS = 32
MOST_CHANGES = 5  # attempts to claim offers whose pod managers change meanwhile
LONGEST_PAUSE_S = 0.5  # longest pause after a lost race against a claim of the same group


class ClaimOutcome(NamedTuple):
    """The claim of a request, None if no node fits, and the number of lost races.

    ``decision`` is None if the claim already existed under the same key.
    """

    claim: Claim | None
    decision: Decision | None
    retries: int


class ClaimSource(Protocol):
    """Claims nodes, either of a new decision or of a plan."""

    def content(self, request: Request) -> str:
        """Return the content of an idempotency key."""

    def claim(
        self, request: Request, *, key: str | None, ttl_s: float, content: str | None
    ) -> ClaimOutcome:
        """Hold the chosen candidates; errors as for :meth:`Claimer.claim`."""


class Claimer:
    """Decides on the present state of a store, and claims the choice.

    ``follower`` follows the store. After a lost race, blocks are tried in an order that depends on
    ``salt``: claimers with the same order would conflict again. ``unclaimable`` returns the pod
    managers that must not be claimed now.
    """

    def __init__(
        self,
        store: Store,
        follower: Follower,
        *,
        most_attempts: int = MOST_ATTEMPTS,
        salt: bytes | None = None,
        unclaimable: Callable[[], Collection[str]] = frozenset,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store, self._follower, self._most_attempts = store, follower, most_attempts
        self._salt = salt if salt is not None else secrets.token_bytes(8)
        self._contended: set[str] = set()
        self._unclaimable, self._pause = unclaimable, pause

    def decider(self) -> Decider:
        """Return a decider on the present state of the store; claimed hardware is in use."""
        return self._follower.decider()

    def select_destinations(self, request: Request) -> Decision:
        """Decide on the present state without a claim; errors as for :meth:`decider`."""
        return self.decider().select_destinations(request)

    def content(self, request: Request) -> str:
        """Return the content of an idempotency key: the request without its id."""
        return asked_content(request).decode()

    def claim(
        self,
        request: Request,
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        content: str | None = None,
        dispatched: bool = False,
    ) -> ClaimOutcome:
        """Decide and hold the choice; after a lost race, decide again.

        ``content`` is the content of the key, by default the content of the request. With
        ``dispatched``, the decision is queued for the controller.

        Raises:
            ClaimLost: all races were lost; the message names the last conflict.
            NameTaken: the key belongs to another request.
            ClaimState: the key belongs to several composed nodes.
        """
        content = content if content is not None else self.content(request)
        for retries in range(self._most_attempts):
            try:
                find = self._store.claims.find_by_key
                if key and (earlier := find(request.owner, key, content)):
                    return ClaimOutcome(earlier, None, retries)
                if key and request.count > 1:
                    self._refuse_composed(request.owner, key)
                generation = self._group_generation(request)
                decision, excluded = self.select_destinations(request), self._unclaimable()
                if excluded and any(one.chosen.podm in excluded for one in decision.placements):
                    decision = self._follower.decider_without(excluded).select_destinations(request)
                if not decision.placed_nodes:
                    return ClaimOutcome(None, decision, retries)
                nodes = [(one.chosen, decision.score(one.cost)) for _, one in decision.placed_nodes]
                report = decision_result(decision, "report").report if dispatched else None
                claim = self._hold(
                    decision.request, decision.view, nodes, generation=generation,
                    key=key, content=content, ttl_s=ttl_s, dispatched=report,
                )  # fmt: skip
                return ClaimOutcome(claim, decision, retries)
            except ClaimLost as error:
                lost = error
                self._shuffle_blocks(error.podm)
                if error.group:
                    longest_s = min(LONGEST_PAUSE_S, 0.005 * 2**retries)
                    self._pause(longest_s * random.random())  # noqa: S311 - lets others claim first
        races = format_count(self._most_attempts, "consecutive race")
        raise ClaimLost(f"lost {races}, the last one: {lost}", lost.podm, lost.claim)

    def claim_candidates(
        self,
        request: Request,
        candidates: Sequence[Candidate],
        *,
        key: str | None = None,
        ttl_s: float = TTL_S,
        content: str | None = None,
        partial: bool = True,
        generation: int | None = None,
        dispatched: Report | None = None,
    ) -> Claim:
        """Hold exactly the candidates chosen for a request, in the order of its nodes.

        ``content`` is the content of the key, by default made from the request and the candidates.
        ``partial`` is as for ``verify``. ``generation`` is the generation of the group at the time
        of the offer, if members in other zones count. The report of a ``dispatched`` decision is
        queued for the controller.

        Raises:
            ClaimLost: a candidate is no longer available, the members of the group changed, or a
                pod manager changed in every attempt.
            NameTaken: the key belongs to another request.
            ClaimState: nodes of the key are composed.
        """
        if content is None:
            content = self.content(request) + to_json(tuple(candidates)).decode()
        for _ in range(MOST_CHANGES):
            if key and (earlier := self._store.claims.find_by_key(request.owner, key, content)):
                return earlier
            if key and len(candidates) > 1:
                self._refuse_composed(request.owner, key)
            known = generation if partial else self._group_generation(request)
            decider = self.decider()
            try:
                fits = verify(decider, request, candidates, partial=partial)
            except StaleOffer as error:
                raise ClaimLost(str(error)) from None
            nodes = [(fit, one.score) for fit, one in zip(fits, candidates, strict=True)]
            view = decider.snapshot()
            for podm in {view.podm(fit.row).id for fit in fits}.intersection(self._unclaimable()):
                raise ClaimLost(f"pod manager {podm!r} cannot be read at present", podm)
            try:
                return self._hold(
                    request, view, nodes, generation=known,
                    key=key, content=content, ttl_s=ttl_s, dispatched=dispatched,
                )  # fmt: skip
            except ClaimLost as error:
                lost = error
                if partial and error.group:
                    break
        raise lost

    def close(self) -> None:
        """Restore the order of blocks in a shared follower."""
        self._follower.restore_blocks()

    def _refuse_composed(self, owner: str | None, key: str) -> None:
        keys = re.compile(re.escape(key) + r"#\d+")
        for one in self._store.claims.list(owner=owner):
            if one.owner == owner and keys.fullmatch(one.key or ""):
                text = f"key {key!r} belongs to composed nodes, for example of claim {one.id}"
                hint = "choose another key, or run podm node list"
                raise ClaimState(f"{text}, which is {state_text(one.state)}: {hint}")

    def _shuffle_blocks(self, podm: str) -> None:
        if podm and podm not in self._contended:
            self._contended.add(podm)
            digest = functools.partial(hashlib.blake2b, key=self._salt, digest_size=8)
            self._follower.sort_blocks(podm, lambda uri: digest(uri.encode()).digest())

    def _hold(
        self, request: Request, view: View, nodes: Sequence[tuple[Fit, float]], **options: Any
    ) -> Claim:
        shares: dict[str, list[NodeAllocation]] = {}
        for number, (fit, score) in enumerate(nodes, 1):
            share = _allocation(view, fit, request, number, score)
            shares.setdefault(view.podm(fit.row).id, []).append(share)
        wanted, parts = NodeRequest.of(request), []
        for podm in sorted(shares):
            base, generation = self._follower.base(podm), self._follower.generation(podm)
            stocks = {it.uri: it for it in base.stocks if it.uri.startswith(DECLARED_SCHEME)}
            declared = tuple(Grant(uri, free_amount(it)) for uri, it in sorted(stocks.items()))
            part = ClaimPart(podm=podm, generation=generation, shares=tuple(shares[podm]))
            parts.append(replace(part, declared_stocks=declared, request=wanted))
        group = request.group.name if request.group else None
        return self._store.claims.create(parts, owner=request.owner, group=group, **options)

    def _group_generation(self, request: Request) -> int | None:
        """Return the generation of a group with hard rules; call before its members are read."""
        group = request.group
        return self._store.claims.group_generation(group.name) if group and group.hard else None


def _allocation(view: View, fit: Fit, request: Request, node: int, score: float) -> NodeAllocation:
    table, kinds = view.block_tables[view.podm_of[fit.row]], view.kinds.kinds
    granted = [(table.stocks[number], amount) for number, amount in fit.grants]
    charges, charged = Counter[str](), request.owner is not None
    # a node on a shared block is charged its requested amounts, not the whole block
    alone = [one for one in fit.blocks if table.slots[one] == 1 and not table.shared[one]]
    for block in alone if charged else ():
        charges.update(block_charges(kinds[table.kinds[block]].devices))
    for stock, amount in granted if charged else ():
        charges[f"stock:{stock.resource}"] += amount  # type: ignore[assignment]
    return NodeAllocation(
        node=node,
        pool=view.pools[fit.row].id,
        blocks=tuple(table.uris[block] for block in fit.blocks),
        grants=tuple(Grant(one.uri, amount, one.resource, one.unit) for one, amount in granted),
        places=request.constrained_places,
        flavor=request.flavor,
        score=score,
        charges={name: float(amount) for name, amount in sorted(charges.items())},
    )
