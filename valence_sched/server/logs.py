# SPDX-License-Identifier: Apache-2.0
"""Logs of the service: a JSON object a line, without secrets."""

from __future__ import annotations

import datetime
import logging
from typing import Any

import msgspec

from valence_sched.model.redact import redact_text

MOST_CHARS = 16_000  # of a message, and of a traceback its end


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON; its text is redacted."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, dict):
            line |= fields
        else:
            line["message"] = redact_text(record.getMessage()[:MOST_CHARS])
        if record.exc_info:
            line["traceback"] = redact_text(self.formatException(record.exc_info)[-MOST_CHARS:])
        return msgspec.json.encode(line).decode()


def configure_logs(level: int = logging.INFO) -> None:
    """Send the records of the service, and of what serves it, to standard error."""
    # a line has neither a thread nor the name of a process: records need not ask for them
    logging.logThreads = logging.logMultiprocessing = False
    stream = logging.StreamHandler()
    stream.setFormatter(JsonLines())
    for name in ("valence_sched", "gunicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [stream]
        logger.propagate = False
        logger.setLevel(level)
