# SPDX-License-Identifier: Apache-2.0
"""The status line of a terminal: progress of reading and of composing; nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from valence_sched.errors import escape

MAX_NAME_LENGTH = 40  # characters of a name on the line
QUIET_S = 1.0  # of reading files, before the line is shown


class StatusLine:
    """One line of a terminal that each text overwrites; on other streams nothing is written."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self._stream = stream or sys.stderr
        self._terminal = not quiet and self._stream is not None and self._stream.isatty()
        self._shown = False

    def __bool__(self) -> bool:
        return self._terminal

    def show(self, text: str) -> None:
        """Write a text over the one before; an empty one only clears the line."""
        if self._terminal and (text or self._shown):
            self._shown = bool(text)
            try:
                self._stream.write(f"\r{escape(text)}\x1b[K")
                self._stream.flush()
            except (OSError, ValueError):  # the terminal is gone; what is shown goes on without
                self._terminal = False

    def clear(self) -> None:
        """Remove the text."""
        self.show("")


def progress(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Callable[..., None]:
    """Return a function that shows how many pod managers were read so far; None ends the line.

    Of live ones it also shows their number, and the one that the others wait for.
    """
    line = StatusLine(stream)
    if not line:
        return lambda *_counts: None
    started = clock()

    def show(podms: int | None, every: int | None = None, slowest: str = "") -> None:
        if podms is None:
            line.clear()
        elif every is None:
            line.show(f"read {podms:,} pod managers" if clock() - started > QUIET_S else "")
        else:
            waiting = f", waiting for {slowest[:MAX_NAME_LENGTH]}" if slowest else ""
            line.show(f"read {podms:,} of {every:,} pod managers{waiting}")

    return show
