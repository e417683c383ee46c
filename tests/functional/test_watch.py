# SPDX-License-Identifier: Apache-2.0
"""``podm watch``: its readings, its output, its end, and the takeover after it is killed."""

import contextlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import sqlalchemy as sa

from tests.functional.programs import BIN, PROGRAMS, ROOT, SITE, environment, run
from tests.unit.lifecycle.site import request
from tests.unit.messaging.broker import BrokerCase
from tests.unit.store.engines import raw_engine
from valence_sched.app import App
from valence_sched.inventory.background_reader import LEASE
from valence_sched.model.dispatch import MessagingSettings, UrlReference
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.model.registration import Registration
from valence_sched.store import tables
from valence_sched.store.store import Store
from valence_sched.testing.served import served

PATIENCE_S = 60


class Watch:
    """A running ``podm watch``, and its lines as they arrive."""

    def __init__(self, case: unittest.TestCase, state: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [BIN / "valence-sched", "podm", "watch", "--state", state, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            env=environment(),
        )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        case.addCleanup(self.close)

    def _read(self) -> None:
        for line in self.process.stderr:
            at, _, text = line.strip().partition(" ")
            if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", at):  # each line begins with a time
                self._lines.put(text)

    def line(self) -> str:
        """Return the next line."""
        return self._lines.get(timeout=PATIENCE_S)

    def is_silent(self) -> bool:
        return self._lines.empty()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.process.stdout.close()
        self.process.stderr.close()


class WatchCase(unittest.TestCase):
    """Registered pod managers, of which one does not answer; a base of test cases."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.state = str(self.folder / "state.sqlite")
        self.store = Store(f"sqlite:///{self.state}")
        self.addCleanup(self.store.close)

    def serve(self):
        podms = self.enterContext(served(SITE))
        for name, one in podms.items():
            self.store.register(Registration(name=name, url=one.url))
        self.store.register(Registration(name="gone", url="http://127.0.0.1:9"))
        return podms

    def wait_until(self, holds):
        until = time.monotonic() + PATIENCE_S
        while not holds():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)


class TestOnce(WatchCase):
    """All pod managers are read once."""

    def test_each_is_stored_and_what_cannot_be_read_is_said(self):
        podms = self.serve()
        for program in PROGRAMS:
            with self.subTest(program):
                done = run(program, "podm", "watch", "--once", "--state", self.state)
                self.assertEqual((0, ""), (done.code, done.out), done)
                last = done.err.splitlines()[-1]
                self.assertRegex(last, "Z gone: unreachable: .* refused")
                self.assertEqual({*podms, "gone"}, {*self.store.load_podms()})
                self.assertEqual(["gone"], [*self.store.failures()])
                self.assertIsNone(self.store.leases.holder(LEASE))

    def test_the_stored_answers_are_those_of_a_live_reading(self):
        podms = self.serve()
        cache = {"XDG_CACHE_HOME": str(self.folder)}
        run("valence-sched", "podm", "watch", "--once", "--state", self.state, **cache)
        requests = {name: len(one.requests) for name, one in podms.items()}
        stored = self.answers(stored=True)
        self.assertEqual(requests, {name: len(one.requests) for name, one in podms.items()})
        self.assertEqual(self.answers(stored=False), stored)

    def answers(self, *, stored):
        # a separate cache: another pod manager may have used the port before
        homes = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME")
        app = App(environ=dict.fromkeys(homes, str(self.folder)))
        state = f"sqlite:///{self.state}"
        live = ReadOptions(state=state, stored=stored, timeout_s=20.0)
        engine = app.engine(Selection(live=live))
        self.addCleanup(engine.close)
        asked = request(seed=1)
        answers = (
            engine.select_destinations(asked, detail="report").report,
            engine.rank(asked, 20),
            engine.count_fits(asked, 5),
            [(one.podm.id, one.podm.status, one.amounts, one.live) for one in engine.podms()],
            list(engine.blocks(BlockFilter())),
            engine.pools(),
            engine.device_counts(BlockFilter()),
        )
        return answers, app.diagnostics.lines("unread")

    def test_none_that_can_be_read_exits_5_and_none_at_all_2(self):
        words = ("podm", "watch", "--once", "--state", self.state)
        done = run("valence-sched", *words)
        self.assertEqual((2, ""), (done.code, done.out))
        self.assertIn("no pod manager is registered: register one with podm create", done.err)
        self.store.register(Registration(name="gone", url="http://127.0.0.1:9"))
        done = run("valence-sched", *words)
        self.assertEqual(5, done.code)
        self.assertIn("no pod manager could be read: check that", done.err.splitlines()[-1])

    def test_while_another_process_reads_it_is_refused(self):
        self.serve()
        self.store.leases.acquire(LEASE, "elsewhere", 60.0)
        done = run("valence-sched", "podm", "watch", "--once", "--state", self.state)
        self.assertEqual(1, done.code)
        self.assertIn("another process (elsewhere) already reads the pod managers", done.err)


class TestWatch(WatchCase):
    """``podm watch`` until it is ended."""

    def test_a_signal_ends_it_well_and_frees_the_lease(self):
        self.serve()
        for number in (signal.SIGINT, signal.SIGTERM):
            watch = Watch(self, self.state)
            self.assertIn("leader: this process", watch.line())
            while "gone: unreachable" not in (line := watch.line()) and "before" not in line:
                pass
            watch.process.send_signal(number)
            self.assertEqual(0, watch.process.wait(PATIENCE_S))
            self.assertIsNone(self.store.leases.holder(LEASE))

    def test_when_it_is_killed_another_goes_on(self):
        """The lease expires by the clock of the database; the test sets its end."""
        self.serve()
        first = Watch(self, self.state, "--interval", "1")
        self.assertIn("leader: this process", first.line())
        holder = self.store.leases.holder(LEASE)
        second = Watch(self, self.state, "--interval", "1")
        self.wait_until(lambda: len(self.store.load_podms()) == 9)
        first.process.kill()
        first.process.wait()
        self.assertEqual(holder, self.store.leases.holder(LEASE))
        self.assertTrue(second.is_silent())
        engine = raw_engine(f"sqlite:///{self.state}")
        with engine.begin() as connection:
            connection.execute(sa.update(tables.leases).values(expires_at=1.0))
        engine.dispose()
        before = self.store.read_times(["gpu-east"])
        self.assertIn("leader: this process", second.line())
        self.wait_until(lambda: self.store.read_times(["gpu-east"]) != before)
        self.assertNotEqual(holder, self.store.leases.holder(LEASE))

    def test_an_event_is_a_reading_and_the_line_says_which(self):
        """With an interval of an hour, only the event causes a reading."""
        podms = self.serve()
        watch = Watch(self, self.state, "--interval", "3600", "--event-pause", "1")
        lines = [watch.line()]
        while "gone: unreachable" not in "".join(lines) or sum(
            "subscribed" in line for line in lines
        ) < len(podms):
            lines.append(watch.line())
        self.wait_until(lambda: {*podms} <= {*self.store.load_podms()})
        tree = podms["gpu-east"].documents
        uri = tree.member_uris("/redfish/v1/CompositionService/ResourceBlocks")[0]
        before = self.store.load_podms()["gpu-east"]
        tree.put(uri, {**tree.get(uri), "CompositionStatus": {"CompositionState": "Failed"}})
        line = watch.line()
        self.assertRegex(line, f"^gpu-east: changed, read on an event: ResourceChanged {uri}$")
        changed = set(self.store.load_podms()["gpu-east"].blocks) ^ set(before.blocks)
        self.assertEqual({uri}, {one.uri for one in changed})
        watch.process.terminate()
        self.assertEqual(0, watch.process.wait(PATIENCE_S))
        self.assertEqual(0, podms["gpu-east"].open_sessions)

    def test_without_events_no_stream_is_opened(self):
        podms = self.serve()
        watch = Watch(self, self.state, "--no-events")
        self.assertIn("leader: this process", watch.line())
        self.wait_until(lambda: {*podms} <= {*self.store.load_podms()})
        for podm in podms.values():
            self.assertFalse([seen for seen in podm.requests if "EventService" in seen.path])


class TestMessaging(WatchCase, BrokerCase):
    """Hints over a real RabbitMQ."""

    def setUp(self):
        BrokerCase.setUp(self)
        WatchCase.setUp(self)

    def test_it_hears_hints_and_sends_them(self):
        """With an interval of an hour, only a hint causes a reading."""
        heard = queue.SimpleQueue()
        messaging = MessagingSettings(url=UrlReference(env="BROKER"), topic=self.topic)
        fanout = App(environ={"BROKER": self.url}).hint_fanout(messaging, heard.put)
        self.addCleanup(fanout.close)
        fanout.start()
        self.assertTrue(fanout.listening.wait(PATIENCE_S))
        podms = self.serve()
        file, secret = self.folder / "messaging.yaml", self.folder / "url"
        secret.write_text(f"{self.url}\n")
        secret.chmod(0o600)
        file.write_text(f"url: {{file: {secret}}}\ntopic: {self.topic}\n")
        words = ("--interval", "3600", "--event-pause", "1", "--no-events")
        watch = Watch(self, self.state, *words, "--messaging", str(file))
        names = set()
        while not {*podms} <= names:
            names.update(heard.get(timeout=PATIENCE_S))
        tree = podms["gpu-east"].documents
        uri = tree.member_uris("/redfish/v1/CompositionService/ResourceBlocks")[0]
        tree.put(uri, {**tree.get(uri), "CompositionStatus": {"CompositionState": "Failed"}})
        until = time.monotonic() + PATIENCE_S
        found = None
        while found != ("gpu-east",) and time.monotonic() < until:
            fanout.send(["gpu-east", "nobody"])  # it may not receive hints yet
            with contextlib.suppress(queue.Empty):
                found = heard.get(timeout=1)
        self.assertEqual(("gpu-east",), found)
        lines = []
        while "changed" not in "".join(lines):
            lines.append(watch.line())
        self.assertIn("gpu-east: changed, read on a hint of another process", lines)
        watch.process.terminate()
        self.assertEqual(0, watch.process.wait(PATIENCE_S))


if __name__ == "__main__":
    unittest.main()
