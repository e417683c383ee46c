# SPDX-License-Identifier: Apache-2.0
"""Identities: the service of each pod manager, independent of its name; unknown until read."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import KEY, TEXT, key_of, table_options

revision = "0002"
down_revision = "0001"

TABLES = ("registry", "podms")
#: The table that keeps the identities while an older program uses the state.
FORMER = sa.table("former_identities", *map(sa.column, ("of", "podm_key", "identity")))


def upgrade() -> None:
    """Add the identities of registered and read pod managers, and restore saved identities."""
    for table in TABLES:
        op.add_column(table, sa.Column("identity", TEXT))
        op.add_column(table, sa.Column("identity_key", KEY))
    if sa.inspect(op.get_bind()).has_table(FORMER.name):
        for of, key, identity in op.get_bind().execute(sa.select(*FORMER.c)).all():
            one = sa.table(of, *map(sa.column, ("podm_key", "identity", "identity_key")))
            values = {"identity": identity, "identity_key": key_of(identity)}
            op.execute(sa.update(one).where(one.c.podm_key == key).values(values))
        op.drop_table(FORMER.name)
    for table in TABLES:
        op.create_index(f"{table}_identity", table, ["identity_key"], unique=True)


def downgrade() -> None:
    """Move the identities to a table that an older program ignores."""
    op.create_table(
        FORMER.name,
        sa.Column("of", sa.String(16), primary_key=True),
        sa.Column("podm_key", KEY, primary_key=True),
        sa.Column("identity", TEXT, nullable=False),
        **table_options(op.get_bind().dialect.name),  # type: ignore[arg-type]
    )
    for table in TABLES:
        one = sa.table(table, *map(sa.column, ("podm_key", "identity")))
        known = sa.select(sa.literal(table), *one.c).where(one.c.identity.is_not(None))
        op.execute(sa.insert(FORMER).from_select(["of", "podm_key", "identity"], known))
        op.drop_index(f"{table}_identity", table)
        op.drop_column(table, "identity_key")
        op.drop_column(table, "identity")
