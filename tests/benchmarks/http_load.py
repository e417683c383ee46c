# SPDX-License-Identifier: Apache-2.0
"""Load over HTTP from separate processes: the same request repeated, on persistent connections."""

from __future__ import annotations

import contextlib
import http.client
import multiprocessing
import statistics
import threading
import time
from itertools import chain
from typing import Any, NamedTuple


class Request(NamedTuple):
    """The request that each client sends."""

    port: int
    method: str
    path: str
    body: bytes | None
    headers: dict[str, str]


class Rate(NamedTuple):
    """The latency of an answer for a client, and the time per answer of all clients together."""

    p50_ms: float
    p99_ms: float
    each_ms: float


def measure(request: Request, clients: int, each: int, warm: int) -> Rate:
    """Return the times of ``each`` requests of every client, after ``warm`` requests to warm up.

    Raises:
        RuntimeError: an answer is missing or not a success.
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
    with contextlib.suppress(threading.BrokenBarrierError):  # a client reports the failure below
        start.wait()
    began = time.perf_counter()
    answers: list[list[float] | str] = [results.get() for _ in running]
    took = time.perf_counter() - began
    for process in running:
        process.join()
    if problems := [one for one in answers if isinstance(one, str)]:
        raise RuntimeError(problems[0])
    found = sorted(chain.from_iterable(one for one in answers if not isinstance(one, str)))
    return Rate(statistics.median(found), found[len(found) * 99 // 100], took * 1000 / len(found))


def _client(request: Request, each: int, warm: int, start: Any, results: Any) -> None:
    try:
        found: list[float] | str = _times(request, each, warm, start)
    except (OSError, http.client.HTTPException, threading.BrokenBarrierError) as error:
        start.abort()  # the others wait for this one
        found = f"no answer: {error!r}"
    results.put(found)


def _times(request: Request, each: int, warm: int, start: Any) -> list[float] | str:
    """Return the time of each request in milliseconds, or the error of the first answer."""
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
    return problem or times[warm:]
