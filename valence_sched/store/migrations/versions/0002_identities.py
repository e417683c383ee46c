# SPDX-License-Identifier: Apache-2.0
"""Identities: which service a pod manager is, whatever its name; unknown until it is read."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import KEY, TEXT

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the identity of what is registered and of what was read."""
    for table in ("registry", "podms"):
        op.add_column(table, sa.Column("identity", TEXT))
        op.add_column(table, sa.Column("identity_key", KEY))
        op.create_index(f"{table}_identity", table, ["identity_key"], unique=True)


def downgrade() -> None:
    """Forget the identities: they are learned again by reading."""
    for table in ("registry", "podms"):
        op.drop_index(f"{table}_identity", table)
        op.drop_column(table, "identity_key")
        op.drop_column(table, "identity")
