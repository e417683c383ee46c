# SPDX-License-Identifier: Apache-2.0
"""Test cases on each engine, on private servers: a server that is killed has no other users."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from typing import ClassVar

from tests.proofs.private_databases import PrivateDatabase, private_database
from tests.unit.store.engines import ENGINES


def on_each_private_engine(case: type) -> type:
    """Create a test case of a class for each engine; its ``state_url`` names an empty store."""
    return on_private_engines(*ENGINES)(case)


def on_private_engines(*engines: str):
    """Return a decorator that creates a test case of a class for each of some engines."""

    def decorate(case: type) -> type:
        module = sys.modules[case.__module__]
        for engine in engines:
            name = f"{case.__name__}_{engine}"
            words = {"engine": engine, "__module__": case.__module__, "__doc__": case.__doc__}
            setattr(module, name, type(name, (case, EngineCase), words))
        return case

    return decorate


class EngineCase(unittest.TestCase):
    """A test case with an engine and its server, which is None for SQLite."""

    engine = "sqlite"
    database: ClassVar[PrivateDatabase | None] = None

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        if cls.engine != "sqlite":
            cls.database = cls.enterClassContext(private_database(cls.engine))

    @classmethod
    def state_url(cls, folder: Path) -> str:
        """Return the URL of the store."""
        return f"sqlite:///{folder}/state.db" if cls.database is None else cls.database.url
