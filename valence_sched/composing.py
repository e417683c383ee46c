# SPDX-License-Identifier: Apache-2.0
"""From a held claim to a node: intent before effect, and every effect read back.

::

    HELD ── intent ──> COMPOSING ──> still free? ──> reserve ──> write once ──> read back
                                          │                                        │
              FAILED <── nothing is left ─┴────────────────────── composed ──> COMPOSED
                                                  left: take back, and look again

A process that dies leaves COMPOSING, with the name that its node would have. Whoever reaps finds
the node by that name, or that there is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from valence_sched.drivers.hands import Hands
from valence_sched.errors import (
    ClaimLost,
    ComposeFailed,
    SchedulerError,
    StillComposing,
    Unverified,
    one_line,
)
from valence_sched.model.claim import Claim, Part, Share
from valence_sched.model.composed import Composed
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.inventory import Devices, FullPodm
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store

Reach = Callable[[str], contextlib.AbstractContextManager[Hands]]
#: Told the claim and the state that its node is in.
Watch = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Composer:
    """Composes claims of one node each.

    ``reach`` gives the hands on a pod manager by its id, ``read`` what it tells afresh, None where
    it does not answer. A claim that is being composed for longer than ``ttl_s`` is reaped.
    ``mark`` is told each point that a process may die at.
    """

    store: Store
    reach: Reach
    read: Callable[[str], FullPodm | None]
    ttl_s: float = TTL_S
    watch: Watch = field(default=lambda _claim, _state: None)
    mark: Callable[[str], None] = field(default=lambda _point: None)

    def compose(self, claim: Claim) -> Composed:
        """Make the node of a held claim.

        Raises:
            ClaimState: the claim is not held any more.
            ClaimLost: a block is somebody else's by now; the claim is given up.
            ComposeFailed: the pod manager refuses; nothing is left there, the claim is given up.
            StillComposing: the pod manager goes on after all patience.
            Unverified: what is there could not be read back, or could not be taken back.
        """
        part, share = only(claim)
        wanted = self._wanted(claim, part, share)
        self.mark("held")
        self.store.claims.composing(claim.id, self.ttl_s)
        self.mark("intent")
        with contextlib.ExitStack() as stack:
            hands = self._ready(stack, claim, part, wanted)
            outcome = self._make(hands, claim, wanted)
            if outcome.state != "composed":
                self._give_up(hands, claim, part, wanted, outcome)
        node = node_of(claim, part, share, outcome)
        self.store.claims.composed(claim.id, [node])
        self.mark("confirmed")
        self._account(part.podm)
        self.mark("accounted")
        return node

    def remove(self, node: Composed) -> None:
        """Take a node apart and give up its claim.

        Raises:
            Unverified: something of it is still there, or that could not be read back.
        """
        wanted = Wanted(name=node.name or node.id, pool=node.pool, blocks=node.blocks)
        self.mark("removing")
        with self.reach(node.podm) as hands:
            outcome = hands.remove(wanted, node.uri, lambda state: self.watch(node.claim, state))
        self.mark("removed")
        if outcome.state != "absent":
            raise Unverified(f"{node.podm}: {outcome.reason}: look there, then try again")
        self.store.nodes.gone(node.id)
        self.mark("forgotten")
        self._account(node.podm)

    def _ready(
        self, stack: contextlib.ExitStack, claim: Claim, part: Part, wanted: Wanted
    ) -> Hands:
        """Return the hands on a pod manager on which all that is wanted is still free.

        Nothing was written yet, so whatever is in the way, the claim is given up.
        """
        try:
            hands = stack.enter_context(self.reach(part.podm))
            taken = hands.taken(wanted)
        except SchedulerError as error:
            self.store.claims.fail(claim.id, one_line(f"not begun: {error}", 200))
            raise ComposeFailed(f"{part.podm}: {error}", part.podm) from None
        self.mark("checked")
        if taken:
            self.store.claims.fail(claim.id, one_line(f"no longer free: {taken[0]}", 200))
            more = f", and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise ClaimLost(f"{part.podm}: {taken[0]}{more}, expected it free", part.podm)
        return hands

    def _make(self, hands: Hands, claim: Claim, wanted: Wanted) -> Outcome:
        reserved = hands.reserve(wanted)
        self.mark("reserved" if reserved else "not reserved")

        def watch(state: str) -> None:
            self.watch(claim.id, state)
            self.mark(state)

        outcome = hands.compose(wanted, watch)
        self.mark("read back")
        return outcome

    def _give_up(
        self, hands: Hands, claim: Claim, part: Part, wanted: Wanted, outcome: Outcome
    ) -> None:
        """Take back what is there, and raise what became of it."""
        first = outcome.reason
        if outcome.works:
            raise StillComposing(
                f"{part.podm}: claim {claim.id} stays COMPOSING: {first} (see podm claim reap)"
            )
        if outcome.state == "left" and outcome.node:
            outcome = hands.remove(wanted, outcome.node, lambda s: self.watch(claim.id, s))
            self.mark("taken back")
        if outcome.state != "absent":
            what = "; ".join(filter(None, dict.fromkeys((first, outcome.reason))))
            raise Unverified(
                f"{part.podm}: claim {claim.id} stays COMPOSING: {what} (see podm claim reap)"
            )
        hands.unreserve(wanted)
        self.store.claims.fail(claim.id, one_line(first or "nothing was composed", 200))
        why = first or "it answered that it composed, and composed nothing"
        raise ComposeFailed(f"{part.podm}: {why}", part.podm)

    def _wanted(self, claim: Claim, part: Part, share: Share) -> Wanted:
        podm = self.store.last([part.podm]).get(part.podm)
        return wanted_of(claim, share, podm)

    def _account(self, podm: str) -> None:
        """Let a fresh reading count what was composed; where none comes, the next one will."""
        fresh = self.read(podm)
        if fresh is not None:
            self.store.remember(fresh)


def only(claim: Claim) -> tuple[Part, Share]:
    """Return the one part and share of a claim of one node."""
    (part,) = claim.parts
    (share,) = part.shares
    return part, share


def shares_of(claim: Claim) -> Iterator[tuple[Part, Share]]:
    """Yield all that a claim is to become, node by node."""
    for part in claim.parts:
        for share in part.shares:
            yield part, share


def name_of(claim: Claim, share: Share) -> str:
    """Return the name of a node, by which it is found again whatever happens."""
    return f"vs-{claim.id}" if claim.nodes == 1 else f"vs-{claim.id}-{share.node}"


def wanted_of(claim: Claim, share: Share, podm: FullPodm | None) -> Wanted:
    """Return what to make, with the devices of its blocks as they were last read."""
    chosen = [block for block in podm.blocks if block.uri in share.blocks] if podm else []
    return Wanted(
        name=name_of(claim, share),
        pool=share.pool,
        blocks=share.blocks,
        grants=share.grants,
        devices=_together([block.devices for block in chosen if block.devices]),
    )


def node_of(claim: Claim, part: Part, share: Share, outcome: Outcome) -> Composed:
    """Return the node that a claim became, of the blocks that it is really made of."""
    return Composed(
        id=name_of(claim, share),
        podm=part.podm,
        uri=outcome.node or "",
        claim=claim.id,
        name=name_of(claim, share),
        owner=claim.owner,
        group=claim.group,
        pool=share.pool,
        blocks=outcome.blocks,
    )


def _together(devices: list[Devices]) -> Devices:
    return Devices(
        processors=tuple(one for some in devices for one in some.processors),
        accelerators=tuple(one for some in devices for one in some.accelerators),
        memory=tuple(one for some in devices for one in some.memory),
        drives=tuple(one for some in devices for one in some.drives),
        nics=tuple(one for some in devices for one in some.nics),
    )
