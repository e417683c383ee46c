# SPDX-License-Identifier: Apache-2.0
"""The progress line on standard error: shows the work that a command waits for over 1 s."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, cast

from valence_sched.streams import moves_cursor
from valence_sched_cli.late import model, rich, words

DELAY_S = 1.0  # wait before the line is shown
FRAMES_PER_S = 8


def terminal_progress(stream: Any = None) -> model.diagnostic.Progress | None:
    """Return the progress line of a stream; None unless it is a terminal with a movable cursor."""
    stream = stream or sys.stderr
    return ProgressLine(stream) if moves_cursor(stream) else None


class ProgressLine:
    """Shows work that lasts longer than a second; a log record replaces the line briefly."""

    def __init__(
        self, stream: Any, delay_s: float = DELAY_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._delay_s, self._clock = _HarmlessStream(stream), delay_s, clock
        self._awaited = model.diagnostic.Awaited()
        self._lock = threading.RLock()  # the thread that draws the line does not acquire it
        self._started: float | None = None
        self._timer: threading.Timer | None = None
        self._live: rich.live.Live | None = None
        self._handlers: list[logging.Handler] = []

    def count_podms(self, done: int, total: int | None = None, awaited: Sequence[str] = ()) -> None:
        self._awaited.count = (done, total, awaited)
        self._show_soon()

    def end_count(self) -> None:
        self._awaited.count = None

    def begin(self, subject: str, activity: str) -> None:
        self._awaited.activities[subject] = activity
        self._show_soon()

    def finish(self, subject: str) -> None:
        self._awaited.activities.pop(subject, None)

    def close(self) -> None:
        """Remove the line, and forget all work in progress."""
        with self._lock:
            self._stop()
            self._started = None
            self._awaited = model.diagnostic.Awaited()
            for handler in self._handlers:
                handler.removeFilter(self._give_way)
            self._handlers.clear()

    def _show_soon(self) -> None:
        if self._live is not None or self._timer is not None:  # without a wait for the lock
            return
        with self._lock:
            if self._live is not None or self._timer is not None:
                return
            if self._started is None:
                self._started = self._clock()
                self._handlers = list(logging.getLogger().handlers)
                for handler in self._handlers:
                    handler.addFilter(self._give_way)
            self._start_timer(max(0.0, self._started + self._delay_s - self._clock()))

    def _start_timer(self, delay_s: float) -> None:
        self._timer = threading.Timer(delay_s, self._show)
        self._timer.daemon = True
        self._timer.start()

    def _show(self) -> None:
        """Show the line unless the work has ended before the timer called this method."""
        with self._lock:
            if self._timer is not threading.current_thread():
                return
            self._timer = None
            if not self._awaited:
                return
            unicode = self._stream.encoding.casefold().startswith("utf")
            spinner = rich.spinner.Spinner("dots" if unicode else "line", style="status.spinner")
            console = rich.console.Console(file=cast(IO[str], self._stream))

            def line() -> rich.console.RenderableType:
                width = max(1, console.width - 3)
                if not (text := self._text(width)):
                    return rich.console.Group()
                spinner.text = rich.text.Text(text)
                spinner.text.truncate(width, overflow="ellipsis")
                return spinner

            self._live = rich.live.Live(
                console=console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                refresh_per_second=FRAMES_PER_S,
                get_renderable=line,
            )
            self._live.start(refresh=True)

    def _stop(self) -> bool:
        live, timer = self._live, self._timer
        self._live = self._timer = None
        if timer is not None:
            timer.cancel()
        if live is not None:
            live.stop()
        return bool(live or timer)

    def _give_way(self, _record: logging.LogRecord) -> bool:
        """Remove the line before a log record; it is shown again if work continues."""
        with self._lock:
            if self._stop():
                self._start_timer(self._delay_s)
        return True

    def _text(self, width: int) -> str:
        started = self._started
        age = model.quantity.format_age(self._clock() - started) if started is not None else "0s"
        text = self._awaited.text(width - len(age) - 2)
        return text and f"{age}: {text}"


def run_counter(progress: model.diagnostic.Progress, subject: str, finished: int = 0) -> Any:
    """Return a function that counts finished runs, shows progress, and returns the count."""
    made, started = 0, time.monotonic()

    def count(total: int, more: int = 1) -> int:
        nonlocal made
        made += more
        done, elapsed = finished + made, time.monotonic() - started
        progress.begin(subject, words.planning.progress_text(done, made, total, elapsed))
        return done

    return count


class _HarmlessStream:
    """A terminal stream that accepts every character and ignores a lost terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.encoding: str = getattr(stream, "encoding", None) or "ascii"

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text.encode(self.encoding, "replace").decode(self.encoding))
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self._stream.fileno())
