# SPDX-License-Identifier: Apache-2.0
"""An older schema brought up to date with alembic, one migration after another."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

from valence_sched.store.columns import METADATA

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: sa.Connection, to: str = "head") -> None:
    """Run the migrations from the stored revision to ``to`` within the caller's transaction."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)

    def steps(revision: object, _context: object) -> object:
        return scripts._upgrade_revs(to, revision)  # type: ignore[arg-type]

    with EnvironmentContext(config, scripts, fn=steps) as environment:
        environment.configure(connection=connection, target_metadata=METADATA)
        environment.run_migrations()
