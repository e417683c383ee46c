# SPDX-License-Identifier: Apache-2.0
"""The answer to a commit is lost where the commit was not: what was done is done once."""

import itertools
import sqlite3

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase
from tests.unit.store.site import DECISION, decision, part, podm
from tests.unit.store.test_claims import usage
from tests.unit.store.test_holds import nodes_of
from valence_sched.model.composition import ComposedNode


class TestLostAnswers(StoreCase):
    """Each transaction of a step runs again as a whole after its commit."""

    def lose(self, number: int) -> list[bool]:
        """Lose the answer to the commit of this number; return whether it was reached."""
        count, reached = itertools.count(1), []
        busy = sqlite3.OperationalError("database is locked")
        busy.sqlite_errorcode = sqlite3.SQLITE_BUSY

        def commit(connection: sa.Connection) -> None:
            if next(count) == number:
                reached.append(True)
                connection.connection.dbapi_connection.execute("COMMIT")
                raise sa.exc.OperationalError("COMMIT", {}, busy)

        sa.event.listen(self.one._database.writer, "commit", commit)
        return reached

    def each(self, prepare, step, check):
        """Check a step with the answer of each of its transactions lost, and with none lost."""
        number, reached = 0, [True]
        while reached:
            self.one = self.store(self.fresh_url(), sleep=lambda _s: None)
            self.one.remember_all([podm("p", 4), podm("q")])
            prepared = prepare()
            number += 1
            retries = self.one.counts.retries
            reached = self.lose(number)
            with self.subTest(number):
                check(step(prepared))
                self.assertEqual(len(reached), self.one.counts.retries - retries)
        self.assertGreater(number, 1)

    def held(self):
        return self.one.claims.create([part("p", 1, "c0")])

    def composing(self):
        claim = self.held()
        self.one.claims.start_composing(claim.id)
        return claim.id

    def node(self, claim):
        return ComposedNode(id="n", podm="p", uri="/S/1", claim=claim, blocks=("c0",))

    def test_a_claim_is_created_once(self):
        for parts in ([part("p", 1, "c0")], [part("p", 1, "c0"), part("q", 1, "c0")]):

            def check(claim, parts=parts):
                self.assertEqual("HELD", claim.state)
                self.assertEqual([claim], self.one.claims.list())
                for one in parts:
                    self.assertEqual({"c0": 1}, usage(self.one, one.podm).blocks)

            for key in (None, "k"):
                self.each(lambda: None,
                          lambda _, parts=parts, key=key: self.one.claims.create(parts, key=key),
                          check)  # fmt: skip

    def test_a_claim_is_composed_once(self):
        def started(claim):
            self.assertEqual("COMPOSING", claim.state)
            kinds = [one.kind for one in self.one.events(claim.id)]
            self.assertEqual(["held", "composing"], kinds)

        self.each(self.held, lambda it: self.one.claims.start_composing(it.id), started)

    def test_a_node_is_noted_once(self):
        def finished(claim):
            self.assertEqual("COMPOSED", claim.state)
            self.assertEqual(["n"], [node.id for node in self.one.nodes.list()])
            kinds = [one.kind for one in self.one.events(claim.id)]
            self.assertEqual(["held", "composing", "composed"], kinds)

        self.each(self.composing, lambda it: self.one.claims.finish_composing(it, [self.node(it)]),
                  finished)  # fmt: skip

    def test_a_claim_is_split_once(self):
        def split(claims):
            self.assertEqual(claims, self.one.claims.list())
            self.assertEqual({"c0": 1, "c1": 1}, usage(self.one).blocks)

        self.each(lambda: self.one.claims.create([nodes_of(1, ("c0",), ("c1",))]),
                  lambda it: self.one.claims.split(it.id), split)  # fmt: skip

    def test_a_claim_ends_once(self):
        for prepare, end, state in (
            (lambda: self.held().id, "release", "RELEASED"),
            (self.composing, "fail", "FAILED"),
        ):

            def step(claim_id, end=end):
                getattr(self.one.claims, end)(claim_id, "why")
                return claim_id

            def ended(claim_id, state=state):
                claim = self.one.claims.show(claim_id)
                self.assertEqual(state, claim.state)
                self.assertFalse(usage(self.one))
                kinds = [one.kind for one in self.one.events(claim.id)]
                self.assertEqual(1, kinds.count(state.lower()))

            self.each(prepare, step, ended)

    def test_a_node_is_forgotten_once(self):
        def composed():
            claim = self.composing()
            self.one.claims.finish_composing(claim, [self.node(claim)])

        def forgotten(_):
            self.assertEqual(([], []), (self.one.nodes.list(), self.one.claims.list()))
            self.assertEqual(1, [one.kind for one in self.one.events()].count("gone"))

        self.each(composed, lambda _: self.one.nodes.forget("n"), forgotten)

    def test_a_reading_moves_a_generation_once(self):
        def moved(generation):
            self.assertEqual(2, generation)

        self.each(lambda: None, lambda _: self.one.remember(podm(zone="z")), moved)

    def test_a_decision_is_stored_once(self):
        def stored(_):
            self.assertEqual(decision(), self.one.decisions.get("d"))

        self.each(lambda: None, lambda _: self.one.decisions.save("d", DECISION), stored)
