# SPDX-License-Identifier: Apache-2.0
"""Which headers can be sent, and what is said of one that cannot."""

import unittest

from valence_sched.model.http_headers import header_problem


class TestHeaderProblem(unittest.TestCase):
    def test_one_line_of_latin_1_can_be_sent(self):
        self.assertIsNone(header_problem({"Accept": "*/*", "X-A": "a\tb \xe4\xff", "X-B": ""}))

    def test_the_first_that_cannot_be_sent_is_named_and_its_value_is_not(self):
        for character, what in (
            ("\n", "a line break or NUL"),
            ("\r", "a line break or NUL"),
            ("\0", "a line break or NUL"),
            ("\u0100", "a character beyond Latin-1"),
            ("\U0001f600", "a character beyond Latin-1"),
        ):
            with self.subTest(character):
                headers = {"Accept": "*/*", "X-Auth-Token": f"a{character}b", "If-Match": "\n"}
                self.assertEqual(
                    f"header X-Auth-Token: found {what}, expected one line of Latin-1",
                    header_problem(headers),
                )
