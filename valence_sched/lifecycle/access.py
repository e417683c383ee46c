# SPDX-License-Identifier: Apache-2.0
"""PodmAccess: a store, and its live pod managers, where claims are composed."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from msgspec.structs import asdict, replace

from valence_sched.core import plugins
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl import pool as driver
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.dialect import Dialects, with_identity
from valence_sched.drivers.hardware import read_hardware
from valence_sched.errors import PodmError, SchedulerError, UnknownName, prefixed
from valence_sched.lifecycle.change import Drain, NodeChanger
from valence_sched.lifecycle.claim import ClaimSource
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.guard import ConcernedParts, GuardedComposer, HardwareGuard
from valence_sched.lifecycle.provision import Provisioner
from valence_sched.lifecycle.reconcile import Reconciler, lost_blocks
from valence_sched.model import claim as nouns
from valence_sched.model.decision import Placement
from valence_sched.model.diagnostic import EffectLog, NoProgress, Progress, awaiting
from valence_sched.model.inventory import FullPodm, Node, uri_tails
from valence_sched.model.lifecycle import NodeRecord, NodeStatus, Preview, ReconcileResult
from valence_sched.model.node_change import attach_again
from valence_sched.model.podm_address import contradicts, has_other_blocks, is_address
from valence_sched.model.reading import PreviousReading
from valence_sched.model.registration import PARALLEL_COMPOSES, Registration
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec
from valence_sched.planning.node_change import Decide
from valence_sched.store.database import PATIENCE_S
from valence_sched.store.store import Store

#: Composing a node, reading it back and decomposing it takes at most this many waits of
#: ``patience_s`` and answers of ``timeout_s``.
MOST_WAITS, MOST_ANSWERS = 2, 8


@dataclass(frozen=True)
class PodmAccess:
    """Reaches the live pod managers of a store to compose, decompose and read nodes.

    ``members`` are the pod managers by name. If another service answers at the URL of one, nothing
    is changed there. ``timeout_s`` is the time limit of an answer, ``patience_s`` of its effect.
    A claim that is being composed is not reaped before ``ttl_s``.
    """

    store: Store
    members: Mapping[str, Registration]
    password: Callable[[Registration], str | None] = field(repr=False)
    timeout_s: float = 30.0
    patience_s: float = 300.0
    ttl_s: float = 0.0
    dialects: Dialects = field(default_factory=lambda: plugins.InstalledPlugins(plugins.DIALECTS))
    progress: Progress = field(default_factory=NoProgress)
    guard: HardwareGuard = field(default_factory=HardwareGuard)
    checkpoint: Callable[[str], None] = field(default=lambda _point: None)

    @property
    def composer(self) -> NodeComposer:
        """Return the composer; its claims are not reaped before all its waits have ended."""
        waiting_s = MOST_WAITS * self.patience_s + MOST_ANSWERS * self.timeout_s + PATIENCE_S
        ttl_s = max(self.ttl_s, waiting_s)
        return NodeComposer(self.store, self.connect, ttl_s, self.progress, self.checkpoint)

    def changer(
        self,
        compile_request: Callable[[RequestSpec], Request],
        decide: Decide,
        drain: Drain = lambda _node, _blocks: None,
        drain_s: float = 0.0,
    ) -> NodeChanger:
        """Return the changer of nodes; its changes are not reaped before all its waits ended.

        A node is drained within ``drain_s``.
        """
        ttl_s, watchers = self.composer.ttl_s + drain_s, (self.progress, self.checkpoint)
        functions = compile_request, decide, ttl_s, drain, self.disabled
        return NodeChanger(self.store, self.connect, *functions, *watchers)

    def reconciler(self, *, dry_run: bool = False) -> Reconciler:
        def give_back(node: nouns.ComposedNode, blocks: Sequence[str]) -> None:
            changer = self.changer(_without_decision, _without_decision)
            changer.change(node.id, attach_again(blocks, power_cycle=node.power_cycle))

        return Reconciler(self.store, self.connect, self.read, dry_run, self.progress, give_back)

    def provisioner(self, claim_source: ClaimSource | None = None) -> Provisioner:
        """Return the provisioner for claims of a source; without a source, only for held claims."""

        def parallel(name: str) -> int:
            member = self.members.get(name)
            return PARALLEL_COMPOSES if member is None else member.parallel_composes

        functions = self.read, self.refusals, self.guard.listed, self.disabled, parallel
        return Provisioner(self.store, claim_source, self.composer, *functions)

    @contextlib.contextmanager
    def connect(self, name: str) -> Iterator[GuardedComposer]:
        """Yield the composer of a pod manager; the guard checks each change.

        Raises:
            PodmError: the pod manager is not registered, or cannot be reached.
            CredentialError: its password cannot be read.
        """
        target = self._target(name)
        with connect(target, self.dialects, self.timeout_s, self.patience_s) as podm:

            def check(concerned: Callable[[], ConcernedParts]) -> None:
                url, session = target.registered.url, podm.session
                self.guard.check(name, url, lambda: read_hardware(session, *concerned()))

            yield GuardedComposer(podm.composer, check, podm.session.written)

    def read(self, name: str) -> FullPodm | None:
        """Read a pod manager; return None unless the same service answers."""
        found = self.reading(name)
        return None if isinstance(found, str) else found

    def reading(self, name: str) -> FullPodm | str:
        """Read a pod manager; return the reason as text if it cannot be read."""
        try:
            target = self._target(name)
        except SchedulerError as error:
            return str(error)
        previous = self.store.previous_readings([name]).get(name, PreviousReading())
        target = dataclasses.replace(target, previous=previous)
        settings = ReadSettings(timeout_s=self.timeout_s)
        with awaiting(self.progress, name, "reading"):
            (reading,) = driver.read([target], self.dialects, settings)
        if reading.failure is not None:
            return reading.failure
        podm, known = with_identity(reading.podm), target.registered.identity
        is_other = contradicts(known, podm.identity)
        if not is_other and is_address(known):
            before = self.store.load_podms([podm.id]).get(podm.id)
            uris = [block.uri for block in before.blocks] if before else []
            is_other = has_other_blocks(uris, [block.uri for block in podm.blocks])
        return f"{name}: another pod manager answers at its URL" if is_other else podm

    def refresh(self, name: str) -> None:
        """Read a pod manager and store the reading; PodmError if it cannot be read."""
        found = self.reading(name)
        if isinstance(found, str):
            raise PodmError(prefixed(found, name))
        self.store.remember(found)

    def nodes(self, podm: str | None = None, *, live: bool = False) -> list[NodeStatus]:
        """Return the nodes of all pod managers or of one, with their states.

        With ``live``, the pod managers are read: a node is COMPOSED (ATTACHING or DETACHING while
        it is being changed), GONE, or FOREIGN (composed by another system). It is UNKNOWN if its
        pod manager does not answer, or if it may belong to a claim that is being composed.
        """
        ours = self.store.nodes.list(podm)
        statuses = [] if live else [NodeStatus(node=node, state=node.state) for node in ours]
        for name in sorted({node.podm for node in ours} | self.members.keys()) if live else ():
            if podm in (None, name):
                statuses += self._live_nodes(name, [node for node in ours if node.podm == name])
        known = self.store.load_podms({status.node.podm for status in statuses})
        return [_with_devices(status, known.get(status.node.podm)) for status in statuses]

    def node_record(self, node_id: str) -> NodeRecord:
        """Return the live state of a node, managed or not; UnknownName if it does not exist."""
        try:
            wanted = self.store.nodes.show(node_id)
        except UnknownName:
            podms = self.store.load_podms().items()
            read = [(name, node) for name, podm in podms for node in podm.nodes]
            named = [one for one in read if node_id in (one[1].uri, one[1].name)]
            if not named:
                raise
            wanted = _unmanaged_node(*named[0])
        status = NodeStatus(node=wanted, state="GONE")
        for one in self.nodes(wanted.podm, live=True):
            if one.node.uri == wanted.uri:
                status = one
        if status.state == "GONE" and isinstance(reading := self.reading(wanted.podm), str):
            status = replace(status, state="UNKNOWN", reason=reading)
        url = self.members[wanted.podm].url if wanted.podm in self.members else None
        events = tuple(self.store.events(status.node.claim))
        record = NodeRecord(**asdict(status), podm_url=url, events=events)
        is_there = status.state not in ("GONE", "UNKNOWN")
        return replace(record, **self._hardware(status.node)) if is_there else record

    def _hardware(self, node: nouns.ComposedNode) -> dict[str, tuple[str, ...]]:
        try:
            target = self._target(node.podm)
            with connect(target, self.dialects, self.timeout_s, self.patience_s) as podm:
                found = read_hardware(podm.session, node.uri, node.blocks)
        except SchedulerError:
            return {}
        systems = found.systems - {node.uri} or {node.uri}
        return {
            "systems": tuple(sorted(systems)),
            "uuids": tuple(sorted(found.uuids)),
            "mac_addresses": tuple(sorted(found.mac_addresses)),
        }

    def reconcile(self, effects: EffectLog, *, dry_run: bool, keep_s: float) -> ReconcileResult:
        """Reconcile all nodes and claims; ``effects`` records each action."""
        actions = []
        for action in self.reconciler(dry_run=dry_run).reconcile():
            actions.append(action)
            if not (dry_run or action.done.startswith("unchanged")):
                effects.note(action.kind, action.id, f"of {action.podm}: {action.done}")
        purged = self.store.purge(keep_s, dry_run=dry_run)
        reconciled = {action.id for action in actions}
        composing = self.store.claims.list(nouns.CHANGING_STATES)
        others = (replace(one, parts=()) for one in composing if one.id not in reconciled)
        return ReconcileResult(
            actions=tuple(actions),
            composing=tuple(others),
            forgotten_claims=purged.claims,
            forgotten_decisions=purged.decisions,
        )

    def refusals(self, request: Request) -> dict[str, str]:
        """Return the pod managers that can never compose a request, with the reason of each.

        The dialect of such a pod manager only reads, or cannot allocate the amounts from stocks.
        """
        found: dict[str, str] = {}
        if not (resources := request.stock_resources):
            return found
        for name, podm in self.store.load_podms().items():
            make_dialect = self.dialects.get(podm.driver or "")
            needed = resources & {stock.resource for stock in podm.stocks}
            if make_dialect and (refusal := make_dialect().refusal(needed)):
                found[name] = refusal
        return found

    def disabled(self) -> set[str]:
        """Return the pod managers that are disabled by their operator or by their own report."""
        reports = self.store.reports()
        enabled = {name: one.enabled for name, one in self.members.items()}
        for name in enabled.keys() & reports.keys():
            if (switch := reports[name].stats.get("enabled")) is not None:
                enabled[name] = switch
        return {name for name, is_enabled in enabled.items() if not is_enabled}

    def preview(self, placement: Placement) -> Preview:
        """Ask the chosen pod manager whether it would compose a node, or check it by reading."""
        chosen = placement.chosen
        name, blocks = f"preview-{placement.node}", tuple(block.uri for block in chosen.blocks)
        wanted = nouns.CompositionRequest(name=name, pool=chosen.pool, blocks=blocks)
        asking = f"node {placement.node} on {chosen.podm}", "asking for a preview"
        preview = Preview(node=placement.node, podm=chosen.podm)
        try:
            with awaiting(self.progress, *asking), self.connect(chosen.podm) as composer:
                reads = composer.reads
                if reads.previews():
                    return replace(preview, refusal=reads.preview(wanted))
                why = reads.refusal(wanted) or "; ".join(reads.conflicts(wanted)) or None
                return replace(preview, refusal=why, by_reading=True)
        except SchedulerError as error:
            return replace(preview, problem=str(error))

    def _live_nodes(self, name: str, ours: list[nouns.ComposedNode]) -> Iterator[NodeStatus]:
        podm = self.reading(name)
        if isinstance(podm, str):
            yield from (NodeStatus(node=node, state="UNKNOWN", reason=podm) for node in ours)
            return
        listed = {node.uri: node for node in podm.nodes}
        hosts = {block.uri for block in podm.blocks}  # of placed nodes
        for node in ours:
            shown = listed.get(node.uri)
            listed_now = node.uri in hosts or (shown is not None and not shown.stale)
            state, reason = (node.state, None) if listed_now else self._unlisted_state(node)
            if shown and state == "COMPOSED" and (lost := lost_blocks(podm, node)):
                reason = f"{uri_tails(lost)} no longer found: podm claim reap frees it"
            yield NodeStatus(node=node, state=state, reason=reason)
        known = {node.uri for node in ours}
        composing = self.store.claims.list(("COMPOSING",), name)
        for uri, other in listed.items():
            if uri not in known:
                claim = _claim_of(name, other, composing)
                node = _unmanaged_node(name, other)
                if claim is None:
                    yield NodeStatus(node=node, state="FOREIGN")
                    continue
                reason = f"claim {claim.id}, which is still being composed, may have made this node"
                yield NodeStatus(node=replace(node, claim=claim.id), state="UNKNOWN", reason=reason)

    def _unlisted_state(self, node: nouns.ComposedNode) -> tuple[str, str | None]:
        subject, wanted = f"node {node.id} on {node.podm}", nouns.request_from_node(node)
        try:
            with awaiting(self.progress, subject, "reading"), self.connect(node.podm) as composer:
                result = composer.reads.read_node(wanted, node.uri)
        except SchedulerError as error:
            return "UNKNOWN", str(error)
        if result.node is not None:
            return node.state, None
        if result.state == "unknown":
            found = "the pod manager does not list the node, but does not confirm its absence"
            return "UNKNOWN", found
        return "GONE", None

    def _target(self, name: str) -> ReadTarget:
        if name not in self.members:
            raise PodmError(f"{name!r} is not registered (podm create)")
        return ReadTarget(self.members[name], self.password(self.members[name]))


def _without_decision(*_words: object) -> NoReturn:
    raise AssertionError("named blocks need no decision")


def _unmanaged_node(podm: str, node: Node) -> nouns.ComposedNode:
    made = nouns.ComposedNode(id=node.name or node.uri, podm=podm, uri=node.uri, claim="-")
    return replace(made, name=node.name, owner=node.owner, blocks=node.blocks)


def _claim_of(podm: str, node: Node, composing: Sequence[nouns.Claim]) -> nouns.Claim | None:
    name = nouns.own_name(node.name, node.uri)
    for claim in composing:
        for part, allocation in nouns.node_allocations(claim):
            shared = part.podm == podm and not set(allocation.blocks).isdisjoint(node.blocks)
            if shared or name == nouns.node_name(claim, allocation):
                return claim
    return None


def _with_devices(status: NodeStatus, podm: FullPodm | None) -> NodeStatus:
    known = {block.uri: block.devices for block in podm.blocks} if podm else {}
    devices = [known.get(uri) for uri in status.node.blocks]
    total = nouns.sum_devices(one for one in devices if one)
    return replace(status, devices=total, unknown_blocks=devices.count(None))
