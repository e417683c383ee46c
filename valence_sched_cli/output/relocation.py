# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes as rows and lines: where each goes, which are stuck and why, what it comes to."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import or_absent
from valence_sched_cli.output.decision import BlocksCell
from valence_sched_cli.output.hardware import DevicesCell
from valence_sched_cli.output.not_chosen import reason_text

if TYPE_CHECKING:
    from valence_sched.model.relocation import (
        MovedNode,
        NodeMove,
        Rebalance,
        Relocation,
        StuckNode,
        Survival,
    )

COLUMNS = ("Step", "Node", "From", "To", "Pool", "Blocks")
LONG_COLUMNS = (*COLUMNS, "Owner", "Hardware", "URI")
MOST_GROUPS = 3  # of reasons against a node that is stuck
MOST_LISTED = 8  # groups of nodes, and nodes of each, before the rest is only counted
WIDTH = 78


def move_rows(result: Relocation, *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each move, then for each stuck node; cells as in LONG_COLUMNS."""
    for move in result.moves:
        yield move_row(move, long=long)
    yield from stuck_rows(result.stuck, long=long)


def move_row(move: NodeMove, *, long: bool) -> tuple[Any, ...]:
    """Return the row of a move."""
    row = (move.step, move.node, move.podm, move.to_podm, move.to_pool, BlocksCell(move.to_blocks))
    return (*row, *_long_cells(move)) if long else row


def stuck_rows(stuck: Sequence[StuckNode], *, long: bool) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node that finds no place."""
    for one in stuck:
        row = (or_absent(None), one.node, one.podm, *(or_absent(None) for _ in range(3)))
        yield (*row, *_long_cells(one)) if long else row


def _long_cells(one: MovedNode) -> tuple[Any, ...]:
    return or_absent(one.owner), DevicesCell(one.devices), one.uri


def stuck_lines(stuck: Sequence[StuckNode], all_reasons: bool = False) -> Iterator[str]:
    """Yield why nodes find no place: those of one pod manager with equal reasons together."""
    if not stuck:
        return
    yield f"No place for {_count(len(stuck), 'node')}"
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in stuck:
        groups.setdefault((one.podm, tuple(_why(one))), []).append(one.node)
    most = None if all_reasons else MOST_LISTED
    for (podm, reasons), nodes in itertools.islice(groups.items(), most):
        names = ", ".join(nodes[:most])
        others = (
            f" and {len(nodes) - len(nodes[:most]):,} more" if nodes[most or len(nodes) :] else ""
        )
        yield from textwrap.wrap(f"{names}{others} of {podm}", WIDTH, initial_indent="  ",
                                 subsequent_indent="    ", break_on_hyphens=False)  # fmt: skip
        yield from reasons
    if all_reasons or len(groups) <= MOST_LISTED:
        return
    rest = sum(len(nodes) for nodes in list(groups.values())[MOST_LISTED:])
    yield f"  and {_count(rest, 'node')} more: --all-reasons"


def _why(one: StuckNode) -> Iterator[str]:
    if not one.reasons:
        yield "      the inventory does not say what it is made of"
    for group in one.reasons[:MOST_GROUPS]:
        if group.reason:
            text = f"{group.podms:>6,}  {reason_text(group.reason)}"
            yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent=" " * 10,
                                     break_on_hyphens=False)  # fmt: skip


def relocation_outcome(result: Relocation) -> str:
    """Return what failing or draining comes to, in one sentence."""
    from valence_sched.model.relocation_phrases import relocation_phrase

    return relocation_phrase(result)


def survival_lines(result: Survival) -> Iterator[str]:
    """Yield whether any so many pod managers may fail, and the worst set of them."""
    from valence_sched.model.relocation_phrases import survival_phrases

    yield from survival_phrases(result)


def rebalance_outcome(result: Rebalance, most: int) -> str:
    """Return what moving nodes comes to, in one sentence."""
    if result.room is None:
        least = f"; at least {result.least:,} would be needed" if result.least else ""
        if result.complete:
            return f"no {_count(most, 'move')} make room for {result.flavor}{least}"
        return f"undecided: the search for moves that make room for {result.flavor} ended{least}"
    room = f"{result.room.podm}/{result.room.pool}"
    if not result.moves:
        return f"{result.flavor} fits on {room} as things are: nothing has to move"
    proven = ", and fewer do not" if len(result.moves) == result.least else ""
    verb = "makes" if len(result.moves) == 1 else "make"
    moves = _count(len(result.moves), "move")
    return f"{moves} {verb} room for {result.flavor} on {room}{proven}"


def _count(number: int, noun: str) -> str:
    from valence_sched.model.quantity import format_count

    return format_count(number, noun)
