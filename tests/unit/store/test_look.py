# SPDX-License-Identifier: Apache-2.0
"""One consistent snapshot, of what moved alone."""

import threading

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import CORES, claimant, part, podm
from valence_sched.model.registered import Registered
from valence_sched.testing import request

MANY = 300


@on_each_engine
class TestLook:
    """Work is counted, not timed."""

    def work(self, store, known):
        before = (store.counts.rows_looked_at, store.counts.podms_decoded)
        look = store.look(known)
        after = (store.counts.rows_looked_at, store.counts.podms_decoded)
        return look, tuple(b - a for a, b in zip(before, after, strict=True))

    def test_one_of_many_that_moved_costs_as_much_as_one_of_few(self):
        """S30."""
        store, costs = self.store(), []
        for number in range(MANY):
            store.remember(podm(f"p{number}", 1))
            if number not in (9, MANY - 1):
                continue
            known = store.look().known
            _, none = self.work(store, known)
            store.remember(podm("p5", number + 2))
            look, one = self.work(store, known)
            self.assertEqual(["p5"], [seen.id for seen in look.seen])
            costs.append((none, one))
        self.assertEqual(costs[0], costs[1])
        ((rows, decoded), (more_rows, more_decoded)) = costs[1]
        self.assertEqual((0, 1, 1), (decoded, more_decoded, more_rows - rows))

    def test_a_claim_moves_what_is_held_and_loads_no_document(self):
        store = self.store()
        generation = store.remember(podm())
        known = store.look().known
        claim = store.claims.take([part("p", generation, "c0")])
        look, (_, decoded) = self.work(store, known)
        (seen,) = look.seen
        self.assertEqual((0, None, {"c0": 1}), (decoded, seen.podm, seen.held.blocks))
        self.assertEqual((), store.look(look.known).seen)
        store.claims.release(claim.id)
        (seen,) = store.look(look.known).seen
        self.assertFalse(seen.held)

    def test_one_that_went_is_seen_going(self):
        store = self.store()
        store.register(Registered(name="p", url="u"))
        store.remember(podm())
        known = store.look().known
        mine = claimant(store)
        self.assertTrue(mine.engine().select_destinations(request(CORES)).placed)
        store.unregister("p")
        (seen,) = store.look(known).seen
        self.assertTrue(seen.gone)
        self.assertFalse(mine.engine().select_destinations(request(CORES)).placed)
        self.assertEqual([], [seen for seen in store.look().seen if not seen.gone])

    def test_a_store_without_pod_managers_places_nothing_until_one_comes(self):
        store = self.store()
        mine = claimant(store)
        self.assertIsNone(mine.claim(request(CORES)).claim)
        store.remember(podm())
        self.assertIsNotNone(mine.claim(request(CORES)).claim)

    def test_no_look_sees_half_of_a_change(self):
        """What a generation says and what the document holds are of one moment."""
        store, other = self.store(), self.store()
        first = store.remember(podm(blocks=1))
        stop, wrong = threading.Event(), []

        def watch():
            while not stop.is_set():
                (seen,) = other.look().seen
                if len(seen.podm.blocks) != seen.generation - first + 1:
                    wrong.append(seen)

        thread = threading.Thread(target=watch)
        thread.start()
        for blocks in range(2, 30):
            store.remember(podm(blocks=blocks))
        stop.set()
        thread.join()
        self.assertEqual([], wrong)


@on_each_engine
class TestDecide:
    """What one process claims, another decides without."""

    def test_one_that_starts_anew_decides_on_what_was_read_before(self):
        """S23: no pod manager is asked."""
        store = self.store()
        store.remember(podm(read_at="2026-01-01T00:00:00Z"))
        store.close()
        decision = claimant(self.store()).engine().select_destinations(request(CORES))
        self.assertEqual("2026-01-01T00:00:00Z", decision.view.podms[0].read_at)
        self.assertEqual("placed", decision.outcome)

    def test_two_processes_never_choose_the_same(self):
        store = self.store()
        store.remember(podm(blocks=4))
        mine, theirs = claimant(store), claimant(self.store())
        got = [one.claim(request(CORES)).claim for one in (mine, theirs) * 2]
        self.assertEqual(4, len({claim.parts[0].shares[0].blocks for claim in got}))
        last = theirs.claim(request(CORES))
        self.assertIsNone(last.claim)
        self.assertEqual("nothing_fits", last.decision.outcome)

    def test_the_same_key_claims_once_even_when_there_is_no_room_for_twice(self):
        store = self.store()
        store.remember(podm(blocks=1))
        first = claimant(store).claim(request(CORES), key="k")
        again = claimant(self.store()).claim(request(CORES), key="k")
        self.assertEqual((first.claim, None), (again.claim, again.decision))

    def test_claims_of_an_owner_keep_company_like_nodes(self):
        store = self.store()
        for name in ("a", "b", "c"):
            store.remember(podm(name, 3))
        mine = claimant(store)
        group = {"name": "g", "anti_affinity": ["podm"]}
        chosen = [mine.claim(request(CORES, group=group), owner="o").claim for _ in range(4)]
        self.assertEqual({"a", "b", "c"}, {claim.podms[0] for claim in chosen[:3]})
        self.assertIsNone(chosen[3])
