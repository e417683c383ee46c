# SPDX-License-Identifier: Apache-2.0
"""A sweep as rows, and how far it is in one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import or_absent
from valence_sched_cli.output.replay import Number, Shares

if TYPE_CHECKING:
    from valence_sched.model.replay import SweepRun

COLUMNS = ("Scenario", "Policy", "Seed", "Placed", "Refused", "Podms Needed", "Fragmentation")
LONG_COLUMNS = (*COLUMNS, "Utilisation", "Requests", "Requested", "Undecided", "Departed",
                "Nodes Per Podm", "Most On One Podm", "Peak Utilisation", "Cost",
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
        yield row if long else row[: len(COLUMNS)]


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
