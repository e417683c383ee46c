# SPDX-License-Identifier: Apache-2.0
"""A document of a store that cannot be read: one line says where it is and what to do."""

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import part, podm
from valence_sched.errors import StoreError
from valence_sched.model.registration import Registration
from valence_sched.store import tables


class TestDamagedDocuments(StoreCase):
    """One table after the other, each read by what lists it."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.one.register(Registration(name="p", url="https://p.invalid"))
        generation = self.one.remember(podm("p"))
        claim = self.one.claims.create([part("p", generation, "c0")])
        row = {"id": "n", "podm_key": tables.key_of("p"), "claim_id": claim.id, "document": b"xx"}
        self.execute(sa.insert(tables.nodes), row)

    def test_each_is_one_line_with_the_store_and_what_to_do(self):
        for table, read, doing in (
            (tables.nodes, self.one.nodes.list, "reading nodes"),
            (tables.nodes, lambda: self.one.nodes.newest(1), "reading nodes"),
            (tables.claims, self.one.claims.list, "reading claims"),
            (tables.registry, self.one.registrations, "reading the registry"),
            (tables.podms, self.one.load_podms, "reading pod managers"),
        ):
            with self.subTest(doing):
                self.execute(sa.update(table).values(document=b"xx"))
                with self.assertRaises(StoreError) as caught:
                    read()
                self.assertEqual(
                    f"{self.url.removeprefix('sqlite:///')}: {doing}: a document in it cannot be "
                    "read: JSON is malformed: invalid character (byte 0) (it is no store of ours "
                    "or it is damaged: restore a copy, or name another store)",
                    str(caught.exception),
                )
