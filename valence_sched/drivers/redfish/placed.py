# SPDX-License-Identifier: Apache-2.0
"""Nodes placed on hosts of a service without a CompositionService; zones attach their devices."""

from collections.abc import Callable, Container, Iterator

from msgspec.structs import replace

from valence_sched.drivers.actions import find_action
from valence_sched.drivers.composer import Change, Session, Uris, Watch, get_document, unread_result
from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import fold_uri
from valence_sched.drivers.redfish import methods
from valence_sched.drivers.redfish.describe import block_of_server, own_status
from valence_sched.drivers.redfish.fabric import HostZones
from valence_sched.drivers.redfish.methods import ComposeWrite, Offer, RemainingChange, tagged_write
from valence_sched.drivers.redfish.schema import Server
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult

#: Attaches blocks to a node and detaches others, as ``Composer.change`` does.
ChangeBlocks = Callable[[str, Uris, Uris, Watch], Change]


class PlacedHost:
    """The blocks of a host, to be changed: the host itself, and the devices in its zones."""

    def __init__(self, session: Session, zones: HostZones) -> None:
        self._session, self._zones = session, zones

    def read(self, node: str, attach: Uris, detach: Uris) -> RemainingChange:
        if (json := get_document(self._session, node)) is None:
            raise PodmError(f"{node}: found no such host")
        present = (node, *self._zones.devices(node))
        return methods.remaining_change(self._session, node, json, present, attach, detach)

    def refusal(self, change: RemainingChange) -> Change | None:
        node, present = change.node, change.present
        if not self._zones.fabrics(node):
            lacks = "the service has no CompositionService, and no fabric has a zone of the host"
            return Change(present, f"nothing can be attached or detached: {lacks}")
        if fold_uri(node) in map(fold_uri, change.detach):
            return Change(present, f"{node} cannot be detached: it is the host")
        for uri in change.attach:
            if user := self._zones.user(node, uri):
                return Change(present, f"{uri}: found part of {user}", conflicts=True)
            if problem := self._zones.problem(node, uri):
                return Change(present, problem)
        return None

    def write(self, change: RemainingChange, closed: Container[str]) -> ComposeWrite | str:
        return methods.choose_change(change, (self.by_action, self.by_list), closed)

    def by_action(self, change: RemainingChange) -> Offer:
        """Return a POST of the action of the zone for the endpoint of the next block."""
        attach = change.attach[:1]
        found = self._zones.change(change.node, attach, () if attach else change.detach[:1])
        if found is None or isinstance(found, str) or len(found.add + found.remove) != 1:
            return found if isinstance(found, str) else None
        action = find_action(found.zone.json, "AddEndpoint" if found.add else "RemoveEndpoint")
        (end,) = found.add + found.remove
        body = {"Endpoint": {"@odata.id": end}}
        tags = {"ZoneETag": found.zone.uri, "EndpointETag": end}
        return tagged_write(change, "by action of the zone", action, body, tags)

    def by_list(self, change: RemainingChange) -> Offer:
        """Return a PATCH of all endpoints of the zone, which Intel RSD has outside of ``Links``."""
        found = self._zones.change(change.node, change.attach, change.detach)
        if found is None or isinstance(found, str):
            return found
        ends = {"Endpoints": found.endpoints}
        body = ends if self._zones.is_rack else {"Links": ends}
        return ComposeWrite("by list of the zone", found.zone.uri, body, True, on_host=True)

    def conflict(self, node: str, block: str) -> str | None:
        self._zones.read_again()
        user = self._zones.user(node, block)
        return f"found part of {user}" if user else None

    def is_composing(self, _block: str) -> bool:
        return False


class PlacedNodes:
    """The nodes of one service; the blocks of a node are its host, and the attached devices."""

    def __init__(self, session: Session, zones: HostZones, change: ChangeBlocks) -> None:
        self._session, self._zones, self.change = session, zones, change

    def conflicts(self, host: str, request: CompositionRequest) -> Iterator[str]:
        """Yield the states of a host and of devices that prevent their use.

        A host may be on or off.
        """
        server = self._server(host)
        if server is None:
            yield f"{host}: found no such host"
            return
        status = own_status(block_of_server(server, (), is_free=True))
        if not status.slots:
            yield f"{host}: found {status.condition}"
        self._zones.read_again()
        for uri in _devices_of(host, request):
            user = self._zones.user(host, uri)
            found = f"{uri}: found part of {user}" if user else self._zones.problem(host, uri)
            if found:
                yield found
        if attached := self._zones.devices(host):
            yield f"{host}: found a host with {', '.join(attached)}"

    def compose(self, host: str, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Attach the devices of a request to its host; ClaimLost if another client is faster."""
        watch("composing (placed)")
        before, wanted = self._read(host), _devices_of(host, request)
        if before.state != "composed" or not wanted:
            return before
        if before.blocks[1:]:
            raise ClaimLost(f"{host}: found a host with {', '.join(before.blocks[1:])}")
        done = self.change(host, wanted, (), watch)
        if done.blocks is None or done.works:
            return CompositionResult(state="unknown", node=host, reason=done.reason)
        if not done.reason:
            return self._read(host)
        if gained := [uri for uri in wanted if uri in done.blocks]:
            undone = self.change(host, (), gained, watch)
            if undone.blocks is None or undone.reason:
                reason = f"{done.reason}; could not be undone: {undone.reason}"
                state = "left" if undone.blocks else "unknown"
                return replace(before, state=state, blocks=undone.blocks or (), reason=reason)
        if done.conflicts:
            raise ClaimLost(f"{host}: {done.reason}")
        return CompositionResult(state="absent", reason=done.reason)

    def read_node(
        self, host: str, request: CompositionRequest, node: str | None
    ) -> CompositionResult:
        """Read a node by its host, or without a URI by its attached devices."""
        wanted = _devices_of(host, request)
        if not (node or wanted):
            return CompositionResult(state="absent")  # nothing was written
        result = self._read(node or host)
        missing = [uri for uri in wanted if uri not in result.blocks]
        if result.state != "composed" or not missing:
            return result
        if len(missing) == len(wanted):
            return CompositionResult(state="absent")
        return replace(result, state="left", reason=f"{host} exists without {', '.join(missing)}")

    def remove(self, host: str, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Detach the devices of a node; the host stays."""
        before, ours = self._read(host), _devices_of(host, request)
        if before.state != "composed":
            return before
        if foreign := [uri for uri in before.blocks[1:] if uri not in ours]:
            why = f"{host} has {', '.join(foreign)}, attached by another client: detach it first"
            return replace(before, state="left", reason=why)
        if gone := [uri for uri in ours if uri in before.blocks]:
            done = self.change(host, (), gone, watch)
            if done.blocks is None:
                return CompositionResult(state="unknown", node=host, reason=done.reason)
            if done.reason:
                return replace(before, state="left", blocks=done.blocks, reason=done.reason)
        return CompositionResult(state="absent", freed=tuple(gone))

    def blocks(self, host: str) -> tuple[str, ...] | None:
        """Return the present blocks of a node, None if its host is gone; else PodmError."""
        found = self._read(host)
        if found.state == "unknown":
            raise PodmError(found.reason)
        return found.blocks or None

    def _read(self, host: str) -> CompositionResult:
        try:
            server = self._server(host)
            devices = self._zones.devices(host) if server else ()
        except PodmError as error:
            return unread_result(error, host)
        if server is None:
            return CompositionResult(state="absent", reason=f"{host}: found no such host")
        return CompositionResult(state="composed", node=host, blocks=(server.uri, *devices))

    def _server(self, uri: str) -> Server | None:
        json = get_document(self._session, uri)
        server = Server(uri, json, NO_NOTES) if json else None
        return server if server and server.leads else None


def _devices_of(host: str, request: CompositionRequest) -> tuple[str, ...]:
    return tuple(uri for uri in request.blocks if fold_uri(uri) != fold_uri(host))
