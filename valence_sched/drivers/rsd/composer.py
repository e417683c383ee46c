# SPDX-License-Identifier: Apache-2.0
"""Composes and changes nodes on Intel Rack Scale Design: Allocate, Assemble, wait for the state."""

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from msgspec.structs import replace

from valence_sched.drivers import actions, composer
from valence_sched.drivers.actions import action_parameters, action_target, find_action
from valence_sched.drivers.composer import SendResult, Uris, Watch, get_document, read_resource
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import GONE, LATE_READS, MakePatience
from valence_sched.drivers.links import ROOT, LinkedDocuments, fold_uri, link_path, link_paths
from valence_sched.drivers.redfish.amounts import AmountComposer
from valence_sched.drivers.redfish.change import BlockChanger, ChangedNode
from valence_sched.drivers.redfish.connections import ConnectionPath, WriteEffect, read_until
from valence_sched.drivers.redfish.describe import IN_USE
from valence_sched.drivers.redfish.hot_plug import is_hot_removable
from valence_sched.drivers.redfish.methods import ComposeWrite, RemainingChange, remaining_change
from valence_sched.drivers.redfish.schema import FabricZone, ProcessorDevice, Volume
from valence_sched.drivers.redfish.stocks import gib
from valence_sched.drivers.rsd import schema
from valence_sched.drivers.rsd.reader import TRANSIENT_STATES, FabricOffer, RackUsage, read_podm
from valence_sched.drivers.rsd.schema import PooledDevice, RackNode, RackSystem
from valence_sched.errors import InputError, PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant
from valence_sched.model.inventory import Node, Status
from valence_sched.model.quantity import format_count

ALLOCATED, ASSEMBLED = "allocated", "assembled"


class RsdComposer:
    """Composes on the pod manager of one rack."""

    def __init__(self, session: composer.Session, patience: MakePatience) -> None:
        self._session, self._patience = session, patience
        self._unread: list[PodmError] = []
        self._made: set[tuple[str, str]] = set()
        self._allocate: str | None = None
        node = RsdNode(session, lambda blocks: self._taken(blocks, self._nodes()))
        self._changer = BlockChanger(session, patience, node)
        volumes = RackVolumes(session, patience, self._nodes)
        self._amounts = AmountComposer(session, patience, volumes)

    def refusal(self, request: CompositionRequest) -> str | None:
        found = None if self._target() else "the collection of nodes has no Allocate action"
        return found and f"{found}, so {request.name} cannot be composed"

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        nodes = self._nodes()
        if self._unread:
            raise self._unread[0]
        return list(self._conflicts(request, nodes))

    def previews(self) -> bool:
        return False

    def change_refusal(self, node: str, attach: Uris, detach: Uris) -> str | None:
        return self._changer.refusal(node, attach, detach)

    def preview(self, request: CompositionRequest) -> str | None:
        why = "Allocate takes the hardware immediately"
        raise PodmError(f"Rack Scale Design offers no preview: {why}")

    def reserve(self, request: CompositionRequest) -> bool:
        return False  # Allocate is the reservation

    def unreserve(self, request: CompositionRequest) -> None:
        """Do nothing, since there is no reservation."""

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        if (target := self._target()) is None:
            return CompositionResult(state="absent", reason=self.refusal(request) or "")
        body = self._body(request)
        watch("allocating")
        every = (composer.member_uris(self._session, uri) for uri in self._lists())
        before = frozenset(map(fold_uri, itertools.chain.from_iterable(every)))

        def is_undone() -> bool:
            found = self.read_node(request)
            return found.state == "absent" and not found.reason  # no other node has a block

        sent = self._post(target, body, watch, is_undone)
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason)
        outcome = self._find_allocated(request, sent, before)
        if outcome.node and not request.missing_blocks(outcome.blocks):
            sent = self._assemble(outcome.node, watch)
            outcome = self._wait_until_assembled(request, outcome.node, watch, sent.refused)
        if outcome.state == "composed":
            return outcome
        return replace(outcome, reason="; ".join(filter(None, (sent.reason, outcome.reason))))

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        return self._read_node(request, node, same_blocks=node is None)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        before = self.read_node(request, node)
        if before.node is None or before.state == "unknown":
            return before
        uri = before.node
        watch("deleting")

        def is_undone() -> bool:
            return self.read_node(request, uri).node == uri

        sent = composer.write(self._session, uri, None, self._patience(), watch, is_undone)
        is_there = self._is_still_there(uri, sent)
        force = None
        with contextlib.suppress(PodmError):  # the error of reading the node back is reported
            json = get_document(self._session, uri) if is_there else None
            force = action_target(json or {}, "ForceDelete")
        if force:  # for a node that hangs
            watch("deleting by force")
            sent = self._post(force, {}, watch)
            is_there = self._is_still_there(uri, sent)
        outcome = CompositionResult(state="absent")
        if is_there:
            outcome = self.read_node(request, uri)
        if outcome.node is not None and outcome.state != "unknown":
            why = f"{uri} still exists: {sent.reason or 'the service reported its deletion'}"
            return replace(outcome, state="left", works=False, reason=why)
        if outcome.state != "absent":
            return outcome
        try:  # the pod manager deletes its volumes with the node
            stays = [it for it in before.amounts if get_document(self._session, it.uri) is not None]
            freed = [uri for uri in before.blocks if self._is_free_system(uri)]
        except PodmError as error:
            return replace(outcome, state="unknown", reason=composer.unread_result(error).reason)
        if not stays:
            return replace(outcome, freed=tuple(freed))
        words = f"volume {', '.join(it.uri for it in stays)} of the node still exists"
        return replace(outcome, state="left", amounts=tuple(stays), reason=words)

    def change(self, node: str, attach: Uris, detach: Uris, watch: Watch) -> composer.Change:
        return self._changer.change(node, attach, detach, watch)

    def amounts_refusal(self, request: CompositionRequest, node: str) -> str | None:
        return self._amounts.refusal(request) or self._amounts.attach_refusal(request, node)

    def attach_amounts(
        self, request: CompositionRequest, node: str, watch: Watch
    ) -> composer.AmountChange:
        if refusal := self._amounts.refusal(request):  # of RSD 2.1 and 2.2
            raise PodmError(refusal)
        return self._amounts.attach(request, node, watch)

    def detach_amounts(
        self, request: CompositionRequest, node: str, watch: Watch
    ) -> composer.AmountChange:
        return self._amounts.detach(request, node, watch)

    def read_amounts(
        self, request: CompositionRequest, node: str, *, new: bool = False
    ) -> composer.AmountChange:
        return self._amounts.read(request, node, new=new)

    def is_on(self, node: str) -> bool | None:
        return actions.is_on(self._session, node)

    def set_power(self, node: str, on: bool, watch: Watch) -> None:
        actions.set_power(self._session, node, on, self._patience, watch)

    def node_blocks(self, node: str) -> Sequence[str] | None:
        return self._changer.present(node)

    def is_hot_removable(self, block: str) -> bool:
        return is_hot_removable(self._session, block)

    def _post(
        self, target: str, body: Json, watch: Watch, is_undone: Callable[[], bool] = lambda: False
    ) -> SendResult:
        return composer.write(self._session, target, body, self._patience(), watch, is_undone)

    def _is_still_there(self, node: str, sent: SendResult) -> bool:
        reads = self._patience().tries(1 if sent.refused else LATE_READS)
        return all(self._state(node) is not None for _ in reads)

    def _target(self) -> str | None:
        if self._allocate is None:
            lists = (get_document(self._session, uri) or {} for uri in self._lists())
            targets = (action_target(json, "Allocate") for json in lists)
            self._allocate = next(filter(None, targets), None)
        return self._allocate

    def _lists(self) -> list[str]:
        root = read_resource(self._session, schema.RackRoot, ROOT)
        return list(dict.fromkeys(link_paths((*root.rack_nodes, *root.nodes))))

    def _body(self, request: CompositionRequest) -> Json:
        parts: dict[str, list[Json]] = defaultdict(list)
        for uri in request.blocks:
            part = read_resource(self._session, PooledDevice, uri)
            named = {"Resource": {"@odata.id": uri}}
            if part.class_name == "ComputerSystem":  # a request for its CPU selects the system
                links = RackSystem(uri, part.json, NO_NOTES).processors
                follow = composer.live_documents(self._session).follow
                cpus = itertools.islice(follow(links, ProcessorDevice, uri), 1)
                parts["Processors"] += [{"Resource": {"@odata.id": cpu.uri}} for cpu in cpus]
            elif part.class_name == "Processor":
                card = {**named, "ProcessorType": part.processor_type or "FPGA"}
                parts["Processors"].append(card)
            else:
                parts["LocalDrives"].append(named)
        for grant in request.made_grants:
            parts["RemoteDrives"].append({"CapacityGiB": math.ceil(grant.amount - 1e-6)})
        return {"Name": request.name, "Description": request.name, **parts}

    def _volumes(self, node: Node) -> tuple[Grant, ...]:
        """Return the volumes of a node: its remote links other than drives, cards and blocks."""
        found = read_resource(self._session, RackNode, node.uri)
        uris = dict.fromkeys(link_paths((*found.remote, *found.storage)))
        local = set(map(link_path, found.local))  # drives, and devices of its system
        inside = tuple(f"{system}/" for system in link_paths(found.system))
        outside = (it for it in uris if it not in node.blocks and not it.startswith(inside))
        read = ((it, get_document(self._session, it) or {}) for it in outside if it not in local)
        return tuple(
            Grant(uri, gib(Volume(uri, json, NO_NOTES).capacity_bytes) or 0.0)
            for uri, json in read
            if PooledDevice(uri, json, NO_NOTES).class_name not in ("Drive", "Processor")
        )

    def _find_allocated(
        self, request: CompositionRequest, sent: SendResult, before: frozenset[str]
    ) -> CompositionResult:
        """Read the allocated node from the answer; after a lost reply search for some time.

        A new node in the answer is ours, even under another name. Without the answer, a node with
        the blocks may belong to another client.
        """
        if sent.succeeded and sent.node and fold_uri(sent.node) not in before:
            self._made.add((request.name, fold_uri(sent.node)))
        patience, late = self._patience(), LATE_READS if sent.lost else 0
        outcome = self._read_node(request, sent.node)
        while late > 0 and outcome.state == "absent" and patience.pause():
            late -= 1
            outcome = self._read_node(request, None)
        if outcome.state != "absent" or sent.refused:
            return outcome
        nouns = self._nouns(request, self._nodes(before))
        new = [node for node in nouns if not request.missing_blocks(node.blocks)]
        if new and sent.succeeded:
            self._made.add((request.name, fold_uri(new[0].uri)))
            return self.read_node(request, new[0].uri)
        return _doubtful(new[0]) if new else outcome

    def _assemble(self, node: str, watch: Watch) -> SendResult:
        if self._state(node) != ALLOCATED:
            return SendResult()
        try:
            target = action_target(get_document(self._session, node) or {}, "Assemble")
        except PodmError as error:
            return SendResult(reason=f"not assembled: {error}")
        if target is None:
            return SendResult(reason="the node has no Assemble action")
        watch("assembling")
        return self._post(target, {}, watch, lambda: self._state(node) == ALLOCATED)

    def _wait_until_assembled(
        self, request: CompositionRequest, node: str, watch: Watch, refused: bool
    ) -> CompositionResult:
        patience = self._patience()
        while True:
            state = self._state(node)
            ended = state in (None, ASSEMBLED) or (refused and state == ALLOCATED)
            watch(state or "gone")
            if ended or not patience.pause():
                return self.read_node(request, node)

    def _read_node(
        self, request: CompositionRequest, uri: str | None, *, same_blocks: bool = False
    ) -> CompositionResult:
        try:
            json = get_document(self._session, uri) if uri else None
            named = [RackNode(uri, json, NO_NOTES)] if uri and json else []
            node = next(self._ours(request, uri, named), None)
            nodes = named if node else self._nodes()
            node = node or next(self._ours(request, uri, nodes), None)
            if node is not None:
                return self._result_of(request, node)
            if self._unread:
                raise self._unread[0]
            same = [it for it in self._nouns(request, nodes) if _is_made_of(it, request)]
            if same_blocks and same:
                return _doubtful(same[0])
            why = "; ".join(self._conflicts(request, nodes))
            return CompositionResult(state="absent", reason=why)
        except PodmError as error:
            return composer.unread_result(error, uri)

    def _result_of(self, request: CompositionRequest, node: Node) -> CompositionResult:
        state = self._state(node.uri)
        volumes = self._volumes(node)
        missing = request.missing_blocks(node.blocks) + _lacking_volumes(request, volumes)
        words = f"{node.uri} exists without {', '.join(missing)}" if missing else ""
        if not missing and state != ASSEMBLED:
            words = f"{node.uri} is {(state or 'gone').capitalize()}"
        return CompositionResult(
            state="left" if words else "composed",
            node=node.uri,
            blocks=node.blocks,
            amounts=volumes,
            reason=words,
            works=state in TRANSIENT_STATES,
        )

    def _state(self, node: str) -> str | None:
        try:
            json = get_document(self._session, node)
        except PodmError:
            return "unknown"
        return (RackNode(node, json, NO_NOTES).node_state or "unknown").lower() if json else None

    def _nodes(self, known: Container[str] = ()) -> list[RackNode]:
        self._unread, service = [], self._service()
        found: dict[str, RackNode] = {}
        for page in service.collections(self._lists(), ROOT):
            links = [it for it in page.members if fold_uri(link_path(it) or "") not in known]
            for node in service.follow(links, RackNode, page.uri):
                found.setdefault(node.uri, node)
        return list(found.values())

    def _nouns(self, request: CompositionRequest, nodes: Iterable[RackNode]) -> Iterator[Node]:
        """Yield nodes with their blocks: systems, and devices of the request or equal to those."""
        others = (it for equal in request.substitutes.values() for it in equal)
        spelled = {fold_uri(uri): uri for uri in (*others, *request.blocks)}
        for node in nodes:
            devices = node.processors + node.local + node.remote + node.storage
            blocks = [spelled.get(fold_uri(uri), uri) for uri in link_paths(node.system)]
            pooled = map(fold_uri, link_paths(devices))
            blocks += [spelled[folded] for folded in pooled if folded in spelled]
            yield Node(uri=node.uri, name=node.name, blocks=tuple(dict.fromkeys(blocks)))

    def _ours(
        self, request: CompositionRequest, uri: str | None, nodes: Iterable[RackNode]
    ) -> Iterator[Node]:
        """Yield the node of the request; its URI may now belong to another node."""
        for node in self._nouns(request, nodes):
            folded = fold_uri(node.uri)
            at_uri = uri is not None and folded == fold_uri(uri)
            is_ours = (request.name, folded) in self._made or request.names(node.name, node.uri)
            if is_ours or (at_uri and _is_made_of(node, request)):
                yield node

    def _conflicts(self, request: CompositionRequest, nodes: list[RackNode]) -> Iterator[str]:
        for uri, state in self._taken(request.blocks, nodes):
            yield f"{uri}: found {state or 'no such block'}"

    def _taken(
        self, blocks: Iterable[str], nodes: list[RackNode]
    ) -> Iterator[tuple[str, str | None]]:
        """Yield each block that cannot be used and its state, None if it does not exist.

        For a device without endpoints all nodes are read.
        """
        whole: dict[str, Status] | None = None
        service = self._service()
        for uri in blocks:  # nodes may spell it differently
            service.uri(uri, ROOT)
        for uri in blocks:
            if (json := get_document(self._session, uri)) is None:
                yield uri, None
                continue
            device = PooledDevice(uri, json, NO_NOTES)
            if device.class_name == "ComputerSystem":
                status = _system_status(service, uri, json, nodes)
            else:
                own = _device_status(service, device, nodes)
                if own is None and whole is None:
                    podm = read_podm(self._service(), "podm", "rsd")
                    whole = {block.uri: block.status or Status() for block in podm.blocks}
                status = own or (whole or {}).get(uri, Status(state="Unknown"))
            if not status.slots:
                yield uri, status.state

    def _is_free_system(self, uri: str) -> bool:
        device = read_resource(self._session, PooledDevice, uri)
        is_system = device.class_name == "ComputerSystem"
        return is_system and _system_status(self._service(), uri, device.json, []).slots > 0

    def _service(self) -> LinkedDocuments:
        def get(uri: str) -> Json | None:
            reply = self._session.get(uri)
            if reply.status in GONE:
                return None
            if reply.status != 200 or reply.body is None:
                self._unread.append(PodmError(f"{uri}: HTTP {reply.status}, expected a document"))
                raise InputError(uri, "", f"HTTP {reply.status}", "a document")
            return reply.body

        return LinkedDocuments(get, NO_NOTES)


def _lacking_volumes(request: CompositionRequest, volumes: tuple[Grant, ...]) -> list[str]:
    """Return the missing or too small volumes of a node; older services state no sizes."""
    grants = request.made_grants
    if len(volumes) < len(grants):
        return [f"{len(grants) - len(volumes)} of its {format_count(len(grants), 'volume')}"]
    wanted, sizes = sum(it.amount for it in grants), [it.amount for it in volumes]
    if all(sizes) and sum(sizes) < wanted - 1e-6:
        return [f"volumes of {wanted:g} GiB: found {sum(sizes):g}"]
    return []


def _doubtful(node: Node) -> CompositionResult:
    words = f"{node.uri} has the same blocks, under the name {node.name!r}"
    return CompositionResult(state="unknown", reason=f"{words}: the owner is unknown")


def _is_made_of(node: Node, request: CompositionRequest) -> bool:
    return bool(request.blocks) and set(node.blocks) == set(request.blocks)


def _system_status(service: LinkedDocuments, uri: str, json: Json, nodes: list[RackNode]) -> Status:
    system = RackSystem(uri, json, NO_NOTES)
    return RackUsage(service, nodes, [], [system], set()).system_status(system)


def _device_status(
    service: LinkedDocuments, device: PooledDevice, nodes: list[RackNode]
) -> Status | None:
    """Return the status of a pooled device, None without a readable endpoint."""
    ends = list(service.follow(device.endpoints, schema.RackEndpoint, device.uri))
    zoned: set[str | None] = set()
    for end in ends:
        uri, _, number = end.uri.rpartition("/Endpoints/")
        fabric = service.json(uri, end.uri) if number and uri else None
        if fabric is None:
            return None
        zones = schema.RackFabric(uri, fabric, NO_NOTES).zones
        for zone in service.follow(zones, FabricZone, uri):
            zoned |= {service.uri(link, zone.uri) for link in zone.endpoints}
    if not ends:
        return None
    is_zoned = any(end.zones or end.uri in zoned for end in ends)
    offer = FabricOffer(device, device.class_name == "Drive", frozenset(), (), is_zoned)
    return RackUsage(service, nodes, [], [], {device.uri}).offer_status(offer, set())


#: The states of a node in which devices can be attached and detached.
CHANGEABLE = ("assembled", "failed")
#: The actions of RSD 2.3 and later, and of earlier versions.
ATTACH, DETACH = ("AttachResource", "AttachEndpoint"), ("DetachResource", "DetachEndpoint")
VOLUME = ATTACH[0]  # for a volume, in RSD 2.3 and later
_EXPECTED = "expected Assembled or Failed"


class RsdNode(ChangedNode):
    """The blocks of a ComposedNode: its system, and the pooled devices that it links.

    ``taken`` yields the blocks that cannot be used, each with its state, None if it is missing.
    """

    def __init__(
        self,
        session: composer.Session,
        taken: Callable[[Sequence[str]], Iterable[tuple[str, str | None]]],
    ) -> None:
        self._session, self._taken = session, taken

    def read(self, node: str, attach: Uris, detach: Uris) -> RemainingChange:
        if (json := get_document(self._session, node)) is None:
            raise PodmError(f"{node}: found no such node")
        found = RackNode(node, json, NO_NOTES)
        pooled = self._pooled(found, {fold_uri(uri) for uri in (*attach, *detach)})
        present = (*link_paths(found.system), *pooled)
        return remaining_change(self._session, node, json, present, attach, detach)

    def refusal(self, change: RemainingChange) -> composer.Change | None:
        node, present = RackNode(change.node, change.json, NO_NOTES), change.present
        if refused := _state_refusal(node):
            return composer.Change(present, refused)
        systems = set(map(fold_uri, link_paths(node.system)))
        if fixed := [uri for uri in change.detach if fold_uri(uri) in systems]:
            why = f"{', '.join(fixed)} cannot be detached: the system of {node.uri}"
            return composer.Change(present, why)
        for uri, found in self._taken(change.attach):
            why = f"{uri}: found {found or 'no such block'}"
            return composer.Change(present, why, conflicts=found in IN_USE)
        return None

    def write(self, change: RemainingChange, closed: Container[str]) -> ComposeWrite | str:
        verb, older = ATTACH if change.attach else DETACH
        target = action_target(change.json, verb) or action_target(change.json, older)
        if target is None or target in closed:
            return f"{change.node}: found no action {verb}, so its blocks cannot be changed"
        body = {"Resource": {"@odata.id": (*change.attach, *change.detach)[0]}}
        return ComposeWrite("by action", target, body, True)

    def conflict(self, _node: str, block: str) -> str | None:
        states = (state for _, state in self._taken((block,)) if state in IN_USE)
        return next((f"found {state}" for state in states), None)

    def _pooled(self, node: RackNode, wanted: Container[str]) -> Iterator[str]:
        """Yield the linked devices outside of the system that are wanted, or have an endpoint."""
        inside = tuple(f"{fold_uri(system)}/" for system in link_paths(node.system))
        for uri in link_paths((*node.processors, *node.local, *node.remote, *node.storage)):
            if fold_uri(uri) in wanted:
                yield uri
            elif not fold_uri(uri).startswith(inside):
                device = read_resource(self._session, PooledDevice, uri)
                if device.endpoints and device.class_name in ("Drive", "Processor"):
                    yield uri


class RackVolumes:
    """The volumes that nodes link; ``nodes`` reads all nodes."""

    def __init__(
        self,
        session: composer.Session,
        patience: MakePatience,
        nodes: Callable[[], Iterable[RackNode]],
    ) -> None:
        self._session, self._patience, self._nodes = session, patience, nodes

    def path(self, request: CompositionRequest, node: str, stock: str) -> ConnectionPath:
        """Return the action of a node; its target is the only protocol that the action allows."""
        rack_node = read_resource(self._session, RackNode, node)
        refused, action = _state_refusal(rack_node), find_action(rack_node.json, VOLUME)
        if refused or action is None:
            raise PodmError(refused or f"{node}: found no action {VOLUME}, expected it for {stock}")
        protocols = action_parameters(self._session, action).get("Protocol", ())
        protocol = protocols[0] if len(protocols) == 1 else ""
        return ConnectionPath(str(link_path(action["target"])), node, protocol)

    def connect(
        self, request: CompositionRequest, path: ConnectionPath, amount: str, watch: Watch
    ) -> WriteEffect:
        body: Json = {"Resource": {"@odata.id": amount}}
        if path.target:
            body["Protocol"] = path.target
        return self._act(path.initiator, path.collection, body, amount, watch, attaches=True)

    def disconnect(self, amount: str, watch: Watch) -> WriteEffect:
        for node in self.of(amount):
            target = action_target(get_document(self._session, node) or {}, DETACH[0])
            if target is None:
                return WriteEffect(f"{node}: found no action {DETACH[0]}, expected it for {amount}")
            body = {"Resource": {"@odata.id": amount}}
            if (found := self._act(node, target, body, amount, watch, attaches=False)).problem:
                return found
        return WriteEffect()

    def of(self, amount: str) -> tuple[str, ...]:
        return tuple(node.uri for node in self._nodes() if self._has(node, amount))

    def _has(self, node: RackNode, amount: str) -> bool:
        return fold_uri(amount) in map(fold_uri, link_paths((*node.remote, *node.storage)))

    def _act(
        self, node: str, target: str, body: Json, amount: str, watch: Watch, *, attaches: bool
    ) -> WriteEffect:
        def is_done() -> bool:
            return self._has(read_resource(self._session, RackNode, node), amount) == attaches

        watch("connecting" if attaches else "disconnecting")
        pauses = self._patience()
        sent = composer.write(self._session, target, body, pauses, watch, lambda: not is_done())
        if sent.unsent:
            return WriteEffect(sent.reason)
        word = "not connected" if attaches else "still connected"
        why = f"{amount} is {word}: {sent.reason or 'the service reported success'}"
        return read_until(self._patience(), is_done, sent, why)


def _state_refusal(node: RackNode) -> str:
    """Return why the devices of a node cannot be changed in its state, empty if they can be."""
    state = node.node_state or "unknown"
    return "" if state.casefold() in CHANGEABLE else f"{node.uri} is {state}, {_EXPECTED}"
