# SPDX-License-Identifier: Apache-2.0
"""Quotas: limits on claims by owner, and the charges of claims."""

import sqlalchemy as sa
from alembic import op

from valence_sched.model.claim import ACTIVE_STATES
from valence_sched.model.quota import claim_charges
from valence_sched.store import tables
from valence_sched.store.claim_rows import decode_parts
from valence_sched.store.document import readable
from valence_sched.store.tables import KEY, TEXT, key_of, table_options

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables, and count the claims that have not ended."""
    options = table_options(op.get_bind().dialect.name)
    op.create_table(
        "quotas",
        sa.Column("owner_key", KEY, primary_key=True),
        sa.Column("resource", sa.String(255), primary_key=True),
        sa.Column("owner", TEXT),
        sa.Column("most", sa.Double, nullable=False),
        **options,  # type: ignore[arg-type]
    )
    op.create_table(
        "quota_locks",
        sa.Column("owner_key", KEY, primary_key=True),
        **options,  # type: ignore[arg-type]
    )
    charges = op.create_table(
        "quota_charges",
        sa.Column("claim_id", sa.String(40), primary_key=True),
        sa.Column("resource", sa.String(255), primary_key=True),
        sa.Column("owner_key", KEY, nullable=False),
        sa.Column("amount", sa.Double, nullable=False),
        sa.Index("quota_charges_owner", "owner_key"),
        **options,  # type: ignore[arg-type]
    )
    claims = sa.table("claims", *map(sa.column, ("id", "state", "owner", "document")))
    active = claims.c.state.in_(ACTIVE_STATES), claims.c.owner.is_not(None)
    query = sa.select(claims.c.id, claims.c.owner, claims.c.document).where(*active)

    def charges_of(id_: str, owner: str, document: bytes) -> list[dict[str, object]]:
        row, amounts = {"claim_id": id_, "owner_key": key_of(owner)}, decode_parts(document)
        found = claim_charges(amounts).items()
        return [{**row, "resource": name, "amount": amount} for name, amount in found]

    found = readable(op.get_bind(), tables.claims, op.get_bind().execute(query), charges_of)
    rows = [row for charged in found for row in charged]
    if rows:
        op.bulk_insert(charges, rows)


def downgrade() -> None:
    """Remove the quotas and the charges of claims; the claims stay."""
    for table in ("quota_charges", "quota_locks", "quotas"):
        op.drop_table(table)
