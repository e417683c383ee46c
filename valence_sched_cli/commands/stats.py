# SPDX-License-Identifier: Apache-2.0
"""The commands ``podm stats set, show, unset``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.types import add_option
from valence_sched_cli.output.cells import PairLines, time_cell


class SetStats(base.ShowOne):
    """Take in what a pod manager reports by itself.

    The very next decision sees it. A word that is reported again takes the earlier's place. Words
    that are no fields of a pod manager are facts. An empty report only says that it is alive.
    """

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<podm>: pod manager (ID, or host/node)")
        add_option(parser, "<file>: JSON or YAML object, or - for standard input")
        inventory.add_state_option(parser)

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return ("Podm", "Generation")

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        stats = self._read_stats(parsed_args.file)
        scheduler = self.scheduler(parsed_args)
        generation = scheduler.update_resource_stats(parsed_args.podm, stats)
        return self.column_names(parsed_args), (parsed_args.podm, generation)

    def _read_stats(self, file: str) -> dict[str, Any]:
        """Return the words of a file, ``-`` for standard input; InputError if it is no object."""
        from valence_sched.errors import InputError
        from valence_sched.model.codec import load_yaml

        name = "stdin" if file == "-" else file
        document = load_yaml(self.scheduler_app.config.read(file), name)
        if document is None:
            raise InputError(name, "$", "an empty document", "an object")
        if not isinstance(document, dict):
            raise InputError(name, "$", type(document).__name__, "an object")
        return {str(word): value for word, value in document.items()}


class UnsetStats(base.Command):
    """Forget what pod managers have reported.

    One that was never read is forgotten whole.
    """

    through_service = True

    effectful = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<podm>...: pod manager (ID, or host/node; repeat for several)")
        inventory.add_state_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.change_each(self.scheduler(parsed_args).forget_report, parsed_args.podm)


class ShowStats(base.ShowOne):
    """Show what a pod manager has reported by itself."""

    through_service = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_option(parser, "<podm>: pod manager (ID, or host/node)")
        inventory.add_state_option(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        report = self.scheduler(parsed_args).reported_stats(parsed_args.podm)
        cells = (parsed_args.podm, time_cell(report.at, report.age_s), PairLines(report.stats))
        return ("Podm", "Reported At", "Stats"), cells
