# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm list, show``, ``podm block``, ``podm device`` and ``podm pool``."""

from __future__ import annotations

import argparse
import fnmatch
import time
from collections.abc import Sequence
from typing import Any, get_args

from valence_sched.errors import AccessDenied, UnknownName, UsageError, unknown_lines
from valence_sched.streams import moves_cursor
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands.podm_registry import connection_cells
from valence_sched_cli.late import model, msgspec, pages, words
from valence_sched_cli.options import inventory, parser as parsing
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import MACHINE, telling_columns

COLUMNS = (
    *("Podm", "Status", "Zone", "Free Cores", "Free Memory MiB", "Free GPUs", "Nodes", "Read At"),
)
LONG_COLUMNS = (
    *("Enabled", "Pools", "Free Blocks", "Total Blocks", "Total Cores", "Total Memory MiB"),
    *("Total GPUs", "Free Accelerators", "Total Accelerators", "Free Drives", "Total Drives"),
    *("Free NICs", "Total NICs", "Free Stocks", "Total Stocks", "Aggregates", "Facts", "Driver"),
    *("Name", "URL"),
)
TRAITS = ("Capabilities", "Traits")
SAME = ("zone", "status", "driver")  # options whose value a field must equal
STALE_S = 600.0  # the age limit of --stale without --max-age


class ListPodm(base.PagedLister):
    """List pod managers and their free resources.

    ``224/432`` is 224 free of 432; a narrow terminal shows the free amount alone.
    """

    nouns, filters = "pod managers", ("zone", "status", "driver", "trait", "aggregate", "stale")
    next_step = "register one with podm create, or name an inventory with --inventory"
    examples = (
        "--inventory examples/site.json --zone east-1",
        "--status Online --sort free_gpus:desc --limit 10",
    )
    arguments = """
        output --capabilities: also list capabilities and traits
        output --long: list more columns
        output --watch [<seconds>]: print the list again at this interval, until Ctrl-C (default:
            10)
        what --zone <zone>: only this availability zone
        what --status: only this status
        what --driver <driver>: only pod managers of this driver
        what --trait <trait>...: only with this trait
        what --aggregate <aggregate>...: only with this aggregate
        what --stale: only pod managers with a reading of unknown age or older than --max-age
            (default: 10m)"""
    option_settings = {
        "status": {"choices": ("Online", "Offline", "Unknown")},
        "aggregate": parsing.nonempty_name,
        "watch": {"nargs": "?", "const": 10.0, "type": parsing.seconds},
    }
    option_groups = (inventory.INVENTORY, inventory.html_option("the inventory and a map of it"))

    def run(self, args: base.Args) -> int:
        while (code := super().run(args)) == 0 and args.watch is not None:
            self.app.stdout.flush()
            try:
                time.sleep(args.watch)
            except KeyboardInterrupt:
                break
            self.forget()
            if moves_cursor(self.app.stdout):
                self.app.stdout.write("\x1b[H\x1b[2J")  # clear the screen
        return code

    def take_action(self, args: base.Args) -> base.Table:
        selection = self.selection(args)
        max_age_s = selection.live.max_age_s
        if args.stale:
            any_age = msgspec.structs.replace(selection.live, max_age_s=None)
            selection = msgspec.structs.replace(selection, live=any_age)
        scheduler = self.report_scheduler(args, selection)
        more = (*(LONG_COLUMNS if args.long else ()), *(TRAITS if args.capabilities else ()))
        podms = self.log_missing(scheduler.podms())
        self._warn_of_unknown([one.podm for one in podms], args)
        listed = []
        for one in podms:
            same = (getattr(args, name) in (None, getattr(one.podm, name)) for name in SAME)
            has = {*args.trait} <= {*one.podm.traits}
            if all(same) and has and {*args.aggregate} <= {*one.podm.aggregates}:
                listed.append(one)
        now, limit_s = self.scheduler_app.now(), STALE_S if max_age_s is None else max_age_s
        ages = {one.podm.id: model.quantity.age_s(one.podm.read_at, now) for one in listed}
        if args.stale:
            fresh = {name for name, age in ages.items() if age is not None and age <= limit_s}
            listed = [one for one in listed if one.podm.id not in fresh]
        with self.page_writer(args) as write:
            if args.html:
                write(pages.hardware.inventory_page(self.read_hardware(scheduler, listed)))
        if self.for_people(args):
            self.closing += words.phrases.usable_lines(listed)
        rows = []
        for one in listed:
            podm = one.podm
            amounts = output.hardware.amount_cells(one.amounts)
            if args.formatter not in MACHINE:
                usable, of_total = not podm.unusable, not args.long
                amounts |= output.hardware.free_cells(one.amounts, usable, of_total)
            amounts |= {"Pools": one.pool_count, "Nodes": len(podm.nodes)}
            known = any(one.amounts.blocks) or one.amounts.stocks
            if podm.read_at is None and not known:  # never read, so unknown
                amounts = dict.fromkeys(amounts)
            status = cells.Shown(podm.status, str if podm.enabled else lambda _: "disabled")
            row = {**_cells(podm), "Status": status, **amounts}
            rows.append(row | {"Read At": cells.time_cell(podm.read_at, ages[podm.id])})
        return telling_columns((*COLUMNS, *more), rows, args, {"Nodes": None}), rows

    def _warn_of_unknown(self, podms: Sequence[model.inventory.LeanPodm], args: base.Args) -> None:
        lines: list[str] = []
        for what, option in (("is in the zone", "zone"), ("was read by the driver", "driver")):
            word = getattr(args, option)
            known = {getattr(podm, option) for podm in podms} - {None}
            lines += unknown_lines(what, () if word is None else (word,), known)
        for what, option in (("has the trait", "trait"), ("is in the aggregate", "aggregate")):
            known = {word for podm in podms for word in getattr(podm, option + "s")}
            lines += unknown_lines(what, getattr(args, option), known)
        for line in lines:
            self.log_line(f"warning: {line}")


def _cells(podm: model.inventory.LeanPodm) -> dict[str, Any]:
    names = ("Name", "Status", "Enabled", "Driver", "URL", "Identity", "Zone", "Aggregates")
    row = cells.fields(podm, *names, "Capabilities", "Traits", "Facts", "Generation")
    return {"Podm": podm.id, **row}


class ShowPodm(base.ShowOne):
    """Show one pod manager, its pools and free resources."""

    examples = ("--inventory examples/site.json mem-1", "gpu-east -f json")
    arguments = "<podm>: pod manager (ID or name)"
    option_groups = (inventory.INVENTORY,)

    def take_action(self, args: base.Args) -> base.Table:
        app, selection = self.scheduler_app, self.selection(args)
        registered = self._registered(args.podm, selection)
        if registered:
            only = msgspec.structs.replace(selection.live, only=(args.podm,))
            selection = msgspec.structs.replace(selection, live=only)
            self.lists_remarks = True
        scheduler = self.scheduler(args, selection)
        overview = scheduler.podm(args.podm)
        podm = overview.podm
        if app.service and overview.live and podm.id == args.podm:
            try:
                found = scheduler.registration(podm.id)
                registered = connection_cells(found.registration, found.source)
            except (AccessDenied, UnknownName):
                pass  # the user is no admin, or the pod manager only reports
        if overview.live or selection.live.state is not None:
            usage = scheduler.block_usage(podm.id)
            registered["Held Blocks"] = cells.ClaimLines(usage.held)
            registered["Unmanaged Blocks"] = cells.WordLines(usage.unmanaged)
        age = model.quantity.age_s(podm.read_at, app.now()) if overview.live else None
        row, out = _cells(podm), output.hardware
        if self.for_people(args):
            amounts: dict[str, Any] = dict(out.bar_cells(overview.amounts, podm.unusable))
        else:
            amounts = out.amount_cells(overview.amounts)

        def node_lines(_uris: Sequence[str]) -> str:
            return "\n".join(node.label for node in podm.nodes)

        row = {
            **{name: row.pop(name) for name in ("Podm", "Name", "Status", "Enabled")},
            **amounts,
            **row,
            "Read At": cells.time_cell(podm.read_at, age, both=True),
            **registered,
            "Pools": out.pools_cell(overview.pools),
            "Nodes": cells.Shown([node.uri for node in podm.nodes], node_lines),
        }
        return tuple(row), row

    def _registered(self, podm: str, selection: model.reading.Selection) -> dict[str, Any]:
        """Return the connection of a pod manager that is registered here, else an empty map."""
        app, live = self.scheduler_app, selection.live
        if app.service or app.sources.named_sources(selection):
            return {}
        for member in app.registry(live.state).members(live):
            if member.registration.name == podm:
                return connection_cells(member.registration, member.source)
        return {}


FILTERS = ("podm", "pool", "model", "free", "type")
NEXT_STEP = "podm list shows which pod managers were read"


def add_filter_options(parser: argparse.ArgumentParser) -> None:
    types = get_args(model.inventory.BlockType)
    text = f"""{inventory.INVENTORY}
what --podm <podm>: only of this pod manager (ID or name)
what --pool <pool>: only of this pool
what --model <words>: only blocks with a device of this model, such as A100
what --free: only blocks that a new node may use now
what --type <type>: only blocks of this type: {", ".join(types)}"""
    parsing.add_options(parser, text, model=parsing.nonempty_name, type={"choices": types})


def block_filter(args: base.Args) -> model.hardware.BlockFilter:
    return model.hardware.BlockFilter(**parsing.given(args, *FILTERS))


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
        rows = [_block_cells(block, is_long=args.long) for block in blocks]
        free = sum(1 for row in rows if row["Free"])
        number = model.quantity.format_count(len(rows), "block")
        self.closing.append(f"{number}, {free:,} of them free")
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
        row = {**_block_cells(block, is_long=True), "Places": cells.PairLines(block.topology)}
        return tuple(row), row


class SetBlock(base.Command):
    """Reserve or taint blocks of a pod manager.

    Decisions leave a reserved block out, and a tainted block unless the request tolerates the
    taint. Nodes and claims that have it already keep it. podm show lists the reserved and tainted
    blocks of a pod manager.
    """

    examples = (
        "GPU-03 --podm gpu-east --reserve 'firmware update'",
        "'GPU-1*' --podm gpu-east --taint team=physics:NoPlace",
    )
    arguments = """
        <block>...: block (URI, the last part of it, or a pattern such as GPU-1*)
        what --podm <podm>: registered pod manager
        what --reserve <reason>: reserve the blocks for this reason
        what --taint <key=value:NoPlace>...: taint the blocks; replaces their taint of this key
            (repeat for several keys)"""
    option_settings = {"podm": {"required": True}, "taint": parsing.parsed_by("need:parse_taint")}
    option_groups = (inventory.STATE,)

    def take_action(self, args: base.Args) -> None:
        if args.reserve is None and not args.taint:
            raise UsageError("nothing to set: name --reserve or --taint")
        taints = parsing.by_name("--taint", ((model.need.taint_key(it), it) for it in args.taint))
        scheduler = self.scheduler(args)
        old = scheduler.registration(args.podm).registration
        uris = [one.uri for one in scheduler.blocks(model.hardware.BlockFilter(podm=args.podm))]
        self.scheduler_app.sources.diagnostics.clear()  # podm show lists them
        known = {*uris, *map(cells.tail, uris)}
        for name in args.block:
            if not fnmatch.filter(known, name):
                raise UnknownName("block", name, known, args.podm)
        change = model.registration.with_marks(old, args.block, args.reserve, taints)
        scheduler.change_registration(old.name, change)


class UnsetBlock(base.Command):
    """Let decisions use reserved or tainted blocks again."""

    examples = ("GPU-03 --podm gpu-east", "'GPU-1*' --podm gpu-east --taint team")
    arguments = """
        <block>...: block or pattern, as it was reserved or tainted
        what --podm <podm>: registered pod manager
        what --taint <key>...: remove the taints of this key, not the reservation"""
    option_settings = {"podm": {"required": True}}
    option_groups = (inventory.STATE,)

    def take_action(self, args: base.Args) -> None:
        scheduler = self.scheduler(args)
        old = scheduler.registration(args.podm).registration
        if args.taint:
            change = model.registration.without_taints(old, args.block, args.taint)
        else:
            change = model.registration.without(old, (), {"reserved": args.block})
        scheduler.change_registration(old.name, change)


def _block_cells(block: model.hardware.BlockOverview, *, is_long: bool) -> dict[str, Any]:
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
