# SPDX-License-Identifier: Apache-2.0
"""Records: running operations of a service, and its answers by idempotency key."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, table_options

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table, which is empty until a service uses it."""
    op.create_table(
        "records",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        **table_options(op.get_bind().dialect.name),  # type: ignore[arg-type]
    )


def downgrade() -> None:
    """Remove the table, with operations and the answers by idempotency key."""
    op.drop_table("records")
