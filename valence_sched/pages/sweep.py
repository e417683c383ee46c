# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: scenarios and policies side by side, over all their seeds, and each run."""

from collections.abc import Mapping, Sequence

from valence_sched.model.page import Page, PageTable, Row, Section, TableCell
from valence_sched.model.quantity import format_count
from valence_sched.model.replay import (
    MeasureComparison,
    RunMeasure,
    SweepRun,
    compare_seeds,
    run_measure,
)
from valence_sched.model.scenario import EditEffect
from valence_sched.pages.replay import TITLES, share_percent, side_by_side
from valence_sched.pages.tables import Facts, amount_text, bar, in_sentence, table

MOST_ROWS = 2000  # of runs in the table
_SPREAD = (("placed", "Placed"), ("refused", "Refused"), ("podms_needed", "Podms needed"),
           ("fragmentation", "Fragmentation"), ("cost", "Cost"))  # fmt: skip

Variations = dict[str, list[SweepRun]]  # by the name of a scenario and a policy


def sweep_page(
    runs: Sequence[SweepRun], edits: Mapping[str, Sequence[EditEffect]], facts: Facts = ()
) -> Page:
    """Return the page of a sweep; ``edits`` are by scenario, ``facts`` say of which workload."""
    variations: Variations = {}
    for run in runs:
        variations.setdefault(run.variation, []).append(run)
    seeds, compared = len({run.seed for run in runs}), compare_seeds(runs)
    sections: list[Section] = []
    if len(variations) > 1:
        sections.append(side_by_side(compared, _comparison_text(compared, seeds)))
    if seeds > 1:
        sections.append(_spread(variations))
    sections.append(_runs(runs))
    if any(edits.values()):
        rows = ((name, "; ".join(one.text for one in effects) or "none")
                for name, effects in edits.items())  # fmt: skip
        sections.append(table("Scenarios", ("Scenario", "Edits"), rows))
    return Page(
        title="Sweep",
        lead=_lead(variations, compared),
        facts=(*facts, ("Runs", f"{len(runs):,}"), ("Variations", f"{len(variations):,}"),
               ("Seeds", f"{seeds:,}"), ("Digest", runs[0].question if runs else "none")),
        sections=tuple(sections),
    )  # fmt: skip


def _comparison_text(compared: Sequence[MeasureComparison], seeds: int) -> str:
    if seeds == 1:
        return "Shares are means over time. One seed does not tell which variation is better."
    text = (f"Means over {format_count(seeds, 'seed')}, ± the standard error; shares are means "
            "over time. The best is so at 95 %, compared seed by seed.")  # fmt: skip
    unclear = [in_sentence(TITLES.get(one.measure.name, one.measure.name))
               for one in compared if one.is_unclear]  # fmt: skip
    return f"{text} No clear difference: {', '.join(unclear)}." if unclear else text


def _lead(variations: Variations, compared: Sequence[MeasureComparison]) -> str:
    shares = [_placed_percent(found) for found in variations.values()]
    if not variations:
        return "No run"
    least, most = (f"{amount_text(pick(shares))} %" for pick in (min, max))
    if len(variations) == 1:
        return f"Placed {most} of all nodes"
    every = format_count(len(variations), "variation")
    if least == most:
        return f"Each of {every} places {most} of all nodes"
    placed = next(one for one in compared if one.measure.name == "placed")
    if placed.best is not None:
        return f"{placed.best} places the most: {most} of all nodes, {least} at the least"
    return f"No clear difference: {every} place {least} to {most} of all nodes"


def _placed_percent(runs: Sequence[SweepRun]) -> float:
    placed, requested = (sum(run.measures.get(name) or 0 for run in runs)
                         for name in ("placed", "requested"))  # fmt: skip
    return share_percent(placed / requested) if requested else 0.0


def _spread(variations: Variations) -> PageTable:
    columns = [(name, title) for name, title in _SPREAD
               if any(run.measures.get(name) is not None for runs in variations.values()
                      for run in runs)]  # fmt: skip
    rows: list[Row] = [
        (variation, *(_range_text(name, runs) for name, _ in columns))
        for variation, runs in variations.items()
    ]
    titles = [title for _, title in columns]
    return table("Least and most over seeds", ("Variation", *titles), rows[:MOST_ROWS], titles)


def _range_text(name: str, runs: Sequence[SweepRun]) -> str:
    known = [value for run in runs if (value := run.measures.get(name)) is not None]
    if not known:
        return "unknown"
    least, most = (_shown(run_measure(name, value)) for value in (min(known), max(known)))
    return least if least == most else f"{least} to {most}"


def _runs(runs: Sequence[SweepRun]) -> PageTable:
    titles = tuple(title for _, title in _SPREAD)
    rows: list[Row] = []
    for run in runs[:MOST_ROWS]:
        requested = run.measures.get("requested") or 0
        cells: list[str | TableCell] = [
            _shown(run_measure(name, run.measures.get(name))) for name, _ in _SPREAD
        ]
        cells[0] = bar(run.measures.get("placed") or 0, requested)
        rows.append((run.scenario, run.policy or "of each request", f"{run.seed}", *cells))
    text = "A bar is the part of the requested nodes that is placed."
    if len(runs) > MOST_ROWS:
        text += f" The first {MOST_ROWS:,} of {format_count(len(runs), 'run')}: --output has all."
    columns = ("Scenario", "Policy", "Seed", *titles)
    return table("Runs", columns, rows, ("Seed", *titles), text)


def _shown(one: RunMeasure) -> str:
    if one.value is None:
        return "unknown"
    return f"{share_percent(one.value)} %" if one.is_share else amount_text(one.value)
