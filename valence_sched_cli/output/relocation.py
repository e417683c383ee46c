# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes as rows and lines: where each goes, which are stuck and why, what it comes to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.output.cells import format_count, hang, or_absent
from valence_sched_cli.output.decision import BlocksCell, reason_text
from valence_sched_cli.output.hardware import DevicesCell
from valence_sched_cli.output.replay import share_or_absent

if TYPE_CHECKING:
    from valence_sched.model.relocation import MovedNode, RebalanceMove, Relocation, StuckNode

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
