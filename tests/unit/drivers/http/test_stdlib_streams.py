# SPDX-License-Identifier: Apache-2.0
"""Answers whose body is read as it comes, over a connection of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from unittest import mock

from tests.unit.drivers.http.served_bytes import ServedBytes, answer
from valence_sched.drivers.http.exchange import PodmRequest, Slow, Unreachable
from valence_sched.drivers.http.stdlib_transport import AnswerStream, Response, StdlibTransport

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
UNTIL_THE_END = HEAD + b"\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
EARLY = "an answer that ends too early"


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

    def test_chunks_are_read_without_their_frames(self) -> None:
        stream = self.open(self.serve([CHUNKED + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"]))
        self.assertEqual(b"onetwo", b"".join(iter(lambda: stream.read(5), b"")))

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
            stream = self.open(self.serve([CHUNKED + b"3\r\none\r\n" + rest]))
            with self.assertRaisesRegex(Unreachable, EARLY) as caught:
                list(iter(lambda stream=stream: stream.read(5), b""))
            self.assertTrue(caught.exception.retryable)
            self.assertTrue(caught.exception.sent)

    def test_chunks_that_are_malformed_are_said(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(CHUNKED)
            stream = AnswerStream(Response(ours.recv, "GET"), ours, ours.close)
            theirs.sendall(b"no size\r\n")
            with self.assertRaisesRegex(Unreachable, "^malformed body: .* chunk size"):
                stream.read(5)

    def test_an_answer_that_is_no_http_is_no_stream_and_its_line_is_closed(self) -> None:
        transport = self.serve([b"SSH-2.0-OpenSSH_9.6\r\n", b""])
        with self.assertRaisesRegex(Unreachable, "no HTTP: an answer of 'SSH-2.0-OpenSSH_9.6'"):
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
