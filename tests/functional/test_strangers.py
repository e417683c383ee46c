# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of others that fail: one line says whose fault it is."""

from tests.functional.packages_on_path import written
from tests.functional.programs import SITE
from tests.functional.test_live import Live

FAILING = "def stumbles(*arguments):\n    return {}['rack']\n"


class TestStrangers(Live):
    """What raises something of its own is named."""

    def failed(self, group: str, *words: str) -> str:
        folder = written(self.folder / group, f"{group}_of_others", FAILING,
                         f"valence_sched.{group}", "stumbles")  # fmt: skip
        return self.podm("list", *words, code=1, PYTHONPATH=folder).err

    def test_a_driver_that_fails_is_named_with_what_it_reads(self):
        self.assertEqual("driver 'stumbles': rack.csv: KeyError: 'rack'\n",
                         self.failed("drivers", "--inventory", "stumbles:rack.csv"))  # fmt: skip

    def test_who_says_who_is_alive_and_fails_is_named(self):
        words = ("--inventory", SITE, "--liveness", "stumbles:2m")
        self.assertEqual("liveness 'stumbles': KeyError: 'rack'\n", self.failed("liveness", *words))
