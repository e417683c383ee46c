# SPDX-License-Identifier: Apache-2.0
"""Commands about flavors: list, show, validate."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched_cli import command
from valence_sched_cli.columns import Lines, Maybe, Pairs, Words


class ListFlavor(command.Lister):
    """List flavors: the built-in ones, your own, and those of --flavor-file."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_flavor_file_option(parser)
        parser.add_argument("--long", action="store_true", help="list more columns")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        flavors = self.main.flavors(parsed_args.flavor_file)
        columns = ["Name", "Description", "Needs"]
        if parsed_args.long:
            columns += ["Zone", "Aggregates", "Capabilities", "Required Traits", "Forbidden Traits"]
        rows = (
            (flavor.name, flavor.description, Words([_words(need) for need in flavor.needs]),
             Maybe(flavor.zone), Words(flavor.aggregates), Pairs(flavor.wanted_capabilities),
             Words(flavor.traits.required), Words(flavor.traits.forbidden))[: len(columns)]
            for flavor in flavors.values()
        )  # fmt: skip
        return columns, rows


class ShowFlavor(command.ShowOne):
    """Show one flavor and the needs it compiles to."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        command.add_flavor_file_option(parser)
        parser.add_argument(
            "flavor", metavar="<flavor>", help="flavor: a name, a file, or - for standard input"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        import msgspec

        flavor = self.main.flavor(parsed_args.flavor, parsed_args.flavor_file)
        cells = {
            "Name": flavor.name,
            "Description": flavor.description,
            "Properties": Pairs(msgspec.to_builtins(flavor.properties)),
            "Needs": Lines([msgspec.to_builtins(need) for need in flavor.needs]),
            "Zone": Maybe(flavor.zone),
            "Aggregates": Words(flavor.aggregates),
            "Capabilities": Pairs(flavor.wanted_capabilities),
            "Required Traits": Words(flavor.traits.required),
            "Forbidden Traits": Words(flavor.traits.forbidden),
        }
        return list(cells), list(cells.values())


class ValidateFlavor(command.Lister):
    """Check files of flavors; exits 1 when one is not what it must be."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", metavar="<file>", nargs="+", help="YAML or JSON file")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import InputError

        rows: list[tuple[str, bool, int, str]] = []
        for file in parsed_args.file:
            try:
                rows.append((file, True, len(self.main.flavors_in(file)), ""))
            except InputError as error:
                rows.append((file, False, 0, str(error)))
                self.exit_code = 1
        return ("File", "Valid", "Flavors", "Error"), rows


def _words(need: Any) -> str:
    unit = f" {need.unit}" if need.unit else ""
    times = f"{need.count} x " if need.count > 1 else ""
    return f"{times}{need.amount:g}{unit} {need.label}"
