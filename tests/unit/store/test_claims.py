# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks that they hold, their lifetime, and their keys."""

import threading

import sqlalchemy as sa

from tests.unit.store.engines import StoreCase, on_each_engine
from tests.unit.store.site import backdate, expire, part, podm
from valence_sched.errors import ClaimLost, ClaimState, InUse, NameTaken, UnknownName, UsageError
from valence_sched.model.claim import ClaimPart, ComposedNode, Grant
from valence_sched.model.zone import ZoneClaimPart
from valence_sched.store import tables
from valence_sched.store.claims import PREPARE_TTL_S, TTL_S
from valence_sched.store.tables import key_of

SHARED = {"uri": "s", "status": {"shareable": True, "max_compositions": 2}}


def usage(store, name="p"):
    """Return the held blocks of a podm, as others see them."""
    return {change.id: change.usage for change in store.snapshot().changes}[name]


@on_each_engine
class TestCreate:
    """The choice is held, or the other claim is named."""

    def setUp(self):
        super().setUp()
        self.generation = self.one.remember(podm())

    def create(self, *blocks, **words):
        return self.one.claims.create([part("p", self.generation, *blocks)], **words)

    def test_a_claim_is_seen_by_everybody_at_once(self):
        claim = self.create("c0", "c1", owner="me")
        self.assertEqual("HELD", claim.state)
        self.assertAlmostEqual(600, claim.expires_at - claim.created_at, delta=5)
        other = self.store()
        self.assertEqual({"c0": 1, "c1": 1}, usage(other).blocks)
        self.assertEqual(claim, other.claims.show(claim.id))

    def test_the_newest_are_found_in_parts_with_how_many_there_are(self):
        self.one.remember(podm('q"é'))
        owners = "o0", "o0 ", "o0"  # a server may ignore the space
        claims = [self.create(f"c{number}", owner=owner) for number, owner in enumerate(owners)]
        for claim in claims:
            backdate(self, claim, 9.0 - claims.index(claim))
        other = self.one.claims.create([part('q"é', 1, "c0")], owner="o0")
        self.one.claims.release(claims[0].id)

        def found(most=9, **words):
            newest, every = self.one.claims.newest(most, **words)
            return [one.id for one in newest], every

        ids = [claim.id for claim in claims]
        self.assertEqual(([other.id, ids[2], ids[1]], 3), found())
        self.assertEqual(([ids[2]], 3), found(1, skip=1))
        self.assertEqual(([], 3), found(skip=3))
        self.assertEqual(([other.id, ids[2]], 2), found(owner="o0"))
        self.assertEqual([ids[1]], [one.id for one in self.one.claims.list(owner="o0 ")])
        self.assertEqual(([other.id], 1), found(podm='q"é'))
        self.assertEqual(([ids[2], ids[1]], 2), found(podm="p"))
        self.assertEqual(([], 0), found(podm="P"))
        self.assertEqual(([ids[0]], 1), found(podm="p", states=("RELEASED",)))

    def test_a_block_is_held_once_and_the_loser_hears_by_whom(self):
        claim = self.create("c0", owner="first")
        with self.assertRaises(ClaimLost) as caught:
            self.create("c1", "c0")
        line = f"block c0 of pod manager 'p' is held by claim {claim.id} of first"
        self.assertEqual(line, str(caught.exception))
        self.assertEqual(("p", claim.id), (caught.exception.podm, caught.exception.claim))
        self.assertEqual(6, caught.exception.exit_code)
        self.assertEqual({"c0": 1}, usage(self.one).blocks)  # nothing of the loser is left

    def test_a_loser_does_not_hear_of_other_owners(self):
        self.create("c0", owner="first")
        with self.assertRaises(ClaimLost) as caught:
            self.create("c0", owner="second")
        line = "block c0 of pod manager 'p' is held by a claim of another owner"
        self.assertEqual((line, ""), (str(caught.exception), caught.exception.claim))

    def test_members_of_its_group_that_were_added_since_refuse_it(self):
        self.generation = self.one.remember(podm(blocks=4))
        self.create("c0", group="other", generation=0)
        self.create("c1", group="g", generation=0)
        with self.assertRaises(ClaimLost) as caught:
            self.create("c2", group="g", generation=0)
        line = "group 'g': another node of the group was claimed since the decision"
        self.assertEqual((line, "g"), (str(caught.exception), caught.exception.group))
        self.create("c2", group="g")  # without hard rules
        self.create("c3", group="g", generation=2)
        groups = ("g", "other", "new")
        self.assertEqual([3, 1, 0], [self.one.claims.group_generation(one) for one in groups])

    def test_a_claim_over_zones_that_is_being_prepared_keeps_others_out_of_its_group(self):
        self.generation = self.one.remember(podm(blocks=4))
        words = {"owner": None, "key": None, "content": "c", "ttl_s": 60.0}
        begin = self.one.zone_claims.begin
        pending, _ = begin([ZoneClaimPart(zone="east")], group="g", **words)
        with self.assertRaises(ClaimLost) as caught:
            self.create("c0", group="g")
        line = "group 'g': another claim of the group is being prepared over several zones"
        self.assertEqual((line, "g"), (str(caught.exception), caught.exception.group))
        self.create("c0", group="g", key=pending.id)  # its own part
        self.create("c1", group="other")
        of = tables.zone_claims.c
        self.execute(sa.update(tables.zone_claims).where(of.id == pending.id).values(expires_at=1))
        self.create("c2", group="g")
        held, _ = begin([ZoneClaimPart(zone="east")], group="g", **words)
        self.one.zone_claims.change(held.id, ["PREPARED"], "HELD", ttl_s=600)
        self.create("c3", group="g")

    def test_what_moved_since_is_refused(self):
        moved = self.one.remember(podm(blocks=4))
        with self.assertRaisesRegex(ClaimLost, f"from generation {self.generation} to {moved}"):
            self.create("c0")
        with self.assertRaisesRegex(ClaimLost, "'q' is no longer registered"):
            self.one.claims.create([part("q", 1, "c0")])

    def test_whatever_was_filtered_on_is_covered_by_the_claim(self):
        """A claim that covers less than the filters read would be a race."""
        block = {"uri": "c0", "type": ["Compute"], "devices": {"processors": [{"cores": 8}]}}
        for words in (
            {"zone": "z"}, {"facts": {"power_w": 1}}, {"traits": ["T"]}, {"aggregates": ["x"]},
            {"capabilities": {"os": ["linux"]}}, {"status": "Offline"},
            {"blocks": [{**block, "places": {"numa": "1"}}]},
            {"blocks": [{**block, "status": {"health": "Critical"}}]},
        ):  # fmt: skip
            with self.subTest(words):
                before = self.one.remember(podm())
                self.one.remember(podm(**words))
                with self.assertRaisesRegex(ClaimLost, f"from generation {before} to"):
                    self.one.claims.create([part("p", before, "c0")])

    def test_a_shareable_block_is_held_as_often_as_it_has_places(self):
        self.generation = self.one.remember(podm(blocks=[SHARED]))
        first, _ = self.create("s"), self.create("s")
        with self.assertRaisesRegex(ClaimLost, "block s .* is held by claim"):
            self.create("s")
        self.assertEqual({"s": 2}, usage(self.one).blocks)
        self.one.claims.release(first.id)
        self.create("s")

    def test_amounts_are_held_up_to_what_is_left(self):
        stock = {"uri": "m", "resource": "memory", "total": 10, "used": 1}
        self.generation = self.one.remember(podm(stocks=[stock]))

        def create(amount):
            return self.one.claims.create([part("p", self.generation, m=amount)], owner="o")

        create(4.5)
        second = create(4.4)
        with self.assertRaisesRegex(
            ClaimLost,
            "stock m of pod manager 'p' has 0.1 free, but the decision needs 1 "
            rf"\(latest claim: claim {second.id} of o\)",
        ):
            create(1)
        create(0.1)
        self.assertAlmostEqual(9.0, usage(self.one).amounts["m"])

    def test_of_many_at_once_as_many_get_an_amount_as_there_is(self):
        stock = {"uri": "m", "resource": "memory", "total": 3}
        self.generation = self.one.remember(podm(stocks=[stock]))
        stores = [self.store() for _ in range(6)]
        barrier, won, lost = threading.Barrier(len(stores)), [], []

        def run(store):
            barrier.wait()
            try:
                won.append(store.claims.create([part("p", self.generation, m=1)]))
            except ClaimLost as error:
                lost.append(error)

        threads = [threading.Thread(target=run, args=(store,)) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((3, 3), (len(won), len(lost)))

    def test_declared_amounts_are_held_up_to_what_was_declared(self):
        one = part("p", self.generation, **{"declared:power": 300})
        declared = ClaimPart(podm=one.podm, generation=one.generation, shares=one.shares,
                        declared_stocks=(Grant("declared:power", 500),))  # fmt: skip
        self.one.claims.create([declared])
        with self.assertRaisesRegex(ClaimLost, "declared:power of pod manager 'p' has 200 free"):
            self.one.claims.create([declared])

    def test_several_pod_managers_are_held_together_or_not_at_all(self):
        """S29."""
        second = self.one.remember(podm("q"))
        both = [part("p", self.generation, "c0"), part("q", second, "c0")]
        claim = self.one.claims.create(both)
        self.assertEqual(("HELD", ("p", "q"), 2), (claim.state, claim.podms, claim.nodes))
        for first, other in (("c1", "c0"), ("c0", "c1")):
            with self.assertRaises(ClaimLost):
                lost = [part("p", self.generation, first), part("q", second, other)]
                self.one.claims.create(lost)
        for name in ("p", "q"):
            self.assertEqual({"c0": 1}, usage(self.one, name).blocks)
        self.assertEqual([claim], self.one.claims.list())
        failed = self.one.claims.list(["FAILED"])
        self.assertTrue(all(one.note == "some parts could not be claimed" for one in failed))

    def test_a_claim_that_was_only_prepared_runs_out(self):
        """S29: killed between prepare and commit."""
        second = self.one.remember(podm("q"))
        claims = self.one.claims
        claims._write_expiring = _killed_after(1, claims._write_expiring)
        claims._abort = lambda _id: None
        with self.assertRaises(KeyboardInterrupt):
            claims.create([part("p", self.generation, "c0"), part("q", second, "c0")])
        other = self.store()
        (claim,) = other.claims.list()
        self.assertEqual("PREPARED", claim.state)
        self.assertEqual(1, sum(bool(change.usage) for change in other.snapshot().changes))
        expire(self, claim)
        self.assertEqual([], [change.usage for change in other.snapshot().changes if change.usage])
        self.assertEqual("EXPIRED", other.claims.show(claim.id).state)


def _killed_after(times, function):
    left = iter(range(times))

    def call(work, *words):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return function(work, *words)

    return call


@on_each_engine
class TestKeys:
    """The same key twice is the same claim."""

    def setUp(self):
        super().setUp()
        self.generation = self.store().remember(podm(blocks=20))

    def create(self, block, store=None, **words):
        store = store or self.store()
        return store.claims.create([part("p", self.generation, block)], **words)

    def test_the_same_key_gives_the_same_claim_and_holds_nothing_more(self):
        first = self.create("c0", key="k", content="one")
        self.assertEqual(first, self.create("c1", key="k", content="one"))
        self.assertEqual({"c0": 1}, usage(self.store()).blocks)

    def test_a_key_is_its_owners(self):
        first = self.create("c0", key="k", owner="a")
        self.assertNotEqual(first.id, self.create("c1", key="k", owner="b").id)

    def test_the_same_key_for_something_else_is_refused(self):
        first = self.create("c0", key="k", content="one")
        with self.assertRaisesRegex(NameTaken, f"key 'k' belongs to claim {first.id}"):
            self.create("c0", key="k", content="two")

    def test_a_claim_that_ended_gives_its_key_back(self):
        first = self.create("c0", key="k")
        self.one.claims.release(first.id)
        second = self.create("c0", key="k")
        expire(self, second)
        third = self.create("c0", key="k")
        self.assertEqual(3, len({first.id, second.id, third.id}))

    def test_of_many_at_once_with_one_key_all_get_the_same(self):
        stores = [self.store() for _ in range(6)]
        barrier = threading.Barrier(len(stores))
        claim_ids, errors = [], []

        def run(number):
            barrier.wait()
            try:
                claim_ids.append(self.create(f"c{number}", stores[number], key="k").id)
            except Exception as error:  # set by the main thread
                errors.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(([], 1, 6), (errors, len(set(claim_ids)), len(claim_ids)))
        self.assertEqual(1, len(usage(self.store()).blocks))


@on_each_engine
class TestStates:
    """The transitions between states, and their conditions."""

    def setUp(self):
        super().setUp()
        self.generation = self.one.remember(podm())
        self.claim = self.one.claims.create([part("p", self.generation, "c0")], owner="o")

    def node(self, uri="/Systems/1"):
        return ComposedNode(id="n1", podm="p", uri=uri, claim=self.claim.id, blocks=("c0",))

    def compose(self):
        self.one.claims.start_composing(self.claim.id)
        return self.one.claims.finish_composing(self.claim.id, [self.node()])

    def shown(self, *nodes):
        blocks = [{"uri": "c0", "status": {"state": "Composed"}}, {"uri": "c1"}]
        return podm(blocks=blocks, nodes=list(nodes))

    def test_a_released_claim_holds_nothing_and_is_released_only_once(self):
        self.one.claims.release(self.claim.id)
        first = self.one.claims.show(self.claim.id)
        self.assertEqual("RELEASED", first.state)
        self.assertFalse(usage(self.one))
        self.one.claims.release(self.claim.id)
        self.assertEqual(first, self.one.claims.show(self.claim.id))
        with self.assertRaisesRegex(ClaimState, "is RELEASED: only a held claim can be composed"):
            self.one.claims.start_composing(self.claim.id)
        with self.assertRaises(UnknownName):
            self.one.claims.release("nobody")

    def test_releasing_a_claim_that_ended_by_itself_changes_nothing(self):
        expire(self, self.claim)
        self.one.claims.expire()
        other = self.one.claims.create([part("p", self.generation, "c1")])
        self.one.claims.fail(other.id, "refused")
        for claim, state in ((self.claim, "EXPIRED"), (other, "FAILED")):
            before = self.one.claims.show(claim.id)
            self.assertEqual(state, before.state)
            self.one.claims.release(claim.id)
            self.assertEqual(before, self.one.claims.show(claim.id))

    def test_a_claim_whose_time_is_over_is_free_for_the_next(self):
        expire(self, self.claim)
        self.one.claims.create([part("p", self.generation, "c0")])
        self.assertEqual("EXPIRED", self.one.claims.show(self.claim.id).state)

    def test_an_amount_whose_time_is_over_is_free_for_the_next(self):
        stock = {"uri": "m", "resource": "memory", "total": 10}
        generation = self.one.remember(podm(stocks=[stock]))
        expire(self, self.one.claims.create([part("p", generation, m=8)]))
        self.one.claims.create([part("p", generation, m=8)])

    def test_reap_says_what_it_would_do_and_then_does_it(self):
        expire(self, self.claim)
        (reaped,) = self.one.claims.reap(dry_run=True)
        self.assertEqual((self.claim.id, "HELD"), (reaped.id, reaped.state))
        self.assertEqual("HELD", self.one.claims.show(self.claim.id).state)
        self.assertEqual(1, len(self.one.claims.reap()))
        self.assertEqual("EXPIRED", self.one.claims.show(self.claim.id).state)
        self.assertEqual([], list(self.one.claims.reap()))

    def test_renewing_moves_the_end_and_is_for_what_is_held(self):
        later = self.one.claims.renew(self.claim.id, 6000)
        self.assertGreater(later.expires_at, self.claim.expires_at + 5000)
        expire(self, self.claim)
        with self.assertRaises(ClaimState):
            self.one.claims.renew(self.claim.id)

    def test_what_is_being_composed_is_not_freed_by_time(self):
        self.one.claims.start_composing(self.claim.id, 0.0)
        self.assertEqual([], list(self.one.claims.reap()))
        (stuck,) = self.one.claims.list_stuck()
        self.assertEqual((self.claim.id, "COMPOSING"), (stuck.id, stuck.state))
        self.assertTrue(usage(self.one))
        with self.assertRaisesRegex(ClaimState, "reap the claim after it expires"):
            self.one.claims.release(self.claim.id)
        self.one.claims.fail(self.claim.id, "nothing was there")
        self.assertFalse(usage(self.one))
        self.assertEqual("nothing was there", self.one.claims.show(self.claim.id).note)

    def test_intent_cannot_be_noted_twice_nor_effect_without_it(self):
        with self.assertRaisesRegex(ClaimState, "is HELD: the claim was not being composed"):
            self.one.claims.finish_composing(self.claim.id, [])
        self.one.claims.start_composing(self.claim.id)
        with self.assertRaises(ClaimState):
            self.one.claims.start_composing(self.claim.id)

    def test_a_fresh_inventory_takes_over_counting(self):
        """Counted once: a claim settles only with the reading that shows the node."""
        self.compose()
        self.one.remember(self.shown())  # begun before the node existed
        self.assertEqual({"c0": 1}, usage(self.one).blocks)
        self.one.remember(self.shown({"uri": "/Systems/1", "blocks": ["c0"]}))
        self.assertEqual("SETTLED", self.one.claims.show(self.claim.id).state)
        self.assertEqual({}, usage(self.one).blocks)
        self.assertEqual(["/Systems/1"], [node.uri for node in usage(self.one).nodes])

    def test_a_node_that_was_read_before_it_was_confirmed_settles_at_once(self):
        self.one.claims.start_composing(self.claim.id)
        self.one.remember(self.shown({"uri": "/Systems/1", "blocks": ["c0"]}))
        self.assertTrue(usage(self.one))
        done = self.one.claims.finish_composing(self.claim.id, [self.node()])
        self.assertEqual("SETTLED", done.state)
        self.assertEqual({}, usage(self.one).blocks)

    def test_a_claim_with_a_node_goes_after_its_node(self):
        self.compose()
        with self.assertRaisesRegex(InUse, "node n1 was composed from claim"):
            self.one.claims.release(self.claim.id)
        self.assertEqual(["n1"], [node.id for node in self.one.nodes.list()])
        self.one.nodes.forget("n1")
        self.one.claims.release(self.claim.id)
        self.assertEqual("RELEASED", self.one.claims.show(self.claim.id).state)

    def test_what_happened_is_told_in_order(self):
        self.compose()
        kinds = [event.kind for event in self.one.events(claim=self.claim.id)]
        self.assertEqual(["held", "composing", "composed"], kinds)


SOON_S = 5.0


@on_each_engine
class TestTimes:
    """Expiry times, counted by the clock of the database from each step."""

    def setUp(self):
        super().setUp()
        self.one.remember_all([podm("p"), podm("q")])
        self.claims = self.one.claims

    def held(self, block="c0", **words):
        return self.claims.create([part("p", 1, block)], **words)

    def left_s(self, claim):
        return claim.expires_at - claim.created_at

    def test_a_claim_is_held_for_what_was_asked(self):
        for words, ttl_s in (({}, TTL_S), ({"ttl_s": 33.0}, 33.0), ({"ttl_s": 0.5}, 0.5)):
            self.assertAlmostEqual(ttl_s, self.left_s(self.held(f"c{len(words)}", **words)))
            self.claims.release(self.claims.list()[0].id)

    def test_one_of_several_pod_managers_too_and_is_prepared_for_less(self):
        prepared = []
        add = self.claims._write_expiring

        def noted(*words):
            done = add(*words)
            prepared.append(done)
            return done

        self.claims._write_expiring = noted
        claim = self.claims.create([part("q", 1, "c0"), part("p", 1, "c0")], ttl_s=900.0)
        self.assertEqual(["PREPARED", "PREPARED"], [one.state for one in prepared])
        self.assertAlmostEqual(PREPARE_TTL_S, self.left_s(prepared[-1]))
        self.assertAlmostEqual(900.0, self.left_s(claim), delta=SOON_S)
        self.assertEqual(("p", "q"), claim.podms)

    def test_a_claim_is_of_something_and_for_some_time(self):
        for parts, ttl_s in (([], 600.0), ([part("p", 1, "c0")], 0.0), ([part("p", 1)], -1.0)):
            with self.assertRaises(UsageError) as caught:
                self.claims.create(parts, ttl_s=ttl_s)
            self.assertEqual("a claim needs at least one node and more than 0 seconds",
                             str(caught.exception))  # fmt: skip
        self.assertEqual([], self.claims.list())

    def test_the_first_pod_manager_decides_whether_anything_is_begun(self):
        """Pod managers are locked in the order of their keys, not in the order of the parts."""
        first, second = sorted("pq", key=key_of)
        self.claims.create([part(first, 1, "c0")])
        self.claims.create([part(second, 1, "c1")])
        for block, failed in (("c0", 0), ("c1", 1)):
            for names in ((first, second), (second, first)):
                before = len(self.claims.list(["FAILED"]))
                with self.assertRaises(ClaimLost):
                    self.claims.create([part(name, 1, block) for name in names])
                self.assertEqual(failed, len(self.claims.list(["FAILED"])) - before)

    def test_one_that_was_ended_while_it_is_prepared_is_lost_at_the_next_pod_manager(self):
        add, late = self.claims._write_expiring, []

        def too_late(work, *words):
            if late:
                expire(self, late[0])
                self.claims.expire()
            late.append(add(work, *words))
            return late[-1]

        self.claims._write_expiring = too_late
        with self.assertRaises(ClaimLost) as caught:
            self.claims.create([part("p", 1, "c0"), part("q", 1, "c0")])
        self.assertEqual(f"claim {late[0].id} took too long to prepare: it is EXPIRED",
                         str(caught.exception))  # fmt: skip
        self.assertEqual(sorted("pq", key=key_of)[1], caught.exception.podm)
        for name in "pq":
            self.assertFalse(usage(self.one, name))

    def test_renewing_counts_from_now_on_and_is_for_what_is_held_or_composed(self):
        claim = self.held(ttl_s=1000.0)
        self.assertAlmostEqual(TTL_S, self.left_s(self.claims.renew(claim.id)), delta=SOON_S)
        expire(self, claim)
        refused = "is EXPIRED: only a held claim can be renewed"
        with self.assertRaisesRegex(ClaimState, refused):
            self.claims.renew(claim.id)
        self.claims.expire()
        with self.assertRaisesRegex(ClaimState, refused):
            self.claims.renew(claim.id)

    def test_one_that_was_renewed_for_a_moment_is_over_after_it(self):
        claim = self.held()
        self.claims.renew(claim.id, 0.0)
        self.claims.expire()
        self.assertEqual("EXPIRED", self.claims.show(claim.id).state)
        self.assertFalse(usage(self.one))

    def test_renewing_what_is_composed_makes_it_no_prey_of_time(self):
        claim = self.held()
        begun = self.claims.start_composing(claim.id, 0.0)
        self.assertAlmostEqual(0.0, self.left_s(begun), delta=SOON_S)
        self.assertEqual([claim.id], [one.id for one in self.claims.list_stuck()])
        renewed = self.claims.renew(claim.id, 6000.0)
        self.assertAlmostEqual(6000.0, self.left_s(renewed), delta=SOON_S)
        self.assertEqual([], self.claims.list_stuck())
        self.claims.renew(claim.id, 0.0)
        self.claims.expire()
        self.assertEqual("COMPOSING", self.claims.show(claim.id).state)

    def test_composing_gives_it_as_long_as_a_new_claim(self):
        begun = self.claims.start_composing(self.held(ttl_s=5000.0).id)
        self.assertAlmostEqual(TTL_S, self.left_s(begun), delta=SOON_S)

    def test_what_was_composed_never_ends_by_time(self):
        claim = self.held()
        self.claims.start_composing(claim.id, 0.0)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=claim.id, blocks=("c0",))
        self.assertIsNone(self.claims.finish_composing(claim.id, [node]).expires_at)
        self.assertEqual(([], []), (self.claims.list_stuck(), list(self.claims.reap())))

    def test_reaping_tells_what_ended_and_what_goes_on_and_leaves_the_rest(self):
        late, kept, composing = self.held("c0"), self.held("c1"), self.held("c2")
        self.claims.start_composing(composing.id, 0.0)
        expire(self, late)
        for dry_run, state in ((True, "HELD"), (False, "EXPIRED")):
            (reaped,) = self.claims.reap(dry_run=dry_run)
            self.assertEqual(late.id, reaped.id)
            self.assertEqual(state, self.claims.show(late.id).state)
        self.assertEqual([], list(self.claims.reap()))
        self.assertEqual([composing.id], [one.id for one in self.claims.list_stuck()])
        self.assertEqual("HELD", self.claims.show(kept.id).state)
        self.assertEqual({"c1": 1, "c2": 1}, usage(self.one).blocks)
        self.assertEqual(["held", "expired"], [one.kind for one in self.one.events(late.id)])


@on_each_engine
class TestEnds:
    """Releasing and abandoning, from each state."""

    def setUp(self):
        super().setUp()
        self.one.remember(podm("p"))
        self.claims = self.one.claims
        self.claim = self.claims.create([part("p", 1, "c0")], owner="o", key="k", group="g")

    def node(self):
        return ComposedNode(id="n1", podm="p", uri="/S/1", claim=self.claim.id, blocks=("c0",))

    def test_a_claim_says_what_it_was_asked_with(self):
        claim = self.claim
        words = claim.owner, claim.key, claim.group, claim.content
        self.assertEqual(("o", "k", "g", key_of("")), words)
        self.assertEqual(self.claim, self.claims.create([part("p", 1, "c1")], owner="o", key="k"))

    def test_a_note_says_why_and_the_history_repeats_it(self):
        self.claims.release(self.claim.id, "not needed")
        self.assertEqual("not needed", self.claims.show(self.claim.id).note)
        words = [(one.kind, one.words) for one in self.one.events(self.claim.id)]
        self.assertEqual([("held", "o"), ("released", "not needed")], words)

    def test_only_what_was_not_composed_is_given_up(self):
        self.claims.start_composing(self.claim.id)
        self.claims.finish_composing(self.claim.id, [self.node()])
        with self.assertRaisesRegex(ClaimState, "is COMPOSED: the state does not allow this"):
            self.claims.fail(self.claim.id, "why")
        self.one.nodes.forget("n1")
        with self.assertRaisesRegex(ClaimState, "is RELEASED: it has ended already"):
            self.claims.fail(self.claim.id, "why")

    def test_what_is_being_composed_is_not_released(self):
        self.claims.start_composing(self.claim.id)
        with self.assertRaises(ClaimState) as caught:
            self.claims.release(self.claim.id)
        hint = "its node may exist: reap the claim after it expires"
        self.assertEqual(f"claim {self.claim.id} is COMPOSING: {hint}", str(caught.exception))

    def test_giving_up_twice_changes_nothing(self):
        for note in ("first", "second"):
            self.claims.fail(self.claim.id, note)
            failed = self.claims.show(self.claim.id)
            self.assertEqual(("FAILED", "first"), (failed.state, failed.note))
        self.assertFalse(usage(self.one))

    def test_the_same_node_is_noted_once_and_another_in_its_place_never(self):
        self.claims.start_composing(self.claim.id)
        done = self.claims.finish_composing(self.claim.id, [self.node()])
        self.assertEqual(done, self.claims.finish_composing(self.claim.id, [self.node()]))
        other = ComposedNode(id="n1", podm="p", uri="/S/2", claim=self.claim.id)
        unknown = ComposedNode(id="n2", podm="p", uri="/S/1", claim=self.claim.id)
        for node in (other, unknown):
            with self.assertRaisesRegex(
                ClaimState, "is COMPOSED: the claim was not being composed"
            ):
                self.claims.finish_composing(self.claim.id, [node])
        self.assertEqual(["/S/1"], [node.uri for node in self.one.nodes.list()])

    def test_what_the_pod_manager_may_have_reserved_is_in_the_history(self):
        self.claims.note_reserving(self.claim.id)
        self.assertEqual(["held", "reserving"], [it.kind for it in self.one.events(self.claim.id)])

    def test_claims_are_listed_by_state_pod_manager_and_owner(self):
        self.one.remember(podm("q"))
        other = self.claims.create([part("q", 1, "c0")])
        ended = self.claims.create([part("q", 1, "c1")])
        self.claims.release(ended.id)
        backdate(self, self.claim)
        for words, found in (
            ({}, [self.claim.id, other.id]),
            ({"podm": "q"}, [other.id]),
            ({"podm": "x"}, []),
            ({"owner": "o"}, [self.claim.id]),
            ({"owner": "x"}, []),
            ({"states": ["RELEASED"]}, [ended.id]),
        ):
            with self.subTest(words):
                self.assertEqual(found, [one.id for one in self.claims.list(**words)])


@on_each_engine
class TestKeysOfClaims:
    """The meaning of a key, as found before a decision."""

    def setUp(self):
        super().setUp()
        self.one.remember_all([podm("p"), podm("q")])
        self.claims = self.one.claims

    def find(self, owner="o", key="k", content="asked"):
        return self.claims.find_by_key(owner, key, content)

    def test_the_claim_of_its_owner_and_of_nobody_else(self):
        claim = self.claims.create([part("p", 1, "c0")], owner="o", key="k", content="asked")
        self.assertEqual(claim, self.find())
        for words in ({"owner": None}, {"owner": "x"}, {"key": "x"}):
            self.assertIsNone(self.find(**words))
        line = f"key 'k' belongs to claim {claim.id} of another request"
        with self.assertRaisesRegex(NameTaken, f"^{line}: choose another key$"):
            self.find(content="else")

    def test_without_an_owner_too(self):
        claim = self.claims.create([part("p", 1, "c0")], key="k", content="asked")
        self.assertEqual(claim, self.find(owner=None))

    def test_one_whose_time_is_over_is_ended_by_asking(self):
        claim = self.claims.create([part("p", 1, "c0")], owner="o", key="k", content="asked")
        expire(self, claim)
        self.assertIsNone(self.find(content="else"))
        self.assertEqual("EXPIRED", self.claims.show(claim.id).state)

    def test_one_of_several_pod_managers_is_given_again_and_holds_nothing_more(self):
        def create(block):
            parts = [part("p", 1, block), part("q", 1, block)]
            return self.claims.create(parts, owner="o", key="k", content="asked")

        self.assertEqual(create("c0"), create("c1"))
        for name in ("p", "q"):
            self.assertEqual({"c0": 1}, usage(self.one, name).blocks)

    def test_one_that_is_being_prepared_is_waited_for(self):
        self.claims._abort = lambda _id: None
        add = self.claims._write_expiring

        def killed(work, *words):
            if self.claims.list():
                raise KeyboardInterrupt
            return add(work, *words)

        self.claims._write_expiring = killed
        parts = [part("p", 1, "c0"), part("q", 1, "c0")]
        with self.assertRaises(KeyboardInterrupt):
            self.claims.create(parts, owner="o", key="k", content="asked")
        (claim,) = self.claims.list()
        with self.assertRaisesRegex(ClaimLost, "of the same key is being prepared$") as caught:
            self.find()
        self.assertEqual(("", claim.id), (caught.exception.podm, caught.exception.claim))


class TestEffects(StoreCase):
    """The message about changed claims if a command ends before its output."""

    def setUp(self):
        super().setUp()
        self.one.remember(podm("p"))

    def create(self, **words):
        return self.one.claims.create([part("p", 1, "c0")], **words)

    def lines(self):
        return self.one.effects.unnamed_lines()

    def test_a_claim_that_is_held(self):
        claim = self.create(key="k")
        next_ = f"podm claim compose {claim.id} composes it, podm claim release {claim.id} ends it"
        expected = [f"claim {claim.id} is HELD: {next_}"]
        self.assertEqual(expected, self.lines())
        self.create(key="k")
        self.assertEqual(expected, self.lines())

    def test_one_that_may_be_held(self):
        def interrupt(_connection):
            raise KeyboardInterrupt

        sa.event.listen(self.one._database.writer, "commit", interrupt)
        with self.assertRaises(KeyboardInterrupt):
            self.create()
        (line,) = self.lines()
        self.assertRegex(line, r"^claim (\w{16}) may be held: check it with podm claim show \1$")

    def test_one_that_was_given_up(self):
        claim = self.create()
        self.one.claims.fail(claim.id, "why")
        self.assertEqual([], self.lines())
        self.one.claims.release(self.create().id)
        self.assertEqual([], self.lines())

    def test_a_node_that_was_composed_in_place_of_its_claim(self):
        claim = self.create()
        self.one.claims.start_composing(claim.id)
        node = ComposedNode(id="n1", podm="p", uri="/S/1", claim=claim.id, blocks=("c0",))
        self.one.claims.finish_composing(claim.id, [node])
        self.assertEqual([f"node n1 is composed on p: /S/1, claim {claim.id}"], self.lines())


class TestStuckSweep(StoreCase):
    """An expired claim that cannot be ended, because the database refuses it."""

    def test_it_is_tried_some_times_and_then_said(self):
        one = self.store()
        one.remember(podm("p"))
        expire(self, one.claims.create([part("p", 1, "c0")]))
        for table in ("claims", "claim_parts", "claimed_blocks"):
            for step in ("UPDATE", "DELETE"):
                self.execute(sa.text(f"CREATE TRIGGER no_{step}_{table} BEFORE {step} ON {table} "
                                     "BEGIN SELECT RAISE(IGNORE); END"))  # fmt: skip
        line = "^conflicting expired claims could not be ended: run podm claim reap$"
        with self.assertRaisesRegex(ClaimLost, line):
            one.claims.create([part("p", 1, "c0")])
