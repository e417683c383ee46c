# SPDX-License-Identifier: Apache-2.0
"""Commands about inventories: validate, convert."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import command, options
from valence_sched_cli.columns import Absent, Sentence, Sentences


class ValidateInventory(command.Lister):
    """Check inventories: what is in each, and what had to be skipped.

    Exits 1 when a source cannot be read, 5 with --strict when a document had to be skipped.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "source", metavar="<path>", nargs="+", help="file, directory, archive, or -"
        )
        options.add_resource_file_option(parser)
        parser.add_argument(
            "--strict", action="store_true", help="exit 5 when any document had to be skipped"
        )
        parser.add_argument(
            "--long", action="store_true", help="also list remarks: read, but doubtful"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import InputError, Remark

        rows: list[tuple[Any, ...]] = []
        for source in parsed_args.source:
            error: str | None = None
            try:
                view = self.main.view([source], resource_files=parsed_args.resource_file)
                counts = (len(view.podms), len(view), view.block_count)
            except InputError as caught:
                counts, error = (0, 0, 0), str(caught)
                self.exit_code = 1
            skipped = self.main.skipped
            remarks = [line for line in self.main.problems if isinstance(line, Remark)]
            self.main.problems.clear()
            if skipped and parsed_args.strict and not self.exit_code:
                self.exit_code = 5
            told = Sentence(error) if error else Absent()
            rows.append((source, not error, *counts, Sentences(skipped), told, Sentences(remarks)))
        columns = ["Source", "Valid", "Podms", "Pools", "Blocks", "Skipped", "Error"]
        columns += ["Remarks"] if parsed_args.long else []
        return columns, [row[: len(columns)] for row in rows]


class ConvertInventory(command.ShowOne):
    """Read inventories of any kind and write them as one inventory file.

    The name decides the form: .json is one document, .jsonl has a pod manager a line; .gz and
    .zst are compressed.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        options.add_inventory_options(parser)
        parser.add_argument("--output", "-o", metavar="<file>", required=True, help="file to write")
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return ("File", "Podms", "Blocks")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        podms, blocks = self.main.convert(
            parsed_args.inventory,
            parsed_args.output,
            strict=parsed_args.strict,
            resource_files=parsed_args.resource_file,
            live=self.live(parsed_args),
        )
        return self.column_names(parsed_args), (parsed_args.output, podms, blocks)
