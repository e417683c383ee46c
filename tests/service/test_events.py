# SPDX-License-Identifier: Apache-2.0
"""Events from pod managers to the service: they are only hints to read."""

import socket
from types import MappingProxyType

from tests.service.application import EXAMPLE, ApplicationCase
from tests.service.serving import serving, wait_for
from valence_sched.errors import InputError, UsageError
from valence_sched.inventory.events import RECORD
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.registration import PasswordReference, Registration
from valence_sched.server.wiring import configuration_problems
from valence_sched.service.settings import (
    EventReceiverSettings,
    RateSettings,
    ReaderSettings,
    ServiceSettings,
    check_settings,
)
from valence_sched.simulator.redfish.composition import blocks
from valence_sched.store.store import Store
from valence_sched.testing.served import served

SECRET, VARIABLE = "the secret of the receiver", "EVENTS_SECRET"
URL = "http://127.0.0.1:8790"
REFERENCE = PasswordReference(env=VARIABLE)
COLLECTION = "/redfish/v1/EventService/Subscriptions"
EVENT = {"Events": [{"MessageId": "ResourceEvent.1.3.ResourceChanged"}], "Context": "c"}


def reader(url=URL, **words):
    """Return settings of a reader that receives events."""
    receiver = EventReceiverSettings(url=url, secret=REFERENCE)
    return ReaderSettings(
        **{"interval_s": 3600.0, "event_pause_s": 0.05, "events": "push", "receiver": receiver}
        | words
    )


class EventsCase(ApplicationCase):
    settings = MappingProxyType({"reader": reader()})

    def new_process(self, **words):
        self.environ[VARIABLE] = SECRET
        return super().new_process(**words)

    def setUp(self):
        super().setUp()
        self.address = EventAddress(URL, SECRET)

    def path(self, name="p"):
        return self.address.destination(name).removeprefix(URL)

    def send(self, event=EVENT, path=None, **words):
        return self.call("POST", path or self.path(), event, **words)

    def hints(self):
        with Store(self.state) as store:
            return store.records.take_words(RECORD)


class TestReceiving(EventsCase):
    """Events that arrive at the route."""

    def test_an_event_is_kept_once_until_it_is_taken(self):
        for _ in range(3):
            self.assertEqual((204, ""), (self.send().status_code, self.send().text))
        self.send(path=self.path("q"))
        self.assertEqual([b"p", b"q"], sorted(self.hints()))
        self.send()
        self.assertEqual([b"p"], self.hints())

    def test_an_event_that_is_about_nothing_that_is_read_is_no_hint(self):
        session = {"OriginOfCondition": {"@odata.id": "/redfish/v1/SessionService/Sessions/1"}}
        for event in ({}, {"Events": []}, {"Events": [{}]}, {"Events": [session]}):
            self.assertEqual(204, self.send(event).status_code)
        self.assertEqual([], self.hints())

    def test_nobody_without_a_token_is_heard(self):
        token = self.path().rpartition("/")[2]
        for path in ("/v1/events/x", "/v1/events/p.p", f"/v1/events/{token}x", "/v1/events/%00"):
            with self.subTest(path):
                self.check_problem(self.send(path=path), 404, "nothing_matches")
        self.assertEqual([], self.hints())

    def test_a_service_that_is_sent_none_takes_none(self):
        self.client = self.new_client(reader=ReaderSettings())
        self.check_problem(self.send(), 404, "nothing_matches")

    def test_a_hostile_body_is_refused_and_is_read_of_a_token_alone(self):
        large = b"[" + b"1," * (1 << 20) + b"1]"
        words = {"content_type": "application/json"}
        for body, status in (
            (b"", 204), (b"{}", 204), (b"{", 400), (b"[]", 400), (b'{"Events": 1}', 400),
            (b'{"Events": [1]}', 400), (b"[" * 100_000, 400), (b'{"a":' * 50_000, 400),
            (b"\xff", 400), (large, 413), (b'{"Events": [{"MessageId": 7}]}', 204),
        ):  # fmt: skip
            with self.subTest(body[:20]):
                result = self.client.simulate_post(
                    self.path(), body=body, headers={"Content-Type": "application/json"}
                )
                self.assertEqual(status, result.status_code, result.text[:200])
        refused = self.client.simulate_post("/v1/events/x", body=large, **words)
        self.assertEqual(404, refused.status_code)
        plain = self.client.simulate_post(self.path(), body=b"{}", content_type="text/plain")
        self.assertEqual(415, plain.status_code)
        self.assertEqual([], self.hints())

    def test_the_token_is_in_no_log(self):
        token = self.path().rpartition("/")[2]
        with self.assertLogs("valence_sched", "DEBUG") as logs:
            self.send()
            self.send({"Events": 1})
            self.call("GET", self.path())
            self.send(path=f"{self.path()}/more")
            self.send(path=f"/v1/events/{token}x")
        self.assertEqual(5, sum("/v1/events/***" in line for line in logs.output))
        self.assertNotIn(token, "\n".join(logs.output))

    def test_one_that_sends_too_often_waits_and_stops_nobody_else(self):
        self.log_in("ann:admin", rate_limits=RateSettings(requests="3/hour", failures="2/hour"))
        statuses = [self.send().status_code for _ in range(5)]
        self.assertEqual([204, 204, 204, 429, 429], statuses)
        self.assertEqual(204, self.send(path=self.path("q")).status_code)
        self.assertEqual(200, self.call("GET", "/v1/flavors", user="ann").status_code)
        statuses = [self.send(path="/v1/events/x").status_code for _ in range(3)]
        self.assertEqual([404, 404, 429], statuses)


class TestSettings(EventsCase):
    """Settings that prevent the start of the service."""

    def test_push_and_a_receiver_come_together(self):
        for settings, words in (
            (reader(receiver=None), "events: push and a receiver"),
            (reader(events="sse"), "events: push and a receiver"),
            (reader(receiver=EventReceiverSettings(url=URL, secret=PasswordReference())),
             "secret must refer to either"),
        ):  # fmt: skip
            with self.subTest(words), self.assertRaisesRegex(UsageError, words):
                check_settings(ServiceSettings(reader=settings), "f")
        check_settings(ServiceSettings(reader=reader()), "f")

    def test_a_wrong_address_is_a_problem_of_the_configuration(self):
        settings = ServiceSettings(state=self.state, reader=reader("ftp://somewhere"))
        (problem,) = configuration_problems(settings, self.environ)
        self.assertRegex(str(problem), "reader: receiver: url: found an invalid URL")
        with self.assertRaises(InputError):
            self.new_process(reader=reader("ftp://somewhere"))


class TestPush(ApplicationCase):
    """Pod managers that only offer subscriptions, and a service with a port."""

    def test_a_change_is_read_on_an_event_and_the_subscription_ends_with_the_service(self):
        podms = self.enterContext(served(EXAMPLE, fail=("no-stream",)))
        podm = podms["gpu-east"]
        with Store(self.state) as store:
            store.register(Registration(name="gpu-east", url=podm.url))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        environ = {**self.environ, VARIABLE: SECRET}
        settings = ServiceSettings(state=self.state, reader=reader(f"http://127.0.0.1:{port}"))
        with serving(settings, environ, port), Store(self.state) as store:
            wait_for(lambda: podm.documents.member_uris(COLLECTION))
            wait_for(lambda: store.load_podms().get("gpu-east"))
            before = store.load_podms()["gpu-east"].generation
            uri, json = next(iter(blocks(podm.documents)))
            status = {**json["CompositionStatus"], "Reserved": True}
            podm.documents.put(uri, {**json, "CompositionStatus": status})
            wait_for(lambda: store.load_podms()["gpu-east"].generation != before)
        self.assertEqual([], podm.documents.member_uris(COLLECTION))
