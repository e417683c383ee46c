# SPDX-License-Identifier: Apache-2.0
"""The documents of one simulated pod manager, by URI, and the answers it gives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, JSON body (None for none) and headers."""

    status: int
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Documents:
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
        """Put a document in place of what stood there."""
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

    def go_back(self, copy: Mapping[str, Json]) -> None:
        """Make the documents what they were when the copy was taken."""
        self._documents = dict(copy)
        self.changes += 1


def etag_of(body: bytes) -> str:
    """Return the entity tag of a body."""
    return f'W/"{hashlib.blake2b(body, digest_size=8).hexdigest()}"'


def _key(uri: str) -> str:
    return uri.partition("#")[0].rstrip("/") or "/"
