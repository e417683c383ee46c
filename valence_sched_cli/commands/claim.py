# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm claim list, show, compose, release, renew, reap``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.late import model, words
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory
from valence_sched_cli.options.parser import given
from valence_sched_cli.output import cells
from valence_sched_cli.output.table import REDUNDANT, telling_columns

DISPATCH_COLUMNS = ("Node", "Podm", "Status", "Reference")
DAY_S = 86400.0
MAX_LISTED_PODMS = 3  # in the line about a claim
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")
TIE_COLUMNS = ("Seed", "Request ID")  # the columns that reproduce a decision


def tie_cells(request: model.request.Request) -> dict[str, Any]:
    """Return the seed and the request ID that broke ties, by TIE_COLUMNS."""
    return {"Seed": request.seed, "Request ID": request.id}


def claim_lines(command: base.PodmCommand, claim: model.claim.Claim) -> list[str]:
    """Return the lines about a claim: its resources, its expiry, and the next commands."""
    podm_claim = f"{getattr(command.app, 'NAME', '') or 'valence-sched'} podm claim"

    def options(*names: str) -> str:  # that another command needs to find the same state
        found = []
        for name in names:
            value, option = getattr(command.args, name, None), f" --{name.replace('_', '-')}"
            for one in value if isinstance(value, list) else [value] if value else []:
                found.append(option if one is True else f"{option} {shlex.quote(str(one))}")
        return "".join(found)

    if claim.state != "HELD":
        state = words.phrases.state_text(claim.state)
        return [f"claim {claim.id} is {state}: {podm_claim} show {claim.id}{options('state')}"]
    blocks = sum(part.blocks.total() for part in claim.parts)
    amounts = sum(len(part.amounts) for part in claim.parts)
    held = ((blocks, "block"), (amounts, "amount"))
    what = " and ".join(cells.format_count(number, noun) for number, noun in held if number)
    some = len(claim.podms) > MAX_LISTED_PODMS
    podms = f"{len(claim.podms):,} pod managers" if some else ", ".join(claim.podms)
    until = "" if claim.expires_at is None else f" until {ExpiryCell(claim)}"
    places = options("state", "podm_file", "from_catalog", "all_regions")
    return [
        f"claim {claim.id} holds {what or 'nothing'} on {podms}{until}",
        f"  compose it:  {podm_claim} compose {claim.id}{places}",
        f"  release it:  {podm_claim} release {claim.id}{options('state')}",
    ]


class ExpiryCell(cells.Shown[str | None]):
    """The end of a claim: people see only the time of day if it is soon."""

    def __init__(self, claim: model.claim.Claim) -> None:
        soon = (claim.expires_at or 0.0) - claim.created_at < DAY_S
        people: Any = (lambda at: at.partition("T")[2]) if soon else str
        super().__init__(cells.format_time(claim.expires_at), lambda at: people(at) if at else "")

    def __lt__(self, other: object) -> bool:
        return isinstance(other, ExpiryCell) and (self._value or "~") < (other._value or "~")


def node_table(
    command: base.PodmCommand,
    result: model.lifecycle.ProvisionResult,
    count: int,
    by: str = "",
    request: model.request.Request | None = None,
) -> base.Table:
    """Return the nodes as a table; report deviations, and set the exit code.

    ``by`` is the decision on a ``request`` in this run, whose tie columns the rows have.
    """
    args, ties = command.args, tie_cells(request) if request else {}
    waits = claim_options.wait_s(args) > 0
    composing, failed = len(result.still_composing), len(result.unverified)
    command.closing += [f"warning: {note}" for note in result.notes]
    command.closing += [f"not composed: {line}" for line in result.failures]
    for lost in result.unverified:
        word = "still composing" if lost.still_composing else "not verified"
        command.closing.append(f"{word}: {lost.message}")
    goes_on = f", {composing} still composing" if composing else ""
    nodes = cells.format_count(count, "node")
    command.closing.append(f"{len(result.nodes)} of {nodes} composed{goes_on}{by}")
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
    """Send the decision; return a row for each node, cells by DISPATCH_COLUMNS."""
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
MAX_LISTED_CLAIMS = 3  # in the lines about claims that are skipped


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
        return columns, [{**_cells(claim), "Expires At": ExpiryCell(claim)} for claim in claims]


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
    option_groups = (claim_options.WAIT, inventory.LIVE)
    known_columns = NODE_COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        wait_s, scheduler = claim_options.wait_s(args), self.scheduler(args)
        claim = scheduler.claim_record(args.claim).claim
        result = scheduler.compose_claim(claim.id, wait_s=wait_s)
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
        --ttl <age>=10m: time from now, such as 30s, 10m, 2h or 1d (default: 10m)"""
    known_columns = COLUMNS

    def take_action(self, args: base.Args) -> base.Table:
        claim = self.scheduler(args).renew(args.claim, args.ttl)
        return COLUMNS, _cells(claim)


class ReapClaim(base.Lister):
    """Reconcile claims and nodes with the pod managers.

    Expired claims are released. An interrupted claim becomes COMPOSED if its node exists, else it
    is released. Records of nodes that are gone and of claims that ended long ago are deleted. Exit
    codes: 5 if it is unknown whether Ironic uses the hardware, 6 if it does.
    """

    arguments = """
        then --dry-run: print what would be done, and change nothing
        then --keep <age>=30d: delete ended claims and decisions older than this (default: 30d)"""
    option_groups = (claim_options.IRONIC, inventory.LIVE)
    known_columns = ("Kind", "ID", "Podm", "Done")

    def take_action(self, args: base.Args) -> base.Table:
        scheduler = self.scheduler(args)
        result = scheduler.reconcile(dry_run=args.dry_run, keep_s=args.keep)
        rows = [(action.kind, action.id, action.podm, action.done) for action in result.actions]
        self.exit_code = max((action.exit_code for action in result.actions), default=0)
        counts = (("claims", result.forgotten_claims), ("decisions", result.forgotten_decisions))
        rows += [(kind, "", "", f"deleted {n} older than --keep") for kind, n in counts if n]
        for claim in result.composing[:MAX_LISTED_CLAIMS]:
            left = f"skipped: claim {claim.id} is being composed until {ExpiryCell(claim)}"
            hint = f"run podm claim renew {claim.id} --ttl 1s, and reap again"
            self.closing.append(f"{left}: if its command no longer runs, {hint}")
        if (more := len(result.composing) - MAX_LISTED_CLAIMS) > 0:
            self.closing.append(f"skipped: {more:,} more: see podm claim list")
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
    """Return the cell of a claim's history."""

    def lines(kind: Callable[[str], str]) -> list[str]:
        return [f"{cells.format_time(event.at)} {kind(event.kind)}" for event in events]

    return cells.Shown(lines(str), lambda _: "\n".join(lines(words.phrases.state_text)))
