# SPDX-License-Identifier: Apache-2.0
"""The command ``podm serve``: serves recorded pod managers as live Redfish services."""

from __future__ import annotations

import argparse

from cliff.command import Command

from valence_sched_cli import base
from valence_sched_cli.options.types import natural


class ServePodm(base.PodmCommand, Command):
    """Serve every pod manager of an inventory as a live Redfish service with state.

    Each listens on a port of its own on 127.0.0.1. A line with its id and its URL is printed for
    each once all listen. What is composed lasts until SIGTERM or Ctrl-C ends the service, which
    exits 0. Fault rules make it answer wrong on purpose; they are listed below.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.formatter_class = _IndentedLinesFormatter
        parser.add_argument(
            "source",
            metavar="<inventory>",
            nargs="+",
            help="file, directory, archive of recorded pod managers, or - for standard input",
        )
        parser.add_argument(
            "--podm",
            metavar="<id>",
            action="append",
            default=[],
            help="serve only this pod manager (repeat for several, in the order of their ports)",
        )
        parser.add_argument(
            "--port",
            metavar="<port>",
            type=natural,
            default=8000,
            help="port of the first pod manager, the others follow; 0 takes free ones "
            "(default: 8000)",
        )
        parser.add_argument(
            "--latency-ms",
            metavar="<ms>",
            type=_milliseconds,
            default=0.0,
            help="answer every request so much later",
        )
        parser.add_argument(
            "--fail",
            metavar="<rule>",
            action="append",
            default=[],
            help="do something wrong (repeat for several); the rules are listed below",
        )
        parser.add_argument(
            "--page-size",
            metavar="<n>",
            type=natural,
            default=0,
            help="show collections in pages of so many members (default: whole)",
        )
        parser.add_argument("--strict", action="store_true", help="serve nothing when any "
                            "document had to be skipped, and exit 5")  # fmt: skip
        _add_login_options(parser)
        return parser

    def get_epilog(self) -> str:
        """List the fault rules."""
        from valence_sched.app import fault_rules

        rules = fault_rules()
        width = max(len(form) for form, _ in rules)
        rows = "\n".join(f"  {form:{width}}  {what}" for form, what in rules)
        where = "WHERE is [METHOD:]PATH, and * in it stands for anything"
        text = f"fault rules:\n\n{rows}\n\n{where}. RULE@ID is for one pod manager."
        return f"{text} {super().get_epilog()}".rstrip()

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from valence_sched.model.read_options import Selection
        from valence_sched.model.registration import PasswordReference

        env, file = parsed_args.password_env, parsed_args.password_file
        self.scheduler_app.serve(
            Selection(sources=tuple(parsed_args.source), strict=parsed_args.strict),
            self._ready,
            username=parsed_args.username,
            password=PasswordReference(env=env, file=file) if env or file else None,
            podms=parsed_args.podm,
            port=parsed_args.port,
            latency_ms=parsed_args.latency_ms,
            fail=parsed_args.fail,
            page_size=parsed_args.page_size,
            session_limit=parsed_args.session_limit,
            session_timeout_s=parsed_args.session_timeout,
        )

    def _ready(self, podms: list[tuple[str, str]]) -> None:
        self._tell_problems()
        for id_, url in podms:
            self.app.stdout.write(f"{id_} {url}\n")
        self.app.stdout.flush()
        if self.app.stderr.isatty():
            self.tell("Ctrl-C ends it")


class _IndentedLinesFormatter(argparse.HelpFormatter):
    """Help in which indented lines stay lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.split("\n\n")
        return "\n\n".join(
            part
            if part.startswith("  ")
            else super(_IndentedLinesFormatter, self)._fill_text(part, width, indent)
            for part in parts
        )


def _add_login_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--username", metavar="<name>", help="ask for a login as this user (default: ask for none)"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--password-env", metavar="<variable>", help="environment variable with the password"
    )
    where.add_argument(
        "--password-file", metavar="<file>", help="file with the password, of mode 0600"
    )
    parser.add_argument(
        "--session-limit",
        metavar="<n>",
        type=natural,
        default=64,
        help="sessions at a time (default: 64)",
    )
    parser.add_argument(
        "--session-timeout",
        metavar="<s>",
        type=_seconds,
        default=300.0,
        help="seconds until a session that is not used ends (default: 300)",
    )


def _number(text: str, most: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number from 0 to {most:g}")
    return number


def _milliseconds(text: str) -> float:
    return _number(text, 3_600_000)


def _seconds(text: str) -> float:
    return _number(text, 86_400)
