# SPDX-License-Identifier: Apache-2.0
"""Collections page by page: ``$skip``, ``$top`` and ``Members@odata.nextLink``."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from valence_sched.simulator.documents import Json
from valence_sched.simulator.refusals import Refused


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
