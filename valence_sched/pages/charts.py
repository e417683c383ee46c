# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG by pygal: lines over time, and bars side by side.

A chart over time is drawn for a wide and for a narrow screen, so that its letters are of the size
of the text around it on both; the style of the page shows one of them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pygal  # type: ignore[import-untyped]
from markupsafe import Markup

from valence_sched.model.page import BarComparison, ChartSeries, Measure, PageTable, TimeChart
from valence_sched.pages.comparison import amount_text, best_values
from valence_sched.pages.svg import inline_svg
from valence_sched.pages.text import shown_text

MOST_POINTS = 400  # of a line: more than a screen has room for
WIDTHS = {"wide": 720, "narrow": 350}
TIME_HEIGHT = 260
BAR_HEIGHT, BAR_MARGIN = 30, 44
MOST_LABEL = 14  # characters of a name beside its bar
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_TICKS = (1, 2, 3, 5, 6, 10, 12, 15, 20, 25, 30, 50, 60)

Points = Sequence[tuple[float, float | None]]


def time_charts(section: TimeChart) -> Markup:
    """Return the chart of a section, wide and narrow."""
    return Markup("").join(_time_chart(section, name, width) for name, width in WIDTHS.items())


def _time_chart(section: TimeChart, name: str, width: int) -> Markup:
    times = [time for one in section.series for time, _ in one.points]
    values = [value for one in section.series for _, value in one.points if value is not None]
    unit, unit_s = _time_unit(max(times, default=0.0))
    most = 6 if name == "narrow" else 10
    chart = pygal.XY(
        **_settings(width, TIME_HEIGHT),
        show_dots=False,
        allow_interruptions=True,
        range=(min([0.0, *values]), max([0.0, *values]) or 1.0),
        max_scale=6,
        x_labels=_ticks(max(times) / unit_s, most) if values else None,
        x_value_formatter=lambda value: f"{value:g} {unit}",
        value_formatter=amount_text,
    )
    for one in section.series:
        points = thinned(one.points)
        points = stepped(points) if section.stepped else points
        chart.add("", [(time / unit_s, value) for time, value in points])
    label = f"{section.title}: a line over time for {', '.join(one.name for one in section.series)}"
    return inline_svg(chart.render_tree(), label, f"chart {name}")


def bar_chart(section: BarComparison, measure: Measure) -> Markup:
    """Return the bars of one measure of a comparison, for any screen: several stand abreast."""
    best = best_values(measure)
    known = [value for value in measure.values if value is not None]
    chart = pygal.HorizontalBar(
        **_settings(WIDTHS["narrow"], BAR_MARGIN + BAR_HEIGHT * len(section.names)),
        range=(min([0.0, *known]), max([0.0, *known]) or 1.0),
        max_scale=4,
        x_labels=[shown_text(one, MOST_LABEL) for one in reversed(section.names)],
        value_formatter=amount_text,
    )
    bars = zip(reversed(measure.values), reversed(best), strict=True)
    chart.add("", [{"value": value, "color": f"var(--{'best' if is_best else 'bar'})"}
                   for value, is_best in bars])  # fmt: skip
    label = f"{measure.name}: a bar for each of {', '.join(section.names)}"
    return inline_svg(chart.render_tree(), label, "chart")


def _settings(width: int, height: int) -> dict[str, Any]:
    style = pygal.style.Style(label_font_size=12, major_label_font_size=12)
    return {
        "width": width,
        "height": height,
        "style": style,
        "css": (),
        "js": (),
        "show_legend": False,
        "margin": 6,
        "margin_right": 18,
        "no_data_text": "no numbers",
        "spacing": 8,
    }


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    """Return at most about ``most`` points of a line, with the lowest and highest of each stretch.

    The first and the last stay, and a gap stays a gap.
    """
    if len(points) <= most:
        return points
    size = -(-len(points) // (most // 4))
    kept: list[int] = []
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        known = [index for index in stretch if points[index][1] is not None]
        gap = [index for index in stretch if points[index][1] is None][:1]
        extremes: Iterable[int] = ()
        if known:
            extremes = (min(known, key=lambda index: (points[index][1], index)),
                        max(known, key=lambda index: (points[index][1], index)))  # fmt: skip
        kept += sorted({stretch[0], *extremes, *gap, stretch[-1]})
    return [points[index] for index in kept]


def stepped(points: Points) -> Points:
    """Return the points of a line that keeps each value until the next."""
    steps: list[tuple[float, float | None]] = []
    for time, value in points:
        if steps and steps[-1][0] < time:
            steps.append((time, steps[-1][1]))
        steps.append((time, value))
    return steps


def series_table(section: TimeChart) -> PageTable:
    """Return the numbers of a chart: where each line begins and ends, its least and its most."""
    return PageTable(
        title=f"{section.title}: numbers",
        columns=("Line", "First", "Least", "Most", "Last"),
        numbers=frozenset(("First", "Least", "Most", "Last")),
        rows=tuple((one.name, *_extremes(one, section.unit)) for one in section.series),
    )


def _extremes(one: ChartSeries, unit: str) -> Iterable[str]:
    values = [value for _, value in one.points if value is not None]
    if not values:
        return ("unknown",) * 4
    return [f"{amount_text(value)} {unit}".rstrip()
            for value in (values[0], min(values), max(values), values[-1])]  # fmt: skip


def _time_unit(longest_s: float) -> tuple[str, float]:
    """Return the largest unit of which there are at least three, and its seconds."""
    for unit, seconds in _UNITS_S:
        if longest_s >= 3 * seconds:
            return unit, seconds
    return _UNITS_S[-1]


def _ticks(last: float, most: int) -> list[float]:
    """Return round numbers from 0 to ``last``, at most ``most`` of them."""
    scale = 1.0
    while last / (_TICKS[-1] * scale) > most:
        scale *= 10
    step = next(tick * scale for tick in _TICKS if last / (tick * scale) <= most)
    return [round(step * number, 6) for number in range(int(last / step) + 1)]
