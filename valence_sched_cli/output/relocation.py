# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes as rows and lines: where each goes, which are stuck and why, what it comes to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import format_count, hang, or_absent
from valence_sched_cli.output.decision import BlocksCell, reason_text
from valence_sched_cli.output.hardware import DevicesCell
from valence_sched_cli.output.replay import number_text, share_or_absent

if TYPE_CHECKING:
    from valence_sched.model.relocation import (
        MovedNode,
        Rebalance,
        RebalanceMove,
        Relocation,
        StuckNode,
    )

COLUMNS = ("Step", "Node", "From", "To", "Pool", "Blocks")
LONG_COLUMNS = (*COLUMNS, "Owner", "Asks For", "Hardware", "URI")
REBALANCE_COLUMNS = ("Step", "Node", "From", "To", "Pool", "Room", "Fragmentation")
REBALANCE_LONG_COLUMNS = (*REBALANCE_COLUMNS, "Blocks", "Owner", "Asks For", "Hardware", "URI")
MOST_GROUPS = 3  # of reasons against a node that is stuck
MOST_LISTED = 8  # groups of nodes, and nodes of each, before the rest is only counted
WIDTH = 78


def move_rows(result: Relocation, *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each move, then for each stuck node; cells as in LONG_COLUMNS."""
    for move in result.moves:
        row = (move.step, move.node, move.podm, move.to_podm, move.to_pool,
               BlocksCell(move.to_blocks))  # fmt: skip
        yield (*row, *_long_cells(move)) if long else row
    yield from stuck_rows(result.stuck, long=long)


def stuck_rows(stuck: Sequence[StuckNode], *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node that finds no place."""
    for one in stuck:
        row = (or_absent(None), one.node, one.podm, *(or_absent(None) for _ in range(3)))
        yield (*row, *_long_cells(one)) if long else row


def _long_cells(one: MovedNode) -> tuple[Any, ...]:
    return or_absent(one.owner), one.asks_for, DevicesCell(one.devices), one.uri


def stuck_lines(stuck: Sequence[StuckNode], all_reasons: bool = False) -> Iterator[str]:
    """Yield why nodes find no place: those of one pod manager with equal reasons together."""
    if not stuck:
        return
    yield f"No place for {format_count(len(stuck), 'node')}"
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in stuck:
        groups.setdefault((one.podm, tuple(_why(one))), []).append(one.node)
    most = None if all_reasons else MOST_LISTED
    for (podm, reasons), nodes in itertools.islice(groups.items(), most):
        names = ", ".join(nodes[:most])
        others = (
            f" and {len(nodes) - len(nodes[:most]):,} more" if nodes[most or len(nodes) :] else ""
        )
        yield from hang(f"{names}{others} of {podm}", 4, "  ", WIDTH)
        yield from reasons
    if all_reasons or len(groups) <= MOST_LISTED:
        return
    rest = sum(len(nodes) for nodes in list(groups.values())[MOST_LISTED:])
    yield f"  and {format_count(rest, 'node')} more: --all-reasons"


def _why(one: StuckNode) -> Iterator[str]:
    from valence_sched.words.relocation import NO_HARDWARE

    if not one.reasons:
        yield f"      {NO_HARDWARE}"
    for group in one.reasons[:MOST_GROUPS]:
        if group.reason:
            text = f"{group.podms:>6,}  {reason_text(group.reason)}"
            yield from hang(text, 10, "  ", WIDTH)


def rebalance_row(move: RebalanceMove, *, long: bool) -> tuple[Any, ...]:
    """Return the row of a move with what the site has after it."""
    row = (move.step, move.node, move.podm, move.to_podm, move.to_pool,
           or_absent(move.after.room), share_or_absent(move.after.fragmentation))  # fmt: skip
    return (*row, BlocksCell(move.to_blocks), *_long_cells(move)) if long else row


def rebalance_lines(result: Rebalance, most: int) -> Iterator[str]:
    """Yield what moving nodes comes to, in one sentence, and what it buys in all."""
    yield _goal_text(result, most)
    if result.waiting:
        names = " and ".join(result.waiting)
        alone = len(result.waiting) == 1
        need = "needs part of its own place" if alone else "need each other's places"
        yield f"{names} {need}, and there is no spare one on the way"
    if not result.moves:
        return
    before, after = result.before, result.after
    parts = []
    if before.room is not None and after.room is not None:
        parts.append(f"room for {before.room:,} more {result.flavor} becomes {after.room:,}")
    if before.fragmentation is not None and after.fragmentation is not None:
        shares = (_percent(one.fragmentation) for one in (before, after))
        parts.append("fragmentation {} becomes {}".format(*shares))
    if parts:
        yield f"in all: {', '.join(parts)}"
    steps = Counter((move.node, move.uri) for move in result.moves)
    if waiting := sorted(node for (node, _), count in steps.items() if count > 1):
        yield f"by way of a spare place: {', '.join(waiting)}"


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
            where = f"{result.flavor} fits on {result.room.podm}/{result.room.pool}"
            return f"{where} as things are: nothing has to move"
        share = _percent(result.before.fragmentation)
        return f"fragmentation is {share} as things are: nothing has to move"
    if len(result.moves) == 1:
        goal = goal.replace("make", "makes", 1).replace("bring", "brings", 1)
    if len(result.moves) == least:
        return f"{moves} {goal}, and fewer do not"
    return f"{moves} {goal}; at least {least:,} are needed"


def _goal(result: Rebalance) -> str:
    if result.below is not None:
        return f"bring fragmentation below {_percent(result.below)}"
    where = f" on {result.room.podm}/{result.room.pool}" if result.room else ""
    return f"make room for {result.flavor}{where}"


def _percent(share: float | None) -> str:
    return number_text(share or 0.0, is_share=True)
