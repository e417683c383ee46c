# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm block``, ``podm device`` and ``podm pool``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, get_args

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import add_options, nonempty_name
from valence_sched_cli.output.cells import PairLines, Shown, WordLines, Words, format_count, tail

if TYPE_CHECKING:
    from valence_sched.model.hardware import BlockFilter, BlockOverview


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which blocks."""
    from valence_sched.model.inventory import BlockType

    types = get_args(BlockType)
    text = f"""{inventory.INVENTORY}\
what --podm <podm>: only of this pod manager (ID or name)
what --pool <pool>: only of this pool
what --model <words>: only what has a device of this model, as in A100
what --free: only what a node may use now
what --type <type>: only blocks of this type: {", ".join(types)}
"""
    add_options(parser, text, model=nonempty_name, type={"choices": types})


def block_filter(parsed_args: argparse.Namespace) -> BlockFilter:
    """Return which blocks the options name."""
    from valence_sched.model.hardware import BlockFilter

    names = ("podm", "pool", "type", "model", "free")
    return BlockFilter(**{name: getattr(parsed_args, name) for name in names})


class ListBlock(base.PagedLister):
    """List blocks, their hardware and their nodes.

    A block that may be in several nodes counts as often as it is free.
    """

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
        self.tell_missing(blocks, "blocks", strict=parsed_args.strict)
        rows = list(map(_cells, blocks))
        free = sum(1 for row in rows if row["Free"])
        self.closing.append(f"{format_count(len(rows), 'block')}, {free:,} of them free")
        return columns, rows


class ShowBlock(base.ShowOne):
    """Show one block, its hardware and its nodes."""

    examples = ("--inventory examples/site.json GPU-03", "--podm gpu-east GPU-03")
    arguments = """
        <block>: block (URI, or the last part of it)
        what --podm <podm>: of this pod manager (ID or name)
        """
    option_groups = (inventory.INVENTORY,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        block = self.scheduler(parsed_args).block(parsed_args.block, parsed_args.podm)
        cells = {**_cells(block), "Places": PairLines(block.topology)}
        return tuple(cells), cells


def _cells(block: BlockOverview) -> dict[str, Any]:
    from valence_sched_cli.output.hardware import DevicesCell

    return {
        "Podm": block.podm,
        "Pool": WordLines(block.pools),
        "Block": tail(block.uri),
        "Hardware": DevicesCell(block.devices),
        "Free": block.slots,
        "Condition": block.condition,
        "Node": WordLines(block.nodes),
        "Type": Words(block.types),
        "URI": block.uri,
    }


class ListDevice(base.PagedLister):
    """Count devices by model, all and free ones."""

    marker_columns = ("Device", "Model")
    examples = ("--inventory examples/site.json", "--model A100 --podm gpu-east")
    option_groups = (add_filter_options,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.words.phrases import short_model

        counts = self.report_scheduler(parsed_args).device_counts(block_filter(parsed_args))
        self.tell_missing(counts, "devices", strict=parsed_args.strict)
        return ("Device", "Model", "Devices", "Free", "Podms"), [
            (
                one.kind,
                one.model and Shown(one.model, short_model),
                one.devices,
                one.free,
                one.podms,
            )
            for one in counts
        ]


class ListPool(base.PagedLister):
    """List pools and what is free in each.

    A pool is a region in which one node can be made.
    """

    marker_columns = ("Podm", "Pool")
    examples = ("--inventory examples/site.json --podm gpu-east", "--long --sort free_gpus:desc")
    arguments = """
        what --podm <podm>: only of this pod manager (ID or name)
        output --long: list more columns
        """
    option_groups = (inventory.INVENTORY,)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched_cli.output.hardware import amount_cells

        columns = ["Podm", "Pool", "Free Blocks", "Free Cores", "Free Memory MiB", "Free GPUs"]
        columns += ["Free Drives"]
        if parsed_args.long:
            columns += ["Total Blocks", "Total Cores", "Total Memory MiB", "Total GPUs"]
            columns += ["Total Drives", "Free Stocks", "Total Stocks", "Name", "Traits"]
        pools = self.report_scheduler(parsed_args).pools(parsed_args.podm)
        self.tell_missing(pools, "pools", strict=parsed_args.strict)
        rows = [
            {**amount_cells(one.amounts), "Podm": one.podm, "Pool": one.pool, "Name": one.name}
            | {"Traits": WordLines(one.traits)}
            for one in pools
        ]
        return columns, rows
