# SPDX-License-Identifier: Apache-2.0
"""Replaces one pod manager of a View by splicing its rows; unchanged arrays are shared."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from msgspec import Struct

from valence_sched.view import stocks
from valence_sched.view.block_counts import splice_array
from valence_sched.view.view import Labels, View

T = TypeVar("T")


class Splice(Struct, frozen=True):
    """Rows ``[first, last)`` of the old View became ``count`` rows of the new one."""

    first: int
    last: int
    count: int


def splice(view: View, podm: int, part: View) -> tuple[View, Splice]:
    """Return the View in which ``part`` replaces podm number ``podm``, and the rows it changed.

    ``part`` is built with the same kinds; ``podm == len(view.podms)`` appends. The cost is a copy
    of the flat arrays, whatever the number of blocks.
    """
    appended = podm == len(view.podms)
    first = int(view.first_row[podm])
    last = first if appended else int(view.first_row[podm + 1])
    next_podm = podm if appended else podm + 1
    growth = len(part) - (last - first)
    new_podms = len(part.podms)
    shift = new_podms - (next_podm - podm)
    old_blocks = 0 if appended else len(view.block_tables[podm].uris)
    first_row, podm_of = view.first_row, view.podm_of
    if growth or shift:
        new_rows = part.first_row[:-1] + first
        first_row = np.concatenate((first_row[:podm], new_rows, first_row[next_podm:] + growth))
        podm_of = np.concatenate((podm_of[:first], part.podm_of + podm, podm_of[last:] + shift))
    names = {**view.resources, **part.resources}
    changed = View(
        kinds=view.kinds,
        podms=_splice_items(view.podms, podm, next_podm, part.podms),
        block_tables=view.block_tables[:podm] + part.block_tables + view.block_tables[next_podm:],
        pools=_splice_items(view.pools, first, last, part.pools),
        first_row=first_row,
        podm_of=podm_of,
        position_of=splice_array(view.position_of, first, last, part.position_of),
        block_counts=view.block_counts.splice(first, last, part.block_counts),
        podm_block_counts=view.podm_block_counts.splice(podm, next_podm, part.podm_block_counts),
        resources={
            name: _column(view, name).splice(first, last, _column(part, name)) for name in names
        },
        enabled=splice_array(view.enabled, first, last, part.enabled),
        zone=_splice_labels(view.zone, first, last, part.zone),
        status=_splice_labels(view.status, first, last, part.status),
        aggregates=_splice_labels(view.aggregates, first, last, part.aggregates),
        capabilities=_splice_labels(view.capabilities, first, last, part.capabilities),
        traits=_splice_labels(view.traits, first, last, part.traits),
        lot=splice_array(view.lot, first, last, part.lot),
        block_count=view.block_count - old_blocks + part.block_count,
    )
    return changed.freeze(), Splice(first, last, len(part))


def _column(view: View, resource: str) -> stocks.StockColumn:
    column = view.resources.get(resource)
    return stocks.empty_column(len(view)) if column is None else column


def _splice_items(mine: Sequence[T], first: int, last: int, theirs: Sequence[T]) -> Sequence[T]:
    if list(mine[first:last]) == list(theirs):
        return mine
    return [*mine[:first], *theirs, *mine[last:]]


def _splice_labels(mine: Labels, first: int, last: int, theirs: Labels) -> Labels:
    new = [theirs[row] for row in range(len(theirs.codes))]
    if [mine[row] for row in range(first, last)] == new:
        return mine
    values = list(mine.values)
    values += [value for value in theirs.values if value not in values]
    codes = np.array([values.index(value) for value in new], dtype=np.int64)
    return Labels(values, splice_array(mine.codes, first, last, codes))
