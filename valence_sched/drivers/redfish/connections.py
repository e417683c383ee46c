# SPDX-License-Identifier: Apache-2.0
"""Connections of fabrics: connects memory chunks and volumes to nodes, and disconnects them."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from valence_sched.drivers import composer
from valence_sched.drivers.composer import SendResult, Session, Watch, read_resource
from valence_sched.drivers.document_shape import MEMBERS
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, links, only_objects, text
from valence_sched.drivers.http.exchange import LATE_READS, MakePatience, Patience
from valence_sched.drivers.links import ROOT, fold_uri, link_paths
from valence_sched.drivers.redfish.schema import MemoryChunks, Server
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest

_TYPE = "@odata.type"
_CONNECTION = "Connection.v1_1_0"


class _Root(Resource):
    fabrics = Field("Fabrics", links, "the fabrics")


class _Fabric(Resource):
    connections = Field("Connections", links, "its connections")
    endpoints = Field("Endpoints", links, "its endpoints")


class _Entity(Resource):
    role = Field("EntityRole", text, "Initiator, Target or Both")
    link = Field("EntityLink", links, "the connected resource")


class _Endpoint(Resource):
    entities = Field("ConnectedEntities", only_objects, "the connected resources")
    zones = Field("Links/Zones", links, "its zones: only their endpoints can be connected")

    def entity_uris(self, role: str) -> Iterator[str]:
        """Yield the folded URIs of the connected resources that have a role."""
        for one in (_Entity(self.uri, json, NO_NOTES) for json in self.entities):
            if (one.role or role) in (role, "Both"):
                yield from map(fold_uri, link_paths(one.link))

    def may_reach(self, other: "_Endpoint") -> bool:
        """Return whether two endpoints are in a common zone, or one is in no zone."""
        mine, others = ({*map(fold_uri, link_paths(it.zones))} for it in (self, other))
        return not (mine and others) or not mine.isdisjoint(others)


class _Connection(Resource):
    chunks = Field("MemoryChunkInfo", only_objects, "its memory chunks")
    volumes = Field("VolumeInfo", only_objects, "its volumes")


class _Connected(Resource):
    """One element of ``MemoryChunkInfo`` or ``VolumeInfo``."""

    chunk = Field("MemoryChunk", links, "the memory chunk")
    volume = Field("Volume", links, "the volume")


class ConnectionPath(NamedTuple):
    """The collection for a new connection, and its endpoints."""

    collection: str
    initiator: str
    target: str


class WriteEffect(NamedTuple):
    """The effect of a write: a failure has a ``problem``, and ``works`` if it may follow."""

    problem: str = ""
    works: bool = False


class AmountLinks(Protocol):
    """The ways in which one service connects amounts to nodes."""

    def path(self, request: CompositionRequest, node: str, stock: str) -> ConnectionPath | None:
        """Return how to connect an amount of a stock to a node, None if nothing connects it.

        PodmError if it cannot be connected to this node.
        """

    def connect(
        self, request: CompositionRequest, path: ConnectionPath, amount: str, watch: Watch
    ) -> WriteEffect:
        """Connect a memory chunk or volume, and read it back."""

    def disconnect(self, amount: str, watch: Watch) -> WriteEffect:
        """Disconnect a memory chunk or volume wherever it is connected, and read it back."""

    def of(self, amount: str) -> tuple[str, ...]:
        """Return the documents that connect a memory chunk or volume."""


class AmountConnections:
    """The connections of all fabrics of one service; its endpoints are read once."""

    def __init__(self, session: Session, patience: MakePatience) -> None:
        self._session, self._patience = session, patience

    def path(self, request: CompositionRequest, node: str, stock: str) -> ConnectionPath | None:
        """Return the endpoints, None without a fabric for the stock, or raise PodmError."""
        closed = ""
        sources = self._sources(stock) if self._fabrics else []
        for collection, ends in self._fabrics:
            targets = []
            for end in ends:
                uris = list(end.entity_uris("Target"))
                if _is_in(uris, sources) or _is_in(sources, uris):
                    targets.append(end)
            if targets and collection is None:
                closed = closed or f"no Connections in the fabric of {targets[0].uri}"
                continue
            own = self._initiators(request, node, ends) if targets else []
            for target in targets:
                for initiator in own:
                    if initiator.may_reach(target):
                        return ConnectionPath(str(collection), initiator.uri, target.uri)
                closed = f"no endpoint of {node} that reaches {target.uri}"
        if closed:
            raise PodmError(f"{stock}: found {closed}, expected one to connect an amount")
        return None

    def connect(
        self, request: CompositionRequest, path: ConnectionPath, amount: str, watch: Watch
    ) -> WriteEffect:
        size_mib = read_resource(self._session, MemoryChunks, amount).size_mib
        kind, what = ("Memory", "MemoryChunk") if size_mib is not None else ("Storage", "Volume")
        info: Json = {"AccessCapabilities": ["Read", "Write"], what: {"@odata.id": amount}}
        ends = {"InitiatorEndpoints": path.initiator, "TargetEndpoints": path.target}
        body: Json = {
            "Name": request.name,
            "ConnectionType": kind,
            "MemoryChunkInfo" if kind == "Memory" else "VolumeInfo": [info],
            "Links": {name: [{"@odata.id": uri}] for name, uri in ends.items()},
        }
        watch("connecting")
        sent = post_member(self._session, path.collection, body, _CONNECTION, self._patience, watch)
        if sent.unsent:
            return WriteEffect(sent.reason)
        missing = "the service reported success, but shows no connection"
        why = f"{amount} is not connected: {sent.reason or missing}"
        return read_until(self._patience(), lambda: bool(self.of(amount)), sent, why)

    def disconnect(self, amount: str, watch: Watch) -> WriteEffect:
        for uri in self.of(amount):
            watch("disconnecting")
            sent = composer.write(self._session, uri, None, self._patience(), watch)
            if sent.unsent:
                return WriteEffect(sent.reason)
            why = f"{uri} still exists: {sent.reason or 'the service reported its deletion'}"

            def is_gone(connection: str = uri) -> bool:
                return connection not in self.of(amount)

            if (found := read_until(self._patience(), is_gone, sent, why)).problem:
                return found
        return WriteEffect()

    def of(self, amount: str) -> tuple[str, ...]:
        found = []
        for collection in (it for it, _ in self._fabrics if it is not None):
            for uri in composer.member_uris(self._session, collection):
                one = read_resource(self._session, _Connection, uri)
                parts = (_Connected(uri, it, NO_NOTES) for it in (*one.chunks, *one.volumes))
                linked = (link for it in parts for link in (*it.chunk, *it.volume))
                if fold_uri(amount) in map(fold_uri, link_paths(linked)):
                    found.append(uri)
        return tuple(found)

    @functools.cached_property
    def _fabrics(self) -> list[tuple[str | None, list[_Endpoint]]]:
        """The collection for connections, if any, and the endpoints of each fabric."""
        found = []
        session = self._session
        for collection in link_paths(read_resource(session, _Root, ROOT).fabrics):
            for uri in composer.member_uris(session, collection):
                fabric = read_resource(session, _Fabric, uri)
                connections = next(link_paths(fabric.connections), None)
                every = (composer.member_uris(session, it) for it in link_paths(fabric.endpoints))
                ends = [read_resource(session, _Endpoint, end) for some in every for end in some]
                found.append((connections, ends))
        return found

    def _sources(self, stock: str) -> list[str]:
        """Return the folded URIs of a stock and of the resources that it links."""
        json = composer.get_document(self._session, stock) or {}
        every = json.get("Links")
        found = [stock]
        for value in every.values() if isinstance(every, dict) else ():
            for link in value if isinstance(value, list) else [value]:
                if isinstance(link, dict) and isinstance(uri := link.get("@odata.id"), str):
                    found.append(uri)
        return list(map(fold_uri, link_paths(found)))

    def _initiators(
        self, request: CompositionRequest, node: str, ends: Iterable[_Endpoint]
    ) -> list[_Endpoint]:
        own = set(map(fold_uri, link_paths(read_resource(self._session, Server, node).endpoints)))
        parts = [fold_uri(uri) for uri in (node, *request.blocks)]
        found = ((end, end.entity_uris("Initiator")) for end in ends)
        return [end for end, uris in found if fold_uri(end.uri) in own or _is_in(uris, parts)]


def read_until(
    patience: Patience, is_done: Callable[[], bool], sent: SendResult, why: str
) -> WriteEffect:
    """Read until a write has its effect, once if it was refused; ``why`` is the failure."""
    result = WriteEffect(why, not sent.refused)
    for _ in patience.tries(1 if sent.refused else LATE_READS):
        try:
            if is_done():
                return WriteEffect()
            result = WriteEffect(why, not sent.refused)
        except PodmError as error:
            result = WriteEffect(f"{why}; could not be read back: {error}", True)
    return result


def post_member(
    session: Session, collection: str, body: Json, type_: str, patience: MakePatience, watch: Watch
) -> SendResult:
    """Create a member of a collection; if its type is required, send the body again with it."""
    sent = composer.write(session, collection, body, patience(), watch)
    if sent.status == 400 and _TYPE in sent.reason:
        typed = {_TYPE: f"#{type_}.{type_.partition('.')[0]}", **body}
        sent = composer.write(session, collection, typed, patience(), watch)
    return sent


def listed_document(session: Session, uri: str) -> Json | None:
    """Return a document, None if it is gone or its collection does not list it any more."""
    json = composer.get_document(session, uri)
    collection = uri.rpartition("/")[0]
    if json is None or MEMBERS not in (composer.get_document(session, collection) or {}):
        return json
    members = map(fold_uri, composer.member_uris(session, collection))
    return json if fold_uri(uri) in members else None


def _is_in(uris: Iterable[str], parts: Sequence[str]) -> bool:
    """Return whether a URI is one of these resources or below one."""
    return any(uri == part or uri.startswith(f"{part}/") for uri in uris for part in parts)
