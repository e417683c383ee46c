# SPDX-License-Identifier: Apache-2.0
"""Claims, composes, dispatches or previews a decision for ``podm schedule`` and ``podm apply``."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.types import add_option, add_options, age, seconds
from valence_sched_cli.output.cells import Absent, GrantsCell, UriTails, format_time, or_absent
from valence_sched_cli.output.decision import LONG_COLUMNS, BlocksCell, ScoreCell
from valence_sched_cli.output.progress import StatusLine

if TYPE_CHECKING:
    from valence_sched.model.claim import Claim
    from valence_sched.model.decision import Report
    from valence_sched.model.decision_result import Detail
    from valence_sched.model.lifecycle import ClaimResult, ProvisionResult
    from valence_sched.model.request import Request
    from valence_sched.model.scheduler import Scheduler
    from valence_sched_cli.base import PodmCommand

DISPATCH_COLUMNS = ("Node", "Podm", "Status", "Reference")
DAY_S = 86400.0
MAX_LISTED_PODMS = 3  # in the line about a claim
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")


def add_claim_compose_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that claim, compose, dispatch or preview the decision."""
    modes = parser.add_mutually_exclusive_group()
    add_options(
        modes,
        """
        --claim: hold what was chosen in the state, for --ttl
        --compose: hold it, have the pod managers compose it, and read back that they did
        --dry-run <where>: client: only decide, as without this option; server: also ask the pod
            manager whether it would compose that, where it can be asked
        --dispatch <name=url>: hand the decision to somebody else who composes: webhook=<url> gets
            the report, valence=<url> is a Valence API; nothing is held or composed here
        """,
        dry_run={"choices": ("client", "server")},
    )
    add_option(
        parser,
        "--dispatch-key-env <variable>: environment variable with the key that signs what is "
        "posted to a webhook",
    )
    add_option(parser, "--plan <file>: write a plan that podm apply does later, or refuses")
    add_claim_options(parser)


def _idempotency_key(text: str) -> str:
    if not text.strip():  # as an unset variable of the shell leaves it
        raise argparse.ArgumentTypeError("a word that is not empty, please")
    return text


def add_claim_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the time to live, the time to wait, and the idempotency key."""
    add_options(
        parser,
        """
        --ttl <age>: how long a claim is held, such as 90s, 10m or 1h (default: 10m)
        --key <word>: idempotency key: the same word again gives the same claim or nodes, and no
            others
        """,
        ttl={"type": age, "default": 600.0},
        key={"type": _idempotency_key},
    )
    add_wait_options(parser)


def add_wait_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how long to wait for what a pod manager is asked to do."""
    waiting = parser.add_mutually_exclusive_group()
    add_options(
        waiting,
        """
        --wait <seconds>: how long to wait for a pod manager that goes on composing (default: 300)
        --no-wait: do not wait for it: the claim stays COMPOSING until podm claim reap looks again
        """,
        wait={"type": seconds, "default": 300.0},
        no_wait={"action": "store_const", "dest": "wait", "const": 0.0},
    )


def result_columns(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the columns of nodes or receipts, beside those of the decision."""
    if args.compose:
        return NODE_COLUMNS
    if args.claim:
        return ("Claim",)
    return () if args.dispatch is None else DISPATCH_COLUMNS


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    from valence_sched.errors import UsageError

    acts = args.claim or args.compose or args.dispatch is not None
    if args.plan is not None and acts:
        raise UsageError("--plan: a plan is done later, with podm apply: leave --claim, --compose "
                         "and --dispatch out")  # fmt: skip
    if args.plan in ("-", ""):
        raise UsageError("--plan: standard output is for the rows: name a file")
    if args.dispatch_key_env is not None and args.dispatch is None:
        raise UsageError("--dispatch-key-env: there is nothing to sign without --dispatch")
    several = args.request_file is not None
    if several and (acts or args.plan is not None or args.dry_run == "server"):
        raise UsageError("--request-file: several requests are only decided on: leave --claim, "
                         "--compose, --dispatch, --plan and --dry-run server out")  # fmt: skip


def claim(command: PodmCommand, args: argparse.Namespace, request: Request) -> ClaimResult:
    """Decide and claim; note the claim among the closing lines."""
    result = command.scheduler(args).claim(
        request, key=args.key, ttl_s=args.ttl, detail=detail_of(args)
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
    program = str(getattr(command.app, "NAME", "")) or "valence-sched"
    where = _option_words(args, "state")
    if claim.state != "HELD":
        return [f"claim {claim.id} is {claim.state}: {program} podm claim show {claim.id}{where}"]
    held = Counter(block=0, amount=0)
    for part in claim.parts:
        held["block"] += part.blocks.total()
        held["amount"] += len(part.amounts)
    what = " and ".join(
        f"{number:,} {noun}" + ("s" if number > 1 else "")
        for noun, number in held.items()
        if number
    )
    some = len(claim.podms) > MAX_LISTED_PODMS
    podms = f"{len(claim.podms):,} pod managers" if some else ", ".join(claim.podms)
    compose = where + _option_words(args, "podm_file", "from_catalog", "all_regions")
    return [
        f"claim {claim.id} holds {what or 'nothing'} of {podms}{_until(claim)}",
        f"  compose it:  {program} podm claim compose {claim.id}{compose}",
        f"  let it go:   {program} podm claim release {claim.id}{where}",
    ]


def _until(claim: Claim) -> str:
    """Return until when a claim is held: only the time of day where that is soon."""
    if claim.expires_at is None:
        return ""
    text = format_time(claim.expires_at) or ""
    soon = claim.expires_at - claim.created_at < DAY_S
    return f" until {text.partition('T')[2] if soon else text}"


def _option_words(args: argparse.Namespace, *names: str) -> str:
    """Return the options that another command must repeat to find the same state."""
    words = []
    for name in names:
        value = getattr(args, name, None)
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list) else [value] if value else []:
            words += [option] if one is True else [option, shlex.quote(str(one))]
    return "".join(f" {word}" for word in words)


def detail_of(args: argparse.Namespace) -> Detail:
    """Return how much of the decision the options show."""
    whole = args.explain or args.report or args.dispatch is not None
    return "report" if whole else "summary"


@contextlib.contextmanager
def changing_scheduler(command: PodmCommand, args: argparse.Namespace) -> Iterator[Scheduler]:
    """Yield the scheduler, and show the state of composing."""
    line = StatusLine(command.app.stderr, quiet=command.app.options.verbose_level == 0)
    try:
        yield command.scheduler(args, on_state=lambda claim, state: line.show(f"{claim}: {state}"))
    finally:
        line.clear()


def node_rows(result: ProvisionResult) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node; cells as in NODE_COLUMNS."""
    for node in sorted(result.nodes, key=lambda node: node.id):
        yield (node.id, "COMPOSED", node.podm, or_absent(node.pool), node.uri,
               UriTails(list(node.blocks)), node.claim)  # fmt: skip
    for going_on in result.still_composing:
        yield (going_on.node, "COMPOSING", going_on.podm, Absent(), Absent(), UriTails([]),
               going_on.claim)  # fmt: skip


def describe_result(
    command: PodmCommand, result: ProvisionResult, count: int, *, waits: bool = True
) -> None:
    """Tell what did not go as it was decided, and set the exit code.

    That a pod manager goes on composing is expected where the command does not wait.
    """
    going_on = len(result.still_composing)
    command.closing += [f"tried elsewhere: {note}" for note in result.notes]
    command.closing += [f"not composed: {line}" for line in result.failures]
    for node in result.unverified:
        state = "goes on" if node.still_composing else "not verified"
        command.closing.append(f"{state}: {node.message}")
    goes_on = f", {going_on} going on" if going_on else ""
    command.closing.append(f"{len(result.nodes)} of {count} nodes composed{goes_on}")
    allowed = 0 if waits else going_on
    expected = len(result.nodes) + allowed
    if len(result.unverified) > allowed:
        command.exit_code = 7
    elif expected == count:
        command.exit_code = 0
    elif expected:
        command.exit_code = 4
    else:
        command.exit_code = 6 if result.claim_lost else 1


def dispatch(
    command: PodmCommand, args: argparse.Namespace, report: Report
) -> list[tuple[Any, ...]]:
    """Hand the decision over; return a row for each node, cells as in DISPATCH_COLUMNS."""
    name = args.dispatch.partition("=")[0]
    with command.effects.change("order to", name, "may have been taken", "was taken"):
        receipts = command.scheduler_app.engine().dispatch(
            args.dispatch, report, key_variable=args.dispatch_key_env, timeout_s=args.timeout
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
