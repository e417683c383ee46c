# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm node attach, detach, resize, set, unset, history``."""

from __future__ import annotations

import re

from valence_sched.errors import ClaimLost, UnknownName, UsageError
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.commands import claim as claims
from valence_sched_cli.late import model, words
from valence_sched_cli.options import inventory, request as request_options
from valence_sched_cli.output import cells

COLUMNS = ("Node", "Change", "Block", "Hardware", "Podm", "Power Cycled")
HISTORY_COLUMNS = ("Time", "Event", "Details", "Podm", "Claim")
NODE = "<node>: node (ID or URI)"
TOLERATE = """\
decide --tolerate <key[=value]>...: also attach blocks with this taint; a key alone tolerates any
    value (repeat for several; default: the taints that the request of the node tolerates)"""
DEVICES = request_options.RESOURCES.format("")
BLOCK = "what --block <block>...: this block, by its URI or the last part of it"
AMOUNT = """\
what --amount <amount>...: this memory chunk or volume, by its URI or the last part of it"""
POLICY = f"""\
decide --policy <policy>: name of the policy that chooses the devices (default: default)
{inventory.POLICY_FILE}"""
FORCE = """\
then --force: detach from a running node, although a part is not declared removable"""
CHANGE = f"""\
then --power-cycle: shut the node down for the change, and start it again if it was on
then --dry-run <where>: client (default): choose the blocks and amounts, and change nothing; server:
    also check by reading the pod manager that the change can be done
then --plan <file>: write the chosen blocks and amounts as a plan for podm apply, and change nothing
then --key <word>: idempotency key: a repeated key changes the node only once
{claims.TIMEOUT}"""
_AMOUNT = re.compile("/(MemoryDomains|Storage|StorageServices)/", re.IGNORECASE)
_URI = re.compile(r"(?<!\S)/\S*[^\s,]")


class _ChangeNode(base.ReasonLister):
    """A command that changes a node."""

    option_settings = {
        **claims.OPTION_SETTINGS,
        **request_options.SETTINGS,
        **inventory.DRAIN_SETTINGS,
    }


class AttachNode(_ChangeNode):
    """Attach devices and amounts to a living node.

    Free devices and stocks that the host of the node reaches are chosen, or blocks are named. A
    memory chunk or a volume is created for each amount. The node is read back. Exit codes: 1 error,
    or the pod manager refused; 3 nothing fits; 5 undecided, or unknown whether Ironic uses the
    hardware; 6 another claim or system uses it; 7 the change could not be verified or undone.
    """

    examples = (
        "vs-3f9c0a1b2d4e5f60 --gpu 2xA100",
        "vs-3f9c0a1b2d4e5f60 --resource cxl_memory_mib=524288",
        "vs-3f9c0a1b2d4e5f60 --block GPU-03 --dry-run",
    )
    arguments = f"{NODE}\n{DEVICES}\n{BLOCK}"
    option_groups = (POLICY, TOLERATE, CHANGE, inventory.LIVE)
    known_columns = COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        devices = request_options.device_properties(args)
        if devices is None and not args.block:
            raise UsageError("nothing to attach: name devices such as --gpu 2xA100, or --block")
        change = model.node_change.NodeChange(
            attach=devices,
            attach_blocks=tuple(args.block),
            policy=args.policy,
            tolerations=tuple(dict.fromkeys(args.tolerate)),
            power_cycle=args.power_cycle,
        )
        return _change(self, change)


class DetachNode(_ChangeNode):
    """Detach devices and amounts from a living node.

    Devices and amounts of the node are chosen, or named, or with --idle all go that the request of
    the node does not need. Parts of the host stay. A detached memory chunk or volume is deleted. A
    running node loses a part only if the pod manager declares it removable, or with --power-cycle
    or --force. Exit codes: 1 error, or nothing may be detached now; 5 unknown whether Ironic uses
    the hardware; 6 Ironic uses it, or the site did not drain the node; 7 the change could not be
    verified or undone.
    """

    examples = ("vs-3f9c0a1b2d4e5f60 --block GPU-03", "vs-3f9c0a1b2d4e5f60 --gpu 1 --power-cycle")
    arguments = f"""
        {NODE}
        what --idle: the blocks and amounts that the request of the node does not need
        {FORCE}"""
    option_groups = (DEVICES, BLOCK, AMOUNT, CHANGE, inventory.DRAIN, inventory.LIVE)
    known_columns = COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        devices = request_options.device_properties(args)
        named = devices is not None or args.block or args.amount
        if not named and not args.idle:
            hint = "name --block, --amount, devices such as --gpu 1, or --idle"
            raise UsageError(f"nothing to detach: {hint}")
        if args.idle and named:
            hint = "it chooses what is detached"
            raise UsageError(f"--idle: not with devices, --block or --amount: {hint}")
        change = model.node_change.NodeChange(
            detach=devices,
            detach_blocks=tuple(args.block),
            detach_amounts=tuple(args.amount),
            idle=args.idle,
            force=args.force,
            power_cycle=args.power_cycle,
        )
        return _change(self, change)


class ResizeNode(_ChangeNode):
    """Change a living node so that it fulfils a flavor.

    Devices and amounts are attached and detached. The change is the smallest: blocks and amounts
    that the flavor needs stay. Exit codes: as for podm node attach and podm node detach.
    """

    examples = (
        "vs-3f9c0a1b2d4e5f60 --flavor gpu-large --dry-run",
        "vs-3f9c0a1b2d4e5f60 --flavor small --power-cycle",
    )
    known_columns = COLUMNS
    arguments = f"""
        {NODE}
        what --flavor <flavor>: name of the flavor that the node becomes
        {FORCE}"""
    option_settings = {**_ChangeNode.option_settings, "flavor": {"required": True}}
    option_groups = (
        inventory.FLAVOR_FILE,
        POLICY.replace("default: default", "default: that of the flavor, else default"),
        TOLERATE.replace(
            "the taints that the request of the node tolerates", "those of the flavor"
        ),
        CHANGE,
        inventory.DRAIN,
        inventory.LIVE,
    )

    def take_action(self, args: base.Args) -> base.Table:
        change = model.node_change.NodeChange(
            flavor=args.flavor,
            policy=args.policy,
            tolerations=tuple(dict.fromkeys(args.tolerate)),
            force=args.force,
            power_cycle=args.power_cycle,
        )
        if args.flavor_file and self.scheduler_app.service is not None:
            hint = "omit it, and name a flavor of the service"
            raise UsageError(f"--flavor-file: the service uses its own flavors: {hint}")
        return _change(self, change)


class SetNode(base.Command):
    """Let plans take devices from a node.

    Under a policy with "shrink: last", podm schedule takes blocks from shrinkable nodes of the same
    owner if nothing else is free. A node keeps what its floor needs. podm node show shows the mark.
    """

    examples = ("vs-3f9c0a1b2d4e5f60 --shrinkable --floor small",)
    arguments = f"""
        {NODE}
        what --shrinkable: mark the node as shrinkable
        what --floor <flavor>: flavor that the node keeps (default: its own request)
        then --power-cycle: the node may be shut down and started again for it"""
    option_groups = (inventory.STATE,)

    def take_action(self, args: base.Args) -> None:
        if not args.shrinkable:
            raise UsageError("nothing to set: name --shrinkable")
        mark = model.node_change.NodeChange(
            shrinkable=True, floor=args.floor, power_cycle=args.power_cycle
        )
        self.scheduler(args).change_node(args.node, mark)


class UnsetNode(base.Command):
    """Take no more devices from a node."""

    examples = ("vs-3f9c0a1b2d4e5f60 --shrinkable",)
    arguments = f"""
        {NODE}
        what --shrinkable: remove the mark"""
    option_groups = (inventory.STATE,)

    def take_action(self, args: base.Args) -> None:
        if not args.shrinkable:
            raise UsageError("nothing to unset: name --shrinkable")
        mark = model.node_change.NodeChange(shrinkable=False)
        self.scheduler(args).change_node(args.node, mark)


class HistoryNode(base.Lister):
    """List the events of a node, the oldest first.

    These are the events of its claim, which may have other nodes. They are listed even if the pod
    manager of the node does not answer.
    """

    nouns, next_step = "events", "the scheduler did not compose this node"
    arguments = NODE
    option_groups = (inventory.LIVE,)
    known_columns = HISTORY_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        events = self.scheduler(args).node_record(args.node).events
        columns = HISTORY_COLUMNS[:3] if self.for_people(args) else HISTORY_COLUMNS
        return columns, [
            {
                "Time": cells.format_time(event.at),
                "Event": cells.Shown(event.kind, words.phrases.state_text),
                "Details": cells.Shown(event.words, _tails),
                "Podm": event.podm,
                "Claim": event.claim,
            }
            for event in events
        ]


def apply_plan(command: base.PodmCommand, plan: model.node_change.NodeChangePlan) -> base.Table:
    """Carry out the planned change of a node; ClaimLost if a part of it no longer exists."""
    args = command.args
    scheduler, times = command.scheduler(args), {"key": args.key, "wait_s": claims.wait_s(args)}
    try:
        result = scheduler.change_node(plan.node, plan.change, **times)
    except UnknownName as error:
        raise ClaimLost(f"{error}: plan the change again", plan.podm) from None
    return _table(command, result)


def _change(command: base.PodmCommand, change: model.node_change.NodeChange) -> base.Table:
    args = command.args
    plans: model.node_change.DryRun = bool(args.dry_run or args.plan is not None)
    plans = "server" if args.dry_run == "server" else plans
    if args.key is not None and plans:
        raise UsageError("--key: nothing is changed: omit it, or --dry-run and --plan")
    scheduler, times = command.scheduler(args), {"key": args.key, "wait_s": claims.wait_s(args)}
    result = scheduler.change_node(args.node, change, dry_run=plans, **times)
    if result.fits and args.plan is not None:
        if not result.changes:
            command.closing.append("no plan was written")
        else:
            with command.writing("plan", args.plan):
                plan = model.node_change.plan_change(change, result)
                command.scheduler_app.write_plan(plan, args.plan)
            hint = f"to carry it out, run podm apply {args.plan}"
            command.closing.append(f"plan written: {hint}")
    if result.hazard and not (change.force or change.power_cycle):
        hint = "shut it down, or use --power-cycle or --force"
        command.closing += [f"would be refused: {result.hazard}", hint]
    if result.refusal is not None:
        command.closing.append(words.phrases.check_line(result))
        command.exit_code = 1 if result.refusal else command.exit_code
    return _table(command, result)


def _table(command: base.PodmCommand, result: model.node_change.NodeChangeResult) -> base.Table:
    """Return the blocks of a change as rows; log its outcome, or the reasons if nothing fits."""
    node, args = result.node, command.args
    if not result.fits:
        assert result.decision is not None
        report = result.decision.report
        undecided = report.outcome == "undecided"
        command.exit_code = base.UNDECIDED if undecided else base.NOTHING_FITS
        given = [name for name, value in vars(args).items() if value]
        command.after = [*output.decision.not_chosen(report, given)]
        command.closing += words.decision.summary_lines(result.decision, explain=False)
        return COLUMNS, []
    command.closing.append(words.phrases.change_line(result))
    devices, amount = output.hardware.devices_cell, output.hardware.amount_cell
    attached = [("attach", one.uri, devices(one.devices)) for one in result.attached]
    attached += [("attach", one.uri, amount(one)) for one in result.attached_amounts]
    detached = [("detach", one.uri, devices(one.devices)) for one in result.detached]
    amounts = [("detach", one.uri, amount(one)) for one in result.detached_amounts]
    changes = [*attached, *detached, *amounts]
    if result.no_room:
        command.closing.append(words.phrases.order_line(result))
        changes = [*detached, *attached, *amounts]
    columns = COLUMNS[:4] if command.for_people(args) else COLUMNS
    return columns, [
        {
            "Node": node.id,
            "Change": change,
            "Block": cells.Shown(uri, _name),
            "Hardware": hardware,
            "Podm": node.podm,
            "Power Cycled": result.power_cycled,
        }
        for change, uri, hardware in changes
    ]


def _name(uri: str) -> str:
    """Return the last part of the URI of a block; for an amount, also the parts of its stock."""
    return "/".join(uri.split("/")[-3:]) if _AMOUNT.search(uri) else cells.tail(uri)


def _tails(text: str | None) -> str:
    return _URI.sub(lambda uri: _name(uri[0]), text or "")
