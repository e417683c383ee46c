# SPDX-License-Identifier: Apache-2.0
"""The documents of one simulated pod manager, by URI, and the answers it gives."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, JSON body (None for none) and headers."""

    status: int
    body: Json | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Documents:
    """Redfish documents that change; a URI is found without regard to a trailing slash."""

    def __init__(self, documents: Mapping[str, Json]) -> None:
        self._documents = {_key(uri): copy.deepcopy(json) for uri, json in documents.items()}
        self._changes: dict[str, int] = {}

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
        self._changes[_key(uri)] = self._changes.get(_key(uri), 0) + 1

    def remove(self, uri: str) -> None:
        """Remove a document, if it is there."""
        if self._documents.pop(_key(uri), None) is not None:
            self._changes[_key(uri)] = self._changes.get(_key(uri), 0) + 1

    def etag(self, uri: str) -> str:
        """Return the entity tag of a document: another one after each change."""
        return f'W/"{self._changes.get(_key(uri), 0)}"'


def _key(uri: str) -> str:
    return uri.partition("#")[0].rstrip("/") or "/"
