# SPDX-License-Identifier: Apache-2.0
"""Selections: rows of a View as a View of their own; what nobody reads of them is not copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
V = TypeVar("V")  # the class of Views, which builds on this module


class Origin(NamedTuple):
    """The View that rows were selected from, which rows, and of single ones their podms."""

    whole: Any
    rows: Ints | slice
    podms: Ints = np.empty(0, dtype=np.int64)


def _labels(name: str) -> Callable[[Origin, Any], Any]:
    return lambda origin, _: getattr(origin.whole, name).select(origin.rows)


def _rows(name: str) -> Callable[[Origin, Any], Any]:
    return lambda origin, _: getattr(origin.whole, name)[origin.rows]


#: What no node changes is selected when it is first read: the parts of a View by name.
DERIVED: dict[str, Callable[[Origin, Any], Any]] = {
    "podms": lambda origin, _: [origin.whole.podms[podm] for podm in origin.podms.tolist()],
    "pools": lambda origin, _: [
        origin.whole.pools[row] for row in np.asarray(origin.rows).tolist()
    ],
    "first_row": lambda origin, view: np.searchsorted(
        view.podm_of, np.arange(len(origin.podms) + 1)
    ),
    "position_of": _rows("position_of"),
    "enabled": _rows("enabled"),
    "zone": _labels("zone"),
    "status": _labels("status"),
    "aggregates": _labels("aggregates"),
    "capabilities": _labels("capabilities"),
    "traits": _labels("traits"),
    "lot": _rows("lot"),
    "block_tables": lambda origin, _: [
        origin.whole.block_tables[podm] for podm in origin.podms.tolist()
    ],
    "block_count": lambda _, view: sum([len(table.uris) for table in view.block_tables]),
}


def take(kind: type[V], whole: Any, rows: Sequence[int] | Ints, memo: Any) -> V:
    """Return rows of a View, in this order, as it is now: later changes do not show in it.

    All but its block tables, which are those of the whole when they are first read.
    """
    index = np.asarray(rows, dtype=np.int64)
    podms, podm_of = _renumber(whole.podm_of[index])
    view: Any = kind.__new__(kind)  # the fields that are not set here are derived
    view.kinds = whole.kinds
    view.podm_of = podm_of
    view.block_counts = whole.block_counts.take(index)
    view.podm_block_counts = whole.podm_block_counts.take(podms)
    view.resources = {name: column.take(index) for name, column in whole.resources.items()}
    view.origin = Origin(whole, index, podms)
    view._memo, view.tables = memo, None
    return view  # type: ignore[no-any-return]


def was_derived(view: object, name: str) -> bool:
    """Return whether a field of taken rows was read."""
    try:
        type(view).__dict__[name].__get__(view)
    except AttributeError:
        return False
    return True


def _renumber(podm_of: Ints) -> tuple[Ints, Ints]:
    """Return the distinct podms in order, and for each row the number of its podm among them."""
    steps = podm_of[1:] - podm_of[:-1]
    if steps.all() and (steps > 0).all():  # a row each
        return podm_of, np.arange(len(podm_of))
    new = steps != 0
    if (steps < 0).any():
        return np.unique(podm_of, return_inverse=True)
    first = np.concatenate(([True], new)) if len(podm_of) else np.empty(0, dtype=bool)
    return podm_of[first], np.cumsum(first) - 1
