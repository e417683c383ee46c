# SPDX-License-Identifier: Apache-2.0
"""Server-sent events: however a stream is cut into pieces, and whatever it contains."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.drivers.events import EventParser
from valence_sched.errors import PodmError


def parsed(*pieces, most=1000):
    parser = EventParser(most)
    return [event for piece in pieces for event in parser.feed(piece)]


class TestEvents(unittest.TestCase):
    def test_an_event_is_its_data_lines_until_an_empty_line(self):
        stream = b': hello\n\nid: 1\nevent: x\ndata: {"a":\ndata:1}\n\ndata: two\n\ndata: not ended'
        self.assertEqual([b'{"a":\n1}', b"two"], parsed(stream))

    def test_each_end_of_a_line_counts(self):
        for end in (b"\n", b"\r", b"\r\n"):
            stream = end.join([b"data: one", b"", b"data: two", b"", b""])
            self.assertEqual([b"one", b"two"], parsed(stream), end)

    def test_lines_of_json_without_a_field_name_belong_to_the_data(self):
        stream = b'id: 0\ndata: {\n"Id":"9",\n"Events": [\n]\n}\n\n'
        self.assertEqual([b'{\n"Id":"9",\n"Events": [\n]\n}'], parsed(stream))

    def test_comments_alone_are_no_event_however_many(self):
        self.assertEqual([], parsed(*[b": keep-alive\n\n"] * 1000))
        self.assertEqual([], parsed(*[b"id: 1\nretry: 10\n\n"] * 1000))

    @given(
        st.lists(st.sampled_from([b"data: a", b"data:b", b": c", b"", b"id: 1", b"}"]), max_size=8),
        st.lists(st.integers(0, 60), max_size=6),
        st.sampled_from([b"\n", b"\r", b"\r\n"]),
    )
    def test_how_it_is_cut_into_pieces_changes_nothing(self, lines, cuts, end):
        stream = end.join([*lines, b"", b""])
        places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
        self.assertEqual(parsed(stream), parsed(*pieces))


class TestBounds(unittest.TestCase):
    def test_a_line_without_an_end_is_refused_when_it_is_too_long(self):
        parser = EventParser(100)
        with self.assertRaisesRegex(PodmError, "more than 100 bytes"):
            for _ in range(101):
                list(parser.feed(b"x"))

    def test_an_event_of_very_many_lines_is_refused(self):
        with self.assertRaisesRegex(PodmError, "more than 100 bytes"):
            parsed(b"data: 0123456789\n" * 20, most=100)

    def test_events_that_end_do_not_add_up(self):
        self.assertEqual(50, len(parsed(b"data: 0123456789\n\n" * 50, most=100)))


if __name__ == "__main__":
    unittest.main()
