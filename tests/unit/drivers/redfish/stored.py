# SPDX-License-Identifier: Apache-2.0
"""A session on documents in memory that can be written, and pauses that take no time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from valence_sched.drivers.composer import Reply
from valence_sched.drivers.http.exchange import Patience

Json = dict[str, Any]


def links(*uris: str) -> list[Json]:
    return [{"@odata.id": uri} for uri in uris]


def link(uri: str) -> Json:
    return {"@odata.id": uri}


class StoredPodm:
    """Documents by URI; an int in the place of one is the status of the answer.

    ``requests`` are the method and URI of each request, ``bodies`` what was posted or patched.
    ``on_post``, ``on_patch`` and ``on_delete`` answer in the place of what is usual. ``pauses`` is
    how many pauses there is patience for, and each pause runs the first of ``meanwhile``.
    """

    def __init__(self, documents: dict[str, Any], pauses: int = 20) -> None:
        self.documents: dict[str, Any] = dict(documents)
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Json] = []
        self.states: list[str] = []
        self.meanwhile: list[Callable[[], object]] = []
        self.on_post: Callable[[str, Json], Reply] = self.create
        self.on_patch: Callable[[str, Json], Reply] = self.change
        self.on_delete: Callable[[str], Reply] = self.drop
        self._pauses, self._now = pauses, 0.0

    def get(self, uri: str) -> Reply:
        self.requests.append(("GET", uri))
        found = self.documents.get(uri, 404)
        return Reply(found, {}, None) if isinstance(found, int) else Reply(200, {}, found)

    def post(self, uri: str, body: Json) -> Reply:
        self.requests.append(("POST", uri))
        self.bodies.append(body)
        return self.on_post(uri, body)

    def patch(self, uri: str, body: Json) -> Reply:
        self.requests.append(("PATCH", uri))
        self.bodies.append(body)
        return self.on_patch(uri, body)

    def delete(self, uri: str) -> Reply:
        self.requests.append(("DELETE", uri))
        return self.on_delete(uri)

    def create(self, uri: str, body: Json) -> Reply:
        """Make a member of a collection, and name it in the header."""
        made = self.add(uri, **body)
        return Reply(201, {"Location": made}, None)

    def add(self, collection: str, **properties: Any) -> str:
        """Add a member to a collection; return its URI."""
        uri = f"{collection}/{len(self.documents)}"
        self.documents[uri] = properties
        holder = self.documents[collection]
        self.documents[collection] = {**holder, "Members": [*holder["Members"], link(uri)]}
        return uri

    def change(self, uri: str, body: Json) -> Reply:
        """Put what is sent in the place of each property."""
        self.documents[uri] = {**self.documents[uri], **body}
        return Reply(200, {}, None)

    def drop(self, uri: str) -> Reply:
        """Take a document away."""
        del self.documents[uri]
        return Reply(204, {}, None)

    def refuse(self, *_request: object) -> Reply:
        """Answer no, whatever is asked."""
        return Reply(400, {}, None, "not here")

    def patience(self) -> Patience:
        return Patience(self._pauses, lambda: self._now, self._sleep)

    def _sleep(self, _seconds: float) -> None:
        self._now += 1.0  # each pause is one
        if self.meanwhile:
            self.meanwhile.pop(0)()

    def sent(self, method: str) -> list[str]:
        """Return the URIs of all requests of one method."""
        return [uri for verb, uri in self.requests if verb == method]
