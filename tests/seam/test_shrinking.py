# SPDX-License-Identifier: Apache-2.0
"""Composing takes the surplus of shrinkable nodes."""

import contextlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import msgspec

from tests.seam.contract import request
from tests.seam.test_engine import EXAMPLE
from tests.service.serving import wait_for
from valence_sched.app import App
from valence_sched.errors import ClaimLost
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.lifecycle.claim import Claimer
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.node_change import NodeChange, uris
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration, with_marks
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PODM = "gpu-east"
POLICIES = """\
policies:
- {name: greedy, shrink: last, filters: [enabled, alive, capacity, devices], weighers: [room]}
"""
GPU = {"accelerators": [{"kind": "GPU"}]}


class ShrinkingCase:
    """A node of owner a with two GPUs, of which it needs one; a mixin of a test case.

    ``start`` returns the scheduler to compose with, and that of the pod manager.
    """

    key: str | None = "k"

    def setUp(self):
        stack = self.enterContext(contextlib.ExitStack())
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.policies = str(self.folder / "policies.yaml")
        Path(self.policies).write_text(POLICIES)
        podm = stack.enter_context(served(EXAMPLE))[PODM]
        self.scheduler, own = self.start(stack, podm)
        wanted = {"processor": {"total_cores": 8}, **GPU}
        (self.node,) = own.compose(request(properties=wanted, owner="a")).nodes
        more = msgspec.convert({"attach": GPU}, NodeChange)
        (self.gpu,) = uris(own.change_node(self.node.id, more).attached)

        def free():
            blocks = own.blocks(BlockFilter(podm=PODM, free=True))
            return [one.uri for one in blocks if one.devices.accelerators]

        marked = with_marks(own.registration(PODM).registration, free(), "x", {})
        own.change_registration(PODM, marked)
        wait_for(lambda: not free())
        own.change_node(self.node.id, NodeChange(shrinkable=True, power_cycle=True))
        held = {*self.node.blocks, self.gpu}

        def composed():
            return all(one.nodes for one in own.blocks(BlockFilter(podm=PODM)) if one.uri in held)

        wait_for(composed)  # or a plan may be made on an older reading
        self.own = own

    def wanted(self, **fields):
        properties = {"processor": {"total_cores": 1}, **GPU}
        return request(properties=properties, policy="greedy", **{"owner": "a", **fields})

    def test_the_surplus_of_a_node_is_composed_and_nothing_of_other_owners(self):
        planned = self.scheduler.plan(self.wanted())
        self.assertEqual([(self.gpu,)], [one.blocks for one in planned.plan.shrinks])
        refused = self.scheduler.compose(self.wanted(owner="b"))
        self.assertEqual(((), ()), (refused.nodes, refused.shrinks))
        self.assertEqual("nothing_fits", refused.decision.report.outcome)
        if self.key is None:
            self.assertEqual((), self.scheduler.compose(self.wanted(), key="k").nodes)
        done = self.scheduler.compose(self.wanted(), key=self.key)
        (node,) = done.nodes
        self.assertIn(self.gpu, node.blocks)
        (shrunk,) = done.shrinks
        self.assertTrue(shrunk.node.endswith(self.node.id))
        self.assertEqual(node.podm, shrunk.podm)
        self.assertEqual(
            node.podm.rpartition("/")[2], done.decision.report.placements[0].chosen.podm
        )
        self.assertEqual({*self.node.blocks}, {*self.own.node_record(self.node.id).node.blocks})
        if self.key is not None:
            again = self.scheduler.compose(self.wanted(), key=self.key)
            self.assertEqual([node.id], [one.id for one in again.nodes])
        self.assertIsNone(self.scheduler.claim(self.wanted()).claim)


class TestHere(ShrinkingCase, unittest.TestCase):
    """The scheduler is in this process."""

    def start(self, stack, podm):
        state = f"sqlite:///{self.folder}/state.sqlite"
        with Store(state) as store:
            store.register(Registration(name=PODM, url=podm.url))
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        app = App(environ=dict.fromkeys(homes, str(self.folder)))
        live = ReadOptions(state=state)
        engine = app.engine(Selection(policy_files=(self.policies,), live=live))
        return engine, engine

    def test_a_reading_between_plan_and_change_makes_it_plan_again(self):
        planned, plans = self.scheduler._planned, []

        def plan(wanted):
            plans.append(planned(wanted))
            if len(plans) == 1:
                blocks = self.own.blocks(BlockFilter(podm=PODM))
                other = [one.uri for one in blocks if one.uri not in (*self.node.blocks, self.gpu)]
                known = self.own.registration(PODM).registration
                self.own.change_registration(PODM, with_marks(known, other[:1], "x", {}))
            return plans[-1]

        with mock.patch.object(self.scheduler, "_planned", plan):
            (node,) = self.scheduler.compose(self.wanted()).nodes
        self.assertIn(self.gpu, node.blocks)
        self.assertEqual(2, len(plans))

    def test_a_node_that_was_changed_back_is_not_changed_again(self):
        changes, change = [], NodeChanger.change

        def noted(changer, node_id, wanted, **options):
            changes.append((node_id, wanted.detach_blocks, wanted.attach_blocks))
            return change(changer, node_id, wanted, **options)

        lost = ClaimLost("another claim holds a block")
        with (
            mock.patch.object(NodeChanger, "change", noted),
            mock.patch.object(Claimer, "claim_candidates", side_effect=lost),
            self.assertRaises(ClaimLost),
        ):
            self.scheduler.compose(self.wanted())
        node, gpu = self.node.id, (self.gpu,)
        self.assertEqual([(node, gpu, ()), (node, (), gpu)], changes)
        self.assertIn(self.gpu, self.own.node_record(node).node.blocks)


if __name__ == "__main__":
    unittest.main()
