# SPDX-License-Identifier: Apache-2.0
"""What ended long ago is forgotten, and nothing else is."""

import sqlalchemy as sa

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import DECISION, part, podm
from valence_sched.errors import UnknownName
from valence_sched.model.composition import ComposedNode
from valence_sched.store import tables

DAY_S = 86400.0


@on_each_engine
class TestPurge:
    """By the clock of the database."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.generation = self.one.remember(podm(blocks=9))

    def create(self, block):
        return self.one.claims.create([part("p", self.generation, block)])

    def age(self):
        """Let all that happened so far have happened two days ago."""
        for column in (tables.claims.c.created_at, tables.events.c.at,
                       tables.decisions.c.decided_at):  # fmt: skip
            self.execute(sa.update(column.table).values({column: column - 2 * DAY_S}))

    def count(self, table):
        return self.execute(sa.select(sa.func.count()).select_from(table))[0][0]

    def test_what_ended_long_ago_goes_with_all_that_happened_to_it(self):
        released, active = self.create("c0"), self.create("c1")
        self.one.claims.release(released.id)
        self.one.decisions.save("d", DECISION)
        self.age()
        recent = self.create("c2")
        self.one.claims.release(recent.id)
        self.assertEqual((1, 1, 1), self.one.purge(DAY_S, dry_run=True))
        self.assertEqual(3, self.count(tables.claims))
        self.assertEqual((1, 1, 1), self.one.purge(DAY_S))
        self.assertEqual({active.id, recent.id}, {id_ for (id_,) in self.execute(
            sa.select(tables.claims.c.id))})  # fmt: skip
        self.assertEqual(["held", "released"], [one.kind for one in self.one.events(recent.id)])
        with self.assertRaises(UnknownName):
            self.one.decisions.get("d")
        self.assertEqual((0, 0, 0), self.one.purge(DAY_S))

    def test_a_claim_that_ended_lately_stays_however_old_it_is(self):
        claim = self.create("c0")
        self.age()
        self.one.claims.release(claim.id)
        self.assertEqual((0, 0, 0), self.one.purge(DAY_S))
        self.assertEqual("RELEASED", self.one.claims.show(claim.id).state)

    def test_a_claim_with_a_node_stays(self):
        claim = self.create("c0")
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="n", podm="p", uri="/n", claim=claim.id, blocks=("c0",))
        self.one.claims.finish_composing(claim.id, [node])
        self.age()
        self.assertEqual((0, 0, 0), self.one.purge(DAY_S))

    def test_a_claim_that_still_holds_something_stays(self):
        claim = self.create("c0")
        ended = {"state": "EXPIRED", "sweep_at": None}
        self.execute(sa.update(tables.claims).where(tables.claims.c.id == claim.id).values(ended))
        self.age()
        for dry_run in (True, False):
            self.assertEqual((0, 0, 0), self.one.purge(DAY_S, dry_run=dry_run))

    def test_an_old_event_stays_with_its_claim_and_goes_without(self):
        claim = self.create("c0")
        self.one.claims.start_composing(claim.id)
        row = {"at": 1.0, "kind": "released", "claim_id": "forgotten"}
        self.execute(sa.insert(tables.events).values(row))
        self.age()
        for dry_run in (True, False):
            self.assertEqual((0, 1, 0), self.one.purge(DAY_S, dry_run=dry_run))
        self.assertEqual(["held", "composing"], [it.kind for it in self.one.events(claim.id)])
        self.assertEqual(1, self.count(tables.events))

    def test_many_go_some_at_a_time(self):
        row = {"state": "EXPIRED", "content": "", "created_at": 1.0, "document": b"[]"}
        self.execute(sa.insert(tables.claims), [{"id": f"x{n}", **row} for n in range(1203)])
        before = self.one.counts.transactions
        self.assertEqual((1203, 0, 0), self.one.purge(DAY_S))
        self.assertEqual(4, self.one.counts.transactions - before)
