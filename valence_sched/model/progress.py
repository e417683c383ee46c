# SPDX-License-Identifier: Apache-2.0
"""Progress: what a caller that waits is told of reading, composing and removing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Protocol

#: Names of pod managers that are still awaited, at most; the others are a number.
MAX_AWAITED = 3


class Progress(Protocol):
    """Receives what is awaited; any thread may call it, and every call returns at once."""

    def count_podms(self, done: int, total: int | None = None, awaited: Sequence[str] = ()) -> None:
        """Say how many pod managers are read, of how many, and who has not answered yet.

        ``awaited`` has the names of at most :data:`MAX_AWAITED` of the ``total - done`` that have
        not, the longest awaited first. Recorded ones have no total.
        """

    def end_count(self) -> None:
        """Say that no pod manager of the last count is awaited any more."""

    def begin(self, subject: str, activity: str) -> None:
        """Say what is being done about a subject, in place of what was done before."""

    def finish(self, subject: str) -> None:
        """Say that a subject is awaited no longer."""

    def close(self) -> None:
        """Say that nothing is awaited any more, and that something else is written next."""


class NoProgress:
    """Tells nobody."""

    def count_podms(self, done: int, total: int | None = None, awaited: Sequence[str] = ()) -> None:
        """Pass over a number of pod managers."""

    def end_count(self) -> None:
        """Pass over the end of a count."""

    def begin(self, subject: str, activity: str) -> None:
        """Pass over what is being done."""

    def finish(self, subject: str) -> None:
        """Pass over what is done."""

    def close(self) -> None:
        """Pass over the end."""


@contextlib.contextmanager
def awaiting(progress: Progress, subject: str, activity: str) -> Iterator[None]:
    """Tell of an activity about a subject while a block runs, however that ends."""
    progress.begin(subject, activity)
    try:
        yield
    finally:
        progress.finish(subject)
