# SPDX-License-Identifier: Apache-2.0
"""Redfish resources as declared fields: path, reader, meaning and unit.

The readers accept nonstandard types: a boolean as ``"true"``, a number as ``"16"``, an array as its
only element. An unreadable value is noted and counts as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, overload

from valence_sched.model.base import MAX_WHOLE
from valence_sched.model.diagnostic import Diagnostic

Json = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R", bound="Resource")
MAX_NUMBER = MAX_WHOLE - 1
#: The longest name, URI or other text, in characters; the inventory has the same bound.
MAX_TEXT = 1024
_NUMBERS = (int, float)
#: Represents an absent object.
_NOTHING: tuple[Any, ...] = (None, [], "")
#: Spellings of ``@odata.id``, case-folded.
_LINK_NAMES = ("@odata.id", "odata.id", "href")


class Notes(Protocol):
    """Takes notes on documents that are left out (``skip``) or doubtful (``remark``)."""

    def skip(self, text: object) -> None: ...
    def remark(self, text: str) -> None: ...
    def extend(self, found: Iterable[Diagnostic]) -> None: ...


class _NoNotes:
    """Discards notes on documents that were noted in an earlier reading."""

    def skip(self, text: object) -> None: ...
    def remark(self, text: str) -> None: ...
    def extend(self, found: Iterable[Diagnostic]) -> None: ...


NO_NOTES = _NoNotes()


class Resource:
    """One Redfish object: its URI, its JSON, and the notes on its unreadable values."""

    #: Whether the content rarely changes, so that a repeated reading may use the cache.
    lasting: ClassVar[bool] = False
    #: Whether only resources of this class state the use of others, so that each must be read.
    reports_use: ClassVar[bool] = False
    #: The fields that link other documents, in the order of their names.
    link_fields: ClassVar[tuple[Link | Parts, ...]] = ()
    #: The descriptive properties, without name and links.
    content_properties: ClassVar[tuple[str, ...]] = ()
    #: The fields that other resource classes do not have.
    own_fields: ClassVar[tuple[Field[Any], ...]] = ()
    #: Whether all own fields are links, so that an instance may have no property.
    only_links: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        found = (getattr(cls, name) for name in dir(cls) if not name.startswith("_"))
        fields = [field for field in found if isinstance(field, Field)]
        cls.link_fields = tuple(field for field in fields if isinstance(field, Link | Parts))
        plain = (field for field in fields if not isinstance(field, Link | Parts | Identity))
        cls.content_properties = tuple(sorted({field.first for field in plain} - {"Name", "Links"}))
        cls.own_fields = tuple(field for field in fields if field.first not in ("Name", "Status"))
        cls.only_links = all(isinstance(field, Link) for field in cls.own_fields)

    def __init__(self, uri: str, json: Json, notes: Notes) -> None:
        self.uri, self.json, self.notes = uri, json, notes

    @property
    def leads(self) -> bool:
        """Whether the crawl follows the links of the object."""
        return True

    @property
    def is_empty(self) -> bool:
        """Whether the object lacks both a type and the required properties of its class."""
        return False

    @property
    def lacks_fields(self) -> bool:
        return bool(self.own_fields) and all(it.raw(self) is None for it in self.own_fields)

    def remark(self, text: str, field: Field[Any] | None = None) -> None:
        self.notes.remark(f"{self.uri}: {field.path}: {text}" if field else f"{self.uri}: {text}")

    def part(self, type_: type[R], json: Json, pointer: str) -> R:
        """Return an object inside this one, which has no URI of its own."""
        return type_(f"{self.uri}#/{pointer}", json, self.notes)


class Field(Generic[T]):
    """A property; ``path`` has nested names joined by ``/``, and ``first`` is the first of them."""

    def __init__(self, path: str, read: Callable[[Any], T], doc: str, unit: str = "") -> None:
        self.path, self.read, self.doc, self.unit = path, read, doc, unit
        self.first, *self._rest = path.split("/")
        self._absent = read(None)  # most properties are absent: most reads return this

    @overload
    def __get__(self, resource: None, owner: type[Resource]) -> Self: ...
    @overload
    def __get__(self, resource: Resource, owner: type[Resource]) -> T: ...
    def __get__(self, resource: Resource | None, owner: type[Resource]) -> Self | T:
        if resource is None:
            return self
        value = resource.json.get(self.first)
        if self._rest and value is not None:
            value = self._inside(resource, value)
        if value is None:
            return self._absent
        try:
            return self.read(value)
        except ValueError as error:
            resource.notes.remark(_found(resource.uri, self.path, value, str(error)))
            return self._absent

    def raw(self, resource: Resource) -> Any:
        return self._inside(resource, resource.json.get(self.first))

    def of(self, resource: Resource) -> T:
        """Return the value; note an unreadable value and treat it as absent."""
        return self.__get__(resource, type(resource))

    def _inside(self, resource: Resource, value: Any) -> Any:
        for depth, key in enumerate(self._rest, start=1):
            if not isinstance(value, dict):
                if value not in _NOTHING:
                    path = "/".join((self.first, *self._rest)[:depth])
                    resource.notes.remark(_found(resource.uri, path, value, "an object"))
                return None
            value = value.get(key)
        return value


class Identity(Field[T]):
    """A property that identifies a device, and does not describe its capabilities."""


class Link(Field[tuple[str, ...]]):
    """A property that links documents to be read, and their resource class.

    With ``collection``, it links a collection, and the members are read. A ``late`` link is
    followed only if another document is missing. ``levels`` is the number of levels below a single
    link to request together, ``cached`` the number if the devices there are cached.
    """

    def __init__(
        self,
        path: str,
        to: type[Resource],
        doc: str,
        *,
        collection: bool = False,
        late: bool = False,
        levels: int | None = None,
        cached: int | None = None,
    ) -> None:
        super().__init__(path, links, doc)
        self.to, self.collection, self.late = to, collection, late
        self.levels = int(collection or to.lasting) if levels is None else levels
        self.cached = self.levels if cached is None else cached


class Parts(Field[tuple[Json, ...]]):
    """A property with objects that hold links to follow; the objects have no URI."""

    def __init__(self, path: str, of: type[Resource], doc: str) -> None:
        super().__init__(path, only_objects, doc)
        self.to = of


def amount(value: Any) -> float | None:
    """Read a number of at least 0, or text with such a number."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ValueError("a number") from None
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise ValueError("a number")
    if not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"a number from 0 to {MAX_NUMBER}")
    return value


def number(value: Any) -> int | None:
    """Read a whole number of at least 0, or text with such a number; a fraction is truncated."""
    found = amount(value)
    return None if found is None else math.floor(found)


def flag(value: Any) -> bool | None:
    """Read a boolean, or text with a boolean."""
    if value is None or isinstance(value, bool):
        return value
    known = {"true": True, "false": False, "1": True, "0": False}
    found = known.get(str(value).strip().casefold())
    if found is None:
        raise ValueError("true or false")
    return found


def text(value: Any) -> str | None:
    """Read text, or a number as text; empty text is unknown."""
    if value is None:
        return None
    if not isinstance(value, str):
        if isinstance(value, bool) or not isinstance(value, _NUMBERS):
            raise ValueError("text")
        value = str(value)
    found: str = value.strip()
    if len(found) > MAX_TEXT:
        raise ValueError(f"at most {MAX_TEXT} characters")
    return found or None


def words(value: Any) -> tuple[str, ...]:
    """Read an array of text, or its only element."""
    found = map(text, value if isinstance(value, list) else [value])
    return tuple([item for item in found if item is not None])


def objects(value: Any) -> tuple[Json, ...]:
    """Read an array of objects, or its only element; skip other elements."""
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, dict))


def only_objects(value: Any) -> tuple[Json, ...]:
    """Read an array of objects and nulls, or its only element; else ValueError."""
    items = value if isinstance(value, list) else [value]
    if not all(item is None or isinstance(item, dict) for item in items):
        raise ValueError("an array of objects")
    return objects(items)


def links(value: Any) -> tuple[str, ...]:
    """Read a link or an array of links; null, or a link without a target, is ""."""
    if value is None:
        return ()
    items = value if isinstance(value, list) else (value,)
    targets = [it.get("@odata.id") if type(it) is dict else None for it in items]
    pairs = zip(items, targets, strict=True)
    return tuple([target if type(target) is str else _link(it) for it, target in pairs])


def _health(value: Any) -> str | None:
    """Read a health in upper or lower case."""
    found = text(value)
    if found is not None and found.capitalize() not in ("Ok", "Warning", "Critical"):
        raise ValueError("one of OK, Warning, Critical")
    return found and ("OK" if found.casefold() == "ok" else found.capitalize())


def _found(uri: str, path: str, value: Any, expected: str) -> str:
    found = repr(value)
    found = found if len(found) <= 60 else found[:57] + "…"
    return f"{uri}: {path}: found {found}, expected {expected}"


def _link(item: Any) -> str:
    target = item
    if isinstance(item, dict) and (target := item.get("@odata.id")) is None:
        found = (value for key, value in item.items() if key.casefold() in _LINK_NAMES)
        target = next(found, None)
    return target if isinstance(target, str) else ""


class NamedResource(Resource):
    """Any resource: its name and its health."""

    name = Field("Name", text, "a display name, not an identity")
    state = Field("Status/State", text, "Enabled, Disabled, Absent, StandbyOffline, …")
    health = Field("Status/Health", _health, "health of the resource itself")
    rollup = Field("Status/HealthRollup", _health, "worst health of the resource and its parts")

    @property
    def is_empty(self) -> bool:
        return "@odata.type" not in self.json and self.lacks_fields
