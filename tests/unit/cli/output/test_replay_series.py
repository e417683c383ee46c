# SPDX-License-Identifier: Apache-2.0
"""What happened over time as rows: few for people and coloured, each bucket for programs."""

import re
import unittest
from typing import Any

from msgspec.structs import replace

from tests.unit.planning.workloads import run_of
from valence_sched.model.replay import Replay, ReplaySeries
from valence_sched_cli.output.replay import (
    MOST_RESOURCES,
    MOST_ROWS,
    ShareCell,
    series_table,
)
from valence_sched_cli.output.replay import (
    SERIES_COLUMNS as COLUMNS,
)


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


def words(row: Any) -> list[str]:
    return [getattr(cell, "human_readable", lambda cell=cell: str(cell))().strip() for cell in row]


class TestSeries(unittest.TestCase):
    """Rows over time."""

    def test_people_see_a_row_for_each_time_with_shares_in_percent(self):
        titles, rows = series_table(replay(), machine=False, long=False)
        self.assertEqual(
            ("After", "Cores", "Drives", "Fragmentation", "Nodes", "Refused"), titles)  # fmt: skip
        self.assertEqual(["1h", "33.3%", "50.0%", "33.3%", "1", "1"], words(rows[1]))

    def test_many_buckets_become_few_rows_and_none_is_lost(self):
        found = replay(200)
        _, rows = series_table(found, machine=False, long=False)
        self.assertLessEqual(len(rows), MOST_ROWS)
        self.assertEqual(sum(range(200)), sum(row[-1] for row in rows))
        self.assertEqual(["0h", "9h"], [row[0] for row in rows[:2]])
        last = rows[-1]
        self.assertEqual("99.5%", words(last)[3], "fragmentation is that of the end")
        self.assertEqual("99.2%", words(last)[1], "a level is the mean of 198 and 199 of 200")

    def test_times_have_the_largest_unit_that_a_row_lasts(self):
        for width_s, text in ((1.0, "2s"), (90.0, "3m"), (86400.0, "2d")):
            _, rows = series_table(replay(width_s=width_s), machine=False, long=False)
            self.assertEqual(text, rows[2][0])

    def test_runs_are_named_where_they_are_several(self):
        titles, rows = series_table(replay(runs=2), machine=False, long=False)
        self.assertEqual("Run", titles[0])
        self.assertEqual(["base/p0"] * 3 + ["base/p1"] * 3, [row[0] for row in rows])

    def test_of_many_resources_people_see_those_that_change_the_most(self):
        used = {f"r{n}": (0.1, 0.1 + n / 10, 0.1) for n in range(6)}
        titles, _ = series_table(replay(used=used), machine=False, long=False)
        self.assertEqual(("R3", "R4", "R5"), titles[1 : 1 + MOST_RESOURCES])
        titles, _ = series_table(replay(used=used), machine=False, long=True)
        self.assertLessEqual({"R0", "R5", "Podms", "Undecided"}, set(titles))

    def test_programs_get_every_bucket_with_exact_numbers(self):
        titles, rows = series_table(replay(200), machine=True, long=False)
        self.assertEqual(COLUMNS, titles)
        self.assertEqual(200, len(rows))
        row = dict(zip(titles, rows[10], strict=True))
        self.assertEqual((36000.0, 10.0, 10), (row["After Seconds"], row["Nodes"], row["Refused"]))
        self.assertEqual(0.05, row["Utilisation"].machine_readable()["cores"])

    def test_without_fragmentation_its_cell_is_empty(self):
        found = replay(fragmentation=None)
        _, rows = series_table(found, machine=False, long=False)
        self.assertEqual("", words(rows[0])[3])
        _, rows = series_table(found, machine=True, long=False)
        self.assertIsNone(rows[0][4].machine_readable())

    def test_a_share_is_green_for_none_and_red_for_all(self):
        cells = [ShareCell(share) for share in (0.0, 1.0)]
        painted = [cell.coloured(cell.human_readable()) for cell in cells]
        self.assertEqual(["0.0%", "100.0%"],
                         [re.sub("\x1b[^m]*m", "", text) for text in painted])  # fmt: skip
        self.assertNotEqual(*(text[: text.index("m")] for text in painted))


if __name__ == "__main__":
    unittest.main()
