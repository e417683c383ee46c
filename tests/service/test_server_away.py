# SPDX-License-Identifier: Apache-2.0
"""A database server that is cut off: the service says so, goes on when it is back, and reads."""

import io
import threading
import time

from falcon import testing
from msgspec.structs import replace

from tests.service.application import EXAMPLE, SMALL
from tests.service.serving import await_reading
from tests.service.test_reader import FAST, wait_for
from tests.unit.store.engines import StoreCase
from tests.unit.store.proxy import Proxy
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.registration import Registration
from valence_sched.server.main import report_problems
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.operations import new_operation
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.url import StoreUrl
from valence_sched.testing.served import served


class ServerAway(StoreCase):
    """A process that reads and decides over a connection that is cut."""

    def setUp(self):
        super().setUp()
        self.proxy = self.enterContext(Proxy(self.url))
        self.podm = self.enterContext(served(EXAMPLE))["general-1"]
        self.state = self.store()
        self.state.register(Registration(name="general-1", url=self.podm.url))
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        settings = self.settings = ServiceSettings(state=self.proxy.url, reader=FAST)
        environ = dict.fromkeys(homes, str(self.folder))
        self.process = ServiceProcess(settings, time.monotonic, environ)
        self.addCleanup(self.process.stop, 10)
        self.process.start()
        await_reading(self.process)
        self.client = testing.TestClient(self.process.application)

    def decided(self):
        asked = {"request": {**SMALL["request"], "seed": 1}}  # the same answer each time
        return self.client.simulate_post("/v1/select_destinations", json=asked)

    def test_it_answers_503_and_goes_on(self):
        before = self.decided()
        self.assertEqual(1, before.json["report"]["placed"])
        engine = self.process.engines._engine
        decoded = engine._stored.store.counts.podms_decoded
        self.proxy.refuse()
        with self.assertLogs("valence_sched", "WARNING"):
            for path in ("/v1/select_destinations", "/v1/claims"):
                result = self.client.simulate_post(path, json=SMALL)
                self.assertEqual((503, "store_failed"), (result.status_code, result.json["code"]))
                self.assertNotIn("\n", result.json["detail"])
            self.assertEqual(503, self.client.simulate_get("/healthcheck").status_code)
        self.proxy.accept()
        self.assertEqual(before.json, self.decided().json)
        self.assertEqual(200, self.client.simulate_get("/healthcheck").status_code)
        self.assertIs(engine, self.process.engines._engine)
        self.assertEqual(decoded, engine._stored.store.counts.podms_decoded)
        reads = len(self.podm.requests)
        wait_for(lambda: len(self.podm.requests) > reads and self.state.leases.holder(LEASE))

    def test_the_end_of_an_operation_is_recorded_once_it_is_back(self):
        leave = threading.Event()
        self.addCleanup(leave.set)
        begun = new_operation("compose", "me", None, b"")
        self.process.operations.start(begun, lambda: leave.wait(30), repeat=False)
        self.proxy.refuse()
        leave.set()
        with self.assertLogs("valence_sched", "WARNING"):
            self.assertEqual(503, self.client.simulate_get("/healthcheck").status_code)
        self.assertFalse(self.process.operations.wait(1))
        self.proxy.accept()
        self.assertTrue(self.process.operations.wait(30))
        self.assertEqual("done", self.process.operations.get(begun.id, "me").state)

    def test_a_service_that_starts_meanwhile_waits_for_it(self):
        self.proxy.refuse()
        out = io.StringIO()
        words = self.settings, self.process._environ, out
        self.assertEqual((1, 0), tuple(report_problems(*words, waits=one) for one in (False, True)))
        self.assertRegex(out.getvalue(), "(?m)^state: .*: the service waits for it$")
        process = ServiceProcess(self.settings, time.monotonic, self.process._environ)
        self.addCleanup(process.stop, 10)
        client = testing.TestClient(process.application)
        with self.assertLogs("valence_sched", "WARNING"):
            process.start()
            self.assertEqual(503, client.simulate_get("/healthcheck").status_code)
        self.proxy.accept()
        wait_for(lambda: client.simulate_get("/healthcheck").status_code == 200)
        wait_for(
            lambda: client.simulate_post("/v1/select_destinations", json=SMALL).status_code == 200
        )

    def test_a_login_that_is_refused_is_a_problem_of_the_settings(self):
        address = StoreUrl(self.url).url.set(username="nobody-of-this-name", password="x")
        settings = replace(self.settings, state=address.render_as_string(hide_password=False))
        out = io.StringIO()
        environ = self.process._environ | {"VALENCE_SCHED_STATE": settings.state}
        settings = replace(settings, state=None)
        self.assertEqual(1, report_problems(settings, environ, out, waits=True), out.getvalue())


class TestPostgresqlAway(ServerAway):
    engine = "postgresql"


class TestMysqlAway(ServerAway):
    engine = "mysql"


del ServerAway  # its tests are of the engines
