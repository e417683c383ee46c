# SPDX-License-Identifier: Apache-2.0
"""Awaited: what a command waits for, in words that fit into one line."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from valence_sched.errors import escape

MAX_NAMES = 3  # on the line; the others are a number
MAX_NAME_LENGTH = 40  # characters of a name on the line


class Awaited:
    """Holds the number of pod managers that were read, who has not answered, and activities."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count: tuple[int, int | None, Sequence[str]] | None = None
        self._activities: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._activities) or self._count is not None

    def set_count(self, done: int, total: int | None, awaited: Sequence[str]) -> None:
        """Set how many pod managers are read, of how many, and names of those that are not."""
        with self._lock:
            self._count = (done, total, awaited)

    def unset_count(self) -> None:
        """Forget the number of pod managers."""
        with self._lock:
            self._count = None

    def set_activity(self, subject: str, activity: str) -> None:
        """Set what is being done about a subject."""
        with self._lock:
            self._activities[subject] = activity

    def unset_activity(self, subject: str) -> None:
        """Forget a subject."""
        with self._lock:
            self._activities.pop(subject, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._count = None
            self._activities.clear()

    def text(self, width: int) -> str:
        """Return all of it with as many names as fit into a width, with one of more; or nothing."""
        with self._lock:
            count, activities = self._count, list(self._activities.items())
        texts = [""]
        if activities:
            names = [f"{_shorten(subject)}: {escape(activity)}" for subject, activity in activities]
            texts = _name_some(names, len(activities), "; ")
        elif count is not None:
            texts = _count_texts(*count)
        return next((text for text in texts if len(text) <= width), texts[-1])


def _count_texts(done: int, total: int | None, awaited: Sequence[str]) -> list[str]:
    """Return the same in ever fewer words."""
    if total is None:
        return [f"read {done:,} pod managers"]
    read = f"read {done:,} of {total:,} pod managers"
    if not awaited:
        return [read]
    names = _name_some(list(map(_shorten, awaited)), total - done, ", ")
    texts = [f"{read}, waiting for {some}" for some in names]
    return [*texts, f"read {done:,} of {total:,}, waiting for {names[-1]}"]


def _name_some(names: Sequence[str], total: int, separator: str) -> list[str]:
    """Return the first of some names, ever fewer, with the number of the others."""
    return [_join(names[:most], total, separator) for most in range(MAX_NAMES, 0, -1)]


def _join(names: Sequence[str], total: int, separator: str) -> str:
    """Return names with the number of those that are not among them."""
    if more := total - len(names):
        return f"{separator.join(names)} and {more:,} more"
    *others, last = names
    return f"{separator.join(others)} and {last}" if others else last


def _shorten(name: str) -> str:
    """Return a name that cannot command the terminal, with its end left out where it is long."""
    text = escape(name)
    return text if len(text) <= MAX_NAME_LENGTH else f"{text[: MAX_NAME_LENGTH - 1]}…"
