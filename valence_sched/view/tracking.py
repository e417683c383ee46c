# SPDX-License-Identifier: Apache-2.0
"""Tracked views and requests: they record whether a plug-in reads what placing nodes changes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from valence_sched.model.need import Need
from valence_sched.model.request import Request
from valence_sched.view.view import By, Floats, View


def _tracked(name: str) -> Any:
    """Return a property that notes that depletable data was looked at, then returns it."""
    field_of = getattr(View, name)

    def look(view: TrackedView) -> Any:
        view.was_read = True
        return field_of.__get__(view)

    return property(look)


class TrackedView(View):
    """A View that notices whether anybody looked at what depletion changes.

    All ways to it lead through the census, the resources and the shelves, and through what was
    kept of them.
    """

    __slots__ = ("was_read",)
    was_read: bool
    block_counts = _tracked("block_counts")
    podm_block_counts = _tracked("podm_block_counts")
    resources = _tracked("resources")
    block_tables = _tracked("block_tables")

    def free(self, need: Need, by: By = "pool") -> Floats:
        """Return what :meth:`View.free` does, noticed also where it was kept."""
        self.was_read = True
        return View.free(self, need, by)

    def memoise_free(self, name: object, key: object, make: Callable[[], Any]) -> Any:
        """Return what :meth:`View.of_free` does, noticed also where it was kept."""
        self.was_read = True
        return View.memoise_free(self, name, key, make)


def track_view(view: View) -> TrackedView:
    """Return the same View, watched; it shares what the View keeps."""
    watched = object.__new__(TrackedView)
    watched.was_read = False
    for slot in _SLOTS:
        slot.__set__(watched, slot.__get__(view))
    return watched


_SLOTS: list[Any] = [getattr(View, name) for name in View.__dataclass_fields__]


class TrackedRequest(Request, frozen=True, kw_only=True, dict=True):
    """A request that notices whether anybody looked at its company."""

    def __getattribute__(self, name: str) -> Any:
        if name == "company":
            object.__getattribute__(self, "__dict__")["was_read"] = True
        return super().__getattribute__(name)

    @property
    def was_read(self) -> bool:
        """Return whether anybody looked since the last :meth:`forget`."""
        return bool(self.__dict__.get("was_read"))

    def reset(self) -> None:
        """Begin to watch anew."""
        self.__dict__["was_read"] = False


def track_request(request: Request) -> TrackedRequest:
    """Return the same request, watched."""
    fields = request.__struct_fields__
    return _tracked_class(type(request))(**{name: getattr(request, name) for name in fields})


@functools.cache
def _tracked_class(kind: type[Request]) -> type[TrackedRequest]:
    """Return the class that tracks a request of a class, which may have fields of its own."""
    if kind is Request:
        return TrackedRequest
    struct: Any = type(Request)
    bases = (TrackedRequest, kind)
    tracked: type[TrackedRequest] = struct(
        f"Tracked{kind.__name__}", bases, {}, frozen=True, kw_only=True, dict=True
    )
    return tracked
