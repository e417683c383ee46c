# SPDX-License-Identifier: Apache-2.0
"""SQLAlchemy's dialects of the stores, whose engines share their compiled statements.

SQLAlchemy compiles each statement once per engine, and the tables each time. Tests open a store
each, and would compile the same statements in each.
"""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from valence_sched.store.tables import METADATA

COMPILED: dict[Any, Any] = {}  # by dialect and statement


class Sharing:
    """A dialect that equals the others of its class, as a key of compiled statements."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    @classmethod
    def engine_created(cls, engine: sa.Engine) -> None:
        engine.update_execution_options(compiled_cache=COMPILED)


class SharingSqlite(Sharing, SQLiteDialect_pysqlite):
    supports_statement_cache = True

    def ddl_compiler(self, dialect: sa.Dialect, ddl: Any, **options: Any) -> Any:
        """Return the compiled statement, kept if it creates a table or an index of a store."""
        element = getattr(ddl, "element", None)
        compiled = SQLiteDialect_pysqlite.ddl_compiler
        if getattr(getattr(element, "table", element), "metadata", None) is not METADATA:
            return compiled(dialect, ddl, **options)
        key = (type(ddl), element, *options)
        if key not in COMPILED:
            COMPILED[key] = compiled(dialect, ddl, **options)
        return COMPILED[key]


class SharingPostgresql(Sharing, PGDialect_psycopg):
    supports_statement_cache = True


class SharingMysql(Sharing, MySQLDialect_pymysql):
    supports_statement_cache = True


def register() -> None:
    """Let all engines of this process that are created later have these dialects."""
    registry.register("sqlite", __name__, SharingSqlite.__name__)
    registry.register("postgresql.psycopg", __name__, SharingPostgresql.__name__)
    registry.register("mysql.pymysql", __name__, SharingMysql.__name__)
