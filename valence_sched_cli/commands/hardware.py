# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm block``, ``podm device`` and ``podm pool``."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.late import model, words
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import add_options, nonempty_name
from valence_sched_cli.output import cells

FILTERS = ("podm", "pool", "model", "free", "type")
NEXT_STEP = "podm list shows which pod managers were read"


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that select blocks."""
    types = get_args(model.inventory.BlockType)
    text = f"""{inventory.INVENTORY}
what --podm <podm>: only of this pod manager (ID or name)
what --pool <pool>: only of this pool
what --model <words>: only blocks with a device of this model, such as A100
what --free: only blocks that a new node may use now
what --type <type>: only blocks of this type: {", ".join(types)}"""
    add_options(parser, text, model=nonempty_name, type={"choices": types})


def block_filter(args: base.Args) -> model.hardware.BlockFilter:
    """Return the selection of blocks that the options make."""
    return model.hardware.BlockFilter(**{name: getattr(args, name) for name in FILTERS})


class ListBlock(base.PagedLister):
    """List blocks, their hardware and their nodes.

    A shareable block counts once for each node that may still use it.
    """

    marker_columns = ("Podm", "Block")
    nouns, next_step, filters = "blocks", NEXT_STEP, FILTERS
    examples = (
        "--inventory examples/site.json --podm gpu-east --free",
        "--model A100 --sort free:desc --limit 10",
    )
    arguments = "output --long: list more columns"
    option_groups = (add_filter_options,)

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["Podm", "Block", "Hardware", "Free", "Node"]
        columns += ["Condition", "Pool", "Type", "URI"] if args.long else []
        blocks = self.log_missing(self.report_scheduler(args).blocks(block_filter(args)))
        rows = [_cells(block, is_long=args.long) for block in blocks]
        free = sum(1 for row in rows if row["Free"])
        self.closing.append(f"{cells.format_count(len(rows), 'block')}, {free:,} of them free")
        return columns, rows


class ShowBlock(base.ShowOne):
    """Show one block, its hardware and its nodes."""

    examples = ("--inventory examples/site.json GPU-03", "--podm gpu-east GPU-03")
    arguments = """
        <block>: block (URI, or the last part of it)
        what --podm <podm>: of this pod manager (ID or name)"""
    option_groups = (inventory.INVENTORY,)

    def take_action(self, args: base.Args) -> base.Table:
        block = self.scheduler(args).block(args.block, args.podm)
        row = {**_cells(block, is_long=True), "Places": cells.PairLines(block.topology)}
        return tuple(row), row


def _cells(block: model.hardware.BlockOverview, *, is_long: bool) -> dict[str, Any]:
    width = output.hardware.RECORD_WIDTH if is_long else output.hardware.WIDTH
    return {
        "Podm": block.podm,
        "Pool": cells.WordLines(block.pools),
        "Block": cells.tail(block.uri),
        "Hardware": output.hardware.devices_cell(block.devices, width),
        "Free": block.slots,
        "Condition": block.condition,
        "Node": cells.WordLines(block.nodes),
        "Type": cells.Words(block.types),
        "URI": block.uri,
    }


class ListDevice(base.PagedLister):
    """Count all and free devices by model."""

    marker_columns = ("Device", "Model")
    nouns, next_step, filters = "devices", NEXT_STEP, FILTERS
    examples = ("--inventory examples/site.json", "--model A100 --podm gpu-east")
    option_groups = (add_filter_options,)

    def take_action(self, args: base.Args) -> base.Table:
        counts = self.log_missing(self.report_scheduler(args).device_counts(block_filter(args)))
        short = words.phrases.short_model
        return ("Device", "Model", "Devices", "Free", "Podms"), [
            {
                "Device": one.kind,
                "Model": one.model and cells.Shown(one.model, short),
                **cells.fields(one, "Devices", "Free", "Podms"),
            }
            for one in counts
        ]


class ListPool(base.PagedLister):
    """List pools and their free resources.

    A pool holds the blocks that can form one node.
    """

    marker_columns = ("Podm", "Pool")
    nouns, next_step, filters = "pools", NEXT_STEP, ("podm",)
    examples = ("--inventory examples/site.json --podm gpu-east", "--long --sort free_gpus:desc")
    arguments = """
        what --podm <podm>: only of this pod manager (ID or name)
        output --long: list more columns"""
    option_groups = (inventory.INVENTORY,)

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["Podm", "Pool", "Free Blocks", "Free Cores", "Free Memory MiB", "Free GPUs"]
        columns += ["Free Drives"]
        if args.long:
            columns += ["Total Blocks", "Total Cores", "Total Memory MiB", "Total GPUs"]
            columns += ["Total Drives", "Free Stocks", "Total Stocks", "Name", "Traits"]
        pools = self.log_missing(self.report_scheduler(args).pools(args.podm))
        return columns, [
            output.hardware.amount_cells(one.amounts)
            | cells.fields(one, "Podm", "Pool", "Name", "Traits")
            for one in pools
        ]
