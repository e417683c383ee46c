# SPDX-License-Identifier: Apache-2.0
"""Options that claim, compose, dispatch, plan or preview a decision, and that bound the waiting."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from valence_sched.errors import UsageError
from valence_sched_cli.late import model
from valence_sched_cli.options.parser import Setting, option_name

#: Leaves Ironic out.
IRONIC = """\
then --no-ironic: do not ask Ironic whether it uses the hardware: a server that it has there is lost
    (default: where VALENCE_SCHED_IRONIC_URL, ironic.yaml or the catalogue of the cloud names an
    Ironic, hardware that it uses is not changed)
"""
#: Bounds the waiting, and leaves Ironic out.
TIMEOUT = f"""\
then --timeout <seconds>: how long to wait at most for what a pod manager was asked to do (default:
    300)
{IRONIC}\
"""
#: How long to wait for what a pod manager is asked to do.
WAIT = f"""\
then | --wait: wait for a pod manager that goes on composing (default)
then | --no-wait: do not wait for it: the claim stays COMPOSING until podm claim reap looks again
{TIMEOUT}\
"""
#: The time to live, the idempotency key, and the time to wait.
CLAIM = f"""\
then --ttl <age>: how long a claim is held, such as 90s, 10m or 1h (default: 10m)
then --key <word>: idempotency key: the same word again gives the same claim or nodes, and no others
{WAIT}\
"""
#: Claims, composes, dispatches or previews the decision.
CLAIM_OR_COMPOSE = f"""\
then | --claim: hold what was chosen in the state, for --ttl
then | --compose: hold it, have the pod managers compose it, and read back that they did
then | --dry-run <where>: only decide, as without this option (client, also without a value), or
    also ask the pod manager whether it would compose that, where it can be asked (server)
then | --dispatch <name=url>: hand the decision to another system, which composes: webhook=<url>
    gets the report, valence=<url> is a Valence API; nothing is held or composed here
then --dispatch-key-env <variable>: environment variable with the key that signs what is posted to a
    webhook
then --plan <file>: write a plan that podm apply does later, or refuses
{CLAIM}\
"""


def _idempotency_key(text: str) -> str:
    if not text.strip():  # as an unset variable of the shell leaves it
        raise argparse.ArgumentTypeError("must be a word, got an empty one")
    return text


SETTINGS: Mapping[str, Setting] = {
    "key": _idempotency_key,
    "dry_run": {"choices": ("client", "server"), "nargs": "?", "const": "client"},
}


def ttl_s(args: argparse.Namespace) -> float:
    """Return how many seconds a claim is held."""
    return model.claim.TTL_S if args.ttl is None else float(args.ttl)


def wait_s(args: argparse.Namespace) -> float:
    """Return how many seconds to wait for a pod manager; UsageError if the options contradict."""
    if getattr(args, "no_wait", False):
        if args.timeout is not None:
            raise UsageError("--timeout: with --no-wait there is nothing to wait for")
        return 0.0
    return model.claim.WAIT_S if args.timeout is None else float(args.timeout)


def refuse_idle(args: argparse.Namespace, *, holds: bool, composes: bool) -> None:
    """Refuse options that would do nothing, as nothing is held, or nothing composed."""
    waiting = ("timeout", "wait", "no_wait", "no_ironic")
    for needed, names, hint in (
        (holds, ("ttl", "key", *waiting), "nothing is held or composed: add --claim or --compose"),
        (composes, waiting, "nothing is composed: add --compose"),
    ):
        idle = [name for name in names if getattr(args, name) not in (None, False)]
        if idle and not needed:
            raise UsageError(f"{', '.join(map(option_name, idle))}: {hint}")


def check_options(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    acts = args.claim or args.compose or args.dispatch is not None
    if args.plan is not None and acts:
        hint = "leave --claim, --compose and --dispatch out"
        raise UsageError(f"--plan: a plan is done later, with podm apply: {hint}")
    if args.dispatch_key_env is not None and args.dispatch is None:
        raise UsageError("--dispatch-key-env: there is nothing to sign without --dispatch")
    wait_s(args)
    refuse_idle(args, holds=args.claim or args.compose, composes=args.compose)
    plans = args.plan is not None or args.dry_run == "server"
    if args.request_file is not None and (acts or plans):
        hint = "leave --claim, --compose, --dispatch, --plan and --dry-run=server out"
        raise UsageError(f"--request-file: several requests are only decided on: {hint}")
