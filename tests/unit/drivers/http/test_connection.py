# SPDX-License-Identifier: Apache-2.0
"""One connection: writes are sent once, tasks are waited for, and nothing outlives its deadline."""

import re
import socket
import unittest
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.drivers.live import LOGIN, TREE, hang, on, status
from tests.unit.drivers.served import PASSWORD, SESSIONS, USER, Server
from valence_sched.drivers.http.connection import Connection, base_url
from valence_sched.drivers.http.exchange import Deadline, Unreachable, retry_after_s
from valence_sched.errors import InputError, PodmError
from valence_sched.model.registration import Registration

SYSTEMS, TASK = "/redfish/v1/Systems", "/redfish/v1/TaskService/TaskMonitors/1"


class ConnectionTest(unittest.TestCase):
    def connect(self, *rules, timeout_s=10.0, **known):
        self.server = Server(TREE, login=LOGIN, rules=rules)
        self.addCleanup(self.server.close)
        known = {"name": "p", "url": self.server.url, "username": USER} | known
        connection = Connection(Registration(**known), PASSWORD, Deadline(timeout_s))
        self.addCleanup(connection.close)
        connection.log_in(connection.get_anonymous("/redfish/v1").json("/redfish/v1"))
        return connection

    def sent(self, method):
        return sum(m == method and p != SESSIONS for m, p in self.server.log)

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
                    write = getattr(connection, method.lower())
                    more = () if method == "DELETE" else ({"Name": "n"},)
                    found = write(SYSTEMS, *more, {"If-Match": 'W/"1"'})
                    self.assertGreaterEqual(found.status, 300)
                    self.assertEqual(1, self.sent(method))

    def test_a_write_without_an_answer_is_sent_once_and_may_have_had_its_effect(self):
        def cut(handler):
            handler.connection.shutdown(socket.SHUT_RDWR)
            return True

        for act in (hang, cut):
            connection = self.connect(on("Systems", act, "POST"), timeout_s=0.8)
            with self.assertRaises(Unreachable) as caught:
                connection.post(SYSTEMS, {})
            self.assertTrue(caught.exception.sent)
            self.assertEqual(1, self.sent("POST"))

    def test_a_write_to_one_that_is_down_had_no_effect(self):
        connection = self.connect()
        self.server.close()
        connection._transport.close()
        with self.assertRaises(Unreachable) as caught:
            connection.post(SYSTEMS, {})
        self.assertFalse(caught.exception.sent)

    def test_an_answer_has_status_headers_and_body(self):
        connection = self.connect(on("Systems", status(201, b'{"a": 1}', Location="/x"), "POST"))
        answer = connection.post(SYSTEMS, {"Name": "n"}, {"If-Match": "*"})
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
        self.assertNotIn(PASSWORD, repr(connection) + repr(connection._login))

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


class TestTransport(unittest.TestCase):
    """What carries the requests."""

    def test_reads_and_writes_go_through_the_proxy_that_the_environment_names(self):
        server = Server({"/a": b"{}"})
        self.addCleanup(server.close)
        with mock.patch.dict("os.environ", http_proxy=server.url, no_proxy=""):
            connection = Connection(
                Registration(name="p", url="http://podm.invalid"), None, Deadline(5)
            )
        self.addCleanup(connection.close)
        self.assertEqual(b"{}", connection.get("/a").body)
        connection.post("/b", {})
        requests = [("GET", "http://podm.invalid/a"), ("POST", "http://podm.invalid/b")]
        self.assertEqual(requests, server.log)
        with self.assertRaisesRegex(InputError, "a proxy on the way"):
            connection.open_stream("/a")

    def test_a_connection_that_was_never_asked_has_none_to_end(self):
        connection = Connection(Registration(name="p", url="http://127.0.0.1:9"), None, Deadline(1))
        connection.cut()
        connection.close()
        self.assertIsNone(connection._transport)
