# SPDX-License-Identifier: Apache-2.0
"""The time of a claim relative to a bare insert of three rows, and of a check after one change."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from tests.benchmarks.measure import Measurement, against, median_ms, sized
from tests.unit.store.engines import SERVERS, _admin
from tests.unit.store.site import part, podm
from valence_sched.store.database import StoreUrl
from valence_sched.store.store import Store

EACH = sized(60, 2)  # claims of each process
WARM = sized(8, 1)  # claims of each process before those
ROUNDS = sized(3, 1)
MANY = sized(10_000, 40)

bare = sa.Table(
    "bare",
    sa.MetaData(),
    sa.Column("a", sa.String(32), primary_key=True),
    sa.Column("b", sa.String(32), primary_key=True),
)


def claiming() -> Iterator[Measurement]:
    """Yield the time of a claim relative to the time of a bare insert, on each engine that runs.

    Both use the same connections, so that durability and latency are equal. Each time is the best
    of some alternating rounds, since other load makes both slower.
    """
    for engine, make in _urls():
        for processes in (1, 4, 8):
            best: dict[str, float] = {}
            for _ in range(ROUNDS):
                for kind, work, podms in (
                    ("bare", _bare, 1),
                    ("hot", _take, 1),
                    ("spread", _take, processes),
                ):
                    url, drop = make()
                    took = _rate(work, _made(url, podms, processes), processes, podms)
                    best[kind] = min(took, best.get(kind, took))
                    drop()
            for kind in ("hot", "spread"):
                name = f"claims {engine} {kind} {processes}"
                target = 3.0 if processes > 1 and kind == "hot" else 2.0
                yield against(name, best[kind], best["bare"], target, "ms a claim")


def looking() -> Iterator[Measurement]:
    """Yield the time of a check after one of many pod managers changed, relative to no change."""
    with tempfile.TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/s.db") as store:
        many = [podm(f"p{number}", 1) for number in range(MANY)]
        store.remember_all(many)
        known = store.snapshot().position
        none = median_ms(lambda: store.snapshot(known), 20)
        store.remember(podm("p5", 2))
        yield against(
            f"look one of {MANY}", median_ms(lambda: store.snapshot(known), 20), none, 3.0
        )


def _urls() -> Iterator[tuple[str, Callable[[], tuple[str, Callable[[], None]]]]]:
    for engine in ("sqlite", "postgresql", "mysql"):

        def make(engine: str = engine) -> tuple[str, Callable[[], None]]:
            if engine == "sqlite":
                folder = tempfile.TemporaryDirectory()
                return f"sqlite:///{folder.name}/s.db", folder.cleanup
            name = f"vs_{uuid.uuid4().hex[:16]}"
            kind = "schema" if engine == "postgresql" else "database"
            _admin(SERVERS[engine], f"create {kind} {name}")
            url = StoreUrl(SERVERS[engine]).url
            if engine == "postgresql":
                url = url.update_query_dict({"options": f"-csearch_path={name}"})
            else:
                url = url.set(database=name)
            words = f"drop {kind} {name}{' cascade' * (kind == 'schema')}"
            return url.render_as_string(False), lambda: _admin(SERVERS[engine], words)

        try:
            make()[1]()
        except sa.exc.OperationalError:
            continue
        yield engine, make


def _made(url: str, podms: int, processes: int) -> str:
    with Store(url) as store:
        store._database.write(bare.metadata.create_all)
        for number in range(podms):
            store.remember(podm(f"p{number}", processes * (WARM + EACH)))
    return url


def _rate(work: Callable[..., None], url: str, processes: int, podms: int = 1) -> float:
    """Return the wall time of a claim in milliseconds, over all processes together."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start, done = context.Barrier(processes + 1), context.Barrier(processes + 1)
    running = [
        context.Process(target=_or_abort, args=(work, url, number, podms, start, done))
        for number in range(processes)
    ]
    for process in running:
        process.start()
    start.wait()
    began = time.perf_counter()
    done.wait()
    took = time.perf_counter() - began
    for process in running:
        process.join()
    return took * 1000 / (processes * EACH)


def _or_abort(
    work: Callable[..., None], url: str, number: int, podms: int, start: Any, done: Any
) -> None:
    """Do the work of a process; after a failure, abort so that other processes do not wait."""
    try:
        work(url, number, podms, start, done)
    except BaseException:
        start.abort()
        done.abort()
        raise


def _take(url: str, number: int, podms: int, start: Any, done: Any) -> None:
    with Store(url) as store:
        name = f"p{number % podms}"
        generation = store.load_podms()[name].generation

        def take(turn: int) -> None:
            uri = f"c{number * (WARM + EACH) + turn}"
            store.claims.create([part(name, generation, uri)])

        _timed(take, start, done)


def _bare(url: str, number: int, _podms: int, start: Any, done: Any) -> None:
    insert = sa.insert(bare)
    with Store(url) as store:

        def write(turn: int) -> None:
            rows = [{"a": f"{number}-{turn}", "b": str(row)} for row in range(3)]
            store._database.write(lambda c: c.execute(insert, rows))

        _timed(write, start, done)


def _timed(work: Callable[[int], None], start: Any, done: Any) -> None:
    """Repeat the work until its statements are compiled, then until all processes are timed."""
    for turn in range(WARM):
        work(turn)
    start.wait()
    for turn in range(WARM, WARM + EACH):
        work(turn)
    done.wait()
