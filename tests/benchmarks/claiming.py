# SPDX-License-Identifier: Apache-2.0
"""Claims a second against the bare insert of three rows; a look when one of many moved."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from tests.benchmarks.measure import Measurement, against, median_ms
from tests.unit.store.engines import SERVERS, _admin, raw_engine
from tests.unit.store.site import part, podm
from valence_sched.store import podms
from valence_sched.store.address import Address
from valence_sched.store.store import Store

EACH = 40  # claims of each process
MANY = 10_000

bare = sa.Table(
    "bare",
    sa.MetaData(),
    sa.Column("a", sa.String(32), primary_key=True),
    sa.Column("b", sa.String(32), primary_key=True),
)


def claiming() -> Iterator[Measurement]:
    """Yield milliseconds a claim over those of a bare insert, on each engine that runs."""
    for engine, make in _urls():
        for processes in (1, 4, 8):
            url, drop = make()
            spread = _rate(_bare, _made(url), processes)
            for kind, spread_over in (("hot", 1), ("spread", processes)):
                fresh, away = make()
                with Store(fresh) as store:
                    for number in range(spread_over):
                        store.remember(podm(f"p{number}", processes * EACH))
                took = _rate(_take, fresh, processes, spread_over)
                name = f"claims {engine} {kind} {processes}"
                yield against(name, took, spread, 2.0, "ms a claim")
                away()
            drop()


def looking() -> Iterator[Measurement]:
    """Yield a look when one of many moved against one when none did."""
    with tempfile.TemporaryDirectory() as folder, Store(f"sqlite:///{folder}/s.db") as store:
        many = [podm(f"p{number}", 1) for number in range(MANY)]
        store._database.write(lambda c: [podms.remember(c, one) for one in many])
        known = store.look().known
        none = median_ms(lambda: store.look(known), 20)
        store.remember(podm("p5", 2))
        yield against("look one of 10000", median_ms(lambda: store.look(known), 20), none, 3.0)


def _urls() -> Iterator[tuple[str, Callable[[], tuple[str, Callable[[], None]]]]]:
    for engine in ("sqlite", "postgresql", "mysql"):

        def make(engine: str = engine) -> tuple[str, Callable[[], None]]:
            if engine == "sqlite":
                folder = tempfile.TemporaryDirectory()
                return f"sqlite:///{folder.name}/s.db", folder.cleanup
            name = f"vs_{uuid.uuid4().hex[:16]}"
            kind = "schema" if engine == "postgresql" else "database"
            _admin(SERVERS[engine], f"create {kind} {name}")
            url = Address(SERVERS[engine]).url
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


def _made(url: str) -> str:
    engine = raw_engine(url)
    bare.metadata.create_all(engine)
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
    engine.dispose()
    return url


def _rate(work: Callable[..., None], url: str, processes: int, podms: int = 1) -> float:
    """Return milliseconds of wall time a claim, over all processes together."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start, done = context.Barrier(processes + 1), context.Barrier(processes + 1)
    running = [
        context.Process(target=work, args=(url, number, podms, start, done))
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


def _take(url: str, number: int, podms: int, start: Any, done: Any) -> None:
    with Store(url) as store:
        generations = {seen.id: seen.generation for seen in store.look().seen}
        name = f"p{number % podms}"
        start.wait()
        for turn in range(EACH):
            uri = f"c{number * EACH + turn}"
            store.claims.take([part(name, generations[name], uri)])
        done.wait()


def _bare(url: str, number: int, _podms: int, start: Any, done: Any) -> None:
    engine = sa.create_engine(
        Address(url).url, connect_args={"timeout": 20} if "sqlite" in url else {}
    )
    insert = sa.insert(bare)
    with engine.connect() as connection:
        connection.execute(sa.select(bare).limit(1)).all()
        connection.rollback()
        start.wait()
        for turn in range(EACH):
            rows = [{"a": f"{number}-{turn}", "b": str(row)} for row in range(3)]
            connection.execute(insert, rows)
            connection.commit()
        done.wait()
    engine.dispose()
