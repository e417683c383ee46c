# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm inventory validate, convert, diff``."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.output.cells import (
    Absent,
    Cell,
    Sentence,
    Sentences,
    UriTails,
    format_value,
    or_absent,
)


class ValidateInventory(base.Lister):
    """Check inventories: what is in each, and what had to be skipped.

    Exits 1 when a source cannot be read, 5 with --strict when a document had to be skipped.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "source", metavar="<path>", nargs="+", help="file, directory, archive, or -"
        )
        inventory.add_resource_file_option(parser)
        parser.add_argument(
            "--strict", action="store_true", help="exit 5 when any document had to be skipped"
        )
        parser.add_argument(
            "--long", action="store_true", help="also list remarks: read, but doubtful"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import InputError
        from valence_sched.model.read_options import Selection

        rows: list[tuple[Any, ...]] = []
        resources = tuple(parsed_args.resource_file)
        diagnostics = self.scheduler_app.diagnostics
        for source in parsed_args.source:
            error: str | None = None
            try:
                selection = Selection(sources=(source,), resource_files=resources)
                size = self.scheduler(parsed_args, selection).inventory()
                counts = (size.podms, size.pools, size.blocks)
            except InputError as caught:
                counts, error = (0, 0, 0), str(caught)
                self.exit_code = 1
            skipped, remarks = diagnostics.lines("skipped"), diagnostics.lines("remark")
            diagnostics.clear()
            if skipped and parsed_args.strict and not self.exit_code:
                self.exit_code = 5
            cell = Sentence(error) if error else Absent()
            rows.append((source, not error, *counts, Sentences(skipped), cell, Sentences(remarks)))
        columns = ["Source", "Valid", "Podms", "Pools", "Blocks", "Skipped", "Error"]
        columns += ["Remarks"] if parsed_args.long else []
        return columns, [row[: len(columns)] for row in rows]


class ConvertInventory(base.ShowOne):
    """Read inventories of any kind and write them as one inventory file.

    The name decides the form: .json is one document, .jsonl has a pod manager a line; .gz and
    .zst are compressed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        inventory.add_inventory_options(parser)
        parser.add_argument("--output", "-o", metavar="<file>", required=True, help="file to write")
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return ("File", "Podms", "Blocks")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        selection = self.selection(parsed_args)
        podms, blocks = self.scheduler_app.loader.convert(selection, parsed_args.output)
        return self.column_names(parsed_args), (parsed_args.output, podms, blocks)


DIFF_COLUMNS = ("Podm", "Kind", "Name", "Change", "Was", "Is")
EXIT_DIFFERENT = 10
VALUE_WIDTH = 44  # of a cell that holds a structure


class DiffInventory(base.Lister):
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
        loader = self.scheduler_app.loader
        rows = [
            (difference.podm, difference.kind, UriCell(difference.name), difference.change,
             _cell(difference.before), _cell(difference.after))
            for difference in loader.differences(parsed_args.old, parsed_args.new)
        ]  # fmt: skip
        if not rows:
            self.closing.append("no difference")
        elif parsed_args.detailed_exitcode:
            self.exit_code = EXIT_DIFFERENT
        return DIFF_COLUMNS, rows

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        """Print the rows; a person gets no empty table."""
        if not data and parsed_args.formatter == "table":
            return 0
        return super().produce_output(parsed_args, column_names, data)


class UriCell(Cell[str]):
    """A URI or another name: people see its last part, machines all of it."""

    def human_readable(self) -> str:
        return UriTails([self._value]).human_readable() or self._value

    def machine_readable(self) -> str:
        return self._value


class ValueCell(Cell[Any]):
    """Any value of an inventory: in a few lines for people, as it is for machines."""

    def human_readable(self) -> str:
        if isinstance(self._value, dict):
            lines = _field_lines(self._value)
        elif isinstance(self._value, list):
            lines = [_inline(item) for item in self._value]
        else:
            lines = [format_value(self._value)]
        folded = (
            textwrap.fill(line, VALUE_WIDTH, subsequent_indent="  ", break_long_words=False)
            for line in lines
        )
        return "\n".join(folded)

    def machine_readable(self) -> Any:
        return self._value


def _cell(value: Any) -> Any:
    return or_absent(value) if value is None or isinstance(value, str | bool) else ValueCell(value)


def _field_lines(value: dict[str, Any]) -> list[str]:
    """Print an object with a field on each line, without the name beside it."""
    lines = []
    for key, item in value.items():
        if key == "devices":
            lines += _field_lines(item)
        elif key not in ("uri", "id"):
            lines.append(f"{key}: {_inline(item)}")
    return lines


def _inline(value: Any) -> str:
    """Print a value inside another on one line."""
    if isinstance(value, dict):
        return " ".join(f"{key}={_inline(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(map(_inline, value))
    return format_value(value)
