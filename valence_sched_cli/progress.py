# SPDX-License-Identifier: Apache-2.0
"""Progress for a person at a terminal; nothing in a pipe, nothing in the first second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO


def progress(
    stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> Callable[[int | None], None]:
    """Return a function that shows how many pod managers were read so far; None ends the line."""
    out = stream or sys.stderr
    if not out.isatty():
        return lambda _podms: None
    started = clock()

    def show(podms: int | None) -> None:
        if clock() - started > 1.0:
            out.write("\r\x1b[K" if podms is None else f"\rread {podms:,} pod managers\x1b[K")
            out.flush()

    return show
