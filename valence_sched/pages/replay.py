# SPDX-License-Identifier: Apache-2.0
"""The page of a replay: how its runs compare, what was refused and why, and what was replayed."""

from collections.abc import Iterator, Mapping, Sequence

from valence_sched.model.age import format_age
from valence_sched.model.page import (
    FunnelChart,
    Lines,
    Page,
    PageTable,
    Row,
    Section,
    TableCell,
    Tone,
)
from valence_sched.model.quantity import format_count
from valence_sched.model.reason_phrases import ReasonPhrases, is_amount
from valence_sched.model.replay import FirstRefusal, Replay, ReplayResult
from valence_sched.model.replay_measures import measures
from valence_sched.model.scenario import EditEffect
from valence_sched.pages.measures import side_by_side
from valence_sched.pages.replay_series import share_percent, time_sections

MOST_ROWS = 500  # of pod managers, and of reasons
MOST_COLUMNS = 8  # of runs, where each has a column
MOST_NAMED = 3  # runs that the first line names
NO_FLAVOR = "without flavor"

Facts = tuple[tuple[str, str], ...]
Edits = Mapping[str, Sequence[EditEffect]]  # by the site of a run


def replay_page(replay: Replay, edits: Edits, facts: Facts = ()) -> Page:
    """Return the page of a replay; ``facts`` say of which workload, ``edits`` made its sites."""
    runs = replay.runs
    alone = len(runs) == 1
    sections: list[Section] = []
    if not alone:
        found = [{one.name: one for one in measures(run)} for run in runs]
        names = tuple(run.name for run in runs)
        sections.append(side_by_side(names, found, "Shares are means over time."))
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
    most = max(run.placed for run in runs)
    best = [run for run in runs if run.placed == most]
    nodes = f"{most:,} of {format_count(best[0].requested, 'node')}"
    if len(runs) == 1:
        (run,) = runs
        rest = [f"{number:,} {word}" for number, word in
                ((run.refused, "refused"), (run.undecided, "undecided")) if number]  # fmt: skip
        tone: Tone = "good" if not rest else "part" if most else "bad"
        return f"Placed {nodes}" + "".join(f", {text}" for text in rest), tone
    every = format_count(len(runs), "run")
    if len(best) == len(runs):
        return f"Each of {every} places {nodes}", ""
    if len(best) > MOST_NAMED:
        return f"{len(best):,} of {every} place the most: {nodes}", ""
    names = [run.name for run in best]
    which = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{which} place{'s' if len(best) == 1 else ''} the most: {nodes}", ""


def _shared_facts(runs: Sequence[ReplayResult]) -> Iterator[tuple[str, str]]:
    """Yield the facts that all runs share: the workload is the same one."""
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
    """Yield where refused nodes were refused, and why the first of each flavor was."""
    rows = [(run, one) for run in runs for one in run.refusals]
    if not rows:
        return
    most = max(one.nodes for _, one in rows)
    steps: list[Row] = [
        (*_name(run, alone), one.flavor or NO_FLAVOR, one.step, _bar(one.nodes, most))
        for run, one in rows[:MOST_ROWS]
    ]
    yield PageTable(title="Refused nodes", columns=(*_run_title(alone), "Flavor", "Step", "Nodes"),
                    rows=tuple(steps), numbers=frozenset(("Nodes",)),
                    text="A step is the filter that no pool passed; fit is where no pool has the "
                    "blocks that make the node.")  # fmt: skip
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
                near = one.nearest if is_amount(one.reason) and one.reason.have else ""
                rows.append((*_name(run, alone), _flavor(first), format_age(first.time_s),
                             words.of_reason(one.reason), _bar(one.podms, most), near))  # fmt: skip
    return PageTable(
        title="Why the first nodes were refused",
        columns=(*_run_title(alone), "Flavor", "After", "Why", "Pod managers", "Nearest"),
        rows=tuple(rows[:MOST_ROWS]),
        numbers=frozenset(("After", "Pod managers")),
        text="Of each flavor the first request that was refused, and what the pod managers lacked "
        "then. The nearest had most of it.",
    )


def _by_flavor(runs: Sequence[ReplayResult], alone: bool) -> PageTable:
    numbers = ("Requested", "Placed", "Refused", "Undecided")
    rows: list[Row] = [
        (*_name(run, alone), one.flavor or NO_FLAVOR, f"{one.requested:,}",
         TableCell(text=f"{one.placed:,}", share=one.placed / max(one.requested, 1)),
         f"{one.refused:,}", f"{one.undecided:,}")
        for run in runs for one in run.by_flavor
    ]  # fmt: skip
    return PageTable(title="Flavors", columns=(*_run_title(alone), "Flavor", *numbers),
                     rows=tuple(rows), numbers=frozenset(numbers))  # fmt: skip


def _by_podm(runs: Sequence[ReplayResult]) -> PageTable:
    """Return how many nodes each pod manager took: a column for each run."""
    shown = runs[:MOST_COLUMNS]
    names = dict.fromkeys(name for run in shown for name in run.spread.placed)
    sums = {name: sum(run.spread.placed.get(name, 0) for run in shown) for name in names}
    most = max((count for run in shown for count in run.spread.placed.values()), default=0)
    ordered = sorted(names, key=lambda name: (-sums[name], name))
    texts = []
    if len(runs) > len(shown):
        texts.append(f"The first {len(shown)} of {format_count(len(runs), 'run')}.")
    if len(ordered) > MOST_ROWS:
        texts.append(f"The first {MOST_ROWS} of {len(ordered):,} pod managers.")
    titles = tuple(run.name if len(runs) > 1 else "Nodes" for run in shown)
    rows: list[Row] = [
        (name, *(_bar(run.spread.placed.get(name, 0), most) for run in shown))
        for name in ordered[:MOST_ROWS]
    ]
    return PageTable(title="Nodes placed by pod manager", columns=("Podm", *titles),
                     rows=tuple(rows), numbers=frozenset(titles), text=" ".join(texts))  # fmt: skip


def _made_of(runs: Sequence[ReplayResult], edits: Edits, alone: bool) -> Iterator[Section]:
    """Yield what was replayed on: the edits of each site, and its inventory."""
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
    yield PageTable(title="Runs", columns=columns, rows=tuple(rows),
                    numbers=frozenset(("Podms", "Blocks")))  # fmt: skip


def _name(run: ReplayResult, alone: bool) -> tuple[str, ...]:
    return () if alone else (run.name,)


def _run_title(alone: bool) -> tuple[str, ...]:
    return () if alone else ("Run",)


def _flavor(first: FirstRefusal) -> str:
    return first.flavor or NO_FLAVOR


def _bar(number: int, most: int) -> TableCell:
    return TableCell(text=f"{number:,}", share=number / most if most else None)
