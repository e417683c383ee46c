# SPDX-License-Identifier: Apache-2.0
"""Responses of HTTP: good ones in whatever pieces they come, and those that are none."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.drivers.http.exchange import MalformedBody
from valence_sched.drivers.http.stdlib_transport import MAX_HEAD_BYTES, MAX_HEADERS, Response

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
        "^another protocol, which was not requested$",
    ),
}  # fmt: skip
LINE = b"a" * 1000


def receiver(pieces: Iterable[bytes], *, closes: bool = True) -> Callable[[int], bytes]:
    """Return what receives these pieces, and then the end, or else never returns."""
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

    def test_headers_are_found_in_whatever_case_the_first_of_a_name_and_folded_ones_whole(
        self,
    ) -> None:
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

    def test_of_too_long_a_body_one_byte_too_many_is_read_and_no_other_request_follows(
        self,
    ) -> None:
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
