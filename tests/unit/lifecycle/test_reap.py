# SPDX-License-Identifier: Apache-2.0
"""Reaping: abandoned nodes and claims, and the answers of pod managers."""

import contextlib
import time

from msgspec.structs import replace

from tests.unit.lifecycle.scripted import (
    ABSENT,
    AMOUNT,
    BUSY,
    COMPOSED,
    DOWN,
    PART,
    TICK_S,
    UNKNOWN,
    URI,
    USED,
    Noting,
    ReapCase,
    Scripted,
    ScriptedCase,
)
from tests.unit.store.site import expire, part, podm
from tests.unit.store.test_claims import usage
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import (
    ClaimPart,
    ComposedNode,
    CompositionRequest,
    CompositionResult,
    Grant,
    NodeAllocation,
)
from valence_sched.model.lifecycle import Action


class TestReaping(ScriptedCase):
    """The result for a claim of a dead process; a dry run only reads."""

    def reap(self, scripted, reading=None, *, dry_run=False):
        reconciler = Reconciler(
            self.store, lambda _id: contextlib.nullcontext(scripted), lambda _id: reading, dry_run
        )
        time.sleep(TICK_S)
        actions = reconciler.reconcile()
        return [(one.kind, one.done) for one in actions if one.kind != "podm"]

    def test_each_answer_about_a_claim_that_was_being_composed(self):
        nothing = "freed its holds: no node was composed"
        for read_node, done, state, calls in (
            (COMPOSED, "composed: found /S/1", "COMPOSED", ["unreserve"]),
            (ABSENT, nothing, "FAILED", ["unreserve"]),
            (PART, nothing, "FAILED", ["remove", "unreserve"]),
            (USED, f"{nothing}, but check c0 is in use", "FAILED", ["unreserve"]),
            (BUSY, "unchanged: p is still composing: the task runs", "COMPOSING", []),
            (CompositionResult(state="composed", node=URI, blocks=("c0",), works=True),
             "unchanged: p is still composing:", "COMPOSING", []),
            (UNKNOWN, "unchanged: the owner is unknown", "COMPOSING", None),
            (DOWN, "unchanged: p: connection refused", "COMPOSING", []),
        ):  # fmt: skip
            for dry_run in (True, False):
                with self.subTest(read_node=read_node, dry_run=dry_run):
                    self.begin()
                    self.store.claims.start_composing(self.claim.id, 0.0)
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
            self.store.claims.renew(self.claim.id, 0.0)
            done = self.reap(Scripted(), dry_run=dry_run)
            self.assertEqual([("claim", "expired: freed its holds")], done)
            self.assertEqual(state, self.state())

    def test_a_node_that_is_gone_is_forgotten_but_not_in_a_dry_run(self):
        gone = "record deleted, and its claim released: the node no longer exists"
        for read_node, done, stays in (
            (ABSENT, gone, False),
            (COMPOSED, "unchanged: missing in the reading, but it exists", True),
            (UNKNOWN, f"unchanged: missing in the reading, {UNKNOWN.reason}", True),
            (DOWN, "unchanged: p: connection refused", True),
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
            (ABSENT, False, "decomposed: its claim {} is FAILED", ["remove"]),
            (ABSENT, True, "decomposed: its claim {} is FAILED", []),
            (PART, False, "unchanged: c0 is idle", ["remove"]),
            (DOWN, False, "unchanged: p: connection refused", ["remove"]),
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


class TestNodes(ReapCase):
    """Nodes that are gone, and nodes that appeared after their claim had ended."""

    def composed(self, **words):
        self.store.claims.start_composing(self.claim.id)
        node = ComposedNode(id="n", podm="p", uri=URI, claim=self.claim.id, name="vs-n",
                            pool="all", blocks=("c0",), **words)  # fmt: skip
        self.store.claims.finish_composing(self.claim.id, [node])
        return CompositionRequest(name="vs-n", pool="all", blocks=("c0",), **words)

    def given_up(self, name=None):
        """Abandon the claim; the pod manager shows its node anyway."""
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
        self.assertEqual("record deleted, and its claim released: the node no longer exists",
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
                    self.assertEqual("unchanged: missing in the reading, a chunk", line)
                    self.assertEqual(("remove", wanted, URI), composer.arguments[-1])
                else:
                    self.assertRegex(line, "^record deleted")
                self.assertEqual(calls, composer.calls)
                self.assertEqual(stays, bool(self.store.nodes.list()))

    def test_one_that_is_shown_is_left_alone(self):
        self.composed()
        self.readings["p"] = podm(nodes=[{"uri": URI, "name": "vs-n", "blocks": ["c0"]}])
        composer = Noting()
        self.assertEqual(([], []), (self.reap(composer), composer.calls))

    def test_one_of_a_pod_manager_that_does_not_answer_is_left_alone(self):
        self.composed()
        (action,) = self.reap(Noting())
        self.assertEqual(("podm", "p"), (action.kind, action.id))
        self.assertEqual(
            "unchanged: not read, so its nodes are not compared (podm check p)", action.done
        )
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
        self.assertRegex(self.line(Noting()), "^record deleted")

    def test_after_a_change_the_pod_manager_is_read_again_if_it_answers(self):
        for again, zone in ((podm(zone="after"), "after"), (None, "before")):
            self.begin()
            self.composed()
            readings = iter([podm(zone="before"), again])
            reconciler = Reconciler(
                self.store,
                lambda _id: contextlib.nullcontext(Noting()),
                lambda _id, readings=readings: next(readings),
            )
            self.assertEqual(1, len(list(reconciler.reconcile())))
            self.assertEqual(zone, self.store.load_podms()["p"].zone)

    def test_one_that_came_late_is_taken_apart_with_what_it_shows_and_what_was_granted(self):
        grants = {"m": 4.0}
        self.store.remember(podm(stocks=[{"uri": "m", "resource": "memory", "total": 10}]))
        self.store.claims.release(self.claim.id)
        self.claim = self.store.claims.create([part("p", 2, "c0", **grants)])
        self.given_up()
        composer = Noting()
        self.assertEqual(f"decomposed: its claim {self.claim.id} is FAILED",
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
        self.assertRegex(self.line(composer, URI), "^decomposed")
        self.assertEqual((Grant("m", 2.0),), composer.arguments[0][1].grants)

    def test_one_without_a_known_claim_is_another_systems(self):
        self.given_up("vs-0123")
        composer = Noting()
        self.assertEqual("unchanged: it belongs to no known claim (podm node list --live)",
                         self.line(composer, URI))  # fmt: skip
        self.assertEqual([], composer.calls)

    def test_one_whose_claim_goes_on_is_left_to_it(self):
        self.store.claims.start_composing(self.claim.id)
        shown = {"uri": URI, "name": f"vs-{self.claim.id}", "blocks": ["c0"]}
        self.readings["p"] = podm(nodes=[shown, {"uri": "/S/2", "name": "theirs"}])
        composer = Noting()
        self.assertEqual(([], []), (self.reap(composer), composer.calls))

    def test_a_dry_run_says_what_it_would_do_and_asks_for_no_change(self):
        self.dry_run = True
        self.given_up()
        composer = Noting()
        self.assertEqual(f"decomposed: its claim {self.claim.id} is FAILED",
                         self.line(composer, URI))  # fmt: skip
        self.assertEqual(([], ["p"]), (composer.calls, self.read))

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


class TestClaims(ReapCase):
    """The results for claims of a dead process."""

    def test_a_pod_manager_is_asked_for_the_node_with_all_that_is_known_of_it(self):
        self.store.remember(podm())
        self.start()
        self.store.claims.note_reserving(self.claim.id)
        composer = Noting(read_node=PART)
        self.claim_line(composer)
        wanted = self.wanted()
        self.assertTrue(wanted.devices.processors)
        self.assertTrue(wanted.substitutes["c0"])
        expected = [("read_node", wanted, None), ("remove", wanted, URI),
                    ("unreserve", wanted, None)]  # fmt: skip
        self.assertEqual(expected, composer.arguments)
        self.assertEqual([(wanted, URI), (wanted, None)], composer.checks)
        self.assertEqual([(f"claim {self.claim.id} on p", "reconciling")], self.told)

    def test_the_hardware_of_a_composed_node_is_checked_before_its_reservation_ends(self):
        self.start()
        self.store.claims.note_reserving(self.claim.id)
        composer, wanted = Noting(read_node=COMPOSED), self.wanted()
        self.assertEqual("composed: found /S/1", self.claim_line(composer))
        self.assertEqual((["read_node", "unreserve"], [(wanted, URI)]),
                         (composer.calls, composer.checks))  # fmt: skip

    def test_an_amount_without_a_node_is_taken_back_too(self):
        self.start()
        amount_left = CompositionResult(state="left", amounts=(AMOUNT,), reason="a chunk")
        composer = Noting(read_node=amount_left, remove=amount_left)
        self.assertEqual("unchanged: a chunk", self.claim_line(composer))
        self.assertEqual(("remove", self.wanted(), ""), composer.arguments[-1])
        self.assertEqual("COMPOSING", self.state())
        gone = Noting(read_node=amount_left)
        self.assertEqual("freed its holds: no node was composed", self.claim_line(gone))
        self.assertEqual("FAILED", self.state())

    def test_a_node_that_cannot_be_taken_back_stays_with_its_claim(self):
        self.start()
        self.store.claims.note_reserving(self.claim.id)
        composer = Noting(read_node=PART, remove=PART)
        self.assertEqual("unchanged: c0 is idle", self.claim_line(composer))
        self.assertEqual(["read_node", "remove"], composer.calls)
        self.assertEqual("COMPOSING", self.state())

    def test_what_is_not_known_stays_too(self):
        self.start()
        for answer in (UNKNOWN, replace(UNKNOWN, node=URI), replace(UNKNOWN, amounts=(AMOUNT,))):
            self.assertEqual(f"unchanged: {UNKNOWN.reason}",
                             self.claim_line(Noting(read_node=answer)))  # fmt: skip
        self.assertEqual("COMPOSING", self.state())

    def test_a_reservation_is_given_back_only_where_the_claim_made_it(self):
        for began, calls in ((False, ["read_node"]), (True, ["read_node", "unreserve"])):
            for answer in (COMPOSED, ABSENT, UNKNOWN):
                with self.subTest(began=began, answer=answer):
                    self.begin()
                    self.start()
                    if began:
                        self.store.claims.note_reserving(self.claim.id)
                    composer = Noting(read_node=answer)
                    self.claim_line(composer)
                    self.assertEqual(calls, composer.calls)

    def test_the_reservation_of_another_claim_is_not_its_own(self):
        other = self.store.claims.create([part("p", 1, "c1")])
        self.store.claims.start_composing(other.id)
        self.store.claims.note_reserving(other.id)
        self.start()
        composer = Noting()
        self.claim_line(composer)
        self.assertEqual(["read_node"], composer.calls)

    def test_each_node_of_a_claim_is_looked_for(self):
        shares = tuple(NodeAllocation(node=n, pool="all", blocks=(f"c{n}",)) for n in (1, 2))
        self.start(ClaimPart(podm="p", generation=1, shares=shares))
        names = [f"vs-{self.claim.id}-{number}" for number in (1, 2)]
        found = {name: CompositionResult(state="composed", node=f"/S/{n}", blocks=(f"c{n}",))
                 for n, name in enumerate(names, 1)}  # fmt: skip
        composer = Noting(by_name=found)
        self.assertEqual("composed: found /S/1, /S/2", self.claim_line(composer))
        nodes = [(node.id, node.podm, node.uri, node.blocks) for node in self.store.nodes.list()]
        expected = [(name, "p", f"/S/{n}", (f"c{n}",)) for n, name in enumerate(names, 1)]
        self.assertEqual(expected, nodes)

    def test_all_that_remains_is_named_and_noted(self):
        shares = tuple(NodeAllocation(node=n, pool="all", blocks=(f"c{n}",)) for n in (1, 2))
        self.start(ClaimPart(podm="p", generation=1, shares=shares))
        used = {f"vs-{self.claim.id}-{n}": replace(USED, reason=f"c{n} is in use") for n in (1, 2)}
        note = "no node was composed, but check c1 is in use; c2 is in use"
        self.assertEqual(f"freed its holds: {note}", self.claim_line(Noting(by_name=used)))
        claim = self.store.claims.show(self.claim.id)
        self.assertEqual(("FAILED", note), (claim.state, claim.note))

    def test_long_reasons_are_cut(self):
        long = "x" * 300
        for answer, start, length in (
            (type(DOWN)(long), "unchanged: p: x", 200),
            (replace(PART, reason=long, works=True), "unchanged: p is still composing: x", 200),
            (replace(UNKNOWN, reason=long), "unchanged: x", 200),
            (replace(USED, reason=long), "freed its holds: no node was composed, but check x",
             200 + len("freed its holds: ")),
        ):  # fmt: skip
            with self.subTest(start):
                self.begin()
                self.start()
                line = self.claim_line(Noting(read_node=answer))
                self.assertEqual((start, length, "…"), (line[: len(start)], len(line), line[-1]))

    def test_claims_of_several_pod_managers_name_them(self):
        self.store.remember(podm("q"))
        claim = self.store.claims.create([part("p", 1, "c1"), part("q", 1, "c0")])
        self.store.claims.renew(claim.id, 0.0)
        done = "expired: freed its holds"
        expected = [Action(kind="claim", id=claim.id, podm="p, q", done=done)]
        self.assertEqual(expected, self.reap(Noting()))


class TestLost(ReapCase):
    """A node with a block that another claim holds: it must be removed."""

    def setUp(self):
        super().setUp()
        self.start()
        self.other = self.store.claims.create([part("p", 1, "c1")])
        self.found = CompositionResult(state="composed", node=URI, blocks=("c1",))
        self.lost = f"block c1 of pod manager 'p' is held by claim {self.other.id}"

    def test_it_is_taken_apart_and_its_claim_given_up(self):
        composer = Noting(read_node=self.found)
        self.assertEqual(f"decomposed, and freed its holds: {self.lost}",
                         self.claim_line(composer))  # fmt: skip
        claim = self.store.claims.show(self.claim.id)
        self.assertEqual(("FAILED", self.lost), (claim.state, claim.note))
        verb, request, uri = composer.arguments[-1]
        self.assertEqual(("remove", f"vs-{self.claim.id}", ("c1",), URI),
                         (verb, request.name, request.blocks, uri))  # fmt: skip
        self.assertEqual({"c1": 1}, usage(self.store).blocks)

    def test_what_stays_of_it_is_said_and_the_claim_stays_too(self):
        composer = Noting(read_node=self.found, remove=PART)
        self.assertEqual(f"unchanged: {self.lost}; c0 is idle", self.claim_line(composer))
        composer = Noting(read_node=self.found, remove=DOWN)
        self.assertEqual("unchanged: p: connection refused",
                         self.claim_line(composer))  # fmt: skip
        self.assertEqual("COMPOSING", self.state())

    def test_long_reasons_are_cut(self):
        for remove in (replace(PART, reason="x" * 300), type(DOWN)("x" * 300)):
            line = self.claim_line(Noting(read_node=self.found, remove=remove))
            self.assertEqual((200, "x…"), (len(line), line[-2:]))

    def test_a_long_name_of_the_lost_block_is_cut_in_line_and_note(self):
        long = "x" * 300
        self.store.remember(podm(blocks=[{"uri": "c0"}, {"uri": long}]))
        self.store.claims.create([part("p", 2, long)])
        found = replace(self.found, blocks=(long,))
        line = self.claim_line(Noting(read_node=found))
        note = self.store.claims.show(self.claim.id).note
        self.assertEqual([(200, "x…")] * 2, [(len(text), text[-2:]) for text in (line, note)])

    def test_a_dry_run_takes_nothing_apart(self):
        self.dry_run = True
        composer = Noting(read_node=self.found)
        self.assertEqual("composed: found /S/1", self.claim_line(composer))
        self.assertEqual(["read_node"], composer.calls)
        self.assertEqual("COMPOSING", self.state())
