# SPDX-License-Identifier: Apache-2.0
"""The program ``valence-scheduler``: serves the scheduler over HTTP."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from valence_sched import errors
from valence_sched.app import App
from valence_sched.model.codec import convert, dump_yaml
from valence_sched.model.quantity import format_count
from valence_sched.server.process import metrics_folder
from valence_sched.service import settings as nouns
from valence_sched.store.maintenance import Maintenance
from valence_sched.streams import discard, open_missing, print_message, printing

INTERRUPTED, PIPE_ENDED = 130, 141  # a shell's exit codes after SIGINT and SIGPIPE
#: The extra that installs each optional library.
EXTRAS = dict.fromkeys(("bcrypt", "falcon", "gunicorn", "limits", "prometheus_client"), "service")
EXTRAS |= dict.fromkeys(("keystonemiddleware", "oslo_config", "oslo_policy"), "keystone")
MOST_DISPATCHES = 1000  # largest number of dispatches shown


def _add_config(parser: argparse.ArgumentParser) -> None:
    text = f"YAML file of the settings (Env: {nouns.CONFIG_VARIABLE})"
    parser.add_argument("--config", metavar="<file>", help=text)


def add_store_commands(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="<action>")
    for name, text in (
        ("check", "Check the version, the rows and the file of the state"),
        ("upgrade", "Upgrade the tables of the state"),
        ("downgrade", "Downgrade the tables to the version of an older program"),
        ("backup", "Copy a state file, even while it is in use"),
        ("dispatches", "Show the decisions for the controller, waiting ones first"),
        ("repair", "Show the rows that cannot be decoded; --yes removes them"),
    ):
        one = actions.add_parser(name, help=text, description=f"{text}.")
        _add_config(one)
        one.add_argument("--state", metavar="<url>", help="State to use: a file or a URL")
        if name == "downgrade":
            one.add_argument("--to", metavar="<version>", required=True, help="Target version")
        if name == "backup":
            one.add_argument("file", metavar="<file>", help="File to write, which must not exist")
        if name == "check":
            one.add_argument("--deep", action="store_true", help="Decode every row")
        if name == "dispatches":
            one.add_argument("--drop", metavar="<id>", help="Do not post this waiting decision")
        if name == "repair":
            one.add_argument("--yes", action="store_true", help="Repair; needs --backup")
            rows = "the removed rows are written to <file>.rows"
            copy = f"File for a copy of a SQLite state before it is repaired; {rows}"
            one.add_argument("--backup", metavar="<file>", help=copy)


def _run_store(arguments: argparse.Namespace, environ: Mapping[str, str], stdout: TextIO) -> int:
    path, state = arguments.config or environ.get(nouns.CONFIG_VARIABLE), arguments.state
    if state is None and path:
        with errors.errors_at(None if arguments.config else nouns.CONFIG_VARIABLE):
            state = nouns.read_settings(path, check=False).state
    app = App(environ=environ)
    registry = app.registry(state)
    action = arguments.action
    with errors.errors_at(registry.variable):
        opened = Maintenance(registry.url)
    with opened as store:
        code = COMMANDS[action](store, arguments, stdout) or 0
    if action == "upgrade":
        app.record_changes(state, "store upgrade", [("schema", "done")])
    if action == "repair" and arguments.yes:
        app.record_changes(state, "store repair", [("rows", "undecodable" if code else "done")])
    if action == "dispatches" and arguments.drop is not None:
        app.record_changes(state, "store dispatches --drop", [(arguments.drop, "done")])
    if action == "backup" and registry.passwords.path.exists():
        stdout.write(f"not copied: {registry.passwords.path}, which has the typed passwords\n")
    return code


def _check(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> int:
    found = store.check(deep=arguments.deep)
    stdout.write(f"{found.address}: version {found.revision or 'none'} of {found.latest}\n")
    for name, count in found.rows.items():
        stdout.write(f"{name}: {count:,}\n")
    if found.unread and found.revision == found.latest:
        stdout.write(f"not decoded: {format_count(found.unread, 'row')} (--deep decodes all)\n")
    for problem in found.problems:
        stdout.write(f"problem: {problem}\n")
    return 1 if found.problems else 0


def _repair(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> int:
    if arguments.yes and arguments.backup is None:
        raise errors.UsageError("--yes: name a file for the removed rows (--backup FILE)")
    repairs = store.repairs()
    for one in repairs:
        stdout.write(f"{one}\n")
    count = format_count(len(repairs), "row")
    if not repairs or not arguments.yes:
        hint = ": --yes --backup FILE repairs the state" if repairs else ""
        stdout.write(f"{store.address}: {count} that cannot be decoded{hint}\n")
        return 0
    path, rows = Path(arguments.backup), Path(f"{arguments.backup}.rows")
    if store.is_file:
        store.backup(path)
        stdout.write(f"{path}: a copy of {store.address}\n")
    store.repair(repairs, rows)
    stdout.write(f"{rows}: {count} of {store.address}\n")
    return 1 if store.repairs() else 0


def _dispatches(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> None:
    if arguments.drop is not None:
        store.dispatches.drop(arguments.drop)
        stdout.write(f"{arguments.drop}: dropped\n")
        return
    for one in store.dispatches.newest(MOST_DISPATCHES):
        stdout.write(f"{one}\n")


def _migrate(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> None:
    upgrades = arguments.action == "upgrade"
    before = store.upgrade() if upgrades else store.downgrade(arguments.to)
    stdout.write(f"{store.address}: version {store.revision}, was {before or 'none'}\n")


def _backup(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> None:
    store.backup(Path(arguments.file))
    stdout.write(f"{arguments.file}: a copy of {store.address}\n")


#: Each function returns the exit code, or None for 0.
COMMANDS: Mapping[str, Callable[[Maintenance, argparse.Namespace, TextIO], int | None]] = {
    "check": _check,
    "upgrade": _migrate,
    "downgrade": _migrate,
    "backup": _backup,
    "dispatches": _dispatches,
    "repair": _repair,
}


def main(argv: Sequence[str] | None = None) -> int:
    open_missing()
    try:
        with printing(sys.stdout):
            arguments = parser().parse_args(argv)
            if arguments.command != "serve":
                return run(arguments, os.environ, sys.stdout, sys.stderr)
        with metrics_folder(os.environ):
            return run(arguments, os.environ, sys.stdout, sys.stderr)
    except errors.OutputError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except (BrokenPipeError, KeyboardInterrupt) as error:
        discard(sys.stdout)
        return PIPE_ENDED if isinstance(error, BrokenPipeError) else INTERRUPTED


class Parser(argparse.ArgumentParser):
    """A parser that raises if its help cannot be printed."""

    _print_message = staticmethod(print_message)


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="valence-scheduler", description="Serve the scheduler of pod managers over HTTP."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="<command>")
    for name, text in (
        ("serve", "Serve until a signal stops it"),
        ("check-config", "Check the settings, and print those in effect"),
    ):
        one = commands.add_parser(name, help=text, description=f"{text}.")
        _add_config(one)
        one.add_argument("--host", metavar="<host>", help="Address to listen on")
        one.add_argument("--port", metavar="<port>", type=int, help="Port to listen on")
        one.add_argument("--workers", metavar="<n>", type=int, help="Number of processes")
        one.add_argument("--state", metavar="<url>", help="State to use: a file or a URL")
        in_place = "Inventory to decide on instead of registered pod managers (repeat option)"
        one.add_argument("--inventory", metavar="<path>", action="append", help=in_place)
    text = "Maintain the state: check, upgrade, downgrade, back up, repair"
    store = commands.add_parser("store", help=text, description=f"{text}.")
    add_store_commands(store)
    return top


def run(
    arguments: argparse.Namespace, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    try:
        for name in ("config", "state", "inventory", "file", "backup"):
            value = getattr(arguments, name, None)
            if "" in (value if isinstance(value, list) else [value]):
                option = "<file>" if name == "file" else f"--{name}"
                raise errors.UsageError(f"{option}: an empty name: name a file")
        return _run(arguments, environ, stdout, stderr)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        hint = f"pip install 'valence-sched[{extra}]'"
        problem = errors.SchedulerError(f"the service needs {error.name}: {hint}")
    except errors.SchedulerError as error:
        problem = error
    stderr.write(f"{problem}\n")
    return problem.exit_code


def _run(
    arguments: argparse.Namespace, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO
) -> int:
    if arguments.command == "store":
        return _run_store(arguments, environ, stdout)
    settings = _settings(arguments, environ)
    if count := report_problems(settings, environ, stderr, waits=arguments.command == "serve"):
        stderr.write(f"{format_count(count, 'problem')} in the settings\n")
        return 1
    if arguments.command == "check-config":
        stdout.write(dump_yaml(_every_field(settings)))
        return 0
    from valence_sched.server.worker import GunicornServer  # may not be installed

    def read() -> nouns.ServiceSettings:
        settings = _settings(arguments, environ)
        for problem in _problems(settings, environ):
            if not _is_away(problem):
                raise problem
        return settings

    GunicornServer(settings, read).run()
    return 0


def report_problems(
    settings: nouns.ServiceSettings, environ: Mapping[str, str], stderr: TextIO, *, waits: bool
) -> int:
    """Write each problem; return their number without a database that the service waits for."""
    count = 0
    for problem in _problems(settings, environ):
        passes = waits and _is_away(problem)
        stderr.write(f"{problem}{': the service waits for it' if passes else ''}\n")
        count += not passes
    return count


def _problems(settings: nouns.ServiceSettings, environ: Mapping[str, str]) -> Iterator[Exception]:
    from valence_sched.server.wiring import configuration_problems  # falcon may not be installed

    return configuration_problems(settings, environ)


def _is_away(problem: Exception) -> bool:
    return isinstance(problem, errors.StoreError) and problem.away


def _settings(arguments: argparse.Namespace, environ: Mapping[str, str]) -> nouns.ServiceSettings:
    path = arguments.config or environ.get(nouns.CONFIG_VARIABLE)
    with errors.errors_at(None if arguments.config else nouns.CONFIG_VARIABLE):
        settings = nouns.read_settings(path, check=False) if path else nouns.DEFAULT_SETTINGS
    words = {name: getattr(arguments, name) for name in ("host", "port", "workers", "state")}
    words["inventories"] = arguments.inventory
    given = {name: value for name, value in words.items() if value is not None}
    plain = msgspec.to_builtins(settings) | given
    try:
        settings = convert(plain, nouns.ServiceSettings, "the command line")
    except errors.InputError as error:
        raise errors.UsageError(str(error)) from None
    nouns.check_settings(settings, path or "the command line")
    return settings


def _every_field(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _every_field(getattr(value, name)) for name in value.__struct_fields__}
    return [_every_field(one) for one in value] if isinstance(value, tuple) else value


if __name__ == "__main__":
    sys.exit(main())
