# SPDX-License-Identifier: Apache-2.0
"""Event subscriptions over a socket: made, looked at, deleted, and what a hostile service does."""

import threading
import time
import unittest
from unittest import mock

from tests.unit.drivers.served import PASSWORD, USER
from tests.unit.simulator.site import documents
from valence_sched.drivers.crawl.reading import ReadTarget
from valence_sched.drivers.events import (
    EventStream,
    EventSubscription,
    NoEvents,
    PushedEvents,
    SubscriptionLeft,
)
from valence_sched.errors import InputError, PodmError
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.simulator.server.services import Account
from valence_sched.testing.served import served

PATIENCE_S = 30
ADDRESS = EventAddress("http://127.0.0.1:9", "a secret of the site")
SERVICE = "/redfish/v1/EventService"
COLLECTION = f"{SERVICE}/Subscriptions"
BODY = {"Protocol": "Redfish", "Context": "another client"}


class SubscriptionCase(unittest.TestCase):
    """A subscription that a thread follows."""

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
        """Make a subscription as another client does."""
        body = {**BODY, "Destination": destination, **words}
        return podm.app.podm.subscriptions.create(body).headers["Location"]


class TestServed(SubscriptionCase):
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

    def test_one_that_the_pod_manager_drops_is_missed(self):
        podm = self.serve("no-stream")
        self.follow(podm, check_s=0.05)
        self.assertTrue(self.opened.wait(PATIENCE_S))
        podm.app.podm.subscriptions.delete(podm.documents.member_uris(COLLECTION)[0])
        self.join()
        self.assertIn("has dropped its subscription", str(self.error))

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


class TestHostile(SubscriptionCase):
    """Pod managers that refuse, lie, or keep what was deleted; the secret is never repeated."""

    def test_it_says_why_there_are_no_events(self):
        for fail, text in (
            (f"status:503:POST:{COLLECTION}", "refuses to send events: HTTP 503"),
            (f"lie:POST:{COLLECTION}", "refuses to send events"),
            (f"body:text:POST:{COLLECTION}", None),
            (f"html:POST:{COLLECTION}", "without saying where it is|a page of HTML"),
            (f"drop-reply:POST:{COLLECTION}", "connection"),
            (f"status:404:GET:{COLLECTION}/1", "has dropped its subscription"),
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
        self.assertIn("another subscription to events than was asked for", str(self.error))
        self.assertEqual(1, len(self.subscriptions(podm)))  # it is somebody else's

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
