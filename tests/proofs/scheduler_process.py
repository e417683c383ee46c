# SPDX-License-Identifier: Apache-2.0
"""The real program with its worker processes, which a test may kill one by one."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.functional.programs import environment
from tests.proofs.caller import Caller

PROGRAM = [sys.executable, "-m", "valence_sched.server.main", "serve", "--port", "0"]
START_S = 60


class SchedulerProcess:
    """A running service of several workers; its log is a file in ``folder``.

    ``context`` is the TLS context of clients, if the service uses TLS. ``descriptors`` is the
    largest number of open files of each of its processes.
    """

    def __init__(
        self, folder: Path, workers: int, words: Sequence[str],
        context: ssl.SSLContext | None = None, descriptors: int | None = None,
    ) -> None:  # fmt: skip
        limit = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "-"] if descriptors else []
        self._context = context
        self.workers, self._log = workers, folder / "service.log"
        homes = {f"XDG_{kind}_HOME": str(folder) for kind in ("CONFIG", "STATE", "CACHE")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*limit, *PROGRAM, "--workers", str(workers), *words],
                env=environment(**homes), stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.pid = self._process.pid
        self.url = self._listening()
        self.wait_for(lambda: len(self.worker_pids()) == workers, "workers")
        self.wait_for(self._answers, "an answer")

    def worker_pids(self) -> list[int]:
        """Return the processes that answer now."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return [int(word) for word in children.split() if _is_alive(int(word))]

    def booted(self) -> int:
        """Return the number of workers started until now."""
        return self.log().count("Booting worker")

    def log(self) -> str:
        """Return the log until now."""
        return self._log.read_text()

    def defects(self) -> str:
        """Return the lines of the log about internal errors, with their tracebacks."""
        lines = [line for line in self.log().splitlines() if "raceback" in line]
        return "\n".join(lines).replace("\\n", "\n")

    def kill_worker(self, pid: int) -> None:
        """Kill a worker, as with ``kill -9``."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def restart_workers(self) -> None:
        """Replace every worker, as an operator does after an upgrade; they finish their answers."""
        self._process.send_signal(signal.SIGHUP)

    def wait_for(self, found: Callable[[], object], what: str) -> None:
        """Wait for a result; AssertionError with the log if it does not appear."""
        until = time.monotonic() + START_S
        while not found():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"no {what}: {self.log()[-3000:]}")
            time.sleep(0.02)

    def stop(self) -> int:
        """End the service as an operator does; return its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        return self._process.wait(60)

    def _listening(self) -> str:
        pattern = re.compile(r"Listening at: (https?://[\d.:]+)")
        self.wait_for(lambda: pattern.search(self.log()), "address")
        found = pattern.search(self.log())
        assert found
        return found[1]

    def _answers(self) -> bool:
        with contextlib.closing(Caller(self.url, context=self._context)) as caller:
            try:
                return caller.call("GET", "/healthcheck").status == 200
            except OSError:
                return False


@contextlib.contextmanager
def scheduler_process(
    folder: Path, workers: int, *words: str, context: ssl.SSLContext | None = None,
    descriptors: int | None = None,
) -> Iterator[SchedulerProcess]:  # fmt: skip
    """Yield a service that ends with the context manager."""
    process = SchedulerProcess(folder, workers, words, context, descriptors)
    try:
        yield process
    finally:
        process.stop()


def open_files(pid: int) -> int:
    """Return the number of files and sockets that a process has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def threads(pid: int) -> int:
    """Return the number of threads of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends during the read
        return False
