# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm flavor list, show, validate``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import (
    Absent,
    AlternativesCell,
    AnyOfCell,
    ExpressionCell,
    NeedsCell,
    PairLines,
    Sentence,
    TopologyConstraintsCell,
    WordLines,
    or_absent,
)

if TYPE_CHECKING:
    from valence_sched.model.flavor import Flavor

LONG_COLUMNS = (
    "Bonds", "Fallbacks", "Policy", "Share", "Zone", "Locations", "Aggregates",
    "Forbidden Aggregates",
    "Any Aggregates", "Capabilities", "Required Traits", "Forbidden Traits", "Any Traits",
    "Attributes", "Where",
)  # fmt: skip


class ListFlavor(base.Lister):
    """List flavors.

    They are the built-in ones, your own, and those of --flavor-file.
    """

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_flavor_file_option(parser)
        add_option(parser, "--long: list more columns")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        flavors = self.scheduler_app.config.flavors(parsed_args.flavor_file)
        columns = ["Name", "Description", "Needs"]
        if parsed_args.long:
            columns += LONG_COLUMNS
        cells = map(_cells, flavors.values())
        return columns, (tuple(row[column] for column in columns) for row in cells)


class ShowFlavor(base.ShowOne):
    """Show one flavor and the needs it compiles to."""

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_flavor_file_option(parser)
        add_option(parser, "<flavor>: flavor: a name, a file, or - for standard input")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        import msgspec

        flavor = self.scheduler_app.config.flavor(parsed_args.flavor, parsed_args.flavor_file)
        words = PairLines(msgspec.to_builtins(flavor.properties))
        cells = _cells(flavor)
        head = {name: cells.pop(name) for name in ("Name", "Description")}
        cells = {**head, "Properties": words, **cells}
        return list(cells), list(cells.values())


class ValidateFlavor(base.Lister):
    """Check files of flavors.

    Exits 1 if a file is invalid.
    """

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_flavor_file_option(parser)
        add_option(parser, "<file>...: YAML or JSON file")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.errors import InputError, RequestError, UnknownName

        rows: list[tuple[str, bool, int, Any]] = []
        for file in parsed_args.file:
            try:
                flavors = self.scheduler_app.config.flavors_in(file, parsed_args.flavor_file)
                rows.append((file, True, len(flavors), Absent()))
            except (InputError, RequestError, UnknownName) as error:
                rows.append((file, False, 0, Sentence(str(error), file)))
                self.exit_code = 1
        return ("File", "Valid", "Flavors", "Error"), rows


def _cells(flavor: Flavor) -> dict[str, Any]:
    """Return everything a flavor says but its properties, by the title of the column."""
    first, *others = flavor.alternatives
    aggregates, traits = flavor.aggregate_names, flavor.traits
    return {
        "Name": flavor.name,
        "Description": flavor.description,
        "Needs": NeedsCell(first.needs),
        "Bonds": TopologyConstraintsCell(first.bonds),
        "Fallbacks": AlternativesCell(others),
        "Policy": or_absent(flavor.policy),
        "Share": flavor.share,
        "Zone": or_absent(flavor.zone),
        "Locations": WordLines(flavor.locations),
        "Aggregates": WordLines(aggregates.required),
        "Forbidden Aggregates": WordLines(aggregates.forbidden),
        "Any Aggregates": AnyOfCell(aggregates.any_of),
        "Capabilities": PairLines(flavor.capability_map),
        "Required Traits": WordLines(traits.required),
        "Forbidden Traits": WordLines(traits.forbidden),
        "Any Traits": AnyOfCell(traits.any_of),
        "Attributes": PairLines(flavor.attributes),
        "Where": Absent() if flavor.where is None else ExpressionCell(flavor.where),
    }
