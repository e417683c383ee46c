# SPDX-License-Identifier: Apache-2.0
"""The tree of ``tools/zone-tree``, whose zones a test may kill, stop and start again."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.functional.programs import environment
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler

TOOL = Path(__file__).parents[2] / "tools" / "zone-tree"
ZONE = re.compile(r"^(\S+) +(http://\S+) +process (\d+)", re.MULTILINE)
START_S, WAIT_S = 120, 60


class ZoneTreeProcess:
    """A tree of 1 + 2 zones; ``urls`` and ``pids`` of the services, by the path of the zone."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self._log = folder / "tree", folder / "tool.log"
        self._started: list[subprocess.Popen[bytes]] = []
        arguments = [str(TOOL), "--levels", "1", "--fan-out", "2", "--folder", str(self.folder)]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *arguments, *words], env=environment(), stdout=log, stderr=log,
            )  # fmt: skip
        try:
            self.wait_for(lambda: "Ctrl-C" in self.log(), "the tree", START_S)
        except BaseException:
            self.stop()
            raise
        rows = ZONE.findall(self.log())
        self.urls = {path: url for path, url, _ in rows}
        self.pids = {path: int(pid) for path, _, pid in rows}

    def log(self) -> str:
        return self._log.read_text()

    def scheduler(self, path: str = "top") -> RemoteScheduler:
        return RemoteScheduler(ServiceConnection(self.urls[path]))

    def state(self, path: str) -> str:
        """Return the URL of the state of a zone."""
        return f"sqlite:///{self.folder / path.replace('/', '-') / 'state.sqlite'}"

    def signal(self, path: str, number: int) -> None:
        """Send a signal to all processes of a zone."""
        os.killpg(self.pids[path], number)

    def start_again(self, path: str) -> None:
        """Start a killed zone at the same address."""
        folder = self.folder / path.replace("/", "-")
        port = self.urls[path].rpartition(":")[2]
        program = Path(sys.executable).with_name("valence-scheduler")
        words = ["serve", "--config", str(folder / "settings.yaml"), "--port", port]
        with (folder / "again.log").open("wb") as log:
            process = subprocess.Popen([program, *words], env=environment(
                XDG_CONFIG_HOME=str(folder), XDG_STATE_HOME=str(folder)),
                stdout=log, stderr=log, start_new_session=True)  # fmt: skip
        self._started.append(process)
        self.pids[path] = process.pid
        self.wait_for(lambda: self._answers(path), f"zone {path}")

    def _answers(self, path: str) -> bool:
        with contextlib.suppress(Exception):
            self.scheduler(path).podms()
            return True
        return False

    def wait_for(self, ready: Callable[[], object], what: str, timeout_s: float = WAIT_S) -> None:
        until = time.monotonic() + timeout_s
        while not ready():
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"timed out waiting for {what}: {self.log()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> int:
        """Interrupt the tool as Ctrl-C does; return its exit code."""
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(WAIT_S)
        self._started.clear()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(WAIT_S)


@contextlib.contextmanager
def zone_tree(folder: Path, *words: str) -> Iterator[ZoneTreeProcess]:
    """Yield a tree that ends with the context."""
    tree = ZoneTreeProcess(folder, *words)
    try:
        yield tree
    finally:
        for path in tree.pids:
            with contextlib.suppress(ProcessLookupError):
                tree.signal(path, signal.SIGCONT)
        tree.stop()
