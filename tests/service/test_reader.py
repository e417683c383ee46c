# SPDX-License-Identifier: Apache-2.0
"""The reader of a service: the reading process, the readiness of a service, and its reports."""

import re
import tempfile
import unittest
from pathlib import Path
from types import MappingProxyType

from falcon import testing

from tests.service.application import EXAMPLE, ApplicationCase
from tests.service.serving import await_reading, serving, wait_for
from tests.unit.lifecycle.site import request
from tests.unit.store.site import podm
from valence_sched.app import App
from valence_sched.errors import InputError, StoreError, UsageError
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.codec import convert, load_yaml
from valence_sched.model.inventory import FullPodm
from valence_sched.model.reading import ReadFailure, ReadOptions, ReadPace
from valence_sched.model.registration import Registration
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.server.background import ReaderThread
from valence_sched.service.settings import ReaderSettings, ServiceSettings
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PAGE = Path(__file__).parents[2] / "doc" / "source" / "howto" / "monitoring.rst"
FAST = ReaderSettings(interval_s=0.1, lease_s=1.0)


class ReaderCase(ApplicationCase):
    """A test case with served and registered pod managers, and a store."""

    settings = MappingProxyType({"reader": FAST})

    def setUp(self):
        super().setUp()
        self.podms = self.enterContext(served(EXAMPLE))
        self.store = Store(self.state)
        self.addCleanup(self.store.close)
        for name in ("gpu-east", "general-1"):
            self.register(name)

    def register(self, name):
        self.store.register(Registration(name=name, url=self.podms[name].url))

    def holder(self):
        return self.store.leases.holder(LEASE)


class TestWhoReads(ReaderCase):
    """One of the processes reads."""

    def test_a_process_reads_and_another_takes_over_when_it_stops(self):
        other = self.new_process()
        self.addCleanup(other.stop, 10)
        self.read_podms()
        first = self.holder()
        other.start()
        await_reading(other)
        self.assertEqual(first, self.holder())
        self.process.stop(10)
        self.assertNotEqual(first, wait_for(self.holder))
        before = len(self.podms["gpu-east"].requests)
        wait_for(lambda: len(self.podms["gpu-east"].requests) > before)

    def test_a_pod_manager_that_is_registered_is_read_soon(self):
        self.read_podms()
        self.register("gpu-north")
        wait_for(lambda: "gpu-north" in self.store.load_podms())
        self.assertIn(
            "gpu-north", {one["podm"]["id"] for one in self.call("GET", "/v1/podms").json}
        )

    def test_nobody_reads_where_that_is_switched_off(self):
        for words in ({"reader": False}, {"inventories": (EXAMPLE,)}):
            process = self.new_process(**words)
            self.addCleanup(process.stop, 10)
            process.start()
            self.assertIsNone(process.reader)
        self.assertIsNone(self.holder())

    def test_it_begins_once_and_not_after_its_end(self):
        made = []

        def make(_tell, sleep):
            made.append(1)
            sleep(10)
            raise StoreError("ended")

        thread = ReaderThread(make)
        thread.start()
        thread.start()
        wait_for(lambda: made)
        self.assertTrue(thread.stop(10))
        thread.start()
        self.assertEqual([1], made)

    def test_a_state_that_cannot_be_opened_is_waited_for_and_told_once(self):
        waits = []

        def make(_tell, sleep):
            thread._ended.wait = lambda seconds: waits.append(seconds) or len(waits) > 2
            if len(waits) > 2:
                thread._ended.set()
            raise StoreError("it is away")

        thread = ReaderThread(make)
        with self.assertLogs("valence_sched.server", "WARNING") as logs:
            thread._run()
        self.assertEqual(1, len(logs.output))
        self.assertGreater(len(waits), 2)

    def test_a_defect_is_logged_and_not_the_end(self):
        calls = []

        def make(_tell, _sleep):
            calls.append(1)
            thread._ended.wait = lambda _seconds: None
            if len(calls) == 3:
                thread._ended.set()
            raise KeyError("s")

        thread = ReaderThread(make, "dispatch sender")
        with self.assertLogs("valence_sched.server", "ERROR") as logs:
            thread._run()
        self.assertEqual(3, len(calls))
        self.assertIn("internal error in the dispatch sender: restarting it", logs.output[0])


class TestReadiness(ApplicationCase):
    """A service is ready after each registered pod manager was tried."""

    settings = MappingProxyType({})

    def setUp(self):
        super().setUp()
        self.store = Store(self.state)
        self.addCleanup(self.store.close)

    def register(self, name):
        self.store.register(Registration(name=name, url=f"https://{name}"))

    def health(self):
        result = self.call("GET", "/healthcheck")
        self.assertEqual(200 if result.json["status"] == "ok" else 503, result.status_code)
        return result.json["status"], *result.json["problems"]

    def test_it_waits_for_the_first_readings(self):
        for name in ("a", "b", "c"):
            self.register(name)
        self.store.remember(podm("a"))
        self.assertEqual(("starting", "2 of 3 pod managers not read yet"), self.health())
        self.store.remember(podm("b"))
        failure = ReadFailure(reason="https://c: connection refused")
        self.store.record_failures({"c": (FullPodm(id="c", status="Offline"), failure)})
        self.assertEqual(("ok",), self.health())
        self.register("d")
        self.assertEqual(("ok",), self.health(), "one that comes later takes no service away")

    def test_one_without_pod_managers_is_ready(self):
        self.assertEqual(("ok",), self.health())

    def test_policies_that_are_invalid_are_told_without_their_place(self):
        home = self.folder / "valence-sched"
        home.mkdir(exist_ok=True)
        (home / "policies.yaml").write_text("policies: 1\n")
        with self.assertLogs("valence_sched.server", "WARNING") as logs:
            status, problem = self.health()
        self.assertEqual("failing", status)
        self.assertIn("the policies cannot be used (input_invalid)", problem)
        self.assertNotIn(str(home), problem)
        self.assertIn(str(home), logs.output[0])

    def test_the_gauges_are_of_the_state(self):
        for name in ("a", "b", "c"):
            self.register(name)
        self.store.remember(podm("a", read_at="2026-01-01T00:00:00Z"))
        failure = ReadFailure(reason="https://b: connection refused")
        self.store.record_failures({"b": (FullPodm(id="b", status="Offline"), failure)})
        self.store.leases.acquire(LEASE, "ctl-1 process 7", 30.0)
        text = self.call("GET", "/metrics").text
        for line in (
            'podms{state="read"} 1.0',
            'podms{state="failing"} 1.0',
            'podms{state="unread"} 1.0',
            'reader{holder="ctl-1 process 7"} 1.0',
            "state_up 1.0",
        ):
            self.assertIn(f"valence_scheduler_{line}\n", text)
        self.assertGreater(self.gauge("oldest_reading_seconds"), 0)
        gauges = re.findall(r"^# TYPE (\w+)(?<!_created) gauge", text, re.MULTILINE)
        self.assertEqual(9, len(gauges))
        for name in gauges:
            self.assertIn(f"``{name}``", PAGE.read_text(encoding="utf-8"))

    def test_the_lag_is_what_the_next_decision_takes_in(self):
        self.register("a")
        self.store.remember(podm("a"))
        self.call("GET", "/v1/podms")
        self.assertEqual(0, self.gauge("change_log_lag"))
        for blocks in (1, 2):
            self.store.remember(podm("a", blocks=blocks))
        self.assertEqual(2, self.gauge("change_log_lag"))
        self.call("GET", "/v1/podms")
        self.assertEqual(0, self.gauge("change_log_lag"))

    def test_recordings_have_no_lag(self):
        self.register("a")
        self.client = self.new_client(inventories=(EXAMPLE,))
        self.call("GET", "/v1/podms")
        self.assertEqual(0, self.gauge("change_log_lag"))
        self.assertIn('podms{state="unread"} 0.0', self.call("GET", "/metrics").text)
        self.assertEqual(("ok",), self.health())

    def gauge(self, name):
        text = self.call("GET", "/metrics").text
        return float(re.search(rf"^valence_scheduler_{name} ([\d.e+]+)$", text, re.MULTILINE)[1])

    def test_a_state_that_cannot_be_opened_is_no_end_of_metrics(self):
        client = testing.TestClient(self.new_process(state="/dev/null/x").application)
        with self.assertLogs("valence_sched.server", "WARNING"):
            text = client.simulate_get("/metrics").text
        self.assertIn("valence_scheduler_state_up 0.0", text)
        self.assertNotIn("change_log_lag", text)


class TestSettings(unittest.TestCase):
    def read(self, text):
        return convert(load_yaml(text.encode(), "f"), ServiceSettings, "f")

    def test_a_reader_is_switched_off_or_set(self):
        for text, found in (
            ("workers: 2", ReaderSettings()),
            ("reader: off", None),
            ("reader: on", ReaderSettings()),
            ("reader: {interval_s: 5, open_after: 2}", ReaderSettings(interval_s=5, open_after=2)),
        ):
            with self.subTest(text):
                self.assertEqual(found, self.read(text).reader_settings)

    def test_what_is_no_pace_is_refused(self):
        for text in ("{interval_s: 0}", "{jitter: 2}", "{lease_s: 0.1}", "sometimes", "{x: 1}"):
            with self.subTest(text), self.assertRaises(InputError):
                self.read(f"reader: {text}")


class TestReporting(unittest.TestCase):
    """S78: ``podm watch --report`` for pod managers that the service cannot reach."""

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        podms = self.enterContext(served(EXAMPLE))
        self.here = f"sqlite:///{self.folder}/here"
        with Store(self.here) as store:
            store.register(Registration(name="gpu-east", url=podms["gpu-east"].url))

    def watch(self, *targets):
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        app = App(environ=dict.fromkeys(homes, self.folder))
        told = []
        live = ReadOptions(state=self.here)
        app.watch(live, told.append, pace=ReadPace(), threads=2, once=True, report=targets)
        return told

    def test_the_service_decides_on_what_it_was_told(self):
        settings = ServiceSettings(state=f"sqlite:///{self.folder}/there")
        homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        url = self.enterContext(serving(settings, dict.fromkeys(homes, self.folder)))
        self.watch(url)
        result = RemoteScheduler(ServiceConnection(url)).select_destinations(request())
        self.assertEqual("gpu-east", result.report.placements[0].chosen.podm)

    def test_a_service_that_does_not_answer_ends_no_reading(self):
        told = self.watch("http://127.0.0.1:9")
        self.assertIn("http://127.0.0.1:9: not reported: gpu-east: ", told[-1])

    def test_what_cannot_be_a_target_is_refused_before_anything_is_read(self):
        for target, text in (("messaging", "name the file of the broker"), ("x", "expected")):
            with self.assertRaisesRegex(UsageError, text):
                self.watch(target)
