# SPDX-License-Identifier: Apache-2.0
"""Pod managers: as registered, and as last read."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, KEY, TABLE_OPTIONS, TEXT

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "registry",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "podms",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("digest", KEY, nullable=False),
        sa.Column("read_at", sa.String(64)),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("moved", sa.BigInteger, nullable=False),
        sa.Column("read_moved", sa.BigInteger, nullable=False),
        sa.Column("gone", sa.Boolean, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        sa.Column("stats", DOCUMENT),
        **TABLE_OPTIONS,
    )
    op.create_index("podms_moved", "podms", ["shard", "moved"])
    op.create_table(
        "shards",
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("moved", sa.BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "stocks",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("stock_key", KEY, primary_key=True),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("left_over", sa.Double, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "shares",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("block_key", KEY, primary_key=True),
        sa.Column("slots", sa.Integer, nullable=False),
        **TABLE_OPTIONS,
    )
    shards = sa.table("shards", sa.column("shard"), sa.column("moved"))
    op.bulk_insert(shards, [{"shard": number, "moved": 0} for number in range(64)])
