# SPDX-License-Identifier: Apache-2.0
"""One bad pod manager does not affect the others: each kind of fault, over real sockets."""

import base64
import datetime as dt
import logging
import re
import socket
import tempfile
import threading
from pathlib import Path

import msgspec

from tests.unit.certificates import ELSEWHERE, LOOPBACK, server_context
from tests.unit.drivers.live import (
    BLOCKS,
    LOGIN,
    NOON,
    TREE,
    LiveTest,
    cut,
    drip,
    drip_headers,
    half,
    half_without_length,
    hang,
    hang_in_body,
    huge,
    no_http,
    not_utf8_without_length,
    on,
    once,
    status,
    two_lengths,
)
from tests.unit.drivers.served import DIALECTS, PASSWORD, SESSIONS, TOKEN, USER
from valence_sched.drivers.crawl.pool import read
from valence_sched.drivers.crawl.reading import ReadSettings, ReadTarget
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.model.registration import Registration


class FaultsTest(LiveTest):
    def failure(self, target, status, *words, **more):
        """Read a bad pod manager and a good one; return the message about the bad one."""
        good = self.serve(TREE)
        bad, fine = self.read(target, good, **more)
        self.assertEqual(len(BLOCKS), len(fine.podm.blocks))
        self.assertIsNone(fine.failure)
        self.assertEqual(status, bad.podm.status, bad.failure)
        self.assertEqual(((), ()), (bad.podm.blocks, bad.podm.pools))
        self.assertEqual(("podm-0", "2026-03-01T12:00:00Z"), (bad.podm.id, bad.podm.read_at))
        self.assertNotIn("\n", bad.failure)
        url = target if isinstance(target, str) else target.url
        for word in ("podm-0: " + re.sub("//.*@", "//", url), *words):
            self.assertIn(word, bad.failure)
        return bad

    def noted(self, server, *words, blocks=None):
        """Read a pod manager with one bad document; check its note and the other documents."""
        (reading,) = self.read(server)
        self.assertIsNone(reading.failure)
        blocks = len(BLOCKS) - 1 if blocks is None else blocks
        self.assertEqual(blocks, len(reading.podm.blocks), reading.diagnostics)
        matches = [one for one in reading.diagnostics if all(word in one.text for word in words)]
        self.assertEqual(1, len(matches), reading.diagnostics)
        return reading


class DownTest(FaultsTest):
    def test_one_that_is_down_is_offline_and_the_others_are_read(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        self.failure(url, "Offline", "refused", "check that it runs")

    def test_one_that_never_accepts_is_offline_at_its_deadline(self):
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            port = full.getsockname()[1]
            first = [socket.socket() for _ in range(4)]
            for client in first:
                self.addCleanup(client.close)
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
            self.failure(f"http://127.0.0.1:{port}", "Offline", timeout_s=0.6)

    def test_one_that_hangs_at_any_point_is_offline_at_its_deadline(self):
        for act in (hang, hang_in_body, drip, drip_headers):
            for path in ("v1/$", "/ResourceBlocks$"):
                with self.subTest(act.__name__, path=path):
                    server = self.serve(TREE, rules=[on(path, act)])
                    self.failure(server, "Offline", "--request-timeout", timeout_s=0.7)

    def test_a_name_that_nobody_knows_is_offline(self):
        self.failure("https://podm.invalid", "Offline", "podm.invalid")

    def test_a_url_that_is_none_is_said_without_its_password(self):
        bad = self.failure(f"ftp://{USER}:{PASSWORD}@host", "Unknown", "expected https://")
        self.assertNotIn(PASSWORD, bad.failure + bad.podm.url)

    def test_a_driver_nobody_knows_is_said_with_those_that_are(self):
        server = self.serve(TREE)
        (reading,) = self.read(server, known={"driver": "redfsh"})
        self.assertIn("no driver named 'redfsh' (did you mean 'redfish'?)", reading.failure)


class LoginTest(FaultsTest):
    def test_one_session_is_made_and_deleted(self):
        server = self.serve(TREE, login=LOGIN)
        (reading,) = self.read(server)
        self.assertIsNone(reading.failure)
        self.assertEqual((1, set()), (server.made, server.sessions))
        self.assertEqual(("DELETE", f"{SESSIONS}/1"), server.log[-1])

    def test_a_session_is_deleted_by_whatever_host_it_is_named(self):
        for host in ("https://bmc.inside.example", "//bmc:8443", "https://[", ""):
            with self.subTest(host):

                def make(handler, host=host):
                    handler.podm.sessions.add(f"{SESSIONS}/1")
                    where = {"Location": f"{host}{SESSIONS}/1", "X-Auth-Token": f"{TOKEN}-1"}
                    return handler.reply(201, b"{}", where)

                server = self.serve(TREE, login=LOGIN, rules=[on("Sessions$", make, "POST")])
                (reading,) = self.read(server)
                self.assertIsNone(reading.failure)
                self.assertEqual(host == "https://[", bool(server.sessions))

    def test_two_slashes_in_front_of_its_path_are_no_host(self):
        def link(handler):
            root = msgspec.json.decode(handler.podm.document("/redfish/v1"))
            root["Links"]["Sessions"]["@odata.id"] = f"/{SESSIONS}"
            return handler.reply(200, msgspec.json.encode(root))

        def make(handler):
            handler.podm.sessions.add(f"{SESSIONS}/1")
            where = {"Location": f"/{SESSIONS}/1", "X-Auth-Token": f"{TOKEN}-1"}
            return handler.reply(201, b"{}", where)

        rules = [on("v1/?$", link), on("Sessions$", make, "POST")]
        server = self.serve(TREE, login=LOGIN, rules=rules)
        (reading,) = self.read(server)
        self.assertIsNone(reading.failure)
        self.assertEqual(set(), server.sessions)

    def test_a_session_that_is_nowhere_is_used_and_said_to_stay_open(self):
        for body in (b"", b"<html>", b'"text"', b'{"@odata.id": 7}'):
            with self.subTest(body):

                def make(handler, body=body):
                    handler.podm.sessions.add(f"{SESSIONS}/1")
                    return handler.reply(201, body, {"X-Auth-Token": f"{TOKEN}-1"})

                server = self.serve(TREE, login=LOGIN, rules=[on("Sessions$", make, "POST")])
                with self.assertLogs("valence_sched.drivers.http.connection", "WARNING") as logs:
                    (reading,) = self.read(server)
                self.assertEqual((None, len(BLOCKS)), (reading.failure, len(reading.podm.blocks)))
                self.assertIn(f"{SESSIONS}: created a session without its URI", logs.output[0])
                self.assertNotIn(TOKEN, "".join(logs.output))

    def test_a_wrong_password_is_unknown_and_tried_once(self):
        server = self.serve(TREE, login=(USER, "other"))
        self.failure(server, "Unknown", "refused the login of 'operator'")
        self.assertEqual(1, sum(method == "POST" for method, _ in server.log))

    def test_one_that_wants_a_login_says_how_to_register_it(self):
        server = self.serve(TREE, login=LOGIN)
        self.failure(server, "Unknown", "requires a login", known={"username": None})

    def test_at_the_session_limit_basic_authentication_goes_on(self):
        for code in (503, 400, 507):
            with self.subTest(code):
                rule = on("Sessions$", status(code), "POST")
                server = self.serve(TREE, login=LOGIN, rules=[rule])
                reading = self.noted(server, f"HTTP {code}", "--auth basic", blocks=len(BLOCKS))
                self.assertIsNone(reading.failure)
                self.assertEqual(1, sum(method == "POST" for method, _ in server.log))

    def test_without_basic_authentication_the_session_limit_is_a_failure(self):
        server = self.serve(TREE, login=LOGIN, rules=[on("Sessions$", status(503), "POST")])
        self.failure(server, "Unknown", "HTTP 503", "too many", known={"auth": "session"})

    def test_where_making_a_session_needs_basic_authentication_it_is_tried_once(self):
        def wants_basic(headers):
            return lambda handler: (
                "Basic" not in (handler.headers.get("Authorization") or "")
                and handler.reply(401, b'"no"', headers)
            )

        for headers in ({"WWW-Authenticate": 'Basic realm="x"'}, {}):
            for pattern, method, made in (("Sessions$", "POST", 1), ("v1/.", "GET", 1)):
                # A gateway requires basic authentication with every request, in addition to the
                # token.
                rules = [on("Sessions$", wants_basic(headers), "POST")]
                rules += [on(pattern, wants_basic(headers), method)]
                with self.subTest(headers=headers, method=method):
                    server = self.serve(TREE, login=LOGIN, rules=rules)
                    (reading,) = self.read(server)
                    self.assertEqual((None, len(BLOCKS)),
                                     (reading.failure, len(reading.podm.blocks)))  # fmt: skip
                    self.assertEqual((made, set()), (server.made, server.sessions))
                    server = self.serve(TREE, login=LOGIN, rules=rules)
                    self.failure(server, "Unknown", "refused", known={"auth": "session"})
                    self.assertEqual(1, sum(method == "POST" for method, _ in server.log))

    def test_a_wrong_password_is_sent_twice_at_most(self):
        for headers in ({"WWW-Authenticate": "Basic"}, {"WWW-Authenticate": "X-Token"}, {}):
            with self.subTest(headers=headers):
                rule = on("Sessions$", status(401, **headers), "POST")
                server = self.serve(TREE, login=(USER, "other"), rules=[rule])
                self.failure(server, "Unknown", "refused the login of 'operator'")
                tried = [path for _, path in server.log if "Sessions" in path]
                self.assertEqual(1 if "X-Token" in headers.values() else 2, len(tried))

    def test_a_root_that_shows_the_login_alone_is_read_again_after_it(self):
        bare = b'{"@odata.id": "/redfish/v1", "SessionService": {"@odata.id": "%b"}}'

        def anonymous(handler):
            known = handler.is_in()
            return not known and handler.reply(200, bare % SESSIONS.rpartition("/")[0].encode())

        server = self.serve(TREE, login=LOGIN, rules=[on("v1/?$", anonymous)])
        (reading,) = self.read(server)
        self.assertEqual((None, len(BLOCKS)), (reading.failure, len(reading.podm.blocks)))

    def test_basic_makes_no_session(self):
        server = self.serve(TREE, login=LOGIN)
        (reading,) = self.read(server, known={"auth": "basic"})
        self.assertEqual((None, 0), (reading.failure, server.made))

    def test_basic_carries_any_password_also_where_it_writes(self):
        for password, sent in (("pässword", b"p\xe4ssword"), ("pa€word", "pa€word".encode())):
            with self.subTest(password):
                word = "Basic " + base64.b64encode(USER.encode() + b":" + sent).decode()
                server = self.serve(TREE)
                known = Registration(name="x", url=server.url, username=USER, auth="basic")
                with Connection(known, password, Deadline(5)) as connection:
                    connection.login.log_in(None)
                    connection.get("/redfish/v1")
                    connection.write("POST", "/redfish/v1/Systems", {})
                self.assertEqual([word] * 2, [found["Authorization"] for found in server.headers])

    def test_an_expired_session_is_made_anew_once(self):
        def expire(handler):
            handler.podm.sessions.clear()
            return handler.reply(401)

        server = self.serve(TREE, login=LOGIN, rules=[once(on("/ResourceBlocks$", expire))])
        (reading,) = self.read(server)
        self.assertEqual((None, 2), (reading.failure, server.made))
        self.assertEqual(set(), server.sessions)

    def test_a_session_that_expires_twice_fails_this_one_only(self):
        server = self.serve(TREE, login=LOGIN, rules=[on("/ResourceBlocks$", status(401))])
        self.failure(server, "Unknown", "expired twice")
        self.assertEqual((2, set()), (server.made, server.sessions))

    def test_the_session_is_deleted_whatever_happens(self):
        for act in (hang, drip, status(401), status(200, b"<html>")):
            server = self.serve(TREE, login=LOGIN, rules=[on("/CompositionService$", act)])
            self.read(server, timeout_s=0.6)
            self.assertEqual((True, set()), (server.made > 0, server.sessions))

    def test_the_session_is_deleted_when_the_user_stops_the_reading(self):
        arrived = threading.Event()

        def stuck(handler):
            arrived.set()
            return hang(handler)

        slow = self.serve(TREE, login=LOGIN, rules=[on("/CompositionService$", stuck)])
        fast = self.serve(TREE)
        targets = [
            ReadTarget(Registration(name="fast", url=fast.url)),
            ReadTarget(Registration(name="slow", url=slow.url, username=USER), PASSWORD),
        ]
        readings = read(targets, DIALECTS, ReadSettings(timeout_s=60), clock=lambda: NOON)
        next(readings)
        arrived.wait(10)
        self.assertEqual(1, len(slow.sessions))
        readings.close()
        self.assertEqual(set(), slow.sessions)

    def test_a_session_service_that_hangs_at_the_end_does_not_keep_the_result(self):
        server = self.serve(TREE, login=LOGIN, rules=[on("Sessions/1", hang, "DELETE")])
        (reading,) = self.read(server)
        self.assertIsNone(reading.failure)


class TlsTest(FaultsTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def secure(self, name, from_day=-1, to_day=2):
        """Return a server with a self-signed certificate, and the file that trusts it."""
        context, trusted = server_context(self.folder, name, from_day, to_day)
        return self.serve(TREE, login=LOGIN, tls=context), trusted

    def test_a_certificate_nobody_vouches_for_is_refused_unless_it_is_named(self):
        server, trusted = self.secure(LOOPBACK)
        self.failure_tls(server, "certificate", "--cacert")
        self.assertEqual([], server.log)
        for known in ({"cacert": trusted}, {"insecure": True}):
            (reading,) = self.read(server, known=known)
            self.assertIsNone(reading.failure)

    def test_a_certificate_that_is_not_valid_now_is_said_to_be_so(self):
        """Its authority is trusted: naming it again would not help."""
        for days, words in (
            ((-3, -1), "certificate has expired (renew the certificate, and check the clock here;"),
            ((1, 3), "certificate is not yet valid (check the clocks of both hosts; --no-verify"),
        ):
            with self.subTest(words):
                server, trusted = self.secure(LOOPBACK, *days)
                self.failure_tls(server, words, known={"cacert": trusted})

    def failure_tls(self, server, *words, **more):
        (reading,) = self.read(server, **more)
        self.assertEqual("Offline", reading.podm.status)
        for word in (f"podm-0: {server.url}: TLS: ", *words):
            self.assertIn(word, reading.failure)

    def test_an_authority_that_is_not_there_is_said(self):
        server, _ = self.secure(ELSEWHERE)
        (reading,) = self.read(server, known={"cacert": "/nowhere/ca.pem"})
        self.assertIn("/nowhere/ca.pem", reading.failure)
        nonsense = self.folder / "nonsense.pem"
        nonsense.write_bytes(b"nonsense")
        self.failure_tls(server, str(nonsense), "--cacert", known={"cacert": str(nonsense)})


class DocumentsTest(FaultsTest):
    def test_an_error_in_place_of_the_service_root_is_no_service_root(self):
        lie = status(200, b'{"error": {"code": "Base.1.8.GeneralError", "message": "no"}}')
        server = self.serve(TREE, rules=[on("v1/?$", lie)])
        self.failure(server, "Offline", "an error message in a successful answer", "a service root")

    def test_a_web_page_is_not_redfish(self):
        server = self.serve(TREE, rules=[on("v1", status(200, b"<!doctype html><title>x"))])
        self.failure(server, "Offline", "a page of HTML")

    def test_a_server_without_a_root_is_not_redfish(self):
        self.failure(self.serve({}), "Offline", "/redfish/v1: found no such document, expected a "
                     "service root (is it a Redfish service?)")  # fmt: skip

    def test_a_service_that_answers_every_request_alike_is_none(self):
        for body in (b"{}", b"[]", b'{"@odata.id": "/redfish/v1"}', b'{"Name": "Root"}'):
            server = self.serve({}, rules=[on("", status(200, body))])
            self.failure(server, "Offline", "/redfish/v1: ")

    def test_one_bad_member_is_left_out_and_named(self):
        block = BLOCKS[0]
        acts = {
            "a page of HTML": status(200, b"<html>"),
            "JSON": status(200, b"{"),
            "nested": status(200, b'{"a":' * 100_000),
            "expected object": status(200, b'"text"'),
            "not UTF-8": not_utf8_without_length,
            "an error": status(200, b'{"error": {"code": "Base.1.0.GeneralError"}}'),
            "a redirect to 'evil.example'": status(302, Location="http://evil.example/x"),
            "a redirect without a valid target": status(302, Location="http://[::1"),
            f"5 redirects, lastly a redirect to '{block}'": status(302, Location=block),
            "a larger document": huge,
        }
        for word, act in acts.items():
            with self.subTest(word):
                server = self.serve(TREE, rules=[on(f"{block}$", act)])
                self.noted(server, block, word)
                if act is huge:
                    self.assertLess(server.sent_mib, 100)

    def test_one_document_that_is_cut_off_each_time_fails_the_reading(self):
        block = BLOCKS[0]
        acts = {
            "a truncated answer (": half,
            "a truncated answer": half_without_length,
            "not HTTP: an answer of 'SSH": no_http,
            "malformed head: duplicate content-length": two_lengths,
            "closed connection": cut,
        }
        for word, act in acts.items():
            with self.subTest(word):
                server = self.serve(TREE, rules=[on(f"{block}$", act)])
                self.failure(server, "Offline", block, word)

    def test_one_that_cuts_expanded_answers_is_read_without(self):
        server = self.serve(TREE, expand=2, rules=[on("expand", cut)])
        (reading,) = self.read(server)
        self.assertEqual((None, len(BLOCKS)), (reading.failure, len(reading.podm.blocks)))
        self.assertEqual(self.recorded(TREE)[1], reading.diagnostics)

    def test_one_that_speaks_something_else_is_offline_and_said(self):
        server = self.serve(TREE, rules=[on("v1/?$", no_http)])
        self.failure(
            server, "Offline", "not HTTP: an answer of 'SSH-2.0-OpenSSH_9.6'", "port and scheme"
        )

    def test_a_page_that_is_missing_fails_the_reading(self):
        where = BLOCKS[0].rpartition("/")[0]
        data = TREE[where].replace(
            b"{", b'{"Members@odata.nextLink": "%s?page=2",' % where.encode(), 1
        )
        self.failure(self.serve(TREE | {where: data}), "Offline", "?page=2", "no such")

    def test_a_link_to_another_host_is_refused_and_nothing_is_sent_there(self):
        evil = self.serve(TREE)
        data = {
            uri: data.replace(f'"{BLOCKS[0]}"'.encode(), f'"{evil.url}{BLOCKS[0]}"'.encode())
            for uri, data in TREE.items()
        }
        reading = self.read(self.serve(data, login=LOGIN))[0]
        self.assertIn("links to 127.0.0.1", "".join(one.text for one in reading.diagnostics))
        self.assertEqual([], evil.log)

    def test_a_redirect_to_another_host_carries_nothing_there(self):
        evil = self.serve(TREE)
        to = status(307, Location=f"{evil.url}/redfish/v1/x")
        for path, hint in (("v1/?$", True), (f"{BLOCKS[0]}$", False)):
            (reading,) = self.read(self.serve(TREE, login=LOGIN, rules=[on(path, to)]))
            said = f"{reading.failure} {[one.text for one in reading.diagnostics]}"
            self.assertIn("found a redirect to '127.0.0.1", said)
            self.assertEqual(hint, "(if that is the same service, register that address)" in said)
        (reading,) = self.read(
            self.serve(TREE, login=LOGIN, rules=[on("Sessions$", to, "POST")]),
            known={"auth": "session"},
        )
        self.assertIn("HTTP 307", reading.failure)
        self.assertEqual([], evil.log)

    def test_a_redirect_to_another_scheme_of_this_host_and_port_is_no_loop_without_a_reason(self):
        server = self.serve(TREE)
        there = server.url.replace("http:", "https:")
        server.rules[:] = [lambda it: it.reply(301, b"", {"Location": f"{there}{it.path}"})]
        said = f"a redirect to '{there}/redfish/v1/', expected an answer"
        self.failure(server, "Offline", said, "register that address")

    def test_a_redirect_on_this_host_is_followed(self):
        moved = {"/moved": TREE[BLOCKS[0]]}
        rule = on(f"{BLOCKS[0]}$", status(308, Location="/moved"))
        (reading,) = self.read(self.serve(TREE | moved, rules=[rule]))
        self.assertEqual((None, len(BLOCKS)), (reading.failure, len(reading.podm.blocks)))


class AgainTest(FaultsTest):
    def test_a_read_that_fails_once_is_tried_again(self):
        later = (dt.datetime.now(dt.UTC) - dt.timedelta(days=300)).strftime(
            "%a, %d %b %Y %H:%M:%S GMT"
        )
        acts = {
            "cut": cut,
            "busy": status(503),
            "many": status(429, Retry_After="0"),
            "number": status(503, Retry_After="0.1"),
            "date": status(503, Retry_After=later),
            "nonsense": status(503, Retry_After="soon"),
        }
        for name, act in acts.items():
            for path in ("v1/$", f"{BLOCKS[0]}$"):
                with self.subTest(name, path=path):
                    server = self.serve(TREE, rules=[once(on(path, act))])
                    (reading,) = self.read(server)
                    self.assertEqual(
                        (None, len(BLOCKS)), (reading.failure, len(reading.podm.blocks))
                    )
                    self.assertEqual(self.recorded(TREE)[1], reading.diagnostics)

    def test_one_that_asks_to_wait_beyond_the_deadline_is_not_waited_for(self):
        rule = on(f"{BLOCKS[0]}$", status(503, Retry_After="3600"))
        server = self.serve(TREE, rules=[rule])
        self.failure(server, "Offline", BLOCKS[0], "HTTP 503")
        self.assertEqual(1, server.gets().count(BLOCKS[0]))

    def test_one_that_makes_readers_wait_until_the_deadline_is_late_as_a_whole(self):
        busy = [once(on(f"{uri}$", status(503, Retry_After="0.7"))) for uri in BLOCKS]
        (reading,) = self.read(self.serve(TREE, rules=busy), timeout_s=1, parallel=1)
        self.assertIn("no complete answer", reading.failure)
        self.assertEqual(("Offline", ()), (reading.podm.status, reading.podm.blocks))


class SecretsTest(FaultsTest):
    def test_no_secret_is_said_anywhere(self):
        lines = []

        class Listener(logging.Handler):
            def emit(self, record):
                lines.append(self.format(record))

        listener, root = Listener(), logging.getLogger()
        level = root.level
        root.addHandler(listener)
        root.setLevel(logging.DEBUG)
        self.addCleanup(root.setLevel, level)
        self.addCleanup(root.removeHandler, listener)
        echo = status(500, b'{"error": {"message": "%s %s"}}' % (PASSWORD.encode(), TOKEN.encode()))
        rules = (
            [],
            [on(BLOCKS[0], echo)],
            [on("Sessions$", echo, "POST")],
            [on("v1/$", echo)],
            [on("/ResourceBlocks$", status(401))],
            [on("/ResourceBlocks$", hang)],
        )
        for rule in rules:
            for auth in ("auto", "basic", "session"):
                server = self.serve(TREE, login=LOGIN, rules=rule)
                target = ReadTarget(Registration(name="x", url=server.url, username=USER), PASSWORD)
                lines += [repr(target)]
                for reading in self.read(server, timeout_s=0.8, known={"auth": auth}):
                    lines += [
                        repr(reading),
                        str(reading.failure),
                        *(one.text for one in reading.diagnostics),
                    ]
        basic = "b3BlcmF0b3I6"
        matches = [line for line in lines if any(s in line for s in (PASSWORD, TOKEN, basic))]
        self.assertEqual([], matches)
        self.assertTrue(any("POST /redfish/v1/SessionService" in line for line in lines))
