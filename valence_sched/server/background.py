# SPDX-License-Identifier: Apache-2.0
"""Background threads of a worker: leased jobs, such as reading pod managers, and hints.

Only the process that holds the lease of a job runs it; if it dies, another takes over. The threads
start after the fork, so that a worker inherits no lock or connection.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from valence_sched.errors import SchedulerError
from valence_sched.model.redact import redact_text

if TYPE_CHECKING:
    from valence_sched.messaging.fanout import HintFanout

LOG = logging.getLogger(__name__)

RETRY_S = 1.0  # pause before the state is opened again
RESTART_S = 10.0  # pause after an internal error
REFRESH_PAUSE_S = 1.0  # shortest time between two loads of changes after hints


class LeasedJob(Protocol):
    """A job that one process of the service runs at a time, such as a background reader."""

    def run(self, ended: Callable[[], bool]) -> None:
        """Work until ``ended``; raises the errors of the state."""


LogLine = Callable[[str], object]
Sleep = Callable[[float], object]
#: Makes a job from two functions: one logs a line, one sleeps.
MakeReader = Callable[[LogLine, Sleep], LeasedJob]


class ReaderThread:
    """Runs the job that ``make_reader`` makes, until ``stop``; logs use ``name``."""

    def __init__(self, make_reader: MakeReader, name: str = "reader") -> None:
        self._make_reader, self._name = make_reader, name
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid: int | None = None
        self._problem = ""

    def start(self) -> None:
        """Start the thread once in this process; a forked child starts its own thread."""
        if self._pid == os.getpid() or self._ended.is_set():
            return
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, daemon=True, name=self._name)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        self._ended.set()
        if self._thread is None or self._pid != os.getpid():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._make_reader(self._log, self._ended.wait).run(self._ended.is_set)
            except SchedulerError as error:
                if str(error) != self._problem:
                    LOG.warning("%s waits: %s", self._name, redact_text(str(error)))
                self._problem = str(error)
                self._ended.wait(RETRY_S)
            except Exception:
                LOG.exception("internal error in the %s: restarting it", self._name)
                self._ended.wait(RESTART_S)

    def _log(self, line: str) -> None:
        self._problem = ""
        LOG.info("%s", redact_text(line))


#: Methods and paths of requests that change the state.
METHODS = ("POST", "PUT", "PATCH", "DELETE")
PATHS = ("/v1/claims", "/v1/nodes", "/v1/podms")
_PODMS = "/v1/podms/"

Heard = Callable[[tuple[str, ...]], object]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class ServiceHints:
    """Sends hints of one worker after requests that change the state, and receives hints.

    ``connect`` makes the fan-out at the first request, because a server may fork before it.
    ``refresh`` loads the changes that a received hint announces.
    """

    def __init__(
        self, connect: Callable[[Heard], "HintFanout"], refresh: Callable[[], object], heard: Heard
    ) -> None:
        self._connect, self._refresh = connect, refresh
        self._note_heard, self._lock = heard, threading.Lock()
        self._fanout: HintFanout | None = None
        self._heard, self._ended = threading.Event(), threading.Event()
        self.refreshes = 0

    def wrap(self, application: Application) -> Application:
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
                fanout.send(_changed_podms(path))
            return content

        return answer

    def start(self) -> "HintFanout":
        if self._fanout is None:
            with self._lock:
                if self._fanout is None:
                    fanout = self._connect(self._take)
                    fanout.start()
                    threading.Thread(target=self._run, daemon=True, name="hints").start()
                    self._fanout = fanout
        return self._fanout

    def close(self) -> None:
        self._ended.set()
        self._heard.set()
        if self._fanout is not None:
            self._fanout.close()

    def refresh(self) -> None:
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
            except SchedulerError as error:  # the next request raises the error
                LOG.info("changes not loaded after a hint: %s", error)
            except Exception:
                LOG.exception("changes not loaded after a hint")
            self._ended.wait(REFRESH_PAUSE_S)


def _changed_podms(path: str) -> tuple[str, ...]:
    if not path.startswith(_PODMS):
        return ()
    name = path.removeprefix(_PODMS).partition("/")[0]
    # WSGI has the bytes of the decoded path as Latin-1
    return () if name in ("", "-") else (name.encode("latin-1").decode("utf-8", "replace"),)
