# SPDX-License-Identifier: Apache-2.0
"""The entry point of ``valence-sched``: runs the program, and ends the process quickly."""

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

INTERRUPTED = 130  # a shell's exit code for a process that SIGINT ended
COLLECT_AFTER = 200_000  # new objects before a collection: a command makes little garbage


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; without ``argv``, it may end the process itself."""
    gc.set_threshold(COLLECT_AFTER)  # before the imports, which make most objects
    try:
        with _ending_on_interrupt():
            from valence_sched_cli import shell
        code = shell.main(argv)
    except KeyboardInterrupt:  # an interrupt before the command runs; commands handle their own
        code = INTERRUPTED
    finally:
        gc.freeze()  # do not search for cycles at the end of the process
    if argv is None:
        _end_process(code)
    return code


@contextlib.contextmanager
def _ending_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process during imports: modules may swallow a KeyboardInterrupt."""
    usual = signal.getsignal(signal.SIGINT)
    is_main_thread = threading.current_thread() is threading.main_thread()
    if usual is not signal.default_int_handler or not is_main_thread:
        yield  # the process ignores the signal (as in the background), or a caller handles it
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _end_process(code: int) -> None:
    """End the process without cleaning up, which saves 10 % of the time of a short command.

    With another thread, a profiler or a failed stream, the process ends as usual.
    """
    if threading.active_count() > 1 or sys.gettrace() or sys.getprofile():
        return
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):  # there is no stream, or it is closed or full
        return
    os._exit(code & 0xFF)
