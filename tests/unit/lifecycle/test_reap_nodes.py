# SPDX-License-Identifier: Apache-2.0
"""Reaping nodes that are gone, and nodes that came after their claim had ended."""

import contextlib

from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    AMOUNT,
    COMPOSED,
    DOWN,
    PART,
    UNKNOWN,
    URI,
    Noting,
    ReapCase,
)
from tests.unit.store.site import expire, part, podm
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import ClaimPart, Grant, NodeAllocation
from valence_sched.model.composition import ComposedNode, CompositionRequest, CompositionResult
from valence_sched.model.lifecycle import Action


class TestNodes(ReapCase):
    """Nodes that are gone, and nodes that came after their claim had ended."""

    def composed(self, **words):
        self.store.claims.start_composing(self.claim.id)
        node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id, name="vs-n",
                            pool="all", blocks=("c0",), **words)  # fmt: skip
        self.store.claims.finish_composing(self.claim.id, [node])
        return CompositionRequest(name="vs-n", pool="all", blocks=("c0",), **words)

    def given_up(self, name=None):
        """Give the claim up; the pod manager shows its node all the same."""
        self.store.claims.start_composing(self.claim.id)
        self.store.claims.fail(self.claim.id, "the reply was lost")
        shown = {"uri": URI, "name": name or f"vs-{self.claim.id}", "blocks": ["c0", "c1"]}
        self.readings["p"] = podm(nodes=[shown])

    def line(self, composer, id_="n"):
        (action,) = self.reap(composer)
        self.assertEqual(Action(kind="node", id=id_, podm="p", done=""), replace(action, done=""))
        return action.done

    def test_one_that_is_gone_is_asked_for_by_its_uri(self):
        wanted = self.composed()
        self.readings["p"] = podm()
        composer = Noting()
        self.assertEqual("forgotten, and its claim released: it is not there any more",
                         self.line(composer))  # fmt: skip
        self.assertEqual([("read_node", wanted, URI)], composer.arguments)
        self.assertEqual([], self.store.nodes.list())
        self.assertEqual("RELEASED", self.state())

    def test_amounts_of_one_that_is_gone_are_deleted_or_keep_it(self):
        left = CompositionResult(state="left", amounts=(AMOUNT,), reason="a chunk")
        for remove, dry_run, calls, stays in (
            (left, False, ["read_node", "remove"], True),
            (ABSENT, False, ["read_node", "remove"], False),
            (left, True, ["read_node"], True),
        ):
            with self.subTest(remove=remove, dry_run=dry_run):
                self.begin()
                self.dry_run = dry_run
                wanted = self.composed(amounts=(AMOUNT,))
                self.readings["p"] = podm()
                composer = Noting(read_node=left, remove=remove)
                line = self.line(composer)
                if stays and not dry_run:
                    self.assertEqual("left as it is: the reading does not show it, a chunk", line)
                    self.assertEqual(("remove", wanted, URI), composer.arguments[-1])
                else:
                    self.assertRegex(line, "^forgotten")
                self.assertEqual(calls, composer.calls)
                self.assertEqual(stays, bool(self.store.nodes.list()))

    def test_one_that_is_shown_is_left_alone(self):
        self.composed()
        self.readings["p"] = podm(nodes=[{"uri": URI, "name": "vs-n", "blocks": ["c0"]}])
        composer = Noting()
        self.assertEqual(([], []), (self.reap(composer), composer.calls))

    def test_one_of_a_pod_manager_that_does_not_answer_is_left_alone(self):
        self.composed()
        self.assertEqual([], self.reap(Noting()))
        self.assertEqual("Online", self.store.load_podms()["p"].status)
        self.assertEqual(1, len(self.store.nodes.list()))

    def test_those_after_it_are_looked_at_all_the_same_and_each_once(self):
        self.store.remember(podm("q"))
        self.readings["q"] = podm("q", nodes=[{"uri": "/S/9", "name": "vs-0123"}])
        self.assertEqual(["q"], [action.podm for action in self.reap(Noting())])
        self.assertEqual(["p", "q", "q"], self.read)
        self.readings = {"p": podm(), "q": podm("q")}
        self.assertEqual([], self.reap(Noting()))
        self.assertEqual(["p", "q"], self.read)

    def test_each_pod_manager_has_its_own_nodes(self):
        self.composed()
        self.store.remember(podm("q"))
        self.readings = {"p": podm(), "q": podm("q", nodes=[{"uri": URI, "name": "other"}])}
        self.assertRegex(self.line(Noting()), "^forgotten")

    def test_after_a_change_the_pod_manager_is_read_again(self):
        self.composed()
        readings = iter([podm(zone="before"), podm(zone="after")])
        reconciler = Reconciler(
            self.store, lambda _id: contextlib.nullcontext(Noting()), lambda _id: next(readings)
        )
        self.assertEqual(1, len(list(reconciler.reconcile())))
        self.assertEqual("after", self.store.load_podms()["p"].zone)

    def test_what_was_read_before_a_change_counts_where_it_does_not_answer_again(self):
        self.composed()
        readings = iter([podm(zone="before"), None])
        reconciler = Reconciler(
            self.store, lambda _id: contextlib.nullcontext(Noting()), lambda _id: next(readings)
        )
        self.assertEqual(1, len(list(reconciler.reconcile())))
        self.assertEqual("before", self.store.load_podms()["p"].zone)

    def test_one_that_came_late_is_taken_apart_with_what_it_shows_and_what_was_granted(self):
        grants = {"m": 4.0}
        self.store.remember(podm(stocks=[{"uri": "m", "resource": "memory", "total": 10}]))
        self.store.claims.release(self.claim.id)
        self.claim = self.store.claims.create([part("p", 2, "c0", **grants)])
        self.given_up()
        composer = Noting()
        self.assertEqual(f"taken apart: its claim {self.claim.id} is FAILED",
                         self.line(composer, URI))  # fmt: skip
        wanted = CompositionRequest(name=f"vs-{self.claim.id}", blocks=("c0", "c1"),
                                    grants=(Grant("m", 4.0),))  # fmt: skip
        self.assertEqual([("remove", wanted, URI)], composer.arguments)

    def test_of_several_nodes_the_grants_are_its_own(self):
        self.store.remember(podm(stocks=[{"uri": "m", "resource": "memory", "total": 10}]))
        shares = tuple(NodeAllocation(node=n, pool="all", grants=(Grant("m", n),)) for n in (1, 2))
        self.store.claims.release(self.claim.id)
        self.claim = self.store.claims.create([ClaimPart(podm="p", generation=2, shares=shares)])
        self.given_up(f"vs-{self.claim.id}-2")
        composer = Noting()
        self.assertRegex(self.line(composer, URI), "^taken apart")
        self.assertEqual((Grant("m", 2.0),), composer.arguments[0][1].grants)

    def test_one_without_a_known_claim_is_another_systems(self):
        self.given_up("vs-0123")
        composer = Noting()
        self.assertEqual("left as it is: no claim is known for it (podm node list --live)",
                         self.line(composer, URI))  # fmt: skip
        self.assertEqual([], composer.calls)

    def test_one_whose_claim_goes_on_is_left_to_it(self):
        self.store.claims.start_composing(self.claim.id)
        shown = {"uri": URI, "name": f"vs-{self.claim.id}", "blocks": ["c0"]}
        self.readings["p"] = podm(nodes=[shown, {"uri": "/S/2", "name": "theirs"}])
        composer = Noting()
        self.assertEqual(([], []), (self.reap(composer), composer.calls))

    def test_what_cannot_be_asked_or_taken_apart_stays_and_is_said(self):
        self.given_up()
        self.assertEqual("left as it is: connection refused", self.line(Noting(remove=DOWN), URI))
        self.begin()
        self.composed()
        self.readings["p"] = podm()
        self.assertEqual("left as it is: the reading does not show it, connection refused",
                         self.line(Noting(read_node=DOWN)))  # fmt: skip
        self.assertEqual("left as it is: the reading does not show it, it is there",
                         self.line(Noting(read_node=COMPOSED)))  # fmt: skip
        self.assertEqual(1, len(self.store.nodes.list()))

    def test_a_dry_run_says_what_it_would_do_and_asks_for_no_change(self):
        self.dry_run = True
        self.given_up()
        composer = Noting()
        self.assertEqual(f"taken apart: its claim {self.claim.id} is FAILED",
                         self.line(composer, URI))  # fmt: skip
        self.assertEqual(([], ["p"]), (composer.calls, self.read))
        self.begin()
        self.composed()
        self.readings["p"] = podm(zone="z")
        self.assertRegex(self.line(Noting()), "^forgotten")
        self.assertEqual(1, len(self.store.nodes.list()))
        self.assertIsNone(self.store.load_podms()["p"].zone)

    def test_it_is_told_which_node_is_looked_at(self):
        self.composed()
        self.readings["p"] = podm()
        self.line(Noting())
        self.assertEqual([("node n on p", "reconciling")], self.told)
        self.begin()
        self.given_up()
        self.line(Noting(), URI)
        self.assertEqual([(f"node vs-{self.claim.id} on p", "reconciling")], self.told)

    def test_long_reasons_are_cut(self):
        self.given_up()
        line = self.line(Noting(remove=replace(PART, reason="x" * 300)), URI)
        self.assertEqual((200, "x…"), (len(line), line[-2:]))
        self.begin()
        self.composed()
        self.readings["p"] = podm()
        line = self.line(Noting(read_node=replace(UNKNOWN, reason="x" * 300)))
        self.assertEqual((200, "x…"), (len(line), line[-2:]))

    def test_a_claim_whose_time_is_over_comes_first(self):
        expire(self, self.claim)
        self.readings["p"] = podm(nodes=[{"uri": "/S/9", "name": "vs-0123"}])
        self.assertEqual(["claim", "node"], [action.kind for action in self.reap(Noting())])
