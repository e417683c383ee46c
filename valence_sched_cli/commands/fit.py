# SPDX-License-Identifier: Apache-2.0
"""The command ``podm fit``: counts how many more nodes of each flavor fit."""

from __future__ import annotations

import argparse

from valence_sched_cli import base
from valence_sched_cli.options import inventory
from valence_sched_cli.options.help import section
from valence_sched_cli.options.request import add_request_options, flavor_named, make_request
from valence_sched_cli.options.types import add_option, positive
from valence_sched_cli.output.columns import MACHINE
from valence_sched_cli.output.decision import warning_lines
from valence_sched_cli.output.fit_matrix import fit_matrix


class FitPodm(base.Lister):
    """Count how many more nodes of each flavor fit.

    Counted per pod manager and in total, by placing one node after another, so it is what
    scheduling would reach. Tables have a column for each pod manager, other formats a row for each
    flavor and pod manager.
    """

    through_service = True

    examples = (
        "--inventory examples/site.json",
        "--flavor gpu-large --require gpu-large=4 --zone east-1",
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        inventory.add_inventory_options(parser)
        add_request_options(parser, many=True)
        decide = section(parser, "decide")
        add_option(
            decide,
            "--limit <n>: stop counting at this many a pod manager (default: 1000)",
            type=positive,
            default=1000,
        )
        add_option(
            decide,
            "--require <flavor=n>...: exit 3 unless at least so many nodes of this flavor fit "
            "(repeat for several)",
            type=_requirement,
        )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        from valence_sched.model.quantity import format_count

        required = dict(parsed_args.require)
        scheduler = self.scheduler(parsed_args)
        names: list[tuple[str | None, str | None]] = [
            *((name, None) for name in dict.fromkeys((*parsed_args.flavor, *required))),
            *((None, name) for name in dict.fromkeys(parsed_args.nova_flavor)),
        ]
        if not names and parsed_args.resource:
            names = [(None, None)]
        if not names:
            known = self.scheduler_app.config.flavors(parsed_args.flavor_file)
            names = [(name, None) for name in known]
        warnings: list[str] = []
        undecided: list[str] = []
        fits = []
        for name, nova_name in names:
            request = make_request(self, parsed_args, name, nova_name)
            with flavor_named(request, parsed_args):
                counts = scheduler.count_fits(request, parsed_args.limit)
            warnings += [line for line in counts.warnings if line not in warnings]
            undecided += counts.undecided
            fits.append((name or request.flavor or "resources", counts.podms))
        self.closing += warning_lines(warnings)
        none = 5 if undecided else 3
        self.exit_code = 0 if any(n for _, counts in fits for _, n in counts) else none
        limit = parsed_args.limit
        if any(n >= limit for _, counts in fits for _, n in counts):
            self.closing.append(f"stopped counting at {limit:,} a pod manager: see --limit")

        table = {name: dict(counts) for name, counts in fits}
        for name, least in required.items():
            found = sum(table[name].values())
            if found < least:
                self.exit_code = 3
                self.closing.append(
                    f"{name} fits {format_count(found, 'time')}, and {least:,} are required"
                )
        if parsed_args.formatter not in MACHINE and not parsed_args.columns:
            return fit_matrix(table)
        return ("Flavor", "Podm", "Nodes"), [
            (name, podm, number)
            for name, counts in table.items()
            for podm, number in (*counts.items(), ("total", sum(counts.values())))
        ]


def _requirement(text: str) -> tuple[str, int]:
    """Parse ``FLAVOR=N``."""
    flavor, equals, number = text.rpartition("=")
    if not equals or not flavor:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not FLAVOR=N, as in gpu-large=4")
    return flavor, positive(number)
