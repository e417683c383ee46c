# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm node list, show, delete``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands.claim import TIMEOUT, event_cell, wait_s
from valence_sched_cli.late import model
from valence_sched_cli.options import inventory
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import in_order, table_width, telling_columns

LIST_COLUMNS = ("Node", "Podm", "Flavor", "Hardware", "Owner", "State", "Since")
LEAST_WIDTH, MOST_WIDTH = 11, 30  # of the column Hardware, which gets the rest of the screen
RECORDED = """\
inventory --inventory <path>...: use the nodes of a recorded inventory, not those of the state: a
    file, directory or archive, or - for standard input"""
LONG_COLUMNS = (*LIST_COLUMNS, "Pool", "URI", "Blocks", "Amounts", "Group", "Claim")


class ListNode(base.PagedLister):
    """List the nodes that this scheduler composed.

    --live adds the nodes that other systems composed; --inventory lists the nodes of recorded pod
    managers. Tables omit the state if every node is COMPOSED; otherwise they omit the flavor. They
    omit the owner if no node has one.
    """

    marker_columns = ("Node",)
    nouns, next_step, filters = "nodes", "podm schedule --compose makes one", ("podm", "owner")
    examples = ("--owner team-a", "--podm gpu-east --live")
    arguments = """
        what --podm <podm>: only of this pod manager
        what --owner <owner>: only of this owner
        what --live: read the pod managers: also list nodes that are gone, and unmanaged nodes
        output --long: list more columns"""
    option_groups = (RECORDED, inventory.LIVE, inventory.STRICT_LIST)

    def take_action(self, args: base.Args) -> base.Table:
        if args.inventory and args.live:
            raise UsageError("--live: not with --inventory, which holds recorded nodes")
        scheduler = self.report_scheduler(args, reads=bool(args.inventory))
        if args.inventory:
            nodes: Any = [
                one
                for one in _recorded_nodes(scheduler)
                if args.podm in (None, one.node.podm) and args.owner in (None, one.node.owner)
            ]
        else:
            nodes = scheduler.nodes(podm=args.podm, owner=args.owner, live=args.live)
            self.log_missing(nodes)
        now = self.scheduler_app.now().timestamp()

        def since(at: float) -> Any:
            age = model.quantity.format_age(max(0.0, now - at))
            return cells.Amount(cells.format_time(at), lambda _: age)

        rows = []
        for one in nodes:
            node, at = one.node, one.node.created_at
            more = {"Since": since(at) if at else None, "Blocks": cells.UriTails(list(node.blocks))}
            rows.append(_node_cells(one) | more)
        columns: Sequence[str] = LONG_COLUMNS if args.long else LIST_COLUMNS
        if rows and not args.long:
            others = {} if all(one.state == "COMPOSED" for one in nodes) else {"Flavor": None}
            redundant = {"Owner": "", "State": "COMPOSED", **others}
            columns = telling_columns(columns, rows, args, redundant)
        rest = [name for name in columns if name != "Hardware"]
        taken = table_width(rest, [in_order(row, rest) for row in rows])
        width = max(LEAST_WIDTH, min(MOST_WIDTH, 76 - taken))
        for row, one in zip(rows, () if args.long else nodes, strict=False):
            row["Hardware"] = output.hardware.node_hardware_cell(one, width)
        return columns, rows


class ShowNode(base.ShowOne):
    """Show one node as its pod manager reports it now.

    With --inventory, the node is shown as recorded.
    """

    arguments = "<node>: node (ID or URI; with --inventory also the last part of it, or PODM/ID)"
    option_groups = (RECORDED, inventory.LIVE)

    def take_action(self, args: base.Args) -> base.Table:
        scheduler = self.scheduler(args)
        if not args.inventory:
            record = scheduler.node_record(args.node)
        else:
            record = model.lifecycle.find_record(_recorded_nodes(scheduler), args.node)
        row = _node_cells(record)
        row |= cells.fields(record, "Podm URL", "Systems", "UUIDs", "MAC Addresses")
        if record.node.shrinkable:
            row["Shrinkable To"] = record.node.floor or "its own request"
            row["Power Cycle"] = record.node.power_cycle
        row["Events"] = event_cell(record.events)
        return tuple(row), row


def _recorded_nodes(scheduler: model.scheduler.Scheduler) -> list[model.lifecycle.NodeRecord]:
    blocks = scheduler.blocks(model.hardware.BlockFilter())
    devices = {(one.podm, one.uri): one.devices for one in blocks}
    return model.lifecycle.recorded_nodes((one.podm for one in scheduler.podms()), devices)


def _node_cells(status: model.lifecycle.NodeStatus) -> dict[str, Any]:
    node = status.node
    return {
        "Node": node.id,
        "State": cells.state_cell(status.state),
        **cells.fields(status, "Reason"),
        "Flavor": node.flavor,
        "Hardware": output.hardware.node_hardware_cell(status, output.hardware.RECORD_WIDTH),
        **cells.fields(node, "Podm", "Pool", "URI", "Owner", "Group"),
        "Claim": node.claim or None,
        "Since": cells.format_time(node.created_at or None),
        "Blocks": cells.WordLines(node.blocks),
        "Amounts": cells.WordLines([amount.uri for amount in node.amounts]),
    }


class DeleteNode(base.Command):
    """Decompose nodes and verify that they are gone.

    A node that could not be decomposed stays in the list. Exit codes: 5 unknown whether Ironic uses
    the hardware; 6 Ironic uses it; 7 a node or a part of it remains, or may remain.
    """

    arguments = "<node>...: node (ID or URI; repeat for several)"
    option_groups = (TIMEOUT, inventory.LIVE)

    def take_action(self, args: base.Args) -> None:
        wait = wait_s(args)
        self.log_errors(self.scheduler(args).delete_nodes(args.node, wait_s=wait))
