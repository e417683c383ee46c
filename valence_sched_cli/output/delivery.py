# SPDX-License-Identifier: Apache-2.0
"""Delivery: reports the effects of a command on a working stream after another stream failed."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from valence_sched import streams
from valence_sched.errors import OutputError, SchedulerError, describe_error, one_line

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
