# SPDX-License-Identifier: Apache-2.0
"""The blocks and volumes of nodes of Intel RSD: AttachResource and DetachResource change them."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from valence_sched.drivers.actions import action_parameters, action_target, find_action
from valence_sched.drivers.composer import Change, Session, Watch, get_document, write
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import Patience
from valence_sched.drivers.links import fold_uri, link_path, link_paths
from valence_sched.drivers.redfish.connections import ConnectionPath, WriteEffect, read_until
from valence_sched.drivers.redfish.describe import IN_USE
from valence_sched.drivers.redfish.methods import ComposeWrite, RemainingChange, remaining_change
from valence_sched.drivers.rsd.schema import PooledDevice, RackNode
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest

#: The states of a node in which devices can be attached and detached.
CHANGEABLE = ("assembled", "failed")
#: The actions of RSD 2.3 and later, and of earlier versions.
ATTACH, DETACH = ("AttachResource", "AttachEndpoint"), ("DetachResource", "DetachEndpoint")
VOLUME = ATTACH[0]  # for a volume, in RSD 2.3 and later
_EXPECTED = "expected Assembled or Failed"


class RsdNode:
    """The blocks of a ComposedNode: its system, and the pooled devices that it links.

    ``taken`` yields the blocks that cannot be used, each with its state, None if it is missing.
    """

    def __init__(
        self, session: Session, taken: Callable[[Sequence[str]], Iterable[tuple[str, str | None]]]
    ) -> None:
        self._session, self._taken = session, taken

    def read(self, node: str, attach: Sequence[str], detach: Sequence[str]) -> RemainingChange:
        if (json := get_document(self._session, node)) is None:
            raise PodmError(f"{node}: found no such node")
        found = RackNode(node, json, NO_NOTES)
        pooled = self._pooled(found, {fold_uri(uri) for uri in (*attach, *detach)})
        present = (*link_paths(found.system), *pooled)
        return remaining_change(self._session, node, json, present, attach, detach)

    def refusal(self, change: RemainingChange) -> Change | None:
        node, present = RackNode(change.node, change.json, NO_NOTES), change.present
        if refused := _state_refusal(node):
            return Change(present, refused)
        systems = set(map(fold_uri, link_paths(node.system)))
        if fixed := [uri for uri in change.detach if fold_uri(uri) in systems]:
            return Change(
                present, f"{', '.join(fixed)} cannot be detached: the system of {node.uri}"
            )
        for uri, found in self._taken(change.attach):
            why = f"{uri}: found {found or 'no such block'}"
            return Change(present, why, conflicts=found in IN_USE)
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

    def is_composing(self, _block: str) -> bool:
        return False

    def _pooled(self, node: RackNode, wanted: Container[str]) -> Iterator[str]:
        """Yield the linked devices outside of the system that are wanted, or have an endpoint."""
        inside = tuple(f"{fold_uri(system)}/" for system in link_paths(node.system))
        for uri in link_paths((*node.processors, *node.local, *node.remote, *node.storage)):
            if fold_uri(uri) in wanted:
                yield uri
            elif not fold_uri(uri).startswith(inside):
                json = get_document(self._session, uri) or {}
                device = PooledDevice(uri, json, NO_NOTES)
                if device.endpoints and device.class_name in ("Drive", "Processor"):
                    yield uri


class RackVolumes:
    """The volumes that nodes link; ``nodes`` reads all nodes."""

    def __init__(
        self,
        session: Session,
        patience: Callable[[], Patience],
        nodes: Callable[[], Iterable[RackNode]],
    ) -> None:
        self._session, self._patience, self._nodes = session, patience, nodes

    def path(self, request: CompositionRequest, node: str, stock: str) -> ConnectionPath:
        """Return the action of a node; its target is the only protocol that the action allows."""
        json = get_document(self._session, node) or {}
        refused, action = _state_refusal(RackNode(node, json, NO_NOTES)), find_action(json, VOLUME)
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
        """Attach or detach a volume, and read the node back."""

        def is_done() -> bool:
            json = get_document(self._session, node) or {}
            return self._has(RackNode(node, json, NO_NOTES), amount) == attaches

        watch("connecting" if attaches else "disconnecting")
        pauses = self._patience()
        sent = write(self._session, target, body, pauses, watch, lambda: not is_done())
        if sent.unsent:
            return WriteEffect(sent.reason)
        word = "not connected" if attaches else "still connected"
        why = f"{amount} is {word}: {sent.reason or 'the service reported success'}"
        return read_until(self._patience(), is_done, sent, why)


def _state_refusal(node: RackNode) -> str:
    """Return why the devices of a node cannot be changed in its state, empty if they can be."""
    state = node.node_state or "unknown"
    return "" if state.casefold() in CHANGEABLE else f"{node.uri} is {state}, {_EXPECTED}"
