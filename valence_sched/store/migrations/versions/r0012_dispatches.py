# SPDX-License-Identifier: Apache-2.0
"""Dispatches: decisions to post to a controller, and its answers."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, KEY, SERIAL, TEXT, table_options

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Make the table; earlier decisions are not posted."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "dispatches",
        sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("request_key", KEY, nullable=False),
        sa.Column("claim_id", sa.String(40)),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("queued_at", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", TEXT),
        sa.Column("sent_at", sa.Double),
        sa.Column("receipts", DOCUMENT),
        **options,  # type: ignore[arg-type]
    )
    op.create_index("dispatches_due", "dispatches", ["due_at"])
    op.create_index("dispatches_request", "dispatches", ["request_key", "number"])


def downgrade() -> None:
    """Remove the table with its waiting decisions."""
    op.drop_table("dispatches")
