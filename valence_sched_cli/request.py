# SPDX-License-Identifier: Apache-2.0
"""The words of the shell that make a request."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from valence_sched_cli import command

if TYPE_CHECKING:
    from valence_sched.model.request import Request


def add_request_options(parser: argparse.ArgumentParser, *, many: bool) -> None:
    """Add the options that a request is made of."""
    parser.add_argument(
        "--flavor",
        metavar="<flavor>",
        action="append" if many else "store",
        default=[] if many else None,
        help="flavor: a name, a file with one flavor, or - for standard input"
        + (" (repeat for several; default: all known)" if many else ""),
    )
    command.add_flavor_file_option(parser)
    parser.add_argument(
        "--policy", metavar="<policy>", help="policy (default: the flavor's, else default)"
    )
    command.add_policy_file_option(parser)
    for option, words in (
        ("--podm", "only this pod manager, by ID or name (repeat for several)"),
        ("--exclude-podm", "not this pod manager, by ID or name (repeat for several)"),
    ):
        parser.add_argument(option, metavar="<podm>", action="append", default=[], help=words)
    parser.add_argument("--zone", metavar="<zone>", help="only this availability zone")
    parser.add_argument(
        "--attribute",
        metavar="<name=expression>",
        type=_attribute,
        action="append",
        default=[],
        help="only where this attribute of the pod manager is so: facts.year='>= 2022' "
        "(repeat for several; takes the place of the flavor's)",
    )
    parser.add_argument(
        "--seed", metavar="<n>", type=int, help="decides between equals (default: 0)"
    )


def make_request(main: Any, parsed_args: argparse.Namespace, word: str) -> Request:
    """Return the request that the words of the shell make."""
    from valence_sched.model.request import Request

    flavor = main.flavor(word, parsed_args.flavor_file)
    first, *others = flavor.asks
    return Request(
        flavor=flavor.name,
        needs=first.needs,
        bonds=first.bonds,
        fallbacks=tuple(others),
        count=getattr(parsed_args, "count", 1),
        min_count=getattr(parsed_args, "min_count", None),
        alternates=getattr(parsed_args, "alternates", 0),
        podms=tuple(parsed_args.podm),
        exclude_podms=tuple(parsed_args.exclude_podm),
        zone=parsed_args.zone or flavor.zone,
        aggregates=flavor.wanted_aggregates,
        locations=flavor.locations,
        capabilities=flavor.wanted_capabilities,
        attributes=_attributes(flavor.attributes, parsed_args.attribute),
        traits=flavor.traits,
        where=flavor.where,
        policy=parsed_args.policy or flavor.policy or "default",
        seed=parsed_args.seed or 0,
    )


def _attribute(text: str) -> tuple[str, str]:
    """Parse ``NAME=EXPRESSION``; the operator comes after the first ``=``."""
    name, equals, expression = text.partition("=")
    if not equals or not name.strip() or len(name.split()) > 1 or name.endswith(tuple("<>!")):
        hint = "as in facts.year='>= 2022'"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=EXPRESSION, {hint}")
    return name.strip(), expression.strip()


def _attributes(flavor: Mapping[str, str], named: list[tuple[str, str]]) -> dict[str, str]:
    """Return the flavor's attributes with those of the shell in their place."""
    from valence_sched.errors import UsageError
    from valence_sched.model.operators import full

    shell: dict[str, str] = {}
    for name, expression in named:
        if full(name) in shell:
            raise UsageError(f"--attribute: {name!r} twice: say what it must be in one of them")
        shell[full(name)] = expression
    kept = {name: text for name, text in flavor.items() if full(name) not in shell}
    return kept | shell


def positive(text: str) -> int:
    """Parse a whole number from 1 on."""
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number from 1 to 1,000,000")
    return int(text)


def natural(text: str) -> int:
    """Parse a whole number from 0 on."""
    return 0 if text == "0" else positive(text)
