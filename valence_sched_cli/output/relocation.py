# SPDX-License-Identifier: Apache-2.0
"""Moves of nodes as rows and lines: destinations, stuck nodes with reasons, and the result."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched.model.quantity import format_count
from valence_sched.model.relocation import MovedNode, RebalanceMove, Relocation, StuckNode
from valence_sched.words.phrases import ReasonPhrases
from valence_sched.words.planning import NO_HARDWARE
from valence_sched_cli.output.cells import hang
from valence_sched_cli.output.decision import BlocksCell
from valence_sched_cli.output.hardware import RECORD_WIDTH, DevicesCell
from valence_sched_cli.output.replay import number_cell

COLUMNS = ("Step", "Node", "From", "To", "Pool", "Blocks")
LONG_COLUMNS = (*COLUMNS, "Owner", "Asks For", "Hardware", "URI")
REBALANCE_COLUMNS = ("Step", "Node", "From", "To", "Pool", "Room", "Fragmentation", "Imbalance")
REBALANCE_LONG_COLUMNS = (*REBALANCE_COLUMNS, "Blocks", "Owner", "Asks For", "Hardware", "URI")
MOST_GROUPS = 3  # of reasons against a node that is stuck
MOST_LISTED = 8  # groups of nodes, and nodes of each; the rest is only counted
WIDTH = 78


def move_rows(result: Relocation) -> list[dict[str, Any]]:
    """Return a row for each move, then for each stuck node; cells by LONG_COLUMNS."""
    return [*map(_move_row, result.moves), *map(stuck_row, result.stuck)]


def _move_row(move: Any) -> dict[str, Any]:
    to = {"To": move.to_podm, "Pool": move.to_pool, "Blocks": BlocksCell(move.to_blocks)}
    return _node_cells(move) | {"Step": move.step} | to


def stuck_row(one: StuckNode) -> dict[str, Any]:
    """Return the row of a node that cannot be re-placed."""
    return _node_cells(one) | dict.fromkeys(("Step", "To", "Pool", "Blocks"))


def _node_cells(one: MovedNode) -> dict[str, Any]:
    return {
        "Node": one.node,
        "From": one.podm,
        "Owner": one.owner,
        "Asks For": one.asks_for,
        "Hardware": DevicesCell(one.devices, RECORD_WIDTH),
        "URI": one.uri,
    }


def rebalance_row(move: RebalanceMove) -> dict[str, Any]:
    """Return the row of a move with the measures of the site after it."""
    fragmentation = number_cell(move.after.fragmentation, is_share=True)
    imbalance = number_cell(move.after.imbalance, is_share=True)
    after = {"Room": move.after.room, "Fragmentation": fragmentation, "Imbalance": imbalance}
    return _move_row(move) | after


def stuck_lines(stuck: Sequence[StuckNode], all_reasons: bool = False) -> Iterator[str]:
    """Yield the nodes that cannot be re-placed, grouped by pod manager and reasons."""
    if not stuck:
        return
    yield f"Nodes that cannot be re-placed: {len(stuck):,}"
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in stuck:
        groups.setdefault((one.podm, tuple(_why(one))), []).append(one.node)
    most = len(stuck) if all_reasons else MOST_LISTED
    for (podm, reasons), nodes in itertools.islice(groups.items(), most):
        others = f" and {len(nodes) - most:,} more" if len(nodes) > most else ""
        yield from hang(f"{', '.join(nodes[:most])}{others} of {podm}", 4, "  ", WIDTH)
        yield from reasons
    if rest := sum(len(nodes) for nodes in list(groups.values())[most:]):
        yield f"  and {format_count(rest, 'node')} more: --all-reasons"


def _why(one: StuckNode) -> Iterator[str]:
    if not one.reasons:
        yield f"      {NO_HARDWARE}"
    for group in one.reasons[:MOST_GROUPS]:
        if group.reason:
            reason = ReasonPhrases(names_free=True).of_reason(group.reason)
            text = f"on {format_count(group.podms, 'pod manager')}: {reason}"
            yield from hang(text, 8, "      ", WIDTH)
