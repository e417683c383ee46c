# SPDX-License-Identifier: Apache-2.0
"""A database that is away for a moment: what a pod manager has done waits, all else is told."""

import sqlite3

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import part, podm
from tests.unit.store.test_claims import usage
from valence_sched.errors import StoreError
from valence_sched.model.composition import ComposedNode


class TestAway(StoreCase):
    """The database cannot be opened once."""

    def setUp(self):
        super().setUp()
        self.pauses = []
        self.one = self.store(sleep=self.pauses.append, jitter=lambda: 1.0)
        self.one.remember(podm())
        self.claims = self.one.claims
        self.claim = self.claims.create([part("p", 1, "c0")]).id

    def away(self, engine="writer", times=1):
        """Let a number of transactions find no database."""
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        left = [error] * times

        def refuse(connection):
            if left:
                connection.connection.dbapi_connection.execute("ROLLBACK")
                raise sa.exc.OperationalError("BEGIN", {}, left.pop())

        sa.event.listen(getattr(self.one._database, engine), "begin", refuse)

    def composed(self):
        self.claims.start_composing(self.claim)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=self.claim, blocks=("c0",))
        self.claims.finish_composing(self.claim, [node])

    def test_a_node_is_noted(self):
        self.claims.start_composing(self.claim)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=self.claim, blocks=("c0",))
        for engine in ("writer", "reader"):
            self.away(engine)
        self.assertEqual("COMPOSED", self.claims.finish_composing(self.claim, [node]).state)
        self.assertEqual([0.004, 0.004], self.pauses)

    def test_a_node_is_forgotten(self):
        self.composed()
        for engine in ("writer", "reader"):
            self.away(engine)
        self.one.nodes.forget("n")
        self.assertFalse(usage(self.one))

    def test_a_claim_is_given_up(self):
        for engine in ("writer", "reader"):
            self.away(engine)
        self.claims.fail(self.claim, "why")
        self.assertEqual("FAILED", self.claims.show(self.claim).state)
        self.assertFalse(usage(self.one))

    def test_what_may_be_reserved_is_noted(self):
        self.away()
        self.claims.note_reserving(self.claim)
        self.assertEqual(["held", "reserving"], [it.kind for it in self.one.events(self.claim)])

    def test_the_pauses_get_longer_up_to_half_a_second(self):
        self.away(times=10)
        self.claims.note_reserving(self.claim)
        expected = [0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.5, 0.5, 0.5]
        self.assertEqual(expected, self.pauses)
        self.assertEqual(10, self.one.counts.retries)

    def test_before_an_effect_nothing_waits_and_nothing_is_left_to_tell(self):
        lines = self.one.effects.unnamed_lines()
        for step in (
            lambda: self.claims.create([part("p", 1, "c1")]),
            lambda: self.claims.start_composing(self.claim),
            lambda: self.claims.release(self.claim),
            lambda: self.one.remember(podm(zone="z")),
        ):
            self.away()
            with self.assertRaisesRegex(
                StoreError, "unable to open database file .is the database"
            ):
                step()
        self.assertEqual([], self.pauses)
        self.assertEqual(lines, self.one.effects.unnamed_lines())
        self.assertEqual("HELD", self.claims.show(self.claim).state)
