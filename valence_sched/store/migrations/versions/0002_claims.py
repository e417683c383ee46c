# SPDX-License-Identifier: Apache-2.0
"""What is claimed and composed, and what happened."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, KEY, SERIAL, TABLE_OPTIONS, TEXT

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "claims",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("owner", TEXT),
        sa.Column("group_name", TEXT),
        sa.Column("idempotency_key", TEXT),
        sa.Column("consumer_key", KEY, unique=True),
        sa.Column("content", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("sweep_at", sa.Double),
        sa.Column("note", TEXT),
        sa.Column("document", DOCUMENT, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_index("claims_sweep_at", "claims", ["sweep_at"])
    op.create_table(
        "claim_parts",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), primary_key=True),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("moved", sa.BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_index("claim_parts_claim", "claim_parts", ["claim_id"])
    op.create_index("claim_parts_moved", "claim_parts", ["shard", "moved"])
    op.create_table(
        "claimed_blocks",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("block_key", KEY, primary_key=True),
        sa.Column("slot", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), nullable=False),
        sa.Column("uri", TEXT, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_index("claimed_blocks_claim", "claimed_blocks", ["claim_id", "podm_key"])
    op.create_table(
        "claimed_amounts",
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("stock_key", KEY, primary_key=True),
        sa.Column("claim_id", sa.String(40), sa.ForeignKey("claims.id"), primary_key=True),
        sa.Column("uri", TEXT, nullable=False),
        sa.Column("amount", sa.Double, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_index("claimed_amounts_claim", "claimed_amounts", ["claim_id", "podm_key"])
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("podm_key", KEY, nullable=False),
        sa.Column("claim_id", sa.String(40), nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_index("nodes_claim", "nodes", ["claim_id"])
    op.create_index("nodes_podm", "nodes", ["podm_key"])
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("decided_at", sa.Double, nullable=False),
        sa.Column("document", DOCUMENT, nullable=False),
        **TABLE_OPTIONS,
    )
    op.create_table(
        "events",
        sa.Column("number", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("claim_id", sa.String(40)),
        sa.Column("podm", TEXT),
        sa.Column("words", TEXT),
        **TABLE_OPTIONS,
    )
    op.create_index("events_claim", "events", ["claim_id"])
