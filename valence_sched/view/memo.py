# SPDX-License-Identifier: Apache-2.0
"""BoundedMemo: a dictionary of computed values that drops all of them before it grows too large."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMemo(dict[K, V]):
    """At most ``limit`` values by key; reading one costs what reading a dictionary costs.

    A service that gets ever new requests must not grow without end. Dropping all values at once
    needs no order of use, so that a hit is a plain ``get``: the caller reads with ``get``, and
    computes and stores the value if it is missing.
    """

    def __init__(self, limit: int, entries: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__(entries)
        self._limit = limit

    def store(self, key: K, value: V) -> V:
        """Store a value under a key and return it; drop all other values first if it is full."""
        if len(self) >= self._limit:
            self.clear()
        self[key] = value
        return value
