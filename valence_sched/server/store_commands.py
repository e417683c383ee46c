# SPDX-License-Identifier: Apache-2.0
"""The commands ``valence-scheduler store``, which look after a state."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from valence_sched.app import App
from valence_sched.errors import UsageError, errors_at
from valence_sched.model.quantity import format_count

if TYPE_CHECKING:
    from valence_sched.store.maintenance import Maintenance

MOST_DISPATCHES = 1000  # that are shown
Command = Callable[["Maintenance", argparse.Namespace, TextIO], int]


def add_store_commands(parser: argparse.ArgumentParser, config_variable: str) -> None:
    """Add the commands to the parser of ``store``."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="<action>")
    for name, text in (
        ("check", "Check the state: its version, its rows and its file"),
        ("upgrade", "Bring the tables of the state up to date"),
        ("downgrade", "Take the tables back to the version of an older program"),
        ("backup", "Write a copy of a state in a file, also while it is in use"),
        ("dispatches", "Show the decisions for the controller: those that wait, then the others"),
        ("repair", "Show the rows that cannot be decoded, and with --yes take them out"),
    ):
        one = actions.add_parser(name, help=text, description=f"{text}.")
        one.add_argument("--config", metavar="<file>",
                         help=f"YAML file of the settings (Env: {config_variable})")  # fmt: skip
        one.add_argument("--state", metavar="<url>", help="State to use: a file or a URL")
        if name == "downgrade":
            one.add_argument("--to", metavar="<version>", required=True, help="Version to go to")
        if name == "backup":
            one.add_argument("file", metavar="<file>", help="File to write, which is not there yet")
        if name == "check":
            one.add_argument("--deep", action="store_true", help="Decode every row")
        if name == "dispatches":
            one.add_argument("--drop", metavar="<id>", help="Post a decision that waits no more")
        if name == "repair":
            one.add_argument("--yes", action="store_true", help="Repair; needs --backup")
            one.add_argument("--backup", metavar="<file>",
                             help="File for a copy of a SQLite state before it is repaired; "
                             "<file>.rows takes the rows that are taken out")  # fmt: skip


def run_store_command(
    arguments: argparse.Namespace, state: str | None, environ: Mapping[str, str], stdout: TextIO
) -> int:
    """Run a command on a state, None: the usual one; return its exit code."""
    from valence_sched.store.maintenance import Maintenance

    app = App(environ=environ)
    registry = app.registry(state)
    commands: dict[str, Command] = {
        "check": _check, "upgrade": _upgrade, "downgrade": _downgrade, "backup": _backup,
        "dispatches": _dispatches, "repair": _repair,
    }  # fmt: skip
    with errors_at(registry.variable):
        opened = Maintenance(registry.url)
    with opened as store:
        code = commands[arguments.action](store, arguments, stdout)
    if arguments.action == "upgrade":
        app.record_changes(state, "store upgrade", [("schema", "done")])
    if arguments.action == "repair" and arguments.yes:
        app.record_changes(state, "store repair", [("rows", "undecodable" if code else "done")])
    if arguments.action == "dispatches" and arguments.drop is not None:
        app.record_changes(state, "store dispatches --drop", [(arguments.drop, "done")])
    if arguments.action == "backup" and registry.passwords.path.exists():
        stdout.write(f"not in it: {registry.passwords.path} has the passwords that were typed\n")
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
        raise UsageError("--yes: name a file for what is taken out (--backup FILE)")
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


def _dispatches(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> int:
    if arguments.drop is not None:
        store.dispatches.drop(arguments.drop)
        stdout.write(f"{arguments.drop}: dropped\n")
        return 0
    for one in store.dispatches.newest(MOST_DISPATCHES):
        stdout.write(f"{one}\n")
    return 0


def _upgrade(store: Maintenance, _arguments: argparse.Namespace, stdout: TextIO) -> int:
    return _report(store, store.upgrade(), stdout)


def _downgrade(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> int:
    return _report(store, store.downgrade(arguments.to), stdout)


def _report(store: Maintenance, before: str | None, stdout: TextIO) -> int:
    stdout.write(f"{store.address}: version {store.revision}, was {before or 'none'}\n")
    return 0


def _backup(store: Maintenance, arguments: argparse.Namespace, stdout: TextIO) -> int:
    store.backup(Path(arguments.file))
    stdout.write(f"{arguments.file}: a copy of {store.address}\n")
    return 0
