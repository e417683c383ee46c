# SPDX-License-Identifier: Apache-2.0
"""HTTP over persistent connections, against a server that sends given bytes."""

from __future__ import annotations

import gc
import gzip
import logging
import socket
import ssl
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from unittest import TestCase, mock

from hypothesis import given, strategies as st

from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from valence_sched.drivers.http.exchange import (
    MalformedBody,
    PodmRequest,
    Slow,
    TlsContexts,
    Unreachable,
    unreachable_error,
)
from valence_sched.drivers.http.stdlib_transport import (
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    AnswerStream,
    Response,
    StdlibTransport,
)

REPORT = r" \(report it to the vendor of the service or of its proxy\)$"
#: The end of a chunked body, with too many trailers after it.
TRAILERS = b"0\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(200))

UNSENDABLE = ("header X-Auth-Token: found {what}, expected one line of Latin-1 (the pod manager "
              "sent this value: report it to the vendor)")  # fmt: skip


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

    def test_an_answer_that_breaks_http_is_said_by_where_it_breaks(self) -> None:
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        lengths = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"
        port = r" \(check the port and scheme of the URL\)$"
        for text, data in (
            (f"^not HTTP: an answer of 'SSH-2.0'{port}", b"SSH-2.0\r\n"),
            (f"^malformed head: duplicate content-length{REPORT}", lengths),
            (f"^malformed head: invalid status code{REPORT}", b"HTTP/1.1 OK\r\n\r\n"),
            (f"^malformed body: invalid character in chunk size{REPORT}", chunked + b"one\r\n"),
            (f"^malformed body: .*chunk data{REPORT}", chunked + b"2\r\none\r\n"),
            (f"^malformed body: more than .* headers{REPORT}", chunked + TRAILERS),
            (
                f"^malformed body: .*header check{REPORT}",
                answer(b"no gzip", "Content-Encoding: gzip"),
            ),
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
            "valence_sched.drivers.http.exchange.shut", lambda _: self.found.append(ask())
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

    def test_a_header_that_cannot_be_sent_is_named_and_nothing_is_sent(self) -> None:
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


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
#: A response, whether the server closes after it, its body, and whether the connection is free.
GOOD = {
    "a length": (OK + b"Content-Length: 6\r\n\r\nonetwo", False, b"onetwo", True),
    "no body": (OK + b"Content-Length: 0\r\n\r\n", False, b"", True),
    "chunks": (CHUNKED + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", False, b"onetwo", True),
    "padded chunks": (CHUNKED + b"6  \r\nonetwo\r\n0 \r\n\r\n", False, b"onetwo", True),
    "extensions": (CHUNKED + b'6;a=b;c="d"\r\nonetwo\r\n0\r\n\r\n', False, b"onetwo", True),
    "trailers": (CHUNKED + b"6\r\nonetwo\r\n0\r\nETag: x\r\nA: b\r\n\r\n", False, b"onetwo", True),
    "until the end": (OK + b"A: b\r\n\r\nonetwo", True, b"onetwo", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nonetwo", False, b"onetwo", False),
    "HTTP/1.0 kept": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\none",
        False, b"one", True,
    ),
    "close": (OK + b"Connection: close\r\nContent-Length: 3\r\n\r\none", False, b"one", False),
    "an offer": (
        OK + b"Connection: Upgrade, Keep-Alive\r\nUpgrade: h2\r\nContent-Length: 3\r\n\r\none",
        False, b"one", True,
    ),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 3\r\n\r\none", False, b"one", True),
    "bare line ends": (b"HTTP/1.1 200 OK\nContent-Length: 3\n\none", False, b"one", True),
    "both lengths": (
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n",
        False, b"one", True,
    ),
    "interim": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n"
        + OK + b"Content-Length: 3\r\n\r\none",
        False, b"one", True,
    ),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", False, b"", True),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n", False, b"", True),
}  # fmt: skip
#: Bytes after which the server closes, the error, and words of it.
BAD = {
    "nothing": (b"", RemoteDisconnected, "^Remote end closed connection without response$"),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n", BadStatusLine, "SSH-2.0-OpenSSH_9.6"),
    "nearly HTTP": (b"HTTQ/1.1 200 OK\r\n\r\n", BadStatusLine, "HTTQ/1.1 200 OK"),
    "half a status": (b"HTTP/1.1 2", IncompleteRead, "0 bytes read"),
    "half a head": (OK + b"Content-Le", IncompleteRead, "0 bytes read"),
    "half a body": (OK + b"Content-Length: 6\r\n\r\none", IncompleteRead, "3 bytes read"),
    "half of the chunks": (CHUNKED + b"3\r\none\r\n", IncompleteRead, "3 bytes read"),
    "half a chunk": (CHUNKED + b"9\r\none", IncompleteRead, "3 bytes read"),
    "interim only": (b"HTTP/1.1 100 Continue\r\n\r\n", IncompleteRead, "0 bytes read"),
    "two lengths": (
        OK + b"Content-Length: 3\r\nContent-Length: 6\r\n\r\nonetwo", HTTPException,
        "Duplicate Content-Length",
    ),
    "a length of less than 0": (
        OK + b"Content-Length: -3\r\n\r\none", HTTPException, "character in Content-Length",
    ),
    "a chunk without a size": (CHUNKED + b"one\r\n", MalformedBody, "character in chunk size"),
    "a chunk of another size": (CHUNKED + b"2\r\none\r\n", MalformedBody, "chunk data"),
    "a header without a name": (OK + b"one two\r\n\r\n", HTTPException, "Invalid header token"),
    "another version": (b"HTTP/9.1 200 OK\r\n\r\n", HTTPException, "Invalid HTTP version"),
    "no status": (b"HTTP/1.1 OK\r\n\r\n", HTTPException, "Invalid status code"),
    "a status of less than 100": (b"HTTP/1.1 099 Odd\r\n\r\n", BadStatusLine, "99"),
    "an upgrade": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", HTTPException,
        "^an upgrade that was not requested$",
    ),
}  # fmt: skip
LINE = b"a" * 1000


def receiver(pieces: Iterable[bytes], *, closes: bool = True) -> Callable[[int], bytes]:
    """Return a function that receives these pieces, and then the end, or blocks."""
    waiting = iter(pieces)

    def receive(most: int) -> bytes:
        piece = next(waiting, b"")
        if not piece and not closes:
            raise TimeoutError("nothing more is sent")
        assert len(piece) <= most
        return piece

    return receive


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Return data in pieces of these sizes, and the rest in one."""
    pieces, at = [], 0
    for size in sizes:
        if at < len(data):
            pieces.append(data[at : at + size])
            at += size
    return [*pieces, data[at:]] if at < len(data) else pieces


class ResponseTest(TestCase):
    def read(self, data: bytes, most: int = 1000, method: str = "GET") -> tuple[Response, bytes]:
        response = Response(receiver([data]), method)
        return response, response.read(most)

    def test_each_response_is_read_at_once_and_byte_by_byte(self) -> None:
        for name, (data, closes, body, is_reusable) in GOOD.items():
            for pieces in ([data], cut(data, [1] * len(data))):
                with self.subTest(name, pieces=len(pieces)):
                    response = Response(receiver(pieces, closes=closes), "GET")
                    self.assertEqual(body, response.read(1000))
                    self.assertEqual(is_reusable, response.is_reusable)

    @given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(1, 20), max_size=200))
    def test_a_response_is_the_same_in_whatever_pieces_it_comes(
        self, name: str, sizes: list[int]
    ) -> None:
        data, closes, body, is_reusable = GOOD[name]
        response = Response(receiver(cut(data, sizes), closes=closes), "GET")
        self.assertEqual(body, response.read(1000))
        self.assertTrue(response.is_complete)
        self.assertEqual(is_reusable, response.is_reusable)
        self.assertIn(response.status, (200, 204, 304))

    @given(st.sampled_from(sorted(GOOD)), st.lists(st.integers(1, 20), max_size=200))
    def test_a_stream_is_the_same_in_whatever_pieces_it_comes(
        self, name: str, sizes: list[int]
    ) -> None:
        data, closes, body, _ = GOOD[name]
        response = Response(receiver(cut(data, sizes), closes=closes), "GET")
        self.assertEqual(body, b"".join(iter(response.read_piece, b"")))
        self.assertTrue(response.is_complete)

    @given(st.sampled_from(sorted(BAD)), st.lists(st.integers(1, 20), max_size=200))
    def test_what_is_no_response_is_an_error_in_whatever_pieces_it_comes(
        self, name: str, sizes: list[int]
    ) -> None:
        data, error, _ = BAD[name]
        with self.assertRaises(error):
            Response(receiver(cut(data, sizes)), "GET").read(1000)

    def test_an_error_says_what_is_wrong(self) -> None:
        for name, (data, error, words) in BAD.items():
            with self.subTest(name), self.assertRaisesRegex(error, words):
                self.read(data)

    @given(st.binary(max_size=300))
    def test_garbage_is_a_response_or_an_error_of_http(self, garbage: bytes) -> None:
        for data in (garbage, OK + garbage, CHUNKED + garbage):
            try:
                self.read(data)
            except HTTPException as error:
                self.assertTrue(str(error))

    def test_headers_are_found_in_any_case_the_first_of_a_name_and_folded(self) -> None:
        head = b"X-Token:  XoneX \t\r\nx-token: two\r\nEmpty:\r\nFolded: a\r\n  b\r\n\tc\r\n"
        response, _ = self.read(OK + head + b"Content-Length: 0\r\n\r\n")
        self.assertEqual("XoneX", response.headers["x-TOKEN"])
        self.assertEqual("", response.headers["empty"])
        self.assertEqual(["a", "b", "c"], response.headers["folded"].split())
        self.assertEqual({"x-token", "empty", "folded", "content-length"}, {*response.headers})
        self.assertIsNone(response.headers.get("none"))

    def test_headers_of_interim_responses_and_trailers_are_not_those_of_the_response(self) -> None:
        interim = b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n"
        response, _ = self.read(interim + CHUNKED + b"0\r\nETag: x\r\n\r\n")
        self.assertEqual(["transfer-encoding"], list(response.headers))

    def test_a_response_to_head_has_no_body(self) -> None:
        response, body = self.read(OK + b"Content-Length: 6\r\n\r\n", method="HEAD")
        self.assertEqual((b"", "6"), (body, response.headers["Content-Length"]))
        self.assertTrue(response.is_reusable)

    def test_of_too_long_a_body_one_byte_too_many_is_read_and_no_more(self) -> None:
        for head in (OK + b"Content-Length: 4000\r\n\r\n", OK + b"\r\n", CHUNKED + b"fa0\r\n"):
            response, body = self.read(head + b"x" * 2000)
            self.assertEqual((1001, False), (len(body), response.is_reusable))

    def test_what_follows_a_response_is_left_out_and_no_other_request_follows(self) -> None:
        for more in (b"HTTP/1.1 500 Other\r\nContent-Length: 1\r\n\r\nx", b"HTTP/", b"garbage"):
            response, body = self.read(OK + b"Content-Length: 3\r\n\r\none" + more)
            self.assertEqual((200, b"one", False), (response.status, body, response.is_reusable))

    def test_a_response_without_end_is_an_error_before_it_takes_much_memory(self) -> None:
        endless = {
            "a header": (OK + b"A: ", LINE),
            "headers": (OK, b"A: b\r\n"),
            "interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
            "a chunk extension": (CHUNKED + b"3;", LINE),
            "trailers": (CHUNKED + b"0\r\n", b"A: b\r\n"),
            "a trailer": (CHUNKED + b"0\r\nA: ", LINE),
        }
        for name, (start, more) in endless.items():
            with self.subTest(name):
                received = 0

                def receive(most: int, start: bytes = start, more: bytes = more) -> bytes:
                    nonlocal received
                    piece = more if received or not start else start
                    received += len(piece)
                    return piece

                with self.assertRaisesRegex(HTTPException, r"more than \d+ (headers|bytes)"):
                    Response(receive, "GET").read(1000)
                self.assertLess(received, MAX_HEAD_BYTES + 10_000)

    def test_as_many_bytes_without_a_body_as_allowed_are_read_anew_after_each_piece(self) -> None:
        extension = b"3;" + b"a" * (MAX_HEAD_BYTES - 2)
        sizes = [1 << 16] * (MAX_HEAD_BYTES >> 16)
        one = [b"3\r\none\r\n", *cut(extension, sizes)]
        pieces = [CHUNKED, *one, b"\r\ntwo\r\n", *cut(extension, sizes), b"\r\nend\r\n0\r\n\r\n"]
        self.assertEqual(b"onetwoend", Response(receiver(pieces), "GET").read(1000))
        with self.assertRaisesRegex(HTTPException, "bytes without a body"):
            Response(receiver([CHUNKED, *one, b"a"]), "GET").read(1000)

    def test_as_many_headers_as_allowed_are_read_and_one_more_is_not(self) -> None:
        most = b"".join(b"A%d: b\r\n" % number for number in range(MAX_HEADERS - 1))
        end = b"Content-Length: 3\r\n\r\n"
        response = Response(receiver([OK + most + end, b"one"]), "GET")
        self.assertEqual((b"one", MAX_HEADERS), (response.read(10), len(response.headers)))
        with self.assertRaisesRegex(HTTPException, f"more than {MAX_HEADERS} headers"):
            Response(receiver([OK + most + b"B: c\r\n" + end, b"one"]), "GET")

    def test_of_a_body_that_is_just_short_enough_the_end_is_read_too(self) -> None:
        for size, is_reusable in ((3, True), (2, False)):
            response = Response(receiver([CHUNKED + b"3\r\none", b"\r\n0\r\n\r\n"]), "GET")
            self.assertEqual((b"one", is_reusable), (response.read(size), response.is_reusable))

    def test_a_response_that_was_read_is_free_without_a_garbage_collection(self) -> None:
        gc.disable()
        self.addCleanup(gc.enable)
        for data, most in ((OK + b"Content-Length: 3\r\n\r\none", 10), (OK + b"\r\n" + LINE, 10)):
            response, _ = self.read(data, most)
            free = weakref.ref(response)
            del response
            self.assertIsNone(free())


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
UNTIL_THE_END = HEAD + b"\r\n"
CHUNKED_STREAM = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY = "a truncated answer"


class StreamTest(ServedBytes):
    def open(self, transport: StdlibTransport, timeout_s: float = 5) -> AnswerStream:
        stream = transport.open_stream(PodmRequest("GET", "/s", {"Accept": "*/*"}, timeout_s, 0))
        self.addCleanup(stream.close)
        return stream

    def test_it_has_status_and_headers_and_its_body_comes_up_to_the_end(self) -> None:
        stream = self.open(self.serve([UNTIL_THE_END + b"one"]))
        self.assertTrue(self.received[0].startswith(b"GET /s HTTP/1.1\r\n"))
        self.assertEqual(200, stream.status)
        self.assertEqual("text/event-stream", stream.headers["content-type"])
        self.assertEqual([b"one", b"", b""], [stream.read(5) for _ in range(3)])

    def test_a_stream_that_sends_nothing_for_so_long_is_slow(self) -> None:
        stream = self.open(self.serve([UNTIL_THE_END + b"one", b""]))
        self.assertEqual(b"one", stream.read(5))
        with self.assertRaises(Slow) as caught:
            stream.read(0.1)
        self.assertTrue(caught.exception.sent)

    def test_a_stream_without_a_head_in_time_is_slow_and_its_line_is_closed(self) -> None:
        transport = self.serve([b"", b""])
        with self.assertRaises(Slow):
            self.open(transport, timeout_s=0.1)
        self.assertTrue(self.closed[0].wait(5))

    def test_chunks_that_end_early_may_come_whole_the_next_time(self) -> None:
        for rest in (b"", b"3\r\ntw"):
            stream = self.open(self.serve([CHUNKED_STREAM + b"3\r\none\r\n" + rest]))
            with self.assertRaisesRegex(Unreachable, EARLY) as caught:
                list(iter(lambda stream=stream: stream.read(5), b""))
            self.assertTrue(caught.exception.retryable)
            self.assertTrue(caught.exception.sent)

    def test_chunks_that_are_malformed_are_said(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(CHUNKED_STREAM)
            stream = AnswerStream(Response(ours.recv, "GET"), ours, ours.close)
            theirs.sendall(b"no size\r\n")
            with self.assertRaisesRegex(Unreachable, "^malformed body: .* chunk size"):
                stream.read(5)

    def test_an_answer_that_is_no_http_is_no_stream_and_its_line_is_closed(self) -> None:
        transport = self.serve([b"SSH-2.0-OpenSSH_9.6\r\n", b""])
        with self.assertRaisesRegex(Unreachable, "not HTTP: an answer of 'SSH-2.0-OpenSSH_9.6'"):
            self.open(transport)
        self.assertTrue(self.closed[0].wait(5))

    def test_it_has_a_line_of_its_own_and_leaves_it_to_no_other_request(self) -> None:
        transport = self.serve([answer(b"one")], [answer(b"two")], [answer(b"three")])
        self.ask(transport)
        stream = self.open(transport)
        self.assertEqual([b"two", b""], [stream.read(5), stream.read(5)])
        stream.close()
        self.assertEqual(b"three", self.ask(transport))

    def test_a_cut_ends_it_also_for_a_thread_that_waits(self) -> None:
        transport = self.serve([UNTIL_THE_END, b""])
        stream = self.open(transport)
        self.later(transport.cut)
        self.assertEqual(b"", stream.read(30))

    def test_a_close_ends_it_also_for_a_thread_that_waits(self) -> None:
        stream = self.open(self.serve([UNTIL_THE_END, b""]))
        self.later(stream.close)
        try:
            self.assertEqual(b"", stream.read(30))
        except Unreachable as error:  # the socket was closed before the thread woke
            self.assertNotIsInstance(error, Slow)
        self.assertTrue(self.closed[0].wait(5))

    def later(self, act: Callable[[], object]) -> None:
        timer = threading.Timer(0.1, act)
        timer.start()
        self.addCleanup(timer.join)

    def test_once_closed_it_is_read_no_more(self) -> None:
        stream = self.open(self.serve([UNTIL_THE_END + b"one", b""]))
        stream.close()
        self.assertTrue(self.closed[0].wait(5))
        stream.close()

    def test_the_system_probes_a_stream_and_no_short_answer(self) -> None:
        connect, probed = socket.create_connection, list[int]()
        transport = self.serve([answer(b"one")], [UNTIL_THE_END + b"two", b""])
        with mock.patch("socket.create_connection") as connected:
            for use in (self.ask, self.open):
                sock = connected.return_value = connect(("127.0.0.1", self.port), 5)
                use(transport)
                probed.append(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
        self.assertEqual([0, 1], probed)
