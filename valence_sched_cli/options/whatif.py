# SPDX-License-Identifier: Apache-2.0
"""Options of what-if questions: hypothetical edits of an inventory, and the workload."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from valence_sched.errors import InputError, UsageError, suggest
from valence_sched_cli.late import app, model
from valence_sched_cli.options import parser as parsing
from valence_sched_cli.options.registration import fact_value

if TYPE_CHECKING:
    from valence_sched_cli.base import PodmCommand

TARGETS = """<target> is PODM, PODM/POOL, BLOCK@PODM or BLOCK@PODM/POOL, with names or patterns with
    *. It may also be conditions that must all hold, such as model=A100,zone=az2, on podm, pool,
    block, type, kind, model, free, zone, aggregate, trait, status, enabled. Edits of a scenario are
    applied first, then the edits of the command line in their order."""
_WORDS = ("enabled", "reserved", "status", "health", "zone", "aggregates", "traits")
_MAPS = ("facts", "capabilities")
_KEY = rf"{'|'.join(_WORDS)}|(?:{'|'.join(_MAPS)})\.[^=]{{1,256}}"
_ASSIGNMENT = re.compile(rf"(.+?):({_KEY})=(.*)", re.DOTALL)
_ANY_ASSIGNMENT = re.compile(r".+?:([a-z]++)[^:=]*+=.*", re.DOTALL)


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that edit the inventory, among them scenarios."""
    group = parsing.section(parser, "edits")
    group.description = " ".join(TARGETS.split())
    edits: dict[str, Callable[[str], model.scenario.Edit]] = {
        **{verb: _targeted(verb) for verb in ("fail", "drain", "remove")},
        "clone": _clone,
        "add": addition,
        "set": _assignment,
    }
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
        **{verb: {"dest": "edits", "type": parse} for verb, parse in edits.items()},
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


def _edit(text: str, verb: str, **fields: Any) -> model.scenario.Edit:
    """Return an edit; ArgumentTypeError if its target or one of its fields is invalid."""
    try:
        return model.codec.convert(fields, model.scenario.EDITS[verb], repr(text))
    except InputError as error:
        where = error.document_path.removeprefix("$").removeprefix(".")
        found = "" if error.found.startswith("{") else error.found  # the parsed text
        words = InputError(repr(text), where, found, error.expected, error.hint)
        raise argparse.ArgumentTypeError(str(words)) from None


def _targeted(verb: str) -> Callable[[str], model.scenario.Edit]:
    return lambda text: _edit(text, verb, **{verb: text})


def _clone(text: str) -> model.scenario.Edit:
    match = re.fullmatch(r"(.+?)(?:x([0-9]{1,18}))?", text, re.DOTALL)
    podm, times = match.groups() if match else (text, None)
    return _edit(text, "clone", clone=podm, times=int(times or 1))


def addition(text: str) -> model.scenario.Edit:
    """Parse ``BLOCK@PODM``, ``NxBLOCK@PODM`` or either with ``/POOL``."""
    match = re.fullmatch(r"(?:([0-9]{1,18})x)?(.+)@([^@]+)", text, re.DOTALL)
    if match is None:
        raise parsing.is_not("NxBLOCK@PODM, as in 2xGPU-03@rack-1", text)
    count, block, target = match.groups()
    return _edit(text, "add", add=block, to=target, count=int(count or 1))


def _assignment(text: str) -> model.scenario.Edit:
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        keys = (*_WORDS, *(f"{word}.NAME" for word in _MAPS))
        near = _ANY_ASSIGNMENT.fullmatch(text)
        hint = suggest(near[1], keys) if near else "as in rack-1:zone=az2"
        raise parsing.is_not(f"TARGET:KEY=VALUE ({hint})", text)
    target, key, value = match.groups()
    word, _, name = key.partition(".")
    words = [part.strip() for part in value.split(";") if part.strip()]
    found: Any = {"yes": True, "no": False}.get(value, value or None)
    if word in ("aggregates", "traits"):
        found = words
    elif word == "facts":
        found = {name: fact_value(value) if value else None}
    elif word == "capabilities":
        found = {name: words or None}
    return _edit(text, "set", set=target, **{word: found})


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
    rate = parsing.parsed_by("request_spec:parse_rate")
    times = {"lifetime": _duration, "horizon": _duration}
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


def _duration(text: str) -> float:
    seconds: float = parsing.parsed_by("request_spec:parse_duration")(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: must be above 0")
    return seconds
