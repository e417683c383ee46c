# SPDX-License-Identifier: Apache-2.0
"""The command ``podm pool list``."""

from __future__ import annotations

import argparse

from valence_sched_cli import base, paging
from valence_sched_cli.options import inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import WordLines, or_absent
from valence_sched_cli.output.hardware import amount_cells


class ListPool(paging.PagedLister):
    """List pools and what is free in each.

    A pool is a region in which one node can be made.
    """

    through_service = True

    marker_columns = ("Podm", "Pool")
    examples = ("--inventory examples/site.json --podm gpu-east", "--long --sort free_gpus:desc")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        add_option(section(parser, "what"), "--podm <podm>: only of this pod manager (ID or name)")
        add_option(section(parser, "output"), "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["Podm", "Pool", "Free Blocks", "Free Cores", "Free Memory MiB", "Free GPUs",
                   "Free Drives"]  # fmt: skip
        if parsed_args.long:
            columns += [
                "Total Blocks", "Total Cores", "Total Memory MiB", "Total GPUs", "Total Drives",
                "Free Stocks", "Total Stocks", "Name", "Traits",
            ]  # fmt: skip
        pools = self.report_scheduler(parsed_args).pools(parsed_args.podm)
        self.tell_missing_of(pools, "pools", strict=parsed_args.strict)
        rows = []
        for one in pools:
            cells = {"Podm": one.podm, "Pool": one.pool, "Name": or_absent(one.name),
                     "Traits": WordLines(one.traits), **amount_cells(one.amounts)}  # fmt: skip
            rows.append(tuple(cells[column] for column in columns))
        return columns, rows
