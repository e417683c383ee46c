# SPDX-License-Identifier: Apache-2.0
"""Capabilities of a zone."""

import math
import unittest

from valence_sched.zones.report import rolled_up, why_ruled_out


class TestRolledUp(unittest.TestCase):
    """The least and the most of what the hosts of a service report."""

    def test_each_capability_of_a_service_has_its_least_and_its_most(self):
        """S50: <service>_<capability> = min,max over all hosts."""
        reports = [
            ("compute", {"cpu": 0.7, "disk": 123000}),
            ("compute", {"cpu": 0.2}),
            ("network", {"cpu": 0.5}),
        ]
        self.assertEqual(
            {"compute_cpu": (0.2, 0.7), "compute_disk": (123000, 123000),
             "network_cpu": (0.5, 0.5)},
            rolled_up(reports),
        )  # fmt: skip

    def test_what_is_unknown_does_not_count(self):
        reports = [("compute", {"cpu": math.nan, "disk": math.nan}), ("compute", {"cpu": 3})]
        self.assertEqual({"compute_cpu": (3, 3)}, rolled_up(reports))
        one_host = [("compute", {"cpu": math.nan, "disk": 5})]
        self.assertEqual({"compute_disk": (5, 5)}, rolled_up(one_host))


class TestRuledOut(unittest.TestCase):
    """A zone that cannot have it is not asked."""

    def test_one_of_the_required_values_suffices(self):
        self.assertIsNone(why_ruled_out({"os": ("linux",)}, {"os": ("windows", "linux")}))

    def test_a_zone_without_any_of_them_is_ruled_out_and_says_why(self):
        self.assertEqual(
            "capability os: needs windows, has bsd;linux",
            why_ruled_out({"os": ("linux", "bsd")}, {"os": ("windows",)}),
        )
        self.assertEqual(
            "capability os: needs windows;macos, has linux",
            why_ruled_out({"os": ("linux",)}, {"os": ("windows", "macos")}),
        )

    def test_a_key_that_the_zone_does_not_speak_of_rules_nothing_out(self):
        for capabilities in ({}, {"arch": ("x86",)}, {"os": ()}):
            with self.subTest(capabilities):
                self.assertIsNone(why_ruled_out(capabilities, {"os": ("windows",)}))
