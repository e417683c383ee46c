# SPDX-License-Identifier: Apache-2.0
"""A database server that is cut off: the service says so, goes on when it is back, and reads."""

import time

from falcon import testing

from tests.service.application import EXAMPLE, SMALL
from tests.service.serving import await_reading
from tests.service.test_reader import FAST, wait_for
from tests.unit.store.engines import StoreCase
from tests.unit.store.proxy import Proxy
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.registration import Registration
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.settings import ServiceSettings
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
        settings = ServiceSettings(state=self.proxy.url, reader=FAST)
        environ = dict.fromkeys(homes, str(self.folder))
        self.process = ServiceProcess(settings, time.monotonic, environ)
        self.addCleanup(self.process.stop, 10)
        self.process.start()
        await_reading(self.process)
        self.client = testing.TestClient(self.process.application)

    def decided(self):
        return self.client.simulate_post("/v1/select_destinations", json=SMALL)

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


class TestPostgresqlAway(ServerAway):
    engine = "postgresql"


class TestMysqlAway(ServerAway):
    engine = "mysql"


del ServerAway  # its tests are of the engines
