# SPDX-License-Identifier: Apache-2.0
"""Commands about flavors: list, show, validate."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched_cli import command
from valence_sched_cli.columns import Absent, Needs, PairStack, Sentence, Stack, maybe


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
            columns += [
                "Zone", "Aggregates", "Capabilities", "Required Traits", "Forbidden Traits",
                "Attributes",
            ]  # fmt: skip
        rows = (
            (flavor.name, flavor.description, Needs(flavor.needs),
             maybe(flavor.zone), Stack(flavor.wanted_aggregates.required),
             PairStack(flavor.wanted_capabilities),
             Stack(flavor.traits.required), Stack(flavor.traits.forbidden),
             PairStack(flavor.attributes))[: len(columns)]
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
            "Properties": PairStack(msgspec.to_builtins(flavor.properties)),
            "Needs": Needs(flavor.needs),
            "Zone": maybe(flavor.zone),
            "Aggregates": Stack(flavor.wanted_aggregates.required),
            "Capabilities": PairStack(flavor.wanted_capabilities),
            "Required Traits": Stack(flavor.traits.required),
            "Forbidden Traits": Stack(flavor.traits.forbidden),
            "Attributes": PairStack(flavor.attributes),
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

        rows: list[tuple[str, bool, int, Any]] = []
        for file in parsed_args.file:
            try:
                rows.append((file, True, len(self.main.flavors_in(file)), Absent()))
            except InputError as error:
                rows.append((file, False, 0, Sentence(str(error))))
                self.exit_code = 1
        return ("File", "Valid", "Flavors", "Error"), rows
