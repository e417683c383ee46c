# SPDX-License-Identifier: Apache-2.0
"""The blocks of a node of Intel RSD, which AttachResource and DetachResource change one by one."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from valence_sched.drivers.actions import action_target
from valence_sched.drivers.composer import Change, Session, get_document
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import fold_uri, link_paths
from valence_sched.drivers.redfish.describe import IN_USE
from valence_sched.drivers.redfish.methods import ComposeWrite, RemainingChange, remaining_change
from valence_sched.drivers.rsd.schema import PooledDevice, RackNode
from valence_sched.errors import PodmError

#: The states of a node in which devices can be attached and detached.
CHANGEABLE = ("assembled", "failed")
#: The actions of RSD 2.3 and later, and of earlier versions.
ATTACH, DETACH = ("AttachResource", "AttachEndpoint"), ("DetachResource", "DetachEndpoint")


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
        state = node.node_state or "unknown"
        if state.casefold() not in CHANGEABLE:
            return Change(present, f"{node.uri} is {state}, expected Assembled or Failed")
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
