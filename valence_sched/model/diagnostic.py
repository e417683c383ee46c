# SPDX-License-Identifier: Apache-2.0
"""What a caller is told of reading and composing: diagnostics, and the progress meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

Kind = Literal["skipped", "unread", "warning", "remark"]


class Diagnostic(NamedTuple):
    """One line about an inventory or a pod manager.

    ``skipped``: a document was left out. ``unread``: a pod manager could not be read.
    ``warning``: what was read is so old that it may be wrong by now. ``remark``: something is
    doubtful, and nothing was left out.
    """

    kind: Kind
    text: str


class Diagnostics(list[Diagnostic]):
    """Diagnostics in the order in which they were found."""

    def skip(self, text: object) -> None:
        """Note that a document was left out; ``text`` is the line or the error about it."""
        self.append(Diagnostic("skipped", str(text)))

    def unread(self, text: str) -> None:
        self.append(Diagnostic("unread", text))

    def warn(self, text: str) -> None:
        """Note what everybody is told who decides on this, and not only how often."""
        self.append(Diagnostic("warning", text))

    def remark(self, text: str) -> None:
        """Note something doubtful that left nothing out."""
        self.append(Diagnostic("remark", text))

    def lines(self, *kinds: Kind) -> list[str]:
        return [one.text for one in self if not kinds or one.kind in kinds]


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
