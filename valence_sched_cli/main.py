# SPDX-License-Identifier: Apache-2.0
"""The entry point of ``valence-sched``: it sets up the garbage collector, and ends the process."""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Sequence

COLLECT_AFTER = 200_000  # new objects: a command ends soon, and makes few that are garbage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; without ``argv`` it may end the process itself."""
    gc.set_threshold(COLLECT_AFTER)  # before what is imported makes most of the objects
    from valence_sched_cli import shell

    try:
        code = shell.main(argv)
    finally:
        gc.freeze()  # what is left ends with the process: its end need not search it for cycles
    if argv is None:
        _end_process(code)
    return code


def _end_process(code: int) -> None:
    """End the process at once; return where Python has more to do than to free memory.

    To take all modules and objects apart takes a tenth of a short command. What was registered for
    the end runs before. Another thread, a profiler or a stream that takes no more has the usual
    end, and the usual message.
    """
    if threading.active_count() > 1 or sys.gettrace() or sys.getprofile():
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):  # none, or one that is closed or full
        return
    os._exit(code & 0xFF)
