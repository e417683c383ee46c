# SPDX-License-Identifier: Apache-2.0
"""When a request has arrived, however its bytes come."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.server.arrival import MOST_HEAD_BYTES, Arrival

MOST = 1000
HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"
WHOLE = (
    HEAD + b"\r\n",
    HEAD + b"Content-Length: 5\r\n\r\n12345",
    HEAD + b"CONTENT-LENGTH:5 \r\nX: y\r\n\r\n\r\n\r\n1",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    HEAD
    + b"Transfer-Encoding: identity, chunked\r\n\r\na;x=1\r\n0123456\r\n9\r\n0\r\nT: u\r\n\r\n",
)


def arrived(*parts: bytes) -> Arrival:
    arrival = Arrival(MOST)
    for part in parts:
        arrival.add(part)
    return arrival


class TestArrival(unittest.TestCase):
    @given(st.sampled_from(WHOLE), st.lists(st.integers(0, 120)))
    def test_it_is_whole_with_its_last_byte_and_not_before(self, request, cuts):
        places = sorted({min(cut, len(request)) for cut in cuts} | {0, len(request)})
        arrival = Arrival(MOST)
        for begin, end in itertools.pairwise(places):
            self.assertFalse(arrival.is_whole())
            arrival.add(request[begin:end])
        self.assertTrue(arrival.is_whole())
        self.assertTrue(arrival.is_complete)
        self.assertFalse(arrived(request[:-1]).is_whole())

    def test_the_next_request_may_follow(self):
        for request in WHOLE:
            self.assertTrue(arrived(request + HEAD).is_complete)

    def test_what_is_too_large_is_not_waited_for(self):
        for rest in (
            b"Content-Length: 1001\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"X" * 1001,
            b"Transfer-Encoding: chunked\r\n\r\n1\r\n1\r\n3e9\r\n" + b"X" * 1000,
        ):
            with self.subTest(rest):
                arrival = arrived(HEAD + rest)
                self.assertEqual((True, False), (arrival.is_whole(), arrival.is_complete))
        chunks = b"1\r\nX\r\n" * (MOST + 1)
        tiny = arrived(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        self.assertEqual((True, False), (tiny.is_whole(), tiny.is_complete))
        self.assertFalse(arrived(bytes(tiny.data[:-6])).is_whole())
        self.assertTrue(arrived(b"X" * (MOST_HEAD_BYTES + 1)).is_head_too_large)

    def test_a_chunk_that_is_none_is_not_waited_for(self):
        for chunks in (b"z\r\n", b"-1\r\n", b"0x2\r\n{}\r\n", b"\r\n", b"2\r\n{}}\r\n0\r\n\r\n",
                       b"1" * 17 + b"\r\n", b"2\n{}\r\n0\r\n\r\n"):  # fmt: skip
            with self.subTest(chunks):
                arrival = arrived(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
                self.assertEqual((False, True), (arrival.is_whole(), arrival.is_malformed))

    def test_a_transfer_coding_that_nobody_decodes_is_not_waited_for(self):
        for coding in (b"gzip, chunked", b"x", b"chunked;q=1", b"chunked\r\nTRANSFER-ENCODING: br"):
            with self.subTest(coding):
                line = b"Transfer-Encoding: " + coding + b"\r\nExpect: 100-continue\r\n\r\n"
                for body in (b"", b"0\r\n\r\n"):
                    arrival = arrived(HEAD + line + body)
                    self.assertTrue(arrival.has_unknown_coding)
                    self.assertEqual(
                        (False, False), (arrival.is_whole(), arrival.waits_for_continue)
                    )
        for request in WHOLE:
            self.assertFalse(arrived(request).has_unknown_coding)

    def test_a_large_chunk_that_is_not_there_is_waited_for(self):
        for size in (b"ffffffff", b"fffffffff", b"1" * 16):
            arrival = arrived(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")
            self.assertEqual((False, False), (arrival.is_whole(), arrival.is_malformed), size)

    def test_a_client_may_wait_for_a_word_before_its_body(self):
        self.assertTrue(arrived(HEAD + b"Expect: 100-continue\r\n\r\n").waits_for_continue)
        self.assertFalse(arrived(HEAD + b"\r\n").waits_for_continue)
