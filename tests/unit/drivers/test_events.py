# SPDX-License-Identifier: Apache-2.0
"""Events that are hints: those about documents that are read, in all forms of services."""

import contextlib
import itertools
import json
import threading
import time
import unittest
from unittest import mock

import msgspec
from hypothesis import given, strategies as st

from tests.unit.drivers.served import PASSWORD, SESSIONS, USER, Server
from tests.unit.simulator.site import SYSTEMS, documents
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.events import (
    MOST_BYTES,
    EventParser,
    EventStream,
    EventSubscription,
    NoEvents,
    PushedEvents,
    SubscriptionLeft,
    hint_of,
)
from valence_sched.drivers.http.connection import LoginRefused
from valence_sched.drivers.http.exchange import Unreachable
from valence_sched.errors import InputError, PodmError
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.documents import HttpReply
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

SYSTEM = "/redfish/v1/Systems/1"
TASK = "/redfish/v1/TaskService/Tasks/1"


def hint(*records):
    return hint_of(json.dumps({"Id": "1", "Events": list(records)}).encode())


class TestHint(unittest.TestCase):
    def test_messages_of_the_registries_of_resources_are_hints(self):
        record = {"EventType": "Other", "MessageId": "ResourceEvent.1.3.ResourceChanged",
                  "OriginOfCondition": {"@odata.id": SYSTEM}}  # fmt: skip
        self.assertEqual(f"ResourceChanged {SYSTEM}", hint(record))
        blocks = {"MessageId": "Composition.1.1.ResourceBlockPoolChanged"}
        self.assertEqual("ResourceBlockPoolChanged", hint(blocks))

    def test_types_and_origins_of_older_services_are_hints(self):
        older = {"EventType": "ResourceAdded", "OriginOfCondition": SYSTEM}
        self.assertEqual(f"ResourceAdded {SYSTEM}", hint(older))
        self.assertEqual("StatusChange", hint({"EventType": "StatusChange", "MessageId": "X1"}))

    def test_an_alert_about_hardware_is_a_hint_and_one_about_nothing_is_none(self):
        alert = {"EventType": "Alert", "MessageId": "CMC9000"}
        self.assertEqual(f"Alert {SYSTEM}", hint({**alert, "OriginOfCondition": SYSTEM}))
        self.assertIsNone(hint(alert))

    def test_what_a_reading_does_itself_is_no_hint(self):
        """A reading logs in and out: otherwise it would cause the next one."""
        for path in ("SessionService/Sessions/4", "sessionservice/Sessions/4", "EventService",
                     "AccountService/Accounts/2", "TaskService/Tasks/1",
                     "Managers/1/LogServices/Log/Entries/7"):  # fmt: skip
            record = {"EventType": "ResourceAdded",
                      "OriginOfCondition": {"@odata.id": f"/redfish/v1/{path}"}}  # fmt: skip
            self.assertIsNone(hint(record), path)
            self.assertEqual(f"ResourceAdded {SYSTEM}",
                             hint(record, {**record, "OriginOfCondition": SYSTEM}))  # fmt: skip

    def test_what_is_no_event_is_no_hint(self):
        for data in (b"", b"{", b"[]", b"7", b'{"Events": {}}', b'{"Events": [1, null, {}]}',
                     b'{"Events": [{"EventType": 4, "OriginOfCondition": [1]}]}', b"\xff",
                     b"[" * 100_000, b'{"MetricValues": []}'):  # fmt: skip
            self.assertIsNone(hint_of(data), data[:40])

    def test_a_hint_is_one_printable_line_of_bounded_length(self):
        text = hint({"EventType": "Alert", "OriginOfCondition": "/x\n\x1b[2J" + "y" * 5000})
        self.assertTrue(text.isprintable())
        self.assertLessEqual(len(text), 120)


def parsed(*pieces, most=1000):
    parser = EventParser(most)
    return [event for piece in pieces for event in parser.feed(piece)]


class TestEvents(unittest.TestCase):
    def test_an_event_is_its_data_lines_until_an_empty_line(self):
        stream = b': hello\n\nid: 1\nevent: x\ndata: {"a":\ndata:1}\n\ndata: two\n\ndata: not ended'
        self.assertEqual([b'{"a":\n1}', b"two"], parsed(stream))

    def test_each_end_of_a_line_counts(self):
        for end in (b"\n", b"\r", b"\r\n"):
            stream = end.join([b"data: one", b"", b"data: two", b"", b""])
            self.assertEqual([b"one", b"two"], parsed(stream), end)

    def test_lines_of_json_without_a_field_name_belong_to_the_data(self):
        stream = b'id: 0\ndata: {\n"Id":"9",\n"Events": [\n]\n}\n\n'
        self.assertEqual([b'{\n"Id":"9",\n"Events": [\n]\n}'], parsed(stream))

    def test_comments_alone_are_no_event_however_many(self):
        self.assertEqual([], parsed(*[b": keep-alive\n\n"] * 1000))
        self.assertEqual([], parsed(*[b"id: 1\nretry: 10\n\n"] * 1000))

    @given(
        st.lists(st.sampled_from([b"data: a", b"data:b", b": c", b"", b"id: 1", b"}"]), max_size=8),
        st.lists(st.integers(0, 60), max_size=6),
        st.sampled_from([b"\n", b"\r", b"\r\n"]),
    )
    def test_how_it_is_cut_into_pieces_changes_nothing(self, lines, cuts, end):
        stream = end.join([*lines, b"", b""])
        places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
        self.assertEqual(parsed(stream), parsed(*pieces))


class TestBounds(unittest.TestCase):
    def test_a_line_without_an_end_is_refused_when_it_is_too_long(self):
        parser = EventParser(100)
        with self.assertRaisesRegex(PodmError, "more than 100 bytes"):
            for _ in range(101):
                list(parser.feed(b"x"))

    def test_an_event_of_very_many_lines_is_refused(self):
        with self.assertRaisesRegex(PodmError, "more than 100 bytes"):
            parsed(b"data: 0123456789\n" * 20, most=100)

    def test_events_that_end_do_not_add_up(self):
        self.assertEqual(50, len(parsed(b"data: 0123456789\n\n" * 50, most=100)))


PATIENCE_S = 30
ROOT = "/redfish/v1"
SERVICE, SSE = f"{ROOT}/EventService", f"{ROOT}/EventService/SSE"


class Follower:
    """A stream followed by a thread: its hints, and its end."""

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


class TestStream(unittest.TestCase):
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
            ("stream-cut:0", "a truncated answer"),
            ("stream-endless", "an event of more than 1048576 bytes"),
            ("stream-redirect", "redirects its event stream, and redirects are not followed"),
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


class TestHostileStream(unittest.TestCase):
    """Streams that only a malicious service sends."""

    def serve(self, *writes, uri=SSE, headers=None, pause_s=0.0):
        """Serve a stream of these pieces repeatedly until the client leaves."""

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
        follower = Follower(self, self.serve((b": " + b"x" * 500 + b"\n\n") * 100).url)
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


ADDRESS = EventAddress("http://127.0.0.1:9", "a secret of the site")
COLLECTION = f"{SERVICE}/Subscriptions"
BODY = {"Protocol": "Redfish", "Context": "another client"}


class SubscriptionCase(unittest.TestCase):
    """A subscription followed by a thread."""

    def serve(self, *fail, **settings):
        podms = self.enterContext(
            served(documents={"p": documents()}, fail=fail, settings=SimulatorSettings(**settings))
        )
        return podms["p"]

    def follow(self, podm, *, stream=False, **words):
        target = ReadTarget(Registration(name="p", url=podm.url, username=USER), PASSWORD)
        self.events = EventSubscription(target, ADDRESS, 10.0, **words)
        if stream:
            self.events = PushedEvents(EventStream(target, 10.0), self.events)
        self.error, self.opened = None, threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.addCleanup(self.end)

    def _run(self):
        try:
            self.events.follow(self.opened.set, self.fail)
        except (PodmError, InputError) as error:
            self.error = error

    def end(self):
        self.events.cut()
        self.join()

    def join(self):
        self.thread.join(PATIENCE_S)
        self.assertFalse(self.thread.is_alive())

    def subscriptions(self, podm):
        return [podm.documents.get(uri) for uri in podm.documents.member_uris(COLLECTION)]

    def subscribe(self, podm, destination, **words):
        """Subscribe as another client."""
        body = {**BODY, "Destination": destination, **words}
        return podm.app.podm.subscriptions.create(body).headers["Location"]


class TestSubscription(SubscriptionCase):
    """Simulated pod managers without a stream."""

    def test_it_is_made_and_deleted_in_the_end_and_no_session_stays(self):
        podm = self.serve("no-stream", login=Account(USER, PASSWORD))
        self.follow(podm, stream=True)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        (made,) = self.subscriptions(podm)
        self.assertEqual(ADDRESS.destination("p"), made["Destination"])
        self.assertEqual(0, podm.open_sessions)
        self.end()
        self.assertIsNone(self.error)
        self.assertEqual(([], 0), (self.subscriptions(podm), podm.open_sessions))

    def test_one_with_a_stream_is_not_subscribed_to(self):
        podm = self.serve()
        self.follow(podm, stream=True)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        self.assertEqual([], self.subscriptions(podm))
        self.end()

    def test_what_an_earlier_process_left_is_deleted_and_what_others_have_is_not(self):
        for page_size in (0, 1):
            with self.subTest(page_size=page_size):
                podm = self.serve("no-stream", page_size=page_size)
                self.subscribe(podm, ADDRESS.destination("p"))
                other = self.subscribe(podm, "http://127.0.0.1:9/elsewhere")
                self.subscribe(podm, ADDRESS.destination("its earlier name"))
                self.follow(podm)
                self.assertTrue(self.opened.wait(PATIENCE_S))
                self.assertEqual(2, len(self.subscriptions(podm)))
                self.end()
                self.assertEqual([other], podm.documents.member_uris(COLLECTION))

    def test_one_that_a_task_creates_is_followed_and_deleted(self):
        """The monitor of the task is gone at its end, or is the task or the subscription."""
        for state, copies in ((None, False), ("Completed", False), (None, True)):
            with self.subTest(state=state, copies=copies):
                podm = self.serve("no-stream")
                create = podm.app.podm.subscriptions.create

                def accept(body, podm=podm, create=create, state=state, copies=copies):
                    uri = create(body).headers["Location"]
                    if state or copies:
                        task = {"@odata.id": TASK, "TaskState": state}
                        podm.documents.put(TASK, podm.documents.get(uri) if copies else task)
                    return HttpReply(202, {}, {"Location": TASK})

                podm.app.podm.subscriptions.create = accept
                self.follow(podm)
                self.assertTrue(self.opened.wait(PATIENCE_S), self.error)
                self.assertEqual(1, len(self.subscriptions(podm)))
                self.end()
                self.assertIsNone(self.error)
                self.assertEqual([], self.subscriptions(podm))

    def test_a_leftover_is_deleted_even_if_another_subscription_is_unreadable(self):
        for fault in ("status:500", "html", "body:text"):
            with self.subTest(fault):
                podm = self.serve("no-stream", f"{fault}:GET:{COLLECTION}/1")
                other = self.subscribe(podm, "http://127.0.0.1:9/elsewhere")
                self.subscribe(podm, ADDRESS.destination("p"))
                self.follow(podm)
                self.assertTrue(self.opened.wait(PATIENCE_S), self.error)
                self.end()
                self.assertEqual([other], podm.documents.member_uris(COLLECTION))

    def test_one_that_the_pod_manager_drops_is_missed(self):
        podm = self.serve("no-stream")
        self.follow(podm, check_s=0.05)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        podm.app.podm.subscriptions.delete(podm.documents.member_uris(COLLECTION)[0])
        self.join()
        self.assertIn("dropped the event subscription", str(self.error))

    def test_one_that_stands_in_its_place_by_now_is_not_deleted(self):
        podm = self.serve("no-stream")
        self.follow(podm)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        (uri,) = podm.documents.member_uris(COLLECTION)
        podm.app.podm.subscriptions.delete(uri)
        self.assertEqual(uri, self.subscribe(podm, ADDRESS.destination("p")))
        self.end()
        self.assertIsNone(self.error)
        self.assertEqual([uri], podm.documents.member_uris(COLLECTION))

    def test_without_both_no_events_are_offered(self):
        self.follow(self.serve("no-events"), stream=True)
        self.join()
        self.assertIsInstance(self.error, NoEvents)

    def test_only_events_of_resources_are_asked_for(self):
        for offered, key, expected in (
            ({"RegistryPrefixes": ["Base", "ResourceEvent"]}, "RegistryPrefixes", "ResourceEvent"),
            ({"EventTypesForSubscription": ["Alert", "ResourceAdded"]}, "EventTypes",
             "ResourceAdded"),
        ):  # fmt: skip
            with self.subTest(key):
                podm = self.serve("no-stream")
                podm.documents.put(SERVICE, {**podm.documents.get(SERVICE), **offered})
                subscriptions = podm.app.podm.subscriptions
                with mock.patch.object(
                    subscriptions, "create", wraps=subscriptions.create
                ) as create:
                    self.follow(podm)
                    self.assertTrue(self.opened.wait(PATIENCE_S))
                    self.end()
                self.assertEqual([expected], create.call_args.args[0][key])


class TestHostileSubscription(SubscriptionCase):
    """Pod managers that refuse, lie, or keep deleted subscriptions; no secret is repeated."""

    def test_it_says_why_there_are_no_events(self):
        for fail, text in (
            (f"status:503:POST:{COLLECTION}", "refuses to send events: HTTP 503"),
            (f"lie:POST:{COLLECTION}", "refuses to send events"),
            (f"body:text:POST:{COLLECTION}", None),
            (f"html:POST:{COLLECTION}", "without its URI in the answer|a page of HTML"),
            (f"drop-reply:POST:{COLLECTION}", "connection"),
            (f"status:404:GET:{COLLECTION}/1", "dropped the event subscription"),
        ):
            with self.subTest(fail):
                podm = self.serve("no-stream", fail)
                self.follow(podm)
                if text is None:
                    self.assertTrue(self.opened.wait(PATIENCE_S))
                    self.end()
                    continue
                self.join()
                self.assertRegex(str(self.error), text)
                self.assertNotIn(ADDRESS.destination("p"), str(self.error))
                self.assertEqual(0, podm.open_sessions)

    def test_a_subscription_to_somewhere_else_is_not_taken_for_it(self):
        podm = self.serve("no-stream")
        create = podm.app.podm.subscriptions.create
        elsewhere = {"Destination": "http://127.0.0.1:9/x", "Context": "of somebody else"}
        podm.app.podm.subscriptions.create = lambda body: create({**body, **elsewhere})
        self.follow(podm)
        self.join()
        self.assertIn("changed the requested event subscription", str(self.error))
        self.assertEqual(1, len(self.subscriptions(podm)))  # it belongs to another client

    def test_one_that_stays_is_told(self):
        podm = self.serve("no-stream", f"status:503:DELETE:{COLLECTION}/1")
        self.follow(podm)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        self.end()
        self.assertIsInstance(self.error, SubscriptionLeft)
        self.assertNotIn(ADDRESS.destination("p"), str(self.error))

    def test_cut_ends_one_that_is_not_answered(self):
        podm = self.serve("no-stream", f"hang:POST:{COLLECTION}")
        self.follow(podm)
        until = time.monotonic() + PATIENCE_S
        while not any(seen.path == SERVICE for seen in podm.requests):
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        self.end()
        self.assertIsInstance(self.error, PodmError)
