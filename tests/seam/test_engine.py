# SPDX-License-Identifier: Apache-2.0
"""The engine in this process meets the contract of a scheduler."""

import contextlib
import inspect
import tempfile
import unittest
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.seam.contract import (
    ClaimingContract,
    ComposingContract,
    RegisteringContract,
    SchedulerContract,
    request,
)
from tests.seam.node_changes import ChangingContract, DroppingContract
from tests.service.serving import serving
from tests.service.zone_services import ZoneServices, scheduler
from valence_sched.app import App
from valence_sched.engine import Engine
from valence_sched.errors import NameTaken, UnknownName, UsageError
from valence_sched.lifecycle.state_verbs import StateVerbs
from valence_sched.model.inventory import to_json
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.model.scheduler import Scheduler
from valence_sched.model.verbs import VERBS
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.remote.scheduler import ROUTES, RemoteScheduler
from valence_sched.service.settings import Limits, ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import ServedPodm, served
from valence_sched.zones.children import ZoneRegistry

VERB_NAMES = {name for name in dir(Scheduler) if not name.startswith("_")}
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "site.json")


class Place:
    """A state and its readings in a folder, and no configuration."""

    def __init__(self, folder: str) -> None:
        self.state = f"sqlite:///{folder}/state.sqlite"
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        self.app = App(environ=dict.fromkeys(homes, folder))

    def engine(self, *sources: str) -> Engine:
        return self.app.engine(Selection(sources=sources, live=ReadOptions(state=self.state)))

    def register(self, podms: Iterable[ServedPodm]) -> None:
        with Store(self.state) as store:
            for podm in podms:
                store.register(Registration(name=podm.id, url=podm.url))


class EngineFactory:
    """Schedulers with their own state and without configuration."""

    sources: tuple[str, ...] = ()

    def setUp(self):
        self.place = Place(self.enterContext(tempfile.TemporaryDirectory()))
        self.state = self.place.state
        super().setUp()

    def new_scheduler(self) -> Engine:
        return self.place.engine(*self.sources)


class TestVerbs(unittest.TestCase):
    """The verbs of the protocol."""

    def test_the_engine_or_one_of_its_parts_carries_out_every_verb(self):
        self.assertGreater(len(VERB_NAMES), 50)
        parts = set().union(*map(vars, (Engine, StateVerbs, ZoneRegistry)))
        self.assertEqual(set(), VERB_NAMES - parts)

    def test_a_verb_has_a_route_or_is_sent_by_the_remote_scheduler_as_another(self):
        self.assertEqual(set(), VERBS.keys() - VERB_NAMES)
        sent = ROUTES.keys() | vars(RemoteScheduler).keys()
        self.assertEqual(set(), VERB_NAMES - VERBS.keys() - sent)
        self.assertLess(set(ROUTES.values()), set(VERBS))

    def test_the_route_of_a_verb_on_several_names_says_so(self):
        for name, route in VERBS.items():
            if "{name}" in route.path:
                _, named, *_ = inspect.signature(getattr(Scheduler, name)).parameters.values()
                with self.subTest(name):
                    self.assertEqual(route.several, "Sequence[" in str(named.annotation))


class TestRecorded(EngineFactory, RegisteringContract, SchedulerContract, unittest.TestCase):
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
            with self.assertRaisesRegex(
                UsageError, "recorded inventory cannot be .*: .*podm create.*podm apply"
            ):
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


#: The pod managers that the contracts of changes use: others would only be read each time.
CHANGING = ("mem-1", "gpu-east", "gpu-west")


class ServedSite:
    """Served pod managers for the tests of a class; ``used`` are their names, or all."""

    used: Sequence[str] = ()
    served: Mapping[str, ServedPodm]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        podms = cls.enterClassContext(served(EXAMPLE))
        cls.served = {name: podms[name] for name in cls.used or podms}


class ServedPlace(ServedSite):
    """An engine for each test, on a state that the tests of a class share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = Place(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.place.register(cls.served.values())

    def new_scheduler(self) -> Engine:
        return self.place.engine()


class TestServed(ServedPlace, SchedulerContract, unittest.TestCase):
    """On a state with served pod managers."""


class TestServedChanges(
    ServedPlace, ChangingContract, ComposingContract, ClaimingContract, RegisteringContract,
    unittest.TestCase,
):  # fmt: skip
    """On a state with served pod managers, which the tests change and restore."""

    used = CHANGING


class TestServedDrops(ServedPlace, DroppingContract, unittest.TestCase):
    """On a state with served pod managers, one of which drops blocks."""

    used = CHANGING


class RemoteFactory(EngineFactory):
    """A service with its own state and without configuration."""

    url: str | None = None

    def new_scheduler(self) -> RemoteScheduler:
        if self.url is None:
            settings = ServiceSettings(
                state=self.state, inventories=self.sources, limits=Limits(nodes=10_000)
            )
            environ = self.place.app.config.environ
            self.url = self.enterContext(serving(settings, environ))
        return scheduler(self.url)


class TestRecordedRemote(RemoteFactory, RegisteringContract, SchedulerContract, unittest.TestCase):
    """On a recorded inventory."""

    sources = (EXAMPLE,)

    def test_a_decision_is_byte_for_byte_that_of_the_engine(self):
        """S68: a decision does not depend on the place of the scheduler."""
        engine = EngineFactory.new_scheduler(self)
        for wanted in (
            request(),
            request(count=3, alternates=2, seed=7),
            request(10_000),
            request(zone="nowhere"),
            request(policy="pack", owner="me"),
        ):
            for detail in ("placements", "summary", "report"):
                with self.subTest(str(wanted.id), detail=detail):
                    self.assertEqual(
                        to_json(engine.select_destinations(wanted, detail=detail)),
                        to_json(self.scheduler.select_destinations(wanted, detail=detail)),
                    )


def start_service(stack: contextlib.ExitStack, podms: Sequence[ServedPodm]) -> str:
    """Start a service with its own state, which reads served pod managers."""
    return ZoneServices(stack).start("one", served=podms, zones={"enable_zone_routing": False})


def start_tree(stack: contextlib.ExitStack, podms: Sequence[ServedPodm]) -> str:
    """Start a zone with some of the pod managers, over a zone with the others.

    The only pooled memory is in the zone below.
    """
    services = ZoneServices(stack)
    below = [podm for podm in podms if podm in podms[::2] or podm.id == "mem-1"]
    east = services.start("east", served=below)
    scheduler(east).podms()  # the first reading causes a second one
    own = [podm for podm in podms if podm not in below]
    return services.start("top", served=own, children={"east": east})


class SharedService(ServedSite):
    """The scheduler of the service that ``start`` starts once for the tests of a class."""

    start: Callable[[contextlib.ExitStack, Sequence[ServedPodm]], str]
    url: str

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stack = cls.enterClassContext(contextlib.ExitStack())
        cls.url = cls.start(stack, [*cls.served.values()])

    def new_scheduler(self) -> RemoteScheduler:
        found = scheduler(self.url)
        found.podms()  # the first reading causes a second one
        return found


class TestServedRemote(SharedService, SchedulerContract, unittest.TestCase):
    """On a state with served pod managers."""

    start = staticmethod(start_service)


class TestTree(SharedService, SchedulerContract, unittest.TestCase):
    """A zone with some of the pod managers, over a zone with the others."""

    start = staticmethod(start_tree)

    def test_each_detail_says_what_the_one_before_says(self):
        placements, summary, report = (
            self.scheduler.select_destinations(request(), detail=detail).report
            for detail in ("placements", "summary", "report")
        )
        self.assertEqual(placements.placements, summary.placements)
        self.assertEqual(placements.placements, report.placements)
        self.assertEqual(((), 8), (summary.podms, len(report.podms)))  # zones give reasons

    def test_a_zone_below_is_refused_until_the_settings_enable_it(self):
        with self.assertRaisesRegex(NameTaken, "a zone named 'east' is already a child"):
            self.scheduler.add_zone(ZoneRegistration(name="east", url="http://127.0.0.1:9"))

    def test_the_zone_tells_its_name_and_what_it_has(self):
        tree, podms = self.scheduler.zone_tree(), self.scheduler.podms()
        parts = (tree.own, tree.children[0].own)
        self.assertEqual(len(podms), sum(one.podms for one in parts))
        self.assertEqual(sum(one.amounts.cores[1] or 0 for one in podms),
                         sum(one.amounts["cores"][1] for one in parts))  # fmt: skip
        self.assertEqual(["east"], [one.registration.name for one in self.scheduler.zones()])

    def test_the_documents_are_those_that_are_decided_on(self):
        """A zone has the documents of its own pod managers, and each zone below has its own."""
        own = [one.podm.id for one in self.scheduler.podms() if "/" not in one.podm.id]
        self.assertEqual(own, [podm.id for podm in self.scheduler.documents()])


if __name__ == "__main__":
    unittest.main()
