# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm node list, show, delete``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands.claim import event_cell
from valence_sched_cli.late import model
from valence_sched_cli.options import claim, inventory
from valence_sched_cli.output.cells import Amount, UriTails, WordLines, format_time
from valence_sched_cli.output.table import MACHINE

COLUMNS = ("Node", "Podm", "Flavor", "Hardware", "Owner", "State", "Since")
LEAST_WIDTH, MOST_WIDTH = 11, 30  # of the hardware, as much as the other columns leave
LONG_COLUMNS = (*COLUMNS, "Pool", "URI", "Blocks", "Amounts", "Group", "Claim")


class ListNode(base.PagedLister):
    """List the nodes that were composed here.

    With --live, those that others composed are there, too. Tables leave out the state where every
    node is COMPOSED, else the flavor, and the owner where none has one.
    """

    marker_columns = ("Node",)
    examples = ("--owner team-a", "--podm gpu-east --live")
    arguments = """
        what --podm <podm>: only of this pod manager
        what --owner <owner>: only of this owner
        what --live: ask the pod managers: what is gone, and nodes that nobody here composed
        output --long: list more columns
        """
    option_groups = (inventory.LIVE, inventory.STRICT_LIST)

    def take_action(self, args: base.Args) -> base.Table:
        scheduler = self.report_scheduler(args, reads=False)
        nodes = scheduler.nodes(podm=args.podm, owner=args.owner, live=args.live)
        self.tell_missing(nodes, "nodes", strict=args.strict)
        columns = _visible_columns(args, nodes)
        now = self.scheduler_app.now().timestamp()
        rows = []
        for one in nodes:
            blocks = UriTails(list(one.node.blocks))
            rows.append({**_cells(one), "Since": _since(one, now), "Blocks": blocks})
        taken = 3 * len(columns)
        for name in columns:
            texts = ("" if row[name] is None else str(row[name]) for row in rows)
            taken += max(map(len, (name, *texts))) if name != "Hardware" else 0
        for row in rows:
            row["Hardware"].width = max(LEAST_WIDTH, min(MOST_WIDTH, 78 - taken))
        return columns, rows


class ShowNode(base.ShowOne):
    """Show one node as its pod manager has it now."""

    arguments = "<node>: node (ID or URI)"
    option_groups = (inventory.LIVE,)

    def take_action(self, args: base.Args) -> base.Table:
        record = self.scheduler(args).node_record(args.node)
        cells = {**_cells(record), "Events": event_cell(record.events)}
        return tuple(cells), cells


def _since(status: model.lifecycle.NodeStatus, now: float) -> Any:
    """Return since when a node is there: how long for people, as in ``12m``, else the time."""
    at = status.node.created_at
    age = model.quantity.format_age(max(0.0, now - at)) if at else ""
    return Amount(format_time(at), lambda _: age) if at else None


def _visible_columns(
    args: base.Args, nodes: Sequence[model.lifecycle.NodeStatus]
) -> tuple[str, ...]:
    if args.long or args.formatter in MACHINE or not nodes:
        return LONG_COLUMNS if args.long else COLUMNS
    words = (*args.columns, *args.sort_columns, *args.sort)
    named = {word.partition(":")[0].casefold() for word in words}
    silent = {
        "Owner": all(one.node.owner is None for one in nodes),
        "State": all(one.state == "COMPOSED" for one in nodes),
    }
    silent["Flavor"] = not silent["State"]  # there is no room for both
    return tuple(name for name in COLUMNS if name.casefold() in named or not silent.get(name))


def _cells(status: model.lifecycle.NodeStatus) -> dict[str, Any]:
    node = status.node
    return {
        "Node": node.id,
        "State": status.state,
        "Flavor": node.flavor,
        "Hardware": output.hardware.NodeHardwareCell(status),
        "Podm": node.podm,
        "Pool": node.pool,
        "URI": node.uri,
        "Owner": node.owner,
        "Group": node.group,
        "Claim": node.claim or None,
        "Since": format_time(node.created_at or None),
        "Blocks": WordLines(node.blocks),
        "Amounts": WordLines([amount.uri for amount in node.amounts]),
    }


class DeleteNode(base.Command):
    """Decompose nodes and verify that they are gone.

    The node stays in the list where it could not be: exit codes are 5 when Ironic does not tell
    whether it uses the hardware, 6 when it does, 7 when something is left or that cannot be told.
    """

    arguments = "<node>...: node (ID or URI; repeat for several)"
    option_groups = (claim.TIMEOUT, inventory.LIVE)

    def take_action(self, args: base.Args) -> None:
        wait_s = claim.wait_s(args)
        self.tell_errors(self.scheduler(args).delete_nodes(args.node, wait_s=wait_s))
