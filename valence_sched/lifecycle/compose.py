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

from valence_sched.drivers.composer import Composer
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
    ComposedNode,
    CompositionRequest,
    CompositionResult,
    composed_node,
    composition_request,
    request_from_node,
    single_allocation,
)
from valence_sched.model.inventory import FullPodm
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store

Connector = Callable[[str], contextlib.AbstractContextManager[Composer]]
#: Told the claim and the state that its node is in.
StateCallback = Callable[[str, str], None]

RECONCILE_HINT = "podm claim reap brings it to terms"


@dataclass(frozen=True, slots=True)
class NodeComposer:
    """Composes claims of one node each.

    ``reach`` gives the hands on a pod manager by its id, ``read`` what it tells afresh, None where
    it does not answer. A claim that is being composed for longer than ``ttl_s`` is reaped.
    ``mark`` is told each point that a process may die at.
    """

    store: Store
    connect: Connector
    read: Callable[[str], FullPodm | None]
    ttl_s: float = TTL_S
    on_state: StateCallback = field(default=lambda _claim, _state: None)
    checkpoint: Callable[[str], None] = field(default=lambda _point: None)

    def compose(self, claim: Claim) -> ComposedNode:
        """Make the node of a held claim.

        Raises:
            ClaimState: the claim is not held any more.
            StoreError: the intent could not be noted; nothing was begun.
            ClaimLost: a block is somebody else's by now; the claim is given up.
            ComposeFailed: the pod manager refuses; nothing is left there, the claim is given up.
            StillComposing: the pod manager goes on after all patience.
            Unverified: what is there could not be read back, taken back, or noted.
        """
        part, share = single_allocation(claim)
        wanted = composition_request(
            claim, share, self.store.load_podms([part.podm]).get(part.podm)
        )
        self.checkpoint("held")
        self.store.claims.start_composing(claim.id, self.ttl_s)
        self.checkpoint("intent")
        with contextlib.ExitStack() as stack:
            hands = self._connect_and_check(stack, claim, part.podm, wanted)
            outcome = self._reserve_and_compose(hands, claim, part.podm, wanted)
            if outcome.state != "composed":
                raise self._give_up(hands, claim, part.podm, wanted, outcome)
            node = composed_node(claim, part, share, outcome)
            self._record_node(hands, claim, wanted, node)
        self.checkpoint("confirmed")
        self._refresh(part.podm)
        self.checkpoint("accounted")
        return node

    def remove(self, node: ComposedNode) -> None:
        """Take a node apart and give up its claim.

        Raises:
            PodmError: its pod manager cannot be reached; nothing was begun.
            Unverified: something of it is still there, or that could not be read back or noted.
        """
        wanted = request_from_node(node)
        self.checkpoint("removing")
        with contextlib.ExitStack() as stack:
            try:
                hands = stack.enter_context(self.connect(node.podm))
            except PodmError as error:
                raise PodmError(f"{node.podm}: {node.uri}: {error}") from None
            outcome = _result_or_unknown(
                lambda: hands.remove(wanted, node.uri, lambda it: self.on_state(node.claim, it))
            )
        self.checkpoint("removed")
        if outcome.state != "absent":
            raise Unverified(f"{node.podm}: {outcome.reason}: look there, then try again")
        try:
            self.store.nodes.forget(node.id)
        except SchedulerError as error:
            gone = f"{node.podm}: {node.uri} is taken apart, and that could not be noted"
            raise Unverified(f"{gone}: {error}: {RECONCILE_HINT}") from None
        self.checkpoint("forgotten")
        self._refresh(node.podm)

    def _connect_and_check(
        self, stack: contextlib.ExitStack, claim: Claim, podm: str, wanted: CompositionRequest
    ) -> Composer:
        """Return the hands on a pod manager on which all that is wanted is still free.

        Nothing was written yet, so whatever is in the way, the claim is given up.
        """
        try:
            hands = stack.enter_context(self.connect(podm))
            refused = hands.refusal(wanted)
            taken = [] if refused else hands.conflicts(wanted)
        except SchedulerError as error:
            self._fail(claim, podm, f"not begun: {error}")
            raise ComposeFailed(f"{podm}: {error}", podm) from None
        self.checkpoint("checked")
        if refused:
            self._fail(claim, podm, f"not begun: {refused}")
            raise ComposeFailed(f"{podm}: {refused}", podm)
        if taken:
            self._fail(claim, podm, f"no longer free: {taken[0]}")
            more = f", and {len(taken) - 1} more" if len(taken) > 1 else ""
            raise ClaimLost(f"{podm}: {taken[0]}{more}, expected it free", podm)
        return hands

    def _reserve_and_compose(
        self, hands: Composer, claim: Claim, podm: str, wanted: CompositionRequest
    ) -> CompositionResult:
        """Reserve and compose; whatever goes wrong, what is there decides."""

        def watch(state: str) -> None:
            self.on_state(claim.id, state)
            self.checkpoint(state)

        problem, outcome = "", CompositionResult(state="unknown")
        try:
            self.store.claims.note_reserving(claim.id)
            reserved = hands.reserve(wanted)
            self.checkpoint("reserved" if reserved else "not reserved")
            outcome = hands.compose(wanted, watch)
        except ClaimLost as error:  # nothing was written but what is undone by now
            self._fail(claim, podm, f"no longer free: {error}")
            raise ClaimLost(f"{podm}: {error}, expected it free", podm) from None
        except Exception as error:
            problem = _error_text(error)
        if problem:
            found = _result_or_unknown(lambda: hands.read_node(wanted))
            outcome = replace(found, reason="; ".join(filter(None, (problem, found.reason))))
        self.checkpoint("read back")
        return outcome

    def _record_node(
        self, hands: Composer, claim: Claim, wanted: CompositionRequest, node: ComposedNode
    ) -> None:
        """Note a node that is there, or take back one that must not be."""
        try:
            self.store.claims.finish_composing(claim.id, [node])
            return
        except (ClaimLost, ClaimState) as error:
            problem = str(error)
        except SchedulerError as error:
            there = f"{node.podm}: {node.uri} is composed, and that could not be noted"
            raise Unverified(f"{there}: {error}: claim {claim.id}: {RECONCILE_HINT}") from None
        left = CompositionResult(state="left", node=node.uri, blocks=node.blocks, reason=problem)
        raise self._give_up(hands, claim, node.podm, wanted, left)

    def _give_up(
        self,
        hands: Composer,
        claim: Claim,
        podm: str,
        wanted: CompositionRequest,
        outcome: CompositionResult,
    ) -> SchedulerError:
        """Take back what is there, and return what became of it."""
        first = outcome.reason
        stays = f"{podm}: claim {claim.id} stays COMPOSING"
        if outcome.works:
            return StillComposing(
                f"{stays}: {first} ({RECONCILE_HINT})", wanted.name, podm, claim.id
            )
        if outcome.state == "left" and (node := outcome.node):
            outcome = _result_or_unknown(
                lambda: hands.remove(wanted, node, lambda it: self.on_state(claim.id, it))
            )
            self.checkpoint("taken back")
        problems = [first] if outcome.state == "absent" else [first, outcome.reason]
        if outcome.state == "absent":
            try:
                hands.unreserve(wanted)
            except Exception as error:
                outcome, problems = replace(outcome, state="left"), [first, _error_text(error)]
        if outcome.state != "absent":
            what = "; ".join(filter(None, dict.fromkeys(problems)))
            return Unverified(one_line(f"{stays}: {what} ({RECONCILE_HINT})"))
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
            text = f"{nothing}: {error}: claim {claim.id} stays COMPOSING ({RECONCILE_HINT}): {why}"
            raise Unverified(one_line(text)) from None

    def _refresh(self, podm: str) -> None:
        """Let a fresh reading count what was composed; where none comes, the next one will."""
        with contextlib.suppress(SchedulerError):  # what happened is noted already
            fresh = self.read(podm)
            if fresh is not None:
                self.store.remember(fresh)


def _result_or_unknown(look: Callable[[], CompositionResult]) -> CompositionResult:
    """Return what is there; an error leaves it unknown."""
    try:
        return look()
    except Exception as error:
        return CompositionResult(
            state="unknown", reason=f"could not be read back: {_error_text(error)}"
        )


def _error_text(error: Exception) -> str:
    if isinstance(error, SchedulerError):
        return str(error)
    return f"{type(error).__name__}: {error} (please report this)"
