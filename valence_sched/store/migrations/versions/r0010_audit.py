# SPDX-License-Identifier: Apache-2.0
"""Audit: the user, the object and the outcome of each change."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import SERIAL, TEXT, table_options

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "audit",
        sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("user", TEXT, nullable=False),
        sa.Column("owner", TEXT),
        sa.Column("request_id", sa.String(80), nullable=False),
        sa.Column("verb", sa.String(64), nullable=False),
        sa.Column("object", TEXT, nullable=False),
        sa.Column("outcome", sa.String(64), nullable=False),
        **options,  # type: ignore[arg-type]
    )


def downgrade() -> None:
    """Remove the audit; the audited changes stay."""
    op.drop_table("audit")
