# SPDX-License-Identifier: Apache-2.0
"""The private parts of sushy that are used, and the one module that uses them."""

import inspect
import logging
import re
import unittest
from pathlib import Path

import requests
from sushy.connector import Connector

from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from tests.unit.drivers.served import Server
from valence_sched.drivers.http.exchange import PodmRequest, Unreachable
from valence_sched.drivers.http.sushy_transport import SushyTransport
from valence_sched.drivers.http.tls import TlsContexts

ROOM = Path(__file__).parents[4] / "valence_sched"
SECRET = "canary-of-the-headers"


class TestSushy(unittest.TestCase):
    """A sushy that moves its private parts fails here first."""

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
        self.transport = SushyTransport(self.server.url, True, {}, 1, TlsContexts())
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
    """An answer that breaks HTTP is said by where it breaks, as without a proxy."""

    def test_each_part_has_its_own_words(self):
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        report = r" \(report it to the vendor of the service, or of a proxy before it\)$"
        for text, data in (
            (
                r"^no HTTP: an answer of 'SSH-2.0' \(is it this port, and not https\?\)$",
                b"SSH-2.0\r\n",
            ),
            ("^malformed head: .* headers" + report, answer(b"", *["X-A: b"] * 200)),
            ("^malformed body: invalid chunk size" + report, chunked + b"no size\r\n"),
            ("^malformed body: invalid chunk size" + report, chunked + b"2\r\none\r\n"),
            ("^malformed body: .*" + report, answer(b"no gzip", "Content-Encoding: gzip")),
            ("^a body in the encoding 'br', which", answer(b"\x8b\x00", "Content-Encoding: br")),
            ("^an answer that ends too early", chunked + b"3\r\none"),
            ("^an answer that ends too early", chunked + b"3\r\none\r\n"),
            ("^an answer that ends too early", answer(b"half", length=8)),
        ):
            self.serve([data])
            url = f"http://127.0.0.1:{self.port}"
            transport = SushyTransport(url, True, {}, 1, TlsContexts())
            with self.subTest(text), self.assertRaisesRegex(Unreachable, text):
                transport.ask(PodmRequest("GET", "/a", {}, 5, 1000))
            transport.close()
