# SPDX-License-Identifier: Apache-2.0
"""The program ``valence-sched``: a cliff application with the same commands as ``openstack``."""

import argparse
import functools
import importlib.metadata
import inspect
import itertools
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import stevedore
from cliff import app, command
from cliff.app import App
from cliff.commandmanager import CommandManager

from valence_sched.errors import OutputError, SchedulerError, one_line, plain_reason, suggest
from valence_sched.streams import discard, escape_logs, open_missing, print_message, printing
from valence_sched_cli.base import PodmCommand
from valence_sched_cli.late import argcomplete
from valence_sched_cli.options.parser import FILE_TYPES, StoreOnce, add_options, nonempty
from valence_sched_cli.plugin import ENDPOINT

GROUP = "openstack.podm.v1"
HELP = "help"  # the name of cliff's help command, which --help also runs
MIN_SIMILARITY = 0.6  # 0 to 1: between an unknown word and a suggested command
LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO}  # by cliff's verbosity: -q is 0


class Commands(CommandManager):
    """The commands of the entry point group, listed without importing any of them."""

    def load_commands(self, namespace: str) -> None:
        """Store the entry points of a group; a command is imported when it runs."""
        self.group_list.append(namespace)
        # use stevedore's cache, which searches the environment once for all groups
        manager: Any = stevedore.ExtensionManager.make_test_instance([], namespace)
        for entry_point in manager.list_entry_points():
            self.commands[entry_point.name.replace("_", " ")] = entry_point


class Shell(app.App):
    """The program ``valence-sched``."""

    def __init__(self, argv: Sequence[str] = ()) -> None:
        # finding the version of the package is slow
        asks_version = any(len(it) > len("--") and "--version".startswith(it) for it in argv)
        super().__init__(
            description="Choose the pod manager, the pool and the blocks of a node.",
            version=importlib.metadata.version("valence-sched") if asks_version else "",
            command_manager=Commands(GROUP),
            deferred_help=True,
        )
        for name, place in (
            ("complete", "valence_sched_cli.shell:CompleteCommand"),
            ("config show", "valence_sched_cli.commands.catalog:ShowConfig"),
        ):
            self.command_manager.commands[name] = EntryPoint(name, place, GROUP)
        self.client_manager = None  # there is no cloud behind this program

    def build_option_parser(self, *args: Any, **words: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = super().build_option_parser(*args, **words)
        for action in parser._actions:
            if "--quiet" in action.option_strings:
                action.help = "Suppress output except errors."
            if action.dest == "log_file":
                action.type = FILE_TYPES["<file>"]
        parser._print_message = print_message  # type: ignore[method-assign]
        text = f"""
            --profile <profile>: profile of config.yaml with the defaults of options (Env:
                VALENCE_SCHED_PROFILE)
            {ENDPOINT}"""
        profile = {"dest": "scheduler_profile", "type": nonempty("name a profile")}
        add_options(parser, text, profile=profile)
        return parser

    def configure_logging(self) -> None:
        """Log to standard error like ``openstack``: warnings, with -q only errors.

        SchedulerError: the log file cannot be opened.
        """
        logging.raiseExceptions = False  # the command itself reports a failed log
        try:
            super().configure_logging()
        except OSError as error:
            line = f"--log-file {self.options.log_file}: {plain_reason(error)}"
            raise SchedulerError(one_line(line)) from None
        root = logging.getLogger("")
        verbose_level = 3 if self.options.debug else self.options.verbose_level
        root.handlers[-1].setLevel(LEVELS.get(verbose_level, logging.DEBUG))
        # skip records that all handlers would drop
        root.setLevel(min(handler.level for handler in root.handlers))
        escape_logs()

    def interact(self) -> None:
        """Read commands from a terminal; without a terminal, a missing command is an error."""
        if self.stdin is None or not self.stdin.isatty():
            self.stderr.write("no command: see 'valence-sched --help'\n")
            raise SystemExit(2)
        self.interactive_app_factory = self.interactive_app_factory or _prompt_class()
        super().interact()
        raise SystemExit(0)  # cliff would exit 1

    def print_help_if_requested(self) -> None:
        if self.options.deferred_help:
            self._print_help()
            raise SystemExit(0)

    def _print_help(self) -> None:
        """Print the global options, and for each noun a line with its commands."""
        verbs: dict[str, list[str]] = {}
        for name in sorted(name for name, _ in self.command_manager):
            noun, _, verb = name.rpartition(" ")
            verbs.setdefault(noun or verb, []).append(verb if noun else "")
        indent, width = max(map(len, verbs)) + 4, max(shutil.get_terminal_size().columns, 40)
        fold = textwrap.TextWrapper(width, subsequent_indent=" " * indent)
        lines = (f"  {noun:{indent - 2}}{', '.join(some)}" for noun, some in sorted(verbs.items()))
        with printing(self.stdout):
            self.parser.print_help(self.stdout)
            self.stdout.write("\ncommands:\n" + "".join(f"{fold.fill(line)}\n" for line in lines))
            self.stdout.write(f"\n'{self.NAME} <noun>' describes the commands of a noun.\n")

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command or its help; for an unknown command, suggest similar commands."""
        about = argv
        if argv == [HELP]:
            self._print_help()
            return 0
        if argv[:1] == [HELP]:
            about = _words(argv[1:])
            argv = [HELP, *about]
        try:
            self.command_manager.find_command(about or argv)
        except ValueError:
            words, names = _words(about), [name for name, _ in self.command_manager]
            below = sorted(name for name in names if name.split()[: len(words)] == words)
            with printing(self.stdout):
                for name in below:
                    factory, _, _ = self.command_manager.find_command(name.split())
                    summary = inspect.getdoc(factory) or ""
                    self.stdout.write(f"{name:<28} {summary.partition(chr(10))[0]}\n")
            if below:
                return 0
            hint = suggest(" ".join(words), names, MIN_SIMILARITY)
            hint = hint if hint.startswith("did") else f"see {self.NAME} --help"
            print_message(one_line(f"no command named {' '.join(words)!r} ({hint})") + "\n")
            return 2
        return int(super().run_subcommand(argv))


def _prompt_class() -> type[Any]:
    """Return the prompt of cliff, with a completion that every version of cmd2 accepts."""
    import cmd2  # only this prompt needs it
    from cliff.interactive import InteractiveApp

    collect = getattr(cmd2, "Completions", None)  # cmd2 4 refuses the list of cliff

    class Prompt(InteractiveApp):
        def completedefault(self, *place: Any) -> Any:
            """Return the next words of the commands that begin with the line."""
            names = super().completedefault(*place)
            words = sorted({name.partition(" ")[0] for name in names})
            return words if collect is None else collect.from_values(words)

    return Prompt


def _words(argv: Sequence[str]) -> list[str]:
    return list(itertools.takewhile(lambda word: not word.startswith("-"), argv))


def main(argv: Sequence[str] | None = None) -> int:
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for completions
        complete(Shell())
    open_missing()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return int(Shell(arguments).run(arguments))
    except OutputError as error:
        print_message(f"{error}\n")
        return error.exit_code
    except BrokenPipeError:
        discard(sys.stdout)
        return 141


PROGRAM = "valence-sched"
PLUGIN_GROUPS = {"liveness": "liveness", "dispatch": "dispatchers", "driver": "dialects"}
SHELLS = ("bash", "zsh", "fish")


def complete(shell: App) -> None:
    """Write the completions of the line in the environment, and end the process."""
    point = int(os.environ.get("COMP_POINT", "0"))
    *_, words, _ = argcomplete.lexers.split_line(os.environ["COMP_LINE"], point)
    shell.options = shell.parser.parse_args([])
    known = [name.split() for name, _ in shell.command_manager]
    words = words[1:]  # omit the name of the program
    names = [word for n, word in enumerate(words, 1) if words[:n] in [one[:n] for one in known]]
    if names in known:
        factory: Any = shell.command_manager.find_command(names)[0]
        command_ = factory(shell, argparse.Namespace())
        parser = command_.get_parser(" ".join((PROGRAM, *names)))
        _add_completers(parser, command_)
    else:
        parser = argparse.ArgumentParser(PROGRAM, add_help=False)
        longer = [name for name in known if name[: len(names)] == names]
        parser.add_argument("command", choices=sorted({name[len(names)] for name in longer}))
    os.environ["_ARGCOMPLETE"] = str(1 + len(names))
    argcomplete.finders.safe_actions.add(StoreOnce)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _add_completers(parser: argparse.ArgumentParser, command_: Any) -> None:
    """Let options whose values have names complete them."""
    if not isinstance(command_, PodmCommand):
        return

    for action in parser._actions:
        completer: Any
        if action.dest in ("flavor", "policy", "podm", "exclude_podm"):
            completer = functools.partial(_known_names, command_, action.dest)
        elif action.dest in PLUGIN_GROUPS:
            group = entry_points(group=f"valence_sched.{PLUGIN_GROUPS[action.dest]}")
            completer = argcomplete.completers.ChoicesCompleter(dict.fromkeys(group.names, ""))
        else:
            continue
        action.completer = completer  # type: ignore[attr-defined]


def _known_names(
    command_: PodmCommand, dest: str, parsed_args: argparse.Namespace, **_words: Any
) -> list[str]:
    try:
        if dest in ("podm", "exclude_podm"):
            return sorted(command_.known_podms(parsed_args))
        files = getattr(parsed_args, f"{dest}_file", None) or ()
        config = command_.scheduler_app.config
        return sorted((config.flavors if dest == "flavor" else config.policies)(files))
    except SchedulerError:
        return []  # the names cannot be read


class CompleteCommand(command.Command):
    """Print a completion script for a shell."""

    auth_required = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        login_shell = os.path.basename(os.environ.get("SHELL", ""))
        parser.add_argument(
            "--shell",
            choices=SHELLS,
            default=login_shell if login_shell in SHELLS else "bash",
            help="name of the shell (default: from SHELL, else bash)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        code = argcomplete.shell_integration.shellcode([PROGRAM], shell=parsed_args.shell)
        with printing(self.app.stdout):
            self.app.stdout.write(code + "\n")
