# SPDX-License-Identifier: Apache-2.0
"""Resources that say the same are understood once: a rack holds hundreds of the same module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from valence_sched.drivers.fields import Json, Resource

R = TypeVar("R", bound=Resource)
T = TypeVar("T")


class Alike(Generic[R, T]):
    """Understands resources by what they say of themselves (``Resource.said``), nothing else.

    Names, links and URIs tell resources apart, so what understands them does not see them, but
    for the URI in a note. What is noted is noted for each.
    """

    def __init__(self, understand: Callable[[R], T]) -> None:
        self._understand = understand
        self._known: dict[tuple[type[R], bytes], T] = {}
        self._encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode

    def of(self, resource: R) -> T:
        """Return what a resource is."""
        type_, json = type(resource), resource.json
        values = [json.get(name) for name in type_.said]
        try:
            key = type_, self._encode(values)
        except (OverflowError, RecursionError):  # JSON that we can read and not write
            return self._understand(resource)
        if key not in self._known:
            notes: list[str] = []
            said: Json = dict(zip(type_.said, values, strict=True))
            found = self._understand(type_(resource.uri, said, notes.append))
            for note in notes:
                resource.note(note)
            if notes:
                return found
            self._known[key] = found
        return self._known[key]
