# SPDX-License-Identifier: Apache-2.0
"""Row tables: values per row of a View that changes, remade only for the rows that changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

Floats = npt.NDArray[np.float64]

MOST_BYTES = 64 << 20  # of all tables of one View; those that were read last stay


class _Table(Struct):
    """Values of shape ``(lines, rows)``, and the version of the View that they are of."""

    values: Floats
    version: int


class RowTables:
    """The tables of one View by key; ``podm_of`` has the podm of each row of it.

    The values of a row must depend on this row alone.
    """

    def __init__(self, podm_of: npt.NDArray[np.int64], most_bytes: int = MOST_BYTES) -> None:
        self._podm_of = podm_of
        self._most_bytes = most_bytes
        self._version = 0
        self._last_change = np.zeros(podm_of.max(initial=0) + 1, dtype=np.int64)  # by podm
        self._tables: OrderedDict[Hashable, _Table] = OrderedDict()
        self._bytes = 0

    def note_change(self, podm: int) -> None:
        """Note that the rows of a podm, by number, have changed."""
        self._version += 1
        self._last_change[podm] = self._version

    def note_all(self) -> None:
        """Note that any row may have changed."""
        self._version += 1
        self._last_change[:] = self._version

    def read(
        self, keys: Sequence[Hashable], whole: Any, make: Callable[[Any], Sequence[Floats]]
    ) -> list[Floats]:
        """Return the values of ``make`` for the View ``whole``, until it changes the next time.

        ``make`` returns a table for each of the keys, of some rows of it that are given as a View;
        each has the shape ``(lines, rows)``.
        """
        tables = [self._tables.get(key) for key in keys]
        known = [table for table in tables if table is not None]
        oldest = min([table.version for table in known], default=-1)
        if len(known) < len(keys):
            made = [np.ascontiguousarray(values) for values in make(whole)]
            for key, values in zip(keys, made, strict=True):
                self._store(key, _Table(values, self._version))
            return made
        if oldest < self._version:
            rows = (self._last_change > oldest)[self._podm_of].nonzero()[0]
            for table, values in zip(known, make(whole.take_counts(rows)), strict=True):
                table.values[:, rows] = values
                table.version = self._version
        for key in keys:
            self._tables.move_to_end(key)
        return [table.values for table in known]

    def _store(self, key: Hashable, table: _Table) -> None:
        if key in self._tables:
            self._bytes -= self._tables.pop(key).values.nbytes
        self._tables[key] = table
        self._bytes += table.values.nbytes
        while self._bytes > self._most_bytes:
            _, oldest = self._tables.popitem(last=False)
            self._bytes -= oldest.values.nbytes
