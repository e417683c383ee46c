# SPDX-License-Identifier: Apache-2.0
"""Tracked views and requests: they record whether a plug-in reads what placing nodes changes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from valence_sched.model.need import Need
from valence_sched.model.request import Request
from valence_sched.view.view import By, Floats, View


def _tracked(name: str) -> Any:
    """Return a property that records that data which placing nodes changes was read."""
    field_of = getattr(View, name)

    def read(view: TrackedView) -> Any:
        view.was_read = True
        return field_of.__get__(view)

    return property(read, field_of.__set__)


class TrackedView(View):
    """A View that records whether a plug-in reads data that placing nodes changes.

    All such data is reached through the block counts, the resources and the block tables, and
    through values that the View remembers of them.
    """

    __slots__ = ("was_read",)
    was_read: bool
    block_counts = _tracked("block_counts")
    podm_block_counts = _tracked("podm_block_counts")
    resources = _tracked("resources")
    block_tables = _tracked("block_tables")

    def free(self, need: Need, by: By = "pool") -> Floats:
        """Return what :meth:`View.free` does; a remembered value is recorded, too."""
        self.was_read = True
        return View.free(self, need, by)

    def free_table(self, needs: tuple[Need, ...], by: By) -> Floats:
        """Return what :meth:`View.free_table` does; a remembered value is recorded, too."""
        self.was_read = True
        return View.free_table(self, needs, by)

    def memoise_free(self, name: object, key: object, make: Callable[[], Any]) -> Any:
        self.was_read = True
        return self.memoise_latest(("free", name), key, make)

    def row_tables(
        self, keys: Sequence[Hashable], make: Callable[[View], Sequence[Floats]]
    ) -> Sequence[Floats]:
        """Return what :meth:`View.row_tables` does; remembered values are recorded, too."""
        self.was_read = True
        return View.row_tables(self, keys, make)


def track_view(view: View) -> TrackedView:
    """Return the same View, tracked; it shares the memo of the View."""
    tracked = TrackedView(*_fields(view))
    tracked.was_read = False
    return tracked


_fields = operator.attrgetter(*View.__dataclass_fields__)


class TrackedRequest(Request, frozen=True, kw_only=True, dict=True):
    """A request that records whether a plug-in reads its group state, the field ``company``."""

    def __getattribute__(self, name: str) -> Any:
        if name == "company":
            object.__getattribute__(self, "__dict__")["was_read"] = True
        return super().__getattribute__(name)

    @property
    def was_read(self) -> bool:
        """Return whether the group state was read since the last :meth:`reset`."""
        return bool(self.__dict__.get("was_read"))

    def reset(self) -> None:
        self.__dict__["was_read"] = False


def track_request(request: Request) -> TrackedRequest:
    """Return the same request, tracked."""
    fields = request.__struct_fields__
    return _tracked_class(type(request))(**{name: getattr(request, name) for name in fields})


@functools.cache
def _tracked_class(kind: type[Request]) -> type[TrackedRequest]:
    """Return the class that tracks a request of a class, which may have fields of its own."""
    if kind is Request:
        return TrackedRequest
    struct: Any = type(Request)
    name, bases = f"Tracked{kind.__name__}", (TrackedRequest, kind)
    return struct(name, bases, {}, frozen=True, kw_only=True, dict=True)  # type: ignore[no-any-return]
