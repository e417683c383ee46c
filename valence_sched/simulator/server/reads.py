# SPDX-License-Identifier: Apache-2.0
"""GET of a simulated pod manager: documents, pages of collections, ``$expand``, older forms."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from valence_sched.drivers.links import ROOT
from valence_sched.model.quantity import format_count
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, HttpReply, Json, RequestRefused
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.services import Tasks

MAX_LEVELS = 6
MAX_DOCUMENTS = 20_000  # that one answer expands; the rest stay links
#: The features of this service, as its root states them.
EXPAND_FEATURES: Json = {"ExpandAll": True, "Levels": True, "MaxLevels": MAX_LEVELS}
EXPAND_FEATURES |= {"Links": True, "NoLinks": True}
_FORM = re.compile(r"([.~*])(?:\(\$levels=(\d{1,9})\))?")
_FLAGS = {".": "NoLinks", "~": "Links", "*": "ExpandAll"}


def _query_number(query: Mapping[str, str], name: str, otherwise: int) -> int:
    text = query.get(name, "")
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        problem = f"{name} is not a number."
        raise RequestRefused(400, "QueryParameterValueTypeError", problem, text, name)
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
    """Answers the GET requests to one pod manager."""

    def __init__(
        self, documents: DocumentTree, faults: Faults, tasks: Tasks, page_size: int
    ) -> None:
        self._documents, self._faults, self._tasks = documents, faults, tasks
        self._page_size = page_size

    def answer(self, request: HttpRequest) -> HttpReply:
        path, query = request.path.rstrip("/"), request.query
        if path == "/redfish":
            return HttpReply(200, self._older_form({"v1": "/redfish/v1/"}, path))
        if (monitored := self._tasks.monitor(request.path)) is not None:
            return monitored
        json = self._documents.get(request.path)
        if json is None:
            return docs.not_found(request.path)
        words = (f"{name}={value}" for name, value in query.items() if name != "$expand")
        page = self._documents.get(f"{path}?{'&'.join(words)}")  # as it was recorded
        if page is None:
            known = ("$expand", "$skip", "$top")
            unknown = [one for one in query if one.startswith("$") and one not in known]
            if unknown:
                text = f"The query parameter {unknown[0]} is not supported."
                return docs.refusal(501, "QueryNotSupported", text)
            page = self._page(json, request)
        return HttpReply(200, self._older_form(self._expanded(page, request), path))

    def _page(self, json: Json, request: HttpRequest) -> Json:
        query, size, members = request.query, self._page_size, json.get("Members")
        skip, lost = _query_number(query, "$skip", 0), self._faults.number("page-missing")
        if "Members" in json and lost == (skip // size + 1 if size else 1):
            text = f"There is no page {lost}."
            raise RequestRefused(404, "ResourceMissingAtURI", text, request.path)
        if not isinstance(members, list) or not (size or "$skip" in query or "$top" in query):
            return json
        top = _query_number(query, "$top", len(members))
        if skip and skip >= len(members):
            text = f"{skip} is past the last of {format_count(len(members), 'member')}."
            raise RequestRefused(400, "QueryParameterOutOfRange", text, str(skip), "$skip")
        step = min(top, size or top)
        page = {**json, "Members": members[skip : skip + step]}
        page.pop("Members@odata.nextLink", None)
        if skip + step < len(members) and step and step < top:
            again = {**query, "$skip": str(skip + step)}
            if "$top" in query:
                again["$top"] = str(top - step)
            link = f"{request.path.rstrip('/')}?{urlencode(again, safe='$.*~()=')}"
            page["Members@odata.nextLink"] = link
        return page

    def _expanded(self, json: Json, request: HttpRequest) -> Json:
        value = request.query.get("$expand")
        if value is None or "expand-ignored" in self._faults:
            return json
        if "expand-404" in self._faults:
            text = "There is no such resource."
            raise RequestRefused(404, "ResourceMissingAtURI", text, request.path)
        features = docs.object_of(self._documents.get(ROOT), "ProtocolFeaturesSupported")
        kind, levels = _parse_expand(value, docs.object_of(features, "ExpandQuery"))
        found = expand_document(self._documents, json, request.path.rstrip("/"), kind, levels)
        members = found.get("Members")
        if "expand-drops" in self._faults and isinstance(members, list):
            drops = ("Id", "Name")
            bare = [{key: one[key] for key in one if key not in drops} for one in members]
            return {**found, "Members": bare}
        return found

    def _older_form(self, json: Json, uri: str) -> Json:
        faults = self._faults
        if "no-members" in faults and faults.take("no-members", "GET", uri, uri):
            json = {key: value for key, value in json.items() if not key.startswith("Members")}
        if "short-links" in faults:
            json = _with_short_links(json, uri)
        if "older-collections" in faults:
            json = _with_members_below_links(json)
        if "older-root" in faults and uri == ROOT:
            entries = {key: value for key, value in json.items() if _is_link(value)}
            json = _with_links(json, entries | docs.object_of(json, "Links"), entries)
        return json


def _with_links(json: Json, links: Json, moved: Json) -> Json:
    return {key: value for key, value in json.items() if key not in moved} | {"Links": links}


def _with_members_below_links(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_members_below_links(part) for part in value]
    if not isinstance(value, dict):
        return value
    json = {key: _with_members_below_links(part) for key, part in value.items()}
    if "Members" not in json:
        return json
    below = {key: part for key, part in json.items() if key.startswith("Members")}
    return _with_links(json, docs.object_of(json, "Links") | below, below)


def _with_short_links(value: Any, base: str) -> Any:
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


def _parse_expand(value: str, offered: Json) -> tuple[str, int]:
    found = _FORM.fullmatch(value)
    if not found:
        text = f"{value} is not a value of $expand."
        raise RequestRefused(400, "QueryParameterValueFormatError", text, value, "$expand")
    kind, levels = found[1], int(found[2] or 1)
    stated = offered.get("MaxLevels", 1)
    most = stated if offered.get("Levels") and isinstance(stated, int) else 1
    if not offered.get(_FLAGS[kind]):
        raise RequestRefused(501, "QueryNotSupported", f"$expand={kind} is not supported.")
    if not 1 <= levels <= most:
        text = f"{levels} levels are out of the range 1 to {most}."
        args = (str(levels), "$expand", f"1..{most}")
        raise RequestRefused(400, "QueryParameterOutOfRange", text, *args)
    return kind, levels


def expand_document(
    documents: DocumentTree, json: Json, uri: str, kind: str, most_levels: int
) -> Json:
    """Return a document with its linked documents; a link to an enclosing document stays a link.

    The kind is ``.`` without Links, ``~`` for only Links, ``*`` for both.
    """
    left = MAX_DOCUMENTS

    def expanded(value: Any, levels: int, above: tuple[str, ...], in_links: bool) -> Any:
        nonlocal left
        if isinstance(value, list):
            return [expanded(part, levels, above, in_links) for part in value]
        if not isinstance(value, dict):
            return value
        if not _is_link(value):
            return whole(value, levels, above, in_links)
        uri = value["@odata.id"]
        wanted = kind == "*" or (kind == "~") == in_links
        found = documents.get(uri) if wanted and "#" not in uri else None
        if found is None or left <= 0 or uri.rstrip("/") in above:
            return value
        left -= 1
        return found if levels <= 1 else whole(found, levels - 1, (*above, uri.rstrip("/")))

    def whole(json: Json, levels: int, above: tuple[str, ...], in_links: bool = False) -> Json:
        return {
            key: expanded(part, levels, above, in_links or key == "Links")
            for key, part in json.items()
        }

    return whole(json, most_levels, (uri,))
