# SPDX-License-Identifier: Apache-2.0
"""Diagnostics and progress of reading and composing."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

Kind = Literal["skipped", "unread", "warning", "remark"]
MAX_AWAITED = 3  # pod managers that the progress names; others are counted


class Diagnostic(NamedTuple):
    """One line about an inventory or a pod manager.

    ``skipped``: a document was left out. ``unread``: a pod manager could not be read. ``warning``:
    a reading is old. ``remark``: a value is doubtful, but was used.
    """

    kind: Kind
    text: str


class Diagnostics(list[Diagnostic]):
    """Diagnostics in the order in which they were found."""

    def skip(self, text: object) -> None:
        self.append(Diagnostic("skipped", str(text)))

    def unread(self, text: str) -> None:
        self.append(Diagnostic("unread", text))

    def warn(self, text: str) -> None:
        self.append(Diagnostic("warning", text))

    def remark(self, text: str) -> None:
        self.append(Diagnostic("remark", text))

    def lines(self, *kinds: Kind) -> list[str]:
        return [one.text for one in self if not kinds or one.kind in kinds]


class Progress(Protocol):
    """Receives the progress; any thread may call it, and no call blocks."""

    def count_podms(self, done: int, total: int | None = None, awaited: Sequence[str] = ()) -> None:
        """Report how many are read; ``awaited`` are up to :data:`MAX_AWAITED` others."""

    def end_count(self) -> None:
        """Report that all pod managers of the last count are read."""

    def begin(self, subject: str, activity: str) -> None:
        """Report the present activity of a subject."""

    def finish(self, subject: str) -> None:
        """Report the end of the activity of a subject."""

    def close(self) -> None:
        """Report the end of all activities, before other output."""


class NoProgress:
    """Ignores the progress."""

    def count_podms(self, *_: object, **_named: object) -> None:
        pass

    end_count = begin = finish = close = count_podms


@contextlib.contextmanager
def awaiting(progress: Progress, subject: str, activity: str) -> Iterator[None]:
    """Report an activity of a subject while the ``with`` block runs."""
    progress.begin(subject, activity)
    try:
        yield
    finally:
        progress.finish(subject)
