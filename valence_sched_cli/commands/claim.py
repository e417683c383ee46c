# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm claim``, with the options and results of claims."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.late import model, words
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import Setting, given, option_name
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import REDUNDANT, telling_columns

IRONIC = """\
then --no-ironic: do not check whether Ironic uses the hardware: servers of Ironic on it are lost
    (default: check with the Ironic of VALENCE_SCHED_IRONIC_URL, ironic.yaml or the cloud's
    catalogue, and do not change hardware that it uses)"""
TIMEOUT = f"""\
then --timeout <seconds>: how long to wait for an operation of a pod manager (default: 300)
{IRONIC}"""
WAIT = f"""\
then | --wait: wait until the pod manager has composed (default)
then | --no-wait: do not wait: the claim stays COMPOSING until podm claim reap checks it
{TIMEOUT}"""
CLAIM = f"""\
then --ttl <age>: time to live of the claim, such as 90s or 10m, at most 90d (default: 10m)
then --key <word>: idempotency key: a repeated key returns the existing claim or nodes
{WAIT}"""
CLAIM_OR_COMPOSE = f"""\
then | --claim: hold the chosen blocks in the state, for --ttl
then | --compose: hold the blocks, compose the nodes, and verify them
then | --dry-run <where>: client (default): only decide; server: also ask pod managers that support
    it whether they would compose the nodes
then | --dispatch <name=url>: send the decision to an external controller, which composes the nodes;
    this scheduler claims nothing. webhook=<url> receives the report, valence=<url> is a Valence API
then --dispatch-key-env <variable>: environment variable with the key that signs webhook requests
then --plan <file>: write a plan for podm apply
{CLAIM}"""


def _idempotency_key(text: str) -> str:
    if not text.strip():  # for example from an unset shell variable
        raise argparse.ArgumentTypeError("must not be empty")
    return text


OPTION_SETTINGS: Mapping[str, Setting] = {
    "key": _idempotency_key,
    "dry_run": {"choices": ("client", "server"), "nargs": "?", "const": "client"},
}


def ttl_s(args: base.Args) -> float:
    """Return the time to live of a claim in seconds; UsageError beyond the limits of a service."""
    ttl_s = model.claim.TTL_S if args.ttl is None else float(args.ttl)
    longest_s = model.claim.LONGEST_TTL_S
    if not 1 <= ttl_s <= longest_s:
        raise UsageError(f"--ttl: must be 1s to {longest_s / 86_400:g}d")
    return ttl_s


def wait_s(args: base.Args) -> float:
    """Return the seconds to wait for a pod manager; UsageError for contradictory options."""
    if getattr(args, "no_wait", False):
        if args.timeout is not None:
            raise UsageError("--timeout: not with --no-wait")
        return 0.0
    return model.claim.WAIT_S if args.timeout is None else float(args.timeout)


def refuse_idle(args: base.Args, *, holds: bool, composes: bool) -> None:
    """Raise UsageError for an option that has no effect because nothing is held or composed."""
    waiting = ("timeout", "wait", "no_wait", "no_ironic")
    for needed, names, hint in (
        (holds, ("ttl", "key", *waiting), "nothing is held or composed: add --claim or --compose"),
        (composes, waiting, "nothing is composed: add --compose"),
    ):
        idle = [name for name in names if getattr(args, name) not in (None, False)]
        if idle and not needed:
            raise UsageError(f"{', '.join(map(option_name, idle))}: {hint}")


def check_options(args: base.Args) -> None:
    acts = args.claim or args.compose or args.dispatch is not None
    if args.plan is not None and acts:
        hint = "omit --claim, --compose and --dispatch"
        raise UsageError(f"--plan: podm apply carries the plan out later: {hint}")
    if args.dispatch_key_env is not None and args.dispatch is None:
        raise UsageError("--dispatch-key-env: only with --dispatch")
    wait_s(args)
    refuse_idle(args, holds=args.claim or args.compose, composes=args.compose)
    plans = args.plan is not None or args.dry_run == "server"
    if args.request_file is not None and (acts or plans):
        hint = "omit --claim, --compose, --dispatch, --plan and --dry-run=server"
        raise UsageError(f"--request-file: only for decisions: {hint}")


DISPATCH_COLUMNS = ("Node", "Podm", "Status", "Reference")
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")
TIE_COLUMNS = ("Seed", "Request ID")  # the columns that reproduce a decision


def tie_cells(request: model.request.Request) -> dict[str, Any]:
    return {"Seed": request.seed, "Request ID": request.id}


def claim_lines(command: base.PodmCommand, claim: model.claim.Claim) -> list[str]:
    """Return the lines about a claim: its resources, its expiry, and the next commands."""
    podm_claim = f"{getattr(command.app, 'NAME', '') or 'valence-sched'} podm claim"

    def options(*names: str) -> str:  # the options with which another command finds the claim
        found = []
        for name in names:
            value, option = getattr(command.args, name, None), f" --{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value] if value else []:
                found.append(option if one is True else f"{option} {shlex.quote(str(one))}")
        return "".join(found)

    if claim.state != "HELD":
        state = words.phrases.state_text(claim.state)
        return [f"claim {claim.id} is {state}: {podm_claim} show {claim.id}{options('state')}"]
    places = options("state", "podm_file", "from_catalog", "all_regions")
    return [
        words.phrases.held_line(claim),
        f"  compose it:  {podm_claim} compose {claim.id}{places}",
        f"  release it:  {podm_claim} release {claim.id}{options('state')}",
    ]


def expiry_cell(claim: model.claim.Claim) -> cells.Amount[str] | None:
    """Return the cell of the expiry of a claim; people see no date if the claim expires soon."""
    if (at := cells.format_time(claim.expires_at)) is None:
        return None
    return cells.Amount(at, lambda _: words.phrases.expiry_text(claim))


def node_table(
    command: base.PodmCommand,
    result: model.lifecycle.ProvisionResult,
    count: int,
    by: str = "",
    request: model.request.Request | None = None,
) -> base.Table:
    """Return nodes as rows with the seed of the ``request``; log deviations; set the exit code."""
    args, ties = command.args, tie_cells(request) if request else {}
    waits = wait_s(args) > 0
    composing, failed = len(result.still_composing), len(result.unverified)
    command.closing += words.phrases.composed_lines(result, count, by)
    allowed = 0 if waits else composing
    if failed > allowed:
        command.exit_code = 7
    elif expected := len(result.nodes) + allowed:
        command.exit_code = 0 if expected == count else 4
    else:
        command.exit_code = 6 if result.claim_lost else 5 if result.use_unknown else 1
    found: list[Any] = []
    for node in sorted(result.nodes, key=lambda node: node.id):
        blocks = cells.UriTails(list(node.blocks))
        found.append((node.id, "COMPOSED", node.podm, node.pool, node.uri, blocks, node.claim))
    for one in result.still_composing:
        found.append((one.node, "COMPOSING", one.podm, None, None, cells.UriTails([]), one.claim))
    rows = [{**dict(zip(NODE_COLUMNS, row, strict=True)), **ties} for row in found]
    redundant = {**REDUNDANT, "URI": None, "Claim": None}
    return telling_columns((*NODE_COLUMNS, *ties), rows, args, redundant), rows


def dispatch(command: base.PodmCommand, report: model.decision.Report) -> list[dict[str, Any]]:
    """Send the decision; return a row for each node, with the cells of DISPATCH_COLUMNS."""
    args, name = command.args, command.args.dispatch.partition("=")[0]
    key, timeout_s = args.dispatch_key_env, args.request_timeout
    with command.effects.change("order to", name, "may have been accepted", "was accepted"):
        engine = command.scheduler_app.engine()
        receipts = engine.dispatch(args.dispatch, report, key_variable=key, timeout_s=timeout_s)
    podms = {placement.node: placement.chosen.podm for placement in report.placements}
    rows = []
    for one in receipts:
        state = f"was accepted by {name}: {one.status} {one.reference or ''}"
        for node in one.nodes:
            command.effects.note("node", str(node), state)
            row = (node, podms.get(node, one.podm), one.status, one.reference)
            rows.append(dict(zip(DISPATCH_COLUMNS, row, strict=True)))
    command.effects.forget("order to", name)
    return rows


COLUMNS = (
    *("ID", "State", "Owner", "Group", "Key", "Created At", "Expires At", "Note", "Podms"),
    *("Nodes", "Blocks", "Amounts"),
)


class ListClaim(base.PagedLister):
    """List claims with their owner, blocks and expiry."""

    marker_columns = ("ID",)
    nouns, next_step, filters = "claims", "podm schedule --claim makes one", ("podm", "owner")
    arguments = """
        what --podm <podm>: only of this pod manager
        what --owner <owner>: only of this owner
        what --all: also claims that have ended
        output --long: list more columns"""
    option_groups = (inventory.STATE, inventory.STRICT_LIST)

    def take_action(self, args: base.Args) -> base.Table:
        columns = ["ID", "State", "Owner", "Podms", "Nodes", "Expires At"]
        if args.long:
            columns += ["Created At", "Key", "Blocks", "Note"]
        scheduler, which = self.report_scheduler(args, reads=False), given(args, "podm", "owner")
        claims = self.log_missing(scheduler.claims(**which, ended=args.all))
        return columns, [{**_cells(claim), "Expires At": expiry_cell(claim)} for claim in claims]


class ShowClaim(base.ShowOne):
    """Show one claim, its held resources and its history."""

    arguments = "<claim>: claim (ID)"

    def take_action(self, args: base.Args) -> base.Table:
        record = self.scheduler(args).claim_record(args.claim)
        nodes = cells.WordLines([node.uri for node in record.nodes])
        more = {"Composed Nodes": nodes, "Events": event_cell(record.events)}
        return (*COLUMNS, *more), _cells(record.claim) | more


class ComposeClaim(base.Lister):
    """Compose the nodes that a claim holds.

    The pod managers compose the nodes, and each node is read back. No alternative is tried: if a
    pod manager refuses a node of the claim, the other nodes are removed. Exit codes: 0 composed; 1
    error, or nothing was composed; 4 composed in part; 5 unknown whether Ironic uses the hardware;
    6 another system uses a block now; 7 a composed node could not be verified, or output failed.
    """

    arguments = "<claim>: claim (ID)"
    option_groups = (WAIT, inventory.LIVE)
    known_columns = NODE_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        wait, scheduler = wait_s(args), self.scheduler(args)
        claim = scheduler.claim_record(args.claim).claim
        result = scheduler.compose_claim(claim.id, wait_s=wait)
        return node_table(self, result, claim.nodes)


class ReleaseClaim(base.Command):
    """Release claims.

    Their blocks are free again immediately. Claims that have ended or expired are not changed.
    """

    arguments = "<claim>...: claim (ID; repeat for several)"

    def take_action(self, args: base.Args) -> None:
        self.log_errors(self.scheduler(args).release(args.claim))


class RenewClaim(base.ShowOne):
    """Change the expiry of a held claim."""

    arguments = """
        <claim>: claim (ID)
        --ttl <age>=10m: time from now, such as 30s or 10m, at most 90d"""
    known_columns = COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        claim = self.scheduler(args).renew(args.claim, ttl_s(args))
        return COLUMNS, _cells(claim)


class ReapClaim(base.Lister):
    """Reconcile claims and nodes with the pod managers.

    Expired claims are released. An interrupted claim becomes COMPOSED if its node exists, else it
    is released. Records of nodes that are gone and of claims that ended long ago are deleted. Exit
    codes: 5 if it is unknown whether Ironic uses the hardware, 6 if it does.
    """

    arguments = """
        then --dry-run: print what would be done, and change nothing
        then --keep <age>=30d: delete ended claims and decisions older than this"""
    option_groups = (IRONIC, inventory.LIVE)
    known_columns = ("Kind", "ID", "Podm", "Done")

    def take_action(self, args: base.Args) -> base.Table:
        scheduler = self.scheduler(args)
        result = scheduler.reconcile(dry_run=args.dry_run, keep_s=args.keep)
        rows = [(action.kind, action.id, action.podm, action.done) for action in result.actions]
        self.exit_code = max((action.exit_code for action in result.actions), default=0)
        counts = (("claims", result.forgotten_claims), ("decisions", result.forgotten_decisions))
        rows += [(kind, "", "", f"deleted {n} older than --keep") for kind, n in counts if n]
        self.closing += words.phrases.skipped_lines(result.composing)
        if not rows and not result.composing:
            self.closing.append("no changes: claims and nodes agree with their pod managers")
        return self.known_columns, rows


def _cells(claim: model.claim.Claim) -> dict[str, Any]:
    parts = claim.parts
    amounts = {f"{part.podm} {uri}": n for part in parts for uri, n in part.amounts.items()}
    return {
        **cells.fields(claim, "ID", "Owner", "Group", "Key", "Note", "Nodes"),
        "State": cells.state_cell(claim.state),
        "Created At": cells.format_time(claim.created_at),
        "Expires At": cells.format_time(claim.expires_at),
        "Podms": cells.Words(claim.podms),
        "Blocks": cells.WordLines([f"{part.podm} {uri}" for part in parts for uri in part.blocks]),
        "Amounts": cells.PairLines(amounts),
    }


def event_cell(events: Sequence[model.lifecycle.Event]) -> cells.Shown[Any]:
    def lines(kind: Callable[[str], str]) -> list[str]:
        return [f"{cells.format_time(event.at)} {kind(event.kind)}" for event in events]

    return cells.Shown(lines(str), lambda _: "\n".join(lines(words.phrases.state_text)))
