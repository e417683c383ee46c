# SPDX-License-Identifier: Apache-2.0
"""Options that make a request, and the request made of them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from valence_sched_cli import cloud
from valence_sched_cli.options import group, inventory, location, placement, proximity
from valence_sched_cli.options.types import whole

if TYPE_CHECKING:
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.request import Request
    from valence_sched_cli.base import PodmCommand


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
    inventory.add_flavor_file_option(parser)
    parser.add_argument(
        "--policy",
        metavar="<policy>",
        type=nonempty_name,
        help="policy (default: the flavor's, else default)",
    )
    inventory.add_policy_file_option(parser)
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
    command: PodmCommand,
    parsed_args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None = None,
) -> Request:
    """Return the request that the words of the shell make.

    Its flavor is the one of ``flavor_name``, or Nova's of the name ``nova_flavor``; without either
    the resources of the shell are all that is requested.

    Raises:
        UsageError: nothing says what the node is made of, or two flavors do.
    """
    from valence_sched.model.request_spec import RequestSpec

    args = parsed_args
    flavor = _flavor(command, args, flavor_name, nova_flavor)
    fields = (
        location.request_fields(args)
        | group.request_fields(args, flavor.name)
        | proximity.request_fields(args)
    )
    spec = RequestSpec(
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
        **placement.request_fields(args, fields),
    )
    config = command.scheduler_app.config
    return placement.with_resources(
        config.compile_request(spec, flavor, args.near_map), args.resource
    )


@contextlib.contextmanager
def flavor_named(request: Request, parsed_args: argparse.Namespace) -> Iterator[None]:
    """Name the flavor in the error about an unknown policy that a flavor names."""
    from valence_sched.errors import UnknownName

    try:
        yield
    except UnknownName as error:
        if error.kind == "policy" and parsed_args.policy is None:
            raise error.at(f"flavor {request.flavor!r}") from None
        raise


def _flavor(
    command: PodmCommand,
    parsed_args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None,
) -> Flavor:
    """Return the flavor that is named; without one, an empty flavor without a name."""
    from valence_sched.errors import UsageError
    from valence_sched.model.flavor import Flavor

    if flavor_name is not None and nova_flavor is not None:
        raise UsageError("--flavor and --nova-flavor: one of them, a node has one flavor")
    if flavor_name is not None:
        return command.scheduler_app.config.flavor(flavor_name, parsed_args.flavor_file)
    if nova_flavor is not None:
        manager, files = command.app.client_manager, parsed_args.flavor_file
        return cloud.nova_flavor(command.scheduler_app, manager, nova_flavor, files)
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

    attributes: dict[str, str] = {}
    for name, expression in named:
        if qualify(name) in attributes:
            raise UsageError(f"--attribute: {name!r} twice: say what it must be in one of them")
        attributes[qualify(name)] = expression
    return attributes


def nonempty_name(text: str) -> str:
    """Parse a name, which is not empty."""
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return text
