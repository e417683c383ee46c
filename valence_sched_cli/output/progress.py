# SPDX-License-Identifier: Apache-2.0
"""Progress for a person at a terminal; nothing in a pipe, of files nothing in the first second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from valence_sched_cli.output.prepare import printable

MAX_NAME_LENGTH = 40  # characters of a name on the line


def progress(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Callable[..., None]:
    """Return a function that shows how many pod managers were read so far; None ends the line.

    Of live ones it is told how many there are, too, and who holds up the others.
    """
    out = stream or sys.stderr
    if not out.isatty():
        return lambda *_told: None
    started = clock()
    shown = False

    def show(podms: int | None, every: int | None = None, slowest: str = "") -> None:
        nonlocal shown
        if podms is None:
            line = ""
        elif every is None:
            line = f"read {podms:,} pod managers" if clock() - started > 1.0 else ""
        else:
            waiting = f", waiting for {printable(slowest[:MAX_NAME_LENGTH])}" if slowest else ""
            line = f"read {podms:,} of {every:,} pod managers{waiting}"
        if line or shown:
            out.write(f"\r{line}\x1b[K")
            out.flush()
        shown = bool(line)

    return show
