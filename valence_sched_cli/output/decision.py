# SPDX-License-Identifier: Apache-2.0
"""A decision as rows and lines: nodes, alternates, and each other pod manager with its reason."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import (
    Absent,
    GrantsCell,
    PairLines,
    ReasonsCell,
    ReasonTextCell,
    UriTails,
    or_absent,
)
from valence_sched_cli.output.columns import MACHINE

if TYPE_CHECKING:
    from valence_sched.model.decision import Candidate, FunnelStep, PodmVerdict, Report
    from valence_sched.model.decision_result import DecisionResult, PodmDetail
    from valence_sched.model.request import Request

COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Outcome", "Blocks", "Amounts", "Reason")
EXPLAIN_COLUMNS = (*COLUMNS, "Scores", "Waste", "Reasons")
EXIT_CODES = {"placed": 0, "nothing_fits": 3, "placed_in_part": 4, "undecided": 5}


def decision_rows(result: DecisionResult, *, explain: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row per node and alternate, then one per other pod manager; cells as in COLUMNS.

    Of a large inventory only with ``explain`` the other pod managers are listed.
    """
    for placement in result.report.placements:
        yield _candidate_row(placement.node, 1, "chosen", placement.chosen, 0.0)
        for rank, other in enumerate(placement.alternates, 2):
            behind = placement.chosen.score - other.score
            yield _candidate_row(placement.node, rank, "alternate", other, behind)
    if result.details is not None and (explain or not _is_large(result.report)):
        for verdict in result.report.podms:
            if verdict.podm in result.details.podms:
                yield _verdict_row(verdict, result.details.podms[verdict.podm])


def _is_large(report: Report) -> bool:
    from valence_sched.model.decision_result import MAX_LISTED_PODMS

    return report.inventory.podms > MAX_LISTED_PODMS


def _candidate_row(
    node: int | None, rank: int | None, outcome: str, candidate: Candidate, behind: float
) -> tuple[Any, ...]:
    reason = None if rank == 1 else _score_gap(behind)
    return (
        or_absent(node), or_absent(rank), candidate.podm, candidate.pool, candidate.score, outcome,
        UriTails([block.uri for block in candidate.blocks]), GrantsCell(candidate.grants),
        ReasonTextCell(reason), PairLines(candidate.scores), candidate.waste,
        ReasonsCell([], reason),
    )  # fmt: skip


def _score_gap(behind: float) -> str:
    """Return how far a score lies behind the chosen one's; where lots decide it may be ahead."""
    return f"{behind:.6g} behind" if behind >= 0 else f"{-behind:.6g} ahead, but lots decided"


def _verdict_row(verdict: PodmVerdict, detail: PodmDetail) -> tuple[Any, ...]:
    if detail.candidate is not None:
        return _candidate_row(None, None, "fits", detail.candidate, verdict.behind or 0.0)
    reason = verdict.reason.text if verdict.reason else None
    if reason and verdict.fitting:
        reason = f"after {nodes_text(verdict.fitting)}: {reason}"
    return (
        Absent(), Absent(), verdict.podm, verdict.pool, Absent(), verdict.outcome,
        UriTails([]), GrantsCell([]), ReasonTextCell(reason),
        PairLines({}), Absent(), ReasonsCell(detail.reasons),
    )  # fmt: skip


def without_redundant(
    columns: Sequence[str], rows: list[tuple[Any, ...]], parsed_args: argparse.Namespace
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return columns and rows without the redundant ones; programs get them all."""
    named = {word.casefold() for word in (*parsed_args.columns, *parsed_args.sort_columns)}

    def is_redundant(name: str) -> bool:
        if parsed_args.formatter in MACHINE or name.casefold() in named:
            return False
        if name == "Amounts":
            return not any(str(row[columns.index(name)]) for row in rows)
        return name == "Reason" and "Reasons" in columns

    visible = [name for name in columns if not is_redundant(name)]
    picks = [columns.index(name) for name in visible]
    return visible, [tuple(row[pick] for pick in picks) for row in rows]


def summary_lines(result: DecisionResult, *, explain: bool) -> Iterator[str]:
    """Yield the lines about a decision beside its rows, the outcome last."""
    from valence_sched.model.decision_result import MAX_LISTED_PODMS

    report = result.report
    yield from warning_lines(report.warnings)
    if not explain and _is_large(report):
        every = report.inventory.podms
        yield f"not all of {every:,} pod managers are listed: see --explain"
    reasons = {verdict.podm: verdict.reason for verdict in report.podms}
    chosen = dict.fromkeys(placement.chosen.podm for placement in report.placements)
    for podm in list(chosen)[:MAX_LISTED_PODMS]:
        if reason := reasons.get(podm):
            yield f"no more on {podm}: {reason.text}"
    yield from outcome_lines(result)


def warning_lines(warnings: Iterable[str]) -> Iterator[str]:
    """Yield each warning as a line."""
    for warning in warnings:
        yield f"warning: {warning}"


def outcome_lines(result: DecisionResult, fewer: str = "--min-count {}") -> Iterator[str]:
    """Yield the lines about the outcome, the outcome itself last.

    ``fewer`` is how the caller says that fewer nodes are enough.
    """
    report, request = result.report, result.report.request
    choices = len(request.alternatives)
    for failed in result.details.failed_choices if result.details else ():
        funnel = funnel_line(report, failed.funnel)
        yield f"choice {failed.choice} of {choices} fits nowhere: {funnel}"
    if report.placements and choices > 1:
        counts = sorted(Counter(placement.choice for placement in report.placements).items())
        yield ", ".join(f"{nodes_text(count)} by choice {choice}" for choice, count in counts)
    if report.fitting and not report.placements:
        least = f"at least {request.required_count}"
        least = "all or nothing" if request.min_count is None else least
        would = f"{nodes_text(report.fitting)} of {request.count} would fit, but {least} was"
        yield f"{would} asked for: take what fits with {fewer.format(report.fitting)}"
    chosen_by = f"policy {request.policy}, seed {request.seed}"
    yield f"placed {report.placed} of {request.count} ({chosen_by})"


def nodes_text(count: int) -> str:
    """Return a number of nodes in words."""
    return f"{count:,} node" if count == 1 else f"{count:,} nodes"


def funnel_line(report: Report, funnel: Sequence[FunnelStep]) -> str:
    """Return a funnel in one line: how many pools each filter left."""
    left = [f"{report.inventory.pools:,} in all"]
    cuts = (step for step in funnel if step.went_on < step.came_in and not step.undecided)
    left += [f"{step.went_on:,} after {step.filter}" for step in cuts]
    idle = ", ".join(step.filter for step in funnel if step.went_on == step.came_in)
    undecided = sum(step.undecided for step in funnel)
    line = f"pools: {', '.join(left)}" + (f"; kept all: {idle}" if idle else "")
    return line + (f"; undecided: {undecided:,}" if undecided else "")


def request_names(requests: Sequence[Request]) -> list[str]:
    """Return the name of each request: its number, and its id or its flavor."""
    return [
        f"{number}: {request.id or request.flavor or 'request'}"
        for number, request in enumerate(requests, 1)
    ]
