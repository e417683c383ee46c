# SPDX-License-Identifier: Apache-2.0
"""The certificates that transports trust and present, and the meaning of failures."""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import TestCase

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from urllib3.util.ssltransport import SSLTransport

from tests.unit.certificates import (
    ELSEWHERE,
    LOCALHOST,
    LOOPBACK,
    certificate_files,
    server_context,
)
from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from valence_sched.drivers.http.exchange import PodmRequest, TlsContexts, Unreachable, shut
from valence_sched.drivers.http.stdlib_transport import StdlibTransport
from valence_sched.drivers.http.sushy_transport import SushyTransport
from valence_sched.model.http import ClientCertificate

PLAIN = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nplain"


class TlsTest(ServedBytes):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def secure(
        self, name: x509.GeneralName, verify: bool | None = None, connections: int = 1
    ) -> StdlibTransport:
        """Serve with a certificate for a name; by default its own file verifies it."""
        context, trusted = server_context(self.folder, name)
        answers = [[answer(b"one"), answer(b"two")]] * connections
        return self.serve(*answers, tls=context, verify=trusted if verify is None else verify)

    def refuse(self, transport: StdlibTransport, words: str) -> None:
        with self.assertRaisesRegex(Unreachable, words) as caught:
            self.ask(transport)
        self.assertFalse(caught.exception.sent)
        self.assertTrue(self.closed[0].wait(5))
        self.assertEqual([], self.received)

    def test_one_of_an_unknown_authority_is_not_and_nothing_is_sent(self) -> None:
        self.refuse(self.secure(LOOPBACK, verify=True), "^TLS: self-signed certificate .*--cacert")

    def test_one_of_another_host_is_not_even_of_a_named_authority(self) -> None:
        self.refuse(self.secure(ELSEWHERE), r"^TLS: .*127\.0\.0\.1")

    def test_an_authority_that_is_not_there_is_told_before_a_request(self) -> None:
        nowhere = str(self.folder / "none.pem")
        with self.assertRaises(Unreachable):
            StdlibTransport("https://127.0.0.1:1", nowhere, TlsContexts())
        StdlibTransport("http://127.0.0.1:1", nowhere, TlsContexts()).close()


class HandshakeTest(TestCase):
    """Messages of a server in a handshake, on real sockets."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def server(self, tls: ssl.SSLContext | None, plain: bytes = b"") -> int:
        """Answer any number of connections; return the port.

        A connection that does not begin with a handshake gets ``plain``, as from web servers on a
        TLS port.
        """
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    sock = listener.accept()[0]
                    with contextlib.suppress(OSError), sock:
                        is_handshake = sock.recv(1, socket.MSG_PEEK) == b"\x16"
                        if tls is None or (plain and not is_handshake):
                            sock.recv(1 << 16)
                            sock.sendall(plain)
                            continue
                        with tls.wrap_socket(sock, server_side=True) as secure:
                            secure.recv(1 << 16)
                            secure.sendall(answer(b"{}"))

        threading.Thread(target=run, daemon=True).start()
        return int(listener.getsockname()[1])

    def transports(
        self,
        url: str,
        verify: bool | str = True,
        certificate: ClientCertificate | None = None,
        proxies: dict[str, str] | None = None,
    ) -> Iterator[StdlibTransport | SushyTransport]:
        if not proxies:
            yield StdlibTransport(url, verify, TlsContexts({}), certificate)
        yield SushyTransport(url, verify, TlsContexts({}), certificate, proxies or {}, 1)

    def answers(self, url: str, *args: object, **words: object) -> list[str]:
        """Return the result of each transport: a body, or the text of the error."""
        found = []
        for transport in self.transports(url, *args, **words):  # type: ignore[arg-type]
            try:
                request = PodmRequest("GET", "/a", {"Accept": "*/*"}, 5, 1000)
                found.append(transport.ask(request).body.decode())
            except Unreachable as error:
                self.assertFalse(error.sent and isinstance(transport, StdlibTransport), error)
                found.append(str(error))
            transport.close()
        return found

    def test_a_client_certificate_is_presented_and_its_refusal_is_told(self) -> None:
        ours, others = certificate_files(self.folder / "ours"), certificate_files(self.folder / "x")
        (self.folder / "both.pem").write_bytes(b"".join(Path(it).read_bytes() for it in ours))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                context, trusted = server_context(self.folder, LOOPBACK)
                context.minimum_version = context.maximum_version = version
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(ours[0])
                url = f"https://127.0.0.1:{self.server(context)}"
                for one in (ClientCertificate(*ours), ClientCertificate(f"{self.folder}/both.pem")):
                    self.assertEqual(["{}", "{}"], self.answers(url, trusted, one))
                    self.assertEqual(["{}", "{}"], self.answers(url, False, one))
                (without, _), (refused, _) = (
                    self.answers(url, trusted, one) for one in (None, ClientCertificate(*others))
                )
                self.assertRegex(
                    without, "^TLS: .*demands a client certificate: give one with --cert"
                )
                self.assertRegex(refused, "^TLS: .*unknown ca .it refuses the client certificate")

    def test_a_client_certificate_that_cannot_be_used_is_named_and_never_prompts(self) -> None:
        one, other = certificate_files(self.folder / "one"), certificate_files(self.folder / "two")
        sealed = certificate_files(self.folder / "three", pass_phrase=b"secret")
        for files, words in (
            (sealed, "the key has a pass phrase, which is not supported"),
            ((one[0], other[1]), "/ca.pem' and .*/key.pem': found a key of another certificate"),
            ((one[0], None), "found no certificate and key in PEM"),
            ((f"{self.folder}/none", None), "none': no such file or directory"),
        ):
            with self.subTest(words):
                with self.assertRaisesRegex(Unreachable, words) as caught:
                    TlsContexts({}).for_verify(False, ClientCertificate(*files))
                self.assertFalse(caught.exception.sent)

    def test_a_failure_is_told_with_what_to_do(self) -> None:
        old, trusted_old = server_context(self.folder / "a", LOOPBACK)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        named, trusted_named = server_context(self.folder / "b", LOCALHOST)
        named.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        key = rsa.generate_private_key(65537, 1024)
        weak, trusted_weak = server_context(self.folder / "c", LOOPBACK, key=key)
        for context, trusted, host, words in (
            (old, trusted_old, "127.0.0.1", "does not support TLS 1.2 or later: update its firm"),
            (named, trusted_named, "localhost", "no certificate for this name .SNI.: use its own"),
            (weak, trusted_weak, "127.0.0.1", "its certificate is too weak: .*--no-verify"),
        ):
            with self.subTest(words):
                url = f"https://{host}:{self.server(context)}"
                for text in self.answers(url, trusted):
                    self.assertRegex(text, f"^TLS: .*{words}")

    def test_a_port_of_tls_that_is_asked_without_is_named(self) -> None:
        context, _ = server_context(self.folder, LOOPBACK)
        for plain, tls in (
            (b"", context),
            (PLAIN, context),
            (b"\x15\x03\x01\x00\x02\x02\x46", None),
        ):
            with self.subTest(plain):
                found, _ = self.answers(f"http://127.0.0.1:{self.server(tls, plain)}")
                self.assertRegex(found, "the port requires TLS: write https:// in the URL")
        found, _ = self.answers(f"http://127.0.0.1:{self.server(None, PLAIN)}")
        self.assertEqual("plain", found)
        for found in self.answers(f"https://127.0.0.1:{self.server(None, PLAIN)}"):
            self.assertRegex(found, "^TLS: .*is it HTTP without TLS")

    def test_a_proxy_that_fails_is_told_apart_from_the_host(self) -> None:
        refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
        port = self.server(None, refusal)
        for scheme, words in (
            ("http", "407 .*check HTTPS_PROXY"),
            ("https", "write http:// in HTTPS_PR"),
        ):
            proxies = {"https": f"{scheme}://127.0.0.1:{port}"}
            (found,) = self.answers("https://podm.example", proxies=proxies)
            self.assertRegex(found, f"^proxy: .*{words}")

    def test_usual_authorities_are_named_by_variables_in_their_order(self) -> None:
        context, trusted = server_context(self.folder, LOOPBACK)
        other, _ = certificate_files(self.folder / "other")
        url = f"https://127.0.0.1:{self.server(context)}"
        names = ("OS_CACERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
        for first, name in enumerate(names):
            environ = {name: trusted, **dict.fromkeys(names[first + 1 :], other)}
            with self.subTest(environ):
                transport = StdlibTransport(url, True, TlsContexts(environ))
                self.addCleanup(transport.close)
                answer_ = transport.ask(PodmRequest("GET", "/a", {}, 5, 1000))
                self.assertEqual(b"{}", answer_.body)
        for text in self.answers(url):
            self.assertRegex(
                text, "^TLS: self-signed certificate .give the file of its authority with --cacert"
            )
        with self.assertRaisesRegex(Unreachable, "OS_CACERT: '/none': no such file"):
            StdlibTransport(url, True, TlsContexts({"OS_CACERT": "/none"}))


class ShutTest(TestCase):
    """Shutting down a connection wakes the threads that wait for it."""

    def test_of_tls_within_tls_the_outer_socket_is_shut(self) -> None:
        """With an HTTPS proxy, the object of urllib3 cannot be shut down itself."""
        one, other = socket.socketpair()
        with one, other:
            inner = SSLTransport.__new__(SSLTransport)
            inner.socket = one
            shut(inner)
            self.assertEqual(b"", other.recv(1))
            shut(inner)  # a repetition is no error
