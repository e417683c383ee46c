# SPDX-License-Identifier: Apache-2.0
"""The logs of a service process, one JSON object per line, and the folder of its metrics."""

import contextlib
import datetime
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, MutableMapping
from typing import Any

import msgspec

from valence_sched.model.redact import redact_text
from valence_sched.service.settings import MULTIPROCESS_FOLDER

MOST_CHARS = 16_000  # logged characters of a message, and of the end of a traceback


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON without passwords."""

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


def configure_logs() -> None:
    # log lines have no thread or process name, so records need not look them up
    logging.logThreads = logging.logMultiprocessing = False
    stream = logging.StreamHandler()
    stream.setFormatter(JsonLines())
    for name in ("valence_sched", "gunicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [stream]
        logger.propagate = False
        logger.setLevel(logging.INFO)


PREFIX = "valence-scheduler-"  # the name prefix of the metrics folder


@contextlib.contextmanager
def metrics_folder(environ: MutableMapping[str, str]) -> Iterator[None]:
    """Make a folder for metrics unless the environment names one; only its maker removes it."""
    if MULTIPROCESS_FOLDER in environ:
        yield
        return
    folder, process = tempfile.mkdtemp(prefix=PREFIX), os.getpid()
    environ[MULTIPROCESS_FOLDER] = folder
    try:
        yield
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def without_own_folder(environ: MutableMapping[str, str]) -> None:
    if os.path.basename(environ.get(MULTIPROCESS_FOLDER, "")).startswith(PREFIX):
        del environ[MULTIPROCESS_FOLDER]
