# SPDX-License-Identifier: Apache-2.0
"""GET of a simulated pod manager: a document, a page of a collection, ``$expand``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from valence_sched.simulator.server.documents import DocumentTree, Json, SimulatedReply, object_of
from valence_sched.simulator.server.errors import RequestRefused, not_found, refusal
from valence_sched.simulator.server.expand import expand_document, parse_expand
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.tasks import Tasks


def page_number(query: Mapping[str, str], size: int) -> int:
    """Return the number, from 1, of the page of a query, where a page has this many members."""
    return query_number(query, "$skip", 0) // size + 1 if size else 1


def page_of(json: Json, uri: str, query: Mapping[str, str], size: int) -> Json:
    """Return the page of a collection that a query names; with 0 members a page all of them."""
    members = json.get("Members")
    if not isinstance(members, list) or not (size or "$skip" in query or "$top" in query):
        return json
    skip = query_number(query, "$skip", 0)
    top = query_number(query, "$top", len(members))
    if skip and skip >= len(members):
        text = f"{skip} is past the last of {len(members)} members."
        raise RequestRefused(400, "QueryParameterOutOfRange", text, str(skip), "$skip")
    step = min(top, size or top)
    page = {**json, "Members": members[skip : skip + step]}
    page.pop("Members@odata.nextLink", None)
    if skip + step < len(members) and step and step < top:
        again = {**query, "$skip": str(skip + step)}
        if "$top" in query:
            again["$top"] = str(top - step)
        page["Members@odata.nextLink"] = f"{uri}?{urlencode(again, safe='$.*~()=')}"
    return page


def query_number(query: Mapping[str, str], name: str, otherwise: int) -> int:
    text = query.get(name, "")
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise RequestRefused(
            400, "QueryParameterValueTypeError", f"{name} is no number.", text, name
        )
    return int(text)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request: the path decoded, names of headers in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class DocumentReads:
    """Answers the reads of one pod manager."""

    def __init__(
        self, documents: DocumentTree, faults: Faults, tasks: Tasks, page_size: int
    ) -> None:
        self._documents, self._faults, self._tasks = documents, faults, tasks
        self._page_size = page_size

    def answer(self, http_request: HttpRequest) -> SimulatedReply:
        """Answer a GET; RequestRefused if the query names a page that does not exist."""
        if http_request.path.rstrip("/") == "/redfish":
            return SimulatedReply(200, {"v1": "/redfish/v1/"})
        if (monitored := self._tasks.monitor(http_request.path)) is not None:
            return monitored
        json = self._documents.get(http_request.path)
        if json is None:
            return not_found(http_request.path)
        if (page := self._documents.get(_page_uri(http_request))) is not None:
            return SimulatedReply(200, self._expanded(page, http_request))
        unknown = [name for name in http_request.query if name.startswith("$")]
        unknown = [name for name in unknown if name not in ("$expand", "$skip", "$top")]
        if unknown:
            text = f"The query parameter {unknown[0]} is not supported."
            return refusal(501, "QueryNotSupported", text)
        return SimulatedReply(200, self._expanded(self._page(json, http_request), http_request))

    def _page(self, json: Json, http_request: HttpRequest) -> Json:
        size, lost = self._page_size, self._faults.number("page-missing")
        if lost is not None and "Members" in json and page_number(http_request.query, size) == lost:
            raise RequestRefused(
                404, "ResourceMissingAtURI", f"There is no page {lost}.", http_request.path
            )
        return page_of(json, http_request.path.rstrip("/"), http_request.query, size)

    def _expanded(self, json: Json, http_request: HttpRequest) -> Json:
        value = http_request.query.get("$expand")
        if value is None or "expand-ignored" in self._faults:
            return json
        if "expand-404" in self._faults:
            raise RequestRefused(
                404, "ResourceMissingAtURI", "There is no such resource.", http_request.path
            )
        root = self._documents.get("/redfish/v1")
        offered = object_of(object_of(root, "ProtocolFeaturesSupported"), "ExpandQuery")
        found = expand_document(
            self._documents, json, http_request.path.rstrip("/"), parse_expand(value, offered)
        )
        return _without_names(found) if "expand-drops" in self._faults else found


def _page_uri(http_request: HttpRequest) -> str:
    """Return where the page of a collection that was recorded in pages stands."""
    words = (f"{name}={value}" for name, value in http_request.query.items() if name != "$expand")
    return f"{http_request.path.rstrip('/')}?{'&'.join(words)}"


def _without_names(json: Json) -> Json:
    members = json.get("Members")
    if not isinstance(members, list):
        return json
    bare = [
        {key: value for key, value in member.items() if key not in ("Id", "Name")}
        for member in members
    ]
    return {**json, "Members": bare}
