# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm block``, ``podm device`` and ``podm pool``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, get_args

from valence_sched_cli import base, paging
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import add_options, nonempty_name
from valence_sched_cli.output.cells import PairLines, WordLines, Words, format_count, or_absent
from valence_sched_cli.output.hardware import DevicesCell, ModelCell, amount_cells

if TYPE_CHECKING:
    from valence_sched.model.hardware import BlockFilter, BlockOverview


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which blocks."""
    from valence_sched.model.inventory import BlockType

    inventory.add_inventory_options(parser)
    types = get_args(BlockType)
    add_options(
        parser,
        f"""
        what --podm <podm>: only of this pod manager (ID or name)
        what --pool <pool>: only of this pool
        what --model <words>: only what has a device of this model, as in A100
        what --free: only what a node may use now
        what --type <type>: only blocks of this type: {", ".join(types)}
        """,
        model=nonempty_name,
        type={"choices": types},
    )


def block_filter(parsed_args: argparse.Namespace) -> BlockFilter:
    """Return which blocks the options name."""
    from valence_sched.model.hardware import BlockFilter

    return BlockFilter(podm=parsed_args.podm, pool=parsed_args.pool, type=parsed_args.type,
                       model=parsed_args.model, free=parsed_args.free)  # fmt: skip


class ListBlock(paging.PagedLister):
    """List blocks, their hardware and their nodes.

    A block that may be in several nodes counts as often as it is free.
    """

    through_service = True
    marker_columns = ("Podm", "Block")
    examples = (
        "--inventory examples/site.json --podm gpu-east --free",
        "--model A100 --sort free:desc --limit 10",
    )

    arguments = "output --long: list more columns"
    option_groups = (add_filter_options,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["Podm", "Block", "Hardware", "Free", "Node"]
        columns += ["Condition", "Pool", "Type", "URI"] if parsed_args.long else []
        blocks = self.report_scheduler(parsed_args).blocks(block_filter(parsed_args))
        self.tell_missing_of(blocks, "blocks", strict=parsed_args.strict)
        rows = [tuple(_cells(one)[column] for column in columns) for one in blocks]
        free = sum(1 for row in rows if row[columns.index("Free")])
        self.closing.append(f"{format_count(len(rows), 'block')}, {free:,} of them free")
        return columns, rows


class ShowBlock(base.ShowOne):
    """Show one block, its hardware and its nodes."""

    through_service = True
    examples = ("--inventory examples/site.json GPU-03", "--podm gpu-east GPU-03")

    arguments = """
        <block>: block (URI, or the last part of it)
        what --podm <podm>: of this pod manager (ID or name)
        """
    option_groups = (inventory.INVENTORY,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        block = self.scheduler(parsed_args).block(parsed_args.block, parsed_args.podm)
        cells = {**_cells(block), "Places": PairLines(block.topology)}
        return list(cells), list(cells.values())


def _cells(block: BlockOverview) -> dict[str, Any]:
    return {
        "Podm": block.podm,
        "Pool": WordLines(block.pools),
        "Block": block.uri.rstrip("/").rpartition("/")[2],
        "Hardware": DevicesCell(block.devices),
        "Free": block.slots,
        "Condition": or_absent(block.condition),
        "Node": WordLines(block.nodes),
        "Type": Words(block.types),
        "URI": block.uri,
    }


class ListDevice(paging.PagedLister):
    """Count devices by model, all and free ones."""

    through_service = True
    marker_columns = ("Device", "Model")
    examples = ("--inventory examples/site.json", "--model A100 --podm gpu-east")

    option_groups = (add_filter_options,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        counts = self.report_scheduler(parsed_args).device_counts(block_filter(parsed_args))
        self.tell_missing_of(counts, "devices", strict=parsed_args.strict)
        return ("Device", "Model", "Devices", "Free", "Podms"), [
            (
                one.kind,
                or_absent(one.model and ModelCell(one.model)),
                or_absent(one.devices),
                or_absent(one.free),
                one.podms,
            )
            for one in counts
        ]


class ListPool(paging.PagedLister):
    """List pools and what is free in each.

    A pool is a region in which one node can be made.
    """

    through_service = True
    marker_columns = ("Podm", "Pool")
    examples = ("--inventory examples/site.json --podm gpu-east", "--long --sort free_gpus:desc")

    arguments = """
        what --podm <podm>: only of this pod manager (ID or name)
        output --long: list more columns
        """
    option_groups = (inventory.INVENTORY,)

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
