# SPDX-License-Identifier: Apache-2.0
"""Clocks: the clock at each boot of the machine with an embedded store."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import table_options

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the table, which is empty until the store is used."""
    op.create_table(
        "clocks",
        sa.Column("boot", sa.String(64), primary_key=True),
        sa.Column("ahead_s", sa.Double, nullable=False),
        sa.Column("noted_at", sa.Double, nullable=False),
        **table_options(op.get_bind().dialect.name),  # type: ignore[arg-type]
    )


def downgrade() -> None:
    """Remove the table."""
    op.drop_table("clocks")
