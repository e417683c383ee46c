# SPDX-License-Identifier: Apache-2.0
"""Field names: renames fields of stored requests and claims."""

import sqlalchemy as sa
from alembic import op

from valence_sched.store.tables import DOCUMENT, chunks

revision = "0013"
down_revision = "0012"

#: Tables whose documents contain requests or claims, with their primary keys.
TABLES = {"claims": "id", "nodes": "id", "podms": "podm_key", "decisions": "id"}
TABLES |= {"dispatches": "number"}
#: Old and new names, each with the beginning of its value. A text cannot contain such a match, as
#: JSON escapes its quotes. Values of facts and capabilities of these names begin differently.
FIELDS = (
    (b'"bonds":[{"relation":', b'"topology":[{"relation":'),
    (b'"fallbacks":[{', b'"other_alternatives":[{'),
    (b'"company":{', b'"group_state":{'),
    (b'"supplies":[{', b'"declared_stocks":[{'),
)


def upgrade() -> None:
    """Give fields their new names."""
    _rename(FIELDS)


def downgrade() -> None:
    """Give fields their old names back."""
    _rename(tuple((new, old) for old, new in FIELDS))


def _rename(fields: tuple[tuple[bytes, bytes], ...]) -> None:
    connection = op.get_bind()
    for name, key in TABLES.items():
        table = sa.table(name, sa.column(key), sa.column("document", DOCUMENT))
        keys = list(connection.scalars(sa.select(table.c[key])))
        for part in chunks(keys, 50):
            query = sa.select(table).where(table.c[key].in_(part))
            for label, before in connection.execute(query).all():
                after = before
                for old, new in fields:
                    after = after.replace(old, new)
                if after != before:
                    row = sa.update(table).where(table.c[key] == label)
                    connection.execute(row.values(document=after))
