# SPDX-License-Identifier: Apache-2.0
"""What ``podm schedule`` does beyond deciding: hold what was chosen, or compose it."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.types import age, seconds
from valence_sched_cli.output.cells import Absent, UriTails, or_absent

if TYPE_CHECKING:
    from valence_sched.core.decision import Decision
    from valence_sched.lifecycle.access import PodmAccess
    from valence_sched.lifecycle.provision import ProvisionResult
    from valence_sched.model.request import Request

DISPATCH_COLUMNS = ("Node", "Podm", "Status", "Reference")
NODE_COLUMNS = ("Node", "State", "Podm", "Pool", "URI", "Blocks", "Claim")


def add_claim_compose_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what becomes of the decision."""
    deeds = parser.add_mutually_exclusive_group()
    deeds.add_argument(
        "--claim", action="store_true", help="hold what was chosen in the state, for --ttl"
    )
    deeds.add_argument(
        "--compose",
        action="store_true",
        help="hold it, have the pod managers compose it, and read back that they did",
    )
    deeds.add_argument(
        "--dry-run",
        metavar="<where>",
        choices=("client", "server"),
        help="client: only decide, as without this option; server: also ask the pod manager "
        "whether it would compose that, where it can be asked",
    )
    deeds.add_argument(
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
    if not text.strip():  # what a variable that is not set leaves
        raise argparse.ArgumentTypeError("a word that is not empty, please")
    return text


def add_claim_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how long something is held and waited for, and under which key."""
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
    """Return the columns of what is done, beside those of the decision."""
    if parsed_args.compose:
        return NODE_COLUMNS
    return () if parsed_args.dispatch is None else DISPATCH_COLUMNS


def claimer_for(command: Any, store: Any, parsed_args: argparse.Namespace) -> Any:
    """Return who decides and claims on what the words of the shell name."""
    return command.main.claimer(
        store,
        parsed_args.inventory,
        parsed_args.policy_file,
        strict=parsed_args.strict,
        resource_files=parsed_args.resource_file,
        flavor_files=parsed_args.flavor_file,
        live=command.live(parsed_args),
    )


def decide_and_claim(
    command: Any, parsed_args: argparse.Namespace, request: Request
) -> tuple[Decision | None, str | None]:
    """Decide and claim; return the decision, None for an earlier key's, and the claim's id."""
    with command.main.store(parsed_args.state) as store:
        claimed = claimer_for(command, store, parsed_args).claim(
            request, key=parsed_args.key, ttl_s=parsed_args.ttl
        )
    claim = claimed.claim
    if claim is not None:
        again = "" if claimed.decision else "as before, "
        command.closing.append(f"{again}claim {claim.id} is {claim.state}: podm claim show tells")
    return claimed.decision, claim.id if claim else None


def decide_and_compose(
    command: Any, parsed_args: argparse.Namespace, request: Request
) -> ProvisionResult:
    """Decide, claim and compose; return what came of it."""
    with podm_access(command, parsed_args) as found:
        decider = claimer_for(command, found.store, parsed_args)
        done: ProvisionResult = command.main.compose(
            found, decider, request, key=parsed_args.key, ttl_s=parsed_args.ttl
        )
    return done


@contextlib.contextmanager
def podm_access(command: Any, parsed_args: argparse.Namespace) -> Iterator[PodmAccess]:
    """Yield the site to change, and show how that goes; who breaks it off is told what stays."""
    quiet = command.app.options.verbose_level == 0
    watch = claim_progress(command.app.stderr, quiet=quiet)
    live = command.live(parsed_args)
    try:
        with command.main.podm_access(live, patience_s=parsed_args.wait, on_state=watch) as found:
            yield found
    except KeyboardInterrupt:
        watch("", "")
        text = "broken off: what was begun stays until podm claim reap brings it to terms"
        command.tell(text, logging.ERROR)
        raise
    finally:
        watch("", "")


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
    for error in result.still_composing:
        yield (error.node, "COMPOSING", error.podm, Absent(), Absent(), UriTails([]), error.claim)


def describe_result(
    command: Any, result: ProvisionResult, request: Request, *, waits: bool = True
) -> None:
    """Say what did not go as it was decided, and set the exit code.

    That a pod manager goes on is what is expected where nobody ``waits``.
    """
    going_on = result.still_composing
    command.closing += [f"tried elsewhere: {note}" for note in result.notes]
    command.closing += [f"not composed: {line}" for line in result.failures]
    command.closing += [
        f"{'goes on' if error in going_on else 'not verified'}: {error}"
        for error in result.unverified
    ]
    goes_on = f", {len(going_on)} going on" if going_on else ""
    command.closing.append(f"{len(result.nodes)} of {request.count} nodes composed{goes_on}")
    expected = len(result.nodes) + (0 if waits else len(going_on))
    if len(result.unverified) > (0 if waits else len(going_on)):
        command.exit_code = 7
    elif expected == request.count:
        command.exit_code = 0
    elif expected:
        command.exit_code = 4
    else:
        command.exit_code = 6 if result.claim_lost else 1


def check_options(parsed_args: argparse.Namespace) -> None:
    """Refuse options that say two things about what becomes of the decision."""
    from valence_sched.errors import UsageError

    deed = parsed_args.claim or parsed_args.compose or parsed_args.dispatch is not None
    if parsed_args.plan is not None and deed:
        raise UsageError("--plan: a plan is done later, with podm apply: leave --claim, --compose "
                         "and --dispatch out")  # fmt: skip
    if parsed_args.plan in ("-", ""):
        raise UsageError("--plan: standard output is for the rows: name a file")
    if parsed_args.dispatch_key_env is not None and parsed_args.dispatch is None:
        raise UsageError("--dispatch-key-env: there is nothing to sign without --dispatch")
    several = parsed_args.request_file is not None
    if several and (deed or parsed_args.plan is not None or parsed_args.dry_run == "server"):
        raise UsageError("--request-file: several requests are only decided on: leave --claim, "
                         "--compose, --dispatch, --plan and --dry-run server out")  # fmt: skip


def dispatch(
    command: Any, parsed_args: argparse.Namespace, decision: Decision
) -> list[tuple[Any, ...]]:
    """Hand the decision over; return a row for each node, cells as in DISPATCH_COLUMNS."""
    receipts = command.main.dispatch(
        parsed_args.dispatch, decision, parsed_args.dispatch_key_env, parsed_args.timeout
    )
    podms = {placement.node: placement.chosen.podm for placement in decision.placements}
    return [
        (node, podms.get(node, receipt.podm), receipt.status, or_absent(receipt.reference))
        for receipt in receipts
        for node in receipt.nodes
    ]


def preview(command: Any, parsed_args: argparse.Namespace, decision: Decision) -> None:
    """Ask each chosen pod manager whether it would compose its nodes; tell what it says."""
    from valence_sched.errors import SchedulerError
    from valence_sched.model.composition import CompositionRequest

    with command.main.podm_access(command.live(parsed_args)) as site:
        for placement in decision.placements:
            chosen = placement.chosen
            wanted = CompositionRequest(
                name=f"preview-{placement.node}",
                pool=chosen.pool,
                blocks=tuple(block.uri for block in chosen.blocks),
            )
            try:
                with site.connect(chosen.podm) as hands:
                    refusal = hands.preview(wanted)
                said = "would compose it" if refusal is None else f"would not: {refusal}"
                command.exit_code = command.exit_code or (refusal is not None)
            except SchedulerError as error:
                said = f"cannot tell: {error}"
            command.closing.append(f"node {placement.node}: {chosen.podm} {said}")


def claim_progress(out: Any = None, *, quiet: bool = False) -> Callable[[str, str], None]:
    """Return a function that shows the state of each claim on a terminal, and else nothing."""
    stream = out or sys.stderr
    if quiet or not stream.isatty():
        return lambda _claim, _state: None

    def show(claim: str, state: str) -> None:
        stream.write(f"\r{claim}: {state}\x1b[K" if claim else "\r\x1b[K")
        stream.flush()

    return show
