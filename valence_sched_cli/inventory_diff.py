# SPDX-License-Identifier: Apache-2.0
"""Command that compares two inventories."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import command
from valence_sched_cli.columns import Cell, Tails, maybe, text

COLUMNS = ("Podm", "Kind", "Name", "Change", "Was", "Is")
DIFFERENT = 10
WIDTH = 44  # of a cell that holds a structure


class DiffInventory(command.Lister):
    """Show what came, went and changed from one inventory to another.

    Exits 0 whether there is a difference or not; with --detailed-exitcode 10 when there is one.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = "file, directory, archive, or - for standard input"
        parser.add_argument("old", metavar="<old>", help=f"inventory as it was: {what}")
        parser.add_argument("new", metavar="<new>", help=f"inventory as it is: {what}")
        parser.add_argument(
            "--detailed-exitcode", action="store_true", help="exit 10 when they are different"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        rows = [
            (found.podm, found.kind, Uri(found.name), found.change,
             _cell(found.was), _cell(found.is_))
            for found in self.main.differences(parsed_args.old, parsed_args.new)
        ]  # fmt: skip
        if not rows:
            self.closing.append("no difference")
        elif parsed_args.detailed_exitcode:
            self.exit_code = DIFFERENT
        return COLUMNS, rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the rows; a person gets no empty table."""
        if not data and parsed_args.formatter == "table":
            return 0
        return super().produce_output(parsed_args, column_names, data)


class Uri(Cell[str]):
    """A URI or another name: people see its last part, machines all of it."""

    def human_readable(self) -> str:
        return Tails([self._value]).human_readable() or self._value

    def machine_readable(self) -> str:
        return self._value


class Value(Cell[Any]):
    """Any value of an inventory: in a few lines for people, as it is for machines."""

    def human_readable(self) -> str:
        if isinstance(self._value, dict):
            lines = _lines(self._value)
        elif isinstance(self._value, list):
            lines = [_words(item) for item in self._value]
        else:
            lines = [text(self._value)]
        folded = (
            textwrap.fill(line, WIDTH, subsequent_indent="  ", break_long_words=False)
            for line in lines
        )
        return "\n".join(folded)

    def machine_readable(self) -> Any:
        return self._value


def _cell(value: Any) -> Any:
    return maybe(value) if value is None or isinstance(value, str | bool) else Value(value)


def _lines(value: dict[str, Any]) -> list[str]:
    """Print a thing a field a line, without the name that stands beside it."""
    found = []
    for key, item in value.items():
        if key == "devices":
            found += _lines(item)
        elif key not in ("uri", "id"):
            found.append(f"{key}: {_words(item)}")
    return found


def _words(value: Any) -> str:
    """Print a value inside another on one line."""
    if isinstance(value, dict):
        return " ".join(f"{key}={_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return text(value)
