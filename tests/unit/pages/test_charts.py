# SPDX-License-Identifier: Apache-2.0
"""Charts: their lines and bars, with few points, in the colours of the page."""

import re
import unittest
import xml.etree.ElementTree as ElementTree
from typing import Any

from valence_sched.model.page import BarComparison, ChartGrid, ChartSeries, Measure, TimeChart
from valence_sched.pages import charts
from valence_sched.pages.charts import COLOURS, comparison_table
from valence_sched.pages.tables import amount_text

HOUR_S = 3600.0


def time_chart(*points: tuple[float, float | None], **fields: object) -> TimeChart:
    return TimeChart(
        title="Use", unit="%", series=(ChartSeries(name="base", points=points),), **fields
    )


def svgs(markup: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(f"<x>{markup}</x>"))


class TestTime(unittest.TestCase):
    """Lines over time."""

    def test_it_is_drawn_for_both_widths_with_a_name_and_nothing_but_shapes(self):
        wide, narrow = svgs(charts.time_charts(time_chart((0, 1), (HOUR_S, 3))))
        self.assertEqual("0 0 720 260", wide.get("viewBox"))
        self.assertEqual("0 0 350 260", narrow.get("viewBox"))
        for svg in (wide, narrow):
            self.assertEqual("group", svg.get("role"))
            self.assertIn("Use", svg.get("aria-label", ""))
            tags = {element.tag for element in svg.iter()}
            self.assertLessEqual(tags, {"svg", "g", "path", "rect", "text", "tspan"})
            self.assertEqual([], [one for one in svg.iter() if "id" in one.attrib])

    def test_a_line_keeps_its_value_until_the_next_one_if_it_is_stepped(self):
        points = [(0.0, 1.0), (5.0, 3.0), (6.0, None), (8.0, 2.0)]
        expected = [(0, 1), (5, 1), (5, 3), (6, 3), (6, None), (8, None), (8, 2)]
        self.assertEqual(expected, list(charts.stepped(points)))

    def test_a_gap_is_not_drawn(self):
        whole, gap = ((0.0, 1.0), (HOUR_S, 3.0), (2 * HOUR_S, 2.0), (3 * HOUR_S, 2.0)), None
        broken = (*whole[:2], (1.5 * HOUR_S, gap), *whole[2:])
        moves = [charts.time_charts(time_chart(*points, stepped=False)) for points in
                 (whole, broken)]  # fmt: skip
        lines = [re.findall(r'class="line reactive nofill" d="([^"]*)"', one) for one in moves]
        self.assertEqual([2, 4], ["".join(one).count("M") for one in lines])  # in both widths

    def test_many_points_become_few_and_keep_their_extremes(self):
        points = [(float(n), float(n % 97)) for n in range(100_000)]
        points[54_321] = (54_321.0, 1000.0)
        points[70_000] = (70_000.0, -5.0)
        points[80_000] = (80_000.0, None)
        few = charts.thinned(points)
        self.assertLessEqual(len(few), 5 * charts.MOST_POINTS // 4)
        self.assertLessEqual({points[0], points[54_321], points[70_000], points[80_000],
                              points[-1]}, set(few))  # fmt: skip
        self.assertEqual(sorted(few), list(few))
        self.assertEqual(points[:400], charts.thinned(points[:400]))

    def test_the_axis_has_round_times_in_a_unit_that_fits(self):
        for last_s, unit in ((90.0, "s"), (600.0, "min"), (40 * HOUR_S, "h"), (90 * 86400.0, "d")):
            (wide, _) = svgs(charts.time_charts(time_chart((0, 1), (last_s, 2))))
            texts = [one.text for one in wide.iter("text")]
            times = [text for text in texts if text and text.endswith(f" {unit}")]
            self.assertTrue(3 <= len(times) <= 11, (last_s, texts))
            self.assertEqual(f"0 {unit}", times[0])

    def test_no_points_and_no_values_are_drawn_as_nothing(self):
        for chart in (time_chart(), time_chart((0, None)), time_chart((0, 0)),
                      TimeChart(title="t", unit="", series=())):  # fmt: skip
            self.assertEqual(2, len(svgs(charts.time_charts(chart))))

    def test_lines_beyond_the_colours_of_the_page_have_them_again(self):
        series = tuple(ChartSeries(name=f"{n}", points=((0, n), (9, n))) for n in range(9))
        (wide, _) = svgs(charts.time_charts(TimeChart(title="t", unit="", series=series)))
        drawn = [one.get("class", "").split()[-1] for one in wide.iter("g")
                 if "series" in one.get("class", "")]  # fmt: skip
        self.assertEqual([f"color-{n % COLOURS}" for n in range(9)], drawn)

    def test_the_numbers_are_there_as_a_table(self):
        (row,) = charts.series_table(time_chart((0, 5), (1, 2.25), (2, None), (3, 1000))).rows
        self.assertEqual(("base", "5 %", "2.25 %", "1,000 %", "1,000 %"), row)
        (row,) = charts.series_table(time_chart((0, None))).rows
        self.assertEqual(("base", *["unknown"] * 4), row)

    def test_each_place_says_its_values_on_focus(self):
        series = (ChartSeries(name="a", points=((0, 1), (6 * HOUR_S, 3), (12 * HOUR_S, 1))),
                  ChartSeries(name="b", points=((HOUR_S, 2),)))  # fmt: skip
        chart = TimeChart(title="t", unit="%", series=series)
        (wide, _) = svgs(charts.time_charts(chart))
        points = [one for one in wide.iter("g") if "point" in one.get("class", "").split()]
        texts = [one.get("aria-label") for one in points]
        self.assertEqual(charts.READINGS + 1, len(texts))
        self.assertEqual("0 h, a 1 %, b unknown", texts[0])
        self.assertEqual(["5 h, a 1 %, b 2 %", "6 h, a 3 %, b 2 %"], texts[5:7])
        self.assertEqual({"0"}, {one.get("tabindex") for one in points})

    def test_few_whole_numbers_have_whole_labels(self):
        (wide, _) = svgs(charts.time_charts(time_chart((0, 0), (90, 1))))
        self.assertLessEqual({"0", "1"}, {one.text for one in wide.iter("text")})
        self.assertNotIn("0.2", {one.text for one in wide.iter("text")})

    def test_a_small_chart_is_drawn_once_and_a_grid_has_one_table(self):
        chart = time_chart((0, 1), (90, 2))
        (svg,) = svgs(charts.small_chart(chart))
        self.assertEqual("0 0 350 190", svg.get("viewBox"))
        grid = ChartGrid(title="g", charts=(chart, time_chart((0, 7))))
        self.assertEqual([("Use", "base", "1 %"), ("Use", "base", "7 %")],
                         [row[:3] for row in charts.grid_table(grid).rows])  # fmt: skip


class TestBars(unittest.TestCase):
    """Bars side by side."""

    def comparison(self, *values: float | None, **words: Any) -> BarComparison:
        measure = Measure(name="Placed", values=values, unit="nodes", better="higher", **words)
        names = ("base", "two trays die", "x" * 99)[: len(values)]
        return BarComparison(title="c", names=names, measures=(measure,))

    def test_a_bar_is_as_long_as_its_value_and_the_best_has_a_colour(self):
        section = self.comparison(40.0, 10.0, None, best=0)
        (svg,) = svgs(charts.bar_chart(section, section.measures[0]))
        bars = [one for one in svg.iter("rect") if "rect" in one.get("class", "")]
        widths = sorted(float(one.get("width", "0")) for one in bars)
        self.assertAlmostEqual(4, widths[-1] / widths[-2], places=1)
        styles = " ".join(one.get("style", "") for one in svg.iter())
        self.assertIn("var(--best)", styles)
        self.assertIn("var(--bar)", styles)
        self.assertNotIn("#", styles)

    def test_each_bar_says_its_value_on_focus(self):
        section = self.comparison(40.0, None, 7.0)
        (svg,) = svgs(charts.bar_chart(section, section.measures[0]))
        texts = [one.get("aria-label") for one in svg.iter("g") if one.get("tabindex")]
        self.assertEqual([f"{charts.short_label('x' * 99)}: 7 nodes", "base: 40 nodes"], texts)

    def test_the_best_value_is_marked_and_a_mean_has_its_error(self):
        rows = comparison_table(self.comparison(40.0, None, errors=(1.234, None), best=0)).rows
        self.assertEqual([("base", "40 nodes ± 1.2", True), ("two trays die", "unknown", False)],
                         [(name, cell.text, cell.best) for name, cell in rows])  # fmt: skip
        rows = comparison_table(self.comparison(40.0, 10.0)).rows
        self.assertEqual([False, False], [cell.best for _, cell in rows])

    def test_numbers_have_no_digits_that_say_nothing(self):
        numbers = (1200.0, 12.5, 0.126, 0.0, -3.0)
        self.assertEqual(["1,200", "12.5", "0.13", "0", "-3"], list(map(amount_text, numbers)))

    def test_a_long_name_keeps_its_begin_and_its_end(self):
        self.assertEqual("a tray dies/pack", charts.short_label("a tray dies/pack"))
        name = charts.short_label("no A100 in the east/default")
        self.assertEqual("no A100 i…st/default", name)
        self.assertEqual(charts.MOST_LABEL, len(name))

    def test_nothing_to_compare_and_negative_values_are_drawn(self):
        for section in (self.comparison(), self.comparison(0.0, 0.0), self.comparison(-5.0, 5.0),
                        self.comparison(None)):  # fmt: skip
            self.assertEqual(1, len(svgs(charts.bar_chart(section, section.measures[0]))))
