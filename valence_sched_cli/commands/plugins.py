# SPDX-License-Identifier: Apache-2.0
"""What the lists of filters and of weighers have in common."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.output.cells import Pairs


class ListPlugins(base.Lister):
    """List the plug-ins of one entry point group, those that cannot be loaded included."""

    group: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="also list where each comes from")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.core import plugins

        installed = plugins.load(self.group)
        rows = [
            (
                name,
                plugins.summary(plugin).replace("``", "'"),
                Pairs(_defaults(plugin)),
                installed.sources[name],
            )
            for name, plugin in installed.by_name.items()
        ]
        for name, error in installed.load_errors.items():
            self.tell(f"{installed.kind} {name!r} cannot be loaded: {error}")
        columns = ["Name", "Description", "Options"] + (["Source"] if parsed_args.long else [])
        return columns, [row[: len(columns)] for row in rows]


def _defaults(plugin: Any) -> dict[str, Any]:
    from valence_sched.core import plugins

    found = {}
    for name, parameter in plugins.options(plugin).items():
        default = None if parameter.default is parameter.empty else parameter.default
        found[name] = dict(default) if isinstance(default, Mapping) else default
    return found


class ListFilter(ListPlugins):
    """List the filters that policies may name, with their options and defaults."""

    group = "valence_sched.filters"


class ListWeigher(ListPlugins):
    """List the weighers that policies may name, with their options and defaults."""

    group = "valence_sched.weighers"
