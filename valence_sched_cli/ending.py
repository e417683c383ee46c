# SPDX-License-Identifier: Apache-2.0
"""Signals that end a command as Ctrl-C does: what was begun, such as sessions, is ended first."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

#: What ``timeout``, ``kill``, CI systems and a terminal that is closed send.
_SIGNALS = ("SIGTERM", "SIGHUP")


class _Ended(KeyboardInterrupt):
    """A signal came: like Ctrl-C, it is no failure of whatever plug-in runs at the moment."""


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Have signals end what runs meanwhile, with the exit code that a shell gives them.

    One that is ignored, as with nohup, or that somebody handles already, stays as it is.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
        taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _end)
    try:
        yield
    except _Ended as ended:
        raise SystemExit(ended.args[0]) from None
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _frame: object) -> None:
    raise _Ended(128 + number)
