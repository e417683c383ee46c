# SPDX-License-Identifier: Apache-2.0
"""Replays as rows and lines: runs, comparisons, time series, and sweeps."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.model import replay as model
from valence_sched.model.quantity import format_age, format_count, resource_title
from valence_sched.model.scenario import EditEffect
from valence_sched.words.phrases import ReasonPhrases
from valence_sched_cli.output.cells import Amount, PairLines, Shown, fields, painted, warning_lines

if TYPE_CHECKING:
    from valence_sched.app import Tuning

COLUMNS = ("Site", "Policy", "Placed", "Refused", "Podms Needed", "Fragmentation")
LONG_COLUMNS = (
    *(*COLUMNS, "Utilisation", "Requested", "Undecided", "Departed", "Nodes Per Podm"),
    *("Most On One Podm", "Peak Utilisation", "Imbalance", "Cost", "Duration Seconds"),
)
SWEEP_COLUMNS = ("Scenario", "Policy", "Seed", "Placed", "Refused", "Podms Needed", "Fragmentation")
SWEEP_LONG_COLUMNS = (
    *(*SWEEP_COLUMNS, "Utilisation", "Requests", "Requested", "Undecided", "Departed"),
    *(
        "Nodes Per Podm",
        "Most On One Podm",
        "Peak Utilisation",
        "Imbalance",
        "Cost",
        "Duration Seconds",
    ),
)
MOST_GROUPS = 4  # of reasons in the lines about a first refusal
_REFUSALS = {  # by step
    "capacity": "for lack of capacity",
    "devices": "for lack of devices",
    "fit": "without fitting blocks",
}
MOST_CHANGES = 20  # that are printed; the rest is only counted


class Number(Amount[float]):
    """A number: few digits or a percentage for people, all digits for machines."""

    def __init__(self, value: float, *, is_share: bool = False) -> None:
        super().__init__(value, functools.partial(number_text, is_share=is_share))


class Estimate(Number):
    """The mean of a measure over seeds, with its standard error."""

    def __init__(self, mean: float, error: float | None, *, is_share: bool) -> None:
        super().__init__(mean, is_share=is_share)
        self._error = error

    def human_readable(self) -> str:
        numbers = [number for number in (self._value, self._error) if number is not None]
        return " ± ".join(map(self._people, numbers))

    def machine_readable(self) -> Any:
        return {"mean": self._value, "standard_error": self._error}


class ShareCell(Number):
    """A share: a percentage, green for 0 and red for 1 on a terminal with colours."""

    def __init__(self, share: float) -> None:
        super().__init__(share, is_share=True)

    def coloured(self, text: str) -> str:
        return painted(text, 1.0 - self._value)


class Shares(PairLines):
    """Shares by name: in percent for people, from 0 to 1 for machines."""

    def human_readable(self) -> str:
        shares = self._value.items()
        return "\n".join(f"{name}={number_text(one, is_share=True)}" for name, one in shares)


def number_text(number: float, *, is_share: bool = False) -> str:
    """Return a number for people: a share in percent, others with 0 or 2 decimals or 2 digits."""
    if is_share:
        return f"{100 * number:.1f}%"
    if 0 < abs(number) < 0.1:
        return f"{number:.2g}"
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.2f}"


def number_cell(number: float | None, *, is_share: bool = False) -> Number | None:
    """Return the cell of a number that may be unknown."""
    return None if number is None else Number(number, is_share=is_share)


def run_rows(replay: model.Replay) -> Iterator[dict[str, Any]]:
    """Yield a row for each run; cells by LONG_COLUMNS."""
    return sweep_rows([model.sweep_run_of(run, "", 0) for run in replay.runs])


def sweep_rows(runs: Sequence[model.SweepRun]) -> Iterator[dict[str, Any]]:
    """Yield a row for each run; cells by SWEEP_LONG_COLUMNS."""
    for run in runs:
        found = run.measures
        groups: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, value in found.items():
            group, dot, resource = name.partition(".")
            if dot:
                groups[group][resource] = value
        yield {
            "Site": run.scenario,
            **fields(run, "Scenario", "Policy", "Seed", "Requests", "Departed"),
            "Placed": found["placed"],
            "Refused": found["refused"],
            "Podms Needed": found["podms_needed"],
            "Fragmentation": number_cell(found["fragmentation"], is_share=True),
            "Utilisation": Shares(groups["utilisation"]),
            "Requested": found["requested"],
            "Undecided": found["undecided"],
            "Nodes Per Podm": number_cell(found["nodes_per_podm"]),
            "Most On One Podm": found["most_on_one_podm"],
            "Peak Utilisation": Shares(groups["peak_utilisation"]),
            "Imbalance": Shares(groups["imbalance"]),
            "Cost": number_cell(found["cost"]),
            "Duration Seconds": Number(run.duration_s),
        }


def comparison(
    replay: model.Replay, *, machine: bool, long: bool = False
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and a row for each measure, a column for each run; ``long`` adds peaks."""
    by_run = {run.name: {one.name: one for one in model.measures(run)} for run in replay.runs}
    rows = []
    for name in dict.fromkeys(name for found in by_run.values() for name in found):
        every = [found.get(name) for found in by_run.values()]
        cells = [one and number_cell(one.value, is_share=one.is_share) for one in every]
        hidden = name.startswith("peak_") and not (machine or long)
        if not hidden and any(cell is not None for cell in cells):
            rows.append((name, *cells))
    return ("Measure", *by_run), rows


def sweep_comparison(
    runs: Sequence[model.SweepRun], *, long: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and a row for each measure: means over seeds, and the best variation."""
    rows = []
    for one in model.compare_seeds(runs):
        if one.measure.name.startswith("peak_") and not long:
            continue
        cells: list[Estimate | None] = []
        for mean, error in zip(one.means.values(), one.errors.values(), strict=True):
            is_share = one.measure.is_share
            cells.append(None if mean is None else Estimate(mean, error, is_share=is_share))
        best = "no clear difference" if one.is_unclear else one.best
        rows.append((one.measure.name, *cells, best))
    return ("Measure", *dict.fromkeys(run.variation for run in runs), "Best"), rows


def outcome_lines(replay: model.Replay) -> Iterator[str]:
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
            text = ", ".join(f"{n:,} {refusal_phrase(step)}" for step, n in steps.most_common())
            yield f"{name}refused {format_count(run.refused, 'node')}: {text}"
        for first in run.first_refusals if alone else ():
            yield from _first_lines(first)
        undecided = f", {run.undecided:,} undecided" if run.undecided else ""
        nodes, of = format_count(run.requested, "node"), format_count(run.requests, "request")
        yield f"{name}placed {run.placed:,} of {nodes} of {of}{undecided}"


def refusal_phrase(step: str) -> str:
    """Return the reason for refusals at a step: the filter that rejected the last pools, or fit."""
    return _REFUSALS.get(step, f"by filter {step}")


def lost_lines(effects: Mapping[str, Sequence[EditEffect]]) -> Iterator[str]:
    """Yield a line for each site that lost nodes to its edits, by its name."""
    for name, some in effects.items():
        if lost := sum(one.nodes for one in some):
            yield f"{name}: {format_count(lost, 'node is', 'nodes are')} lost, and not re-placed"


def change_lines(changes: Sequence[model.MeasureChange], file: str) -> Iterator[str]:
    """Yield a line for each measure that differs from the baseline, then their number."""
    for change in changes[:MOST_CHANGES]:
        if change.measure == "run":
            yield f"{change.run}: only in the {'baseline' if change.after is None else 'result'}"
            continue
        share = change.measure.startswith(("utilisation", "peak_utilisation", "fragmentation"))
        cells = (number_cell(value, is_share=share) for value in (change.before, change.after))
        was, now = ("none" if cell is None else str(cell) for cell in cells)
        yield f"{change.run}: {change.measure} was {was}, is {now}"
    count = len(changes)
    differing = format_count(count, "measure differs", "measures differ") if count else ""
    yield f"{differing or 'no measure differs'} from {file}"


def _first_lines(first: model.FirstRefusal) -> Iterator[str]:
    flavor = first.flavor or "a request without flavor"
    yield f"first refusal of {flavor}, after {format_age(first.time_s)}:"
    groups = [(one, one.reason) for one in first.reasons if one.reason]
    texts = [ReasonPhrases().of_reason(reason) for _, reason in groups[:MOST_GROUPS]]
    width = max(map(len, texts), default=0)
    for (one, reason), text in zip(groups, texts, strict=False):
        has_best = one.podms > 1 and reason.is_amount and reason.have
        best = f"best: {one.nearest}" if has_best else ""
        yield f"  {one.podms:>5,}  {text:{width}}  {best}".rstrip()
    if others := sum(one.podms for one, _ in groups[MOST_GROUPS:]):
        yield f"  {others:>5,}  for other reasons"


#: The columns for programs; people see one column for each resource.
SERIES_COLUMNS = (
    *("Site", "Policy", "After Seconds", "Utilisation", "Fragmentation", "Nodes", "Podms"),
    *("Requested", "Placed", "Refused", "Undecided"),
)
_SUMS = ("Requested", "Placed", "Refused", "Undecided")
MOST_ROWS = 24  # of a run, for people: one screen
MOST_RESOURCES = 3  # columns without --long: the resources that change most
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


def series_table(
    replay: model.Replay, *, machine: bool, long: bool
) -> tuple[Sequence[str], list[dict[str, Any]]]:
    """Return titles and rows: each bucket for programs, up to ``MOST_ROWS`` per run for people."""
    if machine:
        return SERIES_COLUMNS, [row for run in replay.runs for row in _bucket_rows(run)]
    names = _resources(replay.runs, None if long else MOST_RESOURCES)
    titles = ["Run", "After", *map(_used_title, names), "Fragmentation", "Nodes", "Podms"]
    titles += _SUMS
    hidden = set() if long else {"Podms", "Requested", "Placed", "Undecided"}
    hidden |= {"Run"} if len(replay.runs) == 1 else set()
    rows = [row for run in replay.runs for row in _merged_rows(run, names)]
    return [title for title in titles if title not in hidden], rows


def _used_title(name: str) -> str:
    title = resource_title(name)
    return title[:1].upper() + title[1:]


def _bucket_rows(run: model.ReplayResult) -> Iterator[dict[str, Any]]:
    series = run.series
    for number, nodes in enumerate(series.nodes):
        shares = {name: values[number] for name, values in series.used.items()}
        yield {
            **fields(run, "Site", "Policy"),
            "After Seconds": number * series.bucket_s,
            "Utilisation": Shares(shares),
            "Fragmentation": series.fragmentation[number] if series.fragmentation else None,
            "Nodes": nodes,
            **{title: values[number] for title, values in _counts(series, "Podms", *_SUMS).items()},
        }


def _resources(runs: Sequence[model.ReplayResult], most: int | None) -> list[str]:
    """Return the resources in their order; if above ``most``, the resources that change most."""
    ranges: dict[str, float] = {}
    for run in runs:
        for name, values in run.series.used.items():
            change = max(values, default=0.0) - min(values, default=0.0)
            ranges[name] = max(change, ranges.get(name, 0.0))
    shown = set(sorted(ranges, key=lambda name: -ranges[name])[:most])
    return [name for name in ranges if name in shown]


def _merged_rows(run: model.ReplayResult, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield rows over equal intervals: means of levels, sums of counts, the last fragmentation."""
    series = run.series
    size = max(1, -(-len(series.nodes) // MOST_ROWS))
    step_s = size * series.bucket_s
    unit, unit_s = next((one for one in _UNITS_S if step_s >= one[1]), _UNITS_S[-1])
    for start in range(0, len(series.nodes), size):
        part = slice(start, start + size)
        row: dict[str, Any] = {
            "Run": run.name,
            "After": f"{start * series.bucket_s / unit_s:,.0f}{unit}",
            "Fragmentation": None,
            "Nodes": round(_mean(series.nodes[part])),
            "Podms": round(_mean(series.podms[part])),
            **{title: sum(values[part]) for title, values in _counts(series, *_SUMS).items()},
        }
        if series.fragmentation:
            row["Fragmentation"] = ShareCell(series.fragmentation[part][-1])
        for name in names:
            used = series.used.get(name)
            row[_used_title(name)] = ShareCell(_mean(used[part])) if used else None
        yield row


def _counts(series: Any, *titles: str) -> dict[str, Sequence[int]]:
    return {title: getattr(series, title.lower()) for title in titles}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def progress_text(done: int, made: int, total: int, elapsed_s: float) -> str:
    """Return the number of finished runs, and the estimated time of the others."""
    text = f"{done:,} of {total:,} runs"
    if not made or done == total:
        return text
    return f"{text}, about {format_age((total - done) * elapsed_s / made)} left"


def tuning_rows(tuning: Tuning) -> list[tuple[Any, ...]]:
    """Return a row for each candidate, best first: weights, share served, and gain."""
    ranked = sorted(tuning.candidates, key=lambda one: -one.mean)
    return [
        (Shown(one.weights, _weights_text), Number(one.mean, is_share=True),
         Estimate(*tuning.gain_of(one), is_share=True))
        for one in ranked
    ]  # fmt: skip


def _weights_text(weights: Mapping[str, float]) -> str:
    return " ".join(f"{name}={weight:g}" for name, weight in weights.items())


def tuning_lines(tuning: Tuning, goal: str) -> Iterator[str]:
    """Yield the result of a tuning, and the gain with its standard error."""
    base, samples = tuning.candidates[0], len(tuning.best.shares)
    what = "nodes" if goal == "nodes" else "the scarcest resource"
    name = base.policy.name
    if tuning.is_clear:
        yield f"better than policy {name}: {_weights_text(tuning.best.weights)}"
    else:
        yield f"no weights are clearly better than those of policy {name}"
    gain = f"{100 * tuning.gain:+.1f} ± {100 * tuning.error:.1f} points of {what}"
    yield f"gain: {gain}, cross-validated over {samples:,} samples"
