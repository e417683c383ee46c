# SPDX-License-Identifier: Apache-2.0
"""Loads the documents of recorded pod managers and completes them to a service."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

from valence_sched.drivers.document_shape import current_form
from valence_sched.drivers.files.tree import tree_documents
from valence_sched.drivers.recorded import Record
from valence_sched.drivers.redfish.render.render import documents_of
from valence_sched.errors import DuplicateId, InputError
from valence_sched.model.codec import decode
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.redfish.blocks import ROOT, blocks
from valence_sched.simulator.redfish.machine import complete_system
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    array_of,
    collection_document,
    object_of,
    uri_of,
    value_at,
)
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.reads import EXPAND_FEATURES
from valence_sched.simulator.server.variations import vary

#: The documents that the root links in a tree that has them and no root of its own.
PARTS = ("Systems", "Chassis", "Managers", "Fabrics", "CompositionService", "StorageServices")


def complete(documents: DocumentTree, faults: Faults, id_: str) -> None:
    """Complete the documents of a pod manager, and add the faults of the fault rules.

    A service root without a UUID gets one of the pod manager's id: it is the same at every port.
    """
    root = documents.get(ROOT) or _root(documents)
    if "no-uuid" in faults:
        root = {name: value for name, value in root.items() if name != "UUID"}
    elif not root.get("UUID"):
        root = {**root, "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, f"podm:{id_}"))}
    features = dict(object_of(root, "ProtocolFeaturesSupported"))
    features.setdefault("ExpandQuery", EXPAND_FEATURES)
    if "no-expand" in faults:
        del features["ExpandQuery"]
    documents.put(ROOT, {**root, "ProtocolFeaturesSupported": features})
    if "Systems" not in root and any(True for _ in blocks(documents)):
        _put_systems(documents)
    vary(documents, faults)
    collection = _blocks_collection(documents)
    members = documents.member_uris(collection)
    if "foreign-link" in faults:
        host = "https://elsewhere.example.net"
        _add(documents, collection, host + (members[0] if members else f"{collection}/1"))
    if "dangle" in faults:
        _add(documents, collection, f"{collection}/There-Is-None")


def _root(documents: DocumentTree) -> Json:
    root: Json = {
        "@odata.type": "#ServiceRoot.v1_16_1.ServiceRoot",
        "@odata.id": ROOT,
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.18.0",
    }
    parts = [name for name in PARTS if f"{ROOT}/{name}" in documents]
    return {**root, **{name: {"@odata.id": f"{ROOT}/{name}"} for name in parts}}


def _put_systems(documents: DocumentTree) -> None:
    uri = f"{ROOT}/Systems"
    documents.put(ROOT, {**(documents.get(ROOT) or {}), "Systems": {"@odata.id": uri}})
    if uri not in documents:
        documents.put(uri, collection_document(uri, "ComputerSystemCollection", "Systems"))


def _blocks_collection(documents: DocumentTree) -> str:
    root = documents.get(ROOT)
    service = documents.get(uri_of(value_at(root, "CompositionService")))
    return uri_of(value_at(service, "ResourceBlocks")) or uri_of(value_at(root, "ResourceBlocks"))


def _add(documents: DocumentTree, collection: str, link: str) -> None:
    """Add a member without any check: this one is meant to be wrong."""
    if (json := documents.get(collection)) is not None:
        members = [*array_of(json, "Members"), {"@odata.id": link}]
        count = {"Members@odata.count": len(members)}
        documents.put(collection, {**json, "Members": members, **count})


def load_documents(
    records: Iterable[Record], diagnostics: Diagnostics
) -> Iterator[tuple[str, DocumentTree]]:
    """Yield id and documents of every pod manager; ``diagnostics`` gets each that is left out.

    Raises:
        InputError, DuplicateId: a source cannot be read as a whole; two have one id.
    """
    seen: dict[str, str] = {}
    for record in records:
        try:
            podm = decode(record.json, FullPodm, record.file, record.place)
            if podm.id in seen:
                hint = f"the first is in {seen[podm.id]}"
                place = f"{record.place}.id"
                raise DuplicateId(record.file, place, repr(podm.id), "an id of its own", hint)
            seen[podm.id] = record.file
            if record.tree is None:
                rendered = DocumentTree(documents_of(podm))
                for uri in rendered.member_uris(uri_of(value_at(rendered.get(ROOT), "Systems"))):
                    complete_system(rendered, uri)
                yield podm.id, rendered
            else:
                recorded = tree_documents(record.tree, record.file, diagnostics)
                # What composes changes documents in their present form only.
                documents = {uri: current_form(json, root=uri == ROOT) for uri, json in recorded}
                yield podm.id, DocumentTree(documents)
        except DuplicateId:
            raise
        except InputError as error:
            diagnostics.skip(error)
