# SPDX-License-Identifier: Apache-2.0
"""The cost of HTTP: decisions of the service, relative to a bare route, no HTTP, and Placement."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.benchmarks import placement_server
from tests.benchmarks.http_load import Rate, Request, measure
from tests.benchmarks.measure import Measurement, against, sized
from tests.functional.programs import environment
from valence_sched.app import App
from valence_sched.model.reading import Selection
from valence_sched.model.request_spec import RequestSpec
from valence_sched.testing.generate import main as generate

PODMS = (100, 1000, 10_000)[: sized(3, 1)]
CLIENTS = (1, 4, 8)[: sized(3, 1)]
BLOCKS, SEED, WORKERS, START_S = sized(20, 2), 1, sized(2, 1), 120
EACH, WARM, TURNS, TIMES = sized(200, 2), sized(40, 2), sized(3, 1), sized(200, 2)
REQUEST = {"properties": {"processor": {"total_cores": 8}, "memory": {"capacity_mib": 16_384}}}
CANDIDATES = "/allocation_candidates?resources=VCPU:8,MEMORY_MB:16384&limit=1"
JSON = {"Content-Type": "application/json"}
# of Placement: with 10,000 it takes seconds for an answer
MOST_PROVIDERS = 1000


def over_http() -> Iterator[Measurement]:
    """Yield p50, p99 and the time per request at 1, 4 and 8 clients, for sites of three sizes."""
    has_placement = placement_server.is_installed()
    if not has_placement:
        sys.stderr.write(placement_server.MISSING)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        words = ["-m", "tests.benchmarks.hello", str(port), str(WORKERS)]
        with running(folder, words, port):
            hello = Request(port, "GET", "/", None, {})
            for podms in PODMS:
                yield from _site(folder, podms, hello, has_placement)


def _site(folder: Path, podms: int, hello: Request, has_placement: bool) -> Iterator[Measurement]:
    site, port = str(folder / f"{podms}.jsonl"), free_port()
    words = ["--podms", str(podms), "--blocks", str(BLOCKS), "--seed", str(SEED)]
    if generate([*words, "--output", site]):
        raise RuntimeError(f"{site}: it cannot be written")
    state = f"sqlite:///{folder}/{podms}.db"
    words = ["-m", "valence_sched.server.main", "serve", "--port", str(port), "--workers",
             str(WORKERS), "--inventory", site, "--state", state]  # fmt: skip
    with running(folder, words, port):
        body = json.dumps({"request": REQUEST}).encode()
        ours = Request(port, "POST", "/v1/select_destinations", body, JSON)
        for clients in CLIENTS:
            bare, found = rates((hello, ours), clients)
            name = f"HTTP {podms}, {clients} clients:"
            yield against(f"{name} p50, times hello", found.p50_ms, bare.p50_ms, 3.0)
            yield against(f"{name} p99, times hello", found.p99_ms, bare.p99_ms, 3.0)
            yield against(f"{name} a request, times hello", found.each_ms, bare.each_ms, 3.0)
            if clients == 1:
                least = bare.p50_ms + _in_process(site)
                name = f"HTTP {podms}: p50, times hello and the decision in process"
                yield against(name, found.p50_ms, least, 2.0)
        if has_placement and podms <= MOST_PROVIDERS:
            yield from _placement(folder, podms, ours)


def _placement(folder: Path, podms: int, ours: Request) -> Iterator[Measurement]:
    """Yield the time per request relative to Placement with equal numbers of providers."""
    port = free_port()
    with placement_server.placement(folder, podms, port, WORKERS):
        _wait_for(port, (folder / "placement.log").read_text)
        theirs = Request(port, "GET", CANDIDATES, None, placement_server.HEADERS)
        for clients in CLIENTS:
            times, found = rates((theirs, ours), clients, sized(25, 2))
            name = f"HTTP {podms}, {clients} clients:"
            yield against(f"{name} a request, times Placement", found.each_ms, times.each_ms, 0.05)


def _in_process(site: str) -> float:
    """Return the median ms of the same decision without HTTP."""
    app = App(environ={})
    engine = app.engine(Selection(sources=(site,)))
    spec = msgspec.convert(REQUEST, RequestSpec)
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        engine.select_destinations(app.config.compile_request(spec, None))
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


def rates(requests: Sequence[Request], clients: int, each: int = EACH) -> list[Rate]:
    """Return the rate of each request, the median of some alternating turns."""
    turns = [[measure(one, clients, each, WARM) for one in requests] for _ in range(TURNS)]
    return [
        Rate(*map(statistics.median, zip(*rates, strict=True)))
        for rates in zip(*turns, strict=True)
    ]


@contextlib.contextmanager
def running(folder: Path, words: Sequence[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program until the context ends; yield its process after its first answer."""
    log = folder / f"{port}.log"
    with log.open("wb") as stream:
        homes = {f"XDG_{kind}_HOME": str(folder) for kind in ("CONFIG", "STATE", "CACHE")}
        process = subprocess.Popen([sys.executable, *words], stdout=stream, stderr=stream,
                                   env=environment(**homes))  # fmt: skip
    try:
        _wait_for(port, log.read_text)
        yield process
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int, log: Callable[[], str]) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=START_S)
        try:
            line.request("GET", "/")
            if line.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            line.close()
    raise RuntimeError(f"port {port} does not answer: {log()[-2000:]}")


def free_port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
