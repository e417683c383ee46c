# SPDX-License-Identifier: Apache-2.0
"""HTTP over connections that stay open, against a server that sends given bytes."""

from __future__ import annotations

import gzip
import logging
import socket
import ssl
import threading
import zlib
from unittest import mock

from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from valence_sched.drivers.http.exchange import PodmRequest, Slow, Unreachable
from valence_sched.drivers.http.stdlib_transport import StdlibTransport
from valence_sched.drivers.http.tls import TlsContexts, unreachable_error

REPORT = r" \(report it to the vendor of the service, or of a proxy before it\)$"
#: The end of a body in chunks, with too many headers after it.
TRAILERS = b"0\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(200))

UNSENDABLE = ("header X-Auth-Token: found {what}, expected one line of Latin-1 (the pod manager "
              "named it: report it to its vendor)")  # fmt: skip


class StdlibTransportTest(ServedBytes):
    def test_one_line_serves_several_requests(self) -> None:
        transport = self.serve([answer(b"one"), answer(b"two")])
        self.assertEqual([b"one", b"two"], [self.ask(transport), self.ask(transport)])

    def test_a_line_that_was_closed_meanwhile_is_not_asked(self) -> None:
        transport = self.serve([answer(b"one")], [answer(b"two")])
        self.assertEqual(b"one", self.ask(transport))
        self.closed[0].wait(5)
        self.assertEqual(b"two", self.ask(transport))

    def test_a_line_of_which_the_server_says_that_it_ends_is_not_asked(self) -> None:
        transport = self.serve([answer(b"one", "Connection: close")], [answer(b"two")])
        self.assertEqual([b"one", b"two"], [self.ask(transport), self.ask(transport)])

    def test_chunks_are_one_body(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        transport = self.serve([head + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", answer(b"three")])
        self.assertEqual([b"onetwo", b"three"], [self.ask(transport), self.ask(transport)])

    def test_half_a_body_is_none_and_may_come_whole_the_next_time(self) -> None:
        transport = self.serve([answer(b"half", length=8)])
        with self.assertRaises(Unreachable) as caught:
            self.ask(transport)
        self.assertTrue(caught.exception.retryable)
        self.assertTrue(caught.exception.sent)

    def test_of_too_long_a_body_one_byte_too_many_is_read_and_the_line_is_closed(self) -> None:
        transport = self.serve([answer(b"x" * 2000, length=4000), b""], [answer(b"two")])
        self.assertEqual(1001, len(self.ask(transport)))
        self.assertEqual(b"two", self.ask(transport))

    def test_a_body_that_is_packed_unasked_is_unpacked_within_its_bound(self) -> None:
        plain = b"x" * 100_000
        for name, packed in (("gzip", gzip.compress(plain)), ("deflate", zlib.compress(plain))):
            transport = self.serve([answer(packed, f"Content-Encoding: {name}")] * 2)
            self.assertEqual(plain, self.ask(transport, most=1 << 20))
            self.assertEqual(1001, len(self.ask(transport)))

    def test_an_encoding_that_is_not_read_is_named(self) -> None:
        raw = zlib.compress(b"{}")[2:-4]
        for encoding, packed, name in (
            ("br", b"\x8b\x00", "br"),
            ("zstd", b"x", "zstd"),
            ("gzip, br", b"x", "gzip, br"),
            ("deflate", raw, "deflate without a zlib header"),
        ):
            with self.subTest(encoding):
                transport = self.serve([answer(packed, f"Content-Encoding: {encoding}")])
                what = f"^a body in the encoding '{name}', which is not supported .*gzip or plain"
                with self.assertRaisesRegex(Unreachable, what):
                    self.ask(transport)

    def test_a_body_that_cannot_be_unpacked_is_none(self) -> None:
        transport = self.serve([answer(b"no gzip", "Content-Encoding: gzip")])
        with self.assertRaisesRegex(Unreachable, f"^malformed body: .*header check{REPORT}"):
            self.ask(transport)

    def test_an_answer_that_breaks_http_is_said_by_where_it_breaks(self) -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        lengths = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
        port = r" \(is it this port, and not https\?\)$"
        for text, data in (
            (f"^no HTTP: an answer of 'SSH-2.0'{port}", b"SSH-2.0\r\n"),
            (f"^malformed head: duplicate content-length{REPORT}", lengths),
            (f"^malformed head: invalid status code{REPORT}", b"HTTP/1.1 OK\r\n\r\n"),
            (f"^malformed body: invalid character in chunk size{REPORT}", chunked + b"one\r\n"),
            (f"^malformed body: .*chunk data{REPORT}", chunked + b"2\r\none\r\n"),
            (f"^malformed body: more than .* headers{REPORT}", chunked + TRAILERS),
        ):
            with self.subTest(text), self.assertRaisesRegex(Unreachable, text) as caught:
                self.ask(self.serve([data]))
            self.assertTrue(caught.exception.retryable)

    def test_who_does_not_answer_in_time_is_slow_and_may_have_heard(self) -> None:
        transport = self.serve([b"", b""])
        with self.assertRaises(Slow) as caught:
            self.ask(transport, timeout_s=0.2)
        self.assertTrue(caught.exception.sent)

    def test_where_nobody_listens_nothing_was_sent(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        with self.assertRaises(Unreachable) as caught:
            self.ask(StdlibTransport(f"http://127.0.0.1:{port}", True, TlsContexts()))
        self.assertFalse(caught.exception.sent)
        self.assertTrue(caught.exception.retryable)

    def test_an_ipv6_address_without_a_port_is_asked_whole_at_the_usual_one(self) -> None:
        for scheme, port in (("http", 80), ("https", 443)):
            with mock.patch("socket.create_connection", side_effect=ConnectionRefusedError) as at:
                with self.assertRaises(Unreachable):
                    self.ask(StdlibTransport(f"{scheme}://[fd00::17]", False, TlsContexts()))
                self.assertEqual(("fd00::17", port), at.call_args.args[0])

    def test_tls_that_is_cut_may_come_the_next_time_and_is_not_about_trust(self) -> None:
        error = unreachable_error(
            ssl.SSLEOFError(8, "[SSL] EOF in violation of protocol (_ssl.c:1006)")
        )
        self.assertTrue(error.retryable)
        self.assertIn("eof in violation of protocol (check that it runs", str(error))

    def test_what_is_under_way_is_cut(self) -> None:
        transport = self.serve([b"", b""])
        timer = threading.Timer(0.1, transport.cut)
        timer.start()
        self.addCleanup(timer.join)
        with self.assertRaises(Unreachable):
            self.ask(transport, timeout_s=30)

    def test_after_a_cut_a_new_line_is_asked_and_no_line_from_before(self) -> None:
        transport = self.serve([answer(b"one")], [answer(b"two")])
        self.ask(transport)
        with mock.patch(
            "valence_sched.drivers.http.stdlib_transport.shut", lambda _: self.found.append(ask())
        ):
            ask, self.found = (lambda: self.ask(transport)), list[bytes]()
            transport.cut()
        self.assertEqual([b"two"], self.found)

    def test_an_idle_line_waits_no_longer_than_the_next_request_allows(self) -> None:
        transport = self.serve([answer(b"one"), b"", b""])
        self.assertEqual(b"one", self.ask(transport, timeout_s=30))
        with self.assertRaises(Slow):
            self.ask(transport, timeout_s=0.1)

    def test_without_poll_a_line_that_was_closed_is_found_out_too(self) -> None:
        with mock.patch("valence_sched.drivers.http.stdlib_transport.select", object()):
            transport = self.serve([answer(b"one"), answer(b"two")], [answer(b"three")])
            self.assertEqual([b"one", b"two"], [self.ask(transport), self.ask(transport)])
            self.closed[0].wait(5)
            self.assertEqual(b"three", self.ask(transport))

    def test_a_request_is_sent_whole_with_the_length_of_its_body(self) -> None:
        transport = self.serve([answer(b"")] * 4)
        for method, path, body in (("GET", "/a", None), ("POST", "/b", {"A": 1}),
                                   ("PATCH", "/c", None), ("DELETE", "", None)):  # fmt: skip
            transport.ask(PodmRequest(method, path, {"Accept": "*/*", "X-A": "b"}, 5, 10, body))
        head = f" HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAccept: */*\r\nX-A: b\r\n"
        ends = "\r\n", 'Content-Length: 7\r\n\r\n{"A":1}', "Content-Length: 0\r\n\r\n", "\r\n"
        starts = "GET /a", "POST /b", "PATCH /c", "DELETE /"
        expected = [f"{start}{head}{end}" for start, end in zip(starts, ends, strict=True)]
        self.assertEqual(expected, [one.decode() for one in self.received])

    def test_a_header_that_cannot_be_sent_is_named_without_its_value_and_nothing_is_sent(
        self,
    ) -> None:
        transport = self.serve([answer(b"one")])
        for character, what in (("\n", "a line break or NUL"), ("€", "a character beyond Latin-1")):
            headers = {"Accept": "*/*", "X-Auth-Token": f"a{character}b"}
            request = PodmRequest("GET", "/a", headers, 5, 10)
            for send in (transport.ask, transport.open_stream):
                with self.assertRaises(Unreachable) as caught:
                    send(request)
                self.assertEqual(UNSENDABLE.format(what=what), str(caught.exception))
                self.assertFalse(caught.exception.sent or caught.exception.retryable)
        self.assertEqual(b"one", self.ask(transport))  # nothing came before

    def test_a_host_is_named_as_in_its_url_but_for_the_usual_port(self) -> None:
        connect = socket.create_connection
        for url, host in (
            ("http://[fd00::17]", "[fd00::17]"),
            ("http://[fd00::17]:8080", "[fd00::17]:8080"),
            (
                "http://b\N{LATIN SMALL LETTER U WITH DIAERESIS}cher.example",
                "xn--bcher-kva.example",
            ),
            ("http://podm-1:80", "podm-1"),
            ("http://podm-1:443", "podm-1:443"),
        ):
            self.serve([answer(b"")])
            transport = StdlibTransport(url, True, TlsContexts())
            with mock.patch(
                "socket.create_connection",
                lambda _, limit_s: connect(("127.0.0.1", self.port), limit_s),
            ):
                self.ask(transport)
            transport.close()
            self.assertIn(f"\r\nHost: {host}\r\n".encode(), self.received[0])

    def test_a_path_is_quoted_as_far_as_it_must_be(self) -> None:
        transport = self.serve([answer(b"")] * 3)
        for path in ("/a?$expand=.($levels=6)", "/a b", "/a%20b"):
            self.ask(transport, path)
        paths = [line.split(b" ")[1] for line in self.received]
        self.assertEqual([b"/a?$expand=.($levels=6)", b"/a%20b", b"/a%20b"], paths)

    def test_requests_are_logged_without_their_headers(self) -> None:
        transport = self.serve([answer(b"one")])
        with self.assertLogs("valence_sched.drivers.http.stdlib_transport", logging.DEBUG) as logs:
            self.ask(transport)
        self.assertRegex(
            logs.output[0], r'http://127\.0\.0\.1:\d+ "GET /a HTTP/1\.1" 200, 3 bytes$'
        )
