# SPDX-License-Identifier: Apache-2.0
"""Composing and reaping by what a pod manager answers: each answer, each outcome, each call."""

import contextlib

from tests.unit.lifecycle.scripted import (
    ABSENT,
    BUSY,
    COMPOSED,
    DOWN,
    PART,
    UNKNOWN,
    URI,
    USED,
    Scripted,
    ScriptedCase,
)
from tests.unit.store.site import podm
from valence_sched.errors import ComposeFailed, StillComposing, Unverified
from valence_sched.lifecycle.compose import NodeComposer
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.composition import ComposedNode, CompositionResult


class TestComposing(ScriptedCase):
    """What an answer leads to; after an error, what is read back decides."""

    def test_each_answer(self):
        back = ["reserve", "compose", "read_node"]
        for compose, read_node, remove, error, state, calls in (
            (COMPOSED, DOWN, DOWN, None, "COMPOSED", back[:2]),
            (DOWN, COMPOSED, DOWN, None, "COMPOSED", back),
            (ValueError("a bug"), COMPOSED, DOWN, None, "COMPOSED", back),
            (DOWN, ABSENT, DOWN, ComposeFailed, "FAILED", [*back, "unreserve"]),
            (ABSENT, DOWN, DOWN, ComposeFailed, "FAILED", [*back[:2], "unreserve"]),
            (DOWN, PART, ABSENT, ComposeFailed, "FAILED", [*back, "remove", "unreserve"]),
            (PART, DOWN, ABSENT, ComposeFailed, "FAILED", [*back[:2], "remove", "unreserve"]),
            (PART, DOWN, PART, Unverified, "COMPOSING", [*back[:2], "remove"]),
            (PART, DOWN, DOWN, Unverified, "COMPOSING", [*back[:2], "remove"]),
            (DOWN, USED, DOWN, Unverified, "COMPOSING", back),
            (DOWN, UNKNOWN, DOWN, Unverified, "COMPOSING", back),
            (DOWN, DOWN, DOWN, Unverified, "COMPOSING", back),
            (BUSY, DOWN, DOWN, StillComposing, "COMPOSING", back[:2]),
            (DOWN, BUSY, DOWN, StillComposing, "COMPOSING", back),
        ):
            with self.subTest(compose=compose, read_node=read_node, remove=remove):
                self.begin()
                scripted = Scripted(compose, read_node, remove)
                composer = NodeComposer(
                    self.store,
                    lambda _id, it=scripted: contextlib.nullcontext(it),
                )
                if error is None:
                    self.assertEqual(URI, composer.compose(self.claim).uri)
                else:
                    with self.assertRaises(error) as caught:
                        composer.compose(self.claim)
                    self.assertIs(error, type(caught.exception))
                    if compose is DOWN:
                        self.assertIn("connection refused", str(caught.exception))
                self.assertEqual((state, calls), (self.state(), scripted.calls))
                self.assertEqual(error is None, bool(self.store.nodes.list()))


class TestReaping(ScriptedCase):
    """What becomes of a claim whose process died; a dry run only reads."""

    def reap(self, scripted, reading=None, *, dry_run=False):
        reconciler = Reconciler(
            self.store, lambda _id: contextlib.nullcontext(scripted), lambda _id: reading, dry_run
        )
        return [(one.kind, one.done) for one in reconciler.reconcile()]

    def test_each_answer_about_a_claim_that_was_being_composed(self):
        nothing = "freed what it held: nothing was composed"
        for read_node, done, state, calls in (
            (COMPOSED, "composed: found /S/1", "COMPOSED", ["unreserve"]),
            (ABSENT, nothing, "FAILED", ["unreserve"]),
            (PART, nothing, "FAILED", ["remove", "unreserve"]),
            (USED, f"{nothing}, but look at c0 is in use", "FAILED", ["unreserve"]),
            (BUSY, "left as it is: p goes on: the task runs", "COMPOSING", []),
            (CompositionResult(state="composed", node=URI, blocks=("c0",), works=True),
             "left as it is: p goes on:", "COMPOSING", []),
            (UNKNOWN, "left as it is: whose it is cannot be told", "COMPOSING", None),
            (DOWN, "left as it is: p does not tell: connection refused", "COMPOSING", []),
        ):  # fmt: skip
            for dry_run in (True, False):
                with self.subTest(read_node=read_node, dry_run=dry_run):
                    self.begin()
                    self.store.claims.start_composing(self.claim.id, 1e-6)
                    self.store.claims.note_reserving(self.claim.id)
                    scripted = Scripted(read_node=read_node)
                    ((kind, text),) = self.reap(scripted, dry_run=dry_run)
                    self.assertEqual("claim", kind)
                    self.assertEqual(done, text)
                    self.assertEqual("COMPOSING" if dry_run else state, self.state())
                    if dry_run or calls is not None:
                        expected = ["read_node", *([] if dry_run else calls)]
                        self.assertEqual(expected, scripted.calls)

    def test_a_dry_run_frees_no_claim_whose_time_is_over(self):
        for dry_run, state in ((True, "HELD"), (False, "EXPIRED")):
            self.begin()
            self.store.claims.renew(self.claim.id, 1e-6)
            done = self.reap(Scripted(), dry_run=dry_run)
            self.assertEqual([("claim", "expired: freed what it held")], done)
            self.assertEqual(state, self.state())

    def test_a_node_that_is_gone_is_forgotten_but_not_in_a_dry_run(self):
        gone = "forgotten, and its claim released: it is not there any more"
        for read_node, done, stays in (
            (ABSENT, gone, False),
            (COMPOSED, "left as it is: the reading does not show it, it is there", True),
            (UNKNOWN, f"left as it is: the reading does not show it, {UNKNOWN.reason}", True),
            (DOWN, "left as it is: the reading does not show it, connection refused", True),
        ):
            for dry_run in (True, False):
                with self.subTest(read_node=read_node, dry_run=dry_run):
                    self.begin()
                    self.store.claims.start_composing(self.claim.id)
                    node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id,
                                        blocks=("c0",))  # fmt: skip
                    self.store.claims.finish_composing(self.claim.id, [node])
                    scripted = Scripted(read_node=read_node)
                    self.assertEqual([("node", done)], self.reap(scripted, podm(), dry_run=dry_run))
                    self.assertEqual(stays or dry_run, bool(self.store.nodes.list()))
                    self.assertEqual(["read_node"], scripted.calls)

    def test_a_node_of_a_claim_that_was_given_up_is_taken_apart_but_not_in_a_dry_run(self):
        for remove, dry_run, done, calls in (
            (ABSENT, False, "taken apart: its claim {} is FAILED", ["remove"]),
            (ABSENT, True, "taken apart: its claim {} is FAILED", []),
            (PART, False, "left as it is: c0 is idle", ["remove"]),
            (DOWN, False, "left as it is: connection refused", ["remove"]),
        ):
            with self.subTest(remove=remove, dry_run=dry_run):
                self.begin()
                self.store.claims.start_composing(self.claim.id)
                self.store.claims.fail(self.claim.id, "the reply was lost")
                shown = {"uri": URI, "name": f"vs-{self.claim.id}", "blocks": ["c0"]}
                scripted = Scripted(remove=remove)
                found = self.reap(scripted, podm(nodes=[shown]), dry_run=dry_run)
                self.assertEqual([("node", done.format(self.claim.id))], found)
                self.assertEqual(calls, scripted.calls)

    def test_a_reading_is_stored_but_not_in_a_dry_run(self):
        for dry_run in (True, False):
            self.begin()
            self.assertEqual([], self.reap(Scripted(), podm(zone="moved"), dry_run=dry_run))
            zone = self.store.load_podms()["p"].zone
            self.assertEqual(None if dry_run else "moved", zone)
