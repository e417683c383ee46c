# SPDX-License-Identifier: Apache-2.0
"""PATCH: the writable properties of each kind of document."""

from __future__ import annotations

from typing import Any

from valence_sched.simulator.redfish import blocks
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    SimulatedReply,
    uris,
    value_at,
)
from valence_sched.simulator.server.errors import RequestRefused, not_found

POOLS = ("Free", "Active", "Unassigned")

#: The writable properties, by the kind of document.
WRITABLE = {
    "block": ("Name", "Description", "Pool", "Client", "CompositionStatus"),
    "system": ("Name", "Description", "HostName", "AssetTag", "Boot", "Links"),
    "service": ("Name", "Description", "AllowOverprovisioning", "ReservationDuration"),
    "other": ("Name", "Description"),
}

_STATUS = ("Reserved", "SharingEnabled")


def patch_document(
    documents: DocumentTree,
    composition: Composition,
    uri: str,
    body: Json,
    client: str,
    *,
    replaces: bool = False,
) -> SimulatedReply:
    """Change a document, or refuse and change nothing; ``replaces`` drops what was not sent."""
    json = documents.get(uri)
    if json is None:
        return not_found(uri)
    kind = _kind(json)
    for name, value in body.items():
        if name not in WRITABLE[kind] and value != json.get(name):
            text = f"The property {name} cannot be written."
            raise RequestRefused(400, "PropertyNotWritable", text, name)
    change = dict(body)
    if kind == "block":
        change = _checked_block(json, change, replaces)
        _keep_owner(composition, uri, json, change, client)
    if kind == "system" and "Links" in change:
        wanted = uris(value_at(change.pop("Links"), "ResourceBlocks"))
        composition.change(uri, wanted, client)
        json = documents.get(uri) or json
    documents.put(uri, {**json, **change})
    return SimulatedReply(200, documents.get(uri))


def _kind(json: Json) -> str:
    if blocks.is_block(json):
        return "block"
    if json.get("SystemType") == "Composed":
        return "system"
    type_ = str(json.get("@odata.type"))
    return "service" if type_.startswith("#CompositionService.") else "other"


def _checked_block(json: Json, change: Json, replaces: bool) -> Json:
    if "Pool" in change and change["Pool"] not in POOLS:
        text = f"Pool is {change['Pool']}, expected one of {', '.join(POOLS)}."
        raise RequestRefused(400, "PropertyValueNotInList", text, str(change["Pool"]), "Pool")
    if "CompositionStatus" not in change:
        return change
    sent, status = change["CompositionStatus"], json["CompositionStatus"]
    if not isinstance(sent, dict):
        text = "CompositionStatus is no object."
        raise RequestRefused(
            400, "PropertyValueTypeError", text, str(sent)[:200], "CompositionStatus"
        )
    for name, value in sent.items():
        _check_status(name, value, status)
    return {**change, "CompositionStatus": sent if replaces else {**status, **sent}}


def _check_status(name: str, value: Any, status: Json) -> None:
    if name in status and value == status[name]:
        return
    if name not in _STATUS:
        text = f"The property {name} cannot be written."
        raise RequestRefused(400, "PropertyNotWritable", text, name)
    if not isinstance(value, bool) and (value is not None or name != "Reserved"):
        text = f"{name} is neither true nor false."
        raise RequestRefused(400, "PropertyValueTypeError", text, str(value)[:200], name)
    if name == "SharingEnabled" and status.get("CompositionState") != "Unused":
        text = "SharingEnabled cannot be changed while the block is composed."
        raise RequestRefused(400, "PropertyNotWritable", text, name)


def _keep_owner(composition: Composition, uri: str, json: Json, change: Json, client: str) -> None:
    now = value_at(change, "CompositionStatus", "Reserved")
    if "CompositionStatus" not in change or now == json["CompositionStatus"].get("Reserved"):
        return
    if now is True:
        composition.owners[uri] = client
    else:
        composition.owners.pop(uri, None)
