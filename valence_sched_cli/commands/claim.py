# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm claim list, show, compose, release, renew, reap``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base, paging
from valence_sched_cli.commands import claim_compose
from valence_sched_cli.options import claim as claim_options
from valence_sched_cli.options import inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option, age
from valence_sched_cli.output.cells import PairLines, WordLines, Words, format_time, or_absent

if TYPE_CHECKING:
    from valence_sched.model.claim import Claim
    from valence_sched.model.lifecycle import Event


COLUMNS = (
    "ID", "State", "Owner", "Group", "Key", "Created At", "Expires At", "Note", "Podms",
    "Nodes", "Blocks", "Amounts",
)  # fmt: skip
MAX_LISTED_CLAIMS = 3  # in the lines about those that are left alone


class ListClaim(paging.PagedLister):
    """List claims: for whom, of what and until when."""

    through_service = True

    marker_columns = ("ID",)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        what = section(parser, "what")
        add_option(what, "--podm <podm>: only of this pod manager")
        add_option(what, "--owner <owner>: only of this owner")
        add_option(what, "--all: also claims that have ended")
        add_option(section(parser, "output"), "--long: list more columns")
        inventory.add_state_option(parser)
        inventory.add_strict_list_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        columns = ["ID", "State", "Owner", "Podms", "Nodes", "Expires At"]
        if parsed_args.long:
            columns += ["Created At", "Key", "Blocks", "Note"]
        claims = self.list_scheduler(parsed_args).claims(
            podm=parsed_args.podm, owner=parsed_args.owner, ended=parsed_args.all
        )
        self.tell_missing_of(claims, "claims", strict=parsed_args.strict)
        rows = []
        for claim in claims:
            cells = dict(zip(COLUMNS, _cells(claim), strict=True))
            cells["Expires At"] = claim_compose.ExpiryCell(claim)
            rows.append(tuple(cells[column] for column in columns))
        return columns, rows


class ShowClaim(base.ShowOne):
    """Show one claim, what it holds and its history."""

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<claim>: claim (ID)")
        inventory.add_state_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        record = self.scheduler(parsed_args).claim_record(parsed_args.claim)
        nodes = WordLines([node.uri for node in record.nodes])
        columns = (*COLUMNS, "Composed Nodes", "Events")
        return columns, (*_cells(record.claim), nodes, event_cell(record.events))


class ComposeClaim(base.Lister):
    """Compose the nodes that a claim holds.

    The pod managers compose them, and it is read back that they did. Nothing else is composed in
    its place: where a pod manager refuses a node of the claim, none is left of the others. Exit
    codes: 0 composed; 1 error, or nothing was composed; 4 composed in part; 5 Ironic does not tell
    whether it uses the hardware; 6 another system uses a block by now; 7 what was composed could
    not be verified, or not all of it be told.
    """

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<claim>: claim (ID)")
        claim_options.add_wait_options(parser)
        inventory.add_live_options(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return claim_compose.NODE_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        wait_s = claim_options.wait_s(parsed_args)
        scheduler = self.scheduler(parsed_args)
        claim = scheduler.claim_record(parsed_args.claim).claim
        result = scheduler.compose_claim(claim.id, wait_s=wait_s)
        claim_compose.describe_result(self, result, claim.nodes, waits=wait_s > 0)
        return claim_compose.node_table(parsed_args, result)


class ReleaseClaim(base.Command):
    """Release claims.

    What they hold is free for others at once. A claim that has ended, also by itself, is left as
    it is.
    """

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<claim>...: claim (ID; repeat for several)")
        inventory.add_state_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.tell_errors(self.scheduler(parsed_args).release(parsed_args.claim))


class RenewClaim(base.ShowOne):
    """Let a claim that is held end later, or sooner."""

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<claim>: claim (ID)")
        add_option(
            parser,
            "--ttl <age>: how long from now, such as 30s, 10m, 2h or 1d (default: 10m)",
            type=age,
            default=600.0,
        )
        inventory.add_state_option(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        claim = self.scheduler(parsed_args).renew(parsed_args.claim, parsed_args.ttl)
        return COLUMNS, _cells(claim)


class ReapClaim(base.Lister):
    """Reconcile claims and nodes with the pod managers.

    Claims whose time is over are freed. A claim that died while it was being composed becomes
    its node where that is there, and is freed where nothing is. Nodes that went are forgotten,
    and so is what ended long ago. Exit codes: 5 when something is left because Ironic does not
    tell whether it uses the hardware, 6 when it does.
    """

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        then = section(parser, "then")
        add_option(then, "--dry-run: say what would be done, and do nothing")
        add_option(
            then,
            "--keep <age>: forget claims that ended, and decisions, longer ago than this (default: "
            "30d)",
            type=age,
            default=30 * 86400.0,
        )
        claim_options.add_ironic_option(parser)
        inventory.add_live_options(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return ("Kind", "ID", "Podm", "Done")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        scheduler = self.scheduler(parsed_args)
        result = scheduler.reconcile(dry_run=parsed_args.dry_run, keep_s=parsed_args.keep)
        rows = [(action.kind, action.id, action.podm, action.done) for action in result.actions]
        self.exit_code = max((action.exit_code for action in result.actions), default=0)
        counts = (("claims", result.forgotten_claims), ("decisions", result.forgotten_decisions))
        rows += [(kind, "", "", f"forgot {n} that ended long ago") for kind, n in counts if n]
        self.closing += _composing_lines(result.composing)
        return self.column_names(parsed_args), rows


def _cells(claim: Claim) -> tuple[Any, ...]:
    amounts = {f"{part.podm} {uri}": amount
               for part in claim.parts for uri, amount in part.amounts.items()}  # fmt: skip
    return (
        claim.id,
        claim.state,
        or_absent(claim.owner),
        or_absent(claim.group),
        or_absent(claim.key),
        or_absent(format_time(claim.created_at)),
        or_absent(format_time(claim.expires_at)),
        or_absent(claim.note),
        Words(claim.podms),
        claim.nodes,
        WordLines([f"{part.podm} {uri}" for part in claim.parts for uri in part.blocks]),
        PairLines(amounts),
    )


def _composing_lines(claims: Sequence[Claim]) -> list[str]:
    """Return the lines about claims that are left alone, as something may be composing them."""
    lines = []
    for claim in claims[:MAX_LISTED_CLAIMS]:
        until = claim_compose.ExpiryCell(claim).human_readable()
        lines.append(
            f"left alone: claim {claim.id} is being composed until {until}: if nothing composes it "
            f"any more, run podm claim renew {claim.id} --ttl 1s, and reap again"
        )
    more = len(claims) - len(lines)
    return [*lines, f"left alone: {more:,} more: see podm claim list"] if more else lines


def event_cell(events: Sequence[Event]) -> WordLines:
    """Return the cell of what happened to a claim."""
    return WordLines([f"{format_time(event.at)} {event.kind}" for event in events])
