# SPDX-License-Identifier: Apache-2.0
"""Delivery: reports the effects of a command on a working stream after another stream failed."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from valence_sched import streams
from valence_sched.errors import OutputError, SchedulerError, describe_error, escape, one_line

if TYPE_CHECKING:
    from valence_sched.model.effect import EffectLog

EXIT_UNTOLD = 7  # the command had an effect, and an output failed


class Delivery:
    """The outputs of one command: data to ``stdout``, lines for people to ``log``."""

    def __init__(
        self,
        effects: EffectLog,
        stdout: Any,
        log: Callable[[str, int], object],
        clear: Callable[[], object] = lambda: None,
    ) -> None:
        self._effects, self._stdout, self._log, self._clear = effects, stdout, log, clear

    def print(self, emit: Callable[[Any], object]) -> None:
        """Print the output of ``emit``, after an effect whole or not at all; else OutputError."""
        self._clear()
        if self._effects:
            text = io.StringIO()
            emit(text)
            streams.write(self._stdout, text.getvalue())
            self._effects.mark_named(text.getvalue())
            return
        with streams.printing(self._stdout), streams.escaping(self._stdout):
            emit(self._stdout)

    def log_error(self, error: BaseException, closing: Iterable[str]) -> int:
        """Report an error, and after an effect the unreported changes; return the exit code."""
        is_ours = isinstance(error, SchedulerError)
        reason = str(error) if is_ours else one_line(describe_error(error))
        self._log("interrupted" if isinstance(error, KeyboardInterrupt) else reason, logging.ERROR)
        if not self._effects:
            return error.exit_code if isinstance(error, SchedulerError) else 1
        for line in self._effects.unnamed_lines():
            self._log(line, logging.ERROR)
        for line in closing:
            self._log(line, logging.WARNING)
        return EXIT_UNTOLD

    def check(self, failures: streams.Failures, code: int) -> int:
        """Report log files that failed; return the exit code, 7 if effects were not reported."""
        self._log(f"exit code {code}", logging.DEBUG)  # a failed log raises here at the latest
        for handler, reason in list(failures.items()):
            if isinstance(handler, logging.FileHandler):
                line = f"--log-file {handler.baseFilename}: {reason.lower()}: the log is incomplete"
                self._log(line, logging.ERROR)
        lost = any(not isinstance(handler, logging.FileHandler) for handler in failures)
        lines = self._effects.unnamed_lines() if lost else []
        if not lines:
            return code
        with contextlib.suppress(OutputError):  # no stream is left
            streams.write(self._stdout, "".join(f"{line}\n" for line in lines))
        return EXIT_UNTOLD


OURS = "valence_sched"  # prefixes of our loggers


class EscapingFormatter(logging.Formatter):
    """Escapes the output of another formatter; our records stay one line.

    Lines to a ``stream`` that is a terminal are folded to its width.
    """

    def __init__(self, formatter: logging.Formatter | None, stream: Any = None) -> None:
        super().__init__()
        self._formatter, self._stream = formatter or logging.Formatter(), stream

    def format(self, record: logging.LogRecord) -> str:
        if record.name.startswith(OURS):
            record = copy.copy(record)
            record.msg, record.args = escape(record.getMessage()), None
        return streams.folded(escape(self._formatter.format(record), keep="\n"), self._stream)


def escape_logs() -> None:
    """Let the program's log handlers escape unprintable characters."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, EscapingFormatter):
            stream = getattr(handler, "stream", None)
            handler.setFormatter(EscapingFormatter(handler.formatter, stream))


_NAMES = ("SIGTERM", "SIGHUP")


class _SignalInterrupt(KeyboardInterrupt):
    """A signal, as from Ctrl-C: not a failure of the running plug-in."""


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let signals that are not ignored end the command with a shell's exit code."""

    def interrupt(number: int, _frame: object) -> None:
        raise _SignalInterrupt(128 + number)

    default = []
    if threading.current_thread() is threading.main_thread():
        numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
        default = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in default:
        signal.signal(number, interrupt)
    try:
        yield
    except _SignalInterrupt as ended:
        raise SystemExit(ended.args[0]) from None
    finally:
        for number in default:
            signal.signal(number, signal.SIG_DFL)
