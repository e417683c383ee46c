# SPDX-License-Identifier: Apache-2.0
"""What all tables are made of: types alike on every engine, keys, and the database's clock.

Names and URIs are up to a thousand characters, and engines differ in how they compare text and in
how long a key may be: every key is a digest, and the text stands beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import SchemaItem
from sqlalchemy.sql.functions import FunctionElement

CHUNK = 500  # of values in one statement
METADATA = sa.MetaData()
_INNODB = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
EVERYWHERE: dict[str, Any] = {
    f"{name}_{word}": it for name in ("mysql", "mariadb") for word, it in _INNODB.items()
}
KEY = sa.String(32)
WORDS = sa.String(1024)
DOCUMENT = sa.LargeBinary(2**32 - 1)  # MySQL chooses a column that holds so much
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def table(name: str, *columns: SchemaItem) -> sa.Table:
    """Return a table, alike on every engine."""
    return sa.Table(name, METADATA, *columns, **EVERYWHERE)


def key_of(*words: str) -> str:
    """Return what stands for some words in keys: 32 hexadecimal digits."""
    return hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()


def pairs(rows: Iterable[Any]) -> dict[Any, Any]:
    """Return rows of two columns as a dict."""
    return {row[0]: row[1] for row in rows}


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield values in parts that one statement can name."""
    return (values[first : first + CHUNK] for first in range(0, len(values), CHUNK))


class began(FunctionElement[float]):  # noqa: N801
    """Seconds since 1970 when the statement began: what an index can be asked about."""

    type = sa.Double()
    inherit_cache = True


class now(FunctionElement[float]):  # noqa: N801
    """Seconds since 1970 by the database's own clock."""

    type = sa.Double()
    inherit_cache = True


@compiles(began, "sqlite")
@compiles(now, "sqlite")
def _sqlite_now(_element: object, _compiler: Any, **_words: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(_element: now, _compiler: Any, **_words: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


@compiles(now, "mysql")
@compiles(now, "mariadb")
def _mysql_now(_element: now, _compiler: Any, **_words: Any) -> str:
    return "(unix_timestamp(sysdate(6)) + 0e0)"


@compiles(began, "postgresql")
def _postgresql_began(_element: began, _compiler: Any, **_words: Any) -> str:
    return "extract(epoch from statement_timestamp())::double precision"


@compiles(began, "mysql")
@compiles(began, "mariadb")
def _mysql_began(_element: began, _compiler: Any, **_words: Any) -> str:
    return "(unix_timestamp(now(6)) + 0e0)"
