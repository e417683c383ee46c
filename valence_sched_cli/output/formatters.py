# SPDX-License-Identifier: Apache-2.0
"""Table styles of tabulate as output formatters: ``-f markdown`` for CI summaries, and more.

The commands of this project load them beside cliff's own, by entry points of the project, so that
no other program and no other plug-in of OpenStackClient offers them. Tabulate is imported only
when a style is used.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, TextIO

from cliff import columns
from cliff.formatters import base


class TableStyle(base.ListFormatter, base.SingleFormatter):
    """A table in one of tabulate's styles; a subclass names it and says what a cell must escape."""

    tablefmt: ClassVar[str]
    escapes: ClassVar[tuple[tuple[str, str], ...]] = ()

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: a style has no options."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print a row per object; a column that holds only numbers is aligned right."""
        rows = [list(row) for row in data]
        alignment = [_alignment(column) for column in zip(*rows, strict=True)]
        self._print(column_names, rows, alignment, stdout)

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print a row per field."""
        rows = zip(column_names, data, strict=True)
        self._print(("Field", "Value"), rows, ["left", "left"], stdout)

    def _print(
        self,
        headers: Sequence[str],
        rows: Iterable[Iterable[Any]],
        alignment: Sequence[str],
        stdout: TextIO,
    ) -> None:
        from tabulate import tabulate

        table = tabulate(
            [[self._cell(value) for value in row] for row in rows],
            headers=[self._cell(name) for name in headers],
            tablefmt=self.tablefmt,
            # Cells are text by now: an id such as 0007 or 1e5 must stay as it is.
            disable_numparse=True,
            colalign=alignment or None,
        )
        stdout.write(table + "\n")

    def _cell(self, value: Any) -> str:
        if isinstance(value, columns.FormattableColumn):
            value = value.human_readable()
        text = str(value).replace("\r\n", "\n").replace("\r", "\n")
        for pattern, replacement in self.escapes:
            text = re.sub(pattern, replacement, text)
        return text


def _alignment(column: Iterable[Any]) -> str:
    values = (
        value.machine_readable() if isinstance(value, columns.FormattableColumn) else value
        for value in column
    )
    kinds = {type(value) for value in values if value is not None}
    return "right" if kinds and kinds <= {int, float} else "left"


# A backslash before the pipe would escape the backslash that escapes the pipe.
_PIPE_BY_BACKSLASH = (r"(\\*)\|", r"\1\1\\|")


class Asciidoc(TableStyle):
    """AsciiDoc."""

    tablefmt = "asciidoc"
    escapes = ((r"\|", "&#124;"),)


class FancyGrid(TableStyle):
    """Box drawing with double lines."""

    tablefmt = "fancy_grid"


class Grid(TableStyle):
    """The grid table of reStructuredText and Pandoc."""

    tablefmt = "grid"


class Html(TableStyle):
    """An HTML table; tabulate escapes the cells."""

    tablefmt = "html"


class Jira(TableStyle):
    """Jira and Confluence wiki markup."""

    tablefmt = "jira"
    escapes = ((r"([|{}\[\]])", r"\\\1"), (r"\n", r" \\\\ "))


class Latex(TableStyle):
    """A LaTeX tabular; tabulate escapes the cells."""

    tablefmt = "latex"
    escapes = ((r"\n", " "),)


class Markdown(TableStyle):
    """Markdown as GitHub, GitLab and Gitea show it."""

    tablefmt = "pipe"
    escapes = (_PIPE_BY_BACKSLASH, (r"<", "&lt;"), (r"\n", "<br>"))


class Github(Markdown):
    """Markdown in the style tabulate calls github."""

    tablefmt = "github"


class Mediawiki(TableStyle):
    """MediaWiki markup."""

    tablefmt = "mediawiki"
    escapes = ((r"\|", "&#124;"), (r"<", "&lt;"), (r"\n", "<br>"))


class Orgtbl(TableStyle):
    """An Emacs org-mode table."""

    tablefmt = "orgtbl"
    escapes = ((r"\|", r"\\vert{}"), (r"\n", " "))


class Outline(TableStyle):
    """A frame without lines between the rows."""

    tablefmt = "outline"


class Plain(TableStyle):
    """Columns and nothing else."""

    tablefmt = "plain"


class Pretty(TableStyle):
    """A frame as PrettyTable draws it."""

    tablefmt = "pretty"


class Psql(TableStyle):
    """A table as psql draws it."""

    tablefmt = "psql"


class RoundedGrid(TableStyle):
    """Box drawing with round corners."""

    tablefmt = "rounded_grid"


class Rst(TableStyle):
    """The simple table of reStructuredText."""

    tablefmt = "rst"
    escapes = ((r"([\\*`|]|_(?!\w))", r"\\\1"),)


class Simple(TableStyle):
    """Columns under a line."""

    tablefmt = "simple"


class SimpleGrid(TableStyle):
    """Box drawing with thin lines."""

    tablefmt = "simple_grid"


class Textile(TableStyle):
    """Textile markup."""

    tablefmt = "textile"
    escapes = ((r"\|", "&#124;"), (r"<", "&lt;"), (r"\n", "<br />"))


class Tsv(TableStyle):
    """Values with a tab between them."""

    tablefmt = "tsv"
    escapes = ((r"[\t\n]", " "),)
