# SPDX-License-Identifier: Apache-2.0
"""The engine in this process keeps the contract of a scheduler."""

import contextlib
import tempfile
import unittest
from pathlib import Path

from tests.seam.contract import (
    ClaimingContract,
    ComposingContract,
    SchedulerContract,
    request,
)
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.inventory import to_json
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.verbs import VERBS
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.store.store import Store
from valence_sched.testing.served import served

VERB_NAMES = {name for name in dir(Scheduler) if not name.startswith("_")}
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "site.json")


class EngineFactory:
    """A state of its own, and no configuration."""

    sources: tuple[str, ...] = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = f"sqlite:///{folder.name}/state.sqlite"
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.app = App(environ=dict.fromkeys(homes, folder.name))
        super().setUp()

    def new_scheduler(self) -> Engine:
        live = ReadOptions(state=self.state)
        return self.app.engine(Selection(sources=self.sources, live=live))


class TestVerbs(unittest.TestCase):
    """The verbs of the protocol."""

    def test_the_engine_carries_out_every_verb(self):
        self.assertGreater(len(VERB_NAMES), 50)
        self.assertEqual(set(), VERB_NAMES - vars(Engine).keys())

    def test_a_verb_has_a_route_or_is_sent_by_the_remote_scheduler_as_another(self):
        self.assertEqual(set(), VERBS.keys() - VERB_NAMES)
        self.assertEqual(set(), VERB_NAMES - VERBS.keys() - vars(RemoteScheduler).keys())


class TestRecorded(EngineFactory, SchedulerContract, unittest.TestCase):
    """On a recorded inventory."""

    sources = (EXAMPLE,)

    def test_a_decision_that_is_kept_is_found_by_its_id(self):
        report = self.scheduler.select_destinations(request(), detail="report").report
        with Store(self.state) as store:
            store.decisions.save("d-1", to_json(report))
        self.assertEqual(report, self.scheduler.decision("d-1"))

    def test_a_recording_is_never_acted_on(self):
        plan = self.scheduler.plan(request()).plan
        report = self.scheduler.select_destinations(request()).report
        for act in (
            lambda engine: engine.claim(request()),
            lambda engine: engine.compose(request()),
            lambda engine: engine.claim_plan(plan),
            lambda engine: engine.compose_plan(plan),
            lambda engine: list(engine.preview(report)),
        ):
            with self.assertRaisesRegex(UsageError, "recording: .*podm create.*podm apply"):
                act(self.new_scheduler())
        self.assertEqual((), self.scheduler.refresh(plan).changes)
        self.assertFalse(Path(self.state.removeprefix("sqlite:///")).exists())

    def test_what_asks_for_claims_makes_no_state(self):
        self.scheduler.claims()
        self.scheduler.nodes()
        self.scheduler.reconcile()
        with self.assertRaises(UnknownName):
            self.scheduler.reported_stats("p")
        self.assertFalse(Path(self.state.removeprefix("sqlite:///")).exists())


class TestServed(
    EngineFactory, ComposingContract, ClaimingContract, SchedulerContract, unittest.TestCase
):
    """On a state with served pod managers."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        podms = stack.enter_context(served(EXAMPLE))
        super().setUp()
        with Store(self.state) as store:
            for name, podm in podms.items():
                store.register(Registration(name=name, url=podm.url))
