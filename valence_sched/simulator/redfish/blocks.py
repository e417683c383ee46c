# SPDX-License-Identifier: Apache-2.0
"""Resource blocks of a simulated pod manager and their state changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from valence_sched.simulator.server.documents import (
    DocumentTree,
    Json,
    RequestRefused,
    array_of,
    composition_service,
    links_to,
    number_of,
    object_of,
    uri_of,
    uris,
    value_at,
)


def is_block(json: Json | None) -> bool:
    """Return whether a document is a resource block."""
    return isinstance(value_at(json, "CompositionStatus"), dict)


def blocks(documents: DocumentTree) -> Iterator[tuple[str, Json]]:
    """Yield every resource block, in the order of the documents."""
    for uri in documents:
        json = documents.get(uri)
        if json is not None and is_block(json):
            yield uri, json


def is_shareable(json: Json) -> bool:
    """Return whether several nodes may have a block."""
    status = json["CompositionStatus"]
    return status.get("SharingCapable") is True and status.get("SharingEnabled") is not False


def has_room(json: Json) -> bool:
    """Return whether the state of a block lets one more node have it."""
    status = json["CompositionStatus"]
    state = status.get("CompositionState")
    if json.get("Pool") == "Active" and not is_shareable(json):
        return False
    if state == "Unused":
        return True
    if state != "ComposedAndAvailable" or not is_shareable(json):
        return False
    return number_of(status.get("NumberOfCompositions")) < _most(status)


def check_sound(uri: str, json: Json) -> None:
    """Raise RequestRefused for a block that is failed, away or disabled."""
    state = json["CompositionStatus"].get("CompositionState")
    away = value_at(json, "Status", "State") not in (None, "Enabled")
    if state in ("Failed", "Unavailable") or away:
        word = state if state in ("Failed", "Unavailable") else value_at(json, "Status", "State")
        text = f"The resource block {uri} is {word} and cannot be composed."
        raise RequestRefused(400, "ResourceBlockInvalid", text, uri)


def set_status(documents: DocumentTree, uri: str, **changes: Any) -> None:
    """Change properties of the ``CompositionStatus`` of a block."""
    json = documents.get(uri)
    if json is not None:
        status = {**object_of(json, "CompositionStatus"), **changes}
        documents.put(uri, {**json, "CompositionStatus": status})


def attach(documents: DocumentTree, uri: str, system: str) -> None:
    """Give a block to a node."""
    json = documents.get(uri)
    if json is None:
        return
    status = {**json["CompositionStatus"]}
    count = number_of(status.get("NumberOfCompositions")) + 1
    more = is_shareable(json) and count < _most(status)
    status["CompositionState"] = "ComposedAndAvailable" if more else "Composed"
    if "NumberOfCompositions" in status or "MaxCompositions" in status or is_shareable(json):
        status["NumberOfCompositions"] = count
    links = {**object_of(json, "Links")}
    links["ComputerSystems"] = [*array_of(links, "ComputerSystems"), *links_to([system])]
    changed = {**json, "CompositionStatus": status, "Links": links}
    documents.put(uri, changed)
    _move_to_pool(documents, uri, changed, "Active")


def detach(documents: DocumentTree, uri: str, system: str) -> None:
    """Take a block from a node; the claim of a client ends with the node that had it alone."""
    json = documents.get(uri)
    if json is None or not is_block(json):
        return
    status = {**json["CompositionStatus"]}
    count = (
        max(0, number_of(status.get("NumberOfCompositions"), 1) - 1) if is_shareable(json) else 0
    )
    status["CompositionState"] = "ComposedAndAvailable" if count else "Unused"
    if "NumberOfCompositions" in status:
        status["NumberOfCompositions"] = count
    if status.get("Reserved"):
        status["Reserved"] = False
    links = object_of(json, "Links")
    others = [link for link in array_of(links, "ComputerSystems") if uri_of(link) != system]
    links = {**links, "ComputerSystems": others}
    changed = {**json, "CompositionStatus": status, "Links": links}
    documents.put(uri, changed)
    if not count:
        _move_to_pool(documents, uri, changed, "Free")


def _move_to_pool(documents: DocumentTree, uri: str, json: Json, name: str) -> None:
    service = composition_service(documents)
    pools = {word: uri_of(value_at(service, f"{word}Pool")) for word in ("Free", "Active")}
    if "Pool" in json or any(pools.values()):
        documents.put(uri, {**json, "Pool": name})
    for word, collection in pools.items():
        if collection:
            change = documents.list_member if word == name else documents.unlist_member
            change(collection, uri)


def zones(documents: DocumentTree) -> list[tuple[str, Json, list[str]]]:
    """Return every zone of resource blocks: URI, document, its blocks."""
    zones = uri_of(value_at(composition_service(documents), "ResourceZones"))
    usual = "ZoneOfResourceBlocks"
    return [
        (uri, json, uris(value_at(json, "Links", "ResourceBlocks")))
        for uri in documents.member_uris(zones)
        if (json := documents.get(uri)) is not None and json.get("ZoneType", usual) == usual
    ]


def _most(status: Json) -> int:
    return number_of(status.get("MaxCompositions"), 1_000_000)
