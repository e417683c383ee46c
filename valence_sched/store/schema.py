# SPDX-License-Identifier: Apache-2.0
"""Schema of the store: created, upgraded by alembic, refused when newer."""

import contextlib
import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from valence_sched.errors import StoreError, plain_reason
from valence_sched.store import tables
from valence_sched.store.database import Database
from valence_sched.store.tables import REVISION

MIGRATIONS = Path(__file__).parent / "migrations"
LOCK = "valence-sched schema"
LOCK_NUMBER = 0x76616C65  # the same for engines with numbered locks
LOCK_TIMEOUT_S = 60


def prepare(database: Database, revision: str = REVISION, migrations: Path = MIGRATIONS) -> None:
    """Create or upgrade the file, its journal mode and the tables; safe for concurrent processes.

    ``revision`` is the latest of ``migrations``. StoreError if the store cannot be opened, has a
    newer version or belongs to another program.
    """
    if database.address.file is not None:
        _make_file(database.address.file)
    stored = database.read(stored_revision, "opening")
    if stored != revision:
        database.read(lambda connection: _refuse_foreign(connection, database), "opening")
        _refuse_newer(stored, revision, database)
    if database.address.file is not None:
        # lets readers and a writer work concurrently; the mode is stored in the file
        enable_wal = functools.partial(database.run_raw, "PRAGMA journal_mode = WAL")
        database.retry(enable_wal, "opening", most=50)
    if stored == revision:
        return

    def work(connection: sa.Connection) -> None:
        with _schema_lock(connection):
            stored = stored_revision(connection)  # another process may be faster
            _refuse_newer(stored, revision, database)
            if stored is None:
                _create(connection, revision)
            elif stored != revision:
                _migrate(connection, migrations, "upgrade", "head")

    new = database.address.engine == "sqlite" or stored is None
    database.write(work, "making tables" if new else "upgrading")


def _create(connection: sa.Connection, revision: str) -> None:
    # MySQL commits each table: an interrupted process may have created some
    found = set(sa.inspect(connection).get_table_names())
    missing = [one for one in tables.METADATA.sorted_tables if one.name not in found]
    tables.METADATA.create_all(connection, missing, checkfirst=False)
    connection.execute(sa.delete(tables.shards))
    numbers = (*range(tables.SHARDS), tables.REGISTRY_SHARD, tables.ZONES_SHARD)
    rows = [{"shard": number, "moved": 0} for number in numbers]
    connection.execute(sa.insert(tables.shards), rows)
    connection.execute(sa.insert(tables.version), {"version_num": revision})


@contextlib.contextmanager
def _schema_lock(connection: sa.Connection) -> Iterator[None]:
    """Lock the schema; on SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_NUMBER)))
        yield
    elif connection.dialect.name in ("mysql", "mariadb"):
        # lock names are global to the server: use one per database
        name = sa.func.left(sa.func.concat(LOCK, " ", sa.func.database()), 64)
        if not connection.scalar(sa.select(sa.func.get_lock(name, LOCK_TIMEOUT_S))):
            raise StoreError("another process is changing the schema of the store: try again")
        try:
            yield
        finally:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                connection.execute(sa.select(sa.func.release_lock(name)))
    else:
        yield


def stored_revision(connection: sa.Connection) -> str | None:
    """Return the revision of a store, None before it has tables."""
    if not sa.inspect(connection).has_table(tables.version.name):
        return None
    return connection.scalar(sa.select(tables.version.c.version_num))


def _refuse_foreign(connection: sa.Connection, database: Database) -> None:
    found = set(sa.inspect(connection).get_table_names())
    version = {tables.version.name}
    ours = tables.METADATA.tables.keys() - version
    others = sorted(found - ours - version)
    # a server may have other tables, but not those of another alembic program
    alone = database.address.engine == "sqlite" or found & version
    if others and alone and not found & ours:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        text = f"it has the tables of another program ({shown}): name another store"
        raise StoreError(f"{database.address}: {text}")


def _refuse_newer(stored: str | None, revision: str, database: Database) -> None:
    if stored is not None and stored > revision:
        known = f"this program supports up to {revision}: use a newer valence-sched"
        raise StoreError(f"{database.address}: its schema has version {stored}, {known}")


def _make_file(file: Path) -> None:
    """Create the file with access for this user only.

    An existing file is not opened, since closing it would end the locks of all its connections.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            os.close(os.open(os.path.realpath(file), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            if not stat.S_ISREG(file.stat().st_mode):
                raise OSError("is not a regular file") from None
            if not os.access(file, os.R_OK | os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES)) from None
    except OSError as error:
        hint = "name another store, or make it writable"
        raise StoreError(f"{file}: {plain_reason(error)} ({hint})") from None


def downgrade(database: Database, revision: str) -> str | None:
    """Downgrade to an earlier revision; return the previous revision.

    Raises:
        StoreError: the revision is not earlier, or a process uses the store.
    """

    def work(connection: sa.Connection) -> str | None:
        with _schema_lock(connection):
            stored = stored_revision(connection)
            _refuse_newer(stored, REVISION, database)
            earlier = [one for one in revisions() if stored and one <= stored]
            if revision not in earlier:
                text = f"no earlier version {revision!r}: use one of {', '.join(earlier) or '-'}"
                raise StoreError(f"{database.address}: {text}")
            leases = tables.leases
            if sa.inspect(connection).has_table(leases.name):
                held = sa.select(leases.c.holder).where(leases.c.expires_at > tables.now())
                if (holder := connection.scalar(held)) is not None:
                    hint = "stop all services first; after a kill, wait a minute"
                    raise StoreError(f"{database.address}: in use by {holder}: {hint}")
            if stored != revision:
                _migrate(connection, MIGRATIONS, "downgrade", revision)
            return stored

    return database.write(work, "downgrading")


def revisions() -> list[str]:
    files = (MIGRATIONS / "versions").glob("r[0-9]*_*.py")
    return sorted(file.name[1:].partition("_")[0] for file in files)


# A table, a column or an index exists already, or no longer exists.
MYSQL_DONE_NUMBERS = {1050, 1051, 1060, 1061, 1091}


@contextlib.contextmanager
def _resumed_steps(connection: sa.Connection) -> Iterator[None]:
    """Skip the steps of an interrupted migration on MySQL, which commits each change of a table."""

    def execute(cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        try:
            context.dialect.do_execute(cursor, statement, parameters, context)
        except context.dialect.loaded_dbapi.Error as error:
            if error.args[0] not in MYSQL_DONE_NUMBERS:
                raise
        return True

    if connection.dialect.name not in ("mysql", "mariadb"):
        yield
        return
    sa.event.listen(connection.engine, "do_execute", execute)
    try:
        yield
    finally:
        sa.event.remove(connection.engine, "do_execute", execute)


def _migrate(connection: sa.Connection, migrations: Path, way: str, target: str) -> None:
    # alembic takes long to import, and only an older store needs it
    from alembic import config, script
    from alembic.runtime.environment import EnvironmentContext

    settings = config.Config()
    settings.set_main_option("script_location", str(migrations).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    scripts = script.ScriptDirectory.from_config(settings)

    def steps(revision: object, _context: object) -> object:
        if way == "upgrade":
            return scripts._upgrade_revs(target, revision)  # type: ignore[arg-type]
        return scripts._downgrade_revs(target, revision)  # type: ignore[arg-type]

    environment = EnvironmentContext(settings, scripts, fn=steps)
    with _resumed_steps(connection), environment:
        environment.configure(connection=connection, target_metadata=tables.METADATA)
        environment.run_migrations()
