# SPDX-License-Identifier: Apache-2.0
"""Replays as rows and lines: marks on the better value, percent for users, refusals as text."""

import re
import unittest
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tests.unit.planning.sites import replay_of, run_of
from valence_sched.model.decision import Reason
from valence_sched.model.replay import (
    FirstRefusal,
    Fragmentation,
    ReasonGroup,
    Refusal,
    Replay,
    ReplaySeries,
    changes,
)
from valence_sched.words.planning import change_lines, outcome_lines
from valence_sched_cli.output.planning import (
    MOST_RESOURCES,
    MOST_ROWS,
    RUN_LONG_COLUMNS,
    SERIES_COLUMNS as COLUMNS,
    ShareCell,
    comparison,
    run_rows,
    series_table,
)
from valence_sched_cli.output.table import in_order


def cells(row):
    return [getattr(cell, "human_readable", lambda cell=cell: str(cell))() for cell in row]


def two(**fields):
    runs = (run_of(3, 1, policy="pack"), run_of(2, 2, policy="spread", **fields))
    return Replay(workload="w.csv", runs=runs)


class TestComparison(unittest.TestCase):
    def test_people_see_rounded_numbers_and_programs_all_of_them(self):
        titles, rows = comparison(two(cores=0.5), machine=False)
        self.assertEqual(("Measure", "base/pack", "base/spread"), titles)
        found = {row[0]: cells(row)[1:] for row in rows}
        self.assertEqual((["3", "2"], ["1", "2"]), (found["placed"], found["refused"]))
        self.assertEqual(["25.0%", "50.0%"], found["utilisation.cores"])
        (row,) = (row for row in comparison(two(cores=0.5), machine=True)[1]
                  if row[0] == "utilisation.cores")  # fmt: skip
        self.assertEqual([0.25, 0.5], [cell.machine_readable() for cell in row[1:]])

    def test_a_measure_that_no_run_has_is_left_out(self):
        self.assertNotIn("cost", [row[0] for row in comparison(two(), machine=False)[1]])
        rows = {row[0]: cells(row)[1:] for row in comparison(two(cost=2.5), machine=False)[1]}
        self.assertEqual(["None", "2.50"], rows["cost"])


class TestRows(unittest.TestCase):
    def test_a_row_has_a_cell_for_each_column(self):
        self.assertEqual([set()] * 2, [set(RUN_LONG_COLUMNS) - set(row) for row in run_rows(two())])

    def test_shares_are_percent_for_people_and_numbers_for_programs(self):
        (row,) = run_rows(replay_of())
        self.assertEqual("cores=25.0%", row["Utilisation"].human_readable())
        self.assertEqual({"cores": 0.25}, row["Utilisation"].machine_readable())


class TestLines(unittest.TestCase):
    REFUSED = replace(
        run_of(3, 5),
        refusals=(Refusal(flavor="gpu", step="devices", nodes=4),
                  Refusal(flavor="big", step="zone", nodes=1)),
        first_refusals=(FirstRefusal(flavor="gpu", line=7, time_s=7300.0, funnel=(), reasons=(
            ReasonGroup(podms=3, nearest="p", reason=Reason(filter="capacity", label="cores",
                                                            need=32, have=16, unit="")),
            ReasonGroup(podms=1, nearest="q", reason=Reason(filter="devices", label="GPU A100",
                                                            need=1, have=0, unit="")),
        )),),
        warnings=("the filter failed",),
    )  # fmt: skip

    def test_refusals_are_told_by_step_and_the_first_ones_with_their_reasons(self):
        lines = list(outcome_lines(Replay(workload="w", runs=(self.REFUSED,))))
        self.assertEqual([
            "warning: the filter failed",
            "refused 5 nodes: 4 for lack of devices, 1 by filter zone",
            "first refusal of gpu, after 2h:",
            "      3  16 of 32 cores  best: p",
            "      1  no A100",
            "placed 3 of 8 nodes of 8 requests",
        ], lines)  # fmt: skip

    def test_of_several_runs_each_is_named_and_none_has_its_first_refusals(self):
        lines = list(outcome_lines(Replay(workload="w", runs=(self.REFUSED, run_of(site="b")))))
        self.assertEqual(["base: refused 5 nodes: 4 for lack of devices, 1 by filter zone",
                          "base: placed 3 of 8 nodes of 8 requests",
                          "b: placed 1 of 1 node of 1 request"], lines[1:])  # fmt: skip

    def test_changes_are_told_with_both_values(self):
        before, after = replay_of(100, cost=1.5), replay_of(90, cores=0.5)
        lines = list(change_lines(changes(before, after, 0.0, {}), "old.json"))
        self.assertEqual(["base: requested was 100, is 90", "base: placed was 100, is 90",
                          "base: utilisation.cores was 25.0%, is 50.0%",
                          "base: cost was 1.50, is none",
                          "4 measures differ from old.json"], lines)  # fmt: skip
        self.assertEqual(["no measure differs from old.json"], list(change_lines([], "old.json")))
        gone = list(change_lines(changes(before, replay_of(100, site="x"), 0.0, {}), "old.json"))
        self.assertEqual(["base: only in the baseline", "x: only in the result"], gone[:2])


def replay(buckets: int = 3, runs: int = 1, width_s: float = 3600.0, **fields: Any) -> Replay:
    counts = tuple(range(buckets))
    numbers = {
        "used": {"cores": tuple(n / buckets for n in counts), "drives": (0.5,) * buckets},
        "nodes": tuple(map(float, counts)), "podms": (1.0,) * buckets,
        "fragmentation": tuple(n / buckets for n in counts), "requested": counts,
        "placed": (0,) * buckets, "refused": counts, "undecided": (0,) * buckets,
    }  # fmt: skip
    series = ReplaySeries(bucket_s=width_s, **{**numbers, **fields})
    made = (replace(run_of(policy=f"p{n}"), series=series) for n in range(runs))
    return Replay(workload="w.csv", runs=tuple(made))


def table(found: Replay, **words: bool) -> tuple[Sequence[str], list[Any]]:
    titles, rows = series_table(found, **words)
    return titles, [in_order(row, titles) for row in rows]


def words(row: Any) -> list[str]:
    return [getattr(cell, "human_readable", lambda cell=cell: str(cell))().strip() for cell in row]


class TestSeries(unittest.TestCase):
    """Rows over time."""

    def test_people_see_a_row_for_each_time_with_shares_in_percent(self):
        titles, rows = table(replay(), machine=False, long=False)
        self.assertEqual(
            ["After", "Cores", "Drives", "Fragmentation", "Nodes", "Refused"], titles)  # fmt: skip
        self.assertEqual(["1h", "33.3%", "50.0%", "33.3%", "1", "1"], words(rows[1]))

    def test_many_buckets_become_few_rows_and_none_is_lost(self):
        found = replay(200)
        _, rows = table(found, machine=False, long=False)
        self.assertLessEqual(len(rows), MOST_ROWS)
        self.assertEqual(sum(range(200)), sum(row[-1] for row in rows))
        self.assertEqual(["0h", "9h"], [row[0] for row in rows[:2]])
        last = rows[-1]
        self.assertEqual("99.5%", words(last)[3], "fragmentation is that of the end")
        self.assertEqual("99.2%", words(last)[1], "a level is the mean of 198 and 199 of 200")

    def test_times_have_the_largest_unit_that_a_row_lasts(self):
        for width_s, text in ((1.0, "2s"), (90.0, "3m"), (86400.0, "2d")):
            _, rows = table(replay(width_s=width_s), machine=False, long=False)
            self.assertEqual(text, rows[2][0])

    def test_runs_are_named_where_they_are_several(self):
        titles, rows = table(replay(runs=2), machine=False, long=False)
        self.assertEqual("Run", titles[0])
        self.assertEqual(["base/p0"] * 3 + ["base/p1"] * 3, [row[0] for row in rows])

    def test_of_many_resources_people_see_those_that_change_the_most(self):
        used = {f"r{n}": (0.1, 0.1 + n / 10, 0.1) for n in range(6)}
        titles, _ = table(replay(used=used), machine=False, long=False)
        self.assertEqual(["R3", "R4", "R5"], titles[1 : 1 + MOST_RESOURCES])
        titles, _ = table(replay(used=used), machine=False, long=True)
        self.assertLessEqual({"R0", "R5", "Podms", "Undecided"}, set(titles))

    def test_programs_get_every_bucket_with_exact_numbers(self):
        titles, rows = table(replay(200), machine=True, long=False)
        self.assertEqual(COLUMNS, titles)
        self.assertEqual(200, len(rows))
        row = dict(zip(titles, rows[10], strict=True))
        self.assertEqual((36000.0, 10.0, 10), (row["After Seconds"], row["Nodes"], row["Refused"]))
        self.assertEqual(0.05, row["Utilisation"].machine_readable()["cores"])

    def test_fragmentation_names_its_resource_unless_it_is_of_accelerators(self):
        for resource, title, text in (("accelerators", "Fragmentation", "12.5%"),
                                      ("memory_mib", "Fragmentation of memory", "12.5% of memory"),
                                      ):  # fmt: skip
            (run,) = replay().runs
            useless = Fragmentation(resource=resource, mean=0.125, peak=0.2)
            found = Replay(workload="w.csv", runs=(replace(run, fragmentation=useless),))
            titles, rows = table(found, machine=False, long=False)
            self.assertEqual((title, "33.3%"), (titles[3], words(rows[1])[3]))
            (row,) = run_rows(found)
            self.assertEqual(text, row["Fragmentation"].human_readable())
            self.assertEqual(0.125, row["Fragmentation"].machine_readable())

    def test_without_fragmentation_its_cell_is_empty(self):
        found = replay(fragmentation=None)
        _, rows = table(found, machine=False, long=False)
        self.assertEqual("", words(rows[0])[3])
        _, rows = table(found, machine=True, long=False)
        self.assertIsNone(rows[0][4].machine_readable())

    def test_a_share_is_green_for_none_and_red_for_all(self):
        cells = [ShareCell(share) for share in (0.0, 1.0)]
        painted = [cell.coloured(cell.human_readable()) for cell in cells]
        self.assertEqual(["0.0%", "100.0%"],
                         [re.sub("\x1b[^m]*m", "", text) for text in painted])  # fmt: skip
        self.assertNotEqual(*(text[: text.index("m")] for text in painted))


if __name__ == "__main__":
    unittest.main()
