# SPDX-License-Identifier: Apache-2.0
"""Replays as rows: runs, comparisons, time series, and sweeps."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from valence_sched.model import replay as model
from valence_sched.model.quantity import resource_title
from valence_sched.words import planning as words
from valence_sched_cli.output.cells import Amount, Shown, fields, painted, pairs
from valence_sched_cli.output.table import Table

if TYPE_CHECKING:
    from valence_sched.app import Tuning

COLUMNS = ("Site", "Policy", "Placed", "Refused", "Podms Needed", "Fragmentation")
_MORE_COLUMNS = (
    *("Requested", "Undecided", "Departed", "Nodes Per Podm", "Most On One Podm"),
    *("Peak Utilisation", "Imbalance", "Cost", "Duration Seconds"),
)
LONG_COLUMNS = (*COLUMNS, "Utilisation", *_MORE_COLUMNS)
SWEEP_COLUMNS = ("Scenario", "Policy", "Seed", "Placed", "Refused", "Podms Needed", "Fragmentation")
SWEEP_LONG_COLUMNS = (*SWEEP_COLUMNS, "Utilisation", "Requests", *_MORE_COLUMNS)


class ShareCell(Amount[float]):
    """A share as a percentage; on a terminal with colours 0 is green and 1 is red."""

    def __init__(self, share: float) -> None:
        super().__init__(share, words.share_text)

    def coloured(self, text: str) -> str:
        return painted(text, 1.0 - self._value)


#: Shares by name: in percent for people, from 0 to 1 for machines.
Shares = pairs("\n", shown=words.share_text)


def number_cell(number: float | None, *, is_share: bool = False) -> Amount[float] | None:
    """Return the cell of a number or None; people see a rounded number or a percentage."""
    text = functools.partial(words.value_text, is_share=is_share)
    return None if number is None else Amount(number, text)


def _estimate_cell(mean: float, error: float | None, *, is_share: bool) -> Amount[float]:
    """Return the cell of a mean over seeds with its standard error."""
    text = functools.partial(words.value_text, is_share=is_share)

    def people(mean: float) -> str:
        return text(mean) if error is None else f"{text(mean)} ± {text(error)}"

    return Amount(mean, people, lambda mean: {"mean": mean, "standard_error": error})


def run_rows(replay: model.Replay) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, with the cells of LONG_COLUMNS."""
    return sweep_rows([model.sweep_run_of(run, "", 0) for run in replay.runs])


def sweep_rows(runs: Sequence[model.SweepRun]) -> Iterator[dict[str, Any]]:
    """Yield a row for each run, with the cells of SWEEP_LONG_COLUMNS."""
    for run in runs:
        found: dict[str, Any] = dict(run.measures)
        groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in found.items():
            group, dot, resource = name.partition(".")
            if dot:
                groups[group][resource] = value
        for name in ("nodes_per_podm", "cost"):
            found[name] = number_cell(found[name])
        of, share = {"": found.get("fragmentation"), **groups["fragmentation"]}.popitem()
        text = functools.partial(words.value_text, is_share=True, of=of)
        found["fragmentation"] = None if share is None else Amount(share, text)
        for name in ("utilisation", "peak_utilisation", "imbalance"):
            found[name] = Shares(groups[name])
        yield {
            **{name.replace("_", " ").title(): value for name, value in found.items()},
            "Site": run.scenario,
            **fields(run, "Scenario", "Policy", "Seed", "Requests", "Departed"),
            "Duration Seconds": number_cell(run.duration_s),
        }


def comparison(replay: model.Replay, *, machine: bool, long: bool = False) -> Table:
    """Return a table with a row for each measure, a column for each run; ``long`` adds peaks."""
    by_run = {run.name: model.measures(run) for run in replay.runs}
    rows = []
    for name in dict.fromkeys(name for found in by_run.values() for name in found):
        share = model.is_share(name)
        cells = [number_cell(found.get(name), is_share=share) for found in by_run.values()]
        hidden = name.startswith("peak_") and not (machine or long)
        if not hidden and any(cell is not None for cell in cells):
            rows.append((name, *cells))
    return ("Measure", *by_run), rows


def sweep_comparison(runs: Sequence[model.SweepRun], *, long: bool) -> Table:
    """Return a table with a row for each measure: means over seeds, and the best variation."""
    rows = []
    for one in model.compare_seeds(runs):
        if one.measure.startswith("peak_") and not long:
            continue
        is_share = model.is_share(one.measure)
        cells = [
            None if mean is None else _estimate_cell(mean, error, is_share=is_share)
            for mean, error in zip(one.means.values(), one.errors.values(), strict=True)
        ]
        best = "no clear difference" if one.is_unclear else one.best
        rows.append((one.measure, *cells, best))
    return ("Measure", *dict.fromkeys(run.variation for run in runs), "Best"), rows


#: The columns for programs; people see one column for each resource.
SERIES_COLUMNS = (
    *("Site", "Policy", "After Seconds", "Utilisation", "Fragmentation", "Nodes", "Podms"),
    *("Requested", "Placed", "Refused", "Undecided"),
)
_SUMS = ("Requested", "Placed", "Refused", "Undecided")
MOST_ROWS = 24  # rows of a run for people, about one screen
MOST_RESOURCES = 3  # columns without --long: the resources that change most
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


def series_table(replay: model.Replay, *, machine: bool, long: bool) -> Table:
    """Return a table of time series: programs get each bucket, people ``MOST_ROWS`` per run."""
    if machine:
        return SERIES_COLUMNS, [row for run in replay.runs for row in _bucket_rows(run)]
    ranges: dict[str, float] = {}  # by resource: the largest change of its share
    for run in replay.runs:
        for name, values in run.series.used.items():
            change = max(values, default=0.0) - min(values, default=0.0)
            ranges[name] = max(change, ranges.get(name, 0.0))
    most = sorted(ranges, key=lambda name: -ranges[name])[: None if long else MOST_RESOURCES]
    names = {
        name: (title := resource_title(name))[:1].upper() + title[1:]
        for name in ranges
        if name in most
    }
    useless = dict.fromkeys(map(_useless_title, replay.runs))
    titles = ["Run", "After", *names.values(), *useless, "Nodes", "Podms", *_SUMS]
    hidden = set() if long else {"Podms", "Requested", "Placed", "Undecided"}
    hidden |= {"Run"} if len(replay.runs) == 1 else set()
    rows = [useless | row for run in replay.runs for row in _merged_rows(run, names)]
    return [title for title in titles if title not in hidden], rows


def _useless_title(run: model.ReplayResult) -> str:
    title = words.fragmentation_text(run.fragmentation.resource if run.fragmentation else None)
    return title[:1].upper() + title[1:]


def _bucket_rows(run: model.ReplayResult) -> Iterator[dict[str, Any]]:
    series = run.series
    for number, nodes in enumerate(series.nodes):
        yield {
            **fields(run, "Site", "Policy"),
            "After Seconds": number * series.bucket_s,
            "Utilisation": Shares({name: used[number] for name, used in series.used.items()}),
            "Fragmentation": series.fragmentation[number] if series.fragmentation else None,
            "Nodes": nodes,
            **{title: getattr(series, title.lower())[number] for title in ("Podms", *_SUMS)},
        }


def _merged_rows(run: model.ReplayResult, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a row per interval: means of shares, sums of counts, the last fragmentation."""
    series = run.series
    size = max(1, -(-len(series.nodes) // MOST_ROWS))
    step_s = size * series.bucket_s
    unit, unit_s = next((one for one in _UNITS_S if step_s >= one[1]), _UNITS_S[-1])
    for start in range(0, len(series.nodes), size):
        part = slice(start, start + size)
        row: dict[str, Any] = {
            "Run": run.name,
            "After": f"{start * series.bucket_s / unit_s:,.0f}{unit}",
            "Nodes": round(fmean(series.nodes[part])),
            "Podms": round(fmean(series.podms[part])),
            **{title: sum(getattr(series, title.lower())[part]) for title in _SUMS},
        }
        if series.fragmentation:
            row[_useless_title(run)] = ShareCell(series.fragmentation[part][-1])
        for name, title in names.items():
            used = series.used.get(name)
            row[title] = ShareCell(fmean(used[part])) if used else None
        yield row


def tuning_rows(tuning: Tuning) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each candidate, best first: weights, share served, and gain."""
    for one in sorted(tuning.candidates, key=lambda one: -one.mean):
        gain = _estimate_cell(*tuning.gain_of(one), is_share=True)
        yield Shown(one.weights, words.weights_text), number_cell(one.mean, is_share=True), gain
