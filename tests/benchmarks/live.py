# SPDX-License-Identifier: Apache-2.0
"""The time to read a site of live pod managers, relative to a lower bound, sushy and a bare client.

A separate process serves the pod managers and delays each answer by 20 ms. On two processors and
with fifty pod managers, its own CPU time is a considerable part of the measurement. The bare client
shows this part: it sends the same requests and ignores the answers.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import yaml
from sushy import Sushy
from sushy.auth import SessionAuth

from tests.benchmarks import bare
from tests.benchmarks.measure import TINY, Measurement, against, sized
from valence_sched.core import plugins
from valence_sched.drivers.crawl.cache import ReadingMemory
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
from valence_sched.drivers.fields import Json
from valence_sched.drivers.links import DocumentNotes, LinkedDocuments
from valence_sched.model.registration import Registration
from valence_sched_cli.main import COLLECT_AFTER

PODMS, BLOCKS, LATENCY_MS, SEED, TIMES = sized(50, 3), sized(40, 4), 20.0, 1, sized(7, 1)
#: The delay of pod managers that query their hardware first.
LONG_MS = 200.0
#: The longest chain of dependent requests of a run: the root, a session, all others at once, and
#: the deletion of the session.
CHAIN = 4
#: The pod managers that sushy reads one after another; the time of all is extrapolated.
SAMPLE = 2
#: The pod managers of the memory measurement, of which many have the same URL.
MANY = sized(1000, 6)
USER, PASSWORD, VARIABLE = "reader", "for a benchmark", "BENCHMARK_PASSWORD"
PROGRAM = str(Path(sys.executable).with_name("valence-sched"))


def live() -> Iterator[Measurement]:
    """Fifty pod managers: 40 times faster than one after another, at most twice the lower bound.

    The garbage collector has the settings of our program, also for the bare client.
    """
    gc.set_threshold(COLLECT_AFTER)
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder), LATENCY_MS) as urls:
        targets = [_target(name, url) for name, url in urls.items()]
        _read(targets)
        walls, cpus, _ = zip(*(_read(targets) for _ in range(TIMES)), strict=True)
        reading_ms, cpu_ms = statistics.median(walls), statistics.median(cpus) / PODMS
        memory = ReadingMemory()
        _read(targets, memory=memory)
        again = [_read(targets, memory=memory)[1] for _ in range(TIMES)]
        again_ms = statistics.median(again) / PODMS
        floor_ms = CHAIN * LATENCY_MS
        bare_ms, bare_cpu_ms = bare.read(urls, USER, PASSWORD, TIMES)
        sample = [_target(name, urls[name]) for name in list(urls)[:SAMPLE]]
        whole = _read(sample, raw=True)[2]
        alone_ms = PODMS / SAMPLE * sum(
            _one_after_another(target, reading.documents)
            for target, reading in zip(sample, whole, strict=True)
        )  # fmt: skip
        understood_ms = statistics.median(_understood(reading.documents) for reading in whole)
        yield against("live: reading, share of one after another", reading_ms, alone_ms, 1 / 40)
        listing = _listing(Path(folder), urls, TIMES)
        version = _command(Path(folder), ["--version"], TIMES)
        listing_ms = listing.wall_ms
        yield against("live: podm list, share of one after another", listing_ms, alone_ms, 1 / 40)
        yield against("live: reading, times the floor", reading_ms, floor_ms, 2.0)
        yield against("live: podm list, times the floor", listing_ms, floor_ms, 2.0)
        yield against("live: reading, times a bare client", reading_ms, bare_ms, 2.0)
        yield against("live: CPU a pod manager, times a bare client", cpu_ms, bare_cpu_ms, 4.0)
        name = "live: CPU a pod manager, read again and the same, times a bare client"
        yield against(name, again_ms, bare_cpu_ms, 3.0)
        yield against("live: CPU a pod manager, times understanding", cpu_ms, understood_ms, 4.0)
        yield against("live: podm list, CPU, times --version", listing.cpu_ms, version.cpu_ms, 4.0)
        file = Path(folder, "urls")
        file.write_text("\n".join([*urls.values()] * (MANY // PODMS)))
        words = ["-m", "tests.benchmarks.many", str(file), USER, VARIABLE]
        done = subprocess.run([sys.executable, *words], env=os.environ | {VARIABLE: PASSWORD},
                              stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
        peak = float(done.stdout)
        yield against("live: reading 1,000, peak memory", peak, 160.0, 1.0, "MiB")
    with tempfile.TemporaryDirectory() as folder, _served(Path(folder), LONG_MS) as urls:
        listing = _listing(Path(folder), urls, TIMES)
        name = f"live: podm list at {LONG_MS:g} ms, times the floor"
        yield against(name, listing.wall_ms, CHAIN * LONG_MS, 2.0)


def _target(name: str, url: str) -> ReadTarget:
    return ReadTarget(Registration(name=name, url=url, username=USER), PASSWORD)


def _read(
    targets: list[ReadTarget], *, raw: bool = False, memory: ReadingMemory | None = None
) -> tuple[float, float, list[Reading]]:
    """Return the wall and CPU ms of a reading with deleted sessions, and its results."""
    dialects = plugins.InstalledPlugins(plugins.DIALECTS)
    started, cpu = time.perf_counter(), time.process_time()
    found = list(read(targets, dialects, ReadSettings(raw=raw, memory=memory)))
    took = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
    if failures := [reading.failure for reading in found if reading.failure]:
        raise RuntimeError(failures[0])
    return *took, found


def _one_after_another(target: ReadTarget, documents: Iterable[str]) -> float:
    """Return the ms in which plain sushy reads the documents that we read, in sequence."""
    started = time.perf_counter()
    auth = SessionAuth(USER, PASSWORD)
    root = Sushy(target.registered.url, auth=auth)
    for uri in documents:
        root._conn.get(uri).json()
    auth.close()
    return (time.perf_counter() - started) * 1000


def _understood(documents: dict[str, Json]) -> float:
    """Return the least CPU ms of interpreting documents that are already read."""
    dialect = plugins.load(plugins.DIALECTS).get("redfish")()
    took = []
    for _ in range(sized(20, 1)):
        notes, started = DocumentNotes(), time.thread_time()
        dialect.read(LinkedDocuments(documents.get, notes, documents), "podm", "redfish")
        took.append((time.thread_time() - started) * 1000)
    return min(took)


class Run(NamedTuple):
    """The medians of a command, including the start of Python."""

    wall_ms: float
    cpu_ms: float


def _listing(folder: Path, urls: dict[str, str], times: int) -> Run:
    """Return the cost of ``podm list`` on live pod managers."""
    podms = {
        name: {"url": url, "username": USER, "password": {"env": VARIABLE}}
        for name, url in urls.items()
    }
    file = folder / "podms.yaml"
    file.write_text(yaml.safe_dump({"podms": podms}))
    words = ["podm", "list", "--strict", "--podm-file", str(file), "-f", "csv"]
    return _command(folder, words, times)


def _command(folder: Path, words: list[str], times: int) -> Run:
    """Return the cost of a command with existing bytecode, as after an installation."""
    environ = os.environ | {VARIABLE: PASSWORD}
    if not TINY:  # compiling all modules takes longer than a trial run
        environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    runs = []
    for _ in range(sized(times + 1, 1)):
        started = time.perf_counter()
        pid = os.posix_spawn(
            PROGRAM, [PROGRAM, *words], environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
        )  # fmt: skip
        _, status, usage = os.wait4(pid, 0)
        wall_ms = (time.perf_counter() - started) * 1000
        if status:
            raise RuntimeError(f"{words}: exit code {os.waitstatus_to_exitcode(status)}")
        cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
        runs.append(Run(wall_ms, cpu_ms))
    walls, cpus = zip(*runs[-times:], strict=True)  # the first run has written the bytecode
    return Run(statistics.median(walls), statistics.median(cpus))


@contextlib.contextmanager
def _served(folder: Path, latency_ms: float) -> Iterator[dict[str, str]]:
    """Serve a site in a separate process with this delay of each answer; yield the URLs by id."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    inventory = str(folder / "site.jsonl")
    subprocess.run([sys.executable, "-m", "valence_sched.testing.generate", "--podms", str(PODMS),
                    "--blocks", str(BLOCKS), "--seed", str(SEED), "--output", inventory],
                   check=True)  # fmt: skip
    words = [PROGRAM, "podm", "serve", inventory, "--port", "0", "--latency-ms", str(latency_ms),
             "--username", USER, "--password-env", VARIABLE, "--session-limit", "1000"]  # fmt: skip
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True,
                              env=os.environ | {VARIABLE: PASSWORD})  # fmt: skip
    try:
        assert server.stdout is not None
        lines = (server.stdout.readline().split() for _ in range(PODMS))
        yield {id_: url.removesuffix("/redfish/v1") for id_, url in lines}
    finally:
        server.terminate()
        server.wait()
