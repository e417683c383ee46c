# SPDX-License-Identifier: Apache-2.0
"""The filter and the weigher of the recipe."""

import importlib
import tomllib
import unittest
from pathlib import Path

from valence_sched import Request, check_filter, check_weigher, load_yaml, testing

from .quiet_site.newest import newest
from .quiet_site.quiet_hours import quiet_hours

SITE = Path(__file__).parent / "quiet_site"


class TestQuietHours(unittest.TestCase):
    """The filter."""

    def test_it_keeps_the_contract_of_filters(self):
        check_filter(quiet_hours)

    def test_a_quiet_pod_stays_and_a_loud_one_goes(self):
        view = testing.view(
            {"id": "library", "facts": {"noise_db": 40}}, {"id": "hall", "facts": {"noise_db": 75}}
        )
        self.assertEqual([True, False], list(quiet_hours(view, Request())))

    def test_a_pod_that_does_not_tell_its_noise_goes(self):
        view = testing.view({"id": "silent"})
        self.assertEqual([False], list(quiet_hours(view, Request())))

    def test_the_limit_is_the_policys_to_say(self):
        view = testing.view({"id": "hall", "facts": {"noise_db": 75}})
        self.assertEqual([True], list(quiet_hours(view, Request(), limit=80)))


class TestNewest(unittest.TestCase):
    """The weigher."""

    def test_it_keeps_the_contract_of_weighers(self):
        check_weigher(newest)

    def test_the_newer_pod_is_preferred(self):
        view = testing.view(
            {"id": "old", "facts": {"year": 2020}}, {"id": "new", "facts": {"year": 2025}}
        )
        self.assertEqual([0.25, 0.5], list(newest(view, Request())))

    def test_a_pod_of_unknown_age_is_not_preferred(self):
        self.assertEqual([0.0], list(newest(testing.view({"id": "ageless"}), Request())))


class TestDistribution(unittest.TestCase):
    """The recipe's pyproject.toml and policies.yaml."""

    def test_entry_point_function_and_file_have_one_name(self):
        text = (SITE / "pyproject.toml").read_text()
        for room, points in tomllib.loads(text)["project"]["entry-points"].items():
            for name, value in points.items():
                module, _, function = value.partition(":")
                self.assertEqual(name, function, room)
                found = importlib.import_module(f"tests.recipes.{module}")
                self.assertTrue(callable(getattr(found, function)), room)

    def test_the_policy_gives_the_filter_an_option_that_it_has(self):
        document = load_yaml((SITE / "policies.yaml").read_bytes(), "policies.yaml")
        (policy,) = document["policies"]
        (use,) = (each for each in policy["filters"] if "options" in each)
        self.assertEqual("quiet_hours", use["name"])
        self.assertLessEqual(set(use["options"]), set(quiet_hours.__kwdefaults__))
