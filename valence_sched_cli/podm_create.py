# SPDX-License-Identifier: Apache-2.0
"""The command that registers a pod manager."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from valence_sched_cli import command, options, registration


class CreatePodm(command.ShowOne):
    """Register a pod manager: where it is, how to log in, and what it counts as.

    It is not asked anything yet. Its password is never kept beside it, only where it is.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("name", metavar="<name>", help="name, its ID in every inventory")
        parser.add_argument("url", metavar="<url>", help="where it is: https://HOST[:PORT]")
        registration.add_options(parser)
        options.add_state_option(parser)
        return parser

    def column_names(self, parsed_args: argparse.Namespace) -> Sequence[str]:
        return registration.COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        from valence_sched.errors import UsageError
        from valence_sched.model.address import fault, tidy
        from valence_sched.model.registered import Registered

        name = parsed_args.name
        if not name:
            raise UsageError("an empty name")
        if wrong := fault(parsed_args.url):
            raise UsageError(f"url: found {wrong}")
        registry = self.main.registry(parsed_args.state)
        registered = registration.edited(
            Registered(name=name, url=tidy(parsed_args.url)), parsed_args
        )
        registry.check_new(registered)
        registry.create(registered, registration.typed(parsed_args, name))
        self.closing += registration.warnings_on(registered, registry.registered())
        return registration.COLUMNS, registration.every_cell(registered, registry.where)
