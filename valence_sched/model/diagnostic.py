# SPDX-License-Identifier: Apache-2.0
"""Diagnostics and progress of reading and composing."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from valence_sched.errors import escape

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


MAX_NAMES = 3  # on the line; the others are a number
MAX_NAME_LENGTH = 40  # characters of a name on the line


class Awaited:
    """The number of read pod managers, the names without an answer, and the activities."""

    def __init__(self) -> None:
        self.count: tuple[int, int | None, Sequence[str]] | None = None  # read, of all, and names
        self.activities: dict[str, str] = {}  # by subject

    def __bool__(self) -> bool:
        return bool(self.activities) or self.count is not None

    def text(self, width: int) -> str:
        """Return the text with as many names as fit into a width, at least one; or nothing."""
        texts, activities = [""], self.activities.items()
        if activities:
            names = [f"{_shorten(subject)}: {escape(activity)}" for subject, activity in activities]
            texts = _name_some(names, len(names), "; ")
        elif self.count is not None:
            done, total, awaited = self.count
            read = f"read {done:,}" if total is None else f"read {done:,} of {total:,}"
            texts = [f"{read} pod managers"]
            if total is not None and awaited:
                names = _name_some(list(map(_shorten, awaited)), total - done, ", ")
                texts = [f"{texts[0]}, waiting for {some}" for some in names]
                texts.append(f"{read}, waiting for {names[-1]}")
        return next((text for text in texts if len(text) <= width), texts[-1])


def _name_some(names: Sequence[str], total: int, separator: str) -> list[str]:
    """Return texts with fewer and fewer of the names, and the number of the others."""
    texts = []
    for most in range(MAX_NAMES, 0, -1):
        some = [*names[:most]]
        last = f"{more:,} more" if (more := total - len(some)) else some.pop()
        texts.append(f"{separator.join(some)} and {last}" if some else last)
    return texts


def _shorten(name: str) -> str:
    """Return a name without control characters, shortened if it is long."""
    text = escape(name)
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…"
