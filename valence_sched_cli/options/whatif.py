# SPDX-License-Identifier: Apache-2.0
"""Options of what-if questions: hypothetical edits of an inventory, and the workload."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError
from valence_sched_cli.late import app, model
from valence_sched_cli.options import parser as parsing

if TYPE_CHECKING:
    from valence_sched_cli.base import PodmCommand

TARGETS = """<target> is PODM, PODM/POOL, BLOCK@PODM or BLOCK@PODM/POOL, with names or patterns with
    *. It may also be conditions that must all hold, such as model=A100,zone=az2, on podm, pool,
    block, type, kind, model, free, zone, aggregate, trait, status, enabled. Edits of a scenario are
    applied first, then the edits of the command line in their order."""

EDITS = ("fail", "drain", "remove", "clone", "add", "set")


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    group = parsing.section(parser, "edits")
    group.description = " ".join(TARGETS.split())
    parsing.add_options(
        group,
        """
        --scenario <file>...: YAML file of scenarios, or FILE#NAME for one of them (repeat for
            several)
        --fail <target>...: fail this hardware: nodes cannot use it, and nodes on it are lost
            (repeat for several, as all edits)
        --drain <target>...: place no new nodes on this hardware; existing nodes stay
        --remove <target>...: remove this hardware and its nodes
        --clone <podm[xN]>...: add N copies of this pod manager, healthy and free (default: 1)
        --add <[Nx]block@podm[/pool]>...: add N copies of this block of the pod manager, or of a
            template of a scenario file, healthy and free (default: 1)
        --set <target:key=value>...: set a property: of a pod manager enabled, status, zone,
            aggregates, traits, facts.NAME or capabilities.NAME; of a pool traits; of a block
            enabled, health or reserved. Several values are a ;-separated list; an empty value
            removes the property""",
        **{verb: {"dest": "edits", "type": edit(verb)} for verb in EDITS},
    )


#: Overrides weights of the policy.
WEIGHT = """\
decide --weight <weigher=number>...: override the weight of this weigher in the policy (repeat for
    several)
"""


def edited_sites(command: PodmCommand, args: argparse.Namespace) -> list[app.Site]:
    """Return the edited inventory: a site for each scenario, else a single site."""
    app, selection = command.scheduler_app, command.selection(args)
    zones, policy = getattr(args, "zone_file", None), getattr(args, "policy", None)
    site = app.site(selection) if zones is None else app.zoned_site(selection, zones)
    weights = parsing.by_name("--weight", getattr(args, "weight", ()))
    edits = tuple(args.scenario), tuple(args.edits)
    return app.whatif.edited_sites(site, *edits, policy=policy, weights=weights)


def edited_site(command: PodmCommand, args: argparse.Namespace) -> app.Site:
    """Return the single inventory after the edits; UsageError if there are several scenarios."""
    site, *others = edited_sites(command, args)
    if others:
        names = ", ".join(one.name for one in (site, *others))
        hint = "but the command needs one inventory: name a scenario with FILE#NAME"
        raise UsageError(f"--scenario: {1 + len(others)} scenarios ({names}), {hint}")
    return site


def edit(verb: str) -> Callable[[str], model.scenario.Edit]:
    return lambda text: model.scenario.parse_edit(verb, text)


_OF_FILES = ("map", "map_file", "sort", "near_map")
_SYNTHETIC = ("rate", "mix", "lifetime", "horizon", "seed")


def add_workload_options(parser: argparse.ArgumentParser, *, seed: bool = True) -> None:
    """Add the options that name or generate a workload; with ``seed``, also --seed."""
    text = """
        what --workload <file>: requests with arrival and end times, in the order of arrival: a CSV,
            JSON Lines, JSON or YAML file, also as .gz or .zst, or - for standard input
        what --map <field=column>...: for a CSV trace, the column of a field, as arrival=created or
            properties.processor.total_cores=cpu_milli/1000 (repeat for several; other columns are
            ignored)
        what --map-file <file>...: YAML file with such a mapping under columns
        what --sort: sort the lines by arrival, in memory
        what --near-map <file>...: YAML map of the places of external resources, or
            RESOLVER:SOURCE (repeat for several)
        what --rate <n/period>: generate requests with this average arrival rate, instead of
            reading a file: 10/h, 0.5/s
        what --mix <flavor=share,...>: flavors of the generated requests, with their shares
        what --lifetime <duration>: average lifetime of a node, such as 90s, 2h or 3d (default:
            unlimited)
        what --horizon <duration>: duration in which requests arrive
        what --seed <n>: seed of the generated requests (default: 0)"""
    if not seed:
        text = text[: text.rindex("\n")]
    rate, span = map(parsing.parsed_by, ("request_spec:parse_rate", "request_spec:parse_time_span"))
    times = {"lifetime": span, "horizon": span}
    parsing.add_options(parser, text, map=_trace_column, rate=rate, seed=parsing.natural, **times)


def make_workload(app: app.App, args: argparse.Namespace) -> app.Workload:
    """Return the workload that the options name; UsageError or InputError if they are invalid."""
    drawn = [name for name in _SYNTHETIC if getattr(args, name, None) is not None]
    if args.workload is not None:
        if drawn:
            raise UsageError(f"--{drawn[0]}: not with --workload, whose file sets it")
        columns = parsing.by_name("--map", args.map)
        files = {"sort": args.sort, "near_maps": args.near_map}
        return app.whatif.workload(args.workload, columns, args.map_file, **files)
    if of_files := [name for name in _OF_FILES if getattr(args, name)]:
        raise UsageError(f"--{of_files[0].replace('_', '-')}: only with --workload FILE")
    if missing := [name for name in ("rate", "mix", "horizon") if getattr(args, name) is None]:
        hint = "use --workload FILE, or generate requests with --rate, --mix and --horizon"
        raise UsageError(f"no --{missing[0]}: {hint}")
    return app.whatif.synthetic_workload(
        model.request_spec.SyntheticSpec(
            rate_per_s=args.rate,
            mix=args.mix,
            horizon_s=args.horizon,
            lifetime_s=args.lifetime,
            seed=getattr(args, "seed", 0) or 0,
        )
    )


def workload_facts(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the facts of a page about a generated workload; empty for a file."""
    if args.workload is not None:
        return []
    lifetime = model.quantity.format_age(args.lifetime) if args.lifetime else "unlimited"
    facts = [
        ("Requests an hour", f"{args.rate * 3600:,.6g}"),
        ("Mix", ", ".join(f"{name}={share:g}" for name, share in args.mix.items())),
        ("Mean lifetime", lifetime),
    ]
    return facts if not hasattr(args, "seed") else [*facts, ("Seed", str(args.seed or 0))]


def _trace_column(text: str) -> tuple[str, model.request_spec.TraceColumn]:
    field, column = parsing.key_and_value("FIELD=COLUMN, as in arrival=creation_time")(text)
    return field, parsing.parsed_by("request_spec:parse_trace_column")(column)
