# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a service keeps the contract of a scheduler, over real sockets."""

import contextlib
import unittest

from tests.seam.contract import ClaimingContract, ComposingContract, SchedulerContract, request
from tests.seam.test_engine import EXAMPLE, EngineFactory
from tests.service.serving import serving
from valence_sched.model.inventory import to_json
from valence_sched.model.registration import Registration
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.service.settings import Limits, ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served


class RemoteFactory(EngineFactory):
    """A service over a state of its own, and no configuration."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.stack, self.url = stack, None
        super().setUp()

    def new_scheduler(self) -> RemoteScheduler:
        if self.url is None:
            settings = ServiceSettings(
                state=self.state, inventories=self.sources, limits=Limits(nodes=10_000)
            )
            self.url = self.stack.enter_context(serving(settings, self.app.config.environ))
        return RemoteScheduler(ServiceConnection(self.url), sleep=lambda _s: None)


class TestRecordedRemote(RemoteFactory, SchedulerContract, unittest.TestCase):
    """On a recorded inventory."""

    sources = (EXAMPLE,)

    def test_a_decision_is_byte_for_byte_that_of_the_engine(self):
        """S68: what is decided behind the seam does not change with it."""
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


class TestServedRemote(
    RemoteFactory, ComposingContract, ClaimingContract, SchedulerContract, unittest.TestCase
):
    """On a state with served pod managers."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.podms = stack.enter_context(served(EXAMPLE))
        super().setUp()

    def new_scheduler(self) -> RemoteScheduler:
        if self.url is None:
            with Store(self.state) as store:
                for name, podm in self.podms.items():
                    store.register(Registration(name=name, url=podm.url))
            super().new_scheduler().podms()  # what a first reading learns makes it read again
        return super().new_scheduler()
