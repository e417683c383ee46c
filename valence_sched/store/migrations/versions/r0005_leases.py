# SPDX-License-Identifier: Apache-2.0
"""Leases for the process that keeps readings fresh, and the failures of pod managers."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, REGISTRY_SHARD, shards, table_options

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table, the column of failures, and the count of changes of the registry."""
    op.create_table(
        "leases",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("holder", sa.String(128), nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        **table_options(op.get_bind().dialect.name),  # type: ignore[arg-type]
    )
    op.add_column("podms", sa.Column("failure", DOCUMENT))
    op.bulk_insert(shards, [{"shard": REGISTRY_SHARD, "moved": 0}])


def downgrade() -> None:
    """Remove the table, the column of failures, and the count of changes of the registry."""
    op.execute(sa.delete(shards).where(shards.c.shard == REGISTRY_SHARD))
    op.drop_column("podms", "failure")
    op.drop_table("leases")
