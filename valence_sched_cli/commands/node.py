# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm node list, show, delete``."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base, paging
from valence_sched_cli.commands import claim_compose
from valence_sched_cli.commands.claim import event_cell, format_time
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_option, seconds
from valence_sched_cli.output.cells import UriTails, WordLines, or_absent

if TYPE_CHECKING:
    from valence_sched.model.composition import ComposedNode


class ListNode(paging.PagedLister):
    """List the nodes that were composed here, and with --live those of others, too."""

    marker_columns = ("ID",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "--podm <podm>: only of this pod manager")
        add_option(parser, "--owner <owner>: only of this owner")
        add_option(parser, "--long: list more columns")
        add_option(
            parser,
            "--live: ask the pod managers: what is gone, and nodes that nobody here composed",
        )
        inventory.add_live_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["ID", "State", "Podm", "Pool", "URI", "Blocks", "Owner"]
        columns += ["Claim", "Created At"] if parsed_args.long else []
        args = parsed_args
        nodes = self.scheduler(args).nodes(podm=args.podm, owner=args.owner, live=args.live)
        rows = ({**_cells(one.node, one.state), "Blocks": UriTails(list(one.node.blocks)),
                 "Claim": or_absent(one.node.claim or None)} for one in nodes)  # fmt: skip
        return columns, (tuple(row[column] for column in columns) for row in rows)


class ShowNode(base.ShowOne):
    """Show one node: what it is made of, and what its pod manager says of it now."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<node>: node (ID or URI)")
        inventory.add_live_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        record = self.scheduler(parsed_args).node_record(parsed_args.node)
        amounts = WordLines([amount.uri for amount in record.node.amounts])
        cells = {**_cells(record.node, record.state), "Amounts": amounts}
        cells["Events"] = event_cell(record.events)
        return list(cells), list(cells.values())


def _cells(node: ComposedNode, state: str) -> dict[str, Any]:
    return {
        "ID": node.id,
        "State": state,
        "Podm": node.podm,
        "Pool": or_absent(node.pool),
        "URI": node.uri,
        "Owner": or_absent(node.owner),
        "Group": or_absent(node.group),
        "Claim": node.claim,
        "Created At": or_absent(format_time(node.created_at or None)),
        "Blocks": WordLines(node.blocks),
    }


class DeleteNode(base.Command):
    """Have nodes taken apart, and read back that nothing of them is left.

    Exits 7 when something is left or that cannot be told; the node stays in the list then.
    """

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<node>...: node (ID or URI; repeat for several)")
        add_option(
            parser,
            "--wait <seconds>: how long to wait for the pod manager (default: 300)",
            type=seconds,
            default=300.0,
        )
        inventory.add_live_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with claim_compose.changing_scheduler(self, parsed_args) as scheduler:
            for error in scheduler.delete_nodes(parsed_args.node, wait_s=parsed_args.wait):
                self.tell(str(error), logging.ERROR)
                self.exit_code = max(self.exit_code, error.exit_code)
