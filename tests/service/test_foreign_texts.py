# SPDX-License-Identifier: Apache-2.0
"""Texts of another service at the address of a pod manager: shown to operators, not to tenants."""

import json
import socketserver
import threading
import unittest

from tests.service.application import SMALL, LivePodmsCase
from valence_sched.model.http import (
    ANSWER,
    CALLED,
    REDIRECT,
    SERVER,
    foreign_phrase,
    without_foreign_texts as without,
)
from valence_sched.model.registration import Registration
from valence_sched.service.visibility import visible
from valence_sched.store.store import Store

SECRET = "db-internal-7"
OWN = "it's mine"


def http(status, body, *headers):
    lines = [f"HTTP/1.1 {status} {SECRET}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join((*lines, "", body)).encode()


ERROR = json.dumps({"error": {"code": "Base.1.0.GeneralError", "message": f"{SECRET} is broken"}})
ANSWERS = {
    "ssh": f"SSH-2.0-OpenSSH_9.6 {SECRET}\r\n".encode(),
    "smtp": f"220 {SECRET} 'ESMTP'\r\n".encode(),
    "text": http("403 no", f"{SECRET} refuses you"),
    "text of success": http("200 OK", f"welcome to {SECRET}"),
    "page": http("502 bad", f"<html>{SECRET}</html>"),
    "error": http("500 no", ERROR, "Content-Type: application/json"),
    "array": http("200 OK", f'["{SECRET}"]', "Content-Type: application/json"),
    "redirect": http("302 Found", "", f"Location: http://{SECRET}/redfish/v1/"),
    "login": http("401 no", "", f'WWW-Authenticate: Basic realm="{SECRET}"'),
    "head": f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n".encode(),
    "chunks": f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{SECRET}\r\n".encode(),
}
#: The services whose texts are shown to an operator.
QUOTED = ("ssh", "smtp", "array", "redirect")
PAGES = ("/v1/podms", "/v1/podms/gpu-east", "/v1/inventory", "/v1/nodes?live=true", "/healthcheck",
         "/v1/claims?ended=true", "/ui", "/ui/podms/gpu-east", "/ui/claims?ended=true", "/ui/nodes",
         "/ui/decisions")  # fmt: skip


class Foreign(socketserver.ThreadingTCPServer):
    """A service with one answer to every request; some send it before a request."""

    allow_reuse_address = daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answer = b""
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


class _Answering(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.settimeout(5)
        asked_first = self.server.answer.startswith(b"HTTP")
        if asked_first:
            self.request.recv(65536)
        self.request.sendall(self.server.answer)
        if not asked_first:
            self.request.recv(65536)


class TestForeignTexts(LivePodmsCase):
    """A pod manager with nodes of a tenant, whose address now has another service."""

    users = ("ann:admin", "mo")
    names = ("gpu-east",)

    def setUp(self):
        super().setUp()
        self.logs = self.enterContext(self.assertLogs("valence_sched.service"))
        self.foreign = Foreign()
        self.addCleanup(self.foreign.server_close)
        self.addCleanup(self.foreign.shutdown)
        self.plan = self.ask("POST", "/v1/plans", SMALL).json["plan"]
        (node,) = self.ended("POST", "/v1/nodes", SMALL).json["result"]["nodes"]
        self.node = f"/v1/nodes/{node['id']}"
        with Store(self.state) as store:
            store.change(Registration(name="gpu-east", url=self.foreign.url))

    def ask(self, method, path, body=None, user="mo"):
        return self.call(method, path, body, user=user)

    def ended(self, method, path, body=None, user="mo"):
        begun = self.ask(method, path, body, user)
        self.assertEqual(202, begun.status_code, begun.text)
        self.assertTrue(self.process.operations.wait(60))
        return self.ask("GET", f"/v1/operations/{begun.json['id']}", user=user)

    def answers(self, user):
        """Yield answers about the pod manager, each with its source."""
        yield "delete", self.ended("DELETE", self.node, user=user)
        preview = {"decision": self.plan["decision"]}
        yield "preview", self.ask("POST", "/v1/previews", preview, user=user)
        yield "compose", self.ended("POST", "/v1/nodes", SMALL, user=user)
        yield "claim", (claimed := self.ask("POST", "/v1/claims", SMALL, user=user))
        if claimed.status_code == 201:
            id_ = claimed.json["claim"]["id"]
            yield "claimed", self.ended("POST", "/v1/nodes", {"claim": id_}, user=user)
            yield "record", self.ask("GET", f"/v1/claims/{id_}", user=user)
            yield "page", self.ask("GET", f"/ui/claims/{id_}", user=user)
        report = {**SMALL, "detail": "report"}
        yield "select", self.ask("POST", "/v1/select_destinations", report, user=user)
        for path in (self.node, *PAGES):
            yield path, self.ask("GET", path, user=user)

    def test_a_tenant_is_told_what_failed_and_nothing_that_another_service_says(self):
        for name, answer in ANSWERS.items():
            self.foreign.answer = answer
            for place, result in self.answers("mo"):
                with self.subTest(name, place=place):
                    self.assertNotIn(SECRET, result.text)
        self.foreign.answer = ANSWERS["ssh"]
        self.assertIn("not HTTP", self.ended("DELETE", self.node).json["problem"]["detail"])

    def test_rows_of_a_page_are_looked_into(self):
        rows = (("Note", f"not HTTP: {foreign_phrase(ANSWER, SECRET)}"), ("Owner", "mo"))
        self.assertNotIn(SECRET, str(visible(rows, "mo", tuple)))

    def test_an_operator_is_told_what_it_says(self):
        for name in QUOTED:
            with self.subTest(name):
                self.foreign.answer = ANSWERS[name]
                detail = self.ended("DELETE", self.node, user="ann").json["problem"]["detail"]
                self.assertIn(SECRET, detail)
        self.assertEqual(len(QUOTED), sum(SECRET in line for line in self.logs.output))

    def test_nor_is_it_told_by_what_was_read(self):
        users = self.users_file(*self.users)
        for name in QUOTED:
            self.foreign.answer = ANSWERS[name]
            self.client = self.new_client(auth="basic", users_file=users)
            self.read_podms()
            for place, result in self.answers("mo"):
                with self.subTest(name, place=place):
                    self.assertNotIn(SECRET, result.text)


class TestMessages(unittest.TestCase):
    """A message with a foreign text."""

    def test_words_around_a_foreign_text_stay(self):
        for text, rest in (
            (
                f"not HTTP: {foreign_phrase(ANSWER, OWN)} (a hint)",
                "not HTTP: an answer of another kind (a hint)",
            ),
            (
                f"found {foreign_phrase(REDIRECT, 'db')}, expected x",
                "found a redirect to another host, exp",
            ),
            (
                f"node u{foreign_phrase(CALLED, OWN)}{foreign_phrase(SERVER, 'db')}: active",
                "node u: active",
            ),
            (
                f"not HTTP: {foreign_phrase(ANSWER, OWN)}"[:28],
                "not HTTP: an answer of another kind",
            ),
            (f"node u{foreign_phrase(CALLED, OWN)}"[:18], "node u"),
            ("no flavor named 'x'", "no flavor named 'x'"),
        ):
            self.assertTrue(without(text).startswith(rest), without(text))
