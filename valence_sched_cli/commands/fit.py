# SPDX-License-Identifier: Apache-2.0
"""The command ``podm fit``: counts how many more nodes of each flavor, or of a mix, fit."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import UsageError
from valence_sched_cli import base
from valence_sched_cli.options import inventory, placement
from valence_sched_cli.options.parser import by_name, positive
from valence_sched_cli.options.request import add_request_options, flavor_named, make_request
from valence_sched_cli.options.whatif import WEIGHT, add_edit_options, edited_site
from valence_sched_cli.output.capacity import (
    capacity_table,
    explanation,
    outcome_lines,
    stranded_lines,
    stranded_table,
)
from valence_sched_cli.output.cells import format_count
from valence_sched_cli.output.decision import warning_lines

if TYPE_CHECKING:
    from valence_sched.app import Site
    from valence_sched.model.capacity import Capacity
    from valence_sched.model.request import Request

NOTHING_FITS, UNDECIDED = 3, 5
MOST_COUNTED = 1000  # of a pod manager, unless --limit says another number
MIX = "mix"  # what --require names it by


def _requirement(text: str) -> tuple[str, int]:
    flavor, equals, number = text.rpartition("=")
    if not equals or not flavor:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not FLAVOR=N, as in gpu-large=4")
    return flavor, positive(number)


class FitPodm(base.Lister):
    """Count how many more nodes of each flavor fit.

    Counted per pod manager and in total, by placing one node after another, so it is what
    scheduling would reach; of a mix together, up to the first node without a place. --proven adds
    the most that any order reaches. Tables have a column for each pod manager, other formats a row
    for each flavor and pod manager.
    """

    through_service = True
    examples = (
        "--inventory examples/site.json",
        "--flavor gpu-large --require gpu-large=4 --zone east-1",
        "--inventory examples/site.json --mix gpu-large=1,small=4 --proven --explain",
        "--inventory examples/site.json --mix gpu-large=1,small=4 --stranded",
    )
    _sections: Sequence[str] = ()

    arguments = """
        output --proven: also the proven most: no order of nodes and no policy places more
        output --explain: also which resource runs out first, and what free amounts promise that are
            only added up
        output --stranded: list in place of the counts what is free and of no use to any of the
            flavors, and why
        """
    option_settings = {"require": _requirement}
    option_groups = (
        inventory.INVENTORY,
        functools.partial(add_request_options, many=True),
        add_edit_options,
        WEIGHT,
        f"""
        what --mix <flavor=share,...>: also how many nodes of these flavors fit together, by their
            shares, as in gpu-large=1,small=4
        decide --limit <n>: stop counting at this many a pod manager (default: {MOST_COUNTED})
        decide --require <flavor=n>...: exit 3 unless at least so many nodes of this flavor fit, or
            of the mix (mix=n) (repeat for several)
        """,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> base.Table:
        _check_options(parsed_args)
        shares: Mapping[str, float] = parsed_args.mix or {}
        site = None
        if parsed_args.scenario or parsed_args.edits or parsed_args.weight:
            site = edited_site(self, parsed_args)
        requests = self._requests(parsed_args, shares, site)
        whatif, strict = self.scheduler_app.whatif, parsed_args.strict
        counter = (
            whatif.capacity(site, strict=strict) if site else self.report_scheduler(parsed_args)
        )
        if parsed_args.stranded:
            from valence_sched.model.zone import silent_zones

            found = counter.stranded([request for _, request in requests])
            self.tell_missing(silent_zones(found), "resources", strict=strict)
            self.closing += stranded_lines(found)
            return stranded_table(found, people=self.for_people(parsed_args))

        limit = parsed_args.limit or MOST_COUNTED
        words = {"explain": parsed_args.explain, "proven": parsed_args.proven}
        counts = []
        for name, request in requests:
            with flavor_named(request, parsed_args):
                one = counter.capacity(request, limit, **words)
            counts.append((name or one.name, one))
        if shares:
            from valence_sched.model.capacity import whole_shares

            known = dict(requests)
            mixed = [known[name] for name in shares]
            found_mix = counter.mix_capacity(mixed, whole_shares(shares), limit, **words)
            counts.append((f"the {MIX}" if MIX in dict(counts) else MIX, found_mix))
        self._close(parsed_args, counts)
        if self.for_people(parsed_args) and parsed_args.explain:
            self._sections = list(explanation(counts))
        return capacity_table(counts, people=self.for_people(parsed_args), **words)

    def _requests(
        self, parsed_args: argparse.Namespace, shares: Mapping[str, float], site: Site | None
    ) -> list[tuple[str | None, Request]]:
        required = [name for name in by_name("--require", parsed_args.require)
                    if not (shares and name == MIX)]  # fmt: skip
        names: list[tuple[str | None, str | None]] = [
            *((name, None) for name in dict.fromkeys((*parsed_args.flavor, *shares, *required))),
            *((None, name) for name in dict.fromkeys(parsed_args.nova_flavor)),
        ]
        if not names and placement.says_resources(parsed_args):
            names = [(None, None)]
        if not names:
            known = {**self.scheduler_app.config.flavors(parsed_args.flavor_file),
                     **(site.flavors if site else {})}  # fmt: skip
            names = [(name, None) for name in known]
        return [(name, make_request(self, parsed_args, name, nova_name, site))
                for name, nova_name in names]  # fmt: skip

    def _close(
        self, parsed_args: argparse.Namespace, counts: Sequence[tuple[str, Capacity]]
    ) -> None:
        self.closing += warning_lines(dict.fromkeys(
            line for _, one in counts for line in one.warnings
        ))  # fmt: skip
        podms = {podm.podm for _, one in counts for podm in one.podms}
        unread = bool(podms) and podms <= self.scheduler_app.sources.unread_ids
        silent = {zone.zone: zone for _, one in counts for zone in one.silent}
        undecided = unread or bool(silent) or any(one.undecided for _, one in counts)
        none = UNDECIDED if undecided else NOTHING_FITS
        self.exit_code = 0 if any(one.nodes for _, one in counts) else none
        limit = parsed_args.limit or MOST_COUNTED
        if any(podm.nodes >= limit for _, one in counts for podm in one.podms):
            self.closing.append(f"stopped counting at {limit:,} a pod manager: see --limit")
        self.closing += outcome_lines(counts, parsed_args.mix)
        self.closing += self._unmet(parsed_args, counts)
        self.tell_missing(list(silent.values()), "nodes", strict=parsed_args.strict)

    def _unmet(
        self, parsed_args: argparse.Namespace, counts: Sequence[tuple[str, Capacity]]
    ) -> Iterator[str]:
        found = {name: one.nodes for name, one in counts}
        if parsed_args.mix:
            found[MIX] = counts[-1][1].nodes
        for name, least in dict(parsed_args.require).items():
            if found[name] < least:
                self.exit_code = NOTHING_FITS
                if parsed_args.mix and name == MIX:
                    fits = f"the mix has {format_count(found[name], 'node')}"
                else:
                    fits = f"{name} fits {format_count(found[name], 'time')}"
                yield f"{fits}, and {least:,} are required"

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Any
    ) -> int:
        status = super().produce_output(parsed_args, column_names, data)
        if self._sections:
            self.print_lines(self._sections)
        return status


def _check_options(args: argparse.Namespace) -> None:
    if args.stranded:
        for name in ("proven", "explain", "require", "limit"):
            if getattr(args, name):
                raise UsageError(f"--{name}: not with --stranded, which counts no nodes")
