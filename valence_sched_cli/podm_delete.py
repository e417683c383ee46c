# SPDX-License-Identifier: Apache-2.0
"""The command that takes pod managers out of the registry."""

from __future__ import annotations

import argparse

from valence_sched.errors import SchedulerError
from valence_sched_cli import command, options


class DeletePodm(command.Command):
    """Take pod managers out of the registry; refused while claims or nodes of one exist."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "podm", metavar="<podm>", nargs="+", help="registered pod manager (repeat for several)"
        )
        options.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        registry = self.main.registry(parsed_args.state)
        for name in dict.fromkeys(parsed_args.podm):
            try:
                registry.delete(name)
            except SchedulerError as error:  # the others can go all the same
                self.tell(str(error))
                self.exit_code = error.exit_code
