# SPDX-License-Identifier: Apache-2.0
"""``$expand``: replaces links by the documents they lead to (DSP0266, 7.3)."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from valence_sched.simulator.server.documents import DocumentTree, Json
from valence_sched.simulator.server.errors import RequestRefused

MAX_LEVELS = 6
#: Links that one answer replaces at most; the rest stay links.
MAX_DOCUMENTS = 20_000

#: The features of this service, as its root states them.
EXPAND_FEATURES: Json = {
    "ExpandAll": True,
    "Levels": True,
    "MaxLevels": MAX_LEVELS,
    "Links": True,
    "NoLinks": True,
}

_FORM = re.compile(r"([.~*])(?:\(\$levels=(\d{1,9})\))?")
_FLAGS = {".": "NoLinks", "~": "Links", "*": "ExpandAll"}


class ExpandQuery(NamedTuple):
    """The meaning of an ``$expand``: ``.`` no Links, ``~`` only Links, ``*`` both; how deep."""

    kind: str
    levels: int


def parse_expand(value: str, offered: Json) -> ExpandQuery:
    """Return the meaning of a value of ``$expand``, if the root offers it; else RequestRefused."""
    found = _FORM.fullmatch(value)
    if not found:
        text = f"{value} is no value of $expand."
        raise RequestRefused(400, "QueryParameterValueFormatError", text, value, "$expand")
    kind, levels = found[1], int(found[2] or 1)
    stated = offered.get("MaxLevels", 1)
    most = stated if offered.get("Levels") and isinstance(stated, int) else 1
    if not offered.get(_FLAGS[kind]):
        raise RequestRefused(501, "QueryNotSupported", f"$expand={kind} is not supported.")
    if not 1 <= levels <= most:
        text = f"{levels} levels are out of the range 1 to {most}."
        raise RequestRefused(
            400, "QueryParameterOutOfRange", text, str(levels), "$expand", f"1..{most}"
        )
    return ExpandQuery(kind, levels)


def expand_document(documents: DocumentTree, json: Json, uri: str, expand: ExpandQuery) -> Json:
    """Return a document with the documents it links; a link back to an outer one stays."""
    return _Expansion(documents, expand).document(json, expand.levels, (uri,))


class _Expansion:
    def __init__(self, documents: DocumentTree, expand: ExpandQuery) -> None:
        self._documents, self._kind = documents, expand.kind
        self._left = MAX_DOCUMENTS

    def document(self, json: Json, levels: int, above: tuple[str, ...]) -> Json:
        return {
            key: self._value(value, levels, above, key == "Links") for key, value in json.items()
        }

    def _value(self, value: Any, levels: int, above: tuple[str, ...], in_links: bool) -> Any:
        if isinstance(value, list):
            return [self._value(part, levels, above, in_links) for part in value]
        if not isinstance(value, dict):
            return value
        if len(value) == 1 and isinstance(link := value.get("@odata.id"), str):
            return self._follow(value, link, levels, above, in_links)
        return {
            key: self._value(part, levels, above, in_links or key == "Links")
            for key, part in value.items()
        }

    def _follow(
        self, link: Json, uri: str, levels: int, above: tuple[str, ...], in_links: bool
    ) -> Json:
        wanted = self._kind == "*" or (self._kind == "~") == in_links
        found = self._documents.get(uri) if wanted and "#" not in uri else None
        if found is None or self._left <= 0 or uri.rstrip("/") in above:
            return link
        self._left -= 1
        if levels <= 1:
            return found
        return self.document(found, levels - 1, (*above, uri.rstrip("/")))
