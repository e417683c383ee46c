# SPDX-License-Identifier: Apache-2.0
"""Memory chunks of domains and volumes of storage pools: created by POST, deleted by DELETE."""

from __future__ import annotations

from typing import NamedTuple

from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.stocks import GIB, domain_stock, holder_uri, pool_stock
from valence_sched.model.inventory import Stock, grant_size
from valence_sched.simulator.server.documents import (
    MISSING,
    OK,
    DocumentTree,
    Json,
    RequestRefused,
    SimulatedReply,
    links_to,
    object_of,
    uri_of,
    uris,
    value_at,
)
from valence_sched.simulator.server.habits import Habits

#: How the types of what can be deleted here begin.
TYPES = ("#MemoryChunks.", "#Volume.")


class AmountSource(NamedTuple):
    """The domain or pool that an amount comes from, as a stock, and the property of its size."""

    uri: str
    stock: Stock
    size_property: str
    unit_size: int


def create_amount(
    documents: DocumentTree, collection: str, body: Json, habits: Habits
) -> SimulatedReply | None:
    """Create a chunk or volume; None where the collection is of neither."""
    source = _source(documents, collection, body)
    if source is None:
        return None
    uri, stock, name, unit = source
    size = body.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise RequestRefused(400, MISSING, f"{name} is required.", name)
    kind = "MemoryChunks" if name == "MemoryChunkSizeMiB" else "Volume"
    if kind == "MemoryChunks" and body.get("AddressRangeType") not in ("Volatile", "PMEM", "Block"):
        text = "AddressRangeType is required."
        raise RequestRefused(400, MISSING, text, "AddressRangeType")
    if grant_size(stock, size / unit) != round(size / unit, 9):
        text = f"{name} {size} is not granted: {uri} has {stock.used:g} of {stock.total} in use."
        raise RequestRefused(400, "PropertyValueError", text, name)
    id_ = documents.free_id(collection)
    if "short-amounts" in habits:
        size = size // 2
    wanted = habits.name_of(body.get("Name"))
    document: Json = {
        "@odata.type": f"#{kind}.v1_6_0.{kind}",
        "@odata.id": f"{collection}/{id_}",
        "Id": id_,
        "Name": wanted or f"{kind} {id_}",
        "Status": OK,
        **{key: body[key] for key in ("AddressRangeType", "InterleaveSets") if key in body},
        name: size,
        **({"CapacitySources": [{"ProvidingPools": links_to([uri])}]} if kind == "Volume" else {}),
    }
    documents.add_member(collection, document)
    if kind == "Volume":
        _consume(documents, uri, size)
    return habits.created(document["@odata.id"])


def delete_amount(documents: DocumentTree, uri: str) -> SimulatedReply:
    """Delete a chunk or volume."""
    json = documents.get(uri) or {}
    for pool in uris(value_at((json.get("CapacitySources") or [{}])[0], "ProvidingPools")):
        _consume(documents, pool, -int(json.get("CapacityBytes") or 0))
    documents.remove_member(uri.rpartition("/")[0], uri)
    return SimulatedReply(204)


def _source(documents: DocumentTree, collection: str, body: Json) -> AmountSource | None:
    pools = uris(value_at((body.get("CapacitySources") or [{}])[0], "ProvidingPools"))
    service = LinkedDocuments(documents.get, NO_NOTES, documents)
    for uri in documents:
        json = documents.get(uri) or {}
        if uri_of(json.get("MemoryChunks")) == collection:
            domain = schema.MemoryDomain(uri, json, NO_NOTES)
            if not domain.leads:
                continue
            stock = domain_stock(service, domain)
            return AmountSource(uri, stock, "MemoryChunkSizeMiB", 1)
        offers = uri_of(json.get("AllocatedVolumes")) == collection
        holder = documents.get(holder_uri(uri))
        if offers or (uri in pools and uri_of(value_at(holder, "Volumes")) == collection):
            pool = schema.StoragePool(uri, json, NO_NOTES)
            return AmountSource(uri, pool_stock(service, pool), "CapacityBytes", GIB)
    return None


def _consume(documents: DocumentTree, pool: str, size: int) -> None:
    json = documents.get(pool) or {}
    capacity = object_of(json, "Capacity")
    data = object_of(capacity, "Data")
    used = max(0, int(data.get("ConsumedBytes") or 0) + size)
    documents.put(pool, {**json, "Capacity": {**capacity, "Data": {**data, "ConsumedBytes": used}}})
