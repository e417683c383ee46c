# SPDX-License-Identifier: Apache-2.0
"""Plans that take blocks from a node, and the death of the process at each of their points."""

import itertools
import os
import tempfile
import unittest
from pathlib import Path

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from tests.seam.contract import request
from tests.unit.lifecycle.test_change import Died
from tests.unit.store.engines import empty_file
from tests.unit.trees import tree
from valence_sched.app import App
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.lifecycle.plan import PlanClaimer, compose_plan
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.inventory import to_json
from valence_sched.model.node_change import NodeChange, uris
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration, with_marks
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PODM = "gpu-east"
POLICIES = """\
policies:
- {name: greedy, shrink: last, filters: [enabled, alive, capacity, devices], weighers: [room]}
"""
GPU = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU"}]}
SOAK = os.environ.get("VALENCE_SCHED_SOAK")  # then it dies everywhere


class DyingAccess(PodmAccess):
    """An access of a process that may die: it then reaches no pod manager."""

    dead = False

    def connect(self, name):
        if self.dead:
            raise Died
        return super().connect(name)

    def die(self):
        object.__setattr__(self, "dead", True)
        raise Died


class TestKilled(unittest.TestCase):
    """A node of owner a with two GPUs, of which it needs one; no other GPU is usable."""

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        podm = self.enterContext(served(documents={PODM: tree(PODM)}))[PODM]
        policies = Path(folder, "policies.yaml")
        policies.write_text(POLICIES)
        self.state = empty_file(Path(folder))
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        app = App(environ=dict.fromkeys(homes, folder))
        live = ReadOptions(state=self.state)
        self.engine = app.engine(Selection(policy_files=(str(policies),), live=live))
        self.store = self.enterContext(Store(self.state))
        self.one = Registration(name=PODM, url=podm.url)
        self.store.register(self.one)
        (self.node,) = self.engine.compose(request(properties=GPU, owner="a")).nodes
        more = msgspec.convert({"attach": {"accelerators": [{"kind": "GPU"}]}}, NodeChange)
        (self.gpu,) = uris(self.engine.change_node(self.node.id, more).attached)
        free = self.engine.blocks(BlockFilter(podm=PODM, free=True))
        spare = [it.uri for it in free if it.devices.accelerators]
        self.engine.change_registration(PODM, with_marks(self.one, spare, "x", {}))
        mark = NodeChange(shrinkable=True, power_cycle=True)
        self.engine.change_node(self.node.id, mark)
        self.whole = {*self.shown().blocks}

    def shown(self):
        return self.store.nodes.show(self.node.id)

    def compose(self, checkpoint):
        """Carry out a plan; return its result, None if the process died."""
        wanted = {**GPU, "processor": {"total_cores": 1}}
        planned = self.engine.plan(request(properties=wanted, owner="a", policy="greedy"))
        self.assertEqual([(self.node.id, (self.gpu,))],
                         [(it.node, it.blocks) for it in planned.plan.shrinks])  # fmt: skip
        with Store(self.state) as store:
            members = {PODM: self.engine.registration(PODM).registration}
            access = DyingAccess(store, members, lambda _one: None, patience_s=5.0)
            object.__setattr__(access, "checkpoint", lambda point: checkpoint(access, point))
            changer = access.changer(self.engine.compile_request, self.engine._decide_on)
            with self.engine._plan_claimer(store, planned.plan) as claimer:
                self.assertIsInstance(claimer, PlanClaimer)
                try:
                    return compose_plan(access, claimer, changer, None, 600.0)
                except Died:
                    return None

    def reap(self):
        """Reap as after all time limits."""
        of = tables.claims.c
        past = {"expires_at": sa.case((of.expires_at > 0, 1.0), else_=of.expires_at),
                "sweep_at": sa.case((of.sweep_at > 0, 1.0), else_=of.sweep_at)}  # fmt: skip
        with self.store._database.writer.begin() as connection:
            connection.execute(sa.update(tables.claims).values(past))
            for node in self.store.nodes.list():
                late = {"off_until": 1.0 if node.off_until is not None else None}
                due = to_json(replace(node, taken_until=1.0, **late))
                where = tables.nodes.c.id == node.id
                connection.execute(sa.update(tables.nodes).where(where).values(document=due))
        return [action.done for action in self.engine.reconcile().actions]

    def check(self, point):
        """Check that either the plan was carried out, or nothing is changed; return its node."""
        others = [node for node in self.store.nodes.list() if node.id != self.node.id]
        expected = self.whole - {self.gpu} if others else self.whole
        with self.subTest(point):
            self.assertEqual(expected, {*self.shown().blocks})
            self.assertEqual(expected, {*self.engine.node_record(self.node.id).node.blocks})
            self.assertTrue(all(self.gpu in node.blocks for node in others))
            self.assertEqual(((), None), (self.shown().taken, self.shown().off_until))
            states = {claim.state for claim in self.store.claims.list()}
            self.assertLessEqual(states, {"COMPOSED", "SETTLED"})
        return others

    def test_the_node_gets_its_blocks_back_or_the_plan_is_carried_out(self):
        """Nothing remains undone after a reap."""
        points, ends = [], set()
        for number in itertools.count(1, 1 if SOAK else 3):
            points.clear()

            def mark(access, point, number=number):
                points.append(point)
                if len(points) == number:
                    access.die()

            result = self.compose(mark)
            if result is None:
                self.reap()
            others = self.check(points[-1] if result is None else "none")
            ends.add(bool(others))
            for node in others:
                self.assertEqual([], list(self.engine.delete_nodes([node.id])))
                back = NodeChange(attach_blocks=(self.gpu,))
                self.engine.change_node(self.node.id, back)
            if result is not None:
                break
        self.assertEqual({True, False}, ends)
        self.assertLessEqual({"detaching", "detached", "finished", "intent", "answered"}, {*points})


if __name__ == "__main__":
    unittest.main()
