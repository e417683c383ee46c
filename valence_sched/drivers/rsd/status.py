# SPDX-License-Identifier: Apache-2.0
"""The status of the systems and pooled devices of a rack.

A composed node holds its blocks in every state: a failed one returns by itself when what it lost
comes back. Free is what no node, zone or storage service has, and what its pod manager would
take: Enabled, healthy, and a pooled drive erased.
"""

from __future__ import annotations

from collections.abc import Iterable

from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish.usable import condition_of, note_condition
from valence_sched.drivers.rsd.fabrics import FabricOffer
from valence_sched.drivers.rsd.schema import PooledDevice, RackNode, RackSystem, StorageService
from valence_sched.model.inventory import CompositionState, Status

NODE_STATES = ("allocating", "allocated", "assembling", "assembled", "failed")
_TRANSIENT_STATES = ("allocating", "assembling")


class RackUsage:
    """The use of the blocks of a rack by its nodes, by the URI of the block."""

    def __init__(
        self,
        service: LinkedDocuments,
        nodes: Iterable[RackNode],
        storages: Iterable[StorageService],
        systems: Iterable[RackSystem],
        pooled: set[str],
    ) -> None:
        self._service, self._pooled = service, pooled
        self._hosts = {service.uri(link, it.uri) for it in storages for link in it.host}
        self._nodes: dict[str, list[RackNode]] = {}
        listed = {system.uri for system in systems} | pooled
        for node in nodes:
            _check(node)
            for uri in self.blocks_of(node):
                if uri not in listed:
                    what = f"found {uri}, expected a system that is listed"
                    node.notes.remark(f"{node.uri}: {RackNode.system.path}: {what}")
                self._nodes.setdefault(uri, []).append(node)

    def blocks_of(self, node: RackNode) -> tuple[str, ...]:
        """Return the system of a node and the pooled devices that it links."""
        systems = list(self._service.uris(node.system, node.uri))
        rest = node.processors + node.local + node.remote + node.storage
        pooled = [uri for uri in self._service.uris(rest, node.uri) if uri in self._pooled]
        return tuple(dict.fromkeys(systems + pooled))

    def system_status(self, system: RackSystem) -> Status:
        """Return the status of a system; one that runs a storage service makes no node."""
        return self._status(system, "Unavailable" if system.uri in self._hosts else "Unused")

    def offer_status(self, offer: FabricOffer, attached: set[str]) -> Status:
        """Return the status of a pooled device; ``attached`` are those that systems list."""
        device = offer.device
        if offer.is_zoned or device.uri in attached or device.storage:
            return self._status(device, "Composed")
        return self._status(device, "Unused" if _is_erased(offer) else "Unavailable")

    def _status(self, of: RackSystem | PooledDevice, state: CompositionState) -> Status:
        nodes = self._nodes.get(of.uri, [])
        condition = condition_of(of)
        if state == "Unused" or nodes:
            note_condition(of, condition, "no node can have it")
        if nodes:
            states = {(node.node_state or "").casefold() for node in nodes}
            state = "Composing" if states <= set(_TRANSIENT_STATES) else "Composed"
        elif state == "Unused" and (condition.health == "Warning" or of.enabled is False):
            state = "Unavailable"  # its pod manager composes only devices that are OK
        return Status(
            state=state,
            enabled=None if of.state is None else condition.state is None,
            health=condition.health,
            resource_state=condition.word,
            compositions=len(nodes) or (1 if state == "Composed" else 0),
        )


def _is_erased(offer: FabricOffer) -> bool:
    device = offer.device
    if not offer.is_drive:
        return device.fpga_erased is not False
    if device.drive_erased is None:
        path = PooledDevice.drive_erased.path
        what = "found nothing, expected true or false (no node can have it)"
        device.notes.remark(f"{device.uri}: {path}: {what}")
    return device.drive_erased is True


def _check(node: RackNode) -> None:
    state = node.node_state
    if state is None or state.casefold() not in NODE_STATES:
        expected = "expected " + ", ".join(word.capitalize() for word in NODE_STATES)
        path = RackNode.node_state.path
        node.notes.remark(f"{node.uri}: {path}: found {state!r}, {expected} (taken as in use)")
    if not node.system:
        node.notes.remark(f"{node.uri}: {RackNode.system.path}: found none, expected one")
