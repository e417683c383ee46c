# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: means side by side, the range over seeds, and each run."""

import unittest
from typing import Any

from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.sections import section, table, titles
from valence_sched.model.page import BarComparison, Page
from valence_sched.model.replay import SweepRun
from valence_sched.model.scenario import EditEffect
from valence_sched.pages import sweep
from valence_sched.pages.render import page_html
from valence_sched.pages.sweep import sweep_page


def run(placed: int, seed: int = 0, scenario: str = "base", policy: str | None = None,
        **measures: Any) -> SweepRun:  # fmt: skip
    known = {"requested": 10, "placed": placed, "refused": 10 - placed, "podms_needed": 2,
             "fragmentation": 0.25, "cost": None, "utilisation.cores": placed / 20}  # fmt: skip
    return SweepRun(question="d1", scenario=scenario, policy=policy, seed=seed, requests=10,
                    departed=0, duration_s=60.0, measures={**known, **measures})  # fmt: skip


def page(*runs: SweepRun, **edits: Any) -> Page:
    return sweep_page(runs, edits, (("Mix", "small=1"),))


class TestSweep(unittest.TestCase):
    """Runs over scenarios, policies and seeds."""

    RUNS = (run(4, 1, policy="a"), run(6, 2, policy="a"), run(9, 1, policy="b"),
            run(8, 2, policy="b"))  # fmt: skip

    def test_it_begins_with_what_places_the_most(self):
        self.assertEqual("base/b places the most: 85 % of all nodes", page(*self.RUNS).lead)
        self.assertEqual("Placed 40 % of all nodes", page(run(4)).lead)
        same = (run(4, policy="a"), run(4, policy="b"))
        self.assertEqual("2 of 2 variations place the most: 40 % of all nodes", page(*same).lead)
        self.assertEqual("No run", page().lead)
        facts = dict(page(*self.RUNS).facts)
        self.assertEqual(("small=1", "4", "2", "2", "d1"),
                         (facts["Mix"], facts["Runs"], facts["Variations"],
                          facts["Seeds"], facts["Digest"]))  # fmt: skip

    def test_means_over_seeds_are_side_by_side(self):
        bars = section(page(*self.RUNS), "Side by side")
        self.assertIsInstance(bars, BarComparison)
        self.assertEqual(("base/a", "base/b"), bars.names)
        found = {one.name: one.values for one in bars.measures}
        self.assertEqual({"Placed": (5.0, 8.5), "Refused": (5.0, 1.5),
                          "Cores in use": (25.0, 42.5)}, found)  # fmt: skip
        self.assertIn("over 2 seeds", bars.text)
        self.assertIn("podms needed 2, fragmentation 25 %", bars.text)

    def test_the_range_over_seeds_is_a_table(self):
        rows = table(page(*self.RUNS), "Least and most over seeds")
        self.assertEqual([("base/a", "4 to 6", "4 to 6", "2", "25.0 %"),
                          ("base/b", "8 to 9", "1 to 2", "2", "25.0 %")], rows)  # fmt: skip
        self.assertEqual(["Runs"], titles(page(run(4))))

    def test_each_run_is_a_row(self):
        rows = table(page(run(4, 7), run(5, 8, policy="a", cost=1.5)), "Runs")
        self.assertEqual([("base", "of each request", "7", "4", "6", "2", "25.0 %", "unknown"),
                          ("base", "a", "8", "5", "5", "2", "25.0 %", "1.5")], rows)  # fmt: skip

    def test_a_measure_that_only_some_runs_have_is_the_mean_of_these(self):
        bars = section(page(run(4, 1, policy="a", cost=3.0), run(4, 2, policy="a"),
                            run(4, 1, policy="b", cost=5.0)), "Side by side")  # fmt: skip
        self.assertEqual({"Cost": (3.0, 5.0)}, {one.name: one.values for one in bars.measures})

    def test_very_many_runs_are_cut_and_counted(self):
        usual, sweep.MOST_ROWS = sweep.MOST_ROWS, 3
        self.addCleanup(setattr, sweep, "MOST_ROWS", usual)
        found = page(*(run(4, seed) for seed in range(5)))
        self.assertEqual(3, len(table(found, "Runs")))
        self.assertIn("The first 3 of 5 runs: --output has all.", section(found, "Runs").text)

    def test_edits_of_scenarios_are_listed(self):
        found = page(run(4, scenario="s"), s=(EditEffect(edit="fail x", blocks=1),))
        self.assertEqual([("s", "fail x: 1 block")], table(found, "Scenarios"))

    def test_hostile_names_of_everything_are_harmless(self):
        evil = EVIL + "<script>"
        runs = [run(seed, seed, evil, policy) for seed in (1, 2) for policy in (evil, "b")]
        html = page_html(sweep_page(runs, {evil: (EditEffect(edit=evil),)}, ((evil, evil),)))
        self.assertEqual("", raw(html.decode()))
        self.assertNotIn("<script", html.decode())
