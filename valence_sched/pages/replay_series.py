# SPDX-License-Identifier: Apache-2.0
"""What happened over time in the runs of a replay: charts of use, refusals and fragmentation."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from valence_sched.model.page import (
    ChartGrid,
    ChartSeries,
    PageTable,
    Row,
    Section,
    TableCell,
    TimeChart,
)
from valence_sched.model.quantity import format_count, resource_title
from valence_sched.model.replay import ReplayResult
from valence_sched.pages.comparison import measured_text
from valence_sched.pages.svg import COLOURS
from valence_sched.pages.text import in_sentence

Values = Sequence[float]
_USED_TEXT = "The share of each resource that no further node can have."


def time_sections(runs: Sequence[ReplayResult]) -> Iterator[Section]:
    """Yield the charts of one run, a line for each resource, or of several, a line for each.

    Of more runs than there are colours the first ones are drawn.
    """
    if len(runs) != 1:
        yield _runs_grid(runs)
        return
    (run,) = runs
    resources = sorted(run.series.used.items(), key=lambda item: -max(item[1], default=0.0))
    if not run.duration_s:
        yield _used_table(run)
        return
    lines = [_line(run, resource_title(name), _percent(values)) for name, values in resources]
    for start in range(0, len(lines), COLOURS):
        after = "" if start == 0 else ", less used resources"
        yield TimeChart(title=f"Utilisation over time{after}", unit="%", text=_USED_TEXT,
                        series=tuple(lines[start : start + COLOURS]))  # fmt: skip
    yield _grid("Nodes over time", _counts(runs))


def _used_table(run: ReplayResult) -> PageTable:
    """Return the utilisation of a run in which all arrives at one moment."""
    rows: list[Row] = [
        (resource_title(name), TableCell(text=f"{share_percent(values[-1])} %", share=values[-1]))
        for name, values in run.series.used.items() if values
    ]  # fmt: skip
    return PageTable(title="Utilisation", columns=("Resource", "In use"), rows=tuple(rows),
                     numbers=frozenset(("In use",)), text=_USED_TEXT)  # fmt: skip


def used_title(resource: str) -> str:
    """Return the title of the share of a resource that is in use."""
    title = f"{resource_title(resource)} in use"
    return title[:1].upper() + title[1:]


def share_percent(share: float) -> float:
    """Return a share as a percentage with one decimal, as it is shown and compared."""
    return round(100 * share, 1)


def _runs_grid(runs: Sequence[ReplayResult]) -> ChartGrid:
    drawn = runs[:COLOURS]
    few = ""
    if len(runs) > COLOURS:
        few = f"The first {len(drawn)} of {format_count(len(runs), 'run')} are drawn."
    return _grid("Over time", (*_counts(drawn), *_used(drawn)), few)


def _grid(title: str, charts: Iterable[TimeChart], text: str = "") -> ChartGrid:
    """Return charts side by side; one whose lines never change is a few words instead."""
    drawn, constant = [], []
    for chart in charts:
        values = {value for line in chart.series for _, value in line.points}
        if len(values) == 1:
            constant += [f"{in_sentence(chart.title)} {measured_text(value, chart.unit)}"
                         for value in values if value is not None]  # fmt: skip
        elif any(len(line.points) > 1 for line in chart.series):
            drawn.append(chart)
    texts = [text, f"The same at all times: {', '.join(constant)}." if constant else ""]
    return ChartGrid(title=title, charts=tuple(drawn), text=" ".join(filter(None, texts)))


def _used(runs: Sequence[ReplayResult]) -> Iterator[TimeChart]:
    """Yield a chart for each resource with a line for each run."""
    for name in dict.fromkeys(name for run in runs for name in run.series.used):
        lines = (_line(run, run.name, _percent(run.series.used.get(name, ()))) for run in runs)
        yield TimeChart(title=used_title(name), unit="%", series=tuple(lines))


def _counts(runs: Sequence[ReplayResult]) -> Iterator[TimeChart]:
    """Yield the charts that one run has as well as several: refusals, fragmentation, nodes."""
    kinds: tuple[tuple[str, str, Callable[[ReplayResult], Values | None]], ...] = (
        ("Refused nodes so far", "", lambda run: tuple(accumulate(run.series.refused))),
        ("Fragmentation", "%", lambda run: _known_percent(run.series.fragmentation)),
        ("Nodes in use", "", lambda run: run.series.nodes),
        ("Pod managers with nodes", "", lambda run: run.series.podms),
    )
    for title, unit, read in kinds:
        found = [(run, read(run)) for run in runs]
        if any(values is not None for _, values in found):
            yield TimeChart(
                title=title,
                unit=unit,
                series=tuple(_line(run, run.name, values or ()) for run, values in found),
            )


def _known_percent(shares: Values | None) -> Values | None:
    return None if shares is None else _percent(shares)


def _percent(shares: Iterable[float]) -> Values:
    return [share_percent(share) for share in shares]


def _line(run: ReplayResult, name: str, values: Values) -> ChartSeries:
    """Return the values of the buckets of a run as a line; the last one lasts until its end."""
    width_s = run.series.bucket_s
    points = [(number * width_s, value) for number, value in enumerate(values)]
    if points and points[-1][0] < run.duration_s:
        points.append((run.duration_s, points[-1][1]))
    return ChartSeries(name=name, points=tuple(points))
