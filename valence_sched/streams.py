# SPDX-License-Identifier: Apache-2.0
"""Streams: writes standard output whole, escapes log records, and notices lost log records."""

import codecs
import contextlib
import copy
import functools
import logging
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

from valence_sched.errors import OutputError, escape, escape_character, plain_reason

#: The error handler of codecs that writes characters as JSON escapes them.
JSON_ESCAPES = "valence_sched.json_escapes"

#: The handlers that failed, and why, in order.
Failures = dict[logging.Handler, str]


def _json_escapes(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "the handler is for encoding alone"
    text = error.object[error.start : error.end]
    return "".join(map(escape_character, text)), error.end


codecs.register_error(JSON_ESCAPES, _json_escapes)


def open_missing() -> None:
    """Open the standard streams that the process lacks; writing to standard output then fails.

    Otherwise the first files that the process opens, as its state, would have their numbers.
    """
    for name, mode in (("stdin", "r"), ("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (until the process ends)


def encodable(text: str, stream: Any) -> str:
    """Return a text in which characters that a stream cannot encode are JSON escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, JSON_ESCAPES).decode(encoding)


def moves_cursor(stream: Any) -> bool:
    """Return whether a stream is a terminal whose cursor can be moved, according to ``TERM``."""
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return False
    return bool(getattr(stream, "isatty", lambda: False)())


def folded(text: str, stream: Any) -> str:
    """Return a text with long lines broken between words for a terminal, else unchanged."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):  # not a terminal
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if len(line) > width > 0:
            indent = line[: len(line) - len(line.lstrip())] + "  "
            lines[number] = textwrap.fill(
                line, width, subsequent_indent=indent, break_long_words=False,
                break_on_hyphens=False,
            )  # fmt: skip
    return "\n".join(lines)


def write(stream: Any, text: str) -> None:
    """Write a whole text to standard output, with JSON escapes; OutputError if it fails."""
    try:
        with printing(stream):
            stream.write(encodable(text, stream))
    except BrokenPipeError as error:
        discard(stream)
        raise OutputError("standard output", error) from None


@contextlib.contextmanager
def printing(stream: Any) -> Iterator[None]:
    """Flush standard output after a block; OutputError if it fails, BrokenPipeError at its end."""
    try:
        if stream is None:
            raise ValueError("it is closed")
        try:
            yield
        finally:
            stream.flush()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        discard(stream)
        raise OutputError("standard output", error) from None


@contextlib.contextmanager
def escaping(stream: Any) -> Iterator[None]:
    """Let a stream write JSON escapes for the characters that it cannot encode."""
    reconfigure = getattr(stream, "reconfigure", None)
    errors = getattr(stream, "errors", None)
    if reconfigure is None or errors not in ("strict", "surrogateescape"):  # that of LC_ALL=C
        yield
        return
    reconfigure(errors=JSON_ESCAPES)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):  # an error of writing was raised above
            reconfigure(errors=errors)


def print_message(message: str, file: Any = None) -> None:
    """Print a message of a parser; end the program if help cannot be printed."""
    if file in (None, sys.stderr):
        try:
            sys.stderr.write(folded(message, sys.stderr))
        except (AttributeError, OSError, ValueError):  # there is no stream, or it is closed or full
            discard(sys.stderr)  # the exit code tells the error, too
        return
    try:
        with printing(file):
            file.write(message)
    except OutputError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.exit_code) from None


def discard(stream: Any) -> None:
    """Discard the rest of a failed stream: its flush at exit would change the exit code."""
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
    failures.setdefault(handler, plain_reason(sys.exc_info()[1]))
    if isinstance(handler, logging.StreamHandler):
        discard(handler.stream)


OURS = "valence_sched"  # prefixes of our loggers


class EscapingFormatter(logging.Formatter):
    """Escapes the lines of another formatter; folds them if the ``stream`` is a terminal."""

    def __init__(self, formatter: logging.Formatter | None, stream: Any = None) -> None:
        super().__init__()
        self._formatter, self._stream = formatter or logging.Formatter(), stream

    def format(self, record: logging.LogRecord) -> str:
        if record.name.startswith(OURS):
            record = copy.copy(record)
            record.msg, record.args = escape(record.getMessage()), None
        return folded(escape(self._formatter.format(record), keep="\n"), self._stream)


def escape_logs() -> None:
    """Let the program's log handlers escape unprintable characters."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, EscapingFormatter):
            stream = getattr(handler, "stream", None)
            handler.setFormatter(EscapingFormatter(handler.formatter, stream))


class _SignalInterrupt(KeyboardInterrupt):
    """A signal, as from Ctrl-C: not a failure of the running plug-in."""


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let signals that are not ignored end the command with a shell's exit code."""

    def interrupt(number: int, _frame: object) -> None:
        raise _SignalInterrupt(128 + number)

    default = []
    if threading.current_thread() is threading.main_thread():
        numbers = (signal.SIGTERM, signal.SIGHUP)
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
