# SPDX-License-Identifier: Apache-2.0
"""Ages: written, printed, and of what is too old, ahead, or unknown."""

import datetime
import math
import unittest

from valence_sched.model.quantity import age_s, format_age, parse_age, parse_age_limit

NOON = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)


class TestAge(unittest.TestCase):
    """Seconds, and the words for them."""

    def test_an_age_is_a_number_and_a_unit_of_which_seconds_may_be_left_out(self):
        for text, seconds in (
            ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("90", 90), ("1.5h", 5400),
            ("0", 0),
        ):  # fmt: skip
            self.assertEqual(seconds, parse_age(text))

    def test_what_is_no_age_is_refused(self):
        for text in ("", "m", "-1s", "1w", "1 m", "nan", "inf", "1e3", "10m5s", "\u0663s"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "must be an age such as"):
                parse_age(text)

    def test_a_limit_of_zero_or_never_is_none(self):
        for text, seconds in (("2h", 7200), ("0", math.inf), ("0d", math.inf), ("Never", math.inf)):
            self.assertEqual(seconds, parse_age_limit(text))
        with self.assertRaisesRegex(ValueError, "'1w' is neither never nor an age such as 30s"):
            parse_age_limit("1w")

    def test_an_age_is_printed_in_the_largest_unit_of_which_there_are_two(self):
        for seconds, text in (
            (0.9, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"),
            (172799, "47h"), (172800, "2d"),
        ):  # fmt: skip
            self.assertEqual(text, format_age(seconds))

    def test_the_age_of_a_time_counts_from_now_whatever_its_zone(self):
        for text in ("2026-01-05T11:59:00Z", "2026-01-05T12:59:00+01:00", "2026-01-05T11:59:00"):
            self.assertEqual(60, age_s(text, NOON))

    def test_nobody_knows_the_age_of_no_time_of_text_and_of_the_future(self):
        for text in (None, "", "yesterday", "2026-01-05T12:06:00Z", "9999-12-31T23:59:59Z"):
            self.assertIsNone(age_s(text, NOON))

    def test_a_clock_a_little_ahead_of_ours_makes_no_negative_age(self):
        self.assertEqual(0, age_s("2026-01-05T12:04:00Z", NOON))
