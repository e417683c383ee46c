# SPDX-License-Identifier: Apache-2.0
"""PagedLister: the base of commands whose lists may be long: sorts, and prints one page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import UnknownName, UsageError
from valence_sched_cli import base
from valence_sched_cli.options.parser import add_options
from valence_sched_cli.output.table import check_columns, column_key, full_titles, machine_value

if TYPE_CHECKING:
    from valence_sched.model.scheduler import Scheduler

DIRECTIONS = ("asc", "desc")


class PagedLister(base.Lister):
    """A command that prints rows, sorted and page by page where its options say so."""

    marker_columns: tuple[str, ...] = ("Podm",)  # what together names a row

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        names = "/".join(f"<{name.lower()}>" for name in self.marker_columns)
        add_options(
            parser,
            f"""
            output --sort <column[:desc]>...: sort by this column before a page is taken (repeat for
                columns that decide between equals)
            output --limit <n>: print at most so many rows
            output --marker <name>: begin behind this row, the last of the page before ({names})
            """,
        )
        return parser

    def list_scheduler(self, parsed_args: argparse.Namespace) -> Scheduler:
        """Return the scheduler that lists; --strict is about the list, not about reading."""
        from msgspec.structs import replace

        return self.scheduler(parsed_args, replace(self.selection(parsed_args), strict=False))

    def tell_missing_of(self, found: object, noun: str, *, strict: bool) -> None:
        """Tell which zones a list lacks, as of a report."""
        from valence_sched.model.zone import silent_zones

        self.tell_missing(silent_zones(found), noun, strict=strict)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        rows = list(data)
        for word in reversed(parsed_args.sort):
            name, _, direction = word.partition(":")
            if direction not in ("", *DIRECTIONS):
                raise UsageError(f"--sort: {word!r}: the direction is asc or desc")
            title = full_titles([name], column_names)[0]
            check_columns([title], column_names, "--sort")
            index = [*map(column_key, column_names)].index(column_key(title))
            rows.sort(key=lambda row: (row[index] is None, row[index]), reverse=direction == "desc")
        if parsed_args.marker is not None:
            picks = [column_names.index(name) for name in self.marker_columns]
            names = ["/".join(str(machine_value(row[pick])) for pick in picks) for row in rows]
            if parsed_args.marker not in names:
                raise UnknownName("row", parsed_args.marker, names, "--marker")
            rows = rows[names.index(parsed_args.marker) + 1 :]
        return super().produce_output(parsed_args, column_names, rows[: parsed_args.limit])
