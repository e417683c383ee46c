# SPDX-License-Identifier: Apache-2.0
"""The errors of failed connections to a service."""

import base64
import contextlib
import ipaddress
import socket
import ssl
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from cryptography import x509

from tests.loopback import LoopbackServer
from tests.unit.certificates import certificate_files, server_context
from valence_sched.errors import ServiceError, UsageError
from valence_sched.model.registration import Registration, RegistrationChange
from valence_sched.remote.connection import ServiceConnection, connection
from valence_sched.remote.scheduler import RemoteScheduler

HERE = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))


class TestTls(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def serve(self, context=None):
        """Accept connections, with TLS or with other bytes as the answer; return the https URL."""
        listening = self.enterContext(socket.create_server(("127.0.0.1", 0)))

        def accept():
            while True:
                try:
                    taken, _ = listening.accept()
                except OSError:  # closed at the end of the test
                    return
                with taken, contextlib.suppress(OSError):
                    if context:
                        context.wrap_socket(taken, server_side=True).close()
                    else:
                        taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(listening.shutdown, socket.SHUT_RDWR)
        return f"https://127.0.0.1:{listening.getsockname()[1]}"

    def failure(self, url, verify=True):
        """Return the error text after the URL."""
        with self.assertRaises(ServiceError) as caught:
            ServiceConnection(url, verify=verify).ask("GET", "/v1")
        return str(caught.exception).removeprefix(f"{url}: ")

    def test_authorities_that_are_not_there_are_named(self):
        missing = str(self.folder / "none.pem")
        self.assertRegex(self.failure(self.serve(), missing), f"^OSError: .*{missing}$")

    def test_what_is_wrong_with_a_certificate_is_said(self):
        other = x509.DNSName("other.example")
        for name, days, expected in (
            (HERE, (-3, -1),
             "certificate has expired: renew the certificate, and check the clock here"),
            (HERE, (1, 3), "certificate is not yet valid: check the clocks of both hosts"),
            (other, (-1, 2), "ip address mismatch, certificate is not valid for '127.0.0.1': "
             "use a host in the URL that the certificate names"),
        ):  # fmt: skip
            with self.subTest(expected):
                context, trusted = server_context(self.folder, name, *days)
                said = self.failure(self.serve(context), trusted)
                self.assertEqual(f"its certificate is not trusted: {expected}", said)

    def test_an_authority_is_asked_for_only_where_it_is_not_known(self):
        context, _ = server_context(self.folder, HERE)
        self.assertEqual(
            "its certificate is not trusted: self-signed certificate: give the file of its "
            "authority with VALENCE_SCHED_CACERT",
            self.failure(self.serve(context)),
        )

    def test_a_service_without_tls_is_no_matter_of_trust(self):
        self.assertEqual("no TLS: wrong version number: is it HTTP without TLS?",
                         self.failure(self.serve()))  # fmt: skip

    def test_a_client_certificate_is_presented_where_it_is_demanded(self):
        cert, key = certificate_files(self.folder / "client")
        context, trusted = server_context(self.folder, HERE)
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # which checks it before a request
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cert)
        url = self.serve(context)
        self.assertIn("VALENCE_SCHED_CERT and VALENCE_SCHED_KEY", self.failure(url, trusted))
        environ = {"VALENCE_SCHED_URL": self.serve(context), "VALENCE_SCHED_CACERT": trusted,
                   "VALENCE_SCHED_CERT": cert, "VALENCE_SCHED_KEY": key}  # fmt: skip
        with self.assertRaisesRegex(ServiceError, "does not answer"):  # only a handshake
            connection(environ).ask("GET", "/v1")
        for wrong, words in (
            ({"VALENCE_SCHED_CERT": ""}, "a key without a certificate"),
            ({"VALENCE_SCHED_CERT": "-----BEGIN CERTIFICATE-----"}, "expected the file"),
            ({"VALENCE_SCHED_KEY": "/none"}, "VALENCE_SCHED_KEY: /none is not a readable file"),
        ):
            with self.assertRaisesRegex(UsageError, words):
                connection(environ | wrong)


class TestSlow(unittest.TestCase):
    def test_a_head_that_arrives_a_byte_at_a_time_is_late(self):
        class Trickling(BaseHTTPRequestHandler):
            def do_GET(self):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
                while True:  # until the client leaves
                    self.wfile.write(b"a")
                    time.sleep(0.05)

        server = LoopbackServer(Trickling)
        server.start()
        self.addCleanup(server.close)
        with self.assertRaisesRegex(ServiceError, "does not answer in time: check"):
            ServiceConnection(server.url, timeout_s=0.3).ask("GET", "podms")


class TestLostAnswers(unittest.TestCase):
    """A change without a readable answer may have been made, which is told."""

    ANSWERS = (
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0\r\n",
    )

    def test_a_change_may_have_been_made_and_a_read_was_not(self):
        listening = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        def run():
            for answer in self.ANSWERS * 2:
                with listening.accept()[0] as taken:
                    taken.recv(1 << 16)
                    taken.sendall(answer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        for method in ("POST", "GET"):
            for answer in self.ANSWERS:
                with self.subTest((method, answer)), self.assertRaises(ServiceError) as caught:
                    ServiceConnection(url, timeout_s=5).ask(method, "claims")
                told = str(caught.exception).endswith(": the request may have been carried out")
                self.assertEqual(method == "POST", told, caught.exception)
        thread.join()
        listening.close()
        with self.assertRaisesRegex(ServiceError, "does not answer: check that the service runs"):
            ServiceConnection(url).ask("POST", "claims")

    def test_an_answer_of_another_program_tells_it_too(self):
        for changes, hint in ((True, "may have been carried out"), (False, "may be newer")):
            with self.subTest(hint), self.assertRaisesRegex(ServiceError, f"parsed .* {hint}$"):
                ServiceConnection("http://127.0.0.1:9").decode(b"<html>", dict, changes=changes)


class TestHeaders(unittest.TestCase):
    def setUp(self):
        self.received = received = []

        class Answering(BaseHTTPRequestHandler):
            def do_GET(self):
                received.append(self.headers)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                """Log nothing."""

        self.server = LoopbackServer(Answering)
        self.server.start()
        self.addCleanup(self.server.close)

    def test_a_header_that_cannot_be_sent_is_named_without_its_value(self):
        url = self.server.url
        for character, what in (("\n", "a line break or NUL"), ("€", "a character beyond Latin-1")):
            secret = f"secret{character}"
            with_token = ServiceConnection(url, token=lambda s=secret: s, renew=list)
            for header, one, key in (
                ("X-Auth-Token", with_token, None),
                ("Idempotency-Key", ServiceConnection(url), secret),
            ):
                with self.subTest(header), self.assertRaises(ServiceError) as caught:
                    one.ask("GET", "podms", key=key)
                expected = f"header {header}: found {what}, expected one line of Latin-1"
                self.assertEqual(f"{url}: {expected}", str(caught.exception))
        self.assertEqual([], self.received)

    def test_a_login_is_sent_in_utf_8_as_the_service_reads_it(self):
        for user, password in (("müller", "pässwort"), ("a", "€")):
            connection = ServiceConnection(self.server.url, user=user, password=password)
            self.assertEqual(b"{}", connection.ask("GET", "podms")[0])
            sent = base64.b64decode(self.received[-1]["Authorization"].partition(" ")[2])
            self.assertEqual(f"{user}:{password}", sent.decode())

    def test_a_typed_password_of_a_pod_manager_is_not_sent(self):
        remote, one = RemoteScheduler(ServiceConnection(self.server.url)), "https://p"
        registration, change = Registration(name="p", url=one), RegistrationChange()
        for call in (
            lambda: remote.register(registration, password="typed"),
            lambda: remote.change_registration("p", change, password="typed"),
        ):
            with self.assertRaisesRegex(UsageError, "^a typed password is not sent"):
                call()
        self.assertEqual([], self.received)
