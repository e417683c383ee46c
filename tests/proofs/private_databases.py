# SPDX-License-Identifier: Apache-2.0
"""Private database servers, which a test may kill and start again.

A server with other users is never killed. Each server has a free port of loopback and a temporary
folder. It does not wait for the disk, since only the process dies, not the machine.
"""

from __future__ import annotations

import contextlib
import getpass
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tests.unit.store.engines import raw_engine

START_S = 60
NAME = "proofs"
ADMIN = {"postgresql": "postgres", "mysql": "mysql"}  # the database of a new server


class PrivateDatabase:
    """A running database server; SkipTest if its programs are missing."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine, self._folder = engine, folder
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._account = _account(engine)
        self._log = folder / "log"
        if self._account is not None:
            folder.chmod(0o755)
        data = folder / "data"
        data.mkdir()
        if self._account is not None:
            shutil.chown(data, self._account)
        self._data = data
        self._make()
        self.start()
        self._create()

    @property
    def url(self) -> str:
        """Return the URL of a store in it."""
        user = "root" if self.engine == "mysql" else self._account or getpass.getuser()
        return f"{self.engine}://{user}@127.0.0.1:{self.port}/{NAME}"

    def start(self) -> None:
        """Start the server, and wait until it answers: after a kill it recovers first."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._server(), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                cwd=self._data, start_new_session=True, **_identity(self._account),
            )  # fmt: skip
        until = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(self._log.read_text()[-2000:])
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server with all its processes, as with ``kill -9``."""
        assert self._process is not None
        for pid in (*_children(self._process.pid), self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def connections(self) -> int:
        """Return the number of connected clients, without this one."""
        query = {
            "postgresql": "select count(*) from pg_stat_activity where backend_type = "
            "'client backend' and pid <> pg_backend_pid()",
            "mysql": "select count(*) from information_schema.processlist where user = 'root' "
            "and id <> connection_id()",
        }[self.engine]
        engine = raw_engine(self.url)
        try:
            with engine.connect() as connection:
                return int(connection.exec_driver_sql(query).scalar_one())
        finally:
            engine.dispose()

    def _make(self) -> None:
        if self.engine == "postgresql":
            words = [_program("postgresql", "initdb"), "-D", str(self._data), "--auth=trust",
                     "--no-sync", "--no-instructions", "--encoding=UTF8",
                     "--locale=C"]  # fmt: skip
        else:
            words = [_program("mysql", "mariadb-install-db"), f"--datadir={self._data}",
                     "--no-defaults", "--skip-test-db", "--skip-name-resolve",
                     "--auth-root-authentication-method=normal"]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL,
                       cwd=self._data, **_identity(self._account))  # fmt: skip

    def _server(self) -> Sequence[str]:
        if self.engine == "postgresql":
            # a commit reaches the files before its answer, which suffices if only a process dies
            return [_program("postgresql", "postgres"), "-D", str(self._data), "-p",
                    str(self.port), "-h", "127.0.0.1", "-k", "", "-c", "fsync=off", "-c",
                    "max_connections=200"]  # fmt: skip
        return [_program("mysql", "mariadbd"), "--no-defaults", f"--datadir={self._data}",
                f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
                f"--socket={self._data}/socket", f"--pid-file={self._data}/pid",
                "--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M"]  # fmt: skip

    def _create(self) -> None:
        admin = sa.make_url(self.url).set(database=ADMIN[self.engine])
        engine = raw_engine(admin.render_as_string(), isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(f"create database {NAME}")
        finally:
            engine.dispose()

    def _answers(self) -> bool:
        admin = sa.make_url(self.url).set(database=ADMIN[self.engine])
        engine = raw_engine(admin.render_as_string())
        try:
            with engine.connect():
                return True
        except sa.exc.OperationalError:
            return False
        finally:
            engine.dispose()


@contextlib.contextmanager
def private_database(engine: str) -> Iterator[PrivateDatabase]:
    """Yield a server of an engine, ``postgresql`` or ``mysql``; it ends with the context."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        database = PrivateDatabase(engine, Path(folder))
        try:
            yield database
        finally:
            database.kill()


def _program(engine: str, name: str) -> str:
    """Return the path of a program; if it is missing, skip the test, or fail in CI."""
    folders = [os.environ.get("PATH", os.defpath), "/usr/sbin"]
    folders += sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        text = f"no program {name}: install the server of {engine}"
        if os.environ.get("VALENCE_SCHED_REQUIRE_ENGINES"):
            raise AssertionError(text)
        raise unittest.SkipTest(text)
    return found


def _account(engine: str) -> str | None:
    """Return the account of the server, None for the account of the test; neither is root."""
    if os.geteuid() != 0:
        return None
    name = {"postgresql": "postgres", "mysql": "mysql"}[engine]
    try:
        return pwd.getpwnam(name).pw_name
    except KeyError:
        _program(engine, f"that runs as {name}")  # it is not installed either
        raise


def _identity(account: str | None) -> dict[str, Any]:
    """Return the arguments that start a process as an account."""
    if account is None:
        return {}
    return {"user": account, "group": pwd.getpwnam(account).pw_gid, "extra_groups": ()}


def _children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
