# SPDX-License-Identifier: Apache-2.0
"""Options that claim, compose, dispatch, plan or preview a decision, and that bound the waiting."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from valence_sched.errors import UsageError
from valence_sched_cli.late import model
from valence_sched_cli.options.parser import Setting, option_name

IRONIC = """\
then --no-ironic: do not ask Ironic whether it uses the hardware; servers that Ironic runs on it are
    lost (default: ask the Ironic of VALENCE_SCHED_IRONIC_URL, ironic.yaml or the cloud's catalogue,
    and do not change hardware that it uses)"""
TIMEOUT = f"""\
then --timeout <seconds>: how long to wait for an operation of a pod manager (default: 300)
{IRONIC}"""
WAIT = f"""\
then | --wait: wait until the pod manager has composed (default)
then | --no-wait: do not wait: the claim stays COMPOSING until podm claim reap checks it
{TIMEOUT}"""
CLAIM = f"""\
then --ttl <age>: time to live of the claim, such as 90s, 10m or 1h (default: 10m)
then --key <word>: idempotency key: a repeated key returns the existing claim or nodes
{WAIT}"""
CLAIM_OR_COMPOSE = f"""\
then | --claim: hold the chosen blocks in the state, for --ttl
then | --compose: hold the blocks, compose the nodes, and verify them
then | --dry-run <where>: client (default): only decide; server: also ask pod managers that support
    it whether they would compose the nodes
then | --dispatch <name=url>: send the decision to another system, which composes: webhook=<url>
    receives the report, valence=<url> is a Valence API; this scheduler holds and composes nothing
then --dispatch-key-env <variable>: environment variable with the key that signs posts to a webhook
then --plan <file>: write a plan for podm apply
{CLAIM}"""


def _idempotency_key(text: str) -> str:
    if not text.strip():  # as from an unset shell variable
        raise argparse.ArgumentTypeError("must not be empty")
    return text


SETTINGS: Mapping[str, Setting] = {
    "key": _idempotency_key,
    "dry_run": {"choices": ("client", "server"), "nargs": "?", "const": "client"},
}


def ttl_s(args: argparse.Namespace) -> float:
    """Return the time for which a claim is held, in seconds."""
    return model.claim.TTL_S if args.ttl is None else float(args.ttl)


def wait_s(args: argparse.Namespace) -> float:
    """Return the seconds to wait for a pod manager; UsageError for contradictory options."""
    if getattr(args, "no_wait", False):
        if args.timeout is not None:
            raise UsageError("--timeout: not with --no-wait")
        return 0.0
    return model.claim.WAIT_S if args.timeout is None else float(args.timeout)


def refuse_idle(args: argparse.Namespace, *, holds: bool, composes: bool) -> None:
    """Refuse options that have no effect, because nothing is held or composed."""
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
        hint = "omit --claim, --compose and --dispatch"
        raise UsageError(f"--plan: podm apply carries the plan out later: {hint}")
    if args.dispatch_key_env is not None and args.dispatch is None:
        raise UsageError("--dispatch-key-env: only with --dispatch")
    wait_s(args)
    refuse_idle(args, holds=args.claim or args.compose, composes=args.compose)
    plans = args.plan is not None or args.dry_run == "server"
    if args.request_file is not None and (acts or plans):
        hint = "omit --claim, --compose, --dispatch, --plan and --dry-run=server"
        raise UsageError(f"--request-file: its requests are only decided: {hint}")
