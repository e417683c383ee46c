# SPDX-License-Identifier: Apache-2.0
"""Replays as rows and lines: runs, comparisons, what happened over time, and sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import Amount, PairLines, format_count, or_absent, painted
from valence_sched_cli.output.decision import reason_text, warning_lines

if TYPE_CHECKING:
    from valence_sched.model.replay import (
        FirstRefusal,
        MeasureChange,
        Replay,
        ReplayResult,
        RunMeasure,
        SweepRun,
    )

COLUMNS = ("Site", "Policy", "Placed", "Refused", "Podms Needed", "Fragmentation")
LONG_COLUMNS = (*COLUMNS, "Utilisation", "Requested", "Undecided", "Departed", "Nodes Per Podm",
                "Most On One Podm", "Peak Utilisation", "Cost", "Duration Seconds")  # fmt: skip
SHARE_DECIMALS = 3  # a tenth of a percent, as people see it
MOST_GROUPS = 4  # of reasons, in the lines about a first refusal
MOST_CHANGES = 20  # that are told, before the rest is only counted


class Number(Amount[float]):
    """A number: few digits for people, all for machines."""

    def __init__(self, value: float, *, is_share: bool = False) -> None:
        super().__init__(value)
        self._is_share = is_share

    def human_readable(self) -> str:
        return number_text(self._value, is_share=self._is_share)


class Estimate(Amount[float]):
    """The mean of a measure over seeds, with its standard error."""

    def __init__(self, mean: float, error: float | None, *, is_share: bool) -> None:
        super().__init__(mean)
        self._error, self._is_share = error, is_share

    def human_readable(self) -> str:
        texts = [number_text(one, is_share=self._is_share) for one in (self._value, self._error)
                 if one is not None]  # fmt: skip
        return " ± ".join(texts)

    def machine_readable(self) -> Any:
        return {"mean": self._value, "standard_error": self._error}


class Shares(PairLines):
    """Shares by name: in percent for people, from 0 to 1 for machines."""

    def human_readable(self) -> str:
        shares = ((name, number_text(one, is_share=True)) for name, one in self._value.items())
        return "\n".join(f"{name}={text}" for name, text in shares)


def number_text(number: float, *, is_share: bool = False) -> str:
    """Return a number for people: a share in percent, others with two decimals or digits."""
    if is_share:
        return f"{100 * number:.1f}%"
    if 0 < abs(number) < 0.1:
        return f"{number:.2g}"
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def run_rows(replay: Replay, *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each run; cells as in LONG_COLUMNS."""
    for run in replay.runs:
        row = (
            run.site, or_absent(run.policy), run.placed, run.refused, run.podms_needed,
            share_or_absent(run.fragmentation.mean if run.fragmentation else None),
            Shares({name: one.mean for name, one in run.utilisation.items()}),
            run.requested, run.undecided, run.departed, Number(run.spread.mean), run.spread.most,
            Shares({name: one.peak for name, one in run.utilisation.items()}),
            or_absent(None if run.cost is None else Number(run.cost)), Number(run.duration_s),
        )  # fmt: skip
        yield row if long else row[: len(COLUMNS)]


def comparison(
    replay: Replay, *, machine: bool, long: bool = False
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and a row for each measure: a column for each run.

    One seed tells of no run that it is better. People do not get peaks, unless ``long``.
    """
    from valence_sched.model.replay import measures

    by_run = {run.name: {one.name: one for one in measures(run)} for run in replay.runs}
    names = dict.fromkeys(name for found in by_run.values() for name in found)
    rows = []
    for name in names:
        cells = [found.get(name) for found in by_run.values()]
        hidden = name.startswith("peak_") and not (machine or long)
        if not hidden and any(one and one.value is not None for one in cells):
            rows.append((name, *map(_measure_cell, cells)))
    return ("Measure", *by_run), rows


def _measure_cell(measure: RunMeasure | None) -> Any:
    return or_absent(None) if measure is None else _number(measure.value, is_share=measure.is_share)


def sweep_comparison(
    runs: Sequence[SweepRun], *, long: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and a row for each measure: means over seeds, and the best variation."""
    from valence_sched.model.replay import compare_seeds

    compared = [one for one in compare_seeds(runs)
                if long or not one.measure.name.startswith("peak_")]  # fmt: skip
    rows = []
    for one in compared:
        estimates = zip(one.means.values(), one.errors.values(), strict=True)
        cells = [
            or_absent(
                None if mean is None else Estimate(mean, error, is_share=one.measure.is_share)
            )
            for mean, error in estimates
        ]
        best = "no clear difference" if one.is_unclear else one.best
        rows.append((one.measure.name, *cells, or_absent(best)))
    return ("Measure", *dict.fromkeys(run.variation for run in runs), "Best"), rows


def outcome_lines(replay: Replay) -> Iterator[str]:
    """Yield the lines about the outcome: warnings, refusals by reason, the outcome itself last."""
    warnings = dict.fromkeys(line for run in replay.runs for line in run.warnings)
    yield from warning_lines(warnings)
    alone = len(replay.runs) == 1
    for run in replay.runs:
        name = "" if alone else f"{run.name}: "
        if run.refused:
            steps: Counter[str] = Counter()
            for refusal in run.refusals:
                steps[refusal.step] += refusal.nodes
            text = ", ".join(f"{nodes:,} after {step}" for step, nodes in steps.most_common())
            yield f"{name}refused {format_count(run.refused, 'node')}: {text}"
        if alone:
            for first in run.first_refusals:
                yield from _first_lines(first)
        undecided = f", {run.undecided:,} undecided" if run.undecided else ""
        requests = format_count(run.requests, "request")
        yield (f"{name}placed {run.placed:,} of {format_count(run.requested, 'node')} of {requests}"
               f"{undecided}")  # fmt: skip


def change_lines(changes: Sequence[MeasureChange], file: str) -> Iterator[str]:
    """Yield a line for each measure that differs from the baseline, at last how many do."""
    for change in changes[:MOST_CHANGES]:
        share = change.measure.startswith(("utilisation", "peak_utilisation", "fragmentation"))
        texts = ["none" if value is None else number_text(value, is_share=share)
                 for value in (change.before, change.after)]  # fmt: skip
        if change.measure == "run":
            yield f"{change.run}: only in the {'baseline' if change.after is None else 'result'}"
        else:
            yield f"{change.run}: {change.measure} was {texts[0]}, is {texts[1]}"
    count = len(changes)
    measures = "1 measure differs" if count == 1 else f"{count:,} measures differ"
    yield f"{measures} from {file}" if count else f"no measure differs from {file}"


def share_or_absent(share: float | None) -> Any:
    """Return the cell of a share that may be None: in percent for people."""
    return or_absent(None if share is None else Number(share, is_share=True))


def _first_lines(first: FirstRefusal) -> Iterator[str]:
    from valence_sched.model.quantity import format_age

    flavor = first.flavor or "a request without flavor"
    yield f"first refusal of {flavor}, after {format_age(first.time_s)}:"
    groups = [(one, reason_text(one.reason)) for one in first.reasons if one.reason]
    shown = groups[:MOST_GROUPS]
    width = max((len(text) for _, text in shown), default=0)
    for one, text in shown:
        have = one.reason.have if one.reason and one.podms > 1 else None
        best = isinstance(have, int | float) and not isinstance(have, bool) and have > 0
        line = f"  {one.podms:>5,}  {text:{width}}  {f'best: {one.nearest}' if best else ''}"
        yield line.rstrip()
    if others := sum(one.podms for one, _ in groups[MOST_GROUPS:]):
        yield f"  {others:>5,}  for other reasons"


#: The columns for programs; people have one for each resource.
SERIES_COLUMNS = ("Site", "Policy", "After Seconds", "Utilisation", "Fragmentation", "Nodes",
                  "Podms", "Requested", "Placed", "Refused", "Undecided")  # fmt: skip
MOST_ROWS = 24  # of a run, for people: one screen
MOST_RESOURCES = 3  # that people see without --long: those that change the most
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


class ShareCell(Number):
    """A share: a percentage, green for 0 and red for 1 on a terminal with colours."""

    def __init__(self, share: float) -> None:
        super().__init__(share, is_share=True)

    def coloured(self, text: str) -> str:
        return painted(text, 1.0 - self._value)


def series_table(
    replay: Replay, *, machine: bool, long: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and rows: for programs each bucket, for people at most ``MOST_ROWS`` a run."""
    if machine:
        return SERIES_COLUMNS, [row for run in replay.runs for row in _bucket_rows(run)]
    from valence_sched.model.quantity import resource_title

    names = _resources(replay.runs, None if long else MOST_RESOURCES)
    alone = len(replay.runs) == 1
    titles = (
        *(() if alone else ("Run",)), "After",
        *(title[:1].upper() + title[1:] for title in map(resource_title, names)),
        "Fragmentation", "Nodes",
        *(("Podms", "Requested", "Placed") if long else ()), "Refused",
        *(("Undecided",) if long else ()),
    )  # fmt: skip
    rows = []
    for run in replay.runs:
        for row in _merged_rows(run, names, long=long):
            rows.append(row if alone else (run.name, *row))
    return titles, rows


def _bucket_rows(run: ReplayResult) -> Iterator[tuple[Any, ...]]:
    series = run.series
    for number, nodes in enumerate(series.nodes):
        fragmentation = series.fragmentation[number] if series.fragmentation else None
        yield (
            run.site, or_absent(run.policy), number * series.bucket_s,
            Shares({name: values[number] for name, values in series.used.items()}),
            or_absent(fragmentation), nodes, series.podms[number], series.requested[number],
            series.placed[number], series.refused[number], series.undecided[number],
        )  # fmt: skip


def _resources(runs: Sequence[ReplayResult], most: int | None) -> list[str]:
    """Return the resources in their order; of more than ``most`` those that change the most."""
    ranges: dict[str, float] = {}
    for run in runs:
        for name, values in run.series.used.items():
            change = max(values, default=0.0) - min(values, default=0.0)
            ranges[name] = max(change, ranges.get(name, 0.0))
    shown = set(sorted(ranges, key=lambda name: -ranges[name])[:most])
    return [name for name in ranges if name in shown]


def _merged_rows(
    run: ReplayResult, names: Sequence[str], *, long: bool
) -> Iterator[tuple[Any, ...]]:
    """Yield rows over equal times: means of levels, sums of counts, the last fragmentation."""
    series = run.series
    size = max(1, -(-len(series.nodes) // MOST_ROWS))
    step_s = size * series.bucket_s
    unit, unit_s = next((one for one in _UNITS_S if step_s >= one[1]), _UNITS_S[-1])
    for start in range(0, len(series.nodes), size):
        part = slice(start, start + size)
        fragmentation = series.fragmentation[part][-1] if series.fragmentation else None
        yield (
            f"{start * series.bucket_s / unit_s:,.0f}{unit}",
            *(or_absent(ShareCell(_mean(series.used[name][part])) if name in series.used else None)
              for name in names),
            or_absent(None if fragmentation is None else ShareCell(fragmentation)),
            round(_mean(series.nodes[part])),
            *((round(_mean(series.podms[part])), sum(series.requested[part]),
               sum(series.placed[part])) if long else ()),
            sum(series.refused[part]),
            *((sum(series.undecided[part]),) if long else ()),
        )  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


SWEEP_COLUMNS = ("Scenario", "Policy", "Seed", "Placed", "Refused", "Podms Needed", "Fragmentation")
SWEEP_LONG_COLUMNS = (*SWEEP_COLUMNS, "Utilisation", "Requests", "Requested", "Undecided",
                      "Departed", "Nodes Per Podm", "Most On One Podm", "Peak Utilisation", "Cost",
                      "Duration Seconds")  # fmt: skip


def sweep_rows(runs: Sequence[SweepRun], *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each run; cells as in LONG_COLUMNS."""
    for run in runs:
        found = run.measures
        row = (
            run.scenario, or_absent(run.policy), run.seed, found["placed"], found["refused"],
            found["podms_needed"], _number(found["fragmentation"], is_share=True),
            _shares(run, "utilisation."), run.requests, found["requested"], found["undecided"],
            run.departed, _number(found["nodes_per_podm"]), found["most_on_one_podm"],
            _shares(run, "peak_utilisation."), _number(found["cost"]), Number(run.duration_s),
        )  # fmt: skip
        yield row if long else row[: len(SWEEP_COLUMNS)]


def progress_text(done: int, made: int, total: int, elapsed_s: float) -> str:
    """Return how many of all runs are done, and about how long the others take.

    ``made`` of them were made in ``elapsed_s``; of none there is no estimate.
    """
    from valence_sched.model.quantity import format_age

    text = f"{done:,} of {total:,} runs"
    if not made or done == total:
        return text
    return f"{text}, about {format_age((total - done) * elapsed_s / made)} left"


def _shares(run: SweepRun, prefix: str) -> Shares:
    return Shares({name.removeprefix(prefix): one for name, one in run.measures.items()
                   if name.startswith(prefix)})  # fmt: skip


def _number(number: float | None, *, is_share: bool = False) -> Any:
    return or_absent(None if number is None else Number(number, is_share=is_share))
