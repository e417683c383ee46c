# SPDX-License-Identifier: Apache-2.0
"""NodeChanger: attaches blocks and amounts to a living node and detaches others, and verifies it.

::

    choose ──> hold ──> safe? ──> drain ──> shut down ──> attach ──> detach ──> start
                 │        │         │           │           │          │
                 └── nothing is changed: release the blocks ┘          │
                              a part is left: undo, read back again <──┘

Where there is no room to attach first, blocks are detached first, and held until others are
attached in their place; if those cannot be attached, they are attached again.

Each step changes blocks first: a deleted memory chunk or volume cannot be restored. If a process
dies, the claim of the node stays ATTACHING or DETACHING, or the undo claim of the node DETACHING. A
reconciler then reads the node.
"""

import contextlib
import functools
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.drivers.composer import AmountChange, Change, Composer, amount_changer
from valence_sched.lifecycle.compose import Connector, connected, node_conflicts, storing
from valence_sched.lifecycle.guard import GuardedComposer
from valence_sched.model import claim as nouns
from valence_sched.model.diagnostic import RECONCILE_HINT, NoProgress, Progress, awaiting
from valence_sched.model.flavor import Properties
from valence_sched.model.inventory import to_json, uri_tails
from valence_sched.model.need import NodeRequest, Toleration
from valence_sched.model.node_change import BlockChange, DryRun, NodeChange, NodeChangeResult
from valence_sched.model.quantity import format_count
from valence_sched.model.quota import block_charges, grant_charges
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.planning.node_change import ChangePlanner, ChosenParts, Decide
from valence_sched.store.node_changes import NO_RECORD, PENDING, ChangeRecord
from valence_sched.store.store import Store
from valence_sched.store.tables import key_of

MOST_ATTEMPTS = 8  # to hold the chosen blocks while other claims take them
#: Called with a node and the blocks that it loses; raises DrainRefused unless it may lose them.
Drain = Callable[[nouns.ComposedNode, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class NodeChanger:
    """Changes nodes of a store.

    ``compile_request`` compiles a request with its flavor; ``decide`` decides on one pod manager.
    ``drain`` is called before blocks are detached. ``disabled`` returns the pod managers that must
    not get nodes or devices now. The other fields are as for ``NodeComposer``.
    """

    store: Store
    connect: Connector
    compile_request: Callable[[RequestSpec], Request]
    decide: Decide
    ttl_s: float
    drain: Drain = field(default=lambda _node, _blocks: None)
    disabled: Callable[[], Collection[str]] = field(default=frozenset)
    progress: Progress = field(default_factory=NoProgress)
    checkpoint: Callable[[str], None] = field(default=lambda _point: None)

    def change(
        self, node_id: str, change: NodeChange, *, key: str | None = None, dry_run: DryRun = False
    ) -> NodeChangeResult:
        """Change a node, or only choose its blocks with ``dry_run``.

        With ``dry_run="server"``, the pod manager is read to find a reason against the change; its
        errors are those of the change before its first write.

        Raises:
            UnknownName: the node, a block or the flavor is unknown.
            RequestError: a block cannot be attached to the node, or not be detached.
            NameTaken: the key belongs to another change of the node.
            ClaimState: the node is being changed, or the pod manager is disabled.
            ClaimLost: a block is in use, or the node is not as planned; nothing was changed.
            HardwareInUse: the node runs, and a block is not declared removable, or Ironic uses the
                node; nothing was changed.
            BaremetalUnavailable: Ironic does not answer.
            DrainRefused: the site did not drain the node; nothing was changed.
            ComposeFailed: the pod manager refuses; the node has its blocks as before.
            Unverified: the blocks could not be read back, or a part of the change not be undone.
        """
        node, content = self.store.nodes.show(node_id), key_of(to_json(change).decode())
        if key is not None and key in node.changes:
            if node.changes[key].removeprefix(PENDING) != content:
                text = f"key {key!r} belongs to another change of node {node.id}"
                raise errors.NameTaken(f"{text}: choose another key")
            if node.changes[key] == content:  # else it goes on, or waits for a reconciler
                return NodeChangeResult(node=node, done=True)
        if change.before and set(change.before) != set(node.parts):
            text = f"node {node.id} was changed since the plan"
            raise errors.ClaimLost(f"{text}: plan the change again", node.podm)
        for _ in range(MOST_ATTEMPTS):
            planner = self._planner(node)
            chosen, record = self._choose(planner, node, change)
            no_room = planner.no_room(chosen.attach, chosen.detach)
            if change.detach_first and chosen.attach and chosen.detach:
                no_room = no_room or "as planned"
            chosen = chosen._replace(no_room=no_room)
            record = record._replace(key=key, content=content)
            result = NodeChangeResult(
                node=node,
                attached=planner.changes(chosen.attach),
                detached=planner.changes(chosen.detach),
                attached_amounts=chosen.grants,
                detached_amounts=chosen.amounts,
                decision=chosen.decision,
                flavor_request=record.request,
                no_room=no_room,
            )
            if not chosen.fits:
                return result
            if not chosen.are_needed:
                if not dry_run and record != ChangeRecord(content=content):
                    node = self.store.node_changes.record(node.id, record)
                return replace(result, node=node, done=not dry_run)
            if dry_run:
                with connected(self.connect, node) as composer:
                    hazard, refusal = _hazard(composer, node, chosen.uris), None
                    if dry_run == "server":
                        if chosen.attach or chosen.grants:
                            self._refuse_disabled(node)
                        self._check(composer, node, change, chosen, hazard)
                        refusal = _server_refusal(composer, node, chosen) or ""
                return replace(result, hazard=hazard, refusal=refusal)
            try:
                held = self._hold(node, chosen, result, change)
            except errors.ClaimLost as error:
                lost = error
                if change.attach_blocks and error.claim:
                    raise  # the claim that holds a named block
                continue
            return self._apply(node, change, chosen, result, held, record)
        raise errors.ClaimLost(f"node {node.id}: {lost}", node.podm)

    def _planner(self, node: nouns.ComposedNode) -> ChangePlanner:
        stored = self.store.load_podms([node.podm]).get(node.podm)
        if stored is None:
            raise errors.PodmError(f"{node.podm}: it was never read (podm check {node.podm})")
        usage = self.store.usages([node.podm]).get(node.podm, nouns.NO_USAGE)
        # the reading may be older than the switch, and a disabled one may still lose blocks
        stored = replace(stored, enabled=True)
        podm = nouns.remaining_podm(to_json(stored), usage, node.podm)
        return ChangePlanner(podm, node, self.decide)

    def _choose(
        self, planner: ChangePlanner, node: nouns.ComposedNode, change: NodeChange
    ) -> tuple[ChosenParts, ChangeRecord]:
        record = ChangeRecord()
        if change.shrinkable is not None:
            floor, cycles = change.floor, change.power_cycle
            if floor is not None:
                self.compile_request(RequestSpec(flavor=floor))
            record = ChangeRecord(shrinkable=change.shrinkable, floor=floor, power_cycle=cycles)
            return ChosenParts(), record
        if change.flavor_request is not None:
            record = ChangeRecord(flavor=change.flavor, request=change.flavor_request)
        elif change.flavor is not None:
            spec = RequestSpec(
                flavor=change.flavor,
                policy=change.policy,
                owner=node.owner,
                tolerations=change.tolerations,
            )
            request = self.compile_request(spec)
            record = ChangeRecord(flavor=request.flavor, request=NodeRequest.of(request))
            if not change.names_parts:
                return planner.become(request), record
        if change.idle:
            return planner.without_idle(), ChangeRecord()
        # blocks that are gone already were detached by the same change before
        present = [name for name in change.detach_blocks if not _is_gone(name, node, change)]
        detach, amounts = planner.own_named(present), planner.amounts_named(change.detach_amounts)
        if change.detach is not None:
            named = (*detach, *(one.uri for one in amounts))
            leaving = planner.detach(self._compiled(change.detach, node, change), named)
            detach, amounts = detach + leaving.detach, amounts + leaving.amounts
        chosen = ChosenParts()
        named = planner.free_named(change.attach_blocks, _tolerations(node, change))
        if change.attach is not None:
            request = self._compiled(change.attach, node, change)
            chosen = planner.attach(request, detach, named)
        attach = tuple(uri for uri in (*chosen.attach, *named) if uri not in node.blocks)
        return chosen._replace(
            attach=attach,
            detach=detach,
            grants=chosen.grants + planner.grants_named(change.attach_amounts),
            amounts=amounts,
        ), record

    def _compiled(
        self, devices: Properties, node: nouns.ComposedNode, change: NodeChange
    ) -> Request:
        spec = RequestSpec(
            properties=devices,
            policy=change.policy,
            owner=node.owner,
            tolerations=_tolerations(node, change),
        )
        return self.compile_request(spec)

    def _hold(
        self,
        node: nouns.ComposedNode,
        chosen: ChosenParts,
        result: NodeChangeResult,
        change: NodeChange,
    ) -> nouns.Claim | None:
        """Hold the blocks and amounts to attach under a claim of their own."""
        if not (chosen.attach or chosen.grants):
            return None
        self._refuse_disabled(node)
        stored = self.store.load_podms([node.podm])[node.podm]
        charges, credit = {}, {}
        if node.owner is not None:  # the quota counts the node as it becomes
            charges = _charges(result.attached, chosen.grants)
            credit = _charges(result.detached, node.grants_of(chosen.amounts))
        placed = chosen.decision.report.placements if chosen.decision else ()
        pool = placed[0].chosen.pool if placed else node.pool or ""
        share = nouns.NodeAllocation(
            node=1, pool=pool, blocks=chosen.attach, grants=chosen.grants, charges=charges
        )
        part = nouns.ClaimPart(
            podm=node.podm, generation=stored.generation, shares=(share,), node=node.id
        )
        return self.store.claims.create([part], owner=node.owner, ttl_s=self.ttl_s, credit=credit)

    def _refuse_disabled(self, node: nouns.ComposedNode) -> None:
        if node.podm in self.disabled():
            hint = f"enable it (podm set {node.podm} --enable)"
            raise errors.ClaimState(f"pod manager {node.podm!r} is disabled: {hint}")

    def _check(
        self,
        composer: GuardedComposer,
        node: nouns.ComposedNode,
        change: NodeChange,
        chosen: ChosenParts,
        hazard: str,
    ) -> None:
        """Raise the error of a change that must not begin now."""
        if hazard and not (change.force or change.power_cycle):
            hint = "shut it down, or use --power-cycle or --force"
            raise errors.HardwareInUse(f"{hazard}: {hint}")
        wanted = set(chosen.attach)
        for conflict in node_conflicts(self.store, composer, node.podm, wanted, node.id):
            raise errors.ClaimLost(f"{node.podm}: {conflict}", node.podm)

    def _apply(
        self,
        node: nouns.ComposedNode,
        change: NodeChange,
        chosen: ChosenParts,
        result: NodeChangeResult,
        held: nouns.Claim | None,
        record: ChangeRecord,
    ) -> NodeChangeResult:
        """Change a node by its held parts; until the first write, an error releases them."""
        subject = f"node {node.id} on {node.podm}"
        watch = functools.partial(self.progress.begin, subject)
        try:
            checking = awaiting(self.progress, subject, "checking")
            with checking, connected(self.connect, node) as composer:
                self.checkpoint("held")
                self._check(composer, node, change, chosen, _hazard(composer, node, chosen.uris))
                changes = composer.may_change(nouns.request_from_node(node), node.uri)
                if chosen.uris:
                    watch("draining")
                    self.drain(node, chosen.uris)
                    self.checkpoint("drained")
                steps = _Steps(self, composer, changes, node, watch, change.power_cycle)
                made: tuple[nouns.Grant, ...] | None = None
                try:
                    while made is None:
                        try:
                            made = steps.run(chosen, held, record)
                        except _Refused as refused:
                            if chosen.no_room or not (refused.is_full and chosen.detach):
                                raise steps.failure(refused) from None
                            chosen = chosen._replace(no_room=str(refused))
                            held = self._hold(node, chosen, result, change)
                finally:
                    steps.power_on()
        except BaseException:
            if held is not None:  # an attached claim has ended already
                with contextlib.suppress(errors.SchedulerError):
                    self.store.claims.release(held.id, "the node was not changed")
            raise
        self.checkpoint("changed")
        after = self.store.nodes.show(node.id)
        words = {"attached_amounts": made, "done": True, "power_cycled": steps.cycled}
        return replace(result, node=after, no_room=chosen.no_room, **words)


class _Refused(Exception):
    """A step that the pod manager has refused: the node is as before the step."""

    def __init__(self, found: Change | AmountChange) -> None:
        super().__init__(found.reason)
        self.conflicts = found.conflicts
        self.is_full = isinstance(found, Change) and found.is_full


class _Done(NamedTuple):
    """A finished step: how it is undone for a reason, and the created amounts."""

    undo: Callable[[str], None]
    made: tuple[nouns.Grant, ...] = ()


@dataclass(slots=True)
class _Steps:
    """One connection to the pod manager of a node, on which its blocks are changed in steps.

    If it ``cycles``, the node is shut down before its first change, and started again in the end.
    """

    changer: NodeChanger
    composer: GuardedComposer
    changes: Composer
    node: nouns.ComposedNode
    watch: Callable[[str], None]
    cycles: bool
    cycled: bool = False

    def run(
        self, chosen: ChosenParts, held: nouns.Claim | None, record: ChangeRecord
    ) -> tuple[nouns.Grant, ...]:
        """Attach held parts, and detach others; return the created memory chunks and volumes.

        If a step fails, those before it are undone in reverse.
        """
        undo_claim = uuid.uuid4().hex[:16] if chosen.no_room else None
        steps: list[Callable[[ChangeRecord], _Done]] = []
        if held is not None:
            steps.append(functools.partial(self._attach, held))
        if undo_claim is None and chosen.uris:
            steps.append(functools.partial(self._detach, chosen.detach, chosen.amounts, None))
        elif undo_claim is not None:
            steps.insert(0, functools.partial(self._detach, chosen.detach, (), undo_claim))
            if chosen.amounts:
                steps.append(functools.partial(self._detach, (), chosen.amounts, None))
        done: list[_Done] = []
        for step in steps:
            try:
                done.append(step(record if step is steps[-1] else NO_RECORD))
            except errors.Unverified:
                raise
            except (errors.SchedulerError, _Refused) as error:
                for one in reversed(done):
                    one.undo(str(error))
                self.changer.store.effects.forget("node", self.node.id)
                raise
        if undo_claim is not None:
            with contextlib.suppress(errors.SchedulerError):  # a reconciler frees it
                note = f"node {self.node.id} has other blocks in their place"
                self.changer.store.node_changes.end_undo(undo_claim, note)
        return tuple(made for one in done for made in one.made)

    def power_off(self) -> None:
        """Shut the node down if it cycles; PodmError if it stays on."""
        if self.cycled or not self.cycles or self.composer.reads.is_on(self.node.uri) is False:
            return
        self.cycled = True
        self.watch("shutting down")
        self.changer.store.node_changes.shut_down(self.node.id, self.changer.ttl_s)
        self.changes.set_power(self.node.uri, False, self.watch)

    def power_on(self) -> None:
        """Start the node if it was shut down; Unverified if it cannot be started."""
        if not self.cycled:
            return
        self.watch("starting")
        try:
            self.changes.set_power(self.node.uri, True, self.watch)
            self.changer.store.node_changes.started(self.node.id)
        except errors.SchedulerError as error:
            where = f"{self.node.podm}: {self.node.uri} was shut down for the change"
            text = f"{where}, and could not be started again: {error} ({RECONCILE_HINT})"
            raise errors.Unverified(text) from error
        except KeyboardInterrupt:
            text = f"may be shut down on {self.node.podm}: {RECONCILE_HINT}"
            self.changer.store.effects.note("node", self.node.id, text)
            raise

    def _attach(self, held: nouns.Claim, record: ChangeRecord) -> _Done:
        """Attach held blocks and amounts."""
        (share,) = held.parts[0].shares
        self._start_attaching(held.id, record)
        pairs = zip(self._move(True, share.blocks, share.grants), share.grants, strict=True)
        made = tuple(replace(of, uri=it.uri, amount=it.amount) for it, of in pairs)
        self._finish(record, made)
        return _Done(functools.partial(self._undo_attached, share.blocks, made), made)

    def _detach(
        self,
        blocks: tuple[str, ...],
        amounts: tuple[nouns.Grant, ...],
        undo_claim: str | None,
        record: ChangeRecord,
    ) -> _Done:
        """Detach blocks and amounts; an undo claim then holds the blocks."""
        self._start_detaching(blocks, amounts, undo_claim, record)
        self._move(False, blocks, amounts)
        self._finish(record)
        return _Done(functools.partial(self._attach_again, undo_claim or "", blocks))

    def _move(
        self, attaches: bool, blocks: Sequence[str], amounts: tuple[nouns.Grant, ...]
    ) -> tuple[nouns.Grant, ...]:
        """Attach or detach all blocks, then all amounts; return the amounts that exist.

        Otherwise the blocks are moved back, the change is cancelled, and _Refused is raised.
        """
        state: nouns.State = "ATTACHING" if attaches else "DETACHING"
        changed = self._change(blocks, attaches)
        moved = [uri for uri in blocks if uri not in _unmoved(changed, blocks, attaches)]
        found: Change | AmountChange = changed
        if found.is_known and len(moved) == len(blocks):
            found = rest = self._change_amounts(attaches, amounts)
            expected = len(amounts) if attaches else 0
            if rest.amounts is not None and len(rest.amounts) == expected:
                return rest.amounts
            if attaches:
                self._refuse_unsure(rest, state, rest.reason)
                self._refuse_left(rest, _uris(rest.amounts), state, rest.reason)
            elif rest.amounts is not None and (gone := len(amounts) - len(rest.amounts)):
                why = f"{gone} of {format_count(len(amounts), 'amount')} deleted"
                text = f"{self._stays(state)}: {why}: {rest.reason} ({RECONCILE_HINT})"
                raise errors.Unverified(text)
        why = found.reason
        self._refuse_unsure(found, state, why)
        if moved:
            self._move_back(moved, not attaches, state, why)
        self._cancel(why)
        raise _Refused(found)

    def _move_back(
        self, blocks: Sequence[str], attaches: bool, state: nouns.State, why: str
    ) -> None:
        undone = self._change(blocks, attaches)
        self._refuse_left(undone, _unmoved(undone, blocks, attaches), state, why)

    def _undo_attached(
        self, blocks: Sequence[str], made: tuple[nouns.Grant, ...], why: str
    ) -> None:
        keeps = f"keeps {', '.join((*blocks, *_uris(made)))}: attached, but nothing was detached"
        with self._undoing(keeps, why):
            self._start_detaching(blocks, made)
        self._move_back(blocks, False, "DETACHING", why)
        rest = self._change_amounts(False, made)
        self._refuse_left(rest, _uris(rest.amounts), "DETACHING", why)
        self._finish(ChangeRecord())

    def _attach_again(self, undo_claim: str, blocks: Sequence[str], why: str) -> None:
        lacks = f"lacks {', '.join(blocks)}: detached, but nothing was attached"
        with self._undoing(lacks, why):
            self._start_attaching(undo_claim)
        self._move_back(blocks, True, "ATTACHING", why)
        self._finish(ChangeRecord())

    @contextlib.contextmanager
    def _undoing(self, stays: str, why: str) -> Iterator[None]:
        """Raise Unverified if a step cannot be undone, because another change has begun."""
        try:
            yield
        except errors.SchedulerError as error:
            reasons = "; ".join(dict.fromkeys((why, str(error))))
            text = f"{self.node.podm}: node {self.node.id} {stays}: {reasons}"
            raise errors.Unverified(text) from error

    def _start_attaching(self, held: str, record: ChangeRecord = NO_RECORD) -> None:
        store = self.changer.store
        store.node_changes.start_attaching(self.node.id, held, self.changer.ttl_s, record)
        store.effects.forget("claim", held)
        self._begin("ATTACHING")

    def _start_detaching(
        self,
        blocks: Sequence[str],
        amounts: Sequence[nouns.Grant],
        undo_claim: str | None = None,
        record: ChangeRecord = NO_RECORD,
    ) -> None:
        changes, ttl_s = self.changer.store.node_changes, self.changer.ttl_s
        changes.start_detaching(self.node.id, blocks, ttl_s, amounts, undo_claim, record)
        self._begin("DETACHING")

    def _begin(self, state: nouns.State) -> None:
        text = f"is {state} on {self.node.podm}: {RECONCILE_HINT}"
        self.changer.store.effects.note("node", self.node.id, text)
        self.changer.checkpoint(state.lower())

    def _change(self, blocks: Sequence[str], attaches: bool) -> Change:
        """Change the node once; after an error, its blocks are unknown.

        Other blocks that the node loses by the change are attached again, or else it is unknown.
        """
        if not blocks:
            return Change(self.node.blocks)
        attach, detach = (blocks, ()) if attaches else ((), blocks)
        try:
            self.power_off()
        except errors.PodmError as error:
            return Change(self.node.blocks, str(error))
        self.watch(f"{'attaching' if attaches else 'detaching'} {uri_tails(blocks)}")
        found = self._change_once(attach, detach)
        if lost := [uri for uri in found.lost if uri in self.node.blocks]:
            self.watch(f"attaching {uri_tails(lost)} again")
            why, found = found.reason, self._change_once((*attach, *lost), detach)
            if _unmoved(found, lost, True):
                found = Change(None, "; ".join(filter(None, (why, found.reason))))
        self.changer.checkpoint("attached" if attaches else "detached")
        return found

    def _change_amounts(self, attaches: bool, some: tuple[nouns.Grant, ...]) -> AmountChange:
        """Attach all amounts or none, or detach amounts; after an error, they are unknown."""
        if not some:
            return AmountChange(())
        node, verb = self.changer.store.nodes.show(self.node.id), "attach" if attaches else "detach"
        grants, amounts = (some, node.amounts) if attaches else (node.grants_of(some), some)
        wanted = replace(nouns.request_from_node(self.node), grants=grants, amounts=amounts)
        try:
            composer = amount_changer(self.changes)
            self.power_off()
            self.watch(f"{verb}ing {uri_tails(_uris(some))}")
            if attaches:
                found = composer.attach_amounts(wanted, self.node.uri, self.watch)
            else:
                found = composer.detach_amounts(wanted, self.node.uri, self.watch)
        except errors.PodmError as error:  # before a write
            found = AmountChange(() if attaches else some, str(error))
        except Exception as error:
            found = AmountChange(None, f"{errors.describe_error(error)} (please report this)")
        self.changer.checkpoint(f"{verb}ed amounts")
        return found

    def _change_once(self, attach: Sequence[str], detach: Sequence[str]) -> Change:
        try:
            return self.changes.change(self.node.uri, attach, detach, self.watch)
        except errors.PodmError as error:  # before a write
            found: Sequence[str] | None = None
            with contextlib.suppress(errors.PodmError):
                found = self.composer.reads.node_blocks(self.node.uri)
            return Change(None if found is None else tuple(found), str(error))
        except Exception as error:
            return Change(None, f"{errors.describe_error(error)} (please report this)")

    def _finish(self, record: ChangeRecord, made: Sequence[nouns.Grant] = ()) -> None:
        store, node = self.changer.store, self.node
        with storing(f"{node.podm}: {node.uri} is changed", f" ({RECONCILE_HINT})"):
            store.node_changes.finish(node.id, record, made)
        store.effects.note("node", node.id, f"of {node.podm} is changed")
        self.changer.checkpoint("finished")

    def _cancel(self, why: str) -> None:
        """Record that the node has its blocks as before."""
        store, node = self.changer.store, self.node
        with storing(f"{node.podm}: {node.uri} is unchanged", f" ({RECONCILE_HINT}): {why}"):
            store.node_changes.cancel(node.id, errors.one_line(why, 200))
        store.effects.forget("node", node.id)

    def failure(self, refused: _Refused) -> errors.SchedulerError:
        text = errors.prefixed(str(refused), self.node.podm, self.node.uri)
        if refused.conflicts:
            return errors.ClaimLost(text, self.node.podm)
        return errors.ComposeFailed(text, self.node.podm)

    def _refuse_unsure(self, found: Change | AmountChange, state: nouns.State, why: str) -> None:
        """Raise Unverified unless the parts of the node are known, and a refusal is certain."""
        if found.works or not found.is_known:
            raise errors.Unverified(f"{self._stays(state)}: {why} ({RECONCILE_HINT})")

    def _refuse_left(
        self, undone: Change | AmountChange, left: Sequence[str], state: nouns.State, why: str
    ) -> None:
        """Raise Unverified if a part of a change could not be undone."""
        if left or not undone.is_known:
            what = f"{', '.join(left) or 'a part of it'} could not be undone"
            reason = f"{what}: {undone.reason}" if undone.reason not in ("", why) else what
            raise errors.Unverified(f"{self._stays(state)}: {why}; {reason} ({RECONCILE_HINT})")

    def _stays(self, state: nouns.State) -> str:
        return f"{self.node.podm}: node {self.node.id} stays {state}"


def _hazard(composer: GuardedComposer, node: nouns.ComposedNode, detach: Sequence[str]) -> str:
    """Return why blocks must not be detached from a node as it runs, empty if they may be."""
    if not detach or (power := composer.reads.is_on(node.uri)) is False:
        return ""
    fixed = [uri for uri in detach if not composer.reads.is_hot_removable(uri)]
    state = "it is powered on" if power else "its power state is unknown"
    verb = "is" if len(fixed) == 1 else "are"
    return f"{state}, and {uri_tails(fixed)} {verb} not declared removable" if fixed else ""


def _server_refusal(
    composer: GuardedComposer, node: nouns.ComposedNode, chosen: ChosenParts
) -> str | None:
    """Return the reason why the pod manager would refuse a change, as far as readings show."""
    request = nouns.request_from_node(node)
    composer.may_change(request, node.uri)
    found = None
    if chosen.attach or chosen.detach:
        found = composer.reads.change_refusal(node.uri, chosen.attach, chosen.detach)
    if found is None and chosen.grants:
        wanted = replace(request, grants=chosen.grants)
        try:
            found = composer.amount_reads.amounts_refusal(wanted, node.uri)
        except errors.PodmError as error:
            found = str(error)
    return found


def _charges(blocks: Sequence[BlockChange], grants: Sequence[nouns.Grant]) -> dict[str, float]:
    charges = Counter(grant_charges(grants))
    for block in blocks:
        charges.update(block_charges(block.devices))
    return dict(charges)


def _tolerations(node: nouns.ComposedNode, change: NodeChange) -> tuple[Toleration, ...]:
    return change.tolerations + (node.request.tolerations if node.request is not None else ())


def _uris(amounts: Sequence[nouns.Grant] | None) -> tuple[str, ...]:
    return tuple(one.uri for one in amounts or ())


def _unmoved(found: Change, blocks: Sequence[str], attaches: bool) -> list[str]:
    return [uri for uri in blocks if (uri in (found.blocks or ())) is not attaches]


def _is_gone(name: str, node: nouns.ComposedNode, change: NodeChange) -> bool:
    return bool(change.before) and name in change.before and name not in node.blocks
