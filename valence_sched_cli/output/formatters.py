# SPDX-License-Identifier: Apache-2.0
"""Output formatters for the table styles of tabulate, such as ``-f markdown``.

The commands of this project load them, in addition to cliff's formatters, by entry points of the
project. So no other program and no other plug-in of OpenStackClient offers them. Tabulate is
imported only when a style is used.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from cliff.columns import FormattableColumn
from cliff.formatters import base

from valence_sched_cli.late import tabulate
from valence_sched_cli.output.table import is_of_numbers


class TableStyle(base.ListFormatter, base.SingleFormatter):
    """A table in a style of tabulate, with the patterns to escape in cells."""

    tablefmt: ClassVar[str]
    escapes: ClassVar[tuple[tuple[str, str], ...]] = ()

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: a style has no options."""

    def emit_list(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        """Print a row per object; a column that holds only numbers is aligned right."""
        rows = [list(row) for row in data]
        columns = zip(*rows, strict=True)
        alignment = ["right" if is_of_numbers(column) else "left" for column in columns]
        self._print(names, rows, alignment, stdout)

    def emit_one(self, names: Sequence[str], data: Any, stdout: Any, parsed_args: Any) -> None:
        self._print(("Field", "Value"), zip(names, data, strict=True), ["left", "left"], stdout)

    def _print(self, headers: Any, rows: Any, alignment: Sequence[str], stdout: Any) -> None:
        table = tabulate.tabulate(
            [[self._cell(value) for value in row] for row in rows],
            headers=[self._cell(name) for name in headers],
            tablefmt=self.tablefmt,
            # Cells are text here: an ID such as 0007 or 1e5 must not become a number.
            disable_numparse=True,
            colalign=alignment or None,
        )
        stdout.write(table + "\n")

    def _cell(self, value: Any) -> str:
        if isinstance(value, FormattableColumn):
            value = value.human_readable()
        text = str(value).replace("\r\n", "\n").replace("\r", "\n")
        for pattern, replacement in self.escapes:
            text = re.sub(pattern, replacement, text)
        return text


def table_style(tablefmt: str, *escapes: tuple[str, str]) -> type[TableStyle]:
    """Return the formatter of a style of tabulate, with the patterns that its cells escape."""
    name = tablefmt.title().replace("_", "")
    return type(name, (TableStyle,), {"tablefmt": tablefmt, "escapes": escapes})


# Doubles the backslashes before a pipe, which would otherwise escape the added backslash.
_BACKSLASHED_PIPE = (r"(\\*)\|", r"\1\1\\|")
_PIPE_ENTITY = (r"\|", "&#124;")
_LESS_ENTITY = (r"<", "&lt;")
_MARKDOWN = (_BACKSLASHED_PIPE, _LESS_ENTITY, (r"\n", "<br>"))

Asciidoc = table_style("asciidoc", _PIPE_ENTITY)
FancyGrid = table_style("fancy_grid")
Github = table_style("github", *_MARKDOWN)
Grid = table_style("grid")
Html = table_style("html")  # tabulate escapes its cells
Jira = table_style("jira", (r"([|{}\[\]])", r"\\\1"), (r"\n", r" \\\\ "))
Latex = table_style("latex", (r"\n", " "))  # tabulate escapes its cells
Markdown = table_style("pipe", *_MARKDOWN)  # as GitHub, GitLab and Gitea render it
Mediawiki = table_style("mediawiki", _PIPE_ENTITY, _LESS_ENTITY, (r"\n", "<br>"))
Orgtbl = table_style("orgtbl", (r"\|", r"\\vert{}"), (r"\n", " "))
Outline = table_style("outline")
Plain = table_style("plain")
Pretty = table_style("pretty")
Psql = table_style("psql")
RoundedGrid = table_style("rounded_grid")
Rst = table_style("rst", (r"([\\*`|]|_(?!\w))", r"\\\1"))
Simple = table_style("simple")
SimpleGrid = table_style("simple_grid")
Textile = table_style("textile", _PIPE_ENTITY, _LESS_ENTITY, (r"\n", "<br />"))
Tsv = table_style("tsv", (r"[\t\n]", " "))
