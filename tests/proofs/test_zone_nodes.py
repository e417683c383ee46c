# SPDX-License-Identifier: Apache-2.0
"""Nodes over a tree of zones: composed in parallel, named by path, and never twice."""

import asyncio
import unittest
from unittest import mock

from msgspec.structs import replace

from tests.proofs.test_zone_claims import TreeCase
from tests.unit.lifecycle.site import request
from tests.unit.zones.in_process import InProcessZone, made_nodes, served_tree
from valence_sched.errors import ClaimState, InUse, ServiceError, StaleOffer, Unverified
from valence_sched.model.claim import Claim
from valence_sched.zones.below import MOST_ROWS


class NodeCase(TreeCase):
    """A test case with a tree; its pod managers show the existing nodes."""

    def made(self):
        return made_nodes(self.served)

    def states(self):
        return [one.state for one in self.top.claims(ended=True)]


class TestComposed(NodeCase):
    """Claims that are composed in every zone."""

    def test_a_claim_is_composed_in_all_its_zones(self):
        """S42: a grandchild is reached through its parent."""
        claim = self.top.claim(self.apart()).claim
        result = self.top.compose_claim(claim.id, wait_s=10)
        self.assertEqual(((), ()), (result.failures, result.unverified))
        podms = ["east/e1/e1-p", "east/east-p", "top-p", "west/west-p"]
        self.assertEqual(podms, sorted(node.podm for node in result.nodes))
        self.assertEqual(4, len(self.made()))
        self.assertIn("compose_claim", self.e1.calls)
        self.assertNotIn("compose_claim", self.top.calls[1:])
        self.assertEqual("COMPOSED", self.top.claim_record(claim.id).claim.state)
        listed = self.top.nodes(owner="alice")
        self.assertEqual(sorted(one.id for one in result.nodes), sorted(
            one.node.id for one in listed))  # fmt: skip
        (below,) = [one.node for one in listed if one.node.podm == "east/e1/e1-p"]
        self.assertTrue(below.id.startswith("east/e1/"), below.id)
        record = self.top.node_record(below.id)
        self.assertEqual(("COMPOSED", below), (record.state, record.node))
        with self.assertRaisesRegex(ClaimState, "is COMPOSED: only a held claim can be composed"):
            self.top.compose_claim(claim.id)
        errors = list(self.top.release([claim.id]))
        self.assertTrue(errors)
        for error in errors:
            self.assertIsInstance(error, InUse)

    def test_a_claim_on_a_pod_manager_disabled_since_is_named_and_stays_held(self):
        claim = self.top.claim(self.apart(), key="k").claim
        (registered,) = self.west.store.registrations()
        self.west.store.change(replace(registered, enabled=False))
        line = f"claim {claim.id}: pod manager 'west-p' of zone west is disabled: enable it"
        for compose in (
            lambda: self.top.compose_claim(claim.id, wait_s=10),
            lambda: self.top.compose(self.apart(), key="k", wait_s=10),
        ):
            with self.assertRaisesRegex(ClaimState, line):
                compose()
        self.assertEqual((["HELD"], []), (self.states(), self.made()))
        self.west.store.change(registered)
        self.assertEqual(4, len(self.top.compose_claim(claim.id, wait_s=10).nodes))

    def test_nodes_are_deleted_by_their_path_and_the_claim_ends_with_the_last(self):
        result = self.top.compose(self.apart(), wait_s=10)
        ids = [node.id for node in result.nodes]
        self.assertEqual([], list(self.top.delete_nodes(ids[:3])))
        self.assertEqual(["COMPOSED"], self.states())
        self.assertEqual([], list(self.top.delete_nodes(ids[3:])))
        self.assertEqual([], self.made())
        self.assertEqual({}, self.held())
        self.assertEqual([], list(self.top.claims()))

    def test_a_key_composes_once(self):
        first = self.top.compose(self.apart(), key="k", wait_s=10)
        again = self.top.compose(self.apart(), key="k", wait_s=10)
        self.assertEqual(
            sorted(one.id for one in first.nodes), sorted(one.id for one in again.nodes)
        )
        self.assertEqual(4, len(self.made()))

    def test_a_node_is_named_as_an_effect(self):
        result = self.top.compose(self.apart(), wait_s=10)
        lines = "\n".join(self.top.effects.unnamed_lines())
        for node in result.nodes:
            self.assertIn(f"node {node.id} is composed on {node.podm}: {node.uri}", lines)


class TestRefused(NodeCase):
    """The pod manager of one zone refuses to compose."""

    faults = ("status:400:POST:/redfish/v1/Systems@west-p",)

    def test_what_was_composed_elsewhere_is_taken_apart_and_named(self):
        result = self.top.compose(self.apart(), wait_s=10)
        self.assertEqual((), result.nodes)
        self.assertTrue(any(one.startswith("zone west: west-p: ") for one in result.failures))
        gone = [one for one in result.failures if "decomposed: too few" in one]
        self.assertEqual(3, len(gone), result.failures)
        self.assertEqual([], self.made())
        self.assertEqual({}, self.held())

    def test_what_may_be_fewer_stays(self):
        result = self.top.compose(self.apart(min_count=3), wait_s=10)
        self.assertEqual(3, len(result.nodes))
        self.assertEqual(3, len(self.made()))
        self.assertEqual(["COMPOSED"], self.states())

    def test_another_zone_composes_what_one_refuses(self):
        notes = []
        for seed in range(8):
            words = {"owner": "alice", "exclude_podms": ["top-p", "e1-p"], "seed": seed}
            result = self.top.compose(request(**words), wait_s=10)
            self.assertEqual(["east/east-p"], [node.podm for node in result.nodes])
            notes += result.notes
            self.assertEqual([], list(self.top.delete_nodes([result.nodes[0].id])))
        self.assertTrue(all(one.startswith("zone west: west-p") for one in notes), notes)
        self.assertTrue(any(one.endswith("tried without zone west") for one in notes), notes)
        self.assertEqual([], self.made())

    def test_a_refusal_stands_where_no_other_zone_may_compose(self):
        """For a path, a name or free amounts, the error is never an unknown pod manager."""
        for words in (
            {"podms": ["west/west-p"]},
            {"podms": ["west-p"]},
            {"podms": ["west/west-p", "west-p"]},
            {"exclude_podms": ["top-p", "east/east-p", "e1-p"]},
        ):
            result, selected = self.top.nodes_here.compose(
                request(owner="alice", **words), self.top.select, wait_s=10
            )
            (line,) = result.failures
            self.assertTrue(line.startswith("zone west: west-p: HTTP 400: "), line)
            self.assertEqual((), result.notes)
            self.assertEqual(["west"], [one.chosen.zone for one in selected.nodes])
        self.assertEqual({}, self.held())

    def test_a_refusal_stands_where_the_others_cannot_be_claimed(self):
        select = self.top.select

        def select_once(asked, avoid):
            if avoid:
                raise StaleOffer("ask again")
            return select(asked)

        only = request(owner="alice", podms=["west/west-p"])
        result, _ = self.top.nodes_here.compose(only, select_once, wait_s=10)
        self.assertTrue(result.failures[0].startswith("zone west: west-p: "))


class TestSilent(NodeCase):
    """A zone dies while it composes."""

    def test_what_may_be_there_is_named_and_found_later_and_never_made_twice(self):
        self.breaks(self.west, "compose_claim", ServiceError("does not answer"), after=True)
        result = self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        self.assertEqual(3, len(result.nodes))
        (unverified,) = result.unverified
        self.assertIn("zone west: does not answer: its nodes may exist",
                      unverified.message)  # fmt: skip
        self.assertEqual(4, len(self.made()))
        with self.assertRaisesRegex(ClaimState, "which is COMPOSING: wait for it, or run"):
            self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        (action,) = self.top.nodes_here.reap(dry_run=True)
        self.assertEqual("would be composed: found 4 of its nodes", action.done)
        self.assertEqual(["COMPOSING"], self.states())
        (action,) = self.top.nodes_here.reap()
        self.assertEqual("composed: found 4 of its nodes", action.done)
        again = self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        self.assertEqual(4, len(again.nodes))
        self.assertEqual(4, len(self.made()))

    def test_nothing_was_begun(self):
        self.breaks(self.west, "compose_claim", ServiceError("does not answer"))
        result = self.top.compose(self.apart(), wait_s=10)
        self.assertEqual((), result.nodes)
        self.assertEqual([], self.made())
        self.assertEqual({"west"}, self.held().keys())
        nodes = self.top.nodes_here
        (action,) = nodes.reap(dry_run=True)
        self.assertEqual("would be ended in these zones", action.done)
        self.assertEqual({"west"}, self.held().keys())
        claims_of = self.west.claims

        def composing(**words):
            return [replace(claim, state="COMPOSING") for claim in claims_of(**words)]

        with mock.patch.dict(self.west.__dict__, {"claims": composing}):
            (planned,), (action,) = nodes.reap(dry_run=True), nodes.reap()
        self.assertRegex(action.done, "^unchanged: west is still composing claim ")
        self.assertEqual(f"would stay {action.done}", planned.done)
        self.assertEqual({"west"}, self.held().keys())
        (action,) = nodes.reap()
        self.assertEqual("freed its holds: no node was composed", action.done)
        self.assertEqual({}, self.held())

    def test_a_key_says_what_is_missing_where_the_parent_died_between_two_shares(self):
        self.breaks(self.west, "compose_claim", KeyboardInterrupt())
        with self.assertRaises(KeyboardInterrupt):
            self.top.compose(self.apart(), key="k", wait_s=10)
        self.pass_time_of_rows(self.top)
        (action,) = self.top.nodes_here.reap()
        self.assertEqual("composed: found 3 of its 4 nodes", action.done)
        again = self.top.compose(self.apart(), key="k", wait_s=10)
        self.assertEqual(3, len(again.nodes))
        (claim,) = self.top.claims()
        line = f"zone west: has 0 of 1 node of claim {claim.id}"
        self.assertEqual(((line,), "found 3 of its 4 nodes"), (again.failures, claim.note))

    def test_the_parent_dies(self):
        """The intent is stored before the zones compose: their nodes are found by its key."""
        claim = self.top.claim(self.apart()).claim
        self.breaks(self.east, "compose_claim", KeyboardInterrupt(), after=True)
        with self.assertRaises(KeyboardInterrupt):
            self.top.compose_claim(claim.id, wait_s=10)
        nodes = self.top.nodes_here
        part = Claim(id="part", state="COMPOSING", key=f"{claim.id}#1")
        alone = Claim(id="alone", state="COMPOSING", created_at=2e9, expires_at=3e9)
        found = nodes.composing([alone, part], ())
        self.assertEqual([claim.id, "alone"], [one.id for one in found])
        self.assertEqual((alone,), nodes.composing([alone, part], {claim.id}))
        self.pass_time_of_rows(self.top)
        (action,) = self.top.nodes_here.reap()
        self.assertEqual("composed: found 4 of its nodes", action.done)
        self.assertEqual(4, len(self.top.nodes()))


class TestTakenOut(NodeCase):
    """A zone that is no longer a child while it holds a part of a claim."""

    def take_out(self, zone):
        del self.top.claims_here.below.children[zone]

    def test_its_claim_stays_held_and_is_composed_once_it_is_back(self):
        for out in (lambda: self.take_out("west"), lambda: setattr(self.west, "dead", True)):
            claim = self.top.claim(self.apart(), key="k").claim
            out()
            for compose in (
                lambda: self.top.compose_claim(claim.id, wait_s=10),  # noqa: B023 - called here
                lambda: self.top.compose(self.apart(), key="k", wait_s=10),
            ):
                stays = f"zone west: .*claim {claim.id} stays held"
                with self.assertRaisesRegex(Unverified, stays):
                    compose()
            self.assertEqual(("HELD", []), (self.states()[-1], self.made()))
            self.west.dead = False
            self.top.claims_here.below.children["west"] = self.west
            nodes = self.top.compose_claim(claim.id, wait_s=10).nodes
            self.assertEqual(4, len(nodes))
            self.assertEqual([], list(self.top.delete_nodes([node.id for node in nodes])))

    def test_a_release_names_every_zone_that_did_not_release(self):
        claim = self.top.claim(self.apart()).claim
        self.take_out("west")
        self.east.dead = True
        errors = sorted(map(str, self.top.release([claim.id])))
        self.assertEqual(
            [
                "zone east: east: does not answer",
                "zone west: it is no longer a child zone: add it again",
            ],
            errors,
        )
        self.assertEqual({"east", "e1", "west"}, self.held().keys())


class TestBounded(NodeCase):
    """A zone whose answer does not match the request."""

    def answer(self, change):
        compose = self.west.nodes_here.compose_claim

        def changed(claim_id, *, wait_s):
            return change(compose(claim_id, wait_s=wait_s))

        self.west.__dict__["compose_claim"] = changed

    def test_more_nodes_than_were_asked_or_fewer_without_a_reason_are_not_believed(self):
        for number in (0, 2, 20_001):
            self.answer(lambda found, n=number: replace(found, nodes=found.nodes[:1] * n))
            result = self.top.compose(self.apart(min_count=3), wait_s=10)
            text = f"zone west: it answers with {number:,} nodes, expected 1: its nodes"
            self.assertEqual(3, len(result.nodes))
            self.assertEqual([True], [one.message.startswith(text) for one in result.unverified])
            (action,) = self.top.nodes_here.reap()
            self.assertEqual("composed: found 4 of its nodes", action.done)
            nodes = [one.node.id for one in self.top.nodes()]
            self.assertEqual([], list(self.top.delete_nodes(nodes)))

    def test_a_claim_has_no_more_nodes_than_it_holds(self):
        claim = self.top.claim(self.apart()).claim
        claims_of = self.west.claims_here.claims
        many = [replace(one, id=f"c{number}") for number in range(3) for one in claims_of()]
        with mock.patch.dict(self.west.__dict__, {"claims": lambda **_words: many}):
            record = self.top.claim_record(claim.id).claim
        self.assertEqual(("zone west: it answers with 3 nodes, expected 1", 3),
                         (record.note, record.nodes))  # fmt: skip

    def test_a_list_has_no_more_rows_of_a_zone_than_are_read(self):
        self.top.compose(self.apart(), wait_s=10)
        (claim,), (node,) = self.west.claims_here.claims(), self.west.nodes_here.nodes()
        for verb, row in (("claims", claim), ("nodes", node)):
            many = [row] * (MOST_ROWS + 1)
            with mock.patch.dict(self.west.__dict__, {verb: lambda *, many=many, **_: many}):
                found = getattr(self.top, verb)()
                self.top.nodes_here.settle()
            self.assertEqual([("west", "it lists 10,001 rows, of which 10,000 are read")],
                             [(one.zone, one.reason) for one in found.silent])  # fmt: skip
            self.assertLess(len(found), MOST_ROWS + 10)
        self.assertEqual(["COMPOSED"], self.states())


class Meeting:
    """Replaces a delay: requests wait for each other, at most for ``TOGETHER_S``."""

    DELAY_S, TOGETHER_S = 1.0, 20.0

    def __init__(self, wanted):
        self.wanted, self.came, self.met = wanted, 0, None
        self.all_there, self.sleep = asyncio.Event(), asyncio.sleep

    async def wait(self, delay_s):
        if delay_s != self.DELAY_S:
            await self.sleep(delay_s)
            return
        self.came += 1
        if self.came == self.wanted:
            self.all_there.set()
        try:
            await asyncio.wait_for(self.all_there.wait(), self.TOGETHER_S)
        except TimeoutError:
            self.met = False
            self.all_there.set()
        self.met = self.met is not False


class TestSlowPodms(unittest.TestCase):
    """Ten pod managers in five zones, which answer only after all of them compose."""

    NODES, ZONES = 20, 5

    def test_the_nodes_of_all_zones_are_composed_side_by_side(self):
        """S42: in sequence, it would take the sum of all delays."""
        names = [f"z{zone}-{podm}" for zone in range(self.ZONES) for podm in range(2)]
        meeting = Meeting(len(names))
        self.enterContext(mock.patch("asyncio.sleep", meeting.wait))
        delay = f"delay:{meeting.DELAY_S * 1000:.0f}:POST:/redfish/v1/Systems"
        folder, served = self.enterContext(served_tree(*names, fail=(delay,)))
        children = [
            InProcessZone(f"z{number}", folder, [served[f"z{number}-{one}"] for one in range(2)])
            for number in range(self.ZONES)
        ]
        top = InProcessZone("top", folder, (), children, deadline_s=60.0)
        for zone in (top, *children):
            self.addCleanup(zone.store.close)
        claim = top.claim(request(count=self.NODES)).claim
        result = top.compose_claim(claim.id, wait_s=60)
        self.assertEqual((self.NODES, ()), (len(result.nodes), result.failures))
        self.assertTrue(meeting.met)
