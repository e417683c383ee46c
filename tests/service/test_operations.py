# SPDX-License-Identifier: Apache-2.0
"""Operations: one per key, polled in every process, also while their process is gone."""

import io
import threading
import time
import unittest
from unittest import mock

from falcon import testing
from msgspec.structs import replace

from tests.service.application import EXAMPLE, SMALL, LivePodmsCase
from tests.service.serving import await_reading, wait_for
from tests.service.test_reader import FAST
from tests.unit.store.engines import StoreCase
from tests.unit.store.proxy import Proxy
from valence_sched.errors import ClaimLost, NameTaken, ServiceBusy, UnknownName
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.registration import Registration
from valence_sched.server.main import report_problems
from valence_sched.server.wiring import ServiceProcess
from valence_sched.service.operations import LOST_S, Operations, new_operation
from valence_sched.service.settings import ServiceSettings
from valence_sched.store.database import StoreUrl
from valence_sched.testing.served import served


class MemoryRecords:
    """Records in memory with an age set by a test."""

    def __init__(self):
        self.documents, self.age_s = {}, 0.0

    def put_new(self, id_, document):
        return self.documents.setdefault(id_, document)

    def replace(self, id_, document, patience_s=0.0):
        if id_ in self.documents:
            self.documents[id_] = document

    def get(self, id_):
        return (self.documents[id_], self.age_s) if id_ in self.documents else None


class TestOperations(unittest.TestCase):
    def setUp(self):
        self.records = MemoryRecords()
        self.operations = Operations(lambda: self.records, 2)
        self.leave = threading.Event()
        self.addCleanup(self.leave.set)

    def start(self, work, key=None, content=b"", repeat=False, operations=None):
        one = new_operation("compose", "me", key, content)
        return (operations or self.operations).start(one, work, repeat=repeat)

    def wait(self):
        self.leave.set()
        self.assertTrue(self.operations.wait(10))

    def test_it_runs_and_is_done(self):
        begun = self.start(lambda: [self.leave.wait(10), {"a": 1}][1])
        self.assertEqual("running", self.operations.get(begun.id, "me").state)
        self.assertFalse(self.operations.wait(0))
        self.wait()
        ended = self.operations.get(begun.id, None)
        self.assertEqual(("done", b'{"a":1}'), (ended.state, bytes(ended.result)))

    def test_an_error_of_its_work_is_its_problem(self):
        def fail():
            raise ClaimLost("it is gone", "p", "c")

        begun = self.start(fail)
        self.wait()
        ended = self.operations.get(begun.id, "me")
        self.assertEqual(("failed", "claim_lost", "p"), (
            ended.state, ended.problem.code, ended.problem.members["podm"]))  # fmt: skip

    def test_a_defect_of_its_work_is_logged_and_not_told(self):
        def fail():
            raise KeyError("s3cr3t")

        with self.assertLogs("valence_sched.service.operations", "ERROR"):
            begun = self.start(fail)
            self.wait()
        ended = self.operations.get(begun.id, "me")
        self.assertEqual("failed", ended.state)
        self.assertNotIn("s3cr3t", ended.problem.detail)

    def test_it_is_its_owners(self):
        begun = self.start(lambda: None)
        self.wait()
        with self.assertRaises(UnknownName):
            self.operations.get(begun.id, "you")

    def test_a_key_has_one_operation_in_all_processes(self):
        other = Operations(lambda: self.records, 2)
        calls = []
        begun = self.start(lambda: calls.append(self.leave.wait(10)), "k")
        for operations in (self.operations, other):
            again = self.start(lambda: calls.append(2), "k", operations=operations)
            self.assertEqual((begun.id, "running"), (again.id, again.state))
        with self.assertRaises(NameTaken):
            self.start(lambda: None, "k", b"another")
        self.wait()
        self.assertEqual("done", self.start(lambda: calls.append(3), "k").state)
        self.assertEqual([True], calls)

    def test_work_that_knows_its_key_may_begin_again(self):
        calls = []
        for number in range(2):
            self.start(lambda number=number: calls.append(number), "k", repeat=True)
            self.wait()
        self.assertEqual([0, 1], calls)

    def test_one_whose_process_is_gone_is_interrupted_and_begins_again(self):
        """S4: the death of a process loses nothing permanently."""
        dead = Operations(lambda: self.records, 2)
        begun = self.start(lambda: self.leave.wait(10), "k", operations=dead)
        self.records.age_s = LOST_S + 1
        self.assertEqual("interrupted", self.operations.get(begun.id, "me").state)
        calls = []
        self.assertEqual("running", self.start(lambda: calls.append(1), "k").state)
        self.assertTrue(self.operations.wait(10))
        self.assertEqual([1], calls)

    def test_a_process_works_on_so_many_at_a_time(self):
        for _ in range(2):
            self.start(lambda: self.leave.wait(10))
        with self.assertRaisesRegex(ServiceBusy, "2 operations are running"):
            self.start(lambda: None)
        self.assertEqual(2, len(self.records.documents))
        self.wait()
        self.assertEqual("running", self.start(lambda: None).state)

    def test_one_that_gets_no_thread_ends_and_is_interrupted(self):
        """It was running for ever, and counted among those that a process works on."""
        no_thread = mock.patch("threading.Thread.start", side_effect=RuntimeError("no thread"))
        with no_thread, self.assertRaisesRegex(ServiceBusy, "no more threads"):
            self.start(lambda: None, "k")
        self.assertTrue(self.operations.wait(0))
        self.records.age_s = LOST_S + 1
        begun = self.start(lambda: None, "k")
        self.assertEqual("running", begun.state)
        self.wait()

    def test_a_process_that_works_says_so(self):
        beating = Operations(lambda: self.records, 1, beat_s=0.01)
        seen = threading.Event()
        replace = self.records.replace

        def note(id_, document, patience_s=0.0):
            replace(id_, document)
            seen.set()

        self.records.replace = note
        self.start(lambda: self.leave.wait(10), operations=beating)
        self.assertTrue(seen.wait(10))


class TestAnotherRequest(LivePodmsCase):
    names = ("general-1",)

    def composed(self, body):
        begun = self.call("POST", "/v1/nodes", body, headers={"Idempotency-Key": "k"})
        self.assertEqual(202, begun.status_code, begun.text)
        self.assertTrue(self.process.operations.wait(60))
        return self.call("GET", begun.headers["location"]).json

    def test_one_with_the_same_key_fails_alone(self):
        first = self.composed(SMALL)
        other = self.composed({"request": {"properties": {"processor": {"total_cores": 4}}}})
        self.assertEqual(("failed", "name_taken"), (other["state"], other["problem"]["code"]))
        self.assertEqual(first, self.call("GET", f"/v1/operations/{first['id']}").json)
        again = self.composed(SMALL)
        self.assertEqual((first["id"], "done"), (again["id"], again["state"]))
        (node,), (same,) = first["result"]["nodes"], again["result"]["nodes"]
        self.assertEqual(node["id"], same["id"])


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


del ServerAway  # its tests run on the engines
