# SPDX-License-Identifier: Apache-2.0
"""Decision summaries: the list columns of stored decisions, by owner and by time."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, KEY

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the columns, which stay empty for existing decisions."""
    op.add_column("decisions", sa.Column("owner_key", KEY))
    op.add_column("decisions", sa.Column("summary", DOCUMENT))
    op.create_index("decisions_decided_at", "decisions", ["decided_at"])
    op.create_index("decisions_owner", "decisions", ["owner_key", "decided_at"])


def downgrade() -> None:
    """Remove the summaries; the decisions stay."""
    op.drop_index("decisions_owner", "decisions")
    op.drop_index("decisions_decided_at", "decisions")
    op.drop_column("decisions", "summary")
    op.drop_column("decisions", "owner_key")
