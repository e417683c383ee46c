# SPDX-License-Identifier: Apache-2.0
"""Writes over HTTP: their ETags, expired logins, and refusals with a time."""

import unittest

import msgspec

from tests.unit.drivers.redfish.stored import StoredPodm
from tests.unit.drivers.served import PASSWORD, USER, Server
from valence_sched.drivers.composer import Reply, write
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline, Patience
from valence_sched.drivers.session import HttpSession
from valence_sched.errors import PodmError
from valence_sched.model.registration import Registration

BLOCK, SYSTEMS = "/redfish/v1/B/1", "/redfish/v1/Systems"
ROOT = {"@odata.id": "/redfish/v1", "Systems": {"@odata.id": SYSTEMS}}
LOGIN = (USER, PASSWORD)


def encoded(documents):
    return {uri: msgspec.json.encode(json) for uri, json in documents.items()}


class Case(unittest.TestCase):
    def open(self, *rules, login=None, **documents):
        found = {"/redfish/v1": ROOT, BLOCK: {"Name": "b", **documents}, SYSTEMS: {"Members": []}}
        self.server = Server(encoded(found), rules=rules, login=login)
        self.addCleanup(self.server.close)
        user = {"username": USER} if login else {}
        known = Registration(name="p", url=self.server.url, **user)
        connection = self.enterContext(Connection(known, PASSWORD, Deadline(20)))
        connection.login.log_in({"Links": {"Sessions": {"@odata.id":
                          "/redfish/v1/SessionService/Sessions"}}} if login else None)  # fmt: skip
        return HttpSession(connection, 20)

    def tags(self, method):
        """Return the ``If-Match`` of each request of a method."""
        seen = zip(self.server.log, self.server.headers, strict=True)
        return [headers.get("If-Match") for (verb, _), headers in seen if verb == method]


def told(tag):
    """Answer reads of the block with an ETag in the header; a list may change it."""

    def rule(handler):
        if handler.command != "GET" or handler.path != BLOCK:
            return False
        return handler.reply(200, handler.podm.document(BLOCK), {"ETag": tag[-1]})

    return rule


def answers(method, *statuses):
    """Answer this number of writes with these statuses, then with 204."""
    left = list(statuses)
    return lambda it: it.command == method and it.reply(left.pop(0) if left else 204, b"{}")


class TestTags(Case):
    """A change or removal applies only to the document that was read."""

    def test_the_tag_of_the_header_is_sent_else_that_of_the_body_else_none(self):
        for rules, more, expected in (
            ([told(['W/"7"'])], {"@odata.etag": "body"}, 'W/"7"'),
            ([], {"@odata.etag": '"body"'}, '"body"'),
            ([], {}, None),
        ):
            for method in ("PATCH", "DELETE"):
                session = self.open(*rules, answers(method), **more)
                session.get(BLOCK)
                body = [{}] if method == "PATCH" else []
                send = session.patch if method == "PATCH" else session.delete
                self.assertEqual(204, send(BLOCK, *body).status)
                self.assertEqual([expected], self.tags(method))
                send(BLOCK, *body)  # it has changed since the last read
                self.assertEqual([expected, None], self.tags(method))

    def test_what_was_never_read_has_no_tag(self):
        session = self.open(told(["1"]), answers("DELETE"))
        session.delete(BLOCK)
        session.post(SYSTEMS, {})
        self.assertEqual([None], self.tags("DELETE"))
        self.assertEqual([None], self.tags("POST"))

    def deleted(self, session, is_undone=None):
        session.get(BLOCK)
        patience = StoredPodm({}).patience()
        undone = is_undone or (lambda: session.get(BLOCK).status == 200)
        return write(session, BLOCK, None, patience, str, undone)

    def test_a_tag_that_is_refused_is_read_again_once(self):
        tag = ["1"]
        session = self.open(told(tag), answers("DELETE", 412))

        def read_again():
            tag.append("2")
            return session.get(BLOCK).status == 200

        self.assertTrue(self.deleted(session, read_again).succeeded)
        self.assertEqual(["1", "2"], self.tags("DELETE"))
        session = self.open(told(tag), answers("DELETE", 412, 412, 412))
        self.assertTrue(self.deleted(session).refused)
        self.assertEqual(2, len(self.tags("DELETE")))

    def test_a_tag_that_is_refused_though_nothing_changed_is_left_out(self):
        session = self.open(told(["1"]), answers("DELETE", 412))
        self.assertTrue(self.deleted(session).succeeded)
        self.assertEqual(["1", None], self.tags("DELETE"))

    def test_a_service_that_refuses_what_it_told_and_requires_one_gets_any(self):
        session = self.open(told(["1"]), answers("DELETE", 412, 428))
        self.assertTrue(self.deleted(session).succeeded)
        self.assertEqual(["1", None, "*"], self.tags("DELETE"))
        session = self.open(told(["1"]), answers("DELETE", 412, 428, 412, 428))
        self.assertTrue(self.deleted(session).refused)
        self.assertEqual(3, len(self.tags("DELETE")))

    def test_a_tag_that_is_required_is_any_where_none_is_told(self):
        session = self.open(answers("DELETE", 428))
        self.assertTrue(self.deleted(session).succeeded)
        self.assertEqual([None, "*"], self.tags("DELETE"))
        session = self.open(answers("POST", 428))
        sent = write(session, SYSTEMS, {}, StoredPodm({}).patience(), str, lambda: True)
        self.assertTrue(sent.succeeded)
        self.assertEqual([None, "*"], self.tags("POST"))

    def test_what_is_another_by_now_is_not_written(self):
        session = self.open(told(["1"]), answers("DELETE", 412))
        self.assertTrue(self.deleted(session, lambda: False).refused)
        self.assertEqual(["1"], self.tags("DELETE"))


class TestLogin(Case):
    """A session that expires before a write is renewed."""

    def expire(self, handler):
        is_write = handler.command != "GET" and "Sessions" not in handler.path
        return is_write and handler.is_in() and handler.reply(204)

    def test_a_write_that_a_lost_session_refuses_is_sent_again_with_a_new_one(self):
        for send in (lambda it: it.post(SYSTEMS, {}), lambda it: it.patch(BLOCK, {}),
                     lambda it: it.delete(BLOCK)):  # fmt: skip
            session = self.open(self.expire, login=LOGIN)
            for _ in range(3):  # it may expire repeatedly
                self.server.sessions.clear()
                self.assertEqual(204, send(session).status)
            self.assertEqual(4, self.server.made)
            session.connection.close()
            self.assertEqual(set(), self.server.sessions)

    def test_a_write_that_is_refused_again_was_not_done(self):
        refuse = answers("POST", *[401] * 9)
        session = self.open(lambda it: "Sessions" not in it.path and refuse(it), login=LOGIN)
        sent = write(session, SYSTEMS, {}, StoredPodm({}).patience(), str)
        self.assertEqual((True, False), (sent.refused, sent.lost))
        self.assertEqual(2, self.server.made)

    def test_without_a_new_session_the_refusal_stands(self):
        session = self.open(login=LOGIN)
        self.server.sessions.clear()
        self.server.login = (USER, "another")
        self.assertEqual(401, session.post(SYSTEMS, {}).status)


class TestAnswers(unittest.TestCase):
    """Answers to a write, and of its task monitor."""

    def write(self, answer, **documents):
        self.podm = StoredPodm(documents)
        self.podm.on_post = lambda uri, body: answer
        return write(self.podm, SYSTEMS, {}, self.podm.patience(), str)

    def test_a_redirected_write_was_not_done(self):
        for code in (301, 302, 307, 308):
            sent = self.write(Reply(code, {"Location": "https://h/S/1"}, None))
            self.assertTrue(sent.refused)
            self.assertEqual(f"HTTP {code}: a redirect to 'https://h/S/1'", sent.reason)
        self.assertEqual("/S/1", self.write(Reply(303, {"Location": "/S/1"}, None)).node)

    def test_an_invalid_location_leads_to_no_document(self):
        for link in ("http://[bad/S/1", "//[bad", "http://[x]y/S/1"):
            sent = self.write(Reply(201, {"Location": link}, None))
            self.assertEqual((True, 404), (sent.succeeded, self.podm.get(sent.node).status))
            self.assertTrue(self.write(Reply(202, {"Location": link}, None)).lost)

    def test_a_reason_of_any_type_and_length_is_told(self):
        for message in (["in use"], {"text": "in use"}, "in use" + " again" * 1000):
            sent = self.write(Reply(400, {}, {"message": message}))
            self.assertTrue(sent.refused)
            self.assertIn("in use", sent.reason)
        for manifest in (["x"], "x", {"Stanzas": "x"}):
            self.assertTrue(self.write(Reply(200, {}, {"Manifest": manifest})).succeeded)

    def test_a_monitor_that_is_gone_proves_nothing(self):
        for code in (404, 410):
            sent = self.write(Reply(202, {"Location": "/T/1"}, None), **{"/T/1": code})
            self.assertEqual((True, f"the task monitor is gone (HTTP {code})", 0),
                             (sent.lost, sent.reason, sent.status))  # fmt: skip

    def test_a_monitor_that_cannot_be_read_proves_nothing(self):
        for code in (401, 403, 500, 507):
            sent = self.write(Reply(202, {"Location": "/T/1"}, None), **{"/T/1": code})
            self.assertEqual((True, True, code), (sent.lost, sent.goes_on, sent.status))
        podm = StoredPodm({})
        podm.on_post = lambda *_: Reply(202, {"Location": "/T/1"}, None)
        podm.get = lambda _: Reply(507, {}, {"error": {"message": "no room"}})
        sent = write(podm, "/S", {}, podm.patience(), podm.states.append)
        self.assertEqual((True, "HTTP 507: no room"), (sent.refused, sent.reason))

    def test_a_state_of_another_type_ends_a_task(self):
        for state in (["Running"], {"State": "Running"}, 1, None):
            task = {"TaskState": state}
            sent = self.write(Reply(202, {"Location": "/T/1"}, None), **{"/T/1": task})
            self.assertTrue(sent.succeeded)


class Busy(StoredPodm):
    """Answers this number of POSTs as busy."""

    def __init__(self, times, told="1", code=503, **more):
        super().__init__({"/S": {"Members": []}}, **more)
        headers = {} if told is None else {"Retry-After": told}
        self.on_post = lambda uri, body: (
            Reply(code, headers, None) if len(self.bodies) <= times else self.create(uri, body)
        )

    def write(self, is_undone=lambda: True):
        body = {"Name": "a"}
        return write(self, "/S", body, self.patience(), self.states.append, is_undone)


class TestBusy(unittest.TestCase):
    """A refusal that gives a time to try again."""

    def test_it_is_sent_again_then_as_often_as_there_is_time(self):
        for code in (429, 503):
            podm = Busy(3, code=code)
            self.assertTrue(podm.write().succeeded)
            self.assertEqual((4, ["trying again"] * 3 + ["answered"]),
                             (len(podm.bodies), podm.states))  # fmt: skip
        podm = Busy(99, pauses=5)
        self.assertTrue(podm.write().refused)
        self.assertEqual(5, len(podm.bodies))

    def test_without_a_time_or_with_one_too_late_it_is_refused(self):
        for told in (None, "soon", "21"):
            podm = Busy(1, told)
            self.assertTrue(podm.write().refused)
            self.assertEqual(1, len(podm.bodies))

    def test_where_something_was_done_or_that_cannot_be_told_it_is_not_sent_again(self):
        def unknown():
            raise PodmError("down")

        for is_undone in (lambda: False, unknown):
            podm = Busy(1)
            self.assertTrue(podm.write(is_undone).refused)
            self.assertEqual(1, len(podm.bodies))

    def test_a_task_without_a_pause_is_not_read_without_end(self):
        now = [0.0]

        def sleep(seconds):
            now[0] += seconds

        for told in ("0", "0.001", "Thu, 01 Jan 1970 00:00:00 GMT"):
            patience, pauses = Patience(600, lambda: now[0], sleep), 0
            while patience.pause({"Retry-After": told}):
                pauses += 1
            self.assertLess(pauses, 200)
        now[0] = 0.0
        Patience(600, lambda: now[0], sleep).pause({"Retry-After": "0.2"})
        self.assertEqual(0.2, now[0])
