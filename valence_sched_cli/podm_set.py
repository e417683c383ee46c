# SPDX-License-Identifier: Apache-2.0
"""The command that changes what is registered of a pod manager."""

from __future__ import annotations

import argparse

from valence_sched_cli import command, options, registration
from valence_sched_cli.request import named


class SetPodm(command.Command):
    """Change what is registered of a pod manager; aggregates and the like are added."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("podm", metavar="<podm>", help="registered pod manager")
        parser.add_argument("--url", metavar="<url>", type=named, help="where it is now")
        registration.add_options(parser)
        options.add_state_option(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        import msgspec

        from valence_sched.errors import UsageError
        from valence_sched.model.address import fault, tidy

        url = parsed_args.url
        if url is not None and (wrong := fault(url)):
            raise UsageError(f"--url: found {wrong}")
        registry = self.main.registry(parsed_args.state)
        old = registry.get(parsed_args.podm)
        new = registration.edited(old, parsed_args)
        if url is not None:
            new = msgspec.structs.replace(new, url=tidy(url))
        if new == old and not parsed_args.password_prompt:
            raise UsageError("nothing to set: say what is different from now")
        registry.change(new, registration.typed(parsed_args, old.name))
        self.closing += registration.warnings_on(new, registry.registered())
