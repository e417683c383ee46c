# SPDX-License-Identifier: Apache-2.0
"""Load over HTTP from processes of its own: one request again and again, on kept connections."""

from __future__ import annotations

import http.client
import multiprocessing
import statistics
import time
from typing import Any, NamedTuple


class Request(NamedTuple):
    """A request as it is sent each time."""

    port: int
    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]


class Rate(NamedTuple):
    """What a client waits for one answer, and what all of them together take for one."""

    p50_ms: float
    p99_ms: float
    each_ms: float


def measure(request: Request, clients: int, each: int, warm: int) -> Rate:
    """Return the times of ``each`` requests of every client, after ``warm`` that do not count.

    Raises:
        RuntimeError: an answer is no success.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start, results = context.Barrier(clients + 1), context.SimpleQueue()
    running = [
        context.Process(target=_client, args=(request, each, warm, start, results))
        for _ in range(clients)
    ]
    for process in running:
        process.start()
    start.wait()
    began = time.perf_counter()
    found: list[float] = []
    for _ in running:
        times = results.get()
        if isinstance(times, str):
            raise RuntimeError(times)
        found += times
    took = time.perf_counter() - began
    for process in running:
        process.join()
    found.sort()
    return Rate(statistics.median(found), found[len(found) * 99 // 100], took * 1000 / len(found))


def _client(request: Request, each: int, warm: int, start: Any, results: Any) -> None:
    line = http.client.HTTPConnection("127.0.0.1", request.port, timeout=120)
    times, problem = [], ""
    for turn in range(warm + each):
        if turn == warm:
            start.wait()
        began = time.perf_counter()
        line.request(request.method, request.path, request.body, request.headers)
        response = line.getresponse()
        text = response.read()
        times.append((time.perf_counter() - began) * 1000)
        if response.status != 200 and not problem:
            problem = f"HTTP {response.status}: {text[:300]!r}"
    results.put(problem or times[warm:])
