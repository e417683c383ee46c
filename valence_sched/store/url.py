# SPDX-License-Identifier: Apache-2.0
"""Store URL: parsed for SQLAlchemy and printed without its password."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from urllib.parse import unquote

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from valence_sched.errors import StoreError, one_line

# Of each engine: the driver, its module and the extra that installs it.
DRIVERS = {
    "sqlite": ("sqlite", "sqlite3", ""),
    "postgresql": ("postgresql+psycopg", "psycopg", "postgresql"),
    "mysql": ("mysql+pymysql", "pymysql", "mysql"),
    "mariadb": ("mariadb+pymysql", "pymysql", "mysql"),
}


class StoreUrl:
    """A store's URL; printed without its password and without what follows the question mark."""

    def __init__(self, text: str) -> None:
        try:
            url = make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            raise StoreError("the store's URL cannot be read: write it as sqlite:///FILE, "
                             "postgresql://HOST/NAME or mysql://HOST/NAME") from None  # fmt: skip
        self.engine = url.get_backend_name()
        if self.engine not in DRIVERS:
            hint = "use sqlite, postgresql or mysql"
            raise StoreError(one_line(f"a store in {self.engine!r} is not known: {hint}"))
        driver, module, extra = DRIVERS[self.engine]
        if importlib.util.find_spec(module) is None:
            raise StoreError(f"{self.engine} needs {module}: pip install 'valence-sched[{extra}]'")
        if self.engine == "sqlite" and (path := text.partition(":///")[2]):
            url = url.set(database=unquote(path.partition("?")[0]))  # not by every SQLAlchemy
        self.url: URL = url if "+" in url.drivername else url.set(drivername=driver)

    @property
    def file(self) -> Path | None:
        """Return the file of an embedded store, None for a server's or one in memory."""
        name = self.url.database
        if self.engine != "sqlite" or not name or name == ":memory:":
            return None
        return Path(os.path.expanduser(name))

    @property
    def in_memory(self) -> bool:
        """Return whether the store ends with its process."""
        return self.engine == "sqlite" and self.file is None

    def __str__(self) -> str:
        if self.engine == "sqlite":
            return str(self.file or "store in memory")
        host = self.url.host or "localhost"
        port = f":{self.url.port}" if self.url.port else ""
        return one_line(f"{self.engine}://{host}{port}/{self.url.database or ''}")

    def __repr__(self) -> str:
        return f"StoreUrl({str(self)!r})"
