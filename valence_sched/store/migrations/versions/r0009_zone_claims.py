# SPDX-License-Identifier: Apache-2.0
"""Zone claims: the parts of one claim in the child zones and in this zone."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, KEY, TEXT, table_options

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "zone_claims",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", TEXT),
        sa.Column("group_name", TEXT),
        sa.Column("idempotency_key", TEXT),
        sa.Column("consumer_key", KEY, unique=True),
        sa.Column("content", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("note", TEXT),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Index("zone_claims_state", "state", "expires_at"),
        **options,  # type: ignore[arg-type]
    )


def downgrade() -> None:
    """Remove the table; the claims of the zones themselves stay."""
    op.drop_table("zone_claims")
