# SPDX-License-Identifier: Apache-2.0
"""The command that counts: how many more nodes there is room for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from valence_sched_cli import base
from valence_sched_cli.options import common
from valence_sched_cli.options.request import (
    add_request_options,
    check_policy,
    decider_for,
    make_request,
)
from valence_sched_cli.options.types import positive


class FitPodm(base.Lister):
    """Count how many more nodes of each flavor fit, per pod manager and in total.

    Counted by placing one node after another, so it is what scheduling would reach.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        common.add_inventory_options(parser)
        add_request_options(parser, many=True)
        parser.add_argument(
            "--limit",
            metavar="<n>",
            type=positive,
            default=1000,
            help="stop counting at this many a pod manager (default: 1000)",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterator[Any]]:
        engine = decider_for(self, parsed_args)
        names: list[tuple[str | None, str | None]] = [
            *((name, None) for name in dict.fromkeys(parsed_args.flavor)),
            *((None, name) for name in dict.fromkeys(parsed_args.nova_flavor)),
        ]
        if not names and parsed_args.resource:
            names = [(None, None)]
        if not names:
            names = [(name, None) for name in self.main.config.flavors(parsed_args.flavor_file)]
        warnings: list[str] = []
        fits = []
        for name, nova_name in names:
            request = make_request(self.main, parsed_args, name, nova_name, self.app.client_manager)
            check_policy(engine, request, parsed_args)
            counts = engine.count_fits(request, parsed_args.limit, warnings)
            fits.append((name or request.flavor or "resources", counts))
        self.closing += [f"warning: {warning}" for warning in warnings]
        self.exit_code = 0 if any(n for _, counts in fits for _, n in counts) else 3
        limit = parsed_args.limit
        if any(n >= limit for _, counts in fits for _, n in counts):
            self.closing.append(f"stopped counting at {limit:,} a pod manager: see --limit")

        def rows() -> Iterator[tuple[str, str, int]]:
            for name, counts in fits:
                for podm, number in counts:
                    yield name, podm, number
                yield name, "total", sum(number for _, number in counts)

        return ("Flavor", "Podm", "Nodes"), rows()
