# SPDX-License-Identifier: Apache-2.0
"""Commands about what pod managers report by themselves: set, show, unset."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import common
from valence_sched_cli.output.cells import Age, PairLines, or_absent


class SetStats(base.ShowOne):
    """Take in what a pod manager reports by itself; the very next decision sees it.

    A word that is reported again takes the earlier's place. Words that are no fields of a pod
    manager are facts. An empty report only says that it is alive.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="pod manager (ID, or host/node)")
        parser.add_argument(
            "file", metavar="<file>", help="JSON or YAML object, or - for standard input"
        )
        common.add_state_option(parser)
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return ("Podm", "Generation")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        stats = self.main.read_stats(parsed_args.file)
        state = parsed_args.state
        generation = self.main.update_resource_stats(parsed_args.podm, stats, state)
        return self.column_names(parsed_args), (parsed_args.podm, generation)


class UnsetStats(base.Command):
    """Forget what pod managers have reported, and those whole that were never read."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "podm", metavar="<podm>", nargs="+",
            help="pod manager (ID, or host/node; repeat for several)",
        )  # fmt: skip
        common.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from valence_sched.errors import SchedulerError

        for podm in dict.fromkeys(parsed_args.podm):
            try:
                self.main.forget_report(podm, parsed_args.state)
            except SchedulerError as error:  # the others can go all the same
                self.tell(str(error), logging.ERROR)
                self.exit_code = error.exit_code


class ShowStats(base.ShowOne):
    """Show what a pod manager has reported by itself."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="pod manager (ID, or host/node)")
        common.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        stats, age_s = self.main.reported_stats(parsed_args.podm, parsed_args.state)
        age = or_absent(age_s if age_s is None else Age(age_s))
        return ("Podm", "Age", "Stats"), (parsed_args.podm, age, PairLines(stats))
