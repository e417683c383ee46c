# SPDX-License-Identifier: Apache-2.0
"""One connection: writes are sent once, tasks are awaited, and nothing outlives its deadline."""

import inspect
import logging
import re
import socket
import time
import unittest
from functools import partial
from pathlib import Path
from unittest import mock

import requests
from hypothesis import given, strategies as st
from sushy.connector import Connector

from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from tests.unit.drivers.live import LOGIN, TREE, hang, on, status
from tests.unit.drivers.served import PASSWORD, SESSIONS, USER, Server
from valence_sched.drivers.http.connection import Connection, base_url
from valence_sched.drivers.http.exchange import (
    Deadline,
    PodmRequest,
    TlsContexts,
    Unreachable,
    retry_after_s,
)
from valence_sched.drivers.http.sushy_transport import SushyTransport
from valence_sched.errors import InputError, PodmError
from valence_sched.model.registration import Registration

SYSTEMS, TASK = "/redfish/v1/Systems", "/redfish/v1/TaskService/TaskMonitors/1"


def trickle(head, handler):
    """Send a byte of a header or of a body at a time, until the client leaves."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + head)
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.05)


class ConnectionTest(unittest.TestCase):
    def connect(self, *rules, timeout_s=10.0, **known):
        self.server = Server(TREE, login=LOGIN, rules=rules)
        self.addCleanup(self.server.close)
        known = {"name": "p", "url": self.server.url, "username": USER} | known
        connection = Connection(Registration(**known), PASSWORD, Deadline(timeout_s))
        self.addCleanup(connection.close)
        connection.login.log_in(connection.get_anonymous("/redfish/v1").json("/redfish/v1"))
        return connection

    def sent(self, method):
        return sum(m == method and p != SESSIONS for m, p in self.server.log)

    def test_a_link_that_is_no_url_has_no_path(self):
        connection = self.connect()
        self.assertEqual(f"{SYSTEMS}/1", connection.local_path("1", f"{SYSTEMS}/"))
        for link in ("http://[bad/1", "//[bad"):
            with self.assertRaisesRegex(InputError, "a link to an invalid host"):
                connection.local_path(link, SYSTEMS)

    def test_a_write_is_sent_once_whatever_comes_back(self):
        answers = (
            status(500),
            status(503, Retry_After="0"),
            status(400, b'{"error": {"message": "SYS518"}}'),
            status(500, b'{"error": {"message": "iLO InvalidOperationForSystemState"}}'),
            status(500, b'"text"'),
            status(404, b"17"),
            status(412),
            status(307, Location="/elsewhere"),
        )
        for reply in answers:
            for method in ("POST", "PATCH", "DELETE"):
                with self.subTest(method):
                    connection = self.connect(on("Systems", reply, method))
                    body = None if method == "DELETE" else {"Name": "n"}
                    found = connection.write(method, SYSTEMS, body, {"If-Match": 'W/"1"'})
                    self.assertGreaterEqual(found.status, 300)
                    self.assertEqual(1, self.sent(method))

    def test_a_write_without_an_answer_is_sent_once_and_may_have_had_its_effect(self):
        def cut(handler):
            handler.connection.shutdown(socket.SHUT_RDWR)
            return True

        for act in (hang, cut, partial(trickle, b"X: "), partial(trickle, b"\r\n")):
            connection = self.connect(on("Systems", act, "POST"), timeout_s=0.8)
            with connection, self.assertRaises(Unreachable) as caught:
                connection.write("POST", SYSTEMS, {})
            self.assertTrue(caught.exception.sent)
            self.assertEqual(1, self.sent("POST"))

    def test_a_write_to_one_that_is_down_had_no_effect(self):
        connection = self.connect()
        self.server.close()
        connection._sushy_transport().close()
        with self.assertRaises(Unreachable) as caught:
            connection.write("POST", SYSTEMS, {})
        self.assertFalse(caught.exception.sent)

    def test_an_answer_has_status_headers_and_body(self):
        connection = self.connect(on("Systems", status(201, b'{"a": 1}', Location="/x"), "POST"))
        answer = connection.write("POST", SYSTEMS, {"Name": "n"}, {"If-Match": "*"})
        self.assertEqual((201, "/x"), (answer.status, answer.headers["location"]))
        self.assertEqual({"a": 1}, answer.json(SYSTEMS))
        self.assertEqual("*", self.server.headers[-1]["If-Match"])
        self.assertEqual("keep-alive", self.server.headers[-1]["Connection"])

    def test_it_is_closed_with_its_session_and_can_be_closed_twice(self):
        connection = self.connect()
        connection.cut()
        with self.assertRaises(Unreachable):
            connection.get(SYSTEMS)
        connection.close()
        connection.close()
        self.assertEqual(set(), self.server.sessions)

    def test_its_repr_has_no_secret(self):
        connection = self.connect()
        self.assertNotIn(PASSWORD, repr(connection) + repr(connection.login))

    def test_only_a_url_of_a_host_is_one(self):
        good = {
            "https://h": "https://h",
            "https://u:p@H:8443/redfish/v1/": "https://h:8443",
            "http://[::1]:80": "http://[::1]:80",
        }
        for url, expected in good.items():
            self.assertEqual(expected, base_url(Registration(name="p", url=url)))
        for url in ("h", "ftp://h", "https://", "https://h:x", "https://[", "file:///etc/passwd",
                    "https://h/podm1/redfish/v1", "https://h/redfish/v2"):  # fmt: skip
            with self.assertRaisesRegex(PodmError, "https://"):
                base_url(Registration(name="p", url=url))


class WaitsTest(unittest.TestCase):
    def test_seconds_and_dates_are_read_and_a_date_by_the_clock_of_the_server(self):
        now = "Sun, 01 Mar 2020 12:00:00 GMT"
        then = "Sun, 01 Mar 2020 12:00:07 GMT"
        self.assertEqual(7, retry_after_s({"Retry-After": then, "Date": now}, 1))
        self.assertEqual(0, retry_after_s({"Retry-After": now, "Date": then}, 1))
        self.assertEqual(0, retry_after_s({"Retry-After": then}, 1))
        self.assertEqual(2.5, retry_after_s({"Retry-After": " 2.5 "}, 1))
        self.assertEqual(1, retry_after_s({}, 1))

    @given(st.text(), st.text())
    def test_any_text_is_a_wait_that_is_not_negative(self, after, date):
        found = retry_after_s({"Retry-After": after, "Date": date}, 3)
        self.assertGreaterEqual(found, 0)
        self.assertIsNone(re.search("nan", str(found)))


class TestTransports(unittest.TestCase):
    """Reads use the standard library, except with a proxy; unused transports are not created."""

    def used(self, **environ):
        with mock.patch.dict("os.environ", environ):
            connection = Connection(
                Registration(name="p", url="http://127.0.0.1:9"), None, Deadline(1)
            )
        made = []
        for send in (connection.get, lambda uri: connection.write("POST", uri, {})):
            with self.assertRaises(Unreachable):
                send("/redfish/v1")
            made.append((connection._sockets is not None, connection._sushy is not None))
        connection.close()
        return made

    def test_without_a_proxy_reads_and_writes_have_transports_of_their_own(self):
        self.assertEqual([(True, False), (True, True)], self.used())

    def test_through_a_proxy_one_transport_does_both(self):
        self.assertEqual(
            [(False, True)] * 2, self.used(http_proxy="http://127.0.0.1:8", no_proxy="")
        )

    def test_a_connection_that_was_never_asked_has_none_to_end(self):
        connection = Connection(Registration(name="p", url="http://127.0.0.1:9"), None, Deadline(1))
        connection.cut()
        connection.close()
        self.assertIsNone(connection._sockets or connection._sushy)


ROOM = Path(__file__).parents[4] / "valence_sched"
SECRET = "canary-of-the-headers"


class TestSushy(unittest.TestCase):
    """A change of the private parts of sushy fails here first."""

    def test_a_connector_has_a_session_of_requests(self):
        self.assertIs(requests.Session, type(Connector("http://127.0.0.1")._session))

    def test_an_operation_takes_what_it_is_given(self):
        signature = inspect.signature(Connector._op)
        arguments = {"data": {}, "timeout": 1, "allow_reauth": False}
        for_requests = {"auth": print, "stream": True, "allow_redirects": False}
        bound = signature.bind(None, "GET", "/", **arguments, **for_requests)
        self.assertEqual(for_requests, bound.arguments["extra_session_req_kwargs"])

    def test_no_other_module_touches_them(self):
        users = {
            path.name
            for path in ROOM.rglob("*.py")
            if re.search(r"\._op\(|onnector\._session|_conn\b", path.read_text())
        }
        self.assertEqual({"sushy_transport.py"}, users)


class TestRequests(unittest.TestCase):
    """A request over the wire."""

    def setUp(self):
        self.server = Server({"/a": b"{}"})
        self.addCleanup(self.server.close)
        self.transport = SushyTransport(self.server.url, True, TlsContexts(), None, {}, 1)
        self.addCleanup(self.transport.close)

    def test_each_request_carries_its_own_headers_and_no_others(self):
        for headers in ({"X-Auth-Token": "t", "If-Match": "*"}, {"User-Agent": "u"}):
            answer = self.transport.ask(PodmRequest("GET", "/a", headers, 5, 100))
            self.assertEqual((200, b"{}"), (answer.status, answer.body))
        ours = ("X-Auth-Token", "If-Match", "User-Agent")
        carried = [[sent.get(name) for name in ours] for sent in self.server.headers]
        self.assertEqual(["t", "*"], carried[0][:2])
        self.assertEqual([None, None, "u"], carried[1])

    def test_no_header_is_logged(self):
        with self.assertLogs(level=logging.DEBUG) as logs:
            headers = {"Authorization": f"Basic {SECRET}"}
            self.transport.ask(PodmRequest("GET", "/a", headers, 5, 100))
        self.assertNotIn(SECRET, "\n".join(logs.output))
        self.assertEqual(f"Basic {SECRET}", self.server.headers[0]["Authorization"])

    def test_a_header_that_cannot_be_sent_is_named_without_its_value(self):
        for character in "\n€":
            headers = {"X-Auth-Token": f"{SECRET}{character}"}
            with self.assertRaisesRegex(Unreachable, "^header X-Auth-Token: found a ") as caught:
                self.transport.ask(PodmRequest("GET", "/a", headers, 5, 100))
            self.assertNotIn(SECRET, str(caught.exception))
            self.assertFalse(caught.exception.sent or caught.exception.retryable)
        self.assertEqual([], self.server.headers)


class TestMalformed(ServedBytes):
    """The error of an answer that violates HTTP names the place, as without a proxy."""

    def test_each_part_has_its_own_words(self):
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        report = r" \(report it to the vendor of the service or of its proxy\)$"
        for text, data in (
            (
                r"^not HTTP: an answer of 'SSH-2.0' \(check the port and scheme of the URL\)$",
                b"SSH-2.0\r\n",
            ),
            ("^malformed head: .* headers" + report, answer(b"", *["X-A: b"] * 200)),
            ("^malformed body: invalid chunk size" + report, chunked + b"no size\r\n"),
            ("^malformed body: invalid chunk size" + report, chunked + b"2\r\none\r\n"),
            ("^malformed body: .*" + report, answer(b"no gzip", "Content-Encoding: gzip")),
            ("^a body in the encoding 'br', which", answer(b"\x8b\x00", "Content-Encoding: br")),
            ("^a truncated answer", chunked + b"3\r\none"),
            ("^a truncated answer", chunked + b"3\r\none\r\n"),
            ("^a truncated answer", answer(b"half", length=8)),
        ):
            self.serve([data])
            url = f"http://127.0.0.1:{self.port}"
            transport = SushyTransport(url, True, TlsContexts(), None, {}, 1)
            with self.subTest(text), self.assertRaisesRegex(Unreachable, text):
                transport.ask(PodmRequest("GET", "/a", {}, 5, 1000))
            transport.close()
