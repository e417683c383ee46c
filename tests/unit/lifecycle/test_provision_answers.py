# SPDX-License-Identifier: Apache-2.0
"""Provisioning by what pod managers answer: who is asked next, what is kept, what is said."""

import threading
from unittest import mock

from tests.unit.lifecycle.provisioning import Making, ProvisionCase, renewed
from tests.unit.lifecycle.scripted import ABSENT, BUSY, DOWN, PART, UNKNOWN, Watched
from tests.unit.store.site import podm
from valence_sched.errors import PodmError
from valence_sched.lifecycle.provision import MOST_ATTEMPTS


class TestNext(ProvisionCase):
    """A pod manager that refuses is passed over for the next best one."""

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
        self.assertEqual(("p: c0: found Composed, expected it free",), done.failures)
        self.assertEqual(["p"], self.read)
        (block,) = self.one.load_podms()["p"].blocks
        self.assertEqual("Composed", block.status.state)

    def test_one_that_cannot_be_read_again_is_as_it_was(self):
        for reading in (None, DOWN):
            taken = Watched(conflicts=("c0: found Composed",))
            done = self.site("p", readings={"p": reading}, p=taken).provision(self.request())
            self.assertEqual(MOST_ATTEMPTS - 1, len(done.notes))
            self.assertEqual("p: c0: found Composed, expected it free: tried p instead",
                             done.notes[0])  # fmt: skip
            self.assertEqual(["p"] * MOST_ATTEMPTS, self.read)


class TestSeveral(ProvisionCase):
    """Several nodes, of which some may fail."""

    def failing(self, good, *names, then=ABSENT, **composers):
        """Let the pod managers make only so many nodes in all."""
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
        self.assertIn("p: /S/p1 taken apart again: too few came to be", done.failures)
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
            (PART, "p: c0 is idle: look there, then try again"),
            (DOWN, "p: could not be read back: connection refused: look there, then try again"),
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
        line = "p: /S/p1 stays, though too few came to be: p: /S/p1: connection refused"
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
                         "podm claim reap", unverified.message)  # fmt: skip
