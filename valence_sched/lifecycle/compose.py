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
from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from valence_sched.drivers.composer import Hands
from valence_sched.errors import (
    ClaimLost,
    ClaimState,
    ComposeFailed,
    PodmError,
    SchedulerError,
    StillComposing,
    Unverified,
    one_line,
)
from valence_sched.model.claim import Claim
from valence_sched.model.composition import (
    Composed,
    Outcome,
    Wanted,
    node_of,
    only,
    wanted_again,
    wanted_of,
)
from valence_sched.model.inventory import FullPodm
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store

Reach = Callable[[str], contextlib.AbstractContextManager[Hands]]
#: Told the claim and the state that its node is in.
Watch = Callable[[str, str], None]

REAP = "podm claim reap brings it to terms"


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
            StoreError: the intent could not be noted; nothing was begun.
            ClaimLost: a block is somebody else's by now; the claim is given up.
            ComposeFailed: the pod manager refuses; nothing is left there, the claim is given up.
            StillComposing: the pod manager goes on after all patience.
            Unverified: what is there could not be read back, taken back, or noted.
        """
        part, share = only(claim)
        wanted = wanted_of(claim, share, self.store.last([part.podm]).get(part.podm))
        self.mark("held")
        self.store.claims.composing(claim.id, self.ttl_s)
        self.mark("intent")
        with contextlib.ExitStack() as stack:
            hands = self._ready(stack, claim, part.podm, wanted)
            outcome = self._make(hands, claim, part.podm, wanted)
            if outcome.state != "composed":
                raise self._given_up(hands, claim, part.podm, wanted, outcome)
            node = node_of(claim, part, share, outcome)
            self._note(hands, claim, wanted, node)
        self.mark("confirmed")
        self._account(part.podm)
        self.mark("accounted")
        return node

    def remove(self, node: Composed) -> None:
        """Take a node apart and give up its claim.

        Raises:
            PodmError: its pod manager cannot be reached; nothing was begun.
            Unverified: something of it is still there, or that could not be read back or noted.
        """
        wanted = wanted_again(node)
        self.mark("removing")
        with contextlib.ExitStack() as stack:
            try:
                hands = stack.enter_context(self.reach(node.podm))
            except PodmError as error:
                raise PodmError(f"{node.podm}: {node.uri}: {error}") from None
            outcome = _safely(
                lambda: hands.remove(wanted, node.uri, lambda it: self.watch(node.claim, it))
            )
        self.mark("removed")
        if outcome.state != "absent":
            raise Unverified(f"{node.podm}: {outcome.reason}: look there, then try again")
        try:
            self.store.nodes.gone(node.id)
        except SchedulerError as error:
            gone = f"{node.podm}: {node.uri} is taken apart, and that could not be noted"
            raise Unverified(f"{gone}: {error}: {REAP}") from None
        self.mark("forgotten")
        self._account(node.podm)

    def _ready(self, stack: contextlib.ExitStack, claim: Claim, podm: str, wanted: Wanted) -> Hands:
        """Return the hands on a pod manager on which all that is wanted is still free.

        Nothing was written yet, so whatever is in the way, the claim is given up.
        """
        try:
            hands = stack.enter_context(self.reach(podm))
            refused = hands.refuses(wanted)
            taken = [] if refused else hands.taken(wanted)
        except SchedulerError as error:
            self._fail(claim, podm, f"not begun: {error}")
            raise ComposeFailed(f"{podm}: {error}", podm) from None
        self.mark("checked")
        if refused:
            self._fail(claim, podm, f"not begun: {refused}")
            raise ComposeFailed(f"{podm}: {refused}", podm)
        if taken:
            self._fail(claim, podm, f"no longer free: {taken[0]}")
            more = f", and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise ClaimLost(f"{podm}: {taken[0]}{more}, expected it free", podm)
        return hands

    def _make(self, hands: Hands, claim: Claim, podm: str, wanted: Wanted) -> Outcome:
        """Reserve and compose; whatever goes wrong, what is there decides."""

        def watch(state: str) -> None:
            self.watch(claim.id, state)
            self.mark(state)

        problem, outcome = "", Outcome(state="unknown")
        try:
            self.store.claims.reserving(claim.id)
            reserved = hands.reserve(wanted)
            self.mark("reserved" if reserved else "not reserved")
            outcome = hands.compose(wanted, watch)
        except ClaimLost as error:  # nothing was written but what is undone by now
            self._fail(claim, podm, f"no longer free: {error}")
            raise ClaimLost(f"{podm}: {error}, expected it free", podm) from None
        except Exception as error:
            problem = _what(error)
        if problem:
            found = _safely(lambda: hands.look(wanted))
            outcome = replace(found, reason="; ".join(filter(None, (problem, found.reason))))
        self.mark("read back")
        return outcome

    def _note(self, hands: Hands, claim: Claim, wanted: Wanted, node: Composed) -> None:
        """Note a node that is there, or take back one that must not be."""
        try:
            self.store.claims.composed(claim.id, [node])
            return
        except (ClaimLost, ClaimState) as error:
            problem = str(error)
        except SchedulerError as error:
            there = f"{node.podm}: {node.uri} is composed, and that could not be noted"
            raise Unverified(f"{there}: {error}: claim {claim.id}: {REAP}") from None
        left = Outcome(state="left", node=node.uri, blocks=node.blocks, reason=problem)
        raise self._given_up(hands, claim, node.podm, wanted, left)

    def _given_up(
        self, hands: Hands, claim: Claim, podm: str, wanted: Wanted, outcome: Outcome
    ) -> SchedulerError:
        """Take back what is there, and return what became of it."""
        first = outcome.reason
        stays = f"{podm}: claim {claim.id} stays COMPOSING"
        if outcome.works:
            return StillComposing(f"{stays}: {first} ({REAP})", wanted.name, podm, claim.id)
        if outcome.state == "left" and (node := outcome.node):
            outcome = _safely(
                lambda: hands.remove(wanted, node, lambda it: self.watch(claim.id, it))
            )
            self.mark("taken back")
        problems = [first] if outcome.state == "absent" else [first, outcome.reason]
        if outcome.state == "absent":
            try:
                hands.unreserve(wanted)
            except Exception as error:
                outcome, problems = replace(outcome, state="left"), [first, _what(error)]
        if outcome.state != "absent":
            what = "; ".join(filter(None, dict.fromkeys(problems)))
            return Unverified(one_line(f"{stays}: {what} ({REAP})"))
        why = first or "it answered that it composed, and composed nothing"
        self._fail(claim, podm, why)
        return ComposeFailed(f"{podm}: {why}", podm)

    def _fail(self, claim: Claim, podm: str, why: str) -> None:
        """Give up a claim of which nothing is there.

        Raises:
            Unverified: that could not be noted.
        """
        try:
            self.store.claims.fail(claim.id, one_line(why, 200))
        except ClaimState:
            return  # whoever reaped it found the same
        except SchedulerError as error:
            nothing = f"{podm}: nothing is composed, and that could not be noted"
            text = f"{nothing}: {error}: claim {claim.id} stays COMPOSING ({REAP}): {why}"
            raise Unverified(one_line(text)) from None

    def _account(self, podm: str) -> None:
        """Let a fresh reading count what was composed; where none comes, the next one will."""
        with contextlib.suppress(SchedulerError):  # what happened is noted already
            fresh = self.read(podm)
            if fresh is not None:
                self.store.remember(fresh)


def _safely(look: Callable[[], Outcome]) -> Outcome:
    """Return what is there; an error leaves it unknown."""
    try:
        return look()
    except Exception as error:
        return Outcome(state="unknown", reason=f"could not be read back: {_what(error)}")


def _what(error: Exception) -> str:
    if isinstance(error, SchedulerError):
        return str(error)
    return f"{type(error).__name__}: {error} (please report this)"
