# SPDX-License-Identifier: Apache-2.0
"""A decision as rows: the nodes, their alternates, and every other pod manager with its reason."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.columns import Absent, Grants, PairStack, Reasons, Tails, Why, maybe
from valence_sched_cli.output import MACHINE

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.model.decision import Candidate, PodmVerdict

COLUMNS = ("Node", "Rank", "Podm", "Pool", "Score", "Outcome", "Blocks", "Amounts", "Reason")
EXPLAINED = (*COLUMNS, "Scores", "Waste", "Reasons")

LISTED_PODMS = 50  # how many pod managers a decision lists unless --explain asks for all


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
    if not explain and len(decision.view.podms) > LISTED_PODMS:
        return
    for verdict in decision.verdicts():
        if verdict.podm not in shown:
            yield _verdict_row(decision, verdict, explain=explain)


def _candidate_row(
    node: int | None, rank: int | None, outcome: str, found: Candidate, behind: float
) -> tuple[Any, ...]:
    why = None if rank == 1 else f"{behind:.6g} behind"
    return (
        maybe(node), maybe(rank), found.podm, found.pool, found.score, outcome,
        Tails([block.uri for block in found.blocks]), Grants(found.grants), Why(why),
        PairStack(found.scores), found.waste, Reasons([], why),
    )  # fmt: skip


def _verdict_row(decision: Decision, verdict: PodmVerdict, *, explain: bool) -> tuple[Any, ...]:
    row = decision.row_of(verdict.podm, verdict.pool)
    if verdict.outcome != "rejected":
        candidate = decision.candidate(row)
        if candidate is not None:
            return _candidate_row(None, None, "fits", candidate, verdict.behind or 0.0)
    return (
        Absent(), Absent(), verdict.podm, verdict.pool, Absent(), verdict.outcome,
        Tails([]), Grants([]), Why(verdict.reason.text if verdict.reason else None),
        PairStack({}), Absent(), Reasons(decision.reasons(row) if explain else []),
    )  # fmt: skip


def is_noise(
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


def funnel_words(decision: Decision) -> str:
    """Return the funnel in one line."""
    steps = decision.funnel()
    left = [f"{len(decision.view):,} in all"]
    left += [f"{s.went_on:,} after {s.filter}" for s in steps if s.went_on < s.came_in]
    idle = ", ".join(step.filter for step in steps if step.went_on == step.came_in)
    return f"pools: {', '.join(left)}" + (f"; kept all: {idle}" if idle else "")
