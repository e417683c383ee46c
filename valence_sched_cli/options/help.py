# SPDX-License-Identifier: Apache-2.0
"""The help of a command: examples first, then its options in sections by what they are about."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

#: The sections, in their order: what is asked for, where it may go, together with what, on which
#: inventory, edited how, and how to decide, what to do then, and what to print.
SECTIONS = ("what", "where", "together", "inventory", "edits", "decide", "then", "output")
_GLUE = "\N{NO-BREAK SPACE}"
FEW_OPTIONS = 6  # that the usage names all
_ARGPARSE = ("positional arguments", "options")  # its own groups, which come before


def section(parser: argparse.ArgumentParser, name: str) -> argparse._ArgumentGroup:
    """Return the section of a parser that has this name of SECTIONS; it is made when it lacks."""
    groups = parser._action_groups
    for group in groups:
        if group.title == name:
            return group
    made = parser.add_argument_group(name)
    groups.sort(key=_rank)
    return made


def _rank(group: argparse._ArgumentGroup) -> int:
    """Return the place of a group of options; those of the output formats are the last."""
    titles = (*_ARGPARSE, *SECTIONS)
    return titles.index(group.title) if group.title in titles else len(titles)


class CommandHelp(argparse.HelpFormatter):
    """Formats the help of a command; paragraphs that are indented keep their lines.

    ``examples`` are the words after the name of the command; they follow the usage. Of many options
    the usage names only those that must be given.
    """

    def __init__(self, prog: str, *args: Any, examples: Sequence[str] = (), **words: Any) -> None:
        super().__init__(prog, *args, **words)
        self._examples = examples

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        actions, groups = list(actions), list(groups)
        if sum(1 for action in actions if action.option_strings) > FEW_OPTIONS:
            actions, groups = _needed(actions, groups)
        super().add_usage(usage, actions, groups, prefix)
        if not self._examples:
            return
        self.start_section("examples")
        for example in self._examples:
            self._add_item(self._example, [example])
        self.end_section()

    def _example(self, words: str) -> str:
        """Return the lines of an example, which a shell takes as one."""
        glued = re.sub(r" (?!-)", _GLUE, words)  # an option and its value
        lines = textwrap.wrap(
            f"{self._prog} {glued}",
            self._width - self._current_indent - len(" \\"),
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        indent = " " * self._current_indent
        return indent + f" \\\n{indent}".join(lines).replace(_GLUE, " ") + "\n"

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        parts = text.split("\n\n")
        return "\n\n".join(
            _fold_rows(part, width) if part.startswith("  ") else fill(part, width, indent)
            for part in parts
        )


def _needed(
    actions: list[argparse.Action], groups: list[argparse._MutuallyExclusiveGroup]
) -> tuple[list[argparse.Action], list[argparse._MutuallyExclusiveGroup]]:
    """Return what must be given and --help, with a word for all other options, and the groups."""
    needed = [group for group in groups if group.required]
    either = [action for group in needed for action in group._group_actions]
    options = [action for action in actions if action.option_strings]
    arguments = [action for action in actions if action not in options]
    others = argparse.Action([], "options", metavar="[options]", required=True)
    shown = [action for action in options
             if action.required or action in either
             or "--help" in action.option_strings]  # fmt: skip
    return [*shown, others, *arguments], needed


def _fold_rows(text: str, width: int) -> str:
    """Return rows of two columns, the second one folded."""
    lines: list[str] = []
    for line in text.split("\n"):
        first = re.match(r"  (?:\S ?)*\s+", line)
        hanging = " " * len(first[0] if first else "    ")
        lines += textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False)
    return "\n".join(lines)
