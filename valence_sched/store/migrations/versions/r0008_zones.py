# SPDX-License-Identifier: Apache-2.0
"""Zones: the child zones of this zone, and the unique id of this zone."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import (
    DOCUMENT,
    KEY,
    SERIAL,
    TEXT,
    ZONES_SHARD,
    shards,
    table_options,
)

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the tables, and the count of the changes of child zones."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "zones",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("zone_key", KEY, nullable=False, unique=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("digest", KEY, nullable=False),
        sa.Column("report", DOCUMENT, nullable=False),
        sa.Column("heard_at", sa.Double),
        sa.Column("polled_at", sa.Double),
        **options,  # type: ignore[arg-type]
    )
    if not sa.inspect(op.get_bind()).has_table("zone_identity"):  # it stays after a downgrade
        op.create_table(
            "zone_identity",
            sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("id", sa.String(40), nullable=False),
            **options,  # type: ignore[arg-type]
        )
    op.bulk_insert(shards, [{"shard": ZONES_SHARD, "moved": 0}])


def downgrade() -> None:
    """Remove the child zones and the count; the services below are not notified.

    The id of this zone stays in a table that an older program ignores, since other zones know the
    id.
    """
    op.execute(sa.delete(shards).where(shards.c.shard == ZONES_SHARD))
    op.drop_table("zones")
