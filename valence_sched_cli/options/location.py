# SPDX-License-Identifier: Apache-2.0
"""Options that say where nodes go: aggregates, traits, locations, near an external resource."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option, add_options

if TYPE_CHECKING:
    from valence_sched.model.request import NameRequirements

OPTION_DESTS = (
    "aggregate", "exclude_aggregate", "trait", "exclude_trait", "capability", "location", "where",
    "near", "prefer_near",
)  # fmt: skip

_NAMES = (
    ("--aggregate", "only in this aggregate, or with commas in one of these (repeat: in each)"),
    ("--exclude-aggregate", "not in this aggregate, or with commas in none of these"),
    ("--trait", "only with this trait, or with commas with one of these (repeat: with each)"),
    ("--exclude-trait", "not with this trait, or with commas with none of these"),
)


def add_location_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where."""
    where = section(parser, "where")
    for option, words in _NAMES:
        add_option(where, f"{option} <{option.rpartition('-')[2]}>...: {words}", type=_names)
    add_options(
        where,
        """
        --capability <key=value>...: only with this capability: os=linux, or with semicolons one of
            several values (repeat for several keys; takes the place of the flavor's of that key)
        --location <location>...: only at this location or below it (repeat: at any of them; takes
            the place of the flavor's)
        --where <expression>...: only where this expression in JSON holds: '[">=", "$facts.year",
            2022]' (repeat: all must hold, the flavor's too)
        """,
        capability={"type": _capabilities},
    )


def add_proximity_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about external resources, such as volumes."""
    for start in (
        "--near <kind=name>...: only near this thing, such as volume=db-1",
        "--prefer-near <kind=name>...: rather near this thing",
    ):
        where = "where a map says that it is, or, within openstack, the cloud"
        words = f"{start}: {where} (repeat for several)"
        add_option(section(parser, "where"), words, type=_external_resource)
    words = "YAML map that says where things are, or RESOLVER:SOURCE (repeat for several)"
    add_option(section(parser, "where"), f"--near-map <file>...: {words}")


def request_fields(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options as fields of a request; UsageError or InputError if one is wrong."""
    return {
        "aggregates": _name_constraints(args.aggregate, args.exclude_aggregate),
        "traits": _name_constraints(args.trait, args.exclude_trait),
        "capabilities": _merge_capabilities(args.capability),
        "locations": tuple(args.location),
        "where": _conjunction(args.where),
        "near": _by_kind(args.near),
        "prefer_near": _by_kind(args.prefer_near),
    }


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} holds an empty name")
    return names


def _capabilities(text: str) -> dict[str, tuple[str, ...]]:
    """Parse ``key=value;value``."""
    from valence_sched.model.inventory import parse_capabilities

    try:
        capabilities = parse_capabilities(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not capabilities:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not key=value or key=value;value")
    return capabilities


def _name_constraints(
    required: Sequence[tuple[str, ...]], excluded: Sequence[tuple[str, ...]]
) -> NameRequirements:
    from valence_sched.model.request import NameRequirements

    return NameRequirements(
        required=tuple(names[0] for names in required if len(names) == 1),
        forbidden=tuple(name for names in excluded for name in names),
        any_of=tuple(names for names in required if len(names) > 1),
    )


def _merge_capabilities(named: Sequence[dict[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    from valence_sched.errors import UsageError

    merged: dict[str, tuple[str, ...]] = {}
    for capabilities in named:
        for key, values in capabilities.items():
            if key in merged:
                hint = f"write {key}=value;value for either"
                raise UsageError(f"--capability: {key!r} twice: {hint}")
            merged[key] = values
    return merged


def _conjunction(texts: Sequence[str]) -> Any:
    """Return the conjunction of all these expressions; None when there is none."""
    from valence_sched.model.expression import parse_expression

    conjuncts = []
    for number, text in enumerate(texts, 1):
        name = f"--where {number}" if len(texts) > 1 else "--where"
        value = _json(text, name)
        parse_expression(value, name)
        conjuncts.append(value)
    return conjuncts[0] if len(conjuncts) == 1 else ["and", *conjuncts] if conjuncts else None


def _json(text: str, name: str) -> object:
    from valence_sched.errors import InputError
    from valence_sched.model.codec import decode

    try:
        return decode(text.encode(errors="surrogateescape"), object, name)
    except InputError as error:
        hint = 'in quotes for the shell, as in \'["=", "$zone", "east-1"]\''
        raise InputError(name, error.document_path, error.found, error.expected, hint) from None


def _by_kind(named: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for kind, name in dict.fromkeys(named):
        names[kind] = (*names.get(kind, ()), name)
    return names


def _external_resource(text: str) -> tuple[str, str]:
    kind, equals, name = (part.strip() for part in text.partition("="))
    if not equals or not kind or not name:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KIND=NAME, as in volume=db-1")
    return kind, name
