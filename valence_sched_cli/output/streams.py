# SPDX-License-Identifier: Apache-2.0
"""Streams: writes standard output whole, and notices log records that were not written."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from valence_sched.errors import OutputError

#: The handlers that failed, and why, in order.
Failures = dict[logging.Handler, str]


def moves_cursor(stream: Any) -> bool:
    """Return whether a stream is a terminal whose cursor can be moved, as ``TERM`` says."""
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def write(stream: Any, text: str) -> None:
    """Write a text to standard output, whole and now.

    A character that its encoding lacks is written as its escape sequence.

    Raises:
        OutputError: it is closed, full, or otherwise gone.
    """
    try:
        if stream is None:
            raise ValueError("it is closed")
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except (OSError, ValueError) as error:
        discard(stream)
        raise OutputError("standard output", error) from error


@contextlib.contextmanager
def escaping(stream: Any) -> Iterator[None]:
    """Let a stream write a character that its encoding lacks as its escape sequence."""
    reconfigure = getattr(stream, "reconfigure", None)
    errors = getattr(stream, "errors", None)
    if reconfigure is None or errors not in ("strict", "surrogateescape"):  # that of LC_ALL=C
        yield
        return
    reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # what cannot be written was raised above
            reconfigure(errors=errors)


def discard(stream: Any) -> None:
    """Send all that is left in a stream, and all that follows, to nowhere: it has failed already.

    What is left would fail again when the program ends, and change its exit code.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


@contextlib.contextmanager
def log_failures() -> Iterator[Failures]:
    """Yield the handlers of log records that fail within the block; they print no traceback."""
    failures: Failures = {}
    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.handleError = functools.partial(_note, failures, handler)  # type: ignore[method-assign]
    try:
        yield failures
    finally:
        for handler in handlers:
            handler.__dict__.pop("handleError", None)


def _note(failures: Failures, handler: logging.Handler, _record: logging.LogRecord) -> None:
    error = sys.exc_info()[1]
    failures.setdefault(handler, getattr(error, "strerror", None) or str(error))
    if isinstance(handler, logging.StreamHandler):
        discard(handler.stream)
