# SPDX-License-Identifier: Apache-2.0
"""Hints of the service: a worker that hears one takes in what changed before the next request."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol
from urllib.parse import unquote

from valence_sched.errors import SchedulerError

LOG = logging.getLogger(__name__)

#: Methods and paths of requests that change the state.
METHODS = ("POST", "PUT", "PATCH", "DELETE")
PATHS = ("/v1/claims", "/v1/nodes", "/v1/podms")
_PODMS = "/v1/podms/"

Heard = Callable[[tuple[str, ...]], object]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Fanout(Protocol):
    """Sends hints to other processes."""

    def start(self) -> None:
        """Connect, without waiting for it."""

    def send(self, names: Iterable[str] = ()) -> None:
        """Hint at a change, without waiting."""

    def close(self) -> None:
        """End it."""


class ServiceHints:
    """Hints of one worker: sent after requests that change the state, and heard.

    ``connect`` makes the fan-out, at the first request: a server may make the application before
    it forks. ``heard`` takes the names of each hint, ``refresh`` takes in what changed, at most
    once in ``pause_s``.
    """

    def __init__(
        self,
        connect: Callable[[Heard], Fanout],
        refresh: Callable[[], object],
        heard: Heard = lambda _names: None,
        *,
        pause_s: float = 1.0,
    ) -> None:
        self._connect, self._refresh, self._pause_s = connect, refresh, pause_s
        self._note_heard, self._lock = heard, threading.Lock()
        self._fanout: Fanout | None = None
        self._heard, self._ended = threading.Event(), threading.Event()
        self.refreshes = 0

    def wrap(self, application: Application) -> Application:
        """Return an application that sends a hint after each request that changed something."""

        def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            fanout = self.start()
            statuses = []

            def noted(status: str, *words: Any) -> Any:
                statuses.append(status)
                return start_response(status, *words)

            content = application(environ, noted)
            path = environ.get("PATH_INFO", "")
            changes = environ["REQUEST_METHOD"] in METHODS and path.startswith(PATHS)
            if changes and statuses and statuses[-1].startswith("2"):
                fanout.send(_names(path))
            return content

        return answer

    def start(self) -> Fanout:
        """Connect, if that is not done."""
        if self._fanout is None:
            with self._lock:
                if self._fanout is None:
                    fanout = self._connect(self._take)
                    fanout.start()
                    threading.Thread(target=self._run, daemon=True, name="hints").start()
                    self._fanout = fanout
        return self._fanout

    def close(self) -> None:
        """End it."""
        self._ended.set()
        self._heard.set()
        if self._fanout is not None:
            self._fanout.close()

    def refresh(self) -> None:
        """Take in soon what changed."""
        self._heard.set()

    def _take(self, names: tuple[str, ...]) -> None:
        self._note_heard(names)
        self._heard.set()

    def _run(self) -> None:
        while True:
            self._heard.wait()
            if self._ended.is_set():
                return
            self._heard.clear()
            try:
                self._refresh()
                self.refreshes += 1
            except SchedulerError as error:  # the next request has it, or answers without
                LOG.info("not refreshed on a hint: %s", error)
            except Exception:
                LOG.exception("not refreshed on a hint")
            self._ended.wait(self._pause_s)


def _names(path: str) -> tuple[str, ...]:
    """Return the pod manager in the path of a request, if one is."""
    name = path.removeprefix(_PODMS).partition("/")[0] if path.startswith(_PODMS) else ""
    return (unquote(name),) if name and name != "-" else ()
