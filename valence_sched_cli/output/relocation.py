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
from valence_sched_cli.output.cells import fields, hang
from valence_sched_cli.output.decision import blocks_cell
from valence_sched_cli.output.hardware import RECORD_WIDTH, devices_cell
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
    to = {"To": move.to_podm, "Pool": move.to_pool, "Blocks": blocks_cell(move.to_blocks)}
    return stuck_row(move) | {"Step": move.step} | to


def stuck_row(one: MovedNode) -> dict[str, Any]:
    """Return the row of a node that cannot be re-placed."""
    cells = fields(one, "Node", "Owner", "Asks For", "URI")
    cells |= {"From": one.podm, "Hardware": devices_cell(one.devices, RECORD_WIDTH)}
    return cells | dict.fromkeys(("Step", "To", "Pool", "Blocks"))


def rebalance_row(move: RebalanceMove) -> dict[str, Any]:
    """Return the row of a move with the measures of the site after it."""
    shares = {
        name.title(): number_cell(getattr(move.after, name), is_share=True)
        for name in ("fragmentation", "imbalance")
    }
    return _move_row(move) | {"Room": move.after.room, **shares}


def stuck_lines(stuck: Sequence[StuckNode], all_reasons: bool = False) -> Iterator[str]:
    """Yield the nodes that cannot be re-placed, grouped by pod manager and reasons."""
    if not stuck:
        return
    yield f"Nodes that cannot be re-placed: {len(stuck):,}"
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in stuck:
        reasons = [] if one.reasons else [f"      {NO_HARDWARE}"]
        for group in one.reasons[:MOST_GROUPS]:
            if group.reason:
                reason = ReasonPhrases(names_free=True).of_reason(group.reason)
                text = f"on {format_count(group.podms, 'pod manager')}: {reason}"
                reasons += hang(text, 8, "      ", WIDTH)
        groups.setdefault((one.podm, tuple(reasons)), []).append(one.node)
    most = len(stuck) if all_reasons else MOST_LISTED
    for (podm, lines), nodes in itertools.islice(groups.items(), most):
        others = f" and {len(nodes) - most:,} more" if len(nodes) > most else ""
        yield from hang(f"{', '.join(nodes[:most])}{others} of {podm}", 4, "  ", WIDTH)
        yield from lines
    if rest := sum(len(nodes) for nodes in list(groups.values())[most:]):
        yield f"  and {format_count(rest, 'node')} more: --all-reasons"
