# SPDX-License-Identifier: Apache-2.0
"""The page of a replay: the answer, runs side by side, charts over time, and reasons."""

import unittest
from typing import Any

from msgspec.structs import replace

from tests.unit.cli.output.hostile import EVIL, raw
from tests.unit.pages.inventories import section, table, titles
from tests.unit.planning.sites import run_of
from valence_sched.model.decision import FunnelStep, InventorySummary, Reason
from valence_sched.model.page import BarComparison, ChartGrid, FunnelChart, Page, TimeChart
from valence_sched.model.quantity import resource_title
from valence_sched.model.replay import (
    FirstRefusal,
    Fragmentation,
    NodeCount,
    NodeSpread,
    ReasonGroup,
    Refusal,
    Replay,
    ReplayResult,
    ReplaySeries,
    SweepRun,
)
from valence_sched.model.scenario import EditEffect
from valence_sched.pages import replay as pages
from valence_sched.pages.charts import COLOURS
from valence_sched.pages.render import page_html
from valence_sched.pages.replay import replay_page, sweep_page

REASON = Reason(filter="capacity", label="cores", unit="", need=32, have=12)


def series(**fields: Any) -> ReplaySeries:
    numbers = {
        "used": {"cores": (0.25, 0.5, 0.75), "cxl_memory_mib": (0.1, 0.1, 0.1)},
        "nodes": (1.0, 2.0, 3.0), "podms": (1.0, 1.0, 1.0), "fragmentation": (0.1, 0.2, 0.3),
        "requested": (1, 2, 1), "placed": (1, 1, 1), "refused": (0, 1, 2), "undecided": (0, 0, 0),
    }  # fmt: skip
    return ReplaySeries(bucket_s=3600.0, **{**numbers, **fields})


def run(placed: int = 3, refused: int = 1, name: str = "x", **fields: Any) -> ReplayResult:
    """Return a run with all kinds of results."""
    first = FirstRefusal(
        flavor=name, line=2, time_s=3600.0,
        funnel=(FunnelStep(filter="capacity", came_in=3, went_on=0),),
        reasons=(ReasonGroup(podms=2, nearest="near", reason=REASON),),
    )  # fmt: skip
    counts = NodeCount(flavor=name, requested=placed + refused, placed=placed, refused=refused,
                       undecided=0)  # fmt: skip
    one = run_of(placed, refused, **{key: fields.pop(key) for key in ("site", "policy", "cores")
                                     if key in fields})  # fmt: skip
    known = {
        "duration_s": 3 * 3600.0, "series": series(), "by_flavor": (counts,),
        "refusals": (Refusal(flavor=name, step="capacity", nodes=refused),) if refused else (),
        "first_refusals": (first,) if refused else (),
        "fragmentation": Fragmentation(resource="cores", mean=0.2, peak=0.3),
        "inventory": InventorySummary(digest="abc", podms=2, pools=3, blocks=9, skipped=()),
    }  # fmt: skip
    return replace(one, **{**known, **fields})


def page(*runs: ReplayResult, **edits: Any) -> Page:
    return replay_page(Replay(workload="w.csv", runs=runs), edits, (("Seed", "7"),))


class TestOneRun(unittest.TestCase):
    """A single run."""

    def test_it_begins_with_the_outcome_and_what_was_replayed(self):
        found = page(run(), base=(EditEffect(edit="fail east", podms=1, nodes=2),))
        self.assertEqual(("part", "Placed 3 of 4 nodes, 1 refused"), (found.tone, found.lead))
        facts = dict(found.facts)
        self.assertEqual(("7", "abc", "of each request", "3h"),
                         (facts["Seed"], facts["Inventory"], facts["Policy"],
                          facts["Duration"]))  # fmt: skip
        edits = section(found, "Edits of the inventory")
        self.assertEqual(("fail east: 1 podm, 2 nodes lost",), edits.lines)

    def test_the_tone_says_how_it_went(self):
        for placed, refused, tone in ((4, 0, "good"), (3, 1, "part"), (0, 4, "bad")):
            self.assertEqual(tone, page(run(placed, refused)).tone)

    def test_utilisation_is_a_line_for_each_resource_the_most_used_first(self):
        chart = section(page(run()), "Utilisation over time")
        self.assertIsInstance(chart, TimeChart)
        self.assertEqual(["cores", "CXL memory"], [one.name for one in chart.series])
        self.assertEqual(((0.0, 25.0), (3600.0, 50.0), (7200.0, 75.0), (10800.0, 75.0)),
                         chart.series[0].points)  # fmt: skip

    def test_requests_of_one_moment_have_a_table_in_place_of_empty_charts(self):
        used = {"cores": (0.25,), "drives": (0.5,)}
        once = series(used=used, nodes=(1.0,), podms=(1.0,), fragmentation=(0.1,), requested=(4,),
                      placed=(3,), refused=(1,), undecided=(0,))  # fmt: skip
        one = page(run(series=once, duration_s=0.0))
        self.assertEqual([("cores", "25.0 %"), ("drives", "50.0 %")], table(one, "Utilisation"))
        self.assertNotIn("<svg", page_html(one).decode())
        other = run(series=replace(once, nodes=(2.0,)), duration_s=0.0, policy="pack")
        self.assertEqual((), section(page(run(series=once, duration_s=0.0), other),
                                     "Over time").charts)  # fmt: skip

    def test_many_resources_are_drawn_in_several_charts(self):
        used = {f"r{n}": (0.1, 0.2, n / 10) for n in range(COLOURS + 1)}
        found = [one for one in page(run(series=series(used=used))).sections
                 if isinstance(one, TimeChart)]  # fmt: skip
        self.assertEqual([COLOURS, 1], [len(one.series) for one in found])

    def test_refusals_add_up_and_what_never_changes_is_words(self):
        grid = section(page(run()), "Nodes over time")
        self.assertIsInstance(grid, ChartGrid)
        charts = {chart.title: chart.series[0].points for chart in grid.charts}
        self.assertEqual([0, 1, 3, 3], [value for _, value in charts["Refused nodes so far"]])
        self.assertNotIn("Pod managers with nodes", charts)
        self.assertEqual("Constant: pod managers with nodes 1.", grid.text)

    def test_a_refusal_has_its_step_its_funnel_and_its_reasons(self):
        found = page(run())
        self.assertEqual([("x", "capacity", "1")], table(found, "Refused nodes"))
        self.assertIsInstance(section(found, "First refusal of x, after 60m"), FunnelChart)
        self.assertEqual([("x", "60m", "12 of 32 cores", "2", "near")],
                         table(found, "Reasons of the first refusals"))  # fmt: skip
        self.assertEqual([("x", "4", "3", "1", "0")], table(found, "Flavors"))

    def test_without_refusals_there_is_no_word_of_them(self):
        self.assertNotIn("Refused nodes", titles(page(run(4, 0))))

    def test_pod_managers_stand_in_the_order_of_their_nodes(self):
        spread = NodeSpread(mean=1.0, most=2, placed={"a": 1, "b": 2})
        rows = table(page(run(spread=spread)), "Nodes placed by pod manager")
        self.assertEqual([("b", "2"), ("a", "1")], rows)

    def test_a_resource_has_no_unit_in_its_title(self):
        for name, title in (("memory_mib", "memory"), ("storage_gib", "storage"),
                            ("CUSTOM_FPGA", "CUSTOM FPGA"), ("cores", "cores")):  # fmt: skip
            self.assertEqual(title, resource_title(name))


class TestSeveralRuns(unittest.TestCase):
    """Runs that are compared."""

    RUNS = (run(3, 1, policy="default"), run(4, 0, policy="pack", cores=0.5))

    def test_it_begins_with_how_many_are_placed_and_names_no_best_run(self):
        self.assertEqual("2 runs place 3 to 4 of 4 nodes", page(*self.RUNS).lead)
        same = (self.RUNS[1], run(4, 0, policy="spread"))
        self.assertEqual("Each of 2 runs places 4 of 4 nodes", page(*same).lead)
        text = section(page(*self.RUNS), "Side by side").text
        self.assertIn("One seed does not show which run is better.", text)

    def test_measures_are_side_by_side_and_equal_ones_are_words(self):
        bars = section(page(*self.RUNS), "Side by side")
        self.assertIsInstance(bars, BarComparison)
        found = {one.name: (one.values, one.unit, one.better) for one in bars.measures}
        self.assertEqual(((3, 4), "", "higher"), found["Placed"])
        self.assertEqual(((25.0, 50.0), "%", ""), found["Cores in use"])
        self.assertNotIn("Fragmentation", found)
        self.assertIn("fragmentation of cores 20 %", bars.text)
        html = page_html(page(*self.RUNS)).decode()
        self.assertNotIn('<span class="mark">best</span>', html)

    def test_a_chart_has_a_line_for_each_of_the_first_runs(self):
        runs = [run(policy=f"p{n}", series=series(used={"cores": (0.1, n / 10, 0.2)}))
                for n in range(COLOURS + 2)]  # fmt: skip
        grid = section(page(*runs), "Over time")
        self.assertEqual({COLOURS}, {len(chart.series) for chart in grid.charts})
        self.assertIn(f"The first {COLOURS} of {COLOURS + 2} runs are drawn.", grid.text)
        self.assertIn("Cores in use", [chart.title for chart in grid.charts])
        svgs = page_html(page(*runs)).decode().count("<svg")
        measures = len(section(page(*runs), "Side by side").measures)
        self.assertEqual(len(grid.charts) + measures, svgs)

    def test_a_replay_on_a_hundred_pod_managers_is_below_a_megabyte(self):
        used = {f"resource-{n}": tuple((n + k * 37 % 101) / 120 for k in range(200))
                for n in range(6)}  # fmt: skip
        noise = tuple(k * 53 % 89 / 90 for k in range(200))
        busy = series(used=used, nodes=noise, podms=noise, fragmentation=noise,
                      requested=(9,) * 200, placed=(8,) * 200, refused=(1,) * 200,
                      undecided=(0,) * 200)  # fmt: skip
        spread = NodeSpread(mean=1, most=9, placed={f"rack-{n:03}": n for n in range(100)})
        runs = [run(policy=f"policy-{n}", series=replace(busy, bucket_s=3600.0 + n),
                    duration_s=200 * 3600.0, spread=spread) for n in range(12)]  # fmt: skip
        self.assertLess(len(page_html(page(*runs))), 1_000_000)
        self.assertLess(len(page_html(page(runs[0]))), 250_000)

    def test_each_run_says_what_it_was_made_on(self):
        effects = (EditEffect(edit="fail east", blocks=2),)
        rows = table(page(run(), run(site="s", policy="pack"), s=effects), "Runs")
        self.assertEqual([("base", "of each request", "none", "2", "9", "abc"),
                          ("s/pack", "pack", "fail east: 2 blocks", "2", "9", "abc")],
                         rows)  # fmt: skip

    def test_hostile_names_of_everything_are_harmless(self):
        evil = EVIL + "<script>"
        runs = [run(name=evil, site=site, spread=NodeSpread(mean=1, most=1, placed={evil: 1}),
                    series=series(used={evil: (0.1, 0.2, 0.3)}), warnings=(evil,))
                for site in (evil, "b")]  # fmt: skip
        for shown in (page(*runs), page(runs[0])):
            text = page_html(shown).decode()
            self.assertEqual("", raw(text))
            self.assertEqual(1, text.count("<script"))
            self.assertIn("&lt;script&gt;", text)


def sweep_run(placed: int, seed: int = 0, scenario: str = "base", policy: str | None = None,
        **measures: Any) -> SweepRun:  # fmt: skip
    known = {"requested": 10, "placed": placed, "refused": 10 - placed, "podms_needed": 2,
             "fragmentation": 0.25, "cost": None, "utilisation.cores": placed / 20}  # fmt: skip
    return SweepRun(question="d1", scenario=scenario, policy=policy, seed=seed, requests=10,
                    departed=0, duration_s=60.0, measures={**known, **measures})  # fmt: skip


def sweep_page_of(*runs: SweepRun, **edits: Any) -> Page:
    return sweep_page(runs, edits, (("Mix", "small=1"),))


class TestSweep(unittest.TestCase):
    """Runs over scenarios, policies and seeds."""

    RUNS = (sweep_run(4, 1, policy="a"), sweep_run(6, 2, policy="a"), sweep_run(9, 1, policy="b"),
            sweep_run(8, 2, policy="b"))  # fmt: skip

    def test_it_begins_with_what_places_the_most_if_that_is_clear(self):
        self.assertEqual("No clear difference: 2 variations place 50 % to 85 % of all nodes",
                         sweep_page_of(*self.RUNS).lead)  # fmt: skip
        clear = [sweep_run(4 + 5 * (policy == "b"), seed, policy=policy)
                 for policy in "ab" for seed in range(3)]  # fmt: skip
        self.assertEqual("base/b places the most: 90 % of all nodes; the lowest is 40 %",
                         sweep_page_of(*clear).lead)  # fmt: skip
        html = page_html(sweep_page_of(*clear)).decode()
        self.assertEqual(2, html.count('<span class="mark">best</span>'), "placed and refused")
        self.assertEqual("Placed 40 % of all nodes", sweep_page_of(sweep_run(4)).lead)
        same = (sweep_run(4, policy="a"), sweep_run(4, policy="b"))
        self.assertEqual("Each of 2 variations places 40 % of all nodes", sweep_page_of(*same).lead)
        self.assertEqual("No run", sweep_page_of().lead)
        facts = dict(sweep_page_of(*self.RUNS).facts)
        self.assertEqual(("small=1", "4", "2", "2", "d1"),
                         (facts["Mix"], facts["Runs"], facts["Variations"],
                          facts["Seeds"], facts["Digest"]))  # fmt: skip

    def test_means_over_seeds_are_side_by_side(self):
        bars = section(sweep_page_of(*self.RUNS), "Side by side")
        self.assertIsInstance(bars, BarComparison)
        self.assertEqual(("base/a", "base/b"), bars.names)
        found = {one.name: one.values for one in bars.measures}
        self.assertEqual({"Placed": (5.0, 8.5), "Refused": (5.0, 1.5),
                          "Cores in use": (25.0, 42.5)}, found)  # fmt: skip
        self.assertIn("over 2 seeds", bars.text)
        self.assertIn("No clear difference: placed, refused.", bars.text)
        self.assertIn("podms needed 2, fragmentation 25 %", bars.text)

    def test_the_range_over_seeds_is_a_table(self):
        rows = table(sweep_page_of(*self.RUNS), "Least and most over seeds")
        self.assertEqual([("base/a", "4 to 6", "4 to 6", "2", "25.0 %"),
                          ("base/b", "8 to 9", "1 to 2", "2", "25.0 %")], rows)  # fmt: skip
        self.assertEqual(["Runs"], titles(sweep_page_of(sweep_run(4))))

    def test_each_run_is_a_row(self):
        rows = table(sweep_page_of(sweep_run(4, 7), sweep_run(5, 8, policy="a", cost=1.5)), "Runs")
        self.assertEqual([("base", "of each request", "7", "4", "6", "2", "25.0 %", "unknown"),
                          ("base", "a", "8", "5", "5", "2", "25.0 %", "1.5")], rows)  # fmt: skip

    def test_a_measure_that_only_some_runs_have_is_the_mean_of_these(self):
        runs = (sweep_run(4, 1, policy="a", cost=3.0), sweep_run(4, 2, policy="a"),
                sweep_run(4, 1, policy="b", cost=5.0))  # fmt: skip
        bars = section(sweep_page_of(*runs), "Side by side")
        self.assertEqual({"Cost": (3.0, 5.0)}, {one.name: one.values for one in bars.measures})

    def test_very_many_runs_are_cut_and_counted(self):
        usual, pages.MOST_RUNS = pages.MOST_RUNS, 3
        self.addCleanup(setattr, pages, "MOST_RUNS", usual)
        found = sweep_page_of(*(sweep_run(4, seed) for seed in range(5)))
        self.assertEqual(3, len(table(found, "Runs")))
        self.assertIn("The first 3 of 5 runs: --output has all.", section(found, "Runs").text)

    def test_edits_of_scenarios_are_listed(self):
        found = sweep_page_of(sweep_run(4, scenario="s"), s=(EditEffect(edit="fail x", blocks=1),))
        self.assertEqual([("s", "fail x: 1 block")], table(found, "Scenarios"))

    def test_hostile_names_of_everything_are_harmless(self):
        evil = EVIL + "<script>"
        runs = [sweep_run(seed, seed, evil, policy) for seed in (1, 2) for policy in (evil, "b")]
        html = page_html(sweep_page(runs, {evil: (EditEffect(edit=evil),)}, ((evil, evil),)))
        self.assertEqual("", raw(html.decode()))
        self.assertEqual(1, html.decode().count("<script"))
