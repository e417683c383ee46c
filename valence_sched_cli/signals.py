# SPDX-License-Identifier: Apache-2.0
"""Signals: what ``timeout``, ``kill``, CI systems and a closed terminal send ends a command."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

_NAMES = ("SIGTERM", "SIGHUP")


class _SignalInterrupt(KeyboardInterrupt):
    """A signal came: as with Ctrl-C, a plug-in that runs meanwhile has not failed."""


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let signals end the command, with the exit code that a shell gives them.

    A signal that is ignored, as with nohup, or handled already, stays as it is.
    """
    default = []
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        default = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in default:
        signal.signal(number, _interrupt)
    try:
        yield
    except _SignalInterrupt as ended:
        raise SystemExit(ended.args[0]) from None
    finally:
        for number in default:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(number: int, _frame: object) -> None:
    raise _SignalInterrupt(128 + number)
