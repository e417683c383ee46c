# SPDX-License-Identifier: Apache-2.0
"""Reader thread: runs the background reader, the poller of zones, or what posts decisions.

Each process has one, and that with the lease of the state works: none of them is special, so none
can be missing, whichever dies and whatever server has started it. It begins in the process that
serves, after that was forked: no lock and no connection is taken over from another process.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Protocol

from valence_sched.errors import SchedulerError
from valence_sched.model.redact import redact_text

LOG = logging.getLogger(__name__)

RETRY_S = 1.0  # after a state that cannot be opened
RESTART_S = 10.0  # after a defect


class LeasedJob(Protocol):
    """A job that one of all processes does, as a background reader."""

    def run(self, ended: Callable[[], bool]) -> None:
        """Work until ``ended``; errors as of the state."""


#: Makes a job of what it calls for each change, and of what waits.
MakeReader = Callable[[Callable[[str], object], Callable[[float], object]], LeasedJob]


class ReaderThread:
    """Runs what ``make_reader`` makes, until it is stopped; ``name`` is what it is called."""

    def __init__(self, make_reader: MakeReader, name: str = "reader") -> None:
        self._make_reader, self._name = make_reader, name
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid: int | None = None
        self._problem = ""

    def start(self) -> None:
        """Begin to read, unless this process has begun; a child of another has not."""
        if self._pid == os.getpid() or self._ended.is_set():
            return
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, daemon=True, name=self._name)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Give up the lease and end; return whether that was done within ``timeout_s``."""
        self._ended.set()
        if self._thread is None or self._pid != os.getpid():
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._make_reader(self._tell, self._ended.wait).run(self._ended.is_set)
            except SchedulerError as error:
                self._note_problem(str(error))
                self._ended.wait(RETRY_S)
            except Exception:
                LOG.exception("a defect of the %s: it is started again", self._name)
                self._ended.wait(RESTART_S)

    def _tell(self, line: str) -> None:
        self._problem = ""
        LOG.info("%s", redact_text(line))

    def _note_problem(self, text: str) -> None:
        if text != self._problem:
            LOG.warning("%s waits: %s", self._name, redact_text(text))
        self._problem = text
