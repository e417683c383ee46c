# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG by pygal, drawn for wide and for narrow screens; the style shows one."""

import bisect
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import markupsafe
import pygal  # type: ignore[import-untyped]
from markupsafe import Markup

from valence_sched.model import page as pages
from valence_sched.pages.tables import amount_text, measured_text, shown_text, table

COLOURS = 6  # colours of lines in the style of the page; further lines repeat them
_SHAPES = frozenset(("svg", "g", "path", "rect", "circle", "line", "text"))
_NUMBERS = frozenset(("cx", "cy", "d", "height", "r", "rx", "ry", "transform", "viewBox", "width"))
_NUMBERS |= {"x", "x1", "x2", "y", "y1", "y2"}
_ATTRIBUTES = _NUMBERS | {"class", "style"}
#: Groups and shapes of pygal that are left out: they are invisible without its scripts.
_HIDDEN = frozenset(("background", "tooltip-overlay", "legends", "tooltip", "titles", "dots"))
_COLOUR = re.compile(r"\bcolor-(\d+)")
_LONG_NUMBER = re.compile(r"-?(?<!\d)\d++\.\d++")
MOST_POINTS = 400  # points of a line: more than a screen shows
WIDTHS = {"wide": 720, "narrow": 350}
TIME_HEIGHT = 260
SMALL_HEIGHT = 190  # height of a chart in a grid
BAR_HEIGHT, BAR_MARGIN = 30, 44
MOST_LABEL = 20  # characters of a name beside its bar
MOST_FOCUS = 60  # characters of a line of text that a point shows on focus
MOST_STEPS = 6  # steps of an axis
READINGS = 12  # points of a chart over time that show their values on focus, besides the first
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_NUMBER_COLUMNS = ("Line", "First", "Least", "Most", "Last")
_TICKS = (1, 2, 3, 5, 6, 10, 12, 15, 20, 25, 30, 50, 60)
Points = Sequence[tuple[float, float | None]]


def comparison_table(section: pages.BarComparison) -> pages.PageTable:
    titles = [measure.name for measure in section.measures]
    rows: list[pages.Row] = []
    for number, name in enumerate(section.names):
        cells = [
            pages.TableCell(text=_measured(one, number), best=number == one.best)
            for one in section.measures
        ]
        rows.append((name, *cells))
    return table(f"{section.title}: numbers", ("", *titles), rows, titles)


def _measured(measure: pages.Measure, number: int) -> str:
    value = measure.values[number]
    if value is None:
        return "unknown"
    error = measure.errors[number] if measure.errors else None
    return measured_text(value, measure.unit) + ("" if error is None else f" ± {error:.2g}")


def inline_svg(root: Any, label: str, name: str, readings: Iterable[Markup]) -> Markup:
    """Return an SVG tree as markup; ``label`` is its accessible text, ``name`` its class."""
    view_box = _attribute("viewBox", root.get("viewBox", ""))
    head = Markup('<svg role="group" class="{}" aria-label="{}"').format(name, shown_text(label))
    parts = [head, view_box, Markup(">")]
    for child in root:
        parts += _markup(child)
    plots = [one.get("transform") for one in root.iter() if "plot" in _classes(one)]
    parts += [Markup('<g class="points"{}>').format(_attribute("transform", plots[0]))]
    return Markup("").join([*parts, *readings, Markup("</g></svg>")])


def _focus_value(
    box: tuple[float, float, float, float],
    values: Sequence[str],
    text_x: float,
    anchor: str = "start",
) -> Markup:
    """Return a part of a chart that shows lines of text on focus; a box has its place and size."""
    lines = [shown_text(line, MOST_FOCUS) for line in values]
    spans = (Markup('<tspan x="{:.0f}" dy="14">{}</tspan>').format(text_x, it) for it in lines)
    rect = Markup('<rect x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}"/>').format(*box)
    text = Markup('<text y="{:.0f}">{}</text>').format(box[1], Markup("").join(spans))
    head = '<g class="point {}" tabindex="0" role="img" aria-label="{}">{}{}</g>'
    return Markup(head).format(anchor, ", ".join(lines), rect, text)  # noqa: S704 - constant


def _classes(element: Any) -> Collection[str]:
    return str(element.get("class", "")).split()


def _markup(element: Any) -> Iterator[Markup]:
    tag = element.tag if isinstance(element.tag, str) else ""  # a comment has no tag
    tag = tag.rpartition("}")[2]
    if tag not in _SHAPES or not _HIDDEN.isdisjoint(_classes(element)):
        return
    inner = [part for child in element for part in _markup(child)]
    text = markupsafe.escape(shown_text(str(element.text or ""))) if tag == "text" else Markup("")
    if tag in ("g", "text") and not inner and not text:
        return
    attributes = [
        _attribute(name, str(value))
        for name, value in sorted(element.attrib.items())
        if name in _ATTRIBUTES and value != ""
    ]
    yield Markup("<{}{}>").format(tag, Markup("").join(attributes))
    yield text
    yield from inner
    yield Markup("</{}>").format(tag)


def _attribute(name: str, value: str) -> Markup:
    if name == "class":
        value = _COLOUR.sub(lambda colour: f"color-{int(colour[1]) % COLOURS}", value)
    if name in _NUMBERS:
        value = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), value)
    return Markup(' {}="{}"').format(name, value)


def time_charts(section: pages.TimeChart) -> Markup:
    return Markup("").join(
        _time_chart(section, f"chart {name}", width, TIME_HEIGHT) for name, width in WIDTHS.items()
    )


def small_chart(section: pages.TimeChart) -> Markup:
    return _time_chart(section, "chart", WIDTHS["narrow"], SMALL_HEIGHT)


def _time_chart(section: pages.TimeChart, name: str, width: int, height: int) -> Markup:
    times = [time for one in section.series for time, _ in one.points]
    values = [value for one in section.series for _, value in one.points if value is not None]
    longest = max(times, default=0.0)
    unit, unit_s = next((one for one in _UNITS_S if longest >= 3 * one[1]), _UNITS_S[-1])
    most = 10 if width == WIDTHS["wide"] else 6
    chart = pygal.XY(
        **_settings(width, height),
        show_dots=False,
        allow_interruptions=True,
        range=(min([0.0, *values]), max([0.0, *values]) or 1.0),
        max_scale=MOST_STEPS,
        y_labels=_whole_steps(values),
        x_labels=_ticks(max(times) / unit_s, most) if values else None,
        x_value_formatter=lambda value: f"{value:g} {unit}",
        value_formatter=amount_text,
    )
    for one in section.series:
        points = thinned(one.points)
        points = stepped(points) if section.stepped else points
        chart.add("", [(time / unit_s, value) for time, value in points])
    readings = [longest * number / READINGS for number in range(READINGS + 1)] if values else []
    chart.add("", [(time / unit_s, 0) for time in readings], show_dots=True, stroke=False)
    label = f"{section.title}: a line over time for {', '.join(one.name for one in section.series)}"
    root = chart.render_tree()
    return inline_svg(root, label, name, _readings(section, root, readings, unit, unit_s))


def _readings(
    section: pages.TimeChart, root: Any, times: Sequence[float], unit: str, unit_s: float
) -> Iterator[Markup]:
    """Yield the values of all lines at ``times``; the drawing has a dot for each time."""
    dots = [(float(one.get("cx")), float(one.get("cy"))) for one in root.iter() if one.get("cx")]
    middle = dots[len(dots) // 2][0] if dots else 0.0
    width = (dots[-1][0] - dots[0][0]) / READINGS if dots else 0.0
    for time, (x, y) in zip(times, dots, strict=False):
        lines = [f"{time / unit_s:.3g} {unit}"]
        for one in section.series:
            at = bisect.bisect_right(one.points, time + unit_s / 1e6, key=itemgetter(0))
            value = one.points[at - 1][1] if at else None
            text = "unknown" if value is None else measured_text(value, section.unit)
            lines.append(f"{short_label(one.name)} {text}" if len(section.series) > 1 else text)
        is_left = x <= middle
        box = (x - width / 2, 0.0, width, y)
        yield _focus_value(box, lines, *((x + 6, "start") if is_left else (x - 6, "end")))


def bar_chart(section: pages.BarComparison, measure: pages.Measure) -> Markup:
    known = [value for value in measure.values if value is not None]
    chart = pygal.HorizontalBar(
        **_settings(WIDTHS["narrow"], BAR_MARGIN + BAR_HEIGHT * len(section.names)),
        range=(min([0.0, *known]), max([0.0, *known]) or 1.0),
        max_scale=4,
        x_labels=[short_label(one) for one in reversed(section.names)],
        value_formatter=amount_text,
    )
    bars = []
    for at, value in enumerate(measure.values):
        colour = "best" if at == measure.best else "bar"
        bars.append({"value": value, "color": f"var(--{colour})"})
    chart.add("", bars[::-1])
    label = f"{measure.name}: a bar for each of {', '.join(section.names)}"
    root = chart.render_tree()
    drawn = [one for one in root.iter() if "rect" in _classes(one)]
    readings = []
    places = [at for at in reversed(range(len(bars))) if measure.values[at] is not None]
    for at, bar in zip(places, drawn, strict=False):
        x, y, width, height = (float(bar.get(one) or 0) for one in ("x", "y", "width", "height"))
        text = f"{short_label(section.names[at])}: {_measured(measure, at)}"
        readings.append(_focus_value((x, y, max(width, 4), height), [text], 4))
    return inline_svg(root, label, "chart", readings)


def short_label(name: str) -> str:
    """Return a name that fits next to a bar: a long name keeps its start and its end."""
    text = shown_text(name)
    end = MOST_LABEL // 2
    return text if len(text) <= MOST_LABEL else f"{text[: end - 1]}…{text[-end:]}"


def _whole_steps(values: Sequence[float]) -> list[int] | None:
    """Return the labels of an axis for a few whole numbers; None if pygal's labels are used."""
    if not values or min(values) < 0 or not all(float(value).is_integer() for value in values):
        return None
    most = int(max(values))
    return list(range(most + 1)) if 0 < most < MOST_STEPS else None


def _settings(width: int, height: int) -> dict[str, Any]:
    style = pygal.style.Style(label_font_size=12, major_label_font_size=12)
    spaces = {"margin": 6, "margin_right": 18, "spacing": 8, "truncate_label": -1}
    texts = {"show_legend": False, "no_data_text": "no numbers"}
    return {"width": width, "height": height, "style": style, "css": (), "js": ()} | spaces | texts


def thinned(points: Points, most: int = MOST_POINTS) -> Points:
    if len(points) <= most:
        return points
    size = -(-len(points) // (most // 4))
    kept: list[int] = []
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        known = [(value, at) for at in stretch if (value := points[at][1]) is not None]
        gap = [at for at in stretch if points[at][1] is None][:1]
        extremes = [min(known)[1], max(known)[1]] if known else []
        kept += sorted({stretch[0], *extremes, *gap, stretch[-1]})
    return [points[index] for index in kept]


def stepped(points: Points) -> Points:
    """Return the points of a step line, which keeps each value until the next one."""
    steps: list[tuple[float, float | None]] = []
    for time, value in points:
        if steps and steps[-1][0] < time:
            steps.append((time, steps[-1][1]))
        steps.append((time, value))
    return steps


def grid_table(section: pages.ChartGrid) -> pages.PageTable:
    tables = [(chart.title, series_table(chart)) for chart in section.charts]
    rows = ((title, *row) for title, numbers in tables for row in numbers.rows)
    columns = ("Chart", *_NUMBER_COLUMNS)
    return table(f"{section.title}: numbers", columns, rows, _NUMBER_COLUMNS[1:])


def series_table(section: pages.TimeChart) -> pages.PageTable:
    rows: list[pages.Row] = []
    for one in section.series:
        values = [value for _, value in one.points if value is not None]
        ends = (values[0], min(values), max(values), values[-1]) if values else ()
        texts = [measured_text(value, section.unit) for value in ends] or ["unknown"] * 4
        rows.append((one.name, *texts))
    return table(f"{section.title}: numbers", _NUMBER_COLUMNS, rows, _NUMBER_COLUMNS[1:])


def _ticks(last: float, most: int) -> list[float]:
    scale = 1.0
    while last / (_TICKS[-1] * scale) > most:
        scale *= 10
    step = next(tick * scale for tick in _TICKS if last / (tick * scale) <= most)
    return [round(step * number, 6) for number in range(int(last / step) + 1)]
