# SPDX-License-Identifier: Apache-2.0
"""The matrix of nodes that fit."""

import argparse
import io
import re
import unittest
from unittest import mock

from cliff.formatters.table import TableFormatter
from prettytable import PrettyTable

from valence_sched_cli.output.capacity import fit_matrix
from valence_sched_cli.output.table import prepare_formatter

COUNTS = {
    "small": {"alpha": 1, "bravo": 20, "charlie": 3, "delta-station": 0},
    "large": {"alpha": 0, "bravo": 2, "charlie": 3, "delta-station": 0},
}
PODMS = list(COUNTS["small"])


def table_width(titles, rows):
    table = PrettyTable(titles)
    table.add_rows(rows)
    return len(str(table).partition("\n")[0])


class FitMatrixTest(unittest.TestCase):
    def test_every_pod_manager_is_a_column_where_there_is_room(self):
        titles, rows = fit_matrix(COUNTS, width=80)
        self.assertEqual(["Flavor", *PODMS, "Total"], titles)
        self.assertEqual([("small", 1, 20, 3, 0, 24), ("large", 0, 2, 3, 0, 5)], rows)

    def test_the_best_stand_alone_and_the_others_are_one_column(self):
        for width, alone in ((50, ["bravo", "charlie"]), (40, ["bravo"]), (1, ["bravo"])):
            with self.subTest(width):
                titles, rows = fit_matrix(COUNTS, width)
                others = f"{4 - len(alone)} others"
                self.assertEqual(["Flavor", *alone, others, "Total"], titles)
                self.assertEqual([24, 5], [row[-1] for row in rows])
                self.assertEqual([24, 5], [sum(row[1:-1]) for row in rows])

    def test_it_is_as_wide_as_the_terminal_at_most(self):
        for width in range(40, 80):
            with self.subTest(width):
                self.assertLessEqual(table_width(*fit_matrix(COUNTS, width)), width)
        whole = table_width(*fit_matrix(COUNTS, 200))
        self.assertEqual(["Flavor", *PODMS, "Total"], fit_matrix(COUNTS, whole)[0])
        self.assertIn("1 other", fit_matrix(COUNTS, whole - 1)[0])

    def test_at_most_five_stand_alone_however_wide_the_terminal_is(self):
        many = {"f": {f"podm-{number:03}": number for number in range(100)}}
        titles, rows = fit_matrix(many, width=200)
        self.assertEqual(["podm-099", "podm-098", "podm-097", "podm-096", "podm-095"], titles[1:6])
        self.assertEqual(["95 others", "Total"], titles[6:])
        self.assertEqual((4465, 4950), rows[0][-2:])

    def test_nothing_is_a_matrix_too(self):
        self.assertEqual((["Flavor", "Total"], []), fit_matrix({}, 80))

    def test_in_colour_it_is_the_same_table_and_the_best_of_a_row_is_green(self):
        texts = {}
        for colour in (False, True):
            stream = io.StringIO()
            arguments = argparse.Namespace(max_width=0, fit_width=False, print_empty=False)
            formatter = prepare_formatter(TableFormatter(), "table", colour=colour)
            with mock.patch.dict("os.environ", {"COLORTERM": "truecolor"}):
                formatter.emit_list(*fit_matrix(COUNTS, width=80), stream, arguments)
            texts[colour] = stream.getvalue()
        self.assertNotIn("\x1b", texts[False])
        self.assertEqual(texts[False], re.sub("\x1b[^m]*m", "", texts[True]))
        green = re.findall("48;2;60;210;60m *([0-9]+)", texts[True])
        self.assertEqual(["20", "3"], green)


if __name__ == "__main__":
    unittest.main()
