# SPDX-License-Identifier: Apache-2.0
"""Provisioning: its results, and the meaning of a key."""

import _thread
import signal
import threading
from unittest import mock

from tests.unit.lifecycle.scripted import (
    ABSENT,
    BUSY,
    DOWN,
    PART,
    UNKNOWN,
    Making,
    ProvisionCase,
    Watched,
    renewed,
)
from tests.unit.store.site import expire, podm
from tests.unit.store.test_holds import nodes_of
from valence_sched.errors import ClaimState, NameTaken, PodmError, UnknownName
from valence_sched.lifecycle.provision import MOST_ATTEMPTS
from valence_sched.model.claim import ComposedNode


class TestNext(ProvisionCase):
    """After a refusal of a pod manager, the next best one is used."""

    def test_of_those_that_were_asked_for_each_is_tried_and_no_other(self):
        refuses = {name: Making(name, compose=ABSENT) for name in "pq"}
        done = self.site("p", "q", "r", **refuses).provision(self.request(podms=("p", "q")))
        self.assertEqual((), done.nodes)
        (line,) = done.failures
        (note,) = done.notes
        first, second = ("p", "q") if note.startswith("p") else ("q", "p")
        self.assertEqual(f"{first}: nothing is there: tried {second} instead", note)
        self.assertEqual(f"{second}: nothing is there", line)
        self.assertEqual((False, ()), (done.claim_lost, done.unverified))
        self.assertEqual({"FAILED"}, {*self.states().values()})
        self.assertEqual(1, self.points.count("another"))
        self.assertEqual([], self.composers["r"].calls)

    def test_a_node_is_made_by_one_that_does_not_refuse(self):
        for refusing in ("p", "q"):
            composers = {refusing: Making(refusing, compose=ABSENT)}
            done = self.site("p", "q", **composers).provision(self.request())
            (node,) = done.nodes
            self.assertNotEqual(refusing, node.podm)
            self.assertEqual((), done.failures)
            self.assertLessEqual(len(done.notes), 1)
            self.assertEqual([], self.one.claims.list(("HELD", "COMPOSING")))

    def test_after_some_it_is_given_up(self):
        names = "abcdefgh"
        done = self.site(*names, **{it: Making(it, compose=ABSENT) for it in names}).provision(
            self.request()
        )
        tried = [composer.name for composer in self.composers.values() if composer.calls]
        self.assertEqual((MOST_ATTEMPTS, MOST_ATTEMPTS - 1), (len(tried), len(done.notes)))
        self.assertEqual(1, len(done.failures))
        self.assertEqual(MOST_ATTEMPTS, len(self.states()))

    def test_the_key_stands_for_the_node_that_came_in_its_place(self):
        self.site("p", "q")
        decision = self.claimer.select_destinations(self.request())
        first = decision.placements[0].chosen.podm
        self.composers[first] = Making(first, compose=ABSENT)
        (node,) = self.provisioner.provision(self.request(), key="k", ttl_s=50.0).nodes
        self.assertNotEqual(first, node.podm)
        again = self.provisioner.provision(self.request(), key="k")
        self.assertEqual(((node.id,), None), (tuple(n.id for n in again.nodes), again.decision))

    def test_what_may_be_there_is_not_made_again_elsewhere(self):
        for answer, going in ((UNKNOWN, False), (BUSY, True)):
            composers = {name: Making(name, compose=answer) for name in "pq"}
            done = self.site("p", "q", **composers).provision(self.request())
            (unverified,) = done.unverified
            self.assertEqual(((), (), ()), (done.nodes, done.failures, done.notes))
            self.assertEqual(going, unverified.still_composing)
            self.assertEqual(int(going), len(done.still_composing))
            (claim,) = self.one.claims.list()
            expected = (f"vs-{claim.id}", claim.podms[0], claim.id) if going else ("", "", "")
            self.assertEqual(expected, (unverified.node, unverified.podm, unverified.claim))
            self.assertIn(f"claim {claim.id} stays COMPOSING", unverified.message)

    def test_a_lost_block_has_its_pod_manager_read_again_and_tried_again(self):
        used = {"uri": "c0", "type": ["Compute"], "status": {"state": "Composed"}}
        taken = Watched(conflicts=("c0: found Composed",))
        done = self.site("p", blocks=1, readings={"p": podm(blocks=[used])}, p=taken).provision(
            self.request()
        )
        self.assertTrue(done.claim_lost)
        self.assertEqual(("p: c0: found Composed, expected a free block",), done.failures)
        self.assertEqual(["p"], self.read)
        (block,) = self.one.load_podms()["p"].blocks
        self.assertEqual("Composed", block.status.state)

    def test_one_that_cannot_be_read_again_is_as_it_was(self):
        for reading in (None, DOWN):
            taken = Watched(conflicts=("c0: found Composed",))
            done = self.site("p", readings={"p": reading}, p=taken).provision(self.request())
            self.assertEqual(MOST_ATTEMPTS - 1, len(done.notes))
            self.assertEqual("p: c0: found Composed, expected a free block: tried p instead",
                             done.notes[0])  # fmt: skip
            self.assertEqual(["p"] * MOST_ATTEMPTS, self.read)


class TestSeveral(ProvisionCase):
    """Several nodes, of which some may fail."""

    def failing(self, good, *names, then=ABSENT, **composers):
        """Let the pod managers compose only this number of nodes in total."""
        left, lock = [good], threading.Lock()

        class Few(Making):
            def compose(self, wanted, watch):
                with lock:
                    left[0] -= 1
                    made = left[0] >= 0
                return super().compose(wanted, watch) if made else then

        for name in names:
            composers.setdefault(name, Few(name))
        return self.site(*names, **composers)

    def test_all_that_were_asked_for_are_there(self):
        done = self.site("p").provision(self.request(count=3))
        self.assertEqual({"/S/p1", "/S/p2", "/S/p3"}, {node.uri for node in done.nodes})
        self.assertEqual(["taken", "split"], self.points[:2])
        self.assertEqual((3, "placed"), (len(done.nodes), done.decision.report.outcome))
        self.assertEqual({"COMPOSED": 3, "RELEASED": 1}, self.counts())

    def counts(self):
        states = [*self.states().values()]
        return {state: states.count(state) for state in states}

    def test_in_place_of_each_that_failed_one_is_made(self):
        refuses = Making("p", compose=ABSENT)
        done = self.site("p", "q", p=refuses).provision(self.request(count=2))
        self.assertEqual((["q", "q"], ()), ([node.podm for node in done.nodes], done.unverified))

    def test_no_thread_ends_by_an_error(self):
        before = {*threading.enumerate()}
        with mock.patch.object(threading, "excepthook") as broken:
            self.site("p").provision(self.request(count=3))
            for thread in {*threading.enumerate()} - before:
                thread.join()
        broken.assert_not_called()

    def test_too_few_are_taken_apart_again(self):
        done = self.failing(1, "p").provision(self.request(count=2))
        self.assertEqual(((), ()), (done.nodes, done.unverified))
        self.assertIn("p: /S/p1 decomposed: too few nodes were composed", done.failures)
        self.assertEqual(2, len(done.failures))
        self.assertEqual([], self.one.nodes.list())
        self.assertEqual([], self.one.effects.unnamed_lines())
        self.assertEqual({"RELEASED": 2, "FAILED": 1}, self.counts())

    def test_enough_are_kept(self):
        done = self.failing(1, "p").provision(self.request(count=2, min_count=1))
        self.assertEqual((1, 1), (len(done.nodes), len(done.failures)))
        self.assertEqual(1, len(self.one.nodes.list()))

    def test_what_goes_on_counts_for_the_least(self):
        done = self.failing(1, "p", then=BUSY).provision(self.request(count=2))
        self.assertEqual((1, 1, 0), (len(done.nodes), len(done.unverified), len(done.failures)))

    def test_what_cannot_be_taken_apart_again_is_said(self):
        for remove, line in (
            (PART, "p: c0 is idle: check the pod manager, then try again"),
            (
                DOWN,
                "p: could not be read back: connection refused: check the pod manager, then try "
                "again",
            ),
        ):
            self.failing(1, "p")
            self.composers["p"]._answers["remove"] = remove
            done = self.provisioner.provision(self.request(count=2))
            self.assertEqual([line], [one.message for one in done.unverified])
            self.assertEqual((), done.nodes)
            self.assertEqual(1, len(self.one.nodes.list()))

    def test_what_cannot_be_reached_any_more_stays_and_is_said(self):
        self.failing(1, "p")
        connect = self.provisioner.composer.connect

        def refuse_later(name):
            if self.points[-1] == "removing":
                raise PodmError("connection refused")
            return connect(name)

        composer = renewed(self.provisioner.composer, connect=refuse_later)
        done = renewed(self.provisioner, composer=composer).provision(self.request(count=2))
        line = (
            "p: /S/p1 remains, although too few nodes were composed: p: /S/p1: connection refused"
        )
        self.assertEqual([f"{line} (podm node delete)"], [one.message for one in done.unverified])

    def test_on_one_pod_manager_only_some_are_made_at_a_time(self):
        for parallel in (1, 2, 3):
            lock, now, most = threading.Lock(), [0], [0]
            together = threading.Barrier(parallel, timeout=20)

            class Slow(Making):
                def compose(self, wanted, watch, *, lock=lock, now=now, most=most, at=together):
                    with lock:
                        now[0] += 1
                        most[0] = max(most[0], now[0])
                    at.wait()
                    with lock:
                        now[0] -= 1
                    return super().compose(wanted, watch)

            self.site("p", blocks=6, p=Slow("p"))
            provisioner = renewed(self.provisioner, parallel=lambda _podm, n=parallel: n)
            done = provisioner.provision(self.request(count=6))
            self.assertEqual((6, parallel), (len(done.nodes), most[0]))

    def test_an_error_of_ours_is_named_and_loses_no_other_node(self):
        class Broken(Making):
            def refusal(self, wanted):
                if wanted.name.endswith("-2"):
                    raise RuntimeError("a bug")

        done = self.site("p", p=Broken("p")).provision(self.request(count=2, min_count=1))
        self.assertEqual(1, len(done.nodes))
        (unverified,) = done.unverified
        (claim,) = self.one.claims.list(("COMPOSING",))
        self.assertEqual(f"claim {claim.id}: RuntimeError: a bug (please report this); "
                         "run podm claim reap", unverified.message)  # fmt: skip


class TestKeys(ProvisionCase):
    """The same key gives the same nodes, or an error with the reason."""

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
                f"key 'k' belongs to claim {claim} of another request: choose "
                "another key" for claim in claims})  # fmt: skip

    def test_one_that_is_being_composed_is_waited_for(self):
        for count in (1, 2):
            self.site("p", p=Making("p", compose=UNKNOWN))
            self.provisioner.provision(self.request(count=count), key="k")
            claims = {claim.id for claim in self.one.claims.list()}
            with self.assertRaises(ClaimState) as caught:
                self.provisioner.provision(self.request(count=count), key="k")
            hint = "wait for it, or run podm claim reap after it expires"
            self.assertIn(str(caught.exception), {
                f"key 'k' belongs to claim {claim}, which is COMPOSING: {hint}"
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
    """A held claim is composed unchanged."""

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
        hint = "only a held claim can be composed"
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
