# SPDX-License-Identifier: Apache-2.0
"""Nodes over a tree of zones: composed side by side, named by their paths, never twice."""

import asyncio
import unittest
from unittest import mock

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.lifecycle.site import request
from tests.unit.store.engines import raw_engine
from tests.unit.zones.in_process import InProcessZone, made_nodes, served_tree
from tests.unit.zones.test_claims import TreeCase
from valence_sched.errors import ClaimState, InUse, ServiceError
from valence_sched.model.claim import Claim
from valence_sched.store import tables


class NodeCase(TreeCase):
    """A tree of which the pod managers tell what there really is."""

    def made(self):
        return made_nodes(self.served)

    def states(self):
        return [one.state for one in self.top.claims(ended=True)]


class TestComposed(NodeCase):
    """What composes in every zone."""

    def test_a_claim_is_composed_in_all_its_zones(self):
        """S42: a grandchild is reached through the child."""
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
        with self.assertRaisesRegex(ClaimState, "is COMPOSED: only one that is held is composed"):
            self.top.compose_claim(claim.id)
        (error,) = self.top.release([claim.id])
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
    """The pod manager of one zone composes nothing."""

    faults = ("status:400:POST:/redfish/v1/Systems@west-p",)

    def test_what_was_composed_elsewhere_is_taken_apart_and_named(self):
        result = self.top.compose(self.apart(), wait_s=10)
        self.assertEqual((), result.nodes)
        self.assertTrue(any(one.startswith("zone west: west-p: ") for one in result.failures))
        gone = [one for one in result.failures if "taken apart again: too few" in one]
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


class TestSilent(NodeCase):
    """A zone dies while it composes."""

    def test_what_may_be_there_is_named_and_found_later_and_never_made_twice(self):
        compose = self.west.nodes_here.compose_claim

        def compose_and_die(claim_id, *, wait_s):
            compose(claim_id, wait_s=wait_s)
            raise ServiceError("nobody answers there")

        self.west.__dict__["compose_claim"] = compose_and_die
        result = self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        self.assertEqual(3, len(result.nodes))
        (unverified,) = result.unverified
        self.assertIn("zone west: nobody answers there: what it was to compose may be there",
                      unverified.message)  # fmt: skip
        self.assertEqual(4, len(self.made()))
        with self.assertRaisesRegex(ClaimState, "which is COMPOSING: wait for it, or run"):
            self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        (action,) = self.top.nodes_here.recovery.reap(dry_run=True)
        self.assertEqual("would be composed: found 4 of its nodes", action.done)
        self.assertEqual(["COMPOSING"], self.states())
        (action,) = self.top.nodes_here.recovery.reap()
        self.assertEqual("composed: found 4 of its nodes", action.done)
        again = self.top.compose(self.apart(min_count=3), key="k", wait_s=10)
        self.assertEqual(4, len(again.nodes))
        self.assertEqual(4, len(self.made()))

    def test_nothing_was_begun(self):
        def die(_claim_id, *, wait_s):
            raise ServiceError("nobody answers there")

        self.west.__dict__["compose_claim"] = die
        result = self.top.compose(self.apart(), wait_s=10)
        self.assertEqual((), result.nodes)
        self.assertEqual([], self.made())
        self.assertEqual({"west"}, self.held().keys())
        recovery = self.top.nodes_here.recovery
        (action,) = recovery.reap(dry_run=True)
        self.assertEqual("would be ended in these zones", action.done)
        self.assertEqual({"west"}, self.held().keys())
        claims_of = self.west.claims

        def composing(**words):
            return [replace(claim, state="COMPOSING") for claim in claims_of(**words)]

        with mock.patch.dict(self.west.__dict__, {"claims": composing}):
            (planned,), (action,) = recovery.reap(dry_run=True), recovery.reap()
        self.assertRegex(action.done, "^left as it is: west goes on with claim ")
        self.assertEqual(f"would be {action.done}", planned.done)
        self.assertEqual({"west"}, self.held().keys())
        (action,) = recovery.reap()
        self.assertEqual("freed what it held: nothing was composed", action.done)
        self.assertEqual({}, self.held())

    def test_the_parent_dies(self):
        """The intent is stored before the zones compose: what they made is found by its key."""
        claim = self.top.claim(self.apart()).claim
        compose = self.east.nodes_here.compose_claim

        def compose_and_interrupt(claim_id, *, wait_s):
            compose(claim_id, wait_s=wait_s)
            raise KeyboardInterrupt

        self.east.__dict__["compose_claim"] = compose_and_interrupt
        with self.assertRaises(KeyboardInterrupt):
            self.top.compose_claim(claim.id, wait_s=10)
        recovery = self.top.nodes_here.recovery
        part = Claim(id="part", state="COMPOSING", key=f"{claim.id}#1")
        alone = Claim(id="alone", state="COMPOSING", created_at=2e9, expires_at=3e9)
        found = recovery.composing([alone, part], ())
        self.assertEqual([claim.id, "alone"], [one.id for one in found])
        self.assertEqual((alone,), recovery.composing([alone, part], {claim.id}))
        engine = raw_engine(self.top.state)
        with engine.begin() as connection:
            connection.execute(sa.update(tables.zone_claims).values(expires_at=1.0))
        engine.dispose()
        (action,) = self.top.nodes_here.recovery.reap()
        self.assertEqual("composed: found 4 of its nodes", action.done)
        self.assertEqual(4, len(self.top.nodes()))


class Meeting:
    """Takes the place of a delay: requests wait for each other, at most for ``TOGETHER_S``."""

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
    """Ten pod managers in five zones, none of which answers before all compose a node."""

    NODES, ZONES = 20, 5

    def test_the_nodes_of_all_zones_are_composed_side_by_side(self):
        """S42: one after another they would take as long as all the delays together."""
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
