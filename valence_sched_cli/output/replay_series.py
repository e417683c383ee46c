# SPDX-License-Identifier: Apache-2.0
"""What happened over time in a replay, as rows: shares are a heat table on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import or_absent
from valence_sched_cli.output.heat import painted
from valence_sched_cli.output.replay import Number, Shares

if TYPE_CHECKING:
    from valence_sched.model.replay import Replay, ReplayResult

#: The columns for programs; people have one for each resource.
COLUMNS = ("Site", "Policy", "After Seconds", "Utilisation", "Fragmentation", "Nodes", "Podms",
           "Requested", "Placed", "Refused", "Undecided")  # fmt: skip
MOST_ROWS = 24  # of a run, for people: more than one screen is a curve that nobody sees
MOST_RESOURCES = 3  # that people see without --long: those that change the most
_UNITS_S = (("d", 86400.0), ("h", 3600.0), ("m", 60.0), ("s", 1.0))


class ShareCell(Number):
    """A share: a percentage, green for 0 and red for 1 on a terminal with colours."""

    def __init__(self, share: float) -> None:
        super().__init__(share, is_share=True)

    def coloured(self, text: str) -> str:
        """Return the text on its colour."""
        return painted(text, 1.0 - self._value)


def series_table(
    replay: Replay, *, machine: bool, long: bool
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return titles and rows: for programs each bucket, for people at most ``MOST_ROWS`` a run."""
    if machine:
        return COLUMNS, [row for run in replay.runs for row in _bucket_rows(run)]
    from valence_sched.model.quantity import resource_title

    names = _resources(replay.runs, None if long else MOST_RESOURCES)
    alone = len(replay.runs) == 1
    titles = (
        *(() if alone else ("Run",)), "After",
        *(_capital(resource_title(name)) for name in names), "Fragmentation", "Nodes",
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
            *(_share(series.used.get(name), part) for name in names),
            or_absent(None if fragmentation is None else ShareCell(fragmentation)),
            round(_mean(series.nodes[part])),
            *((round(_mean(series.podms[part])), sum(series.requested[part]),
               sum(series.placed[part])) if long else ()),
            sum(series.refused[part]),
            *((sum(series.undecided[part]),) if long else ()),
        )  # fmt: skip


def _share(values: Sequence[float] | None, part: slice) -> Any:
    return or_absent(None if values is None else ShareCell(_mean(values[part])))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _capital(title: str) -> str:
    return title[:1].upper() + title[1:]
