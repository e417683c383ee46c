# SPDX-License-Identifier: Apache-2.0
"""One consistent snapshot, of what moved alone."""

import threading

from tests.unit.core.deciders import cpu
from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import CORES, claimer, part, podm
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.testing import request
from valence_sched.view.digest import inventory_digest

MANY = 300
COUNTS = tables.SHARDS + 2  # of the change log: those of registrations and of zones, too


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
        for number in range(MANY):
            store.remember(podm(f"p{number}", 1))
            if number not in (9, MANY - 1):
                continue
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
        store = self.store()
        generation = store.remember(podm())
        position = store.snapshot().position
        claim = store.claims.create([part("p", generation, "c0")])
        snapshot, (_, decoded) = self.work(store, position)
        (change,) = snapshot.changes
        self.assertEqual((0, None, {"c0": 1}), (decoded, change.podm, change.usage.blocks))
        self.assertEqual((), store.snapshot(snapshot.position).changes)
        store.claims.release(claim.id)
        snapshot, (_, decoded) = self.work(store, snapshot.position)
        self.assertEqual((0, None), (decoded, snapshot.changes[0].podm))
        self.assertFalse(snapshot.changes[0].usage)

    def test_one_that_went_is_seen_going(self):
        store = self.store()
        store.register(Registration(name="p", url="u"))
        store.remember(podm())
        position = store.snapshot().position
        local = claimer(store)
        self.assertTrue(local.decider().select_destinations(request(CORES)).placed_nodes)
        store.unregister("p")
        (change,) = store.snapshot(position).changes
        self.assertTrue(change.gone)
        self.assertFalse(local.decider().select_destinations(request(CORES)).placed_nodes)
        self.assertEqual([], [change for change in store.snapshot().changes if not change.gone])

    def test_a_store_without_pod_managers_places_nothing_until_one_comes(self):
        store = self.store()
        local = claimer(store)
        self.assertIsNone(local.claim(request(CORES)).claim)
        store.remember(podm())
        self.assertIsNotNone(local.claim(request(CORES)).claim)

    def test_no_snapshot_sees_half_of_a_change(self):
        """What a generation says and what the document holds are of one moment."""
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
        """S30: on one pod manager that many claim of."""
        store = self.store()
        generation = store.remember(podm(blocks=30))
        position, read, claims = store.snapshot().position, [], []
        for number in range(12):
            claims.append(store.claims.create([part("p", generation, f"c{number}")], owner="o"))
            before = store.counts.usages_read
            snapshot = store.snapshot(position)
            read.append(store.counts.usages_read - before)
            position = snapshot.position
        (change,) = snapshot.changes
        self.assertEqual(
            ([1] * 12, True, {"c11": 1}), (read, change.incremental, change.usage.blocks)
        )
        store.claims.release(claims[0].id)
        (change,) = store.snapshot(position).changes
        self.assertEqual(
            (False, 11, 11), (change.incremental, len(change.usage.blocks), len(change.usage.nodes))
        )

    def test_incremental_snapshots_see_what_a_whole_one_sees(self):
        store = self.store()
        stock = {"uri": "m", "resource": "memory", "total": 10}
        shared = {"uri": "s", "status": {"shareable": True, "max_compositions": 3}}
        blocks = [cpu(f"c{number}", 8) for number in range(9)]
        generation = store.remember(podm(blocks=[shared, *blocks], stocks=[stock]))
        local, claims = claimer(store), []
        for turn in range(9):
            if turn % 4 == 3:
                store.claims.release(claims.pop(0).id)
            elif turn == 6:
                generation = store.remember(podm(blocks=[shared, *blocks[1:]], stocks=[stock]))
            else:
                names = ["s", f"c{turn}"] if turn < 3 else [f"c{turn}"]
                parts = [part("p", generation, *names, m=1)]
                claims.append(store.claims.create(parts, owner=f"o{turn}"))
            found, anew = local.decider().snapshot(), claimer(self.store()).decider().snapshot()
            self.assertEqual(inventory_digest(anew), inventory_digest(found), turn)


class TestManyMore(StoreCase):
    """As many pod managers as there may be."""

    def test_one_of_ten_thousand_costs_as_much_as_none(self):
        """S30: but for its own row and document."""
        store = self.store()
        store.remember_all([podm(f"p{number}", 0) for number in range(10_000)])
        position = store.snapshot().position
        rows, decoded = store.counts.rows_read, store.counts.podms_decoded
        self.assertEqual((), store.snapshot(position).changes)
        none = store.counts.rows_read - rows
        store.remember(podm("p5", 2))
        rows = store.counts.rows_read
        self.assertEqual(["p5"], [change.id for change in store.snapshot(position).changes])
        self.assertEqual(none + 1 + COUNTS, store.counts.rows_read - rows)
        self.assertEqual(decoded + 1, store.counts.podms_decoded)


@on_each_engine
class TestDecide:
    """What one process claims, another decides without."""

    def test_an_edit_of_aggregates_is_in_the_next_decision_and_loads_nothing_else(self):
        """S24."""
        store = self.store()
        for name in ("a", "b", "c"):
            store.remember(podm(name))
        local = claimer(self.store())
        wanted = request(CORES, aggregates=["fast"])
        self.assertFalse(local.decider().select_destinations(wanted).placed_nodes)
        decoded = local._store.counts.podms_decoded
        store.remember(podm("b", aggregates=["fast"]))
        decision = local.decider().select_destinations(wanted)
        self.assertEqual(["b"], [placement.chosen.podm for placement in decision.placements])
        self.assertEqual(1, local._store.counts.podms_decoded - decoded)

    def test_one_that_starts_anew_decides_on_what_was_read_before(self):
        """S23: no pod manager is asked."""
        store = self.store()
        store.remember(podm(read_at="2026-01-01T00:00:00Z"))
        store.close()
        decision = claimer(self.store()).decider().select_destinations(request(CORES))
        self.assertEqual("2026-01-01T00:00:00Z", decision.view.podms[0].read_at)
        self.assertEqual("placed", decision.outcome)

    def test_two_processes_never_choose_the_same(self):
        store = self.store()
        store.remember(podm(blocks=4))
        local, theirs = claimer(store), claimer(self.store())
        got = [one.claim(request(CORES)).claim for one in (local, theirs) * 2]
        self.assertEqual(4, len({claim.parts[0].shares[0].blocks for claim in got}))
        last = theirs.claim(request(CORES))
        self.assertIsNone(last.claim)
        self.assertEqual("nothing_fits", last.decision.outcome)

    def test_the_same_key_claims_once_even_when_there_is_no_room_for_twice(self):
        store = self.store()
        store.remember(podm(blocks=1))
        first = claimer(store).claim(request(CORES), key="k")
        again = claimer(self.store()).claim(request(CORES), key="k")
        self.assertEqual((first.claim, None), (again.claim, again.decision))

    def test_claims_of_an_owner_keep_company_like_nodes(self):
        store = self.store()
        for name in ("a", "b", "c"):
            store.remember(podm(name, 3))
        local = claimer(store)
        group = {"name": "g", "anti_affinity": ["podm"]}
        chosen = [local.claim(request(CORES, group=group), owner="o").claim for _ in range(4)]
        self.assertEqual({"a", "b", "c"}, {claim.podms[0] for claim in chosen[:3]})
        self.assertIsNone(chosen[3])
