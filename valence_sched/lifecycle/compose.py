# SPDX-License-Identifier: Apache-2.0
"""NodeComposer: composes and removes the node of a claim, and verifies each effect.

::

    HELD ── intent ──> COMPOSING ──> still free? ──> reserve ──> write once ──> read back
                                          │                                        │
              FAILED <── nothing is left ─┴────────────────────── composed ──> COMPOSED
                                                  left: remove, read back again

If a process dies, the claim stays COMPOSING. A reconciler then looks for the node by its name.
"""

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.drivers.composer import Composer
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.model import claim as nouns
from valence_sched.model.diagnostic import RECONCILE_HINT, NoProgress, Progress, awaiting
from valence_sched.store.claims import TTL_S
from valence_sched.store.store import Store

Connector = Callable[[str], contextlib.AbstractContextManager[GuardedComposer]]


@dataclass(frozen=True, slots=True)
class NodeComposer:
    """Composes claims of one node each.

    ``connect`` opens the composer of a pod manager by its id. A claim that is being composed for
    longer than ``ttl_s`` is reconciled. ``progress`` receives the steps. ``checkpoint`` is called
    at each point where tests let the process die.

    A composer reads only the node and its blocks. The claim holds composed hardware until a reading
    of the whole pod manager shows the node. Hardware of a removed node is free at once.
    """

    store: Store
    connect: Connector
    ttl_s: float = TTL_S
    progress: Progress = field(default_factory=NoProgress)
    checkpoint: Callable[[str], None] = field(default=lambda _point: None)

    def compose(self, claim: nouns.Claim) -> nouns.ComposedNode:
        """Compose the node of a held claim.

        Raises:
            ClaimState: the claim is no longer held.
            StoreError: the intent could not be stored; composing did not begin.
            ClaimLost: another system now uses a block; the claim fails.
            HardwareInUse, BaremetalUnavailable: the blocks must not be changed; the claim fails.
            ComposeFailed: the pod manager refuses, and no part of a node is left; the claim fails.
            StillComposing: the pod manager is still composing after all waits. Unverified: the node
            could not be read back, removed, or stored.
        """
        part, allocation = next(nouns.node_allocations(claim))
        known = self.store.load_podms([part.podm]).get(part.podm)
        wanted = nouns.composition_request(claim, allocation, known)
        self.checkpoint("held")
        self.store.claims.start_composing(claim.id, self.ttl_s)
        state = f"is COMPOSING as {wanted.name} on {part.podm}: {RECONCILE_HINT}"
        self.store.effects.note("claim", claim.id, state)
        self.checkpoint("intent")
        subject = _subject(wanted.name, part.podm)
        with contextlib.ExitStack() as stack:
            stack.enter_context(awaiting(self.progress, subject, "checking"))
            composer = self._connect_and_check(stack, claim, wanted)
            try:
                changes = composer.may_change(wanted)
            except errors.SchedulerError as error:  # before the first write
                refused = isinstance(error, errors.PodmError)
                self._fail(claim, part.podm, f"not started: {error}", refused=refused)
                if refused:
                    text = errors.prefixed(str(error), part.podm)
                    raise errors.ComposeFailed(text, part.podm) from None
                raise
            result = self._reserve_and_compose(changes, claim, part.podm, wanted)
            if result.state != "composed":
                raise self._abandon(composer, claim, part.podm, wanted, result)
            node = nouns.composed_node(claim, part, allocation, result)
            try:
                self.store.claims.finish_composing(claim.id, [node])
            except (errors.ClaimLost, errors.ClaimState) as error:
                left = nouns.CompositionResult(state="left", node=node.uri, reason=str(error))
                raise self._abandon(composer, claim, part.podm, wanted, left) from None
            except errors.SchedulerError as error:
                text = f"{part.podm}: {node.uri} is composed, but the result could not be stored"
                text = f"{text}: {error}: claim {claim.id}: {RECONCILE_HINT}"
                raise errors.Unverified(text) from error
        self.checkpoint("confirmed")
        return node

    def remove(self, node: nouns.ComposedNode) -> None:
        """Decompose a node and end its claim.

        Raises:
            ClaimState: parts of the node are being attached or detached.
            PodmError: the pod manager cannot be reached; decomposing did not begin.
            HardwareInUse, BaremetalUnavailable: the node must not be changed; decomposing did not
                begin.
            Unverified: parts of the node remain, or the result could not be read or stored.
        """
        if node.state != "COMPOSED":
            text = f"node {node.id} is being changed: wait for it"
            raise errors.ClaimState(f"{text}, or run podm claim reap after the change expires")
        with self.store.effects.change("node", node.id, None, f"of {node.podm} is deleted"):
            freed = self._remove(node)
        with contextlib.suppress(errors.SchedulerError):  # after an error, a reading corrects it
            self.store.note_removal(node.podm, node.uri, freed)

    def _remove(self, node: nouns.ComposedNode) -> tuple[str, ...]:
        wanted = nouns.request_from_node(node)
        self.checkpoint("removing")
        subject = _subject(node.id, node.podm)
        connecting = awaiting(self.progress, subject, "connecting")
        with connecting, connected(self.connect, node) as composer:
            changes = composer.may_change(wanted, node.uri)
            watch = functools.partial(self.progress.begin, subject)
            try:
                result = _result_or_unknown(lambda: changes.remove(wanted, node.uri, watch))
            finally:
                if composer.written:
                    unsure = f"of {node.podm} may be gone: {RECONCILE_HINT}"
                    self.store.effects.note("node", node.id, unsure)
        self.checkpoint("removed")
        if result.state != "absent":
            hint = "check the pod manager, then try again"
            raise errors.Unverified(f"{node.podm}: {result.reason}: {hint}")
        with storing(f"{node.podm}: {node.uri} is decomposed", f": {RECONCILE_HINT}"):
            self.store.nodes.forget(node.id)
        self.checkpoint("forgotten")
        return result.freed

    def _connect_and_check(
        self, stack: contextlib.ExitStack, claim: nouns.Claim, wanted: nouns.CompositionRequest
    ) -> GuardedComposer:
        """Return the composer of a pod manager if every block is free; otherwise end the claim."""
        (podm,) = claim.podms
        try:
            composer = stack.enter_context(self.connect(podm))
            refusal = composer.reads.refusal(wanted)
            conflicts: list[str] = []
            if not refusal:
                users = node_conflicts(self.store, composer, podm, wanted.blocks)
                conflicts = [*composer.reads.conflicts(wanted), *users]
            self.checkpoint("checked")
            if refusal:
                raise errors.PodmError(refusal)
        except errors.SchedulerError as error:
            self._fail(claim, podm, f"not started: {error.public_text}", refused=True)
            raise errors.ComposeFailed(errors.prefixed(str(error), podm), podm) from error
        if conflicts:
            self._fail(claim, podm, f"no longer free: {conflicts[0]}")
            found = errors.name_some(conflicts, 1, last=", and")
            raise errors.ClaimLost(f"{podm}: {found}, expected a free block", podm)
        return composer

    def _reserve_and_compose(
        self, composer: Composer, claim: nouns.Claim, podm: str, wanted: nouns.CompositionRequest
    ) -> nouns.CompositionResult:
        """Reserve and compose; after an error, read the node back from the pod manager."""
        subject = _subject(wanted.name, podm)

        def note_state(state: str) -> None:
            self.progress.begin(subject, state)
            self.checkpoint(state)

        try:
            self.store.claims.note_reserving(claim.id)
            self.checkpoint("reserved" if composer.reserve(wanted) else "not reserved")
            result = composer.compose(wanted, note_state)
        except errors.ClaimLost as error:  # all writes are undone
            self._fail(claim, podm, f"no longer free: {error}")
            raise errors.ClaimLost(f"{podm}: {error}, expected a free block", podm) from None
        except Exception as error:
            read_back = _result_or_unknown(lambda: composer.read_node(wanted))
            reason = "; ".join(filter(None, (_error_text(error), read_back.reason)))
            result = replace(read_back, reason=reason)
        self.checkpoint("read back")
        return result

    def _abandon(
        self,
        composer: GuardedComposer,
        claim: nouns.Claim,
        podm: str,
        wanted: nouns.CompositionRequest,
        result: nouns.CompositionResult,
    ) -> errors.SchedulerError:
        first = result.reason
        stays = f"{podm}: claim {claim.id} stays COMPOSING"
        if result.works:
            text = f"{stays}: {first} ({RECONCILE_HINT})"
            return errors.StillComposing(text, wanted.name, podm, claim.id)
        if result.state == "left" and (node := result.node):
            watch = functools.partial(self.progress.begin, _subject(wanted.name, podm))
            result = _result_or_unknown(
                lambda: composer.may_change(wanted, node).remove(wanted, node, watch)
            )
            self.checkpoint("taken back")
        problems = [first, result.reason]
        if result.state == "absent":
            try:
                composer.may_change(wanted).unreserve(wanted)
            except Exception as error:
                result, problems = replace(result, state="left"), [first, _error_text(error)]
        if result.state != "absent":
            what = "; ".join(filter(None, dict.fromkeys(problems)))
            return errors.Unverified(f"{stays}: {what} ({RECONCILE_HINT})")
        why = first or "the service reported success, but composed no node"
        self._fail(claim, podm, why, refused=True)
        return errors.ComposeFailed(errors.prefixed(why, podm), podm)

    def _fail(self, claim: nouns.Claim, podm: str, why: str, *, refused: bool = False) -> None:
        """End a claim without a node; count a refusal of the pod manager.

        Unverified if the end of the claim could not be stored.
        """
        hint = f": claim {claim.id} stays COMPOSING ({RECONCILE_HINT}): {why}"
        ended = contextlib.suppress(errors.ClaimState)  # by a reconciler
        with storing(f"{podm}: no node was composed", hint), ended:
            self.store.claims.fail(claim.id, errors.one_line(why, 200), podm if refused else None)


@contextlib.contextmanager
def storing(effect: str, hint: str) -> Iterator[None]:
    """Raise Unverified, with a hint, if the result of an effect cannot be stored."""
    try:
        yield
    except errors.SchedulerError as error:
        text = f"{effect}, but the result could not be stored: {error}{hint}"
        raise errors.Unverified(text) from error


@contextlib.contextmanager
def connected(connect: Connector, node: nouns.ComposedNode) -> Iterator[GuardedComposer]:
    """Yield the composer of the pod manager of a node; errors name the node."""
    with contextlib.ExitStack() as stack:
        try:
            yield stack.enter_context(connect(node.podm))
        except (errors.HardwareInUse, errors.BaremetalUnavailable) as error:
            raise error.at(f"node {node.id}") from None
        except errors.PodmError as error:
            text = errors.prefixed(str(error), node.podm, node.uri)
            raise errors.PodmError(text) from None


def node_conflicts(
    store: Store, composer: GuardedComposer, podm: str, blocks: Collection[str], own: str = ""
) -> Iterator[str]:
    """Yield a line for each existing node, other than the ``own`` one, that has one of the blocks.

    While a fabric is reprogrammed, a pod manager may show the blocks of a node as free.
    """
    nodes = [node for node in store.nodes.list(podm) if node.id != own]
    if not any(uri in blocks for node in nodes for uri in node.blocks):
        return
    known = store.load_podms([podm]).get(podm)
    shared = {it.uri for it in (known.blocks if known else ()) if it.status and it.status.shareable}
    for node in nodes:
        common = [uri for uri in node.blocks if uri in blocks and uri not in shared]
        if common and composer.reads.node_blocks(node.uri) is not None:
            yield f"{', '.join(common)}: found part of node {node.id}"


def _subject(node: str, podm: str) -> str:
    return f"node {node} on {podm}"


def _result_or_unknown(read: Callable[[], nouns.CompositionResult]) -> nouns.CompositionResult:
    try:
        return read()
    except Exception as error:
        reason = _error_text(error)
        if not isinstance(error, errors.HardwareInUse | errors.BaremetalUnavailable):
            reason = f"could not be read back: {reason}"
        return nouns.CompositionResult(state="unknown", reason=reason)


def _error_text(error: Exception) -> str:
    if isinstance(error, errors.SchedulerError):
        return str(error)
    return f"{type(error).__name__}: {error} (please report this)"
