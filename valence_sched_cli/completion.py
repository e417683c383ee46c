# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines in bash, zsh and fish, by argcomplete: commands, options, values.

The shell calls the program with the line so far in the environment. Of a command that is typed
whole, its own parser says what may follow; values such as flavors come from where the line says.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import entry_points
from typing import Any

import argcomplete
from argcomplete.completers import ChoicesCompleter
from argcomplete.finders import safe_actions
from argcomplete.shell_integration import shellcode
from cliff import command
from cliff.app import App

from valence_sched.errors import SchedulerError
from valence_sched_cli.base import PodmCommand
from valence_sched_cli.options.types import StoreOnce

PROGRAM = "valence-sched"
PLUGIN_GROUPS = {"liveness": "liveness", "dispatch": "dispatchers", "driver": "dialects"}
SHELLS = ("bash", "zsh", "fish")


def complete(shell: App) -> None:
    """Write the completions of the line in the environment, and end the process."""
    line = os.environ["COMP_LINE"][: int(os.environ.get("COMP_POINT", "0"))]
    words = _words(line)
    finished = words if line[-1:].isspace() else words[:-1]
    shell.options = shell.parser.parse_args([])
    names, command_ = _command(shell, finished[1:])
    if command_ is None:
        parser = _next_words(shell, names)
    else:
        parser = command_.get_parser(" ".join((PROGRAM, *names)))
        _add_completers(parser, command_)
    os.environ["_ARGCOMPLETE"] = str(1 + len(names))
    safe_actions.add(StoreOnce)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _words(line: str) -> list[str]:
    """Return the words of a line, of which the last may lack its closing quote."""
    for quote in ("", "'", '"'):
        try:
            return shlex.split(line + quote)
        except ValueError:
            continue
    return line.split()


def _command(shell: App, words: Sequence[str]) -> tuple[list[str], Any]:
    """Return the words that name a command, or begin one, and the command if it is whole."""
    names = [tuple(name.split()) for name, _ in shell.command_manager]
    typed: list[str] = []
    for word in words:
        if not any(name[: len(typed) + 1] == (*typed, word) for name in names):
            break
        typed.append(word)
        longer = any(len(name) > len(typed) and name[: len(typed)] == tuple(typed)
                     for name in names)  # fmt: skip
        if tuple(typed) in names and not longer:
            factory, _, _ = shell.command_manager.find_command(typed)
            return typed, factory(shell, argparse.Namespace())
    return typed, None


def _next_words(shell: App, typed: Sequence[str]) -> argparse.ArgumentParser:
    """Return a parser of which the only argument is the next word of a command."""
    names = [name.split() for name, _ in shell.command_manager]
    following = {name[len(typed)]: None for name in names if name[: len(typed)] == list(typed)
                 and len(name) > len(typed)}  # fmt: skip
    parser = argparse.ArgumentParser(PROGRAM, add_help=False)
    parser.add_argument("command", choices=sorted(following))
    return parser


def _add_completers(parser: argparse.ArgumentParser, command_: Any) -> None:
    """Let options whose values have names complete them."""
    if not isinstance(command_, PodmCommand):
        return
    values: dict[str, Callable[[argparse.Namespace], Iterable[str]]] = {
        "flavor": command_.known_flavors,
        "policy": command_.known_policies,
        "podm": command_.known_podms,
        "exclude_podm": command_.known_podms,
    }
    for action in parser._actions:
        if action.dest in values:
            action.completer = _quiet(values[action.dest])  # type: ignore[attr-defined]
        elif action.dest in PLUGIN_GROUPS:
            group = entry_points(group=f"valence_sched.{PLUGIN_GROUPS[action.dest]}")
            action.completer = ChoicesCompleter(dict.fromkeys(group.names, ""))  # type: ignore[attr-defined]


def _quiet(values: Callable[[argparse.Namespace], Iterable[str]]) -> Any:
    """Return a completer; where the values cannot be read, the shell completes nothing."""

    def completer(parsed_args: argparse.Namespace, **_words: Any) -> list[str]:
        try:
            return sorted(values(parsed_args))
        except SchedulerError:
            return []

    return completer


class CompleteCommand(command.Command):
    """Print what a shell reads to complete commands."""

    auth_required = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--shell",
            choices=SHELLS,
            default=_login_shell(),
            help="for this shell (default: that of SHELL, else bash)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        code = shellcode([PROGRAM], shell=parsed_args.shell)
        self.app.stdout.write(code + "\n")


def _login_shell() -> str:
    name = os.path.basename(os.environ.get("SHELL", ""))
    return name if name in SHELLS else "bash"
