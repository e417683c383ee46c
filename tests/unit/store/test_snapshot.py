# SPDX-License-Identifier: Apache-2.0
"""Snapshots, and batches of readings."""

import sqlite3
import threading

import msgspec
import sqlalchemy as sa

from tests.unit.core.deciders import cpu
from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.errors import ClaimLost, StoreError
from valence_sched.model.claim import ComposedNode
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.testing import request
from valence_sched.view.view import inventory_digest

MANY = 300
COUNTS = tables.SHARDS + 2  # of the change log, with those of registrations and zones


@on_each_engine
class TestSnapshot:
    """Work is counted, not timed."""

    def work(self, store, position):
        before = (store.counts.rows_read, store.counts.podms_decoded)
        snapshot = store.snapshot(position)
        after = (store.counts.rows_read, store.counts.podms_decoded)
        return snapshot, tuple(b - a for a, b in zip(before, after, strict=True))

    def test_one_of_many_that_moved_costs_as_much_as_one_of_few(self):
        """S30."""
        store, costs = self.store(), []
        for number in (9, MANY - 1):
            store.remember_all([podm(f"p{one}", 1) for one in range(number + 1)])
            position = store.snapshot().position
            _, none = self.work(store, position)
            store.remember(podm("p5", number + 2))
            snapshot, one = self.work(store, position)
            self.assertEqual(["p5"], [change.id for change in snapshot.changes])
            costs.append((none, one))
        self.assertEqual(costs[0], costs[1])
        ((rows, decoded), (more_rows, more_decoded)) = costs[1]
        self.assertEqual((0, 1, 1 + COUNTS), (decoded, more_decoded, more_rows - rows))

    def test_a_claim_moves_what_is_held_and_loads_no_document(self):
        generation = self.one.remember(podm())
        position = self.one.snapshot().position
        claim = self.one.claims.create([part("p", generation, "c0")])
        snapshot, (_, decoded) = self.work(self.one, position)
        (change,) = snapshot.changes
        self.assertEqual((0, None, {"c0": 1}), (decoded, change.podm, change.usage.blocks))
        self.assertEqual((), self.one.snapshot(snapshot.position).changes)
        self.one.claims.release(claim.id)
        snapshot, (_, decoded) = self.work(self.one, snapshot.position)
        self.assertEqual((0, None), (decoded, snapshot.changes[0].podm))
        self.assertFalse(snapshot.changes[0].usage)

    def test_one_that_went_is_seen_going(self):
        self.one.register(Registration(name="p", url="u"))
        self.one.remember(podm())
        position = self.one.snapshot().position
        local = claimer(self.one)
        self.assertTrue(local.decider().select_destinations(request(CORES)).placed_nodes)
        self.one.unregister("p")
        (change,) = self.one.snapshot(position).changes
        self.assertTrue(change.gone)
        self.assertFalse(local.decider().select_destinations(request(CORES)).placed_nodes)
        self.assertEqual([], [change for change in self.one.snapshot().changes if not change.gone])

    def test_a_store_without_pod_managers_places_nothing_until_one_comes(self):
        local = claimer(self.one)
        self.assertIsNone(local.claim(request(CORES)).claim)
        self.one.remember(podm())
        self.assertIsNotNone(local.claim(request(CORES)).claim)

    def test_no_snapshot_sees_half_of_a_change(self):
        """The generation and the document are of the same moment."""
        store, other = self.store(), self.store()
        first = store.remember(podm(blocks=1))
        stop, wrong = threading.Event(), []

        def watch():
            while not stop.is_set():
                (change,) = other.snapshot().changes
                if len(change.podm.blocks) != change.podm.generation - first + 1:
                    wrong.append(change)

        thread = threading.Thread(target=watch)
        thread.start()
        for blocks in range(2, 30):
            store.remember(podm(blocks=blocks))
        stop.set()
        thread.join()
        self.assertEqual([], wrong)

    def test_a_snapshot_reads_what_new_claims_hold_and_not_what_all_hold(self):
        """S30: on one pod manager with many claims."""
        generation = self.one.remember(podm(blocks=30))
        position, read, claims = self.one.snapshot().position, [], []
        for number in range(12):
            claims.append(self.one.claims.create([part("p", generation, f"c{number}")], owner="o"))
            before = self.one.counts.usages_read
            snapshot = self.one.snapshot(position)
            read.append(self.one.counts.usages_read - before)
            position = snapshot.position
        (change,) = snapshot.changes
        self.assertEqual(
            ([1] * 12, True, {"c11": 1}), (read, change.incremental, change.usage.blocks)
        )
        self.one.claims.release(claims[0].id)
        (change,) = self.one.snapshot(position).changes
        self.assertEqual(
            (False, 11, 11), (change.incremental, len(change.usage.blocks), len(change.usage.nodes))
        )

    def test_incremental_snapshots_see_what_a_whole_one_sees(self):
        stock = {"uri": "m", "resource": "memory", "total": 10}
        shared = {"uri": "s", "status": {"shareable": True, "max_compositions": 3}}
        blocks = [cpu(f"c{number}", 8) for number in range(9)]
        generation = self.one.remember(podm(blocks=[shared, *blocks], stocks=[stock]))
        local, claims = claimer(self.one), []
        for turn in range(9):
            if turn % 4 == 3:
                self.one.claims.release(claims.pop(0).id)
            elif turn == 6:
                generation = self.one.remember(podm(blocks=[shared, *blocks[1:]], stocks=[stock]))
            else:
                names = ["s", f"c{turn}"] if turn < 3 else [f"c{turn}"]
                parts = [part("p", generation, *names, m=1)]
                claims.append(self.one.claims.create(parts, owner=f"o{turn}"))
            found, anew = local.decider().snapshot(), claimer(self.store()).decider().snapshot()
            self.assertEqual(inventory_digest(anew), inventory_digest(found), turn)


class TestManyMore(StoreCase):
    """The largest possible number of pod managers."""

    def test_one_of_thousands_costs_as_much_as_none(self):
        """S30: except for its own row and document."""
        self.one.remember_all([podm(f"p{number}", 0) for number in range(3_000)])
        position = self.one.snapshot().position
        rows, decoded = self.one.counts.rows_read, self.one.counts.podms_decoded
        self.assertEqual((), self.one.snapshot(position).changes)
        none = self.one.counts.rows_read - rows
        self.one.remember(podm("p5", 2))
        rows = self.one.counts.rows_read
        self.assertEqual(["p5"], [change.id for change in self.one.snapshot(position).changes])
        self.assertEqual(none + 1 + COUNTS, self.one.counts.rows_read - rows)
        self.assertEqual(decoded + 1, self.one.counts.podms_decoded)


@on_each_engine
class TestDecide:
    """The next decision of another process avoids claimed blocks."""

    def test_an_edit_of_aggregates_is_in_the_next_decision_and_loads_nothing_else(self):
        """S24."""
        for name in ("a", "b", "c"):
            self.one.remember(podm(name))
        local = claimer(self.store())
        wanted = request(CORES, aggregates=["fast"])
        self.assertFalse(local.decider().select_destinations(wanted).placed_nodes)
        decoded = local._store.counts.podms_decoded
        self.one.remember(podm("b", aggregates=["fast"]))
        decision = local.decider().select_destinations(wanted)
        self.assertEqual(["b"], [placement.chosen.podm for placement in decision.placements])
        self.assertEqual(1, local._store.counts.podms_decoded - decoded)

    def test_one_that_starts_anew_decides_on_what_was_read_before(self):
        """S23: no pod manager is contacted."""
        self.one.remember(podm(read_at="2026-01-01T00:00:00Z"))
        self.one.close()
        decision = claimer(self.store()).decider().select_destinations(request(CORES))
        self.assertEqual("2026-01-01T00:00:00Z", decision.view.podms[0].read_at)
        self.assertEqual("placed", decision.outcome)

    def test_two_processes_never_choose_the_same(self):
        self.one.remember(podm(blocks=4))
        local, theirs = claimer(self.one), claimer(self.store())
        got = [one.claim(request(CORES)).claim for one in (local, theirs) * 2]
        self.assertEqual(4, len({claim.parts[0].shares[0].blocks for claim in got}))
        last = theirs.claim(request(CORES))
        self.assertIsNone(last.claim)
        self.assertEqual("nothing_fits", last.decision.outcome)

    def test_the_same_key_claims_once_even_when_there_is_no_room_for_twice(self):
        self.one.remember(podm(blocks=1))
        first = claimer(self.one).claim(request(CORES), key="k")
        again = claimer(self.store()).claim(request(CORES), key="k")
        self.assertEqual((first.claim, None), (again.claim, again.decision))

    def test_claims_of_an_owner_keep_company_like_nodes(self):
        for name in ("a", "b", "c"):
            self.one.remember(podm(name, 3))
        local = claimer(self.one)
        group = {"name": "g", "anti_affinity": ["podm"]}
        chosen = [local.claim(request(CORES, group=group, owner="o")).claim for _ in range(4)]
        self.assertEqual({"a", "b", "c"}, {claim.podms[0] for claim in chosen[:3]})
        self.assertIsNone(chosen[3])


STOCK = {"uri": "m", "resource": "memory", "total": 10}
SHARED = {"uri": "s", "status": {"shareable": True, "max_compositions": 2}}


def podms(count, **fields):
    return [podm(f"p{number}", 1, **fields) for number in range(count)]


@on_each_engine
class TestBatches:
    """Storing in a batch has the same result as storing singly."""

    def setUp(self):
        super().setUp()
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
        self.assertLessEqual(len(self.writes()), 70)  # no transaction for each shard or pod manager
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
        """One pod manager has reported, and one has a later stored reading."""
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
        with self.assertRaisesRegex(ClaimLost, "stock m .* has 0 free"):
            self.one.claims.create([part("p", 1, m=1)])
        self.one.remember_all([podm("p", [SHARED]), podm("q", [SHARED])])
        with self.assertRaisesRegex(ClaimLost, "from generation 1 to 2"):
            self.one.claims.create([part("p", 1, "s")])

    def test_a_batch_settles_the_claims_whose_nodes_it_shows(self):
        """The content of one is stored before its node is recorded; that of the other changes."""
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
        self.assertEqual(1, self.transactions([before[0]]) - 1)  # it waits for the lock
        position = self.one.snapshot().position
        self.one.remember_all(shown.values())
        for claim in claims.values():
            self.assertEqual("SETTLED", self.one.claims.show(claim.id).state)
        changes = self.one.snapshot(position).changes
        self.assertEqual([{}, {}], [one.usage.blocks for one in changes])

    def test_of_two_readings_of_one_pod_manager_the_last_counts(self):
        stored = self.one.remember_all([podm("p", 1), podm("q", 1), podm("p", 2)])
        self.assertEqual({"p": 2, "q": 1}, {n: len(one.blocks) for n, one in stored.items()})
        self.assertEqual({"p": 1, "q": 1}, self.generations())

    def test_one_that_cannot_be_stored_is_named_and_the_others_are_stored(self):
        if self.engine == "sqlite":
            self.skipTest("it stores values of any length")
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
    """A pod manager that the engine refuses does not affect the others of its batch."""

    def limited(self):
        """Return a store that refuses values of more than some thousand bytes."""

        def limit(connection, _record):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4000)

        sa.event.listen(self.one._database.writer, "connect", limit)
        self.one._database.writer.dispose()
        return self.one

    def test_it_is_named_and_the_others_are_stored(self):
        store = self.limited()
        large = podm("large", 1, zone="x" * 5000)
        first, refused, last = store.upsert_all([podm("a", 1), large, podm("z", 1)])
        self.assertEqual(["a", "z"], [first.id, last.id])
        line = f"large: {store.address}: storing readings: string or blob too big"
        self.assertEqual((StoreError, line), (type(refused), str(refused)))
        self.assertEqual(["a", "z"], [*store.load_podms()])
        self.assertEqual(2, store.counts.podms_written)
        with self.assertRaises(StoreError) as caught:
            store.remember_all([large, podm("b", 1)])
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(["a", "b", "z"], [*store.load_podms()])
        with self.assertRaisesRegex(StoreError, "too big"):
            store.remember(large)
