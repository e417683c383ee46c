# SPDX-License-Identifier: Apache-2.0
"""Connections of memory chunks and volumes to systems, in fabrics of a simulated pod manager."""

from collections.abc import Iterator

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.redfish.composition import blocks
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, Json, RequestRefused

TYPE = "#Connection."
#: The information and the link of each type of connection.
_INFO = {"Memory": ("MemoryChunkInfo", "MemoryChunk"), "Storage": ("VolumeInfo", "Volume")}
_ENDS = ("InitiatorEndpoints", "TargetEndpoints")


def add_fabric(documents: DocumentTree) -> None:
    """Add a fabric with a target endpoint for each stock, and initiators for compute blocks."""
    fabrics = docs.uri_at(documents.get(ROOT), "Fabrics") or f"{ROOT}/Fabrics"
    if fabrics not in documents:
        documents.put_collection(fabrics, "FabricCollection", "Fabrics")
        documents.update(ROOT, Fabrics={"@odata.id": fabrics})
    fabric = f"{fabrics}/Amounts"
    ends = [
        _put_endpoint(documents, f"{fabric}/Endpoints/{role}-{number}", role, entity)
        for role, entities in (("Initiator", _hosts(documents)), ("Target", _stocks(documents)))
        for number, entity in enumerate(entities, 1)
    ]
    documents.put_collection(f"{fabric}/Endpoints", "EndpointCollection", "Endpoints", ends)
    documents.put_collection(f"{fabric}/Connections", "ConnectionCollection", "Connections")
    links = {name: {"@odata.id": f"{fabric}/{name}"} for name in ("Endpoints", "Connections")}
    documents.put_resource(fabric, "Fabric.v1_3_0", "Fabric", FabricType="CXL", **links)
    documents.list_member(fabrics, fabric)


def create(documents: DocumentTree, collection: str, body: Json, name: str | None) -> str | None:
    """Connect an amount; return the URI, None if the collection is not for connections."""
    fabric = collection.rpartition("/")[0]
    if docs.uri_at(documents.get(fabric), "Connections") != collection:
        return None
    kind = body.get("ConnectionType")
    if kind not in _INFO:
        text = f"ConnectionType is {kind!r}, expected Memory or Storage."
        raise RequestRefused(400, docs.MISSING, text, "ConnectionType")
    amounts = list(_amounts(body))
    if not amounts or not all(uri in documents for uri in amounts):
        text = f"{_INFO[kind][0]} does not link an existing amount."
        raise RequestRefused(400, "PropertyValueError", text, _INFO[kind][0])
    inside = documents.member_uris(docs.uri_at(documents.get(fabric), "Endpoints"))
    for end in _ENDS:
        linked = docs.uris_at(body, "Links", end)
        if not linked or not set(linked) <= set(inside):
            text = f"Links.{end} is not an array of endpoints of {fabric}."
            raise RequestRefused(400, "PropertyValueError", text, end)
    for uri in amounts:
        refuse_connected(documents, uri)
    id_ = documents.free_id(collection)
    place, info = f"{collection}/{id_}", _INFO[kind][0]
    own = {key: body[key] for key in ("ConnectionType", info, "Links")}
    type_ = "Connection.v1_1_0"
    json = docs.resource_document(place, type_, name or f"Connection {id_}", Status=docs.OK, **own)
    documents.add_member(collection, json)
    return place


def refuse_connected(documents: DocumentTree, amount: str) -> None:
    """Raise RequestRefused for a memory chunk or volume that is connected."""
    for uri in documents:
        json = documents.get(uri) or {}
        connects = str(json.get("@odata.type")).startswith(TYPE) and amount in _amounts(json)
        if connects and uri in documents.member_uris(uri.rpartition("/")[0]):
            text = f"{amount} is connected by {uri}."
            raise RequestRefused(409, "ResourceInUse", text)


def _amounts(body: Json) -> Iterator[str]:
    for info, link in _INFO.values():
        for one in docs.array_of(body, info):
            yield docs.uri_at(one, link)


def _hosts(documents: DocumentTree) -> Iterator[str]:
    """Yield a processor of each compute block, and each system that has no blocks."""
    for _, json in blocks(documents):
        if "Compute" in docs.array_of(json, "ResourceBlockType"):
            yield from docs.uris_at(json, "Processors")[:1]
    for uri in documents.member_uris(docs.uri_at(documents.get(ROOT), "Systems")):
        if not docs.uris_at(documents.get(uri), "Links", "ResourceBlocks"):
            yield uri


def _stocks(documents: DocumentTree) -> Iterator[str]:
    for uri in documents:
        json = documents.get(uri) or {}
        if "MemoryChunks" in json or "AllocatedVolumes" in json:
            yield uri


def _put_endpoint(documents: DocumentTree, uri: str, role: str, entity: str) -> str:
    entities = [{"EntityRole": role, "EntityLink": {"@odata.id": entity}}]
    documents.put_resource(uri, "Endpoint.v1_7_0", ConnectedEntities=entities)
    return uri
