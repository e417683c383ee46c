# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes in words: the results of a failure, a drain and a rebalance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import Rebalance, Relocation, Survival

NO_HARDWARE = "its hardware is unknown"

#: The verb for every node, and the verb for some of the nodes.
_VERBS = {
    "failed": ("can be re-placed", "can be re-placed"),
    "drained": ("moves away", "move away"),
}


def relocation_phrase(result: Relocation) -> str:
    """Return the result of failing or draining in one sentence."""
    if not result.nodes:
        return f"no node is on {result.target}: nothing has to move"
    one, many = _VERBS[result.why]
    nodes = format_count(result.nodes, "node")
    if not result.stuck:
        return f"every node {one}: {nodes} of {result.target}"
    moved, stuck = len(result.moves), len(result.stuck)
    return f"{moved:,} of {nodes} of {result.target} {many}, {stuck:,} cannot"


def survival_phrases(result: Survival) -> Iterator[str]:
    """Yield whether the site survives the tested failures, and the worst set of pod managers."""
    podms = format_count(result.failures, "pod manager")
    tried = f"{result.tried:,} of {result.sets:,} sets tried"
    if result.answer:
        failures = format_count(result.failures, "pod manager failure")
        yield f"the site survives {failures}: every node can be re-placed ({tried})"
        return
    if result.answer is None:
        found = f"the site survives all tested failures of {podms}"
        yield f"undecided: {found} ({tried}, the most expensive first)"
        return
    worst = ", ".join(result.worst)
    failures = format_count(result.failures, "failure")
    bad = f"{result.bad_sets:,} of {result.tried:,} combinations"
    yield f"the site does not survive {failures}: {bad} leave nodes unplaced"
    nodes = format_count(result.worst_nodes, "node")
    yield f"worst: {worst}: {len(result.stuck):,} of {nodes} cannot be re-placed"


def rebalance_lines(result: Rebalance, most: int) -> Iterator[str]:
    """Yield the result of the moves in one sentence, and their total effect."""
    yield _goal_text(result, most)
    if result.waiting:
        names = " and ".join(result.waiting)
        alone = len(result.waiting) == 1
        need = "needs part of its own place" if alone else "need each other's places"
        yield f"{names} {need}, and no spare place was found"
    if not result.moves:
        return
    before, after = result.before, result.after
    parts = []
    if before.room is not None and after.room is not None:
        parts.append(f"room for {before.room:,} more {result.flavor} becomes {after.room:,}")
    if before.fragmentation is not None and after.fragmentation is not None:
        shares = (_percent(one.fragmentation) for one in (before, after))
        parts.append("fragmentation {} becomes {}".format(*shares))
    if result.imbalance_below is not None:
        shares = (_percent(one.imbalance) for one in (before, after))
        parts.append("imbalance {} becomes {}".format(*shares))
    if parts:
        yield f"total: {', '.join(parts)}"
    steps = Counter((move.node, move.uri) for move in result.moves)
    if waiting := sorted(node for (node, _), count in steps.items() if count > 1):
        yield f"moved through a spare place: {', '.join(waiting)}"


def _goal_text(result: Rebalance, most: int) -> str:
    goal = _goal(result)
    moves, least = format_count(len(result.moves), "move"), result.least
    if not result.reached:
        if not result.complete:
            bound = f"; at least {least:,} would be needed" if least else ""
            if result.moves:
                return f"undecided: the best {moves} found do not {goal}{bound}"
            return f"undecided: no moves were found that {goal}{bound}"
        number = "number of moves" if result.is_impossible else format_count(most, "move")
        return f"no {number} can {goal}"
    if not result.moves:
        if result.room is not None:
            where = f"{result.flavor} already fits on {result.room.podm}/{result.room.pool}"
            return f"{where}: nothing has to move"
        if result.imbalance_below is not None:
            share = _percent(result.before.imbalance)
            return f"imbalance is already {share}: nothing has to move"
        share = _percent(result.before.fragmentation)
        return f"fragmentation is already {share}: nothing has to move"
    if len(result.moves) == 1:
        goal = goal.replace("make", "makes", 1).replace("bring", "brings", 1)
    if len(result.moves) == least:
        return f"{moves} {goal}, and fewer do not"
    return f"{moves} {goal}; at least {least:,} are needed"


def _goal(result: Rebalance) -> str:
    if result.below is not None:
        return f"bring fragmentation below {_percent(result.below)}"
    if result.imbalance_below is not None:
        return f"bring imbalance below {_percent(result.imbalance_below)}"
    where = f" on {result.room.podm}/{result.room.pool}" if result.room else ""
    return f"make room for {result.flavor}{where}"


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.1f}%"
