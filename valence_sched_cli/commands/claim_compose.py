# SPDX-License-Identifier: Apache-2.0
"""Claims, composes, dispatches or previews a decision for ``podm schedule`` and ``podm apply``."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.claim import ttl_s
from valence_sched_cli.output.cells import (
    Absent,
    Cell,
    GrantsCell,
    UriTails,
    format_time,
    or_absent,
)
from valence_sched_cli.output.columns import without_redundant
from valence_sched_cli.output.decision import (
    LONG_COLUMNS,
    REDUNDANT,
    BlocksCell,
    ScoreCell,
)

if TYPE_CHECKING:
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import Detail, Report
    from valence_sched.model.lifecycle import ClaimResult, ProvisionResult
    from valence_sched.model.request import Request
    from valence_sched_cli.base import PodmCommand

DISPATCH_COLUMNS = ("Node", "Podm", "Status", "Reference")
DAY_S = 86400.0
MAX_LISTED_PODMS = 3  # in the line about a claim
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")
TIE_COLUMNS = ("Seed", "Request ID")  # by which the same decision is made again


def result_columns(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the columns of nodes or receipts, beside those of the decision."""
    if args.compose:
        return (*NODE_COLUMNS, *TIE_COLUMNS)
    if args.claim:
        return ("Claim", *TIE_COLUMNS)
    return () if args.dispatch is None else (*DISPATCH_COLUMNS, *TIE_COLUMNS)


def with_ties(
    columns: Sequence[str], rows: Sequence[tuple[Any, ...]], request: Request
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return columns and rows with what broke the ties of the decision on a request."""
    return (*columns, *TIE_COLUMNS), [(*row, request.seed, request.id) for row in rows]


def claim(command: PodmCommand, args: argparse.Namespace, request: Request) -> ClaimResult:
    """Decide and claim; note the claim among the closing lines."""
    result = command.scheduler(args).claim(
        request, key=args.key, ttl_s=ttl_s(args), detail=detail_of(args)
    )
    if result.claim is not None:
        if result.decision is None:
            command.closing.append(f"--key {args.key} stands for this claim already")
        command.closing += claim_lines(command, args, result.claim)
    return result


def claim_rows(claim: Claim) -> list[tuple[Any, ...]]:
    """Return a row for each node of a claim; cells as in LONG_COLUMNS, as far as it has them."""
    from valence_sched.model.composition import node_allocations
    from valence_sched.model.decision import GrantRef

    rows = []
    for part, share in node_allocations(claim):
        grants = [GrantRef(uri=it.uri, resource=it.resource, amount=it.amount, unit=it.unit)
                  for it in share.grants]  # fmt: skip
        score = Absent() if share.score is None else ScoreCell(share.score)
        known = (share.node, 1, part.podm, share.pool, score, BlocksCell(share.blocks),
                 GrantsCell(grants))  # fmt: skip
        rows.append((*known, *(Absent() for _ in LONG_COLUMNS[len(known) :])))
    return sorted(rows, key=lambda row: row[0])


def claim_lines(command: PodmCommand, args: argparse.Namespace, claim: Claim) -> list[str]:
    """Return the lines about a claim: what it holds until when, and what can be done with it."""
    from valence_sched.model.quantity import format_count

    program = str(getattr(command.app, "NAME", "")) or "valence-sched"
    where = _option_words(args, "state")
    if claim.state != "HELD":
        return [f"claim {claim.id} is {claim.state}: {program} podm claim show {claim.id}{where}"]
    held = Counter(block=0, amount=0)
    for part in claim.parts:
        held["block"] += part.blocks.total()
        held["amount"] += len(part.amounts)
    what = " and ".join(format_count(number, noun) for noun, number in held.items() if number)
    some = len(claim.podms) > MAX_LISTED_PODMS
    podms = f"{len(claim.podms):,} pod managers" if some else ", ".join(claim.podms)
    compose = where + _option_words(args, "podm_file", "from_catalog", "all_regions")
    return [
        f"claim {claim.id} holds {what or 'nothing'} of {podms}{_until(claim)}",
        f"  compose it:  {program} podm claim compose {claim.id}{compose}",
        f"  let it go:   {program} podm claim release {claim.id}{where}",
    ]


class ExpiryCell(Cell[str | None]):
    """Until when a claim is held: people see the time of day alone where that is soon."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(format_time(claim.expires_at))
        self._soon = (claim.expires_at or 0.0) - claim.created_at < DAY_S

    def human_readable(self) -> str:
        text = self._value or ""
        return text.partition("T")[2] if self._soon else text

    def machine_readable(self) -> str | None:
        return self._value

    def __lt__(self, other: object) -> bool:
        return isinstance(other, ExpiryCell) and (self._value or "~") < (other._value or "~")


def _until(claim: Claim) -> str:
    return "" if claim.expires_at is None else f" until {ExpiryCell(claim).human_readable()}"


def _option_words(args: argparse.Namespace, *names: str) -> str:
    """Return the options that another command must repeat to find the same state."""
    import shlex

    words = []
    for name in names:
        value = getattr(args, name, None)
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value] if value else []:
            words += [option] if one is True else [option, shlex.quote(str(one))]
    return "".join(f" {word}" for word in words)


def detail_of(args: argparse.Namespace) -> Detail:
    """Return how much of the decision the options show."""
    whole = args.explain or args.report or args.html or args.dispatch is not None
    return "report" if whole else "summary"


def node_table(
    args: argparse.Namespace, result: ProvisionResult, request: Request | None = None
) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Return the columns and rows of the nodes; people find URI and claim in the name of a node.

    Those of a ``request`` that was decided now have what broke its ties.
    """
    columns: Sequence[str] = NODE_COLUMNS
    rows = list(node_rows(result))
    if request is not None:
        columns, rows = with_ties(columns, rows, request)
    return without_redundant(columns, rows, args, {**REDUNDANT, "URI": None, "Claim": None})


def node_rows(result: ProvisionResult) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node; cells as in NODE_COLUMNS."""
    for node in sorted(result.nodes, key=lambda node: node.id):
        yield (node.id, "COMPOSED", node.podm, or_absent(node.pool), node.uri,
               UriTails(list(node.blocks)), node.claim)  # fmt: skip
    for going_on in result.still_composing:
        yield (going_on.node, "COMPOSING", going_on.podm, Absent(), Absent(), UriTails([]),
               going_on.claim)  # fmt: skip


def describe_result(
    command: PodmCommand, result: ProvisionResult, count: int, *, waits: bool = True, by: str = ""
) -> None:
    """Tell what did not go as it was decided, and set the exit code.

    That a pod manager goes on composing is expected where the command does not wait. ``by`` says
    what the nodes were chosen by.
    """
    from valence_sched.model.quantity import format_count

    going_on = len(result.still_composing)
    command.closing += [f"tried elsewhere: {note}" for note in result.notes]
    command.closing += [f"not composed: {line}" for line in result.failures]
    for node in result.unverified:
        state = "goes on" if node.still_composing else "not verified"
        command.closing.append(f"{state}: {node.message}")
    goes_on = f", {going_on} going on" if going_on else ""
    command.closing.append(
        f"{len(result.nodes)} of {format_count(count, 'node')} composed{goes_on}{by}"
    )
    allowed = 0 if waits else going_on
    expected = len(result.nodes) + allowed
    if len(result.unverified) > allowed:
        command.exit_code = 7
    elif expected == count:
        command.exit_code = 0
    elif expected:
        command.exit_code = 4
    else:
        command.exit_code = 6 if result.claim_lost else 5 if result.cannot_tell else 1


def dispatch(
    command: PodmCommand, args: argparse.Namespace, report: Report
) -> list[tuple[Any, ...]]:
    """Hand the decision over; return a row for each node, cells as in DISPATCH_COLUMNS."""
    name = args.dispatch.partition("=")[0]
    with command.effects.change("order to", name, "may have been taken", "was taken"):
        receipts = command.scheduler_app.engine().dispatch(
            args.dispatch,
            report,
            key_variable=args.dispatch_key_env,
            timeout_s=args.request_timeout,
        )
    for receipt in receipts:
        state = f"was taken by {name}: {receipt.status} {receipt.reference or ''}"
        for node in receipt.nodes:
            command.effects.note("node", str(node), state)
    command.effects.forget("order to", name)
    podms = {placement.node: placement.chosen.podm for placement in report.placements}
    return [
        (node, podms.get(node, receipt.podm), receipt.status, or_absent(receipt.reference))
        for receipt in receipts
        for node in receipt.nodes
    ]


def preview(command: PodmCommand, args: argparse.Namespace, report: Report) -> None:
    """Tell whether each chosen pod manager says that it would compose its nodes."""
    for answer in command.scheduler(args).preview(report):
        if answer.problem is not None:
            text = f"cannot tell: {answer.problem}"
        elif answer.refusal is not None:
            text = f"would not: {answer.refusal}"
            command.exit_code = command.exit_code or 1
        else:
            text = "would compose it"
        command.closing.append(f"node {answer.node}: {answer.podm} {text}")
