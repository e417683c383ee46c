# SPDX-License-Identifier: Apache-2.0
"""The command ``podm fit``: counts how many more nodes of each flavor, or of a mix, fit."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from valence_sched.errors import UsageError, is_not
from valence_sched_cli import base
from valence_sched_cli.base import output
from valence_sched_cli.late import app, model, words
from valence_sched_cli.options import inventory, request as request_options
from valence_sched_cli.options.parser import by_name, positive
from valence_sched_cli.output.cells import warning_lines

MOST_COUNTED = 1000  # nodes per pod manager, unless --limit sets another number
MIX = "mix"  # the name of the mix in --require


def _requirement(text: str) -> tuple[str, int]:
    flavor, _, number = text.rpartition("=")
    if not flavor:
        raise is_not("FLAVOR=N, as in gpu-large=4", text)
    return flavor, positive(number)


class FitPodm(base.Lister):
    """Count how many more nodes of each flavor fit.

    Nodes are placed one after another, as by podm schedule; those of a mix in turn, until one
    does not fit. --proven adds the maximum over all orders. Tables have a column for each pod
    manager; other formats have a row for each flavor and pod manager.
    """

    examples = (
        "--inventory examples/site.json",
        "--flavor gpu-large --require gpu-large=4 --zone east-1",
        "--inventory examples/site.json --mix gpu-large=1,small=4 --proven --explain",
        "--inventory examples/site.json --mix gpu-large=1,small=4 --stranded",
    )
    arguments = """
        output --proven: also show the proven maximum: over all orders of nodes and all policies
        output --explain: also show the resource that runs out first, and the number of nodes that
            the sums of free amounts suggest
        output --stranded: list free amounts that no flavor can use, with the reasons, instead of
            counts"""
    option_settings = {"require": _requirement, **request_options.SETTINGS}
    option_groups = (
        inventory.INVENTORY,
        request_options.FLAVORS,
        request_options.OPTIONS,
        request_options.add_edit_options,
        request_options.WEIGHT,
        f"""
        what --mix <flavor=share,...>: also count nodes of a mix: flavors in these shares, as in
            gpu-large=1,small=4
        decide --limit <n>: stop counting at this many nodes per pod manager (default:
            {MOST_COUNTED})
        decide --require <flavor=n>...: exit 3 unless n nodes of this flavor fit; mix=n for nodes of
            the mix""",
    )

    def take_action(self, args: base.Args) -> base.Table:
        shares = args.mix or {}
        for option in ("proven", "explain", "require", "limit") if args.stranded else ():
            if getattr(args, option):
                raise UsageError(f"--{option}: not with --stranded, which counts no nodes")
        edits = args.scenario or args.edits or args.weight
        site = request_options.edited_site(self, args) if edits else None
        requests = self._requests(args, shares, site)
        counter: Any
        if site is not None:
            counter = self.scheduler_app.whatif.capacity(site, strict=args.strict)
        else:
            counter = scheduler = self.report_scheduler(args)
        if args.stranded:
            asked = [request for _, request in requests]
            found = self.log_missing(counter.stranded(asked), "resources")
            self.closing += words.planning.stranded_lines(found)
            return output.planning.stranded_table(found, people=self.for_people(args))
        limit = args.limit or MOST_COUNTED
        wanted = {"explain": args.explain, "proven": args.proven}
        counts = []
        for name, request in requests:
            with request_options.flavor_named(request, args):
                one = counter.capacity(request, limit, **wanted)
            counts.append((name or one.name, one))
        if shares:
            known, whole = dict(requests), model.capacity.whole_shares(shares)
            mixed = [known[name] for name in shares]
            found_mix = counter.mix_capacity(mixed, whole, limit, **wanted)
            counts.append((f"the {MIX}" if MIX in dict(counts) else MIX, found_mix))
        self._close(args, counts)
        if self.for_people(args):
            podms = site.view().podms if site else [one.podm for one in scheduler.podms()]
            used = {podm.podm for _, one in counts for podm in one.podms if podm.nodes}
            unusable = {one.id: one.unusable for one in podms if one.id not in used}
            self.closing += words.planning.unusable_lines(unusable)
        if self.for_people(args) and args.explain:
            self.after = list(output.planning.explanation(counts))
        return output.planning.capacity_table(counts, people=self.for_people(args), **wanted)

    def _requests(
        self, args: base.Args, shares: Mapping[str, float], site: app.Site | None
    ) -> list[tuple[str | None, model.request.Request]]:
        required = by_name("--require", args.require)
        if shares:
            required.pop(MIX, None)
        make = functools.partial(request_options.make_request, self, args, site=site)
        names = [*args.flavor, *shares, *required]
        if not (names or args.nova_flavor):
            if request_options.says_resources(args):
                return [(None, make(None))]
            flavors = self.scheduler_app.config.flavors(args.flavor_file)
            names = [*flavors, *(site.flavors if site else ())]
        found: list[tuple[str | None, model.request.Request]]
        found = [(name, make(name)) for name in dict.fromkeys(names)]
        return found + [(None, make(None, name)) for name in dict.fromkeys(args.nova_flavor)]

    def _close(
        self, args: base.Args, counts: Sequence[tuple[str, model.capacity.Capacity]]
    ) -> None:
        warnings = dict.fromkeys(line for _, one in counts for line in one.warnings)
        self.closing += warning_lines(warnings)
        podms = {podm.podm for _, one in counts for podm in one.podms}
        unread = bool(podms) and podms <= self.scheduler_app.sources.unread_ids
        silent = {zone.zone: zone for _, one in counts for zone in one.silent}
        undecided = unread or bool(silent) or any(one.undecided for _, one in counts)
        none = base.UNDECIDED if undecided else base.NOTHING_FITS
        self.exit_code = 0 if any(one.nodes for _, one in counts) else none
        found = {name: one.nodes for name, one in counts}
        if args.mix:
            found[MIX] = counts[-1][1].nodes
        short = {name: least for name, least in args.require if found[name] < least}
        if short:
            self.exit_code = base.NOTHING_FITS
        limit = args.limit or MOST_COUNTED
        self.closing += words.planning.capacity_lines(counts, args.mix, limit)
        self.closing += words.planning.shortage_lines(found, short, MIX if args.mix else None)
        self.log_missing(model.zone.ZonedList(silent=silent.values()), "nodes")
