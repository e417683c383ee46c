# SPDX-License-Identifier: Apache-2.0
"""Group generations: the number of additions of members to each group by claims."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import KEY, table_options

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Make the table; existing groups get a row with their next claim."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "group_generations",
        sa.Column("group_key", KEY, primary_key=True),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("moved_at", sa.Double, nullable=False),
        **options,  # type: ignore[arg-type]
    )


def downgrade() -> None:
    """Remove the table; the claims stay."""
    op.drop_table("group_generations")
