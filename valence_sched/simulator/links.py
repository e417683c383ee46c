# SPDX-License-Identifier: Apache-2.0
"""Links between the documents of a simulated pod manager: follow, add, remove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from valence_sched.drivers.links import path_of
from valence_sched.simulator.documents import Documents, Json


def uri_of(link: Any) -> str:
    """Return the path that a link object names, empty when it names none."""
    uri = link.get("@odata.id") if isinstance(link, dict) else None
    if not isinstance(uri, str) or not uri:
        return ""
    return path_of(urlsplit(uri).path if "://" in uri else uri)


def uris(links: Any) -> list[str]:
    """Return the paths that an array of links, or one link, names; each once."""
    if isinstance(links, dict):
        links = [links]
    found = [uri_of(link) for link in links] if isinstance(links, list) else []
    return list(dict.fromkeys(uri for uri in found if uri))


def part(json: Json | None, *keys: str) -> Any:
    """Return what stands inside nested objects, None when it is not there."""
    value: Any = json
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def listed(documents: Documents, collection: str) -> list[str]:
    """Return the members of a collection, none when it is not there."""
    return uris(part(documents.get(collection), "Members"))


def members(documents: Documents, links: Any) -> list[tuple[str, Json]]:
    """Return the documents that links lead to; a collection stands for its members."""
    found: dict[str, Json] = {}
    for uri in uris(links):
        json = documents.get(uri)
        if json is None:
            continue
        inner = uris(json["Members"]) if "Members" in json else [uri]
        for member in inner:
            document = documents.get(member)
            if document is not None:
                found.setdefault(member, document)
    return list(found.items())


def added(documents: Documents, collection: str, uri: str) -> None:
    """Add a member to a collection, if that is there."""
    _change(documents, collection, uri, [uri])


def removed(documents: Documents, collection: str, uri: str) -> None:
    """Remove a member from a collection, if they are there."""
    _change(documents, collection, uri, [])


def _change(documents: Documents, collection: str, uri: str, more: Iterable[str]) -> None:
    json = documents.get(collection)
    if json is None:
        return
    kept = [link for link in json.get("Members") or [] if uri_of(link) != path_of(uri)]
    now = [*kept, *({"@odata.id": one} for one in more)]
    documents.put(collection, {**json, "Members": now, "Members@odata.count": len(now)})
