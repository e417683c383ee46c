# SPDX-License-Identifier: Apache-2.0
"""Measures of a replay: the numbers by which runs are compared, and compared with a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from valence_sched.errors import UnknownName
from valence_sched.model.replay import Replay, ReplayResult

Better = Literal["higher", "lower"]

#: Measures of which more, or less, is better on the same workload; of the others neither is.
_BETTER: dict[str, Better] = {
    "placed": "higher", "refused": "lower", "undecided": "lower", "fragmentation": "lower",
    "podms_needed": "lower", "cost": "lower",
}  # fmt: skip
_SHARES = ("utilisation", "peak_utilisation", "fragmentation")


class RunMeasure(Struct, frozen=True, kw_only=True):
    """One number of a run, None where the run has none: its name, and which is the better one.

    ``is_share`` says that the number is from 0 to 1.
    """

    name: str
    value: float | None
    better: Better | None
    is_share: bool


class MeasureChange(Struct, frozen=True, kw_only=True):
    """A measure of a run that differs from the baseline by more than is tolerated.

    ``before`` or ``after`` is None where there is no such number; of a run that only one of them
    has the measure is ``run``.
    """

    run: str
    measure: str
    before: float | None
    after: float | None


def measures(result: ReplayResult) -> list[RunMeasure]:
    """Return the measures of a run, in the order in which they are shown."""
    fragmentation = result.fragmentation.mean if result.fragmentation else None
    utilisation = result.utilisation.items()
    numbers: dict[str, float | None] = {
        "requested": result.requested,
        "placed": result.placed,
        "refused": result.refused,
        "undecided": result.undecided,
        **{f"utilisation.{name}": one.mean for name, one in utilisation},
        **{f"peak_utilisation.{name}": one.peak for name, one in utilisation},
        "fragmentation": fragmentation,
        "podms_needed": result.podms_needed,
        "nodes_per_podm": result.spread.mean,
        "most_on_one_podm": result.spread.most,
        "cost": result.cost,
    }
    return [run_measure(name, value) for name, value in numbers.items()]


def run_measure(name: str, value: float | None) -> RunMeasure:
    """Return a measure by its name, with what is known of all that have it."""
    group = name.partition(".")[0]
    return RunMeasure(name=name, value=value, better=_BETTER.get(group), is_share=group in _SHARES)


def best_runs(
    values: Mapping[str, float | None], better: Better | None, decimals: int = 2
) -> frozenset[str]:
    """Return the runs with the better value of a measure; none where all are equal.

    Values are equal that are equal with so many ``decimals``.
    """
    known = {run: round(value, decimals) for run, value in values.items() if value is not None}
    if better is None or len(set(known.values())) < 2:
        return frozenset()
    best = max(known.values()) if better == "higher" else min(known.values())
    return frozenset(run for run, value in known.items() if value == best)


def check_measure_names(names: Iterable[str], replay: Replay) -> None:
    """Refuse a name that is no measure of any run, nor the beginning of one: UnknownName."""
    known = {one.name for run in replay.runs for one in measures(run)}
    known |= {name.partition(".")[0] for name in known}
    for name in names:
        if name not in known:
            raise UnknownName("measure", name, known, "--tolerance")


def changes(
    baseline: Replay, replay: Replay, tolerance: float, tolerances: Mapping[str, float]
) -> list[MeasureChange]:
    """Return what differs from a baseline by more than its share of the earlier value.

    ``tolerances`` are by measure, or by the part of its name before the dot; of all others it is
    ``tolerance``. Worked example: 0.05 tolerates 95 to 105 where it was 100, and where it was 0
    nothing else.
    """
    before = {run.name: run for run in baseline.runs}
    after = {run.name: run for run in replay.runs}
    found = []
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            presence = (1.0 if name in before else None, 1.0 if name in after else None)
            found.append(_change(name, "run", *presence))
            continue
        old, new = ({one.name: one.value for one in measures(run[name])} for run in (before, after))
        for measure in dict.fromkeys((*old, *new)):
            group = measure.partition(".")[0]
            allowed = tolerances.get(measure, tolerances.get(group, tolerance))
            if _differs(old.get(measure), new.get(measure), allowed):
                found.append(_change(name, measure, old.get(measure), new.get(measure)))
    return found


def _differs(before: float | None, after: float | None, tolerance: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > tolerance * abs(before) + 1e-9


def _change(run: str, measure: str, before: float | None, after: float | None) -> MeasureChange:
    return MeasureChange(run=run, measure=measure, before=before, after=after)
