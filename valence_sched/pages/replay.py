# SPDX-License-Identifier: Apache-2.0
"""The pages of a replay and a sweep: comparisons of runs, refusals with reasons, and edits."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from valence_sched.model import page as pages, replay as model
from valence_sched.model.quantity import format_age, format_count, resource_title
from valence_sched.model.scenario import EditEffect
from valence_sched.pages import tables
from valence_sched.pages.charts import COLOURS
from valence_sched.words.phrases import ReasonPhrases
from valence_sched.words.planning import fragmentation_text

Values = Sequence[float]
_USED_TEXT = "The share of each resource that further nodes cannot use."
MOST_MEASURES = 10
#: The compared measures in order, with titles; ``utilisation.cores`` has the title of its prefix.
TITLES = {"placed": "Placed", "refused": "Refused", "undecided": "Undecided"}
TITLES |= {"podms_needed": "Podms needed", "podms_per_node": "Podms per placed node"}
TITLES |= {"fragmentation": "Fragmentation", "cost": "Cost"}
TITLES |= {"cost_per_node": "Cost per placed node", "utilisation": ""}
MOST_COLUMNS = 8  # runs that have a column each
NO_FLAVOR = "without flavor"
Edits = Mapping[str, Sequence[EditEffect]]  # by the name of the site of a run
MOST_RUNS = 2000  # runs of a sweep in a table
_SPREAD = ("placed", "refused", "podms_needed", "fragmentation", "cost")
Variations = dict[str, list[model.SweepRun]]  # by the name of a scenario and a policy


def time_sections(runs: Sequence[model.ReplayResult]) -> Iterator[pages.Section]:
    if len(runs) != 1:
        several, few = runs[:COLOURS], tables.first_of(COLOURS, len(runs), "runs are drawn")
        yield _grid("Over time", (*_counts(several), *_used(several)), few)
        return
    (run,) = runs
    resources = sorted(run.series.used.items(), key=lambda item: -max(item[1], default=0.0))
    if not run.duration_s:
        rows: list[pages.Row] = []
        for name, values in run.series.used.items():
            if values:
                cell = pages.TableCell(text=f"{share_percent(values[-1])} %", share=values[-1])
                rows.append((resource_title(name), cell))
        yield tables.table("Utilisation", ("Resource", "In use"), rows, ("In use",), _USED_TEXT)
        return
    lines = [_line(run, resource_title(name), _percent(values)) for name, values in resources]
    for start in range(0, len(lines), COLOURS):
        after = "" if start == 0 else ", less used resources"
        title, drawn = f"Utilisation over time{after}", lines[start : start + COLOURS]
        yield pages.TimeChart(title=title, unit="%", text=_USED_TEXT, series=tuple(drawn))
    yield _grid("Nodes over time", _counts(runs))


def share_percent(share: float) -> float:
    """Return a share as a percentage with one decimal, for display and comparison."""
    return round(100 * share, 1)


def _grid(title: str, charts: Iterable[pages.TimeChart], text: str = "") -> pages.ChartGrid:
    drawn, constant = [], []
    for chart in charts:
        values = {value for line in chart.series for _, value in line.points}
        known = [value for value in values if value is not None]
        if len(values) == 1:
            name = tables.in_sentence(chart.title)
            constant += [f"{name} {tables.measured_text(value, chart.unit)}" for value in known]
        elif any(len(line.points) > 1 for line in chart.series):
            drawn.append(chart)
    texts = [text, f"Constant: {', '.join(constant)}." if constant else ""]
    return pages.ChartGrid(title=title, charts=tuple(drawn), text=" ".join(filter(None, texts)))


def _used(runs: Sequence[model.ReplayResult]) -> Iterator[pages.TimeChart]:
    for name in dict.fromkeys(name for run in runs for name in run.series.used):
        lines = (_line(run, run.name, _percent(run.series.used.get(name, ()))) for run in runs)
        title = tables.sentence(f"{resource_title(name)} in use")
        yield pages.TimeChart(title=title, unit="%", series=tuple(lines))


def _counts(runs: Sequence[model.ReplayResult]) -> Iterator[pages.TimeChart]:
    kinds: tuple[tuple[str, str, Callable[[model.ReplayResult], Values | None]], ...] = (
        ("Refused nodes so far", "", lambda run: tuple(accumulate(run.series.refused))),
        ("Fragmentation", "%", lambda run: _percent(run.series.fragmentation)),
        ("Nodes in use", "", lambda run: run.series.nodes),
        ("Pod managers with nodes", "", lambda run: run.series.podms),
    )
    for title, unit, read in kinds:
        found = [(run, read(run)) for run in runs]
        if any(values is not None for _, values in found):
            lines = tuple(_line(run, run.name, values) for run, values in found)
            yield pages.TimeChart(title=title, unit=unit, series=lines)


def _percent(shares: Iterable[float] | None) -> Values | None:
    return None if shares is None else [share_percent(share) for share in shares]


def _line(run: model.ReplayResult, name: str, values: Values | None) -> pages.ChartSeries:
    """Return the bucket values of a run as a line; the last value lasts until the run ends."""
    width_s = run.series.bucket_s
    points = [(number * width_s, value) for number, value in enumerate(values or ())]
    if points and points[-1][0] < run.duration_s:
        points.append((run.duration_s, points[-1][1]))
    return pages.ChartSeries(name=name, points=tuple(points))


def side_by_side(compared: Sequence[model.MeasureComparison], text: str) -> pages.BarComparison:
    groups = list(TITLES)
    known = [one for one in compared if one.measure.partition(".")[0] in groups]
    known.sort(key=lambda one: groups.index(one.measure.partition(".")[0]))
    shown, equal = [], []
    for measure in map(_measure, known):
        if len(set(measure.values)) > 1:
            shown.append(measure)
        elif (value := measure.values[0]) is not None:
            shown_value = tables.measured_text(value, measure.unit)
            equal.append(f"{tables.in_sentence(measure.name)} {shown_value}")
    names = tuple(compared[0].means)
    if equal and len(names) > 1:
        text += f" Equal in all: {', '.join(equal)}."
    measures = tuple(shown[:MOST_MEASURES])
    return pages.BarComparison(title="Side by side", names=names, measures=measures, text=text)


def _measure(one: model.MeasureComparison) -> pages.Measure:
    share = model.is_share(one.measure)

    def shown(value: float | None) -> float | None:
        return None if value is None else share_percent(value) if share else round(value, 2)

    return pages.Measure(
        name=_title(one.measure),
        values=tuple(map(shown, one.means.values())),
        unit="%" if share else "",
        better=model.better_direction(one.measure) or "",
        errors=tuple(value and value * (100 if share else 1) for value in one.errors.values()),
        best=None if one.best is None else [*one.means].index(one.best),
    )


def _title(name: str) -> str:
    group, dot, resource = name.partition(".")
    if group == "fragmentation":
        return tables.sentence(fragmentation_text(resource))
    return tables.sentence(f"{resource_title(resource)} in use") if dot else TITLES[name]


def replay_page(replay: model.Replay, edits: Edits, facts: tables.Facts = ()) -> pages.Page:
    """Return the page of a replay; ``facts`` describe the workload, ``edits`` change the sites."""
    runs = replay.runs
    alone = len(runs) == 1
    sections: list[pages.Section] = []
    if not alone:
        once = [model.sweep_run_of(run, "", 0) for run in runs]
        text = "Shares are means over time. One seed does not show which run is better."
        sections.append(side_by_side(model.compare_seeds(once), text))
    sections += time_sections(runs)
    sections += _refusals(runs)
    sections += [_by_flavor(runs), _by_podm(runs), *_made_of(runs, edits)]
    warnings = tuple(dict.fromkeys(line for run in runs for line in run.warnings))
    if warnings:
        sections.append(pages.Lines(title="Warnings", lines=warnings))
    lead, tone = _lead(runs)
    requests, duration = f"{runs[0].requests:,}", format_age(runs[0].duration_s)
    own = _run_facts(runs[0]) if alone else [("Runs", f"{len(runs):,}")]
    return pages.Page(
        title=f"Replay: {replay.workload}",
        lead=lead,
        tone=tone,
        facts=(*facts, ("Requests", requests), ("Duration", duration), *own),
        sections=tuple(sections),
    )


def _lead(runs: Sequence[model.ReplayResult]) -> tuple[str, pages.Tone]:
    least, most = (pick(run.placed for run in runs) for pick in (min, max))
    requested = format_count(runs[0].requested, "node")
    if len(runs) == 1:
        (run,) = runs
        rest = f", {run.refused:,} refused" if run.refused else ""
        rest += f", {run.undecided:,} undecided" if run.undecided else ""
        tone: pages.Tone = "good" if not rest else "part" if most else "bad"
        return f"Placed {most:,} of {requested}{rest}", tone
    every = format_count(len(runs), "run")
    if least == most:
        return f"Each of {every} places {most:,} of {requested}", ""
    return f"{every} place {least:,} to {most:,} of {requested}", ""


def _run_facts(run: model.ReplayResult) -> Iterator[tuple[str, str]]:
    yield "Policy", run.policy or "of each request"
    yield "Most pod managers with nodes", f"{run.podms_needed:,}"
    yield "Most nodes at one time", f"{run.peak_nodes:,}"
    if run.fragmentation is not None:
        resource = resource_title(run.fragmentation.resource)
        yield "Mean fragmentation", f"{share_percent(run.fragmentation.mean)} % of {resource}"
    if run.cost is not None:
        yield "Cost", f"{run.cost:,.2f}"
    source = run.inventory
    yield "Pod managers", f"{source.podms:,}"
    yield "Blocks", f"{source.blocks:,}"
    yield "Inventory", source.digest


def _refusals(runs: Sequence[model.ReplayResult]) -> Iterator[pages.Section]:
    rows = [(run, one) for run in runs for one in run.refusals]
    if not rows:
        return
    most = max(one.nodes for _, one in rows)
    steps: list[pages.Row] = [
        (run.name, one.flavor or NO_FLAVOR, one.step, tables.bar(one.nodes, most))
        for run, one in rows
    ]
    text = "A step is the filter that rejected the last pools. The step fit means that no "
    text += "remaining pool had enough free blocks for the node."
    columns = ("Run", "Flavor", "Step", "Nodes")
    yield _run_table(runs, "Refused nodes", columns, steps, ("Nodes",), text)
    text = "Pools that each filter kept, of the pools before it."
    for first in runs[0].first_refusals if len(runs) == 1 else ():
        flavor, age = first.flavor or NO_FLAVOR, format_age(first.time_s)
        title = f"First refusal of {flavor}, after {age}"
        yield pages.FunnelChart(title=title, steps=first.funnel, text=text)
    yield _reasons(runs)


def _reasons(runs: Sequence[model.ReplayResult]) -> pages.PageTable:
    words = ReasonPhrases()
    rows: list[pages.Row] = []
    for run, first in ((one, first) for one in runs for first in one.first_refusals):
        most = max((one.podms for one in first.reasons), default=0)
        begin = (run.name, first.flavor or NO_FLAVOR, format_age(first.time_s))
        for one in first.reasons:
            if one.reason is not None:
                near = one.nearest if one.reason.is_amount and one.reason.have else ""
                reason = words.of_reason(one.reason)
                rows.append((*begin, reason, tables.bar(one.podms, most), near))
    columns = ("Run", "Flavor", "After", "Reason", "Pod managers", "Nearest")
    text = "The first refused request of each flavor, and the reasons at that time. "
    text += "The nearest pod manager had the largest part of the requested amount."
    title = "Reasons of the first refusals"
    return _run_table(runs, title, columns, rows, ("After", "Pod managers"), text)


def _by_flavor(runs: Sequence[model.ReplayResult]) -> pages.PageTable:
    numbers = ("Requested", "Placed", "Refused", "Undecided")
    rows: list[pages.Row] = []
    for run in runs:
        for one in run.by_flavor:
            placed = tables.bar(one.placed, max(one.requested, 1))
            counts = (f"{one.requested:,}", placed, f"{one.refused:,}", f"{one.undecided:,}")
            rows.append((run.name, one.flavor or NO_FLAVOR, *counts))
    return _run_table(runs, "Flavors", ("Run", "Flavor", *numbers), rows, numbers)


def _run_table(
    runs: Sequence[model.ReplayResult],
    title: str,
    columns: Sequence[str],
    rows: Iterable[pages.Row],
    numbers: Sequence[str],
    text: str = "",
) -> pages.PageTable:
    if len(runs) == 1:
        columns, rows = columns[1:], [row[1:] for row in rows]
    return tables.table(title, columns, rows, numbers, text, most=tables.MOST_ROWS)


def _by_podm(runs: Sequence[model.ReplayResult]) -> pages.PageTable:
    shown = runs[:MOST_COLUMNS]
    names = dict.fromkeys(name for run in shown for name in run.spread.placed)
    sums = {name: sum(run.spread.placed.get(name, 0) for run in shown) for name in names}
    most = max((count for run in shown for count in run.spread.placed.values()), default=0)
    titles = tuple(run.name if len(runs) > 1 else "Nodes" for run in shown)
    rows: list[pages.Row] = []
    for name in sorted(names, key=lambda name: (-sums[name], name)):
        rows.append((name, *(tables.bar(run.spread.placed.get(name, 0), most) for run in shown)))
    text, columns = tables.first_of(len(shown), len(runs), "runs"), ("Podm", *titles)
    title, noun = "Nodes placed by pod manager", "pod managers"
    return tables.table(title, columns, rows, titles, text, most=tables.MOST_ROWS, noun=noun)


def _made_of(runs: Sequence[model.ReplayResult], edits: Edits) -> Iterator[pages.Section]:
    if len(runs) == 1:
        if lines := tuple(one.text for one in edits.get(runs[0].site, ())):
            yield pages.Lines(title="Edits of the inventory", lines=lines)
        return
    rows: list[pages.Row] = []
    for run in runs:
        texts = "; ".join(one.text for one in edits.get(run.site, ())) or "none"
        source = run.inventory
        size = (f"{source.podms:,}", f"{source.blocks:,}", source.digest)
        rows.append((run.name, run.policy or "of each request", texts, *size))
    columns = ("Run", "Policy", "Edits", "Podms", "Blocks", "Inventory")
    yield tables.table("Runs", columns, rows, ("Podms", "Blocks"))


def sweep_page(
    runs: Sequence[model.SweepRun], edits: Edits, facts: tables.Facts = ()
) -> pages.Page:
    """Return the page of a sweep; ``facts`` describe the workload, ``edits`` each scenario."""
    variations: Variations = {}
    for run in runs:
        variations.setdefault(run.variation, []).append(run)
    seeds, compared = len({run.seed for run in runs}), model.compare_seeds(runs)
    sections: list[pages.Section] = []
    if len(variations) > 1:
        sections.append(side_by_side(compared, _comparison_text(compared, seeds)))
    if seeds > 1:
        sections.append(_spread(variations))
    sections.append(_runs(runs))
    if any(edits.values()):
        texts = {name: "; ".join(one.text for one in some) for name, some in edits.items()}
        rows = ((name, text or "none") for name, text in texts.items())
        sections.append(tables.table("Scenarios", ("Scenario", "Edits"), rows))
    numbers = {"Runs": len(runs), "Variations": len(variations), "Seeds": seeds}
    sizes = ((name, f"{number:,}") for name, number in numbers.items())
    return pages.Page(
        title="Sweep",
        lead=_sweep_lead(variations, compared),
        facts=(*facts, *sizes, ("Digest", runs[0].question if runs else "none")),
        sections=tuple(sections),
    )


def _comparison_text(compared: Sequence[model.MeasureComparison], seeds: int) -> str:
    if seeds == 1:
        return "Shares are means over time. One seed does not show which variation is better."
    text = f"Means over {format_count(seeds, 'seed')}, ± the standard error; shares are means over "
    text += "time. The marked variation is better with 95 % confidence, compared by seed."
    names = (one.measure for one in compared if one.is_unclear)
    unclear = [tables.in_sentence(_title(name)) for name in names]
    return f"{text} No clear difference: {', '.join(unclear)}." if unclear else text


def _sweep_lead(variations: Variations, compared: Sequence[model.MeasureComparison]) -> str:
    if not variations:
        return "No run"
    shares = []
    for runs in variations.values():
        placed, requested = (
            sum(run.measures.get(name) or 0 for run in runs) for name in ("placed", "requested")
        )
        shares.append(share_percent(placed / requested) if requested else 0.0)
    least, most = (f"{tables.amount_text(pick(shares))} %" for pick in (min, max))
    if len(variations) == 1:
        return f"Placed {most} of all nodes"
    every = format_count(len(variations), "variation")
    if least == most:
        return f"Each of {every} places {most} of all nodes"
    best = next(one for one in compared if one.measure == "placed").best
    if best is not None:
        return f"{best} places the most: {most} of all nodes; the lowest is {least}"
    return f"No clear difference: {every} place {least} to {most} of all nodes"


def _spread(variations: Variations) -> pages.PageTable:
    every = [run for runs in variations.values() for run in runs]
    found = _spread_names(every)
    names = [one for one in found if any(run.measures.get(one) is not None for run in every)]
    rows: list[pages.Row] = [
        (variation, *(_range_text(name, runs) for name in names))
        for variation, runs in variations.items()
    ]
    titles = list(map(_title, names))
    title = "Least and most over seeds"
    return tables.table(title, ("Variation", *titles), rows, titles, most=MOST_RUNS)


def _spread_names(runs: Sequence[model.SweepRun]) -> list[str]:
    """Return the measures of ``_SPREAD``; fragmentation is one measure for each resource."""
    found = dict.fromkeys(name for run in runs for name in run.measures)
    return [name for group in _SPREAD for name in found if name.partition(".")[0] == group]


def _range_text(name: str, runs: Sequence[model.SweepRun]) -> str:
    known = [value for run in runs if (value := run.measures.get(name)) is not None]
    if not known:
        return "unknown"
    least, most = (_shown(name, value) for value in (min(known), max(known)))
    return least if least == most else f"{least} to {most}"


def _runs(runs: Sequence[model.SweepRun]) -> pages.PageTable:
    rows: list[pages.Row] = []
    names = _spread_names(runs)
    for run in runs[:MOST_RUNS]:
        placed = tables.bar(run.measures.get("placed") or 0, run.measures.get("requested") or 0)
        cells = [_shown(name, run.measures.get(name)) for name in names[1:]]
        rows.append((run.scenario, run.policy or "of each request", f"{run.seed}", placed, *cells))
    text = "A bar is the part of the requested nodes that is placed."
    if len(runs) > MOST_RUNS:
        text += f" The first {MOST_RUNS:,} of {format_count(len(runs), 'run')}: --output has all."
    numbers = ("Seed", *map(_title, names))
    return tables.table("Runs", ("Scenario", "Policy", *numbers), rows, numbers, text)


def _shown(measure: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{share_percent(value)} %" if model.is_share(measure) else tables.amount_text(value)
