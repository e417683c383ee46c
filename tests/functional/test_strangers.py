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

    def test_a_resolver_that_fails_is_named_by_itself_or_by_what_it_is_asked_for(self):
        near = ("schedule", "--inventory", SITE, "--flavor", "small", "--near", "volume=db-1")
        for number, (body, line) in enumerate((
            ("return {}['rack']", "resolver 'odd': cmdb: KeyError: 'rack'\n"),
            ("return 7", "a resolver asked for volume db-1: "
                         "AttributeError: 'int' object has no attribute 'find'\n"),
        )):  # fmt: skip
            with self.subTest(body):
                folder = written(self.folder / f"odd-{number}", "resolver_of_others",
                                 f"def odd(path):\n    {body}\n",
                                 "valence_sched.resolvers", "odd")  # fmt: skip
                done = self.podm(*near, "--near-map", "odd:cmdb", code=1, PYTHONPATH=folder)
                self.assertEqual(line, done.err)
