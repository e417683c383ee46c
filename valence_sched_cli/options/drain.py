# SPDX-License-Identifier: Apache-2.0
"""Options of the hook of a site that drains a node before blocks are detached from it."""

from __future__ import annotations

import argparse
import shlex

from valence_sched.errors import UsageError, is_not
from valence_sched_cli.late import model
from valence_sched_cli.options import parser as parsing

DRAIN = """\
then | --drain-command <command>: before blocks are detached, run this command, which must exit 0;
    it receives the change as JSON on standard input (default: the hook in drain.yaml, if any)
then | --drain-url <url>: before blocks are detached, post the change to this URL, which must answer
    {"drained": true}
then --drain-deadline <seconds>: time that the command or the URL has to drain the node (default:
    60)
then --drain-key-env <variable>: environment variable with the key that signs requests to
    --drain-url"""


def drain_settings(args: argparse.Namespace) -> model.drain.DrainSettings | None:
    """Return the hook that the options name, if any; UsageError or InputError if it is invalid."""
    command, url = getattr(args, "drain_command", None), getattr(args, "drain_url", None)
    variable = getattr(args, "drain_key_env", None)
    if variable is not None and url is None:
        raise UsageError("--drain-key-env: only with --drain-url")
    if command is None and url is None:
        if getattr(args, "drain_deadline", None) is not None:
            raise UsageError("--drain-deadline: only with --drain-command or --drain-url")
        return None
    key = model.registration.PasswordReference(env=variable) if variable is not None else None
    deadline = {} if args.drain_deadline is None else {"deadline_s": args.drain_deadline}
    settings = model.drain.DrainSettings(command=command or (), url=url, key=key, **deadline)
    model.drain.check_drain(settings, "--drain-url" if command is None else "--drain-command")
    return settings


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError:  # a quote without its end
        words = ()
    if not words:
        raise is_not("a command with its arguments, quoted as for a shell", text)
    return words


#: The types of values, by the option.
SETTINGS: dict[str, parsing.Setting] = {
    "drain_command": _command,
    "drain_deadline": parsing.number("seconds from 1 to 3,600", 1, 3600),
    "drain_key_env": parsing.nonempty("name a variable"),
}
