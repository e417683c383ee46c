# SPDX-License-Identifier: Apache-2.0
"""What a recording lacks to be a service: a root, a collection of systems, what $expand offers."""

from __future__ import annotations

from valence_sched.simulator.blocks import ROOT, blocks
from valence_sched.simulator.documents import Documents, Json
from valence_sched.simulator.expand import ADVERTISED
from valence_sched.simulator.faults import Faults
from valence_sched.simulator.links import listed, part, uri_of

#: What the root links when the tree has it and no root of its own.
PARTS = ("Systems", "Chassis", "Managers", "Fabrics", "CompositionService", "StorageServices")


def furnish(documents: Documents, faults: Faults) -> None:
    """Complete the documents of a pod manager, and put in them what a fault rule puts there."""
    root = documents.get(ROOT) or _root(documents)
    features = dict(root.get("ProtocolFeaturesSupported") or {})
    features.setdefault("ExpandQuery", ADVERTISED)
    if "no-expand" in faults:
        del features["ExpandQuery"]
    documents.put(ROOT, {**root, "ProtocolFeaturesSupported": features})
    if "Systems" not in root and any(True for _ in blocks(documents)):
        _put_systems(documents)
    collection = _blocks_collection(documents)
    members = listed(documents, collection)
    if "foreign-link" in faults:
        host = "https://elsewhere.example.net"
        _add(documents, collection, host + (members[0] if members else f"{collection}/1"))
    if "dangle" in faults:
        _add(documents, collection, f"{collection}/There-Is-None")


def _root(documents: Documents) -> Json:
    root: Json = {
        "@odata.type": "#ServiceRoot.v1_16_1.ServiceRoot",
        "@odata.id": ROOT,
        "Id": "RootService",
        "Name": "Root Service",
        "RedfishVersion": "1.18.0",
    }
    for name in PARTS:
        if f"{ROOT}/{name}" in documents:
            root[name] = {"@odata.id": f"{ROOT}/{name}"}
    return root


def _put_systems(documents: Documents) -> None:
    uri = f"{ROOT}/Systems"
    documents.put(ROOT, {**(documents.get(ROOT) or {}), "Systems": {"@odata.id": uri}})
    if uri not in documents:
        documents.put(uri, {
            "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
            "@odata.id": uri,
            "Name": "Systems",
            "Members@odata.count": 0,
            "Members": [],
        })  # fmt: skip


def _blocks_collection(documents: Documents) -> str:
    root = documents.get(ROOT)
    service = documents.get(uri_of(part(root, "CompositionService")))
    return uri_of(part(service, "ResourceBlocks")) or uri_of(part(root, "ResourceBlocks"))


def _add(documents: Documents, collection: str, link: str) -> None:
    """Add a member without a second look: this one is meant to be wrong."""
    json = documents.get(collection)
    if json is not None:
        members = [*(json.get("Members") or []), {"@odata.id": link}]
        changed = {**json, "Members": members, "Members@odata.count": len(members)}
        documents.put(collection, changed)
