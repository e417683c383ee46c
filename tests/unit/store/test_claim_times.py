# SPDX-License-Identifier: Apache-2.0
"""When a claim ends, who may move that, and what an ended one leaves."""

from tests.unit.store.engines import on_each_engine
from tests.unit.store.site import backdate, expire, part, podm
from tests.unit.store.test_claims import usage
from valence_sched.errors import ClaimLost, ClaimState, UsageError
from valence_sched.model.composition import ComposedNode
from valence_sched.store.claims import PREPARE_TTL_S, TTL_S
from valence_sched.store.tables import key_of

SOON_S = 5.0


@on_each_engine
class TestTimes:
    """By the clock of the database, from the moment of the step on."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
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
            self.assertEqual("a claim is of at least one node, and for more than 0 seconds",
                             str(caught.exception))  # fmt: skip
        self.assertEqual([], self.claims.list())

    def test_the_first_pod_manager_decides_whether_anything_is_begun(self):
        """They are locked in the order of their keys, whatever that of the parts."""
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
        refused = "is EXPIRED: only one that is held can be renewed"
        with self.assertRaisesRegex(ClaimState, refused):
            self.claims.renew(claim.id)
        self.claims.expire()
        with self.assertRaisesRegex(ClaimState, refused):
            self.claims.renew(claim.id)

    def test_one_that_was_renewed_for_a_moment_is_over_after_it(self):
        claim = self.held()
        self.claims.renew(claim.id, 1e-6)
        self.claims.expire()
        self.assertEqual("EXPIRED", self.claims.show(claim.id).state)
        self.assertFalse(usage(self.one))

    def test_renewing_what_is_composed_makes_it_no_prey_of_time(self):
        claim = self.held()
        begun = self.claims.start_composing(claim.id, 1e-6)
        self.assertAlmostEqual(0.0, self.left_s(begun), delta=SOON_S)
        self.assertEqual([claim.id], [one.id for one in self.claims.list_stuck()])
        renewed = self.claims.renew(claim.id, 6000.0)
        self.assertAlmostEqual(6000.0, self.left_s(renewed), delta=SOON_S)
        self.assertEqual([], self.claims.list_stuck())
        self.claims.renew(claim.id, 1e-6)
        self.claims.expire()
        self.assertEqual("COMPOSING", self.claims.show(claim.id).state)

    def test_composing_gives_it_as_long_as_a_new_claim(self):
        begun = self.claims.start_composing(self.held(ttl_s=5000.0).id)
        self.assertAlmostEqual(TTL_S, self.left_s(begun), delta=SOON_S)

    def test_what_was_composed_never_ends_by_time(self):
        claim = self.held()
        self.claims.start_composing(claim.id, 1e-6)
        node = ComposedNode(id="n", podm="p", uri="/S/1", claim=claim.id, blocks=("c0",))
        self.assertIsNone(self.claims.finish_composing(claim.id, [node]).expires_at)
        self.assertEqual(([], []), (self.claims.list_stuck(), list(self.claims.reap())))

    def test_reaping_tells_what_ended_and_what_goes_on_and_leaves_the_rest(self):
        late, kept, composing = self.held("c0"), self.held("c1"), self.held("c2")
        self.claims.start_composing(composing.id, 1e-6)
        expire(self, late)
        expected = [(late.id, "expired: freed what it held"),
                    (composing.id, "was being composed: ask its pod manager")]  # fmt: skip
        for dry_run, state in ((True, "HELD"), (False, "EXPIRED")):
            reaped = self.claims.reap(dry_run=dry_run)
            self.assertEqual(expected, [(one.claim.id, one.outcome) for one in reaped])
            self.assertEqual(state, self.claims.show(late.id).state)
        self.assertEqual([composing.id], [one.claim.id for one in self.claims.reap()])
        self.assertEqual("HELD", self.claims.show(kept.id).state)
        self.assertEqual({"c1": 1, "c2": 1}, usage(self.one).blocks)
        self.assertEqual(["held", "expired"], [one.kind for one in self.one.events(late.id)])


@on_each_engine
class TestEnds:
    """Releasing and giving up, from each state."""

    def setUp(self):
        super().setUp()
        self.one = self.store()
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
        with self.assertRaisesRegex(ClaimState, "is COMPOSED: that is not for this state"):
            self.claims.fail(self.claim.id, "why")
        self.one.nodes.forget("n1")
        with self.assertRaisesRegex(ClaimState, "is RELEASED: it has ended already"):
            self.claims.fail(self.claim.id, "why")

    def test_what_is_being_composed_is_not_released(self):
        self.claims.start_composing(self.claim.id)
        with self.assertRaises(ClaimState) as caught:
            self.claims.release(self.claim.id)
        hint = "something may be there by now: reap it once its time is over"
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
            with self.assertRaisesRegex(ClaimState, "is COMPOSED: it was not being composed"):
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
