# SPDX-License-Identifier: Apache-2.0
"""Claims, composes, dispatches or previews a decision for ``podm schedule`` and ``podm apply``."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.types import age, seconds
from valence_sched_cli.output.cells import Absent, UriTails, or_absent
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
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")


def add_claim_compose_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that claim, compose, dispatch or preview the decision."""
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument(
        "--claim", action="store_true", help="hold what was chosen in the state, for --ttl"
    )
    modes.add_argument(
        "--compose",
        action="store_true",
        help="hold it, have the pod managers compose it, and read back that they did",
    )
    modes.add_argument(
        "--dry-run",
        metavar="<where>",
        choices=("client", "server"),
        help="client: only decide, as without this option; server: also ask the pod manager "
        "whether it would compose that, where it can be asked",
    )
    modes.add_argument(
        "--dispatch",
        metavar="<name=url>",
        help="hand the decision to somebody else who composes: webhook=<url> gets the report, "
        "valence=<url> is a Valence API; nothing is held or composed here",
    )
    parser.add_argument(
        "--dispatch-key-env",
        metavar="<variable>",
        help="environment variable with the key that signs what is posted to a webhook",
    )
    parser.add_argument(
        "--plan", metavar="<file>", help="write a plan that podm apply does later, or refuses"
    )
    add_claim_options(parser)


def _idempotency_key(text: str) -> str:
    if not text.strip():  # as an unset variable of the shell leaves it
        raise argparse.ArgumentTypeError("a word that is not empty, please")
    return text


def add_claim_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the time to live, the time to wait, and the idempotency key."""
    parser.add_argument(
        "--ttl",
        metavar="<age>",
        type=age,
        default=600.0,
        help="how long a claim is held, such as 90s, 10m or 1h (default: 10m)",
    )
    parser.add_argument(
        "--key",
        metavar="<word>",
        type=_idempotency_key,
        help="idempotency key: the same word again gives the same claim or nodes, and no others",
    )
    waiting = parser.add_mutually_exclusive_group()
    waiting.add_argument(
        "--wait",
        metavar="<seconds>",
        type=seconds,
        default=300.0,
        help="how long to wait for a pod manager that goes on composing (default: 300)",
    )
    waiting.add_argument(
        "--no-wait",
        action="store_const",
        dest="wait",
        const=0.0,
        help="do not wait for it: the claim stays COMPOSING until podm claim reap looks again",
    )


def result_columns(parsed_args: argparse.Namespace) -> tuple[str, ...]:
    """Return the columns of nodes or receipts, beside those of the decision."""
    if parsed_args.compose:
        return NODE_COLUMNS
    return () if parsed_args.dispatch is None else DISPATCH_COLUMNS


def check_options(parsed_args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    from valence_sched.errors import UsageError

    acts = parsed_args.claim or parsed_args.compose or parsed_args.dispatch is not None
    if parsed_args.plan is not None and acts:
        raise UsageError("--plan: a plan is done later, with podm apply: leave --claim, --compose "
                         "and --dispatch out")  # fmt: skip
    if parsed_args.plan in ("-", ""):
        raise UsageError("--plan: standard output is for the rows: name a file")
    if parsed_args.dispatch_key_env is not None and parsed_args.dispatch is None:
        raise UsageError("--dispatch-key-env: there is nothing to sign without --dispatch")
    several = parsed_args.request_file is not None
    if several and (acts or parsed_args.plan is not None or parsed_args.dry_run == "server"):
        raise UsageError("--request-file: several requests are only decided on: leave --claim, "
                         "--compose, --dispatch, --plan and --dry-run server out")  # fmt: skip


def claim(command: PodmCommand, parsed_args: argparse.Namespace, request: Request) -> ClaimResult:
    """Decide and claim; note the claim among the closing lines."""
    result = command.scheduler(parsed_args).claim(
        request, key=parsed_args.key, ttl_s=parsed_args.ttl, detail=detail_of(parsed_args)
    )
    if result.claim is not None:
        again = "" if result.decision else "as before, "
        command.closing.append(again + claim_line(result.claim))
    return result


def claim_line(claim: Claim) -> str:
    """Return the line that names a new claim."""
    return f"claim {claim.id} is {claim.state}: podm claim show tells"


def detail_of(parsed_args: argparse.Namespace) -> Detail:
    """Return how much of the decision the options show."""
    if parsed_args.explain:
        return "explanation"
    return "report" if parsed_args.report or parsed_args.dispatch is not None else "summary"


@contextlib.contextmanager
def changing_scheduler(
    command: PodmCommand, parsed_args: argparse.Namespace
) -> Iterator[Scheduler]:
    """Yield the scheduler, and show the state of composing; tell what Ctrl-C leaves behind."""
    line = StatusLine(command.app.stderr, quiet=command.app.options.verbose_level == 0)

    def show(claim: str, state: str) -> None:
        line.show(f"{claim}: {state}")

    try:
        yield command.scheduler(parsed_args, on_state=show)
    except KeyboardInterrupt:
        line.clear()
        text = "broken off: what was begun stays until podm claim reap brings it to terms"
        command.tell(text, logging.ERROR)
        raise
    finally:
        line.clear()


def node_rows(result: ProvisionResult) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each node; cells as in NODE_COLUMNS."""
    for node in sorted(result.nodes, key=lambda node: node.id):
        yield (
            node.id,
            "COMPOSED",
            node.podm,
            or_absent(node.pool),
            node.uri,
            UriTails(list(node.blocks)),
            node.claim,
        )
    for going_on in result.still_composing:
        yield (going_on.node, "COMPOSING", going_on.podm, Absent(), Absent(), UriTails([]),
               going_on.claim)  # fmt: skip


def describe_result(
    command: PodmCommand, result: ProvisionResult, request: Request, *, waits: bool = True
) -> None:
    """Tell what did not go as it was decided, and set the exit code.

    That a pod manager goes on composing is expected where the command does not wait.
    """
    going_on = len(result.still_composing)
    command.closing += [f"tried elsewhere: {note}" for note in result.notes]
    command.closing += [f"not composed: {line}" for line in result.failures]
    command.closing += [
        f"{'goes on' if node.still_composing else 'not verified'}: {node.message}"
        for node in result.unverified
    ]
    goes_on = f", {going_on} going on" if going_on else ""
    command.closing.append(f"{len(result.nodes)} of {request.count} nodes composed{goes_on}")
    expected = len(result.nodes) + (0 if waits else going_on)
    if len(result.unverified) > (0 if waits else going_on):
        command.exit_code = 7
    elif expected == request.count:
        command.exit_code = 0
    elif expected:
        command.exit_code = 4
    else:
        command.exit_code = 6 if result.claim_lost else 1


def dispatch(
    command: PodmCommand, parsed_args: argparse.Namespace, report: Report
) -> list[tuple[Any, ...]]:
    """Hand the decision over; return a row for each node, cells as in DISPATCH_COLUMNS."""
    receipts = command.scheduler_app.engine().dispatch(
        parsed_args.dispatch,
        report,
        key_variable=parsed_args.dispatch_key_env,
        timeout_s=parsed_args.timeout,
    )
    podms = {placement.node: placement.chosen.podm for placement in report.placements}
    return [
        (node, podms.get(node, receipt.podm), receipt.status, or_absent(receipt.reference))
        for receipt in receipts
        for node in receipt.nodes
    ]


def preview(command: PodmCommand, parsed_args: argparse.Namespace, report: Report) -> None:
    """Tell whether each chosen pod manager says that it would compose its nodes."""
    for answer in command.scheduler(parsed_args).preview(report):
        if answer.problem is not None:
            text = f"cannot tell: {answer.problem}"
        elif answer.refusal is not None:
            text = f"would not: {answer.refusal}"
            command.exit_code = command.exit_code or 1
        else:
            text = "would compose it"
        command.closing.append(f"node {answer.node}: {answer.podm} {text}")
