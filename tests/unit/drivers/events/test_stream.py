# SPDX-License-Identifier: Apache-2.0
"""Event streams over a socket: what is followed, how it ends, and what a hostile one does."""

import contextlib
import threading
import time
import unittest

import msgspec

from tests.unit.drivers.served import PASSWORD, SESSIONS, USER, Server
from tests.unit.simulator.site import SYSTEMS, documents
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.events import MOST_BYTES, EventStream, NoEvents
from valence_sched.drivers.http.exchange import Unreachable
from valence_sched.drivers.http.login import LoginRefused
from valence_sched.errors import InputError, PodmError
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

PATIENCE_S = 30
ROOT = "/redfish/v1"
SERVICE, SSE = f"{ROOT}/EventService", f"{ROOT}/EventService/SSE"


class Follower:
    """A stream that a thread follows: its hints, and how it ended."""

    def __init__(self, case, url, password=None, username=None, **words):
        target = ReadTarget(Registration(name="p", url=url, username=username), password)
        self.stream = EventStream(target, 10.0, **words)
        self.hints, self.error = [], None
        self.open, self.hinted = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        case.addCleanup(self.end)

    def _run(self):
        try:
            self.stream.follow(self.open.set, self._hint)
        except (PodmError, InputError) as error:
            self.error = error

    def _hint(self, text):
        self.hints.append(text)
        self.hinted.set()

    def end(self):
        self.stream.cut()
        self.join()

    def join(self):
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


class TestServed(unittest.TestCase):
    """Streams of simulated pod managers."""

    def serve(self, *fail, **settings):
        podms = self.enterContext(
            served(documents={"p": documents()}, fail=fail, settings=SimulatorSettings(**settings))
        )
        return podms["p"]

    def change(self, podm, uri=SYSTEMS):
        podm.documents.put(uri, {**podm.documents.get(uri), "Description": str(time.monotonic())})

    def test_a_change_is_a_hint_and_the_session_is_deleted_in_the_end(self):
        podm = self.serve(login=Account(USER, PASSWORD))
        follower = Follower(self, podm.url, PASSWORD, USER)
        self.assertTrue(follower.open.wait(PATIENCE_S))
        self.assertEqual(1, podm.open_sessions)
        self.change(podm)
        self.assertTrue(follower.hinted.wait(PATIENCE_S))
        self.assertEqual([f"ResourceChanged {SYSTEMS}"], follower.hints)
        follower.end()
        self.assertEqual(0, podm.open_sessions)

    def test_sessions_of_others_are_no_hints(self):
        podm = self.serve()
        follower = Follower(self, podm.url)
        self.assertTrue(follower.open.wait(PATIENCE_S))
        other = Follower(self, podm.url, PASSWORD, USER)
        self.assertTrue(other.open.wait(PATIENCE_S))
        other.end()
        self.change(podm)
        self.assertTrue(follower.hinted.wait(PATIENCE_S))
        self.assertEqual([f"ResourceChanged {SYSTEMS}"], follower.hints)

    def test_without_a_stream_no_events_are_offered(self):
        follower = Follower(self, self.serve("no-events").url)
        follower.join()
        self.assertIsInstance(follower.error, NoEvents)

    def test_a_wrong_password_is_refused(self):
        follower = Follower(self, self.serve(login=Account(USER, PASSWORD)).url, "wrong", USER)
        follower.join()
        self.assertIsInstance(follower.error, LoginRefused)
        self.assertNotIn("wrong", str(follower.error))

    def test_a_stream_that_is_cut_or_refused_says_why(self):
        for fail, text in (
            ("stream-cut:0", "an answer that ends too early"),
            ("stream-endless", "an event of more than 1048576 bytes"),
            ("stream-redirect", "redirects its event stream, which is not followed"),
            (f"status:503:{SSE}", "found HTTP 503, expected text/event-stream"),
            (f"html:{SSE}", "found text/html, expected text/event-stream"),
            (f"drop-reply:{SERVICE}", "connection"),
        ):
            with self.subTest(fail):
                podm = self.serve(fail)
                follower = Follower(self, podm.url)
                follower.join()
                self.assertIn(text, str(follower.error))
                self.assertEqual(0, podm.open_sessions)

    def test_cut_ends_one_that_is_not_answered(self):
        podm = self.serve(f"hang:{SSE}")
        follower = Follower(self, podm.url)
        until = time.monotonic() + PATIENCE_S
        while not any(seen.path == SERVICE for seen in podm.requests):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        follower.end()
        self.assertIsInstance(follower.error, Unreachable)


class TestHostile(unittest.TestCase):
    """Streams that no service of good will sends."""

    def serve(self, *writes, uri=SSE, headers=None, pause_s=0.0):
        """Serve a stream of these pieces, again and again until the client is gone."""

        def rule(handler):
            if handler.path != SSE:
                return False
            handler.send_response(200)
            for name, value in (headers or {"Content-Type": "text/event-stream"}).items():
                handler.send_header(name, value)
            handler.end_headers()
            with contextlib.suppress(OSError):
                while not server.stop.is_set():
                    for piece in writes:
                        handler.wfile.write(piece)
                        handler.wfile.flush()
                    server.stop.wait(pause_s)
            handler.close_connection = True
            return True

        root = {"@odata.id": ROOT, "EventService": {"@odata.id": SERVICE}}
        service = {"@odata.id": SERVICE, "ServerSentEventUri": uri}
        content = {ROOT: root, SERVICE: service}
        server = Server(
            {key: msgspec.json.encode(value) for key, value in content.items()}, rules=[rule]
        )
        self.addCleanup(server.close)
        return server

    def test_a_stream_on_another_host_is_not_opened(self):
        follower = Follower(self, self.serve(b"", uri="https://elsewhere.example.net/SSE").url)
        follower.join()
        self.assertIn("a link to elsewhere.example.net", str(follower.error))

    def test_a_flood_is_cut_after_so_many_bytes(self):
        follower = Follower(self, self.serve(b": x\n\n" * 10_000).url)
        follower.join()
        found = f"more than {MOST_BYTES} bytes of events in a minute"
        self.assertIn(found, str(follower.error))
        self.assertEqual([], follower.hints)

    def test_a_quiet_one_is_given_up(self):
        follower = Follower(self, self.serve(b"", pause_s=20.0).url, quiet_s=0.2)
        follower.join()
        self.assertIn("no answer in time", str(follower.error))

    def test_one_that_drips_is_followed_and_ends_when_it_is_cut(self):
        server = self.serve(b"d", b"a", b"t", b"a", b": 1\n\n", pause_s=0.01)
        follower = Follower(self, server.url)
        self.assertTrue(follower.open.wait(PATIENCE_S))
        follower.end()
        self.assertEqual([], follower.hints)

    def test_no_session_is_left_where_the_stream_is_refused(self):
        server = self.serve(b"", headers={"Content-Type": "application/json"}, pause_s=20.0)
        server.login = (USER, PASSWORD)
        follower = Follower(self, server.url, PASSWORD, USER)
        follower.join()
        self.assertIn("found application/json", str(follower.error))
        self.assertEqual((1, set()), (server.made, server.sessions))
        self.assertIn(("POST", SESSIONS), server.log)


if __name__ == "__main__":
    unittest.main()
