# SPDX-License-Identifier: Apache-2.0
"""Log lines that are harmless to a terminal, whatever a name in them holds."""

from __future__ import annotations

import copy
import logging

from valence_sched.errors import escape

OURS = "valence_sched"  # what the names of our loggers begin with


class EscapingFormatter(logging.Formatter):
    """The formatter of a handler, and what does not print escaped in all that it makes.

    A line of ours stays one line. Those of others, and tracebacks, keep theirs.
    """

    def __init__(self, formatter: logging.Formatter | None) -> None:
        super().__init__()
        self._formatter = formatter or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        if record.name.startswith(OURS):
            record = copy.copy(record)
            record.msg, record.args = escape(record.getMessage()), None
        return escape(self._formatter.format(record), keep="\n")


def escape_logs() -> None:
    """Let the handlers that log for the whole program escape what does not print."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, EscapingFormatter):
            handler.setFormatter(EscapingFormatter(handler.formatter))
