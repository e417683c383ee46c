# SPDX-License-Identifier: Apache-2.0
"""Many readings in few transactions; work is counted, not timed."""

import sqlite3
import threading

import msgspec
import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import part, podm
from valence_sched.errors import ClaimLost, StoreError
from valence_sched.model.composition import ComposedNode

STOCK = {"uri": "m", "resource": "memory", "total": 10}
SHARED = {"uri": "s", "status": {"shareable": True, "max_compositions": 2}}


def podms(count, **fields):
    return [podm(f"p{number}", 1, **fields) for number in range(count)]


@on_each_engine
class TestBatches:
    """What is stored in a batch is stored as it would be alone."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
        self.statements = []
        sa.event.listen(
            self.one._database.writer,
            "before_cursor_execute",
            lambda _c, _u, statement, *_rest: self.statements.append(statement),
        )

    def transactions(self, readings):
        """Return the transactions in which readings are stored."""
        before = self.one.counts.transactions
        self.stored = self.one.remember_all(readings)
        return self.one.counts.transactions - before

    def writes(self):
        words = ("INSERT", "UPDATE", "DELETE")
        return [statement for statement in self.statements if statement.startswith(words)]

    def generations(self):
        return {name: one.generation for name, one in self.one.load_podms().items()}

    def test_five_hundred_are_stored_in_few_transactions_and_unchanged_ones_not_again(self):
        readings = podms(500, stocks=[STOCK])
        self.assertLessEqual(self.transactions(readings), 12)
        self.assertLessEqual(len(self.writes()), 70)  # none for each shard or pod manager
        self.assertEqual({f"p{number}": 1 for number in range(500)}, self.generations())
        self.statements.clear()
        written = self.one.counts.podms_written
        self.assertEqual((1, [], 500), (self.transactions(readings), self.writes(), written))
        self.assertEqual(500, self.one.counts.podms_written)
        readings[7] = podm("p7", 2)
        position = self.one.snapshot().position
        self.assertEqual(2, self.transactions(readings))
        self.assertEqual(501, self.one.counts.podms_written)
        self.assertEqual(["p7"], [one.id for one in self.one.snapshot(position).changes])
        self.assertEqual({"p7": 2, "p8": 1}, {n: self.generations()[n] for n in ("p7", "p8")})
        self.assertEqual(0, self.transactions([]))

    def test_a_later_time_of_reading_is_written_and_moves_no_generation(self):
        self.one.remember_all(podms(60, read_at="2026-01-01T00:00:00Z"))
        position = self.one.snapshot().position
        self.assertEqual(3, self.transactions(podms(60, read_at="2026-01-02T00:00:00Z")))
        self.assertEqual((), self.one.snapshot(position).changes)
        read = self.one.load_podms()
        self.assertEqual({(1, "2026-01-02T00:00:00Z")},
                         {(one.generation, one.read_at) for one in read.values()})  # fmt: skip
        self.assertEqual({"2026-01-02T00:00:00Z"}, {one.read_at for one in self.stored.values()})

    def test_what_is_returned_is_what_a_snapshot_reads(self):
        """Also of a pod manager that reported, and of one of which a later reading is stored."""
        self.one.update_stats("p1", {"x": 1})
        self.one.remember(podm("p2", 3, read_at="2026-01-02T00:00:00Z"))
        stored = self.one.remember_all(podms(4, read_at="2026-01-01T00:00:00Z", stocks=[STOCK]))
        changes = self.one.snapshot().changes
        self.assertEqual({one.id: one.podm for one in changes}, stored)
        self.assertEqual({"x": 1.0}, stored["p1"].facts)
        self.assertEqual(3, len(stored["p2"].blocks))
        again = self.one.remember_all(podms(4, read_at="2026-01-01T00:00:00Z", stocks=[STOCK]))
        self.assertEqual(stored, again)

    def test_a_snapshot_reads_no_document_that_the_caller_knows(self):
        known = self.one.remember_all(podms(60))
        self.one.remember(podm("p5", 2))
        self.one.remember(podm("p6", 1, read_at="2026-01-02T00:00:00Z"))
        self.one.claims.create([part("p7", 1, "c0")])
        decoded = self.one.counts.podms_decoded
        found = self.one.snapshot(known=known)
        self.assertEqual(decoded + 1, self.one.counts.podms_decoded)
        self.assertEqual(self.one.snapshot(), found)
        usage = {one.id: one.usage.blocks for one in found.changes if one.usage}
        self.assertEqual({"p7": {"c0": 1}}, usage)

    def test_claims_are_checked_against_what_a_batch_stored(self):
        self.one.remember_all([podm("p", [SHARED], stocks=[STOCK]), podm("q", [SHARED])])
        self.one.claims.create([part("p", 1, "s", m=6)])
        self.one.claims.create([part("p", 1, "s", m=4)])
        with self.assertRaisesRegex(ClaimLost, "block s .* is held by claim"):
            self.one.claims.create([part("p", 1, "s")])
        with self.assertRaisesRegex(ClaimLost, "stock m .* has 0 left"):
            self.one.claims.create([part("p", 1, m=1)])
        self.one.remember_all([podm("p", [SHARED]), podm("q", [SHARED])])
        with self.assertRaisesRegex(ClaimLost, "from generation 1 to 2"):
            self.one.claims.create([part("p", 1, "s")])

    def test_a_batch_settles_the_claims_whose_nodes_it_shows(self):
        """One of content that was stored before the node was noted, and one that changes."""
        shown = {}
        for name in ("p", "q"):
            blocks = [{"uri": "c0", "status": {"state": "Composed"}}]
            shown[name] = podm(name, blocks, nodes=[{"uri": f"/{name}", "blocks": ["c0"]}])
        before = [podm("p", [{"uri": "c0"}]), podm("q", [{"uri": "c0"}])]
        self.one.remember_all(before)
        claims = {}
        for name in ("p", "q"):
            claims[name] = self.one.claims.create([part(name, 1, "c0")])
            self.one.claims.start_composing(claims[name].id)
            node = ComposedNode(id=name, podm=name, uri=f"/{name}", claim=claims[name].id,
                                blocks=("c0",))  # fmt: skip
            self.one.claims.finish_composing(claims[name].id, [node])
        self.assertEqual(1, self.transactions([before[0]]) - 1)  # it waits: looked at under lock
        position = self.one.snapshot().position
        self.one.remember_all(shown.values())
        for claim in claims.values():
            self.assertEqual("SETTLED", self.one.claims.show(claim.id).state)
        changes = self.one.snapshot(position).changes
        self.assertEqual([False, False], [bool(one.usage) for one in changes])

    def test_of_two_readings_of_one_pod_manager_the_last_counts(self):
        stored = self.one.remember_all([podm("p", 1), podm("q", 1), podm("p", 2)])
        self.assertEqual({"p": 2, "q": 1}, {n: len(one.blocks) for n, one in stored.items()})
        self.assertEqual({"p": 1, "q": 1}, self.generations())

    def test_one_that_cannot_be_stored_is_named_and_the_others_are_stored(self):
        if self.engine == "sqlite":
            self.skipTest("it stores words of any length")
        readings = [podm("a"), podm("c", read_at="x" * 100), podm("b")]
        first, error, last = self.one.upsert_all(readings)
        self.assertEqual((1, 1), (first.generation, last.generation))
        self.assertIsInstance(error, StoreError)
        self.assertTrue(str(error).startswith("c: "), error)
        with self.assertRaisesRegex(StoreError, "^c: "):
            self.one.remember_all([*readings, podm("d")])
        self.assertEqual(["a", "b", "d"], sorted(self.one.load_podms()))

    def test_whole_pod_managers_come_back_in_the_order_of_the_readings(self):
        readings = podms(120)
        stored = self.one.upsert_all(readings)
        self.assertEqual([msgspec.structs.replace(one, generation=1) for one in readings], stored)

    def test_several_store_the_same_at_once(self):
        stores = [self.store() for _ in range(4)]
        barrier, errors = threading.Barrier(len(stores)), []

        def run(number):
            readings = podms(120)
            barrier.wait()
            try:
                stores[number].remember_all(readings if number % 2 else readings[::-1])
            except Exception as error:  # raised in the main thread
                errors.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(([], {1}), (errors, set(self.generations().values())))


class TestRefused(StoreCase):
    """A pod manager that the engine cannot take costs no other one of its batch."""

    def limited(self):
        """Return a store that takes no value of more than some thousand bytes."""
        store = self.store()

        def limit(connection, _record):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4000)

        sa.event.listen(store._database.writer, "connect", limit)
        store._database.writer.dispose()
        return store

    def test_it_is_named_and_the_others_are_stored(self):
        store = self.limited()
        large = podm("large", 1, zone="x" * 5000)
        first, refused, last = store.upsert_all([podm("a", 1), large, podm("z", 1)])
        self.assertEqual(["a", "z"], [first.id, last.id])
        line = f"large: {store.address}: storing what was read: string or blob too big"
        self.assertEqual((StoreError, line), (type(refused), str(refused)))
        self.assertEqual(["a", "z"], [*store.load_podms()])
        self.assertEqual(2, store.counts.podms_written)
        with self.assertRaises(StoreError) as caught:
            store.remember_all([large, podm("b", 1)])
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(["a", "b", "z"], [*store.load_podms()])
        with self.assertRaisesRegex(StoreError, "too big"):
            store.remember(large)
