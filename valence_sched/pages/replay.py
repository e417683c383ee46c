# SPDX-License-Identifier: Apache-2.0
"""The page of a replay: how its runs compare, what was refused and why, and what was replayed."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from valence_sched.model.page import (
    BarComparison,
    ChartGrid,
    ChartSeries,
    FunnelChart,
    Lines,
    Measure,
    Page,
    PageTable,
    Row,
    Section,
    TableCell,
    TimeChart,
    Tone,
)
from valence_sched.model.quantity import format_age, format_count, resource_title
from valence_sched.model.replay import (
    FirstRefusal,
    MeasureComparison,
    Replay,
    ReplayResult,
    compare_seeds,
    sweep_run_of,
)
from valence_sched.model.scenario import EditEffect
from valence_sched.pages.charts import COLOURS
from valence_sched.pages.tables import (
    Facts,
    bar,
    first_of,
    in_sentence,
    measured_text,
    sentence,
    table,
)
from valence_sched.words.phrases import ReasonPhrases

Values = Sequence[float]
_USED_TEXT = "The share of each resource that no further node can have."


def time_sections(runs: Sequence[ReplayResult]) -> Iterator[Section]:
    """Yield the charts of one run, a line a resource, or of the first of several, a line each."""
    if len(runs) != 1:
        drawn = runs[:COLOURS]
        few = first_of(COLOURS, len(runs), "runs are drawn")
        yield _grid("Over time", (*_counts(drawn), *_used(drawn)), few)
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
    rows: list[Row] = [
        (resource_title(name), TableCell(text=f"{share_percent(values[-1])} %", share=values[-1]))
        for name, values in run.series.used.items() if values
    ]  # fmt: skip
    return table("Utilisation", ("Resource", "In use"), rows, ("In use",), _USED_TEXT)


def used_title(resource: str) -> str:
    """Return the title of the share of a resource that is in use."""
    return sentence(f"{resource_title(resource)} in use")


def share_percent(share: float) -> float:
    """Return a share as a percentage with one decimal, as it is shown and compared."""
    return round(100 * share, 1)


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
    for name in dict.fromkeys(name for run in runs for name in run.series.used):
        lines = (_line(run, run.name, _percent(run.series.used.get(name, ()))) for run in runs)
        yield TimeChart(title=used_title(name), unit="%", series=tuple(lines))


def _counts(runs: Sequence[ReplayResult]) -> Iterator[TimeChart]:
    kinds: tuple[tuple[str, str, Callable[[ReplayResult], Values | None]], ...] = (
        ("Refused nodes so far", "", lambda run: tuple(accumulate(run.series.refused))),
        ("Fragmentation", "%", lambda run: _percent(run.series.fragmentation)),
        ("Nodes in use", "", lambda run: run.series.nodes),
        ("Pod managers with nodes", "", lambda run: run.series.podms),
    )
    for title, unit, read in kinds:
        found = [(run, read(run)) for run in runs]
        if any(values is not None for _, values in found):
            yield TimeChart(
                title=title,
                unit=unit,
                series=tuple(_line(run, run.name, values) for run, values in found),
            )


def _percent(shares: Iterable[float] | None) -> Values | None:
    return None if shares is None else [share_percent(share) for share in shares]


def _line(run: ReplayResult, name: str, values: Values | None) -> ChartSeries:
    """Return the values of the buckets of a run as a line; the last one lasts until its end."""
    width_s = run.series.bucket_s
    points = [(number * width_s, value) for number, value in enumerate(values or ())]
    if points and points[-1][0] < run.duration_s:
        points.append((run.duration_s, points[-1][1]))
    return ChartSeries(name=name, points=tuple(points))


MOST_MEASURES = 10
#: What is compared, in this order, with its title; of a measure with a dot what stands before it.
TITLES = {
    "placed": "Placed", "refused": "Refused", "undecided": "Undecided",
    "podms_needed": "Podms needed", "podms_per_node": "Podms per placed node",
    "fragmentation": "Fragmentation", "cost": "Cost", "cost_per_node": "Cost per placed node",
    "utilisation": "",
}  # fmt: skip


def side_by_side(compared: Sequence[MeasureComparison], text: str) -> BarComparison:
    """Return a comparison; a measure that is equal in all is words."""
    by_group = {one.measure.name: one for one in compared}
    ordered = [one for group in TITLES for name, one in by_group.items()
               if name.partition(".")[0] == group]  # fmt: skip
    shown, equal = [], []
    for one in ordered:
        measure = _measure(one)
        if len(set(measure.values)) > 1:
            shown.append(measure)
        elif (value := measure.values[0]) is not None:
            equal.append(f"{in_sentence(measure.name)} {measured_text(value, measure.unit)}")
    names = tuple(compared[0].means)
    if equal and len(names) > 1:
        text += f" The same in each: {', '.join(equal)}."
    return BarComparison(title="Side by side", names=names,
                         measures=tuple(shown[:MOST_MEASURES]), text=text)  # fmt: skip


def _measure(one: MeasureComparison) -> Measure:
    _, dot, resource = one.measure.name.partition(".")
    title = used_title(resource) if dot else TITLES[one.measure.name]
    share = one.measure.is_share
    shown = [None if value is None else share_percent(value) if share else round(value, 2)
             for value in one.means.values()]  # fmt: skip
    errors = [None if value is None else value * (100 if share else 1)
              for value in one.errors.values()]  # fmt: skip
    best = None if one.best is None else [*one.means].index(one.best)
    return Measure(name=title, values=tuple(shown), unit="%" if share else "",
                   better=one.measure.better or "", errors=tuple(errors), best=best)  # fmt: skip


MOST_ROWS = 500  # of pod managers, and of reasons
MOST_COLUMNS = 8  # of runs, where each has a column
NO_FLAVOR = "without flavor"

Edits = Mapping[str, Sequence[EditEffect]]  # by the site of a run


def replay_page(replay: Replay, edits: Edits, facts: Facts = ()) -> Page:
    """Return the page of a replay; ``facts`` say of which workload, ``edits`` made its sites."""
    runs = replay.runs
    alone = len(runs) == 1
    sections: list[Section] = []
    if not alone:
        once = [sweep_run_of(run, "", 0) for run in runs]
        text = "Shares are means over time. One seed does not tell which run is better."
        sections.append(side_by_side(compare_seeds(once), text))
    sections += time_sections(runs)
    sections += _refusals(runs, alone)
    sections += [_by_flavor(runs, alone), _by_podm(runs), *_made_of(runs, edits, alone)]
    warnings = tuple(dict.fromkeys(line for run in runs for line in run.warnings))
    if warnings:
        sections.append(Lines(title="Warnings", lines=warnings))
    lead, tone = _lead(runs)
    own = _run_facts(runs[0]) if alone else ()
    return Page(
        title=f"Replay: {replay.workload}",
        lead=lead,
        tone=tone,
        facts=(*facts, *_shared_facts(runs), *own),
        sections=tuple(sections),
    )


def _lead(runs: Sequence[ReplayResult]) -> tuple[str, Tone]:
    least, most = (pick(run.placed for run in runs) for pick in (min, max))
    requested = format_count(runs[0].requested, "node")
    if len(runs) == 1:
        (run,) = runs
        rest = [f"{number:,} {word}" for number, word in
                ((run.refused, "refused"), (run.undecided, "undecided")) if number]  # fmt: skip
        tone: Tone = "good" if not rest else "part" if most else "bad"
        return f"Placed {most:,} of {requested}" + "".join(f", {text}" for text in rest), tone
    every = format_count(len(runs), "run")
    if least == most:
        return f"Each of {every} places {most:,} of {requested}", ""
    return f"{every} place {least:,} to {most:,} of {requested}", ""


def _shared_facts(runs: Sequence[ReplayResult]) -> Iterator[tuple[str, str]]:
    yield "Requests", f"{runs[0].requests:,}"
    yield "Duration", format_age(runs[0].duration_s)
    if len(runs) > 1:
        yield "Runs", f"{len(runs):,}"


def _run_facts(run: ReplayResult) -> Iterator[tuple[str, str]]:
    yield "Policy", run.policy or "of each request"
    yield "Pod managers with nodes, at most", f"{run.podms_needed:,}"
    yield "Nodes at once, at most", f"{run.peak_nodes:,}"
    if run.fragmentation is not None:
        share = f"{share_percent(run.fragmentation.mean)} % of {run.fragmentation.resource}"
        yield "Mean fragmentation", share
    if run.cost is not None:
        yield "Cost", f"{run.cost:,.2f}"
    source = run.inventory
    yield "Pod managers", f"{source.podms:,}"
    yield "Blocks", f"{source.blocks:,}"
    yield "Inventory", source.digest


def _refusals(runs: Sequence[ReplayResult], alone: bool) -> Iterator[Section]:
    rows = [(run, one) for run in runs for one in run.refusals]
    if not rows:
        return
    most = max(one.nodes for _, one in rows)
    steps: list[Row] = [
        (*_name(run, alone), one.flavor or NO_FLAVOR, one.step, bar(one.nodes, most))
        for run, one in rows[:MOST_ROWS]
    ]
    text = "A step is the filter that no pool passed; fit is where no pool has the blocks that "
    text += "make the node."
    columns = (*_run_title(alone), "Flavor", "Step", "Nodes")
    yield table("Refused nodes", columns, steps, ("Nodes",), text)
    if alone:
        for first in runs[0].first_refusals:
            yield FunnelChart(
                title=f"First refusal of {_flavor(first)}, after {format_age(first.time_s)}",
                steps=first.funnel,
                text="How many pools were left after each filter, of those that came in.",
            )
    yield _reasons(runs, alone)


def _reasons(runs: Sequence[ReplayResult], alone: bool) -> PageTable:
    words = ReasonPhrases()
    rows: list[Row] = []
    firsts = [(run, first) for run in runs for first in run.first_refusals]
    for run, first in firsts:
        most = max((one.podms for one in first.reasons), default=0)
        for one in first.reasons:
            if one.reason is not None:
                near = one.nearest if one.reason.is_amount and one.reason.have else ""
                rows.append((*_name(run, alone), _flavor(first), format_age(first.time_s),
                             words.of_reason(one.reason), bar(one.podms, most), near))  # fmt: skip
    return table(
        "Why the first nodes were refused",
        (*_run_title(alone), "Flavor", "After", "Why", "Pod managers", "Nearest"),
        rows[:MOST_ROWS],
        ("After", "Pod managers"),
        "Of each flavor the first request that was refused, and what the pod managers lacked "
        "then. The nearest had most of it.",
    )


def _by_flavor(runs: Sequence[ReplayResult], alone: bool) -> PageTable:
    numbers = ("Requested", "Placed", "Refused", "Undecided")
    rows: list[Row] = [
        (*_name(run, alone), one.flavor or NO_FLAVOR, f"{one.requested:,}",
         bar(one.placed, max(one.requested, 1)),
         f"{one.refused:,}", f"{one.undecided:,}")
        for run in runs for one in run.by_flavor
    ]  # fmt: skip
    return table("Flavors", (*_run_title(alone), "Flavor", *numbers), rows, numbers)


def _by_podm(runs: Sequence[ReplayResult]) -> PageTable:
    shown = runs[:MOST_COLUMNS]
    names = dict.fromkeys(name for run in shown for name in run.spread.placed)
    sums = {name: sum(run.spread.placed.get(name, 0) for run in shown) for name in names}
    most = max((count for run in shown for count in run.spread.placed.values()), default=0)
    ordered = sorted(names, key=lambda name: (-sums[name], name))
    texts = [first_of(len(shown), len(runs), "runs"),
             first_of(MOST_ROWS, len(ordered), "pod managers")]  # fmt: skip
    titles = tuple(run.name if len(runs) > 1 else "Nodes" for run in shown)
    rows: list[Row] = [
        (name, *(bar(run.spread.placed.get(name, 0), most) for run in shown))
        for name in ordered[:MOST_ROWS]
    ]
    text = " ".join(filter(None, texts))
    return table("Nodes placed by pod manager", ("Podm", *titles), rows, titles, text)


def _made_of(runs: Sequence[ReplayResult], edits: Edits, alone: bool) -> Iterator[Section]:
    if alone:
        lines = tuple(one.text for one in edits.get(runs[0].site, ()))
        if lines:
            yield Lines(title="Edits of the inventory", lines=lines)
        return
    rows: list[Row] = [
        (run.name, run.policy or "of each request",
         "; ".join(one.text for one in edits.get(run.site, ())) or "none",
         f"{run.inventory.podms:,}", f"{run.inventory.blocks:,}", run.inventory.digest)
        for run in runs
    ]  # fmt: skip
    columns = ("Run", "Policy", "Edits", "Podms", "Blocks", "Inventory")
    yield table("Runs", columns, rows, ("Podms", "Blocks"))


def _name(run: ReplayResult, alone: bool) -> tuple[str, ...]:
    return () if alone else (run.name,)


def _run_title(alone: bool) -> tuple[str, ...]:
    return () if alone else ("Run",)


def _flavor(first: FirstRefusal) -> str:
    return first.flavor or NO_FLAVOR
