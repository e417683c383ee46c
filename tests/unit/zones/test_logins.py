# SPDX-License-Identifier: Apache-2.0
"""Zones over HTTP: logins and calls."""

import contextlib
import http.server
import itertools
import json
import unittest
from collections import Counter
from unittest import mock

from tests.loopback import LoopbackServer
from tests.unit.zones.http_zone import http_zone
from valence_sched.errors import (
    IdentityUnavailable,
    ServiceBusy,
    ServiceError,
    Unauthenticated,
    Unverified,
    UsageError,
)
from valence_sched.model.claim import Claim
from valence_sched.model.request import GroupState, Request
from valence_sched.model.zone import GroupAnswer, OfferQuery, ZoneAnswer, ZoneClaimBody
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.remote.connection import ServiceConnection
from valence_sched.remote.scheduler import MOST_INFO_BYTES, RemoteScheduler
from valence_sched.zones.logins import ChildLogins

PASSWORD = "a-secret"
REFUSED = {"type": "about:blank", "title": "Unauthorized", "status": 401,
           "code": "unauthenticated", "detail": "its token ended"}  # fmt: skip


#: Answers that no Keystone gives.
MALFORMED_TOKENS = (
    b"7", b"null", b"[]", b'"token"', b"\xff", b"[" * 100_000, b'{"token": "x"}', b'{"token": {}}',
    b'{"token": {"expires_at": "soon"}}', b'{"token": {"expires_at": 7}}',
)  # fmt: skip


class KeystoneAndChild:
    """A server that is both a Keystone, with numbered tokens, and a child.

    ``valid`` are the tokens that the child accepts, None for all. ``status`` replaces Keystone's
    token answer, and ``malformed`` its document. ``expires_at`` is the expiry of its tokens.
    """

    def __init__(self):
        self.asked, self.tokens, self.logins = Counter(), [], []
        self.status, self.valid, self.expires_at = 0, None, "2999-01-01T00:00:00.000000Z"
        self.malformed, self.sends_token = None, True
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked["keystone"] += 1
                outer.logins.append(json.loads(body)["auth"])
                if outer.status:
                    self.answer(outer.status, {"error": {"code": outer.status, "message": "no"}})
                    return
                outer.tokens.append(f"token-{len(outer.tokens) + 1}")
                token = {"expires_at": outer.expires_at, "methods": ["password"],
                         "issued_at": "2026-01-01T00:00:00.000000Z",
                         "user": {"id": "u", "name": "up", "domain": {"id": "d"}}}  # fmt: skip
                headers = {"X-Subject-Token": outer.tokens[-1]} if outer.sends_token else {}
                self.answer(201, outer.malformed or {"token": token}, headers)

            def do_GET(self):
                if self.path == "/v3":
                    links = [{"rel": "self", "href": f"{outer.url}/v3"}]
                    version = {"id": "v3.14", "status": "stable", "links": links}
                    self.answer(200, {"version": version})
                    return
                outer.asked["child"] += 1
                token = self.headers["X-Auth-Token"]
                if token is None or (outer.valid is not None and token not in outer.valid):
                    self.answer(401, REFUSED)
                else:
                    self.answer(200, {"name": token})

            def answer(self, status, document, headers=()):
                is_raw = isinstance(document, bytes)
                content = document if is_raw else json.dumps(document).encode()
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                kind = "application/json" if status < 400 else "application/problem+json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_words):
                """Log nothing."""

        self._server = LoopbackServer(Handler)
        self.url = self._server.url

    def serve(self, case, context=None):
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
        self._server.start()
        case.addCleanup(self._server.close)


class TestKeystone(unittest.TestCase):
    """A child behind Keystone gets a token, which is reused while it is valid."""

    def setUp(self):
        self.server = KeystoneAndChild()
        self.server.serve(self)
        self.child = ZoneRegistration(
            name="east", url=self.server.url, username="up", auth_url=f"{self.server.url}/v3",
            project="zones", project_domain="Sites",
        )  # fmt: skip
        self.logins = ChildLogins()

    def ask(self):
        """Return the token that the child received over a new connection, as its name."""
        return self.logins.scheduler(self.child, PASSWORD, 5.0).zone_info().name

    def test_one_token_is_used_by_all_connections(self):
        self.assertEqual(["token-1"] * 3, [self.ask() for _ in range(3)])
        self.assertEqual({"keystone": 1, "child": 3}, self.server.asked)
        (login,) = self.server.logins
        user = {"name": "up", "domain": {"name": "Default"}, "password": PASSWORD}
        self.assertEqual(user, login["identity"]["password"]["user"])
        project = {"name": "zones", "domain": {"name": "Sites"}}
        self.assertEqual({"project": project}, login["scope"])

    def test_a_token_that_the_child_refuses_is_renewed_once(self):
        self.assertEqual("token-1", self.ask())
        self.server.valid = {"token-2"}
        self.assertEqual(["token-2"] * 2, [self.ask(), self.ask()])
        self.assertEqual({"keystone": 2, "child": 4}, self.server.asked)

    def test_a_child_that_refuses_every_token_is_asked_twice(self):
        self.server.valid = set()
        with self.assertRaisesRegex(Unauthenticated, "its token ended"):
            self.ask()
        self.assertEqual({"keystone": 2, "child": 2}, self.server.asked)

    def test_a_token_that_ends_soon_is_renewed_before_it_is_sent(self):
        self.server.expires_at = "2000-01-01T00:00:00.000000Z"
        self.assertEqual(["token-1", "token-2"], [self.ask(), self.ask()])

    def test_a_login_that_keystone_refuses_says_so_without_the_password(self):
        self.server.status = 401
        with self.assertRaisesRegex(Unauthenticated, "rejects the login of 'up' to .*'zones'") as e:
            self.ask()
        self.assertNotIn(PASSWORD, str(e.exception))
        self.assertEqual(0, self.server.asked["child"])

    def test_a_keystone_that_fails_or_is_away_is_no_refusal(self):
        self.server.status = 500
        with self.assertRaisesRegex(IdentityUnavailable, "issued no token"):
            self.ask()
        self.server.status = 0
        with contextlib.closing(http.server.HTTPServer(("127.0.0.1", 0), None).socket) as closed:
            port = closed.getsockname()[1]
        self.child = ZoneRegistration(
            name="east", url=self.server.url, username="up", project="zones",
            auth_url=f"http://127.0.0.1:{port}/v3",
        )  # fmt: skip
        with self.assertRaisesRegex(IdentityUnavailable, "issued no token: ConnectFailure"):
            self.ask()
        self.assertEqual(0, self.server.asked["child"])

    def test_a_keystone_whose_answer_is_malformed_issues_no_token(self):
        """Decisions of all zones failed with an internal error, also once Keystone was mended."""
        for document in MALFORMED_TOKENS:
            with self.subTest(document[:20]):
                self.logins, self.server.malformed = ChildLogins(), document
                with self.assertRaisesRegex(IdentityUnavailable, "issued no token"):
                    self.ask()
                    self.ask()  # the end of a token is read when the token is used again
                self.server.malformed = None
                self.ask()
        self.logins, self.server.sends_token = ChildLogins(), False
        with self.assertRaisesRegex(IdentityUnavailable, "issued no token: KeyError"):
            self.ask()

    def test_another_password_is_another_login(self):
        self.ask()
        self.logins.scheduler(self.child, "another", 5.0).zone_info()
        sent = [one["identity"]["password"]["user"]["password"] for one in self.server.logins]
        self.assertEqual([PASSWORD, "another"], sent)


QUERY = OfferQuery(request=Request(id="r"), limit=3, deadline_s=20.0)


class RemoteCase(unittest.TestCase):
    """A service on loopback, and its zone as the parent sees it."""

    def setUp(self) -> None:
        context = contextlib.ExitStack()
        self.addCleanup(context.close)
        self.service = context.enter_context(http_zone())
        self.zone = self.child()

    def child(self, password=None, timeout_s=20.0, route=tuple, **words):
        row = ZoneRegistration(name="east", url=self.service.url, **words)
        return ChildLogins().scheduler(row, password, timeout_s, route)


class TestQueries(RemoteCase):
    """Offers, group state and claims."""

    def test_offers_are_asked_for_as_they_are_and_returned_as_nouns(self):
        self.service.answers["/v1/zones/offers"] = ZoneAnswer(worst_cost=7, answered=3)
        self.assertEqual(ZoneAnswer(worst_cost=7, answered=3), self.zone.offers(QUERY))
        (asked,) = self.service.asked
        self.assertEqual(("POST", 3, 20.0),
                         (asked.method, asked.body["limit"], asked.body["deadline_s"]))  # fmt: skip

    def test_the_group_state_is_asked_for_below_its_own_path(self):
        answer = GroupAnswer(group_state=GroupState(owned={"a": 2}))
        self.service.answers["/v1/zones/group_state"] = answer
        self.assertEqual(answer, self.zone.group_state(QUERY))

    def test_what_a_newer_service_adds_is_ignored(self):
        self.service.answers["/v1/zones/offers"] = {"worst_cost": 7, "news": [1]}
        self.assertEqual(ZoneAnswer(worst_cost=7), self.zone.offers(QUERY))

    def test_offers_are_held_under_the_key_that_was_given(self):
        claim = Claim(id="c", state="HELD", created_at=1.0, expires_at=2.0, parts=())
        self.service.answers["/v1/zones/claims"] = claim
        body = ZoneClaimBody(request=Request(id="r"), tokens=("t1", "t2"))
        self.assertEqual(claim, self.zone.hold_offers(body, key="once"))
        self.assertEqual(claim, self.zone.hold_offers(body))
        first, second = self.service.asked
        self.assertEqual(("POST", ["t1", "t2"]), (first.method, first.body["tokens"]))
        self.assertEqual("once", first.headers["Idempotency-Key"])
        self.assertNotIn("Idempotency-Key", second.headers)

    def test_an_info_that_is_too_long_to_store_is_refused(self):
        self.service.answers["/v1/zones/info"] = {"name": "east", "more": "x" * MOST_INFO_BYTES}
        with self.assertRaisesRegex(ServiceError, "the answer has more than 1,048,576 bytes"):
            self.zone.zone_info()

    def test_an_operation_is_asked_for_below_its_own_path(self):
        """The id of an operation is a text of the service, here a path and a query."""
        id_ = "../podms/p?x=1"
        begun = {"id": id_, "kind": "compose", "state": "running", "content": "", "result": None}
        self.service.answers["/v1/operations/-"] = {**begun, "state": "interrupted"}
        self.service.answers["/v1/nodes"] = begun
        with self.assertRaises(Unverified):
            self.zone.compose_claim("c")
        self.assertEqual({"name": id_}, self.service.asked[-1].query)


class TestConnection(RemoteCase):
    """The connection to it."""

    def test_it_logs_in_where_it_has_a_user_and_says_the_way_that_it_was_asked(self):
        self.service.answers["/v1/zones/offers"] = ZoneAnswer()
        self.zone.offers(QUERY)
        self.child("secret", route=lambda: ("top", "here"), username="me").offers(QUERY)
        plain, known = self.service.asked
        self.assertNotIn("Authorization", plain.headers)
        self.assertEqual("Basic bWU6c2VjcmV0", known.headers["Authorization"])
        extra = {value for name, value in known.headers.items() if name not in plain.headers}
        self.assertIn("top,here", extra)

    def test_it_may_be_silent_for_no_longer_than_it_is_told(self):
        self.service.answers["/v1/zones/info"] = {"name": "East"}
        hasty = self.child(timeout_s=0.2)
        self.service.awake.clear()
        with self.assertRaisesRegex(ServiceError, "does not answer in time"):
            hasty.zone_info()

    def test_an_answer_that_is_none_and_an_error_are_raised(self):
        self.service.answers["/v1/zones/offers"] = {"worst_cost": "much"}
        with self.assertRaisesRegex(ServiceError, "cannot be parsed"):
            self.zone.offers(QUERY)
        with self.assertRaises(ServiceError):
            self.zone.group_state(QUERY)  # 404

    def test_a_url_that_is_none_is_refused_at_once(self):
        with self.assertRaises(UsageError):
            ChildLogins().scheduler(ZoneRegistration(name="east", url="ftp://east"), None, 1.0)


class TestOperations(unittest.TestCase):
    def test_an_operation_of_a_child_that_never_ends_is_left(self):
        """Such a child occupied a thread, and an operation of its parent, for ever."""
        running = {"id": "o", "kind": "delete", "state": "running", "result": None}
        child, seconds, pauses = mock.Mock(), itertools.count(0, 100), []
        child.ask.return_value = json.dumps(running).encode(), {}
        child.decode = ServiceConnection("http://child").decode
        scheduler = RemoteScheduler(child, pauses.append, ends=True, clock=seconds.__next__)
        (error,) = scheduler.delete_nodes(["n"], wait_s=20.0)
        self.assertIsInstance(error, Unverified)
        self.assertIn("operation o is still running after 400 s", str(error))
        self.assertEqual(4, len(pauses))

    def test_an_operation_whose_checks_fail_for_a_moment_is_followed_to_its_end(self):
        """A restarted service or proxy ended the wait, and a composed node seemed to be refused."""
        running = {"id": "o", "kind": "delete", "state": "running", "result": None}
        begun, ended = ((json.dumps(running | {"state": it}).encode(), {})
                        for it in ("running", "interrupted"))  # fmt: skip
        child, lost = mock.Mock(), [ServiceError("down"), (b"<html>", {}), ServiceBusy("later")]
        child.decode = ServiceConnection("http://child").decode
        for answers, words in (
            ([begun, *lost, begun, *lost, ended], "operation o was interrupted"),
            (
                [begun, *([ServiceError("down")] * 10)],
                "operation o cannot be read: down: check and",
            ),
        ):
            child.ask.side_effect = answers
            (error,) = RemoteScheduler(child, lambda _: None).delete_nodes(["n"], wait_s=20.0)
            self.assertIsInstance(error, Unverified)
            self.assertIn(words, str(error))
