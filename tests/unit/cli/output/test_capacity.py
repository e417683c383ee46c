# SPDX-License-Identifier: Apache-2.0
"""Capacities and stranded amounts, for users and for programs."""

import argparse
import io
import re
import unittest
from unittest import mock

from cliff.formatters.table import TableFormatter
from prettytable import PrettyTable

from valence_sched.model.capacity import (
    NOT_REQUESTED,
    Capacity,
    Exhaustion,
    PodmCapacity,
    ProvenMost,
    StrandedAmount,
)
from valence_sched.model.decision import Reason
from valence_sched.words.planning import capacity_lines, stranded_lines
from valence_sched_cli.output.planning import (
    capacity_table,
    explanation,
    fit_matrix,
    stranded_table,
)
from valence_sched_cli.output.table import PreparedFormatter, in_order

CARDS = Reason(filter="devices", label="GPU A100", need=2, have=1, unit="")
OFFLINE = Reason(filter="alive", label="status", need="Online", have="Offline", unit="")


def web(bound=9, found=9, **more):
    podms = (PodmCapacity(podm="a", nodes=7, sums=8, bound=bound, reasons=(CARDS,)),)
    ended = (Exhaustion(resource="GPU A100", podms=("a", "b", "c", "d", "e")),)
    fields = {
        "proven": ProvenMost(bound=bound, found=found),
        "podms": podms,
        "exhausted": ended,
        "podm_sums": 11,
        "site_sums": 1200,
    } | more
    return Capacity(name="web", **fields)


def left(podm, kind, model, free, why, unit=""):
    return StrandedAmount(podm=podm, kind=kind, model=model, unit=unit, free=free,
                          usable=free - sum(amount for _, amount in why), why=why)  # fmt: skip


class TestTable(unittest.TestCase):
    def test_a_bound_that_no_order_is_known_to_reach_is_told_from_the_optimum(self):
        for found, cell, lines in (
            (9, 9, []),
            (8, "at most 9", ["web: 8 are known to fit, at most 9 can fit"]),
        ):
            counts = [("web", web(found=found))]
            titles, (row,) = capacity_table(counts, people=True, explain=True, proven=True)
            self.assertEqual(["Flavor", "a", "One By One", "Proven Most"], titles)
            self.assertEqual(("web", 7, 7, cell), row)
            self.assertEqual(lines, list(capacity_lines(counts, None, 1000)))

    def test_a_sum_that_is_not_known_is_a_dash(self):
        """Without the sums of a zone below, ``--explain`` ended with an internal error."""
        *_, first, second = explanation([("web", web(site_sums=None)), ("mix", web(proven=None))])
        self.assertEqual(["web", "-", "11", "7", "9"], first.split())
        self.assertEqual(["mix", "1,200", "11", "7", "-"], second.split())

    def test_programs_get_a_row_for_each_pod_manager_and_only_the_columns_asked_for(self):
        counts = [("web", web())]
        few = capacity_table(counts, people=False, explain=False, proven=False)
        rows = [("web", "a", 7), ("web", "total", 7)]
        titles = ("Flavor", "Podm", "Nodes")
        self.assertEqual(titles, few[0])
        self.assertEqual(rows, [in_order(row, titles) for row in few[1]])
        titles, cells = capacity_table(counts, people=False, explain=True, proven=True)
        self.assertEqual([set(titles)] * 2, [set(row) for row in cells])
        self.assertEqual([9, 9], [row["Proven Most"] for row in cells])
        self.assertEqual(["GPU A100"] * 2, [row["Runs Out"] for row in cells])
        self.assertEqual([8, 11], [row["Podm Sums"] for row in cells])
        self.assertEqual([["1 of 2 A100"], ["GPU A100: a, b, c, d, e"]],
                         [row["Reasons"].machine_readable() for row in cells])  # fmt: skip

    def test_what_the_mix_comes_to_is_told(self):
        mix = web(by_flavor={"web": 5, "gpu": 2}, refused="gpu", proven=None)
        self.assertEqual(["mix: 7 nodes (5 web, 2 gpu); then gpu does not fit"],
                         [*capacity_lines([("mix", mix)], {"web": 2, "gpu": 1}, 1000)])  # fmt: skip


class TestExplanation(unittest.TestCase):
    def test_a_few_pod_managers_are_named_and_numbers_stand_below_their_titles(self):
        lines = list(explanation([("web", web()), ("x" * 20, web())]))
        self.assertIn("  web                   A100 (a, b, c, 2 more)", lines)
        title, first, second = lines[-3:]
        self.assertEqual(len(title), len(first))
        self.assertEqual(len(title), len(second))
        self.assertRegex(first, r"web +1,200 +11 +7 +9$")

    def test_what_is_no_resource_is_told_as_such(self):
        for reasons, text in (((OFFLINE,), "status Offline"), ((), "the count stopped")):
            podm = PodmCapacity(podm="a", nodes=0, reasons=reasons)
            lines = list(explanation([("web", web(podms=(podm,), exhausted=()))]))
            self.assertIn(f"no resource: {text}", lines[2])

    def test_hostile_names_do_not_reach_the_terminal(self):
        self.assertNotIn("\x1b", "".join(explanation([("a\x1b[2J", web())])))


class TestStranded(unittest.TestCase):
    FOUND = (
        left("a", "cores", "EPYC", 64, (("Offline", 64),)),
        left("a", "GPU", "NVIDIA A100", 4, (("no free cores (web)", 3),)),
        left("b", "GPU", "NVIDIA A100", 2, (("no free cores (web)", 1), ("Offline", 1))),
        left("b", "memory", "DDR4", 2048, ((NOT_REQUESTED, 1024),), "MiB"),
        left("b", "stock", "gib", 8, (), "GiB"),
    )

    def test_people_see_each_reason_once_that_of_most_cards_first(self):
        titles, rows = stranded_table(self.FOUND, people=True)
        self.assertEqual(("Why", "Podms", "Stranded"), titles)
        self.assertEqual(
            [
                ("no free cores (web)", "a, b", ["4 of 6 NVIDIA A100"]),
                ("Offline", "a, b", ["1 of 6 NVIDIA A100", "64 of 64 cores EPYC"]),
                (NOT_REQUESTED, "b", ["1 GiB of 2 GiB memory DDR4"]),
            ],
            [(why, podms, cell.machine_readable()) for why, podms, cell in rows],
        )

    def test_programs_get_all_that_is_free(self):
        titles, rows = stranded_table(self.FOUND, people=False)
        cells = [dict(zip(titles, row, strict=True)) for row in rows]
        self.assertEqual([64, 4, 2, 2048, 8], [row["Free"] for row in cells])
        self.assertEqual([64, 3, 2, 1024, 0], [row["Stranded"] for row in cells])
        self.assertEqual({"no free cores (web)": 1, "Offline": 1},
                         cells[2]["Reasons"].machine_readable())  # fmt: skip

    def test_that_nothing_is_stranded_is_told(self):
        self.assertEqual([], list(stranded_lines(self.FOUND)))
        self.assertEqual(1, len(list(stranded_lines(self.FOUND[-1:]))))


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

    def test_the_escapes_of_a_name_count(self):
        counts = {"f": {"\u200b" * 5: 1, "b": 2}}
        self.assertEqual(["Flavor", "b", "1 other", "Total"], fit_matrix(counts, 50)[0])

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
            formatter = PreparedFormatter(TableFormatter(), "table", colour=colour)
            with mock.patch.dict("os.environ", {"COLORTERM": "truecolor"}):
                formatter.emit_list(*fit_matrix(COUNTS, width=80), stream, arguments)
            texts[colour] = stream.getvalue()
        self.assertNotIn("\x1b", texts[False])
        self.assertEqual(texts[False], re.sub("\x1b[^m]*m", "", texts[True]))
        green = re.findall("48;2;60;210;60m *([0-9]+)", texts[True])
        self.assertEqual(["20", "3"], green)


if __name__ == "__main__":
    unittest.main()
