# SPDX-License-Identifier: Apache-2.0
"""What a key, a held claim and the dialects of pod managers make of a request for nodes."""

import _thread
import signal
import threading

from tests.unit.lifecycle.provisioning import Making, ProvisionCase, renewed
from tests.unit.lifecycle.scripted import ABSENT, DOWN, UNKNOWN
from tests.unit.store.site import expire
from tests.unit.store.test_holds import nodes_of
from valence_sched.errors import ClaimState, NameTaken, UnknownName
from valence_sched.model.composition import ComposedNode


class TestKeys(ProvisionCase):
    """The same key gives the same nodes, or says why it cannot."""

    def test_nodes_that_are_there_are_given_without_a_decision(self):
        self.site("p")
        first = self.provisioner.provision(self.request(count=2), key="k")
        again = self.provisioner.provision(self.request(count=2), key="k")
        self.assertEqual((sorted(n.id for n in first.nodes), None),
                         (sorted(n.id for n in again.nodes), again.decision))  # fmt: skip
        other = self.provisioner.provision(self.request(), key="x")
        self.assertEqual((1, False), (len(other.nodes), other.nodes[0] in first.nodes))

    def test_something_else_under_the_same_key_is_refused(self):
        for count in (1, 2):
            self.site("p")
            nodes = self.provisioner.provision(self.request(count=count), key="k").nodes
            claims = {node.claim for node in nodes}
            with self.assertRaises(NameTaken) as caught:
                self.provisioner.provision(self.request(count=count, seed=9), key="k")
            self.assertIn(str(caught.exception), {
                f"key 'k' stands for claim {claim}, which asked for something else: choose "
                "another key" for claim in claims})  # fmt: skip

    def test_one_that_is_being_composed_is_waited_for(self):
        for count in (1, 2):
            self.site("p", p=Making("p", compose=UNKNOWN))
            self.provisioner.provision(self.request(count=count), key="k")
            claims = {claim.id for claim in self.one.claims.list()}
            with self.assertRaises(ClaimState) as caught:
                self.provisioner.provision(self.request(count=count), key="k")
            hint = "wait for it, or run podm claim reap once its time is over"
            self.assertIn(str(caught.exception), {
                f"key 'k' stands for claim {claim}, which is COMPOSING: {hint}"
                for claim in claims})  # fmt: skip

    def test_one_that_is_only_held_is_composed_now(self):
        for count in (1, 2):
            self.site("p")
            asked = self.request(count=count)
            held = self.claimer.claim(asked, key="k").claim
            done = self.provisioner.provision(asked, key="k")
            self.assertEqual((count, None), (len(done.nodes), done.decision))
            ids = {held.id} if count == 1 else {f"{held.id}-1", f"{held.id}-2"}
            self.assertEqual(ids, {node.claim for node in done.nodes})

    def test_a_single_node_of_several_that_is_still_held_is_not_taken_for_all(self):
        self.site("p")
        asked = self.request(count=2)
        held = self.claimer.claim(asked, key="k").claim
        self.one.claims.split(held.id)
        with self.assertRaisesRegex(ClaimState, "which is HELD: wait for it"):
            self.provisioner.provision(asked, key="k")

    def test_keys_with_numbers_that_no_node_of_it_has_are_others(self):
        self.site("p")
        uris = {self.provisioner.provision(self.request(seed=number), key=key).nodes[0].uri
                for number, key in enumerate(("k#0", "k#2", "k"))}  # fmt: skip
        self.assertEqual(3, len(uris))

    def test_keys_are_their_owners(self):
        self.site("p")
        first = self.provisioner.provision(self.request(owner="a"), key="k").nodes
        second = self.provisioner.provision(self.request(owner="b"), key="k").nodes
        self.assertNotEqual(first, second)

    def test_what_is_held_ends_when_it_was_asked_to_also_in_place_of_another(self):
        self.site("p", "q", p=DOWN, q=DOWN)
        lives = []
        claim = self.claimer.claim
        self.claimer.claim = lambda asked, **words: (
            lives.append(words.get("ttl_s")) or claim(asked, **words)
        )
        self.provisioner.provision(self.request(), ttl_s=77.0)
        self.assertEqual([77.0] * 3, lives)


class TestRefusals(ProvisionCase):
    """Pod managers that can never compose a request are left out, and named."""

    def test_the_decision_says_who_was_left_out(self):
        done = self.site("p", "q", refusals={"p": "only reads"}).provision(self.request())
        self.assertEqual(["q"], [node.podm for node in done.nodes])
        self.assertIn("p: only reads: left out", done.decision.report.warnings)
        self.assertEqual(("p",), done.decision.report.request.exclude_podms)

    def test_of_those_that_were_asked_for_the_others_are_taken(self):
        done = self.site("p", "q", "r", refusals={"p": "only reads"}).provision(
            self.request(podms=("p", "q"))
        )
        self.assertEqual(["q"], [node.podm for node in done.nodes])
        asked = done.decision.report.request
        self.assertEqual((("q",), ()), (asked.podms, asked.exclude_podms))

    def test_where_only_they_were_asked_for_nothing_is_claimed(self):
        done = self.site("p", "q", refusals={"p": "only reads"}).provision(
            self.request(podms=("p",))
        )
        self.assertEqual((("p: only reads",), None, ()), (done.failures, done.decision, done.nodes))
        self.assertEqual({}, self.states())

    def test_one_that_is_excluded_anyway_is_excluded_once(self):
        done = self.site("p", "q", refusals={"p": "only reads"}).provision(
            self.request(exclude_podms=("p",))
        )
        self.assertEqual(("p",), done.decision.report.request.exclude_podms)

    def test_the_decision_tells_as_much_as_was_asked_for(self):
        for detail, funnel in (("placements", False), ("report", True)):
            done = self.site("p").provision(self.request(), detail=detail)
            self.assertEqual(funnel, bool(done.decision.report.funnel))

    def test_where_nothing_fits_nothing_is_made(self):
        done = self.site("p").provision(self.request(count=9))
        self.assertEqual(((), "nothing_fits"), (done.nodes, done.decision.report.outcome))
        self.assertEqual({}, self.states())


class TestHeld(ProvisionCase):
    """A claim that is held already is composed as it stands."""

    def test_all_its_nodes_are_made_and_nothing_in_their_place(self):
        self.site("p", "q")
        claim = self.claimer.claim(self.request(count=2)).claim
        done = self.provisioner.compose_claim(claim.id)
        self.assertEqual((2, None), (len(done.nodes), done.decision))
        self.site("p", "q", **{name: Making(name, compose=ABSENT) for name in "pq"})
        claim = self.claimer.claim(self.request()).claim
        done = self.provisioner.compose_claim(claim.id)
        self.assertEqual(((), (), 1), (done.nodes, done.notes, len(done.failures)))

    def test_too_few_are_taken_apart(self):
        self.site("p")
        claim = self.claimer.claim(self.request(count=2, min_count=1)).claim

        class One(Making):
            def refusal(self, wanted):
                return "no" if wanted.name.endswith("-2") else None

        self.composers["p"] = One("p")
        done = self.provisioner.compose_claim(claim.id)
        self.assertEqual(((), 2), (done.nodes, len(done.failures)))

    def test_one_that_is_not_held_says_what_it_is(self):
        self.site("p")
        claim = self.claimer.claim(self.request()).claim
        (node,) = self.provisioner.compose_claim(claim.id).nodes
        late = self.claimer.claim(self.request()).claim
        expire(self, late)
        ended = self.claimer.claim(self.request()).claim
        self.one.claims.release(ended.id, "not needed")
        hint = "only one that is held is composed"
        for one, words in (
            (claim, f"COMPOSED (it is node {node.id})"),
            (late, "EXPIRED"),
            (ended, "RELEASED (not needed)"),
        ):
            with self.assertRaises(ClaimState) as caught:
                self.provisioner.compose_claim(one.id)
            self.assertEqual(f"claim {one.id} is {words}: {hint}", str(caught.exception))
        with self.assertRaises(UnknownName):
            self.provisioner.compose_claim("nobody")

    def test_all_nodes_of_one_that_was_composed_are_named(self):
        self.site("p")
        claim = self.one.claims.create([nodes_of(1, ("c0",), ("c1",))])
        self.one.claims.start_composing(claim.id)
        self.one.claims.finish_composing(claim.id, [
            ComposedNode(id=f"n-{n}", podm="p", uri=f"/S/{n}", claim=claim.id, blocks=(block,))
            for n, block in enumerate(("c0", "c1"), 1)
        ])  # fmt: skip
        with self.assertRaisesRegex(ClaimState, "is COMPOSED .it is node n-1, n-2.: only"):
            self.provisioner.compose_claim(claim.id)

    def test_an_interruption_waits_for_what_is_being_composed(self):
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)
        together = threading.Barrier(3, timeout=20)

        class Interrupting(Making):
            def compose(self, wanted, watch):
                if together.wait() == 0:
                    _thread.interrupt_main()
                return super().compose(wanted, watch)

        self.site("p", p=Interrupting("p"))
        with self.assertRaises(KeyboardInterrupt):
            three = renewed(self.provisioner, parallel=lambda _podm: 3)
            three.provision(self.request(count=3))
        self.assertEqual(3, len(self.one.nodes.list()))
        self.assertEqual([], self.one.claims.list(("HELD", "COMPOSING")))
