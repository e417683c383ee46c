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
    cloud.add_nova_options(parser, many=many)
    placement.add_placement_options(parser)
    common.add_flavor_file_option(parser)
    parser.add_argument(
        "--policy",
        metavar="<policy>",
        type=nonempty_name,
        help="policy (default: the flavor's, else default)",
    )
    common.add_policy_file_option(parser)
    for option, words in (
        ("--podm", "only this pod manager, by ID or name (repeat for several)"),
        ("--exclude-podm", "not this pod manager, by ID or name (repeat for several)"),
    ):
        parser.add_argument(option, metavar="<podm>", action="append", default=[], help=words)
    parser.add_argument(
        "--zone", metavar="<zone>", type=nonempty_name, help="only this availability zone"
    )
    location.add_location_options(parser)
    parser.add_argument(
        "--attribute",
        metavar="<name=expression>",
        type=_attribute,
        action="append",
        default=[],
        help="only where this attribute of the pod manager is so: facts.year='>= 2022' "
        "(repeat for several; takes the place of the flavor's)",
    )
    group.add_group_options(parser)
    proximity.add_proximity_options(parser)
    parser.add_argument(
        "--seed", metavar="<n>", type=whole, help="decides between equals (default: 0)"
    )


def make_request(
    main: Any,
    parsed_args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None = None,
    client_manager: Any = None,
) -> Request:
    """Return the request that the words of the shell make.

    Its flavor is the one of ``flavor_name``, or the one of Nova that the ``client_manager`` finds;
    without either the resources of the shell are all that is asked.

    Raises:
        UsageError: nothing says what the node is made of, or two flavors do.
    """
    from valence_sched.model.request_spec import RequestSpec

    args = parsed_args
    flavor = _flavor(main, args, flavor_name, nova_flavor, client_manager)
    said = (
        location.request_fields(args)
        | group.request_fields(args, flavor.name)
        | proximity.request_fields(args)
    )
    asked = RequestSpec(
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
        **placement.request_fields(args, said),
    )
    return placement.with_resources(
        main.config.compile_request(asked, flavor, args.near_map), args.resource
    )


def decider_for(
    command: Any, parsed_args: argparse.Namespace, texts: dict[str, bytes] | None = None
) -> Any:
    """Return the scheduler that the words of the shell name.

    ``texts`` gets the JSON of each pod manager as it was told, by its id.
    """
    return command.main.decider(command.selection(parsed_args), texts)


def check_policy(decider: Any, request: Request, parsed_args: argparse.Namespace) -> None:
    """Refuse a policy that a flavor names and nobody knows, with the name of the flavor."""
    from valence_sched.errors import UnknownName

    known = [policy.name for policy in decider.policies()]
    if parsed_args.policy is None and request.policy not in known:
        raise UnknownName("policy", request.policy, known, f"flavor {request.flavor!r}")


def _flavor(
    main: Any,
    parsed_args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None,
    client_manager: Any,
) -> Flavor:
    """Return the flavor that is asked for; without one, a flavor without a name of nothing."""
    from valence_sched.errors import UsageError
    from valence_sched.model.flavor import Flavor

    if flavor_name is not None and nova_flavor is not None:
        raise UsageError("--flavor and --nova-flavor: one of them, a node has one flavor")
    if flavor_name is not None:
        found: Flavor = main.config.flavor(flavor_name, parsed_args.flavor_file)
        return found
    if nova_flavor is not None:
        return cloud.nova_flavor(main, client_manager, nova_flavor, parsed_args.flavor_file)
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
    from valence_sched.model.extra_specs import qualify

    found: dict[str, str] = {}
    for name, expression in named:
        if qualify(name) in found:
            raise UsageError(f"--attribute: {name!r} twice: say what it must be in one of them")
        found[qualify(name)] = expression
    return found


def nonempty_name(text: str) -> str:
    """Parse a name, which is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return text
