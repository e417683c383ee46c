# SPDX-License-Identifier: Apache-2.0
"""The document tree of a simulated pod manager, its links and collections."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import msgspec

from valence_sched.drivers.links import path_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SimulatedReply:
    """An HTTP answer: status, JSON body (None for none) and headers."""

    status: int
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class DocumentTree:
    """Redfish documents that change; a URI is found without regard to a trailing slash.

    ``changes`` counts every change of any of them.
    """

    def __init__(self, documents: Mapping[str, Json]) -> None:
        own: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(documents))
        self._documents = {_key(uri): json for uri, json in own.items()}
        self.changes = 0

    def __contains__(self, uri: str) -> bool:
        return _key(uri) in self._documents

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._documents))

    def get(self, uri: str) -> Json | None:
        """Return the document at a URI as it stands: change it through :meth:`put` only."""
        return self._documents.get(_key(uri))

    def put(self, uri: str, json: Json) -> None:
        """Put a document at a URI, in place of an earlier one."""
        self._documents[_key(uri)] = json
        self.changes += 1

    def remove(self, uri: str) -> None:
        """Remove a document, if it is there."""
        if self._documents.pop(_key(uri), None) is not None:
            self.changes += 1

    def etag(self, uri: str) -> str:
        """Return the entity tag of a document: another one after each change."""
        return etag_of(msgspec.json.encode(self.get(uri)))

    def copy(self) -> Mapping[str, Json]:
        """Return all documents as they stand, to go back to."""
        return dict(self._documents)

    def restore(self, copy: Mapping[str, Json]) -> None:
        """Restore the documents of a copy."""
        self._documents = dict(copy)
        self.changes += 1


def etag_of(body: bytes) -> str:
    """Return the entity tag of a body."""
    return f'W/"{hashlib.blake2b(body, digest_size=8).hexdigest()}"'


def _key(uri: str) -> str:
    return uri.partition("#")[0].rstrip("/") or "/"


def uri_of(link: Any) -> str:
    """Return the path that a link object names, empty when it names none."""
    uri = link.get("@odata.id") if isinstance(link, dict) else None
    if not isinstance(uri, str) or not uri:
        return ""
    try:
        return path_of(urlsplit(uri).path if "://" in uri else uri)
    except ValueError:
        return ""


def uris(links: Any) -> list[str]:
    """Return the paths that an array of links, or one link, names; each once."""
    if isinstance(links, dict):
        links = [links]
    found = [uri_of(link) for link in links] if isinstance(links, list) else []
    return list(dict.fromkeys(uri for uri in found if uri))


def value_at(json: Json | None, *keys: str) -> Any:
    """Return what stands inside nested objects, None when it is not there."""
    value: Any = json
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def object_of(json: Json | None, key: str) -> Json:
    """Return the object at a key, an empty one when there is none."""
    found = value_at(json, key)
    return found if isinstance(found, dict) else {}


def array_of(json: Json | None, key: str) -> list[Any]:
    """Return the array at a key, an empty one when there is none."""
    found = value_at(json, key)
    return found if isinstance(found, list) else []


def member_uris(documents: DocumentTree, collection: str) -> list[str]:
    """Return the members of a collection, none when it is not there."""
    return uris(value_at(documents.get(collection), "Members"))


def linked_documents(documents: DocumentTree, links: Any) -> list[tuple[str, Json]]:
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


def list_member(documents: DocumentTree, collection: str, uri: str) -> None:
    """Add a member to a collection, if that is there."""
    _change(documents, collection, uri, [uri])


def unlist_member(documents: DocumentTree, collection: str, uri: str) -> None:
    """Remove a member from a collection, if they are there."""
    _change(documents, collection, uri, [])


def _change(documents: DocumentTree, collection: str, uri: str, more: Iterable[str]) -> None:
    json = documents.get(collection)
    if json is None:
        return
    others = [link for link in array_of(json, "Members") if uri_of(link) != path_of(uri)]
    now = [*others, *({"@odata.id": one} for one in more)]
    documents.put(collection, {**json, "Members": now, "Members@odata.count": len(now)})
