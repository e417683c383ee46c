# SPDX-License-Identifier: Apache-2.0
"""The charts of policies and plain rules show the figures of the benchmarks."""

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from tests.benchmarks import living, placing
from tests.unit.structure import ROOT

SPEC = importlib.util.spec_from_file_location("charts", ROOT / "tools" / "policy_charts.py")
charts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(charts)
MORE = 2.7  # points
SVG = "{http://www.w3.org/2000/svg}"
LINES = [json.loads(line) for line in charts.FIGURES.read_text().splitlines()]
FIGURES = charts.read(charts.FIGURES.read_text())


def value(name):
    """Return the value of the line of this name."""
    (found,) = (line["value"] for line in LINES if line["name"] == name)
    return found


def rows(text):
    """Return the rows of CSV text."""
    return list(csv.reader(io.StringIO(text)))


class TestFiles(unittest.TestCase):
    """The charts draw the measured figures."""

    def test_every_file_is_drawn_from_the_figures(self):
        for path, text in charts.files():
            with self.subTest(path=path.name):
                self.assertEqual(text, path.read_text(), "python tools/policy_charts.py")

    def test_the_figures_are_those_of_comparing(self):
        found = {name: {*lost} for name, lost in FIGURES["comparing"].items()}
        sites = (charts.GENERATED, f"{charts.GENERATED}, worst")
        self.assertEqual({name: {*placing.POLICIES} for name in sites}, found)

    def test_the_figures_are_those_of_placing(self):
        expected = {*placing.POLICIES, *charts.RULES.values()}
        self.assertEqual({*charts.RULES}, {*placing.PLAIN})
        for measure in ("allocated", "served"):
            found = charts.by_measure(FIGURES["placing"], measure)
            self.assertLessEqual({*placing.WITH_DEPARTURES}, {*found})
            for name, lost in found.items():
                with self.subTest(name=name, measure=measure):
                    self.assertEqual(expected, {*lost})

    def test_the_figures_are_those_of_living(self):
        expected = {*living.POLICIES, *living.RULES, living.CEILING}
        for measure in living.Served._fields:
            found = charts.by_measure(FIGURES["living"], measure)
            self.assertEqual({*living.SITES}, {*found})
            for name, lost in found.items():
                with self.subTest(name=name, measure=measure):
                    self.assertEqual(expected, {*lost})

    def test_no_policy_loses_much_more_than_the_best_rule_in_all_measures(self):
        lists = charts.by_measure(FIGURES["placing"], "allocated")
        requests, hours = (
            charts.by_measure(FIGURES["living"], one) for one in living.Served._fields
        )
        measured = [[lost] for lost in lists.values()]
        measured += [[requests[site], hours[site]] for site in requests]
        rules = {*charts.RULES.values()}
        for some in measured:
            for policy in charts.POLICIES:
                more = [lost[policy] - min(lost[one] for one in rules & {*lost}) for lost in some]
                with self.subTest(policy=policy):
                    self.assertLessEqual(min(more), MORE)


class TestMeasure(unittest.TestCase):
    """New figures are written completely, or the earlier ones stay."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.figures = Path(folder.name, "figures.jsonl")
        self.figures.write_text("before\n")

    def prints(self, *names):
        lines = "".join(json.dumps({"name": name, "value": 1.0, "probe": 1.0}) + "\n"
                        for name in names)  # fmt: skip
        return lines, [sys.executable, "-c", f"print({lines!r}, end='')"]

    def test_the_output_is_what_is_read(self):
        text, command = self.prints("comparing: a, b", "placing: a, allocated, b, lost",
                                    "living: a, hours, b, lost")  # fmt: skip
        charts.measure(command, self.figures)
        self.assertEqual(text, self.figures.read_text())

    def test_it_is_not_the_smallest_size(self):
        command = [
            sys.executable,
            "-c",
            "import os; assert 'VALENCE_SCHED_BENCH' not in os.environ",
        ]
        with (
            mock.patch.dict(os.environ, {"VALENCE_SCHED_BENCH": "tiny"}),
            self.assertRaises(SystemExit),  # it prints nothing
        ):
            charts.measure(command, self.figures)

    def test_a_benchmark_that_fails_or_is_skipped_changes_nothing(self):
        _, command = self.prints("comparing: a, b", "living: a, hours, b, lost")
        with self.assertRaises(SystemExit) as caught:
            charts.measure(command, self.figures)
        line = "not measured, figures.jsonl is as before: a benchmark was skipped"
        self.assertEqual(line, caught.exception.code)
        with self.assertRaises(subprocess.CalledProcessError):
            charts.measure([sys.executable, "-c", "raise SystemExit(1)"], self.figures)
        self.assertEqual("before\n", self.figures.read_text())

    def test_another_word_is_refused(self):
        with self.assertRaises(SystemExit) as caught:
            charts.main(["--mesure"])
        self.assertIn("usage: ", caught.exception.code)


class TestChart(unittest.TestCase):
    """The length of a bar is its value, from 0."""

    def test_the_lengths_are_in_proportion_to_the_figures(self):
        for path, _ in charts.files():
            if path.suffix != ".svg":
                continue
            root = ElementTree.parse(path).getroot()
            bars = [one for one in root.iter(f"{SVG}rect") if one.get("class") in ("ours", "plain")]
            texts = [one.text for one in root.iter(f"{SVG}text")]
            shown = [float(text) for text in texts if re.fullmatch(r"\d+\.\d", text)]
            with self.subTest(path=path.name):
                self.assertEqual(len(bars), len(shown))
                self.assertGreater(len(bars), 4)
                scale = max(float(bar.get("width")) for bar in bars) / max(shown)
                for bar, figure in zip(bars, shown, strict=True):
                    self.assertAlmostEqual(figure * scale, float(bar.get("width")), delta=2.0)

    def test_all_of_a_chart_is_within_its_paper(self):
        for _, text in charts.charts(FIGURES):
            root = ElementTree.fromstring(text)
            width, height = (float(root.get(one)) for one in ("width", "height"))
            for one in root.iter(f"{SVG}rect"):
                right = float(one.get("x")) + float(one.get("width"))
                bottom = float(one.get("y")) + float(one.get("height"))
                self.assertTrue(right <= width and bottom <= height)

    def test_a_list_has_its_name(self):
        for name, expected in {
            "as recorded": "as recorded",
            "as many several cards": "as many requests for several cards as for one",
            "a third two cards": "a third request two cards",
            "a fifth by nodes": "a fifth name a model, drawn by nodes",
            "half by models": "half name a model, with equal probability",
            "half several cards, a third by cards":
                "half several cards; a third name a model, by cards",
        }.items():  # fmt: skip
            self.assertEqual(expected, charts.heading(name))


class TestTable(unittest.TestCase):
    """The tables have the figures of the lines."""

    def test_they_have_what_is_allocated_or_served_by_each_policy(self):
        placed = charts.by_measure(FIGURES["placing"], "allocated")
        found = rows(charts.table(placed, "Requests"))
        columns = [*charts.POLICIES, "random", "first fit", "best fit", "FGD"]
        self.assertEqual(["Requests", *columns], found[0])
        lost = value("placing: as recorded, allocated, bestfit, lost")
        (row,) = (row for row in found if row[0] == "as recorded")
        self.assertAlmostEqual(100.0 - lost, float(row[found[0].index("best fit")]), delta=0.051)
