# SPDX-License-Identifier: Apache-2.0
"""GET of a simulated pod manager: a document, a page of it, with what it links if asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from valence_sched.simulator.server.documents import Answer, Documents, Json, object_of
from valence_sched.simulator.server.errors import Refused, missing, refused
from valence_sched.simulator.server.expand import asked, expanded
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.tasks import Tasks


def page_number(query: Mapping[str, str], size: int) -> int:
    """Return which page, from 1, a query asks for where a page has this many members."""
    return number(query, "$skip", 0) // size + 1 if size else 1


def paged(json: Json, uri: str, query: Mapping[str, str], size: int) -> Json:
    """Return the page of a collection that a query asks for; 0 members a page is all of them.

    Raises:
        Refused: ``$skip`` or ``$top`` is no number, or leads past the end.
    """
    members = json.get("Members")
    if not isinstance(members, list) or not (size or "$skip" in query or "$top" in query):
        return json
    skip = number(query, "$skip", 0)
    top = number(query, "$top", len(members))
    if skip and skip >= len(members):
        text = f"{skip} is past the last of {len(members)} members."
        raise Refused(400, "QueryParameterOutOfRange", text, str(skip), "$skip")
    step = min(top, size or top)
    page = {**json, "Members": members[skip : skip + step]}
    page.pop("Members@odata.nextLink", None)
    if skip + step < len(members) and step and step < top:
        again = {**query, "$skip": str(skip + step)}
        if "$top" in query:
            again["$top"] = str(top - step)
        page["Members@odata.nextLink"] = f"{uri}?{urlencode(again, safe='$.*~()=')}"
    return page


def number(query: Mapping[str, str], name: str, otherwise: int) -> int:
    """Return a number from a query.

    Raises:
        Refused: what stands there is no number.
    """
    text = query.get(name, "")
    if not text:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Refused(400, "QueryParameterValueTypeError", f"{name} is no number.", text, name)
    return int(text)


@dataclass(frozen=True, slots=True)
class Asked:
    """An HTTP request: the path decoded, names of headers in lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class Reads:
    """What is read of the documents of one pod manager."""

    def __init__(self, documents: Documents, faults: Faults, tasks: Tasks, page_size: int) -> None:
        self._documents, self._faults, self._tasks = documents, faults, tasks
        self._page_size = page_size

    def answer(self, ask: Asked) -> Answer:
        """Answer a GET.

        Raises:
            Refused: the query asks for what is not there.
        """
        if ask.path.rstrip("/") == "/redfish":
            return Answer(200, {"v1": "/redfish/v1/"})
        if (monitored := self._tasks.monitor(ask.path)) is not None:
            return monitored
        json = self._documents.get(ask.path)
        if json is None:
            return missing(ask.path)
        if (page := self._documents.get(_page_uri(ask))) is not None:
            return Answer(200, self._expanded(page, ask))
        unknown = [name for name in ask.query if name.startswith("$")]
        unknown = [name for name in unknown if name not in ("$expand", "$skip", "$top")]
        if unknown:
            text = f"The query parameter {unknown[0]} is not supported."
            return refused(501, "QueryNotSupported", text)
        return Answer(200, self._expanded(self._page(json, ask), ask))

    def _page(self, json: Json, ask: Asked) -> Json:
        size, lost = self._page_size, self._faults.number("page-missing")
        if lost is not None and "Members" in json and page_number(ask.query, size) == lost:
            raise Refused(404, "ResourceMissingAtURI", f"There is no page {lost}.", ask.path)
        return paged(json, ask.path.rstrip("/"), ask.query, size)

    def _expanded(self, json: Json, ask: Asked) -> Json:
        value = ask.query.get("$expand")
        if value is None or "expand-ignored" in self._faults:
            return json
        if "expand-404" in self._faults:
            raise Refused(404, "ResourceMissingAtURI", "There is no such resource.", ask.path)
        root = self._documents.get("/redfish/v1")
        offered = object_of(object_of(root, "ProtocolFeaturesSupported"), "ExpandQuery")
        found = expanded(self._documents, json, ask.path.rstrip("/"), asked(value, offered))
        return _without_names(found) if "expand-drops" in self._faults else found


def _page_uri(ask: Asked) -> str:
    """Return where the page of a collection that was recorded in pages stands."""
    words = (f"{name}={value}" for name, value in ask.query.items() if name != "$expand")
    return f"{ask.path.rstrip('/')}?{'&'.join(words)}"


def _without_names(json: Json) -> Json:
    members = json.get("Members")
    if not isinstance(members, list):
        return json
    bare = [
        {key: value for key, value in member.items() if key not in ("Id", "Name")}
        for member in members
    ]
    return {**json, "Members": bare}
