# SPDX-License-Identifier: Apache-2.0
"""A minimal client of pod managers: it sends the requests of one reading and decodes the JSON.

Its time is the least that a client with Python's own HTTP can take on the same machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any

import msgspec

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
#: The requests of a reading if ``$expand`` is offered and nothing else is linked.
TREES = (f"{ROOT}/CompositionService?$expand=.($levels=6)", f"{ROOT}/Systems?$expand=.($levels=1)")
HEADERS = {"Accept": "application/json"}


def read(urls: Mapping[str, str], user: str, password: str, times: int) -> tuple[float, float]:
    """Return the median wall time of reading all pod managers, and the CPU time of one, in ms."""
    login = msgspec.json.encode({"UserName": user, "Password": password})
    hosts = [url.removeprefix("http://") for url in urls.values()]
    walls, cpus = [], []
    for _ in range(times):
        started, cpu = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(len(hosts)) as pool:
            list(pool.map(lambda host: _podm(host, login), hosts))
        walls.append((time.perf_counter() - started) * 1000)
        cpus.append((time.process_time() - cpu) * 1000 / len(hosts))
    return statistics.median(walls), statistics.median(cpus)


def _podm(host: str, login: bytes) -> None:
    """Log in, read the trees, and log out."""
    line = HTTPConnection(host)
    _ask(line, "GET", f"{ROOT}/", HEADERS)
    session = _ask(line, "POST", SESSIONS, HEADERS, login)
    headers = HEADERS | {"X-Auth-Token": session["X-Auth-Token"]}
    for tree in TREES:
        _ask(line, "GET", tree, headers)
    _ask(line, "DELETE", session["Location"], headers)
    line.close()


def _ask(
    line: HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None = None,
) -> Any:
    """Return the headers of an answer, after decoding its body."""
    line.request(method, path, body, headers)
    response = line.getresponse()
    found = response.read()
    if response.status >= 300:
        raise RuntimeError(f"{method} {path}: HTTP {response.status}")
    if found:
        msgspec.json.decode(found)
    return response.headers
