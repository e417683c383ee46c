# SPDX-License-Identifier: Apache-2.0
"""The header with the zones that a request has passed."""

import unittest

from valence_sched.model.http_headers import parse_route


class TestRoute(unittest.TestCase):
    """Ids with commas between them, and nothing else."""

    def test_it_is_read_as_it_was_written(self):
        for text, ids in (
            (None, ()),
            ("", ()),
            ("a1", ("a1",)),
            ("a,b-2,c_3", ("a", "b-2", "c_3")),
        ):
            with self.subTest(text):
                self.assertEqual(ids, parse_route(text))

    def test_what_is_none_is_refused(self):
        for text in ("a,", ",a", "a b", "ä", "a\n", "x" * 65, ",".join("a" * 33)):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "up to 32 ids"):
                parse_route(text)
