# SPDX-License-Identifier: Apache-2.0
"""Times, rates and columns of workloads, as people write them."""

import unittest

from valence_sched.model.workload import (
    parse_duration,
    parse_moment,
    parse_rate,
    parse_trace_column,
)


class TestTimes(unittest.TestCase):
    def test_a_duration_is_a_number_of_seconds_or_has_a_unit(self):
        for text, seconds in ((90, 90), ("90", 90), ("1.5", 1.5), ("90s", 90), ("2h", 7200),
                              ("3d", 259_200), ("10m", 600), (0, 0)):  # fmt: skip
            self.assertEqual(seconds, parse_duration(text), text)

    def test_a_moment_may_be_a_date_without_a_zone_in_utc(self):
        for text in ("1970-01-02T00:00:00Z", "1970-01-02 00:00:00", "1970-01-02T01:00:00+01:00"):
            self.assertEqual(86_400, parse_moment(text), text)
        self.assertEqual(1_700_000_000, parse_moment("1700000000"))

    def test_what_is_no_time_is_refused_in_one_line_that_names_it(self):
        for text in ("soon", "-3", -3, "nan", "inf", "9e99", "2026-13-45T00:00:00", True, None, []):
            with self.assertRaises(ValueError) as raised:
                parse_moment(text)
            self.assertNotIn("\n", str(raised.exception))
            self.assertIn(str(text).lower()[:2], str(raised.exception).lower())

    def test_a_duration_is_no_date(self):
        with self.assertRaises(ValueError):
            parse_duration("2026-01-05T00:00:00")


class TestRates(unittest.TestCase):
    def test_a_rate_is_a_number_in_a_period(self):
        for text, rate in (("10/h", 10 / 3600), ("0.5/s", 0.5), ("200/2d", 200 / 172_800)):
            self.assertAlmostEqual(rate, parse_rate(text), 12, text)

    def test_what_is_none_or_not_above_0_is_refused(self):
        for text in ("10", "10/", "/h", "0/h", "-1/h", "x/h", "10/week", "nan/h", "1/0s"):
            with self.assertRaisesRegex(ValueError, "is no rate such as 10/h"):
                parse_rate(text)


class TestTraceColumns(unittest.TestCase):
    def test_a_column_may_have_a_factor(self):
        for text, column, factor in (("creation_time", "creation_time", 1),
                                     ("cpu_milli/1000", "cpu_milli", 1 / 1000),
                                     ("minutes*60", "minutes", 60), ("a/b", "a/b", 1)):  # fmt: skip
            found = parse_trace_column(text)
            self.assertEqual((column, factor), (found.column, found.factor), text)

    def test_a_factor_of_0_is_refused(self):
        with self.assertRaisesRegex(ValueError, "a factor of 0"):
            parse_trace_column("cpu/0")
