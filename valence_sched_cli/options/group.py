# SPDX-License-Identifier: Apache-2.0
"""Options for the owner and the group of a request: affinity, limits and spread."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option, by_name, positive

if TYPE_CHECKING:
    from valence_sched.model.group import Group, Spread

OPTION_DESTS = (
    "owner", "group", "affinity", "anti_affinity", "soft_affinity", "soft_anti_affinity",
    "at_most", "spread", "soft_spread",
)  # fmt: skip

_REPEAT = "(repeat for several)"
_RULES = (
    ("--affinity", "all nodes of the group at one value of this domain"),
    ("--anti-affinity", "no two nodes of the group at one value of this domain"),
    ("--soft-affinity", "better all nodes of the group at one value of this domain"),
    ("--soft-anti-affinity", "better no two nodes of the group at one value of this domain"),
)


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about owner and group."""
    together = section(parser, "together")
    add_option(
        together,
        "--owner <owner>: for whom the nodes are (default: the project, by its ID, where the "
        "command logs in to a cloud)",
        type=_name,
    )
    add_option(
        together,
        "--group <group>: group that the nodes join (default: the flavor's name, where a rule is "
        "given); a domain of a rule is podm, zone, location, aggregate or facts.NAME",
        type=_name,
    )
    for option, words in _RULES:
        add_option(together, f"{option} <domain>...: {words} {_REPEAT}", type=_domain)
    words = f"at most n nodes of the group at one value of this domain {_REPEAT}"
    add_option(together, f"--at-most <domain=n>...: {words}", type=_at_most)
    for option, start in (("--spread", "spread"), ("--soft-spread", "better spread")):
        words = f"{start} the group evenly over this domain, its counts at most skew (1) apart"
        add_option(together, f"{option} <domain[=skew]>...: {words} {_REPEAT}", type=_spread)


def request_fields(args: argparse.Namespace, flavor: str) -> dict[str, Any]:
    """Return the fields of a request that the options make."""
    return {"owner": args.owner, "group": _group(args, flavor)}


def _group(args: argparse.Namespace, flavor: str) -> Group | None:
    from valence_sched.model.group import Group, Spread

    spread = [Spread(over, skew) for over, skew in args.spread]
    spread += [Spread(over, skew, soft=True) for over, skew in args.soft_spread]
    group = Group(
        name=args.group or flavor,
        affinity=tuple(dict.fromkeys(args.affinity)),
        anti_affinity=tuple(dict.fromkeys(args.anti_affinity)),
        soft_affinity=tuple(dict.fromkeys(args.soft_affinity)),
        soft_anti_affinity=tuple(dict.fromkeys(args.soft_anti_affinity)),
        at_most=by_name("--at-most", args.at_most, "say how many in one of them"),
        spread=_distinct(spread),
    )
    return group if args.group or group.domains else None


def _distinct(rules: list[Spread]) -> tuple[Spread, ...]:
    from valence_sched.errors import UsageError

    known: set[tuple[str, bool]] = set()
    for rule in rules:
        if (rule.over, rule.soft) in known:
            option = "--soft-spread" if rule.soft else "--spread"
            raise UsageError(f"{option}: {rule.over!r} twice: say the skew in one of them")
        known.add((rule.over, rule.soft))
    return tuple(rules)


def _name(text: str) -> str:
    if not text.strip() or len(text) > 255:
        what = f"must be a name of 1 to 255 characters, got {text[:40]!r}"
        raise argparse.ArgumentTypeError(what)
    return text


def _domain(text: str) -> str:
    from valence_sched.errors import RequestError
    from valence_sched.model.group import check_domain

    try:
        check_domain(text)
    except RequestError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _at_most(text: str) -> tuple[str, int]:
    domain, equals, number = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not DOMAIN=N, as in podm=2")
    return _domain(domain), positive(number)


def _spread(text: str) -> tuple[str, int]:
    domain, equals, number = text.rpartition("=")
    return (_domain(domain), positive(number)) if equals else (_domain(text), 1)
