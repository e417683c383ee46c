# SPDX-License-Identifier: Apache-2.0
"""Decisions dispatched to a controller, over real sockets."""

import contextlib
import http.server
import json
import ssl
import tempfile
import threading
import unittest
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.loopback import LoopbackServer
from tests.unit.certificates import LOOPBACK, server_context
from valence_sched.errors import DispatchFailed, RequestError, UsageError
from valence_sched.integrations.dispatchers.valence import properties, valence
from valence_sched.integrations.dispatchers.webhook import (
    CLAIM,
    SIGNATURE,
    TIMESTAMP,
    signature,
    webhook,
)
from valence_sched.model.decision import Candidate, Placement
from valence_sched.model.dispatch import Order
from valence_sched.model.flavor import Flavor


def placed(node: int, podm: str) -> Placement:
    chosen = Candidate(podm=podm, pool="p", score=1.0, cost=0, scores={}, blocks=(), grants=(),
                       waste=0)  # fmt: skip
    return Placement(node=node, choice=1, chosen=chosen, alternates=())


def order(*podms: str, **more) -> Order:
    places = tuple(placed(number, podm) for number, podm in enumerate(podms, 1))
    wanted = {"properties": {"processor": {"total_cores": 8}}}
    alternatives = msgspec.convert({"name": "f", **wanted}, Flavor).alternatives
    return Order(b'{"schema":"x"}', places, "gpu", alternatives, timeout_s=5, **more)


class Controller:
    """A controller: records the posts, and answers from a list or by a function."""

    def __init__(self) -> None:
        self.came: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[tuple[int, object] | Callable[[Any], object]] = []
        self.url = ""


@contextlib.contextmanager
def controller(
    *answers: tuple[int, object] | Callable[[Any], object], context: ssl.SSLContext | None = None
) -> Iterator[Controller]:
    here = Controller()
    here.answers = list(answers)

    class Door(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.do_POST()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            here.came.append((self.path, dict(self.headers), body))
            answer = here.answers.pop(0) if here.answers else (200, {})
            if callable(answer):
                answer(self)
                return
            status, reply = answer
            if status == 0:
                self.connection.close()
                return
            text = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(status)
            if status == 206:  # fewer bytes than claimed
                self.send_header("Content-Length", str(len(text) + 1000))
                self.end_headers()
                self.wfile.write(text)
                self.close_connection = True
                return
            if status == 302:
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = LoopbackServer(Door)
    here.url = server.url
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        here.url = server.url.replace("http:", "https:")
    server.start()
    try:
        yield here
    finally:
        server.close()


class TestWebhook(unittest.TestCase):
    """The whole decision, unchanged."""

    def test_the_decision_is_posted_as_it_is(self):
        """S3: the decision is posted unchanged."""
        with controller() as there:
            (receipt,) = webhook(there.url, order("a", "b"))
            ((_, headers, body),) = there.came
        self.assertEqual((b'{"schema":"x"}', (1, 2), "a, b"), (body, receipt.nodes, receipt.podm))
        self.assertNotIn(SIGNATURE, headers)

    def test_a_key_signs_the_time_and_the_body(self):
        with controller() as there:
            webhook(there.url, order("a", key=b"secret"))
            ((_, headers, body),) = there.came
        wanted = signature(b"secret", headers[TIMESTAMP], body)
        self.assertEqual(f"sha256={wanted}", headers[SIGNATURE])
        self.assertNotEqual(wanted, signature(b"other", headers[TIMESTAMP], body))

    def test_what_may_be_sent_again_has_an_id_its_claim_and_a_login(self):
        with controller() as there:
            webhook(there.url, order("a", id="d1", claim="c1", login=("me", "canary")))
            ((_, headers, _),) = there.came
        found = [headers[name] for name in ("Idempotency-Key", CLAIM, "Authorization")]
        self.assertEqual(["d1", "c1", "Basic bWU6Y2FuYXJ5"], found)

    def test_the_key_is_in_no_text_about_the_order(self):
        self.assertNotIn("secret", repr(order("a", key=b"secret", login=("me", "secret"))))

    def test_a_refusal_is_an_error(self):
        with controller((403, {})) as there, self.assertRaisesRegex(DispatchFailed, "HTTP 403"):
            webhook(there.url, order("a"))

    def test_a_lost_answer_is_not_sent_again(self):
        with controller((0, {})) as there:
            with self.assertRaisesRegex(DispatchFailed, "may have been accepted"):
                webhook(there.url, order("a"))
            self.assertEqual(1, len(there.came))

    def test_a_redirect_is_not_followed(self):
        with controller((302, {})) as there, self.assertRaisesRegex(DispatchFailed, "HTTP 302"):
            webhook(there.url, order("a"))

    def test_an_answer_that_breaks_off_is_an_error_in_one_line(self):
        with controller((206, {"a": 1})) as there, self.assertRaisesRegex(
            DispatchFailed, "may have been accepted"
        ):  # fmt: skip
            webhook(there.url, order("a"))

    def test_an_answer_that_never_ends_is_given_up(self):
        def trickle(door) -> None:
            door.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with contextlib.suppress(OSError):
                while not ended.wait(0.01):
                    door.wfile.write(b" ")
                    door.wfile.flush()

        ended = threading.Event()
        self.addCleanup(ended.set)
        with controller(trickle) as there, self.assertRaisesRegex(
            DispatchFailed, "ReadTimeout: the decision may have been accepted"
        ):  # fmt: skip
            webhook(there.url, replace(order("a"), timeout_s=0.1))

    def test_nobody_there_is_an_error_and_nothing_was_sent(self):
        for url in ("http://127.0.0.1:9/", "http://a..b/", "http://\u2603.example/"):
            with self.subTest(url), self.assertRaisesRegex(
                DispatchFailed, f"{url}: .* nothing was sent"
            ):  # fmt: skip
                webhook(url, order("a"))

    def test_a_certificate_that_is_not_trusted_is_said_and_nothing_was_sent(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        context, _ = server_context(folder, LOOPBACK)
        with controller(context=context) as there, self.assertRaisesRegex(
            DispatchFailed, "certificate is not trusted: self-signed.*: nothing was sent: give"
        ):  # fmt: skip
            webhook(there.url, order("a"))
        self.assertEqual([], there.came)

    def test_a_url_with_a_password_is_refused_and_not_echoed(self):
        urls = ("http://me:canary@127.0.0.1/", "me:canary@h/", "https:/me:canary@h", "h/?t=canary")
        for url in urls:
            with self.subTest(url), self.assertRaises(UsageError) as caught:
                webhook(url, order("a"))
            self.assertNotIn("canary", str(caught.exception))


class TestValence(unittest.TestCase):
    """A Valence API composes."""

    def test_each_node_is_asked_for_on_its_pod_manager(self):
        """S3."""
        with controller((200, {"uuid": "u1"}), (200, {"uuid": "u2"})) as there:
            found = valence(there.url, order("a", "b"))
            came = [(path, json.loads(body)) for path, _, body in there.came]
        self.assertEqual(["/v1/nodes"] * 2, [path for path, _ in came])
        first = {"name": "gpu-1", "podm_id": "a", "properties": {"processor": {"total_cores": 8}}}
        self.assertEqual(first, came[0][1])
        self.assertEqual([("a", "u1"), ("b", "u2")], [(one.podm, one.reference) for one in found])

    def test_a_node_is_asked_for_by_its_name_before_it_is_posted_again(self):
        """An existing node is not composed twice; the list of nodes may have any form."""
        listed = [{"name": "gpu-d1-1", "uuid": "u1"}, {"name": "gpu", "uuid": "other"}, "?"]
        for nodes in (listed, {"nodes": listed}):
            with controller((200, nodes), (201, {"uuid": "u2"})) as here:
                receipts = valence(here.url, order("a", "b", id="d1", again=True))
            self.assertEqual(["u1", "u2"], [one.reference for one in receipts])
            self.assertEqual([b"", b"gpu-d1-2"], [body and json.loads(body)["name"].encode()
                                                 for _, _, body in here.came])  # fmt: skip

    def test_one_that_cannot_be_asked_is_posted_again_and_a_bad_list_is_waited_for(self):
        one = order("a", id="d1", again=True)
        for status in (404, 405, 501):
            with controller((status, {}), (201, {"uuid": "u"})) as here:
                self.assertEqual("u", valence(here.url, one)[0].reference)
            self.assertEqual("gpu-d1", json.loads(here.came[-1][2])["name"])
        others = ((200, b'["\xff"]'), (200, b"[" * 100_000), (200, {"members": []}), (200, "x"))
        for answer in ((500, {}), (401, {}), (200, "x" * (1 << 20)), (0, None), *others):
            with controller(answer) as here, self.assertRaises(DispatchFailed):
                valence(here.url, one)
            self.assertEqual(1, len(here.came), answer)

    def test_what_was_taken_before_a_refusal_is_said(self):
        answers = ((200, {"uuid": "u1"}), (500, {}))
        with controller(*answers) as there, self.assertRaisesRegex(
            DispatchFailed, "node 2: .*HTTP 500.*; accepted before: u1"
        ):  # fmt: skip
            valence(there.url, order("a", "b"))


def translated(**words):
    flavor = msgspec.convert({"name": "f", "properties": words}, Flavor)
    return properties(flavor.alternatives[0])


class TestWords(unittest.TestCase):
    """The result is a valid Valence flavor."""

    def test_what_valence_says_comes_back_as_it_was(self):
        for words in (
            {"processor": {"total_cores": 8}},
            {"processor": {"total_cores": 8, "model": "Xeon"},
             "memory": {"capacity_mib": 4096, "type": "DDR4"}},
            {"memory": {"capacity_mib": 1}, "pci_device": {"type": ["SSD", "NIC", "GPU", "GPU"]}},
            {"processor": {"total_cores": 1}, "remote_storage": {"capacity_gib": 20}},
        ):  # fmt: skip
            with self.subTest(words):
                self.assertEqual(words, translated(**words))

    def test_what_it_has_no_word_for_is_named(self):
        for words, line in (
            ({"processor": {"total_cores": 8, "speed_mhz": 2000}}, "speed_mhz of a processor"),
            ({"processor": {"sockets": 2}}, "processor as sockets"),
            ({"memory": {"capacity_mib": 1, "speed_mhz": 3200}}, "speed_mhz of a memory"),
            ({"accelerators": [{"kind": "GPU", "memory_mib": 1}]}, "by its kind, memory_mib"),
            ({"drives": [{"media": "HDD"}]}, "drive by its media"),
            ({"nics": [{"speed_mbps": 10}]}, "nic by its speed_mbps"),
            ({"resources": {"power": 3}}, "not support power"),
            ({"accelerators": [{"count": 2, "same": "switch"}]}, "support topology constraints"),
        ):
            with self.subTest(words), self.assertRaisesRegex(RequestError, line):
                translated(**words)
