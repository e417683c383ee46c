# SPDX-License-Identifier: Apache-2.0
"""Reads documents of a live pod manager, with ``$expand`` where the service supports it.

Many services that offer ``$expand`` refuse it, ignore it, or answer with half a document. So each
document in an answer is checked by itself, and those that fail are read alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from valence_sched.drivers.bounds import MAX_DOCUMENT_BYTES
from valence_sched.drivers.document_shape import check_content, object_of
from valence_sched.drivers.fields import Json, flag, number
from valence_sched.drivers.http.exchange import (
    GONE,
    Answer,
    Cut,
    Slow,
    Unreachable,
    is_outage,
)
from valence_sched.drivers.links import ROOT, path_of
from valence_sched.errors import InputError

T = TypeVar("T")

#: Bytes of an answer with many documents; a longer one is requested with fewer levels.
MAX_EXPANDED_BYTES = 4 * MAX_DOCUMENT_BYTES
#: How much of the time that is left an expanded answer may take: then there is time without.
TIME_SHARE = 0.5


class AnswerSource(Protocol):
    """Reads as a connection does."""

    def get(self, uri: str, most: int = ..., share: float = ...) -> Answer:
        """Return an answer; errors as of a connection."""


class ExpandReader:
    """Reads documents; call :meth:`read_features` once the service root is known.

    ``levels`` is how many can be requested at once.
    """

    def __init__(self, connection: AnswerSource) -> None:
        self._connection = connection
        self.levels = 0
        self._counted = False

    def read_features(self, root: Json) -> None:
        features: Any = root.get("ProtocolFeaturesSupported")
        query = features.get("ExpandQuery") if isinstance(features, dict) else None
        if not isinstance(query, dict) or not _value_of(flag, query.get("NoLinks")):
            return
        self._counted = bool(_value_of(flag, query.get("Levels")))
        self.levels = _value_of(number, query.get("MaxLevels")) or 1 if self._counted else 1

    def read(self, path: str, levels: int = 0, *, is_guess: bool = False) -> dict[str, Json]:
        """Return the document at a path, and what came with it, by URI; empty if it is gone.

        Raises:
            InputError: the pod manager answers, and this document cannot be read.
            PodmError: the answer is late or cut off, or its status is that of an outage: what is
                missing then is not known. The status counts only of a path that the service named.
        """
        if "$expand" not in path:
            while most := min(levels, self.levels):
                if found := self._read_expanded(path, most):
                    return found
        uri = path_of(path)
        try:
            answer = self._connection.get(path)
        except (Slow, Cut) as error:
            raise Unreachable(f"{uri}: {error}") from None
        if answer.status in GONE:
            return {}
        if is_outage(answer.status) and not is_guess:
            raise Unreachable(f"{uri}: found HTTP {answer.status}, expected a document")
        if answer.status >= 300:
            raise InputError(uri, "", f"HTTP {answer.status}", "a document")
        return {uri: _document(answer.json(uri), uri)}

    def _read_expanded(self, path: str, levels: int) -> dict[str, Json] | None:
        """Return the documents of an expanded answer; None, and fewer levels, where it fails."""
        query = f"$expand=.($levels={levels})" if self._counted else "$expand=."
        target = path + ("&" if "?" in path else "?") + query
        try:
            answer = self._connection.get(target, MAX_EXPANDED_BYTES, TIME_SHARE)
            if len(answer.body) > MAX_EXPANDED_BYTES:
                self.levels = min(self.levels, levels // 2)
                return None
            if answer.status == 200:
                uri = path_of(path)
                whole = _document(object_of(answer.body, uri), uri)
                found, bare = unfold(whole)
                if found or not bare:
                    return {uri: whole} | found
        except (InputError, RecursionError, Cut, Slow):
            pass  # read alone its fault is clearer
        self.levels = 0
        return None


def unfold(whole: Json) -> tuple[dict[str, Json], int]:
    """Take the documents out of an expanded one, leaving links; also count the unexpanded links.

    A document that lacks a property that every resource has becomes a link only.
    """
    found: dict[str, Json] = {}
    bare = 0
    stack: list[Any] = [whole]
    while stack:
        holder = stack.pop()
        places = holder.items() if type(holder) is dict else enumerate(holder)
        for place, value in places:  # values change, places do not
            kind = type(value)
            if kind is not dict:
                if kind is list:
                    stack.append(value)
                continue
            uri = value.get("@odata.id")
            if isinstance(uri, str) and "#" not in uri:
                if len(value) == 1:
                    bare += place != "Links"
                    continue
                holder[place] = {"@odata.id": uri}
                if not _is_whole(value):
                    continue
                found[uri] = value
            stack.append(value)
    return found, bare


def _is_whole(json: Json) -> bool:
    if json.get("error"):
        return False
    named = "@odata.type" in json and "Name" in json
    return named and (json.get("Id") not in (None, "") or "Members" in json)


def _document(json: Json, uri: str) -> Json:
    own = check_content(json, uri).get("@odata.id")
    if isinstance(own, str) and path_of(own) == ROOT != uri:  # whatever is asked for
        raise InputError(uri, "", "the service root", "a document of its own")
    return json


def _value_of(read: Callable[[Any], T | None], value: Any) -> T | None:
    try:
        return read(value)
    except ValueError:
        return None
