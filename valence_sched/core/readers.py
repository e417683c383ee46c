# SPDX-License-Identifier: Apache-2.0
"""Readers: the plug-ins that read some fields of a request, by what the plug-ins declare."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from valence_sched.core import plugins
from valence_sched.core.plugins import Plugins
from valence_sched.errors import InputError, PluginError, describe_error, one_line, suggest
from valence_sched.model.request import Request
from valence_sched.view.reads import declarations

Kind = Literal["filter", "weigher"]
ReadField = tuple[str, Callable[[Any], object]]

#: Fields in the order in which a request is refused for them; all others come after these.
REPORTED_FIRST = (
    "podms", "zone", "locations", "aggregates", "capabilities", "traits", "attributes", "where",
    "near", "group", "owner",
)  # fmt: skip


class RequestReader(Struct, frozen=True, eq=False):
    """A plug-in, and the fields that have to ask for something before it has any work.

    One with ``optional`` fields always has work. Each field comes with what holds of
    a value that asks for something.
    """

    kind: Kind
    name: str
    required: tuple[ReadField, ...]
    optional: tuple[ReadField, ...]

    def is_active(self, request: Request) -> bool:
        """Return whether a request gives the plug-in work; PluginError if its declaration fails."""
        try:
            for field, when in self.required:
                value = getattr(request, field, None)
                if value is not None and when(value):
                    return True
        except Exception as error:
            text = f"{self.kind} {self.name!r} cannot read {field!r}: {describe_error(error)}"
            raise PluginError(one_line(text)) from error
        return False

    def missing_fields(self, request: Request, readers: Sequence[RequestReader]) -> Iterator[str]:
        """Yield the fields that this plug-in would have to read, and none of the readers does."""
        for field, when in self.required:
            value = getattr(request, field, None)
            is_set = value is not None and when(value)
            if is_set and not any(one.serves(self.kind, field, when, value) for one in readers):
                yield field

    def serves(self, kind: Kind, field: str, when: Callable[[Any], object], value: object) -> bool:
        """Return whether the plug-in reads what one of a kind would read in the value of a field.

        A filter and a weigher that declare another ``when`` read different parts of a field: then
        only a plug-in of the same kind serves, or one to which the field is optional.
        """
        required = (one for one in self.required if self.kind == kind or one[1] is when)
        return any(name == field and holds(value) for name, holds in (*required, *self.optional))


def installed_readers() -> tuple[RequestReader, ...]:
    """Return a reader for each installed plug-in that declares any field."""
    return _readers(plugins.load(plugins.FILTERS), plugins.load(plugins.WEIGHERS))


@functools.lru_cache(maxsize=4)
def _readers(filters: Plugins, weighers: Plugins) -> tuple[RequestReader, ...]:
    readers = [*_readers_of("filter", filters), *_readers_of("weigher", weighers)]
    return tuple(sorted(readers, key=_report_order))


def _readers_of(kind: Kind, installed: Plugins) -> Iterator[RequestReader]:
    for name in installed.ours_first():
        if declared := declarations(installed.by_name[name]):
            fields = [(field, one) for one in declared for field in one.fields]
            required = tuple((field, one.when) for field, one in fields if not one.optional)
            optional = tuple((field, one.when) for field, one in fields if one.optional)
            yield RequestReader(kind, name, required, optional)


def _report_order(reader: RequestReader) -> tuple[str, int]:
    fields = {field for field, _ in reader.required}
    positions = [position for position, field in enumerate(REPORTED_FIRST) if field in fields]
    return reader.kind, min(positions, default=len(REPORTED_FIRST))


def check_declarations(plugin: Callable[..., Any], kind: Kind, name: str, where: str) -> None:
    """Check that a plug-in declares fields that a request has.

    A request of a class of its own may have more fields than :class:`Request`.

    Raises:
        InputError: there is no such field; the nearest is named.
    """
    known = _fields_of(Request)
    for field in (field for declared in declarations(plugin) for field in declared.fields):
        if field not in known:
            path, hint = f"{kind} {name!r} reads {field!r}", suggest(field, known)
            raise InputError(where, path, "no such field of a request", hint=hint)


def _fields_of(kind: type[Request]) -> set[str]:
    return set(kind.__struct_fields__).union(*map(_fields_of, kind.__subclasses__()))
