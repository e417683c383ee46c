# SPDX-License-Identifier: Apache-2.0
"""Commands about nodes: list, show, delete."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.commands import claim_compose
from valence_sched_cli.commands.claim import format_time, has_no_state
from valence_sched_cli.options import common
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
        common.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        columns = ["ID", "State", "Podm", "Pool", "URI", "Blocks", "Owner"]
        columns += ["Claim", "Created At"] if parsed_args.long else []
        registry = self.main.registry(parsed_args.state)
        found: list[Any] = []
        if parsed_args.live or not has_no_state(registry):
            with self.main.podm_access(self.live(parsed_args)) as site:
                found = site.nodes(parsed_args.podm, live=parsed_args.live)
        rows = (
            (
                node.id,
                state,
                node.podm,
                or_absent(node.pool),
                node.uri,
                UriTails(list(node.blocks)),
                or_absent(node.owner),
                or_absent(node.claim or None),
                or_absent(format_time(node.created_at or None)),
            )[: len(columns)]
            for node, state in found
            if parsed_args.owner in (None, node.owner)
        )
        return columns, rows


class ShowNode(base.ShowOne):
    """Show one node: what it is made of, and what its pod manager says of it now."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("node", metavar="<node>", help="node (ID or URI)")
        common.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        with self.main.podm_access(self.live(parsed_args)) as site:
            node = site.store.nodes.show(parsed_args.node)
            events = site.store.events(node.claim)
            (state,) = [state for one, state in site.nodes(node.podm, live=True) if one == node]
        cells = {
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
            "Events": WordLines([f"{format_time(event.at)} {event.kind}" for event in events]),
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
        common.add_live_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from valence_sched.errors import SchedulerError

        with claim_compose.podm_access(self, parsed_args) as site:
            for word in dict.fromkeys(parsed_args.node):
                try:
                    site.composer.remove(site.store.nodes.show(word))
                except SchedulerError as error:  # the others can go all the same
                    self.tell(str(error), logging.ERROR)
                    self.exit_code = max(self.exit_code, error.exit_code)
