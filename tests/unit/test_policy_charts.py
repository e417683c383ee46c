# SPDX-License-Identifier: Apache-2.0
"""The charts of policies and plain rules show the figures that the benchmark printed."""

import csv
import importlib.util
import io
import json
import re
import unittest
from xml.etree import ElementTree

from tests.benchmarks import comparing
from tests.unit.structure import ROOT
from valence_sched.app import App

SPEC = importlib.util.spec_from_file_location("charts", ROOT / "tools" / "policy_charts.py")
charts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(charts)
SVG = "{http://www.w3.org/2000/svg}"
LINES = [json.loads(line) for line in charts.FIGURES.read_text().splitlines()]


def figures(where):
    """Return what each policy and rule loses there, in percent."""
    start = f"comparing: {where}, "
    return {line["name"][len(start) :]: line["value"] for line in LINES
            if line["name"].rpartition(", ")[0] == start[:-2]}  # fmt: skip


class TestFiles(unittest.TestCase):
    """What is drawn is what was measured."""

    def test_every_file_is_drawn_from_the_figures(self):
        for path, text in charts.files():
            with self.subTest(path=path.name):
                self.assertEqual(text, path.read_text(), "python tools/policy_charts.py")

    def test_the_figures_are_those_of_the_benchmark(self):
        lists = [*comparing.CHOSEN, "generated sites", "generated sites, worst"]
        found = list(dict.fromkeys(line["name"].rpartition(", ")[0] for line in LINES))
        self.assertEqual({f"comparing: {name}" for name in lists}, set(found))
        policies = {comparing.BEST, *comparing.OURS}
        self.assertEqual(set(charts.POLICIES), policies)
        self.assertEqual(set(charts.RULES), set(comparing.PLAIN))
        for name in comparing.CHOSEN:
            with self.subTest(name=name):
                variants = {f"default with {word} {value:g}"
                            for word, value in comparing.SENSITIVITY}  # fmt: skip
                self.assertEqual(policies | {*comparing.PLAIN} | variants, set(figures(name)))

    def test_they_are_of_the_policy_that_ships(self):
        text = charts.draw("", "", [charts.Group("", charts._variants(figures("as recorded")))])
        (use,) = (one for one in App(environ={}).config.policies()["default"].weighers
                  if one.name == "fragmentation")  # fmt: skip
        shipped = f"it ships with weight {use.weight:g} and step {use.options['step']:g}"
        self.assertIn(shipped, dict(charts.charts(charts.read(charts.FIGURES.read_text())))
                      ["policy-sensitivity.svg"])  # fmt: skip
        self.assertIn(charts.SHIPPED, text)

    def test_the_policies_lose_at_most_3_points_more_than_fragmentation(self):
        for name in comparing.CHOSEN:
            lost = figures(name)
            for policy in comparing.OURS:
                with self.subTest(name=name, policy=policy):
                    self.assertLessEqual(lost[policy], lost[comparing.BEST] + comparing.MORE)


class TestChart(unittest.TestCase):
    """A bar is as long as what it shows, from 0."""

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
                self.assertGreater(len(bars), 5)
                scale = max(float(bar.get("width")) for bar in bars) / max(shown)
                for bar, figure in zip(bars, shown, strict=True):
                    self.assertAlmostEqual(figure * scale, float(bar.get("width")), delta=2.0)

    def test_all_of_a_chart_is_within_its_paper(self):
        for _, text in charts.charts(charts.read(charts.FIGURES.read_text())):
            root = ElementTree.fromstring(text)
            width, height = (float(root.get(one)) for one in ("width", "height"))
            for one in root.iter(f"{SVG}rect"):
                right = float(one.get("x")) + float(one.get("width"))
                bottom = float(one.get("y")) + float(one.get("height"))
                self.assertTrue(right <= width and bottom <= height)

    def test_the_table_says_what_is_allocated(self):
        rows = list(csv.reader(io.StringIO(charts.table(charts.read(charts.FIGURES.read_text())))))
        self.assertEqual(["Requests", *charts.POLICIES, *charts.RULES.values()], rows[0])
        for row, name in zip(rows[1:], comparing.CHOSEN, strict=True):
            lost = figures(name)
            for text, who in zip(row[1:], (*charts.POLICIES, *charts.RULES), strict=True):
                self.assertAlmostEqual(100.0 - lost[who], float(text), delta=0.051)
