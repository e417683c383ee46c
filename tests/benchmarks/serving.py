# SPDX-License-Identifier: Apache-2.0
"""The time of a decision of the service, relative to its shortest answer.

One worker of the real program follows a state of many registered pod managers. The decision and the
bare request alternate over one connection, since other load makes both slower.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.measure import Measurement, against, sized
from tests.unit.store.site import podm
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

SIZES = (sized(100, 2), sized(1000, 3))
BLOCKS, TIMES = 8, sized(200, 2)
HELLO, SELECT = "/healthcheck/alive", "/v1/select_destinations"
ASKED = json.dumps({"request": {"properties": {"processor": {"total_cores": 8}}}})


def serving() -> Iterator[Measurement]:
    """Yield the median of a decision relative to a bare answer: unchanged, and after one change."""
    for count in SIZES:
        with (
            tempfile.TemporaryDirectory() as folder,
            _state(folder, count) as store,
            _served(folder, store.address) as connection,
        ):
            yield _measured(f"select of {count}", connection, lambda: None, 3.0)
            changes = map(store.remember, _readings())
            name = f"select of {count} after one changed"
            yield _measured(name, connection, functools.partial(next, changes), 6.0)


def _readings() -> Iterator[FullPodm]:
    """Yield readings of one pod manager, each with other blocks than the previous one."""
    for number in itertools.count():
        yield podm("p1", 1 + number % BLOCKS)


def _measured(
    name: str, connection: http.client.HTTPConnection, change: Callable[[], object], target: float
) -> Measurement:
    hello, select = [], []
    for number in range(TIMES + 5):
        change()
        took = _ms(connection, "GET", HELLO), _ms(connection, "POST", SELECT, ASKED)
        if number >= 5:
            hello.append(took[0])
            select.append(took[1])
    return against(name, statistics.median(select), statistics.median(hello), target)


def _ms(connection: http.client.HTTPConnection, method: str, path: str, body: str = "") -> float:
    headers = {"Content-Type": "application/json"} if body else {}
    started = time.perf_counter()
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    content = answer.read()
    took = (time.perf_counter() - started) * 1000
    assert answer.status == 200, content
    return took


@contextlib.contextmanager
def _state(folder: str, count: int) -> Iterator[Store]:
    with Store(f"sqlite:///{folder}/state.sqlite") as store:
        for number in range(count):
            store.register(Registration(name=f"p{number}", url=f"https://p{number}"))
        store.remember_all([podm(f"p{number}", BLOCKS) for number in range(count)])
        yield store


@contextlib.contextmanager
def _served(folder: str, state: str) -> Iterator[http.client.HTTPConnection]:
    settings, log = Path(folder, "service.yaml"), Path(folder, "log")
    settings.write_text(f"{{port: 0, state: '{state}', reader: off}}\n")
    homes = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"), folder)
    words = [sys.executable, "-m", "valence_sched.server.main", "serve", "--config", str(settings)]
    with log.open("wb") as stream:
        process = subprocess.Popen(words, stderr=stream, env={**os.environ, **homes})
    try:
        for _ in range(1200):
            if found := re.search(r"Listening at: http://([\d.]+):(\d+)", log.read_text()):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        else:
            raise AssertionError(log.read_text())
        connection = http.client.HTTPConnection(found[1], int(found[2]), timeout=60)
        with contextlib.closing(connection):
            yield connection
    finally:
        process.terminate()
        process.wait(60)
