# SPDX-License-Identifier: Apache-2.0
"""Hints between processes of the service over a real RabbitMQ: their times and effects."""

import queue
from types import MappingProxyType

from falcon import testing
from msgspec.structs import replace

from tests.service.application import EXAMPLE, RACK, SMALL, ApplicationCase
from tests.service.serving import await_reading, wait_for
from tests.unit.messaging.broker import BrokerCase
from valence_sched.app import App
from valence_sched.errors import InputError, ServiceError
from valence_sched.model.dispatch import MessagingSettings, UrlReference
from valence_sched.model.registration import Registration
from valence_sched.server import wiring
from valence_sched.service.settings import ServiceSettings, check_settings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PATIENCE_S = 60


class HintsCase(BrokerCase, ApplicationCase):
    """A test case with two processes of a service over one state and one broker."""

    settings = MappingProxyType({})

    def setUp(self):
        BrokerCase.setUp(self)
        ApplicationCase.setUp(self)
        self.environ = {**self.environ, "BROKER": self.url}
        self.messaging = MessagingSettings(url=UrlReference(env="BROKER"), topic=self.topic)

    def start(self):
        """Return a client of one process, and its hints, which are received from now on."""
        process = self.new_process(messaging=self.messaging)
        self.addCleanup(process.hints.close)
        client = testing.TestClient(process.application)
        client.simulate_get("/healthcheck")  # the first request connects
        wait_for(process.hints.start().listening.is_set, PATIENCE_S)
        return client, process.hints

    def report(self, client, cores, name="rack-1"):
        rack = {"pools": [{"id": "z"}], "blocks": [
            {"uri": "/b", "type": ["Compute"], "pools": ["z"],
             "devices": {"processors": [{"cores": cores}]}}]}  # fmt: skip
        answer = client.simulate_post(f"/v1/podms/{name}/stats", json={"stats": rack})
        self.assertEqual(200, answer.status_code, answer.text)


class TestHints(HintsCase):
    def heard(self):
        """Return a queue that receives each hint."""
        heard = queue.SimpleQueue()
        listener = App(environ=self.environ).hint_fanout(self.messaging, heard.put)
        self.addCleanup(listener.close)
        listener.start()
        self.assertTrue(listener.listening.wait(PATIENCE_S))
        return heard

    def test_a_report_to_one_refreshes_the_other_before_its_next_request(self):
        client, own = self.start()
        _, other = self.start()
        self.report(client, 16)
        wait_for(lambda: other.refreshes == 1, PATIENCE_S)
        self.assertEqual(0, own.refreshes, "its own hint")

    def test_a_request_that_reads_or_fails_sends_none(self):
        client, _ = self.start()
        heard = self.heard()
        self.report(client, 16)
        for path in ("podms", "claims", "nodes"):
            self.assertEqual(200, client.simulate_get(f"/v1/{path}").status_code)
        self.assertEqual(404, client.simulate_delete("/v1/claims/no").status_code)
        self.report(client, 16, "kühl%2541")
        self.assertEqual(("rack-1",), heard.get(timeout=PATIENCE_S))
        self.assertEqual(("kühl%41",), heard.get(timeout=PATIENCE_S))

    def test_a_compose_sends_one_when_it_ends(self):
        """Its request is answered before the composition."""
        podms = self.enterContext(served(EXAMPLE, fail=("delay:1500:POST:*Systems",)))
        with Store(self.state) as store:
            store.register(Registration(name="gpu-east", url=podms["gpu-east"].url))
        _, other = self.start()
        client, _ = self.start()
        self.process.start()
        await_reading(self.process)
        heard = self.heard()
        begun = client.simulate_post("/v1/nodes", json=SMALL)
        self.assertEqual(202, begun.status_code, begun.text)
        where = begun.headers["location"]
        self.assertEqual((), heard.get(timeout=PATIENCE_S))
        self.assertEqual("running", client.simulate_get(where).json["state"])
        self.assertEqual((), heard.get(timeout=PATIENCE_S))
        self.assertEqual("done", client.simulate_get(where).json["state"])
        wait_for(lambda: other.refreshes, PATIENCE_S)

    def test_without_the_broker_all_answers_are_the_same(self):
        """A lost hint changes no answer: the next request loads the changes."""
        way, through = self.way()
        self.environ["BROKER"] = through
        client, _ = self.start()
        other_client, other = self.start()
        self.report(client, 16)
        wait_for(lambda: other.refreshes >= 1, PATIENCE_S)
        way.cut()
        for cores in (24, 32):
            self.report(client, cores)
            found = other_client.simulate_get("/v1/podms/rack-1")
            self.assertIn(str(cores), found.text)


class TestReports(HintsCase):
    """S80: every scheduler of a zone receives reports of pod managers and stores them."""

    def reporting(self, url=None):
        """Return a publisher of reports, as in ``podm watch --report messaging``."""
        environ = {**self.environ, "BROKER": url or self.url}
        fanout = App(environ=environ).hint_fanout(self.messaging, lambda _names: None)
        self.addCleanup(fanout.close)
        fanout.start()
        return fanout

    def schedulers(self, count, **words):
        self.messaging = replace(self.messaging, reports=True, **words)
        return [self.start()[0] for _ in range(count)]

    def cores(self, client):
        found = client.simulate_get("/v1/podms/rack-1")
        return found.json["amounts"]["cores"] if found.status_code == 200 else None

    def rack(self, cores):
        return {"pools": [{"id": "z"}], "blocks": [
            {"uri": "/b", "type": ["Compute"], "pools": ["z"],
             "devices": {"processors": [{"cores": cores}]}}]}  # fmt: skip

    def test_three_schedulers_agree_after_one_report(self):
        clients = self.schedulers(3)
        self.reporting().report("rack-1", self.rack(16))
        for client in clients:
            wait_for(lambda client=client: self.cores(client) == [16, 16], PATIENCE_S)

    def test_the_store_stays_the_truth_while_the_broker_is_gone(self):
        way, through = self.way()
        clients = self.schedulers(3)
        agent = self.reporting(through)
        agent.report("rack-1", self.rack(16))
        wait_for(lambda: self.cores(clients[0]) == [16, 16], PATIENCE_S)
        way.cut()
        with self.assertRaises(ServiceError):
            agent.report("rack-1", self.rack(99))
        self.report(clients[0], 24)
        self.assertEqual([[24, 24]] * 3, [self.cores(client) for client in clients])
        way.mend()
        wait_for(lambda: self.is_taken(agent, 32), PATIENCE_S)
        for client in clients:
            wait_for(lambda client=client: self.cores(client) == [32, 32], PATIENCE_S)

    def is_taken(self, agent, cores):
        try:
            agent.report("rack-1", self.rack(cores))
        except ServiceError:
            return False
        return True

    def test_a_report_is_stored_only_where_the_settings_say_so_and_only_if_it_is_one(self):
        client, hints = self.start()  # receives only hints
        self.report(client, 8, "rack-2")  # otherwise the inventory is empty
        agent = self.reporting()
        agent.report("rack-1", self.rack(16))
        agent.send(["rack-1"])
        wait_for(lambda: hints.refreshes, PATIENCE_S)
        self.assertIsNone(self.cores(client))
        (taking,) = self.schedulers(1)
        with self.assertLogs(wiring.LOG, "WARNING") as logs:
            agent.report("rack-1", {"blocks": 5})
            agent.report("rack-1", {"facts": {"text": "x" * (5 << 20)}})
            wait_for(lambda: len(logs.output) == 2, PATIENCE_S)
        self.assertIsNone(self.cores(taking))


class TestSettings(HintsCase):
    def test_a_url_has_one_source(self):
        for words in ({}, {"env": "A", "file": "/b"}):
            messaging = MessagingSettings(url=UrlReference(**words))
            with self.assertRaisesRegex(InputError, "expected url: {env: VARIABLE}"):
                check_settings(ServiceSettings(messaging=messaging), "service.yaml")

    def test_what_is_wrong_with_it_is_told_before_it_is_served_and_no_url_is_repeated(self):
        settings = ServiceSettings(state=self.state, messaging=self.messaging)
        self.assertEqual([], list(wiring.configuration_problems(settings, self.environ)))
        for url, text in (("", "is empty"), ("canary-7://a", "not the URL of a broker")):
            environ = {**self.environ, "BROKER": url}
            (problem,) = wiring.configuration_problems(settings, environ)
            self.assertIn(text, str(problem))
            self.assertNotIn("canary-7", str(problem))

    def test_a_file_that_others_read_is_refused(self):
        path = self.folder / "url"
        path.write_text(self.url)
        path.chmod(0o644)
        messaging = MessagingSettings(url=UrlReference(file=str(path)))
        app = App(environ=self.environ)
        with self.assertRaisesRegex(Exception, "other users can read"):
            app.hint_fanout(messaging, print)
        path.chmod(0o600)
        app.hint_fanout(messaging, print)


PROCESSES = 3


class TestFanOut(ApplicationCase):
    """Three processes of a service, and pod managers that report themselves."""

    settings = {}  # noqa: RUF012 - no inventory: what was reported is decided on

    def setUp(self):
        super().setUp()
        self.clients = [self.client, *(self.new_client() for _ in range(PROCESSES - 1))]

    def report(self, client, name, **stats):
        result = client.simulate_post(f"/v1/podms/{name}/stats", json={"stats": stats})
        self.assertEqual(200, result.status_code, result.text)

    def decided(self):
        """Return the decision of each process on the same request."""
        results = [one.simulate_post("/v1/select_destinations", json=SMALL) for one in self.clients]
        self.assertEqual([200] * PROCESSES, [one.status_code for one in results])
        return [
            [placement["chosen"]["podm"] for placement in one.json["report"]["placements"]]
            for one in results
        ]

    def test_every_scheduler_agrees_after_one_report(self):
        """S48: any of the schedulers may have received it."""
        self.report(self.clients[0], "rack-1", **RACK)
        self.assertEqual([["rack-1"]] * PROCESSES, self.decided())
        self.report(self.clients[1], "rack-2", **RACK)
        self.report(self.clients[2], "rack-1", enabled=False)
        self.assertEqual([["rack-2"]] * PROCESSES, self.decided())
        self.report(self.clients[0], "rack-2", status="Offline")
        self.assertEqual([[]] * PROCESSES, self.decided())
