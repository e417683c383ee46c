# SPDX-License-Identifier: Apache-2.0
"""Options that say which workload is replayed: of a file, or drawn from rates and a mix."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from valence_sched.errors import UsageError
from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import (
    add_option,
    add_options,
    by_name,
    flavor_shares,
    natural,
)

if TYPE_CHECKING:
    from valence_sched.app import App, Workload
    from valence_sched.model.workload import SyntheticSpec, TraceColumn

_OF_FILES = ("map", "map_file", "sort", "near_map")
_SYNTHETIC = ("rate", "mix", "lifetime", "horizon", "seed")


def add_workload_options(parser: argparse.ArgumentParser, *, seed: bool = True) -> None:
    """Add the options that name a workload, or make one; of a ``seed`` where there is only one."""
    group = section(parser, "what")
    add_option(
        group,
        "--workload <file>: CSV, JSON Lines, JSON or YAML file of requests with the times at which "
        "their nodes come and go, in the order of arrival, also packed as .gz or .zst, or - for "
        "standard input",
    )
    words = "as arrival=created or properties.processor.total_cores=cpu_milli/1000"
    add_option(
        group,
        f"--map <field=column>...: of a recorded trace in CSV, the column that a field is read "
        f"from, {words} (repeat for several; other columns are passed over)",
        type=_trace_column,
    )
    add_option(group, "--map-file <file>...: YAML file that says the same under columns")
    add_option(group, "--sort: sort the lines by arrival, in memory")
    add_option(
        group,
        "--near-map <file>...: YAML map that says where things are, or RESOLVER:SOURCE (repeat for "
        "several)",
    )
    add_options(
        group,
        """
        --rate <n/period>: in place of a file, draw requests that arrive so often on average:
            10/h, 0.5/s
        --mix <flavor=share,...>: the flavors that are drawn, by their shares
        --lifetime <duration>: how long nodes live on average, such as 90s, 2h or 3d (default:
            they stay)
        --horizon <duration>: until when requests arrive
        """,
        rate={"type": _rate},
        mix={"type": flavor_shares},
        lifetime={"type": _duration},
        horizon={"type": _duration},
    )
    if seed:
        add_option(group, "--seed <n>: decides what is drawn (default: 0)", type=natural)


def make_workload(app: App, args: argparse.Namespace) -> Workload:
    """Return the workload that the options name.

    Raises:
        UsageError: they name none, or a file and what is drawn.
        InputError: a file cannot be read.
    """
    drawn = [name for name in _SYNTHETIC if getattr(args, name, None) is not None]
    if args.workload is not None:
        if drawn:
            raise UsageError(f"--{drawn[0]}: not with --workload, whose lines say all")
        columns = by_name("--map", args.map)
        return app.workload(args.workload, columns, args.map_file, sort=args.sort,
                            near_maps=args.near_map)  # fmt: skip
    if of_files := [name for name in _OF_FILES if getattr(args, name)]:
        raise UsageError(f"--{of_files[0].replace('_', '-')}: only with --workload FILE")
    if missing := [name for name in ("rate", "mix", "horizon") if getattr(args, name) is None]:
        hint = "name a file with --workload, or draw requests with --rate, --mix and --horizon"
        raise UsageError(f"no --{missing[0]}: {hint}")
    return app.synthetic_workload(_synthetic(args))


def workload_facts(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return what the options say of a workload that is drawn, as a page names it; else nothing."""
    from valence_sched.model.quantity import format_age

    if args.workload is not None:
        return []
    facts = [
        ("Requests an hour", f"{args.rate * 3600:,.6g}"),
        ("Mix", ", ".join(f"{name}={share:g}" for name, share in args.mix.items())),
        ("Mean lifetime", format_age(args.lifetime) if args.lifetime else "for ever"),
    ]
    return facts if not hasattr(args, "seed") else [*facts, ("Seed", str(args.seed or 0))]


def _synthetic(args: argparse.Namespace) -> SyntheticSpec:
    from valence_sched.model.workload import SyntheticSpec

    return SyntheticSpec(rate_per_s=args.rate, mix=args.mix, horizon_s=args.horizon,
                         lifetime_s=args.lifetime, seed=getattr(args, "seed", 0) or 0)  # fmt: skip


def _trace_column(text: str) -> tuple[str, TraceColumn]:
    """Parse ``FIELD=COLUMN``, with a factor behind the column."""
    from valence_sched.model.workload import parse_trace_column

    field, equals, column = text.partition("=")
    if not equals or not field.strip() or not column.strip():
        hint = "as in arrival=creation_time"
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not FIELD=COLUMN, {hint}")
    try:
        return field.strip(), parse_trace_column(column)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _rate(text: str) -> float:
    from valence_sched.model.workload import parse_rate

    try:
        return parse_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _duration(text: str) -> float:
    """Parse a duration above 0."""
    from valence_sched.model.workload import parse_duration

    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text[:40]!r}: more than 0 is needed")
    return seconds
