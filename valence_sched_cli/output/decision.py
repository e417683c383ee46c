# SPDX-License-Identifier: Apache-2.0
"""A decision as rows: the nodes, their alternates, and every other pod manager with its reason."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
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
from valence_sched_cli.output.prepare import MACHINE

if TYPE_CHECKING:
    from valence_sched.core.alternatives import Attempt
    from valence_sched.core.decision import Decision
    from valence_sched.model.decision import Candidate, PodmVerdict

COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Outcome", "Blocks", "Amounts", "Reason")
EXPLAIN_COLUMNS = (*COLUMNS, "Scores", "Waste", "Reasons")

MAX_LISTED_PODMS = 50  # how many pod managers a decision lists unless --explain asks for all


def decision_rows(decision: Decision, *, explain: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row per node and alternate, then one per other pod manager; cells as in COLUMNS."""
    shown = set()
    for placement in decision.placements:
        yield _candidate_row(placement.node, 1, "chosen", placement.chosen, 0.0)
        shown.add(placement.chosen.podm)
        for rank, other in enumerate(placement.alternates, 2):
            behind = placement.chosen.score - other.score
            yield _candidate_row(placement.node, rank, "alternate", other, behind)
            shown.add(other.podm)
    if not explain and len(decision.view.podms) > MAX_LISTED_PODMS:
        return
    if not decision.explainable:
        return
    from valence_sched.core.explain.verdicts import Verdicts

    for verdict in Verdicts(decision).podm_verdicts():
        if verdict.podm not in shown:
            yield _verdict_row(decision, verdict, explain=explain)


def _candidate_row(
    node: int | None, rank: int | None, outcome: str, found: Candidate, behind: float
) -> tuple[Any, ...]:
    why = None if rank == 1 else _score_gap(behind)
    return (
        or_absent(node),
        or_absent(rank),
        found.podm,
        found.pool,
        found.score,
        outcome,
        UriTails([block.uri for block in found.blocks]),
        GrantsCell(found.grants),
        ReasonTextCell(why),
        PairLines(found.scores),
        found.waste,
        ReasonsCell([], why),
    )


def _score_gap(behind: float) -> str:
    """Return how far a score lies behind the chosen one's; where lots decide it may be ahead."""
    return f"{behind:.6g} behind" if behind >= 0 else f"{-behind:.6g} ahead, but lots decided"


def _verdict_row(decision: Decision, verdict: PodmVerdict, *, explain: bool) -> tuple[Any, ...]:
    from valence_sched.core.explain.verdicts import Verdicts

    row = decision.row_of(verdict.podm, verdict.pool)
    if verdict.outcome != "rejected":
        candidate = decision.candidate(row)
        if candidate is not None:
            return _candidate_row(None, None, "fits", candidate, verdict.behind or 0.0)
    reason = verdict.reason.text if verdict.reason else None
    if reason and verdict.fitting:
        reason = f"after {nodes_text(verdict.fitting)}: {reason}"
    return (
        Absent(), Absent(), verdict.podm, verdict.pool, Absent(), verdict.outcome,
        UriTails([]), GrantsCell([]), ReasonTextCell(reason),
        PairLines({}), Absent(), ReasonsCell(Verdicts(decision).reasons(row) if explain else []),
    )  # fmt: skip


def is_redundant(
    name: str,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    parsed_args: argparse.Namespace,
) -> bool:
    """Return whether a person can do without a column; programs always get them all."""
    asked = {word.casefold() for word in (*parsed_args.columns, *parsed_args.sort_columns)}
    if parsed_args.formatter in MACHINE or name.casefold() in asked:
        return False
    if name == "Amounts":
        return not any(str(row[columns.index(name)]) for row in rows)
    return name == "Reason" and "Reasons" in columns


def outcome_lines(decision: Decision, fewer: str = "--min-count {}") -> Iterator[str]:
    """Yield a line for each thing to know about the outcome, the outcome itself last.

    ``fewer`` is how one says there that fewer nodes will do.
    """
    request = decision.request
    for number, part in decision.failed_attempts:
        choices = len(request.alternatives)
        yield f"choice {number} of {choices} fits nowhere: {funnel_line(decision, part)}"
    if decision.placed_nodes and len(request.alternatives) > 1:
        made = Counter(part for part, _ in decision.placed_nodes)
        by = (f"{nodes_text(count)} by choice {part + 1}" for part, count in sorted(made.items()))
        yield ", ".join(by)
    if decision.fit_count and not decision.placed_nodes:
        least = (
            "all or nothing" if request.min_count is None else f"at least {request.required_count}"
        )
        yield (
            f"{nodes_text(decision.fit_count)} of {request.count} would fit, but {least} was "
            f"asked for: take what fits with {fewer.format(decision.fit_count)}"
        )
    yield (
        f"placed {len(decision.placed_nodes)} of {request.count} "
        f"(policy {request.policy}, seed {request.seed})"
    )


def nodes_text(count: int) -> str:
    """Return a number of nodes in words."""
    return f"{count:,} node" if count == 1 else f"{count:,} nodes"


def funnel_line(decision: Decision, attempt: Attempt | None = None) -> str:
    """Return the funnel of a part, else of the one that is told of, in one line."""
    from valence_sched.core.explain.report import funnel_steps

    steps = funnel_steps(decision, attempt)
    left = [f"{len(decision.view):,} in all"]
    left += [f"{s.went_on:,} after {s.filter}" for s in steps if s.went_on < s.came_in]
    idle = ", ".join(step.filter for step in steps if step.went_on == step.came_in)
    return f"pools: {', '.join(left)}" + (f"; kept all: {idle}" if idle else "")
