# SPDX-License-Identifier: Apache-2.0
"""The commands ``scheduler filter list`` and ``scheduler weigher list``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from valence_sched_cli import base
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import Pairs

if TYPE_CHECKING:
    from valence_sched.model.policy import PluginKind


class ListPlugins(base.Lister):
    """List the plug-ins of one kind, those that cannot be loaded included."""

    kind: PluginKind

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "--long: also list where each comes from")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        installed = self.scheduler(parsed_args).plugins(self.kind)
        for name, error in installed.load_errors.items():
            self.tell(f"{installed.kind} {name!r} cannot be loaded: {error}")
        columns = ["Name", "Description", "Options"] + (["Source"] if parsed_args.long else [])
        rows = [
            (plugin.name, plugin.description, Pairs(plugin.options), plugin.source)
            for plugin in installed.plugins
        ]
        return columns, [row[: len(columns)] for row in rows]


class ListFilter(ListPlugins):
    """List the filters that policies may name.

    Each has its options with their defaults.
    """

    through_service = True

    kind = "filters"


class ListWeigher(ListPlugins):
    """List the weighers that policies may name.

    Each has its options with their defaults.
    """

    through_service = True

    kind = "weighers"
