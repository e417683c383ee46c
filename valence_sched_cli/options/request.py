# SPDX-License-Identifier: Apache-2.0
"""The words of the shell that make a request."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from valence_sched_cli import cloud
from valence_sched_cli.options import common, group, location, placement, proximity
from valence_sched_cli.options.types import whole

if TYPE_CHECKING:
    from valence_sched.model.flavor import Flavor
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
    cloud.add_options(parser)
    placement.add_options(parser)
    common.add_flavor_file_option(parser)
    parser.add_argument(
        "--policy",
        metavar="<policy>",
        type=named,
        help="policy (default: the flavor's, else default)",
    )
    common.add_policy_file_option(parser)
    for option, words in (
        ("--podm", "only this pod manager, by ID or name (repeat for several)"),
        ("--exclude-podm", "not this pod manager, by ID or name (repeat for several)"),
    ):
        parser.add_argument(option, metavar="<podm>", action="append", default=[], help=words)
    parser.add_argument("--zone", metavar="<zone>", type=named, help="only this availability zone")
    location.add_options(parser)
    parser.add_argument(
        "--attribute",
        metavar="<name=expression>",
        type=_attribute,
        action="append",
        default=[],
        help="only where this attribute of the pod manager is so: facts.year='>= 2022' "
        "(repeat for several; takes the place of the flavor's)",
    )
    group.add_options(parser)
    proximity.add_options(parser)
    parser.add_argument(
        "--seed", metavar="<n>", type=whole, help="decides between equals (default: 0)"
    )


def make_request(
    main: Any, parsed_args: argparse.Namespace, word: str | None, client_manager: Any = None
) -> Request:
    """Return the request that the words of the shell make.

    ``word`` names the flavor. Without one it is that of ``--nova-flavor``, found through the
    ``client_manager``, or there is none and the resources of the shell are all that is asked.

    Raises:
        UsageError: nothing says what the node is made of, or two flavors do.
    """
    from valence_sched.model.request_spec import Asked

    args = parsed_args
    flavor = _flavor(main, args, word, client_manager)
    said = location.said(args) | group.said(args, flavor.name) | proximity.said(args)
    asked = Asked(
        flavor=flavor.name,
        count=getattr(args, "count", None) or 1,
        min_count=getattr(args, "min_count", None),
        alternates=getattr(args, "alternates", None) or 0,
        podms=tuple(args.podm),
        exclude_podms=tuple(args.exclude_podm),
        zone=args.zone,
        attributes=_attributes(args.attribute),
        policy=args.policy,
        seed=args.seed,
        **placement.said(args, said),
    )
    return placement.with_resources(main.compiled(asked, flavor, args.near_map), args.resource)


def engine_for(
    command: Any, parsed_args: argparse.Namespace, texts: dict[str, bytes] | None = None
) -> Any:
    """Return the scheduler that the words of the shell name.

    ``texts`` gets the JSON of each pod manager as it was told, by its id.
    """
    return command.main.engine(
        parsed_args.inventory,
        parsed_args.policy_file,
        strict=parsed_args.strict,
        resource_files=parsed_args.resource_file,
        flavor_files=parsed_args.flavor_file,
        live=command.live(parsed_args),
        texts=texts,
    )


def check_policy(engine: Any, request: Request, parsed_args: argparse.Namespace) -> None:
    """Refuse a policy that a flavor names and nobody knows, with the name of the flavor."""
    from valence_sched.errors import UnknownName

    known = [policy.name for policy in engine.policies()]
    if parsed_args.policy is None and request.policy not in known:
        raise UnknownName("policy", request.policy, known, f"flavor {request.flavor!r}")


def _flavor(
    main: Any, parsed_args: argparse.Namespace, word: str | None, client_manager: Any
) -> Flavor:
    """Return the flavor that is asked for; without one, a flavor without a name of nothing."""
    from valence_sched.errors import UsageError
    from valence_sched.model.flavor import Flavor

    if word is not None and parsed_args.nova_flavor is not None:
        raise UsageError("--flavor and --nova-flavor: one of them, a node has one flavor")
    if word is not None:
        found: Flavor = main.flavor(word, parsed_args.flavor_file)
        return found
    if parsed_args.nova_flavor is not None:
        return cloud.flavor(main, client_manager, parsed_args.nova_flavor)
    if parsed_args.resource:
        return Flavor(name="")
    words = "name --flavor, --resource CLASS=N, or --request-file"
    raise UsageError(f"what is the node made of? {words}")


def _attribute(text: str) -> tuple[str, str]:
    """Parse ``NAME=EXPRESSION``; the operator comes after the first ``=``."""
    name, equals, expression = text.partition("=")
    if not equals or not name.strip() or len(name.split()) > 1 or name.endswith(tuple("<>!")):
        hint = "as in facts.year='>= 2022'"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=EXPRESSION, {hint}")
    return name.strip(), expression.strip()


def _attributes(named: list[tuple[str, str]]) -> dict[str, str]:
    from valence_sched.errors import UsageError
    from valence_sched.model.extra_specs import full

    found: dict[str, str] = {}
    for name, expression in named:
        if full(name) in found:
            raise UsageError(f"--attribute: {name!r} twice: say what it must be in one of them")
        found[full(name)] = expression
    return found


def named(text: str) -> str:
    """Parse a name, which is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return text
