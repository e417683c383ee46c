# SPDX-License-Identifier: Apache-2.0
"""Real database engines for tests: one database per process, emptied for each test.

Creating tables is the slowest operation of database servers.
"""

import atexit
import functools
import os
import sys
import tempfile
import unittest
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.unit.store import dialects
from valence_sched.store import tables
from valence_sched.store.database import StoreUrl
from valence_sched.store.store import Store
from valence_sched.store.tables import REVISION

ENGINES = ("sqlite", "postgresql", "mysql")
SERVERS = {
    "postgresql": os.environ.get(
        "VALENCE_SCHED_TEST_POSTGRESQL", "postgresql://root@127.0.0.1:5432/test"
    ),
    "mysql": os.environ.get(
        "VALENCE_SCHED_TEST_MYSQL",
        "mysql://root@127.0.0.1:3306/test?ssl_disabled=true",  # avoids loading all CAs
    ),
}
HOW = {
    "postgresql": "start PostgreSQL on 127.0.0.1:5432 with a database 'test' that user root may "
    "use, or name one in VALENCE_SCHED_TEST_POSTGRESQL",
    "mysql": "start MariaDB on 127.0.0.1:3306 with an account root that has no password, or name "
    "a server in VALENCE_SCHED_TEST_MYSQL",
}

dialects.register()

SHARED: dict[str, str] = {}  # the URL of each server for all tests of this process
_NAMES = [one.name for one in reversed(tables.METADATA.sorted_tables)]
_DELETES = [f"delete from {name};" for name in _NAMES if name not in ("shards", "alembic_version")]
_DELETES.append(
    f"update shards set moved = 0; update alembic_version set version_num = '{REVISION}';"
)
EMPTY = {"postgresql": " ".join(_DELETES), "mysql": f"begin not atomic {' '.join(_DELETES)} end"}


def on_each_engine(case: type, base: type | None = None, engines: Iterable[str] = ENGINES) -> type:
    """Create a subclass of ``case`` and ``base`` for each engine; ``base`` has ``self.url``."""
    module = sys.modules[case.__module__]
    case.__test__ = False  # type: ignore[attr-defined]  # pytest takes any class named Test…
    for engine in engines:
        name = f"{case.__name__}_{engine}"
        words = {"engine": engine, "__module__": case.__module__, "__doc__": case.__doc__,
                 "__test__": True}  # fmt: skip
        setattr(module, name, type(name, (case, base or StoreCase), words))
    return case


class StoreCase(unittest.TestCase):
    """A test case with the URL of an empty store; on a server its tables may exist already."""

    engine = "sqlite"

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.url = self.empty_url()

    def empty_url(self) -> str:
        """Return the URL of an empty store; on a server all have the same tables."""
        return empty_file(self.folder) if self.engine == "sqlite" else self.emptied()

    def fresh_url(self) -> str:
        """Return the URL of a database without tables."""
        if self.engine == "sqlite":
            return f"sqlite:///{self.folder}/{uuid.uuid4().hex}.db"
        return _fresh(self, self.engine, self.addCleanup)

    def emptied(self) -> str:
        """Return the URL that all tests of this process use on a server, with empty tables."""
        if self.engine not in SHARED:
            url = _fresh(self, self.engine, atexit.register)
            Store(url).close()
            SHARED[self.engine] = url
        engine = raw_engine(SHARED[self.engine])
        with engine.begin() as connection:
            connection.exec_driver_sql(EMPTY[self.engine])
        engine.dispose()
        return SHARED[self.engine]

    @functools.cached_property
    def one(self) -> Store:
        """The store that most tests use; it is opened at its first use."""
        return self.store()

    def store(self, url: str | None = None, **words: Any) -> Store:
        store = Store(url or self.url, **words)
        self.addCleanup(store.close)
        return store

    def execute(self, statement: Any, *rows: Any) -> Any:
        """Run a statement directly on the database; return its rows, if any."""
        engine = raw_engine(self.url)
        try:
            with engine.begin() as connection:
                found = connection.execute(statement, *rows)
                return found.all() if found.returns_rows else None
        finally:
            engine.dispose()


def empty_file(folder: Path) -> str:
    """Return the URL of a new file with the tables of a store, created once per process."""
    file = folder / f"{uuid.uuid4().hex}.db"
    file.touch(0o600)
    file.write_bytes(_tables_of_sqlite())
    return f"sqlite:///{file}"


@functools.cache
def _tables_of_sqlite() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.db"
        Store(f"sqlite:///{file}").close()
        return file.read_bytes()


def raw_engine(url: str, **words: Any) -> sa.Engine:
    """Return a plain SQLAlchemy engine for statements of a test."""
    return sa.create_engine(StoreUrl(url).url, poolclass=sa.NullPool, **words)


def _fresh(case: unittest.TestCase, engine: str, cleanup: Callable[..., Any]) -> str:
    server = SERVERS[engine]
    name = f"vs_{uuid.uuid4().hex[:16]}"
    kind = "schema" if engine == "postgresql" else "database"
    try:
        _admin(server, f"create {kind} {name}")
    except sa.exc.OperationalError:
        if os.environ.get("VALENCE_SCHED_REQUIRE_ENGINES"):
            case.fail(f"{engine} does not answer: {HOW[engine]}")
        case.skipTest(f"{engine} does not answer: {HOW[engine]}")
    cleanup(_admin, server, f"drop {kind} {name}{' cascade' * (kind == 'schema')}")
    url = StoreUrl(server).url
    if engine == "postgresql":
        url = url.update_query_dict({"options": f"-csearch_path={name}"})
    else:
        url = url.set(database=name)
    return url.render_as_string(hide_password=False)


def _admin(server: str, statement: str) -> None:
    engine = raw_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)
    finally:
        engine.dispose()
