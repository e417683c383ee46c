# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm block list, show``, ``podm pool list`` and ``podm device list``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any, get_args

from valence_sched_cli import base, paging
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_option, add_options
from valence_sched_cli.output.cells import PairLines, WordLines, Words, or_absent
from valence_sched_cli.output.hardware import DevicesCell, ModelCell, amount_cells

if TYPE_CHECKING:
    from valence_sched.model.hardware import BlockFilter, BlockOverview


def _add_filter_options(parser: argparse.ArgumentParser) -> None:
    from valence_sched.model.inventory import BlockType

    inventory.add_inventory_options(parser)
    add_options(
        parser,
        """
        --podm <podm>: only of this pod manager (ID or name)
        --pool <pool>: only of this pool
        --model <words>: only what has a device of this model, as in A100
        --free: only what a node may use now
        """,
    )
    add_option(parser, "--type: only blocks of this type", choices=get_args(BlockType))


def _filter(parsed_args: argparse.Namespace) -> BlockFilter:
    from valence_sched.model.hardware import BlockFilter

    return BlockFilter(podm=parsed_args.podm, pool=parsed_args.pool, type=parsed_args.type,
                       model=parsed_args.model, free=parsed_args.free)  # fmt: skip


class ListBlock(paging.PagedLister):
    """List blocks: what each is made of, how often it can still be used, and which node has it."""

    marker_columns = ("Podm", "Block")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_filter_options(parser)
        add_option(parser, "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["Podm", "Block", "Hardware", "Free", "Node"]
        columns += ["Pool", "Type", "URI"] if parsed_args.long else []
        blocks = self.scheduler(parsed_args).blocks(_filter(parsed_args))
        rows = [tuple(_cells(one)[column] for column in columns) for one in blocks]
        free = sum(1 for row in rows if row[columns.index("Free")])
        self.closing.append(f"{len(rows):,} blocks, {free:,} of them free")
        return columns, rows


class ShowBlock(base.ShowOne):
    """Show one block: where it is, what it is made of, and which nodes use it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        add_option(parser, "<block>: block (URI, or the last part of it)")
        add_option(parser, "--podm <podm>: of this pod manager (ID or name)")

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
        "Node": WordLines(block.nodes),
        "Type": Words(block.types),
        "URI": block.uri,
    }


class ListPool(paging.PagedLister):
    """List pools, the regions in which one node can be made, and what is free in each."""

    marker_columns = ("Podm", "Pool")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        add_option(parser, "--podm <podm>: only of this pod manager (ID or name)")
        add_option(parser, "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["Podm", "Pool", "Free Blocks", "Free Cores", "Free Memory MiB", "Free GPUs",
                   "Free Drives"]  # fmt: skip
        if parsed_args.long:
            columns += [
                "Total Blocks", "Total Cores", "Total Memory MiB", "Total GPUs", "Total Drives",
                "Free Stocks", "Total Stocks", "Name", "Traits",
            ]  # fmt: skip
        rows = []
        for one in self.scheduler(parsed_args).pools(parsed_args.podm):
            cells = {"Podm": one.podm, "Pool": one.pool, "Name": or_absent(one.name),
                     "Traits": WordLines(one.traits), **amount_cells(one.amounts)}  # fmt: skip
            rows.append(tuple(cells[column] for column in columns))
        return columns, rows


class ListDevice(paging.PagedLister):
    """Count devices by model: how many there are, how many are free, on how many pod managers."""

    marker_columns = ("Device", "Model")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_filter_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        counts = self.scheduler(parsed_args).device_counts(_filter(parsed_args))
        return ("Device", "Model", "Devices", "Free", "Podms"), [
            (one.kind, ModelCell(one.model), or_absent(one.devices), or_absent(one.free), one.podms)
            for one in counts
        ]
