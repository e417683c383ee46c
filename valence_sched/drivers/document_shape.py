# SPDX-License-Identifier: Apache-2.0
"""Older and nonstandard forms of Redfish documents, converted to the present form."""

from collections.abc import Mapping
from typing import Any

from valence_sched.drivers.fields import Json, links
from valence_sched.errors import InputError
from valence_sched.model.codec import decode
from valence_sched.model.http import ANSWER, foreign_phrase

BOM = b"\xef\xbb\xbf"
MEMBERS, NEXT, COUNT = "Members", "Members@odata.nextLink", "Members@odata.count"
#: Case-folded spellings of the properties of a collection: the first present spelling is read.
_MEMBERS = ("members", "members@odata.navigationlink")
_NEXT = ("members@odata.nextlink", "@odata.nextlink", "nextlink")
_COUNT = ("members@odata.count", "@odata.count")
_OF_COLLECTIONS = frozenset((*_MEMBERS, _NEXT[0], _COUNT[0]))
#: Case-folded names of the members, if a document has no type or the type of a collection.
_LISTS = ("items", "value", "member", "entries")
_OF_ANY = _OF_COLLECTIONS.union(_LISTS, _NEXT, _COUNT)
#: The maximum number of remembered names of types and properties, and their maximum length.
MAX_NAMES, MAX_NAME = 10_000, 200
_MESSAGES = ("error", "redfisherror", "message")
#: Root entries that stay below ``Links`` in the present form.
_BELOW = ("Sessions", "ManagerProvidingService")
_SYSTEMS = ["Processors", "Memory", "Storage", "SimpleStorage", "MemoryDomains"]
_SYSTEMS += ["EthernetInterfaces", "NetworkInterfaces"]
#: By type name: entries that older documents have below ``Links``.
_ENTRIES = {"compositionservice": ["ResourceBlocks", "ResourceZones"], "computersystem": _SYSTEMS}


def object_of(body: bytes, uri: str) -> Json:
    """Return a body as an object; InputError for other JSON, or a page of HTML."""
    data = body.removeprefix(BOM)
    if data[:200].lstrip()[:1] == b"<":
        raise InputError(uri, "", "a page of HTML or XML", "JSON", "is it a Redfish service?")
    try:
        return decode(data, dict, uri, "")
    except InputError as error:
        if error.document_path or error.expected != "object":
            raise
        raise InputError(uri, "", foreign_phrase(ANSWER, error.found), "object") from None


def check_content(json: Json, uri: str, expected: str = "a document") -> Json:
    """Return a document; InputError for an error message, even if it has a URI."""
    error = json.get("error")
    is_error = bool(error) and isinstance(error, dict)
    if "@odata.id" not in json:
        is_error = is_error or "error" in json
    if not is_error and "@Message.ExtendedInfo" in json:
        is_error = all(key[:1] == "@" for key in json)
    if is_error or type_name(json) in _MESSAGES:
        raise InputError(uri, "", "an error message in a successful answer", expected)
    return json


def current_form(json: Json, *, root: bool = False) -> Json:
    """Return a document in the present form: the same object if it already has that form.

    ``Members`` of a collection is a list, or None if no form of it is found.

    >>> current_form({"Links": {"Members": [{"@odata.id": "/a"}]}})["Members"]
    [{'@odata.id': '/a'}]
    """
    if not json.get("Links"):  # older documents have "links", with names in lower case
        spelled = next((it for it in json if it != "Links" and it.casefold() == "links"), None)
        if spelled and isinstance(inner := json[spelled], dict):
            named = {name[:1].upper() + name[1:]: inner[name] for name in reversed(inner)}
            json = {**json, "Links": named | inner}
    below = _below(json)
    if root:
        return _merged(json, {key: below[key] for key in below if key not in _BELOW})
    kind = type_name(json)
    if below and kind in _ENTRIES:
        return _merged(json, {key: below[key] for key in _ENTRIES[kind] if key in below})
    if kind and not kind.endswith("collection"):
        # Every property of a collection has ``members`` in its name.
        names = "".join((*json, *below)) if below else "".join(json)
        if "members" not in names.casefold():
            return json
    return _collection(json, below, kind)


class ShapeMemo:
    """Converts the documents of one pod manager to the present form; examines each type once."""

    def __init__(self) -> None:
        #: Types other than collections, and whether they have entries below ``Links``.
        self._types: dict[str, bool] = {}
        self._plain_names: set[str] = set()  # names of properties that no collection has

    def __len__(self) -> int:
        return len(self._types) + len(self._plain_names)

    def current_form(self, json: Json, *, root: bool = False) -> Json:
        type_ = json.get("@odata.type")
        if root or not isinstance(type_, str):
            return current_form(json, root=root)
        has_entries, plain, below = self._types.get(type_), self._plain_names, _below(json)
        is_plain = not below or (not has_entries and plain.issuperset(below))
        if is_plain and has_entries is not None and plain.issuperset(json):
            return json
        kind = type_name({"@odata.type": type_})  # without a type the values decide
        names = {*json, *below}
        if kind and not kind.endswith("collection") and max(map(len, (type_, *names))) <= MAX_NAME:
            if len(self) + len(names) >= MAX_NAMES:
                self._types.clear()
                plain.clear()
            self._types[type_] = kind in _ENTRIES
            spelled = {it for it in names if it == "Links" or it.casefold() != "links"}
            plain.update(it for it in spelled if "members" not in it.casefold())
        return current_form(json)


def _below(json: Json) -> Json:
    below = json.get("Links")
    return below if isinstance(below, dict) else {}


def type_name(json: Json) -> str:
    for key in ("@odata.type", "Type", "@odata.context"):
        stated = json.get(key)
        if not isinstance(stated, str):
            continue
        last = stated.rpartition(".")[2]
        if last.isalpha() and key == "@odata.type":
            return last.casefold()
        parts = stated.rpartition("#")[2].partition("(")[0].casefold().split(".")
        # Versions separate the names: "v1_0_0", or "1", "0", "0".
        names = [part for part in parts if part.isalpha()]
        if names and (key != "@odata.context" or names[-1].endswith("collection")):
            return names[-1]
    return ""


def _merged(own: Json, more: Json) -> Json:
    """Return an object plus the properties that only ``more`` has, even in nested objects."""
    found = dict(own)
    for key, value in more.items():
        present = own.get(key)
        if present is None:
            found[key] = value
        elif isinstance(present, dict) and isinstance(value, dict) and "@odata.id" not in present:
            found[key] = _merged(present, value)
    return own if found == own else found


def _collection(json: Json, below: Json, kind: str) -> Json:
    named = kind.endswith("collection")
    names = _OF_ANY if named or not kind else _OF_COLLECTIONS
    for holder in (json, below):
        keys = {folded: key for key in holder if (folded := key.casefold()) in names}
        if not keys:
            continue
        if not _OF_COLLECTIONS.isdisjoint(keys):
            members = _first(holder, keys, _MEMBERS)
            if isinstance(members, dict) and not all(links(members)):  # members by name
                members = list(members.values()) or None
            elif members is not None and not isinstance(members, list):
                is_text = isinstance(members, str) and not _are_links([members])
                members = None if is_text else [members]
        else:
            members = _first(holder, keys, _LISTS)
            if not isinstance(members, list) or not (named or _are_links(members)):
                continue
        found = {MEMBERS: members}
        if page := _first(holder, keys, _NEXT):
            found[NEXT] = links(page)[0] or page
        if (count := _first(holder, keys, _COUNT)) is not None:
            found[COUNT] = count
        is_same = all(key in json and json[key] is value for key, value in found.items())
        return json if is_same else {**json, **found}
    return {**json, MEMBERS: None} if named else json


def _first(holder: Json, keys: Mapping[str, str], names: tuple[str, ...]) -> Any:
    return next((holder[keys[name]] for name in names if name in keys), None)


def _are_links(members: list[Any]) -> bool:
    return bool(members) and all(link.startswith("/") or "://" in link for link in links(members))
