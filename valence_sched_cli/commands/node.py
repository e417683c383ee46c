# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm node list, show, delete``."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.commands import claim_compose
from valence_sched_cli.commands.claim import event_cell, format_time
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import seconds
from valence_sched_cli.output.cells import UriTails, WordLines, or_absent


class ListNode(base.Lister):
    """List the nodes that were composed here, and with --live those of others, too."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--podm", metavar="<podm>", help="only of this pod manager")
        parser.add_argument("--owner", metavar="<owner>", help="only of this owner")
        parser.add_argument("--long", action="store_true", help="list more columns")
        parser.add_argument(
            "--live",
            action="store_true",
            help="ask the pod managers: what is gone, and nodes that nobody here composed",
        )
        inventory.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        columns = ["ID", "State", "Podm", "Pool", "URI", "Blocks", "Owner"]
        columns += ["Claim", "Created At"] if parsed_args.long else []
        nodes = self.scheduler(parsed_args).nodes(
            podm=parsed_args.podm, owner=parsed_args.owner, live=parsed_args.live
        )
        rows = (
            (
                one.node.id,
                one.state,
                one.node.podm,
                or_absent(one.node.pool),
                one.node.uri,
                UriTails(list(one.node.blocks)),
                or_absent(one.node.owner),
                or_absent(one.node.claim or None),
                or_absent(format_time(one.node.created_at or None)),
            )[: len(columns)]
            for one in nodes
        )
        return columns, rows


class ShowNode(base.ShowOne):
    """Show one node: what it is made of, and what its pod manager says of it now."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="node (ID or URI)")
        inventory.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        record = self.scheduler(parsed_args).node_record(parsed_args.node)
        node = record.node
        cells = {
            "ID": node.id,
            "State": record.state,
            "Podm": node.podm,
            "Pool": or_absent(node.pool),
            "URI": node.uri,
            "Owner": or_absent(node.owner),
            "Group": or_absent(node.group),
            "Claim": node.claim,
            "Created At": or_absent(format_time(node.created_at or None)),
            "Blocks": WordLines(node.blocks),
            "Events": event_cell(record.events),
        }
        return list(cells), list(cells.values())


class DeleteNode(base.Command):
    """Have nodes taken apart, and read back that nothing of them is left.

    Exits 7 when something is left or that cannot be told; the node stays in the list then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "node", metavar="<node>", nargs="+", help="node (ID or URI; repeat for several)"
        )
        parser.add_argument(
            "--wait",
            metavar="<seconds>",
            type=seconds,
            default=300.0,
            help="how long to wait for the pod manager (default: 300)",
        )
        inventory.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        with claim_compose.changing_scheduler(self, parsed_args) as scheduler:
            for error in scheduler.delete_nodes(parsed_args.node, wait_s=parsed_args.wait):
                self.tell(str(error), logging.ERROR)
                self.exit_code = max(self.exit_code, error.exit_code)
