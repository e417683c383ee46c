# SPDX-License-Identifier: Apache-2.0
"""Habits of older and of careless services: the shape in which documents are sent, and the root."""

from __future__ import annotations

from typing import Any

from valence_sched.drivers.links import ROOT
from valence_sched.simulator.server.documents import Json, object_of
from valence_sched.simulator.server.faults import Faults


def is_root_elsewhere(path: str, faults: Faults) -> bool:
    """Return whether a path is the spelling of the root at which nothing answers."""
    return ("slash-root" in faults and path == ROOT) or (
        "bare-root" in faults and path == f"{ROOT}/"
    )


def shaped_document(json: Json, uri: str, faults: Faults) -> Json:
    """Return a document as a pod manager with these habits sends it."""
    if "no-members" in faults and faults.take("no-members", "GET", uri, uri):
        json = {key: value for key, value in json.items() if not key.startswith("Members")}
    if "short-links" in faults:
        json = _with_short_links(json, uri)
    if "older-collections" in faults:
        json = _with_members_below_links(json)
    if "older-root" in faults and uri == ROOT:
        entries = {key: value for key, value in json.items() if _is_link(value)}
        rest = {key: value for key, value in json.items() if key not in entries}
        json = {**rest, "Links": {**entries, **object_of(json, "Links")}}
    return json


def _with_members_below_links(value: Any) -> Any:
    """Return a document, and those inside it, with the members of collections below Links."""
    if isinstance(value, list):
        return [_with_members_below_links(part) for part in value]
    if not isinstance(value, dict):
        return value
    json = {key: _with_members_below_links(part) for key, part in value.items()}
    if "Members" not in json:
        return json
    below = {key: part for key, part in json.items() if key.startswith("Members")}
    rest = {key: part for key, part in json.items() if key not in below}
    return {**rest, "Links": {**object_of(json, "Links"), **below}}


def _with_short_links(value: Any, base: str) -> Any:
    """Return a document whose links to what stands below it lack its path."""
    if isinstance(value, list):
        return [_with_short_links(part, base) for part in value]
    if not isinstance(value, dict):
        return value
    if _is_link(value):
        uri: str = value["@odata.id"]
        return {"@odata.id": ROOT + uri.removeprefix(base)} if uri.startswith(f"{base}/") else value
    own = value.get("@odata.id")  # an expanded document has a path of its own
    base = own.rstrip("/") if isinstance(own, str) and "#" not in own else base
    return {key: _with_short_links(part, base) for key, part in value.items()}


def _is_link(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("@odata.id"), str)
