# SPDX-License-Identifier: Apache-2.0
"""Resource blocks of a simulated pod manager: which are free, and how their state changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valence_sched.simulator.server.documents import (
    Documents,
    Json,
    added,
    array_of,
    object_of,
    part,
    removed,
    uri_of,
    uris,
)
from valence_sched.simulator.server.errors import Refused

ROOT = "/redfish/v1"


def is_block(json: Json | None) -> bool:
    """Return whether a document is a resource block."""
    return isinstance(part(json, "CompositionStatus"), dict)


def blocks(documents: Documents) -> Iterator[tuple[str, Json]]:
    """Yield every resource block, in the order of the documents."""
    for uri in documents:
        json = documents.get(uri)
        if json is not None and is_block(json):
            yield uri, json


def shareable(json: Json) -> bool:
    """Return whether several nodes may have a block."""
    status = json["CompositionStatus"]
    return status.get("SharingCapable") is True and status.get("SharingEnabled") is not False


def room(json: Json) -> bool:
    """Return whether the state of a block lets one more node have it."""
    status = json["CompositionStatus"]
    state = status.get("CompositionState")
    if json.get("Pool") == "Active" and not shareable(json):
        return False
    if state == "Unused":
        return True
    if state != "ComposedAndAvailable" or not shareable(json):
        return False
    return _number(status.get("NumberOfCompositions")) < _most(status)


def check_sound(uri: str, json: Json) -> None:
    """Check that a block may be composed at all.

    Raises:
        Refused: it is failed, away or disabled.
    """
    state = json["CompositionStatus"].get("CompositionState")
    away = part(json, "Status", "State") not in (None, "Enabled")
    if state in ("Failed", "Unavailable") or away:
        word = state if state in ("Failed", "Unavailable") else part(json, "Status", "State")
        text = f"The resource block {uri} is {word} and cannot be composed."
        raise Refused(400, "ResourceBlockInvalid", text, uri)


def set_status(documents: Documents, uri: str, **changes: Any) -> None:
    """Change properties of the ``CompositionStatus`` of a block."""
    json = documents.get(uri)
    if json is not None:
        status = {**object_of(json, "CompositionStatus"), **changes}
        documents.put(uri, {**json, "CompositionStatus": status})


def join(documents: Documents, uri: str, system: str) -> None:
    """Give a block to a node."""
    json = documents.get(uri)
    if json is None:
        return
    status = {**json["CompositionStatus"]}
    count = _number(status.get("NumberOfCompositions")) + 1
    more = shareable(json) and count < _most(status)
    status["CompositionState"] = "ComposedAndAvailable" if more else "Composed"
    if "NumberOfCompositions" in status or "MaxCompositions" in status or shareable(json):
        status["NumberOfCompositions"] = count
    links = {**object_of(json, "Links")}
    links["ComputerSystems"] = [*(array_of(links, "ComputerSystems")), {"@odata.id": system}]
    changed = {**json, "CompositionStatus": status, "Links": links}
    documents.put(uri, changed)
    _pool(documents, uri, changed, "Active")


def part_from(documents: Documents, uri: str, system: str) -> None:
    """Take a block from a node; the claim of a client ends with the node that had it alone."""
    json = documents.get(uri)
    if json is None or not is_block(json):
        return
    status = {**json["CompositionStatus"]}
    count = max(0, _number(status.get("NumberOfCompositions"), 1) - 1) if shareable(json) else 0
    status["CompositionState"] = "ComposedAndAvailable" if count else "Unused"
    if "NumberOfCompositions" in status:
        status["NumberOfCompositions"] = count
    if status.get("Reserved"):
        status["Reserved"] = False
    links = {**object_of(json, "Links")}
    kept = [link for link in array_of(links, "ComputerSystems") if uri_of(link) != system]
    links["ComputerSystems"] = kept
    changed = {**json, "CompositionStatus": status, "Links": links}
    documents.put(uri, changed)
    if not count:
        _pool(documents, uri, changed, "Free")


def _pool(documents: Documents, uri: str, json: Json, name: str) -> None:
    """Move a block to a pool, where the pod manager has pools."""
    service = documents.get(uri_of(part(documents.get(ROOT), "CompositionService")))
    pools = {word: uri_of(part(service, f"{word}Pool")) for word in ("Free", "Active")}
    if "Pool" in json or any(pools.values()):
        documents.put(uri, {**json, "Pool": name})
    for word, collection in pools.items():
        if collection:
            (added if word == name else removed)(documents, collection, uri)


def zones(documents: Documents) -> list[tuple[str, Json, list[str]]]:
    """Return every zone of resource blocks: URI, document, its blocks."""
    service = documents.get(uri_of(part(documents.get(ROOT), "CompositionService")))
    found = []
    for uri in uris(part(documents.get(uri_of(part(service, "ResourceZones"))), "Members")):
        json = documents.get(uri)
        if json is not None and json.get("ZoneType", "ZoneOfResourceBlocks") == (
            "ZoneOfResourceBlocks"
        ):
            found.append((uri, json, uris(part(json, "Links", "ResourceBlocks"))))
    return found


def _number(value: Any, otherwise: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def _most(status: Json) -> int:
    return _number(status.get("MaxCompositions"), 1_000_000)
