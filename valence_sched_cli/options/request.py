# SPDX-License-Identifier: Apache-2.0
"""Options that make a request, and the request made of them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from valence_sched.errors import UnknownName, UsageError
from valence_sched_cli import cloud
from valence_sched_cli.options import inventory, placement
from valence_sched_cli.options.parser import add_options, by_name, nonempty_name, whole
from valence_sched_cli.options.placement import (
    add_group_options,
    add_location_options,
    add_proximity_options,
)

if TYPE_CHECKING:
    from valence_sched.app import Site
    from valence_sched.model.flavor import Flavor
    from valence_sched.model.request import Request
    from valence_sched_cli.base import PodmCommand


def add_request_options(parser: argparse.ArgumentParser, *, many: bool) -> None:
    """Add the options that a request is made of."""
    add_options(
        parser,
        """
        what --flavor <flavor>...: flavor: a name, a file with one flavor, or - for standard input
            (repeat for several; default: all known)
        what --nova-flavor <flavor>...: flavor of Nova, by name or ID, beside those of --flavor
            (only inside openstack; repeat for several)
        """
        if many
        else """
        what --flavor <flavor>: flavor: a name, a file with one flavor, or - for standard input
        what --nova-flavor <flavor>: flavor of Nova, by name or ID, in place of --flavor (only
            inside openstack)
        """,
    )
    add_options(
        parser,
        f"""\
{inventory.FLAVOR_FILE}\
decide --policy <policy>: policy (default: the flavor's, else default)
{inventory.POLICY_FILE}\
where --podm <podm>...: only this pod manager, by ID or name (repeat for several)
where --exclude-podm <podm>...: not this pod manager, by ID or name (repeat for several)
where --zone <zone>: only this availability zone
""",
    )
    add_location_options(parser)
    add_options(
        parser,
        """
        where --attribute <name=expression>...: only where this attribute of the pod manager is so:
            facts.year='>= 2022' (repeat for several; takes the place of the flavor's)
        """,
        attribute=_attribute,
    )
    placement.add_placement_options(parser)
    add_group_options(parser)
    add_proximity_options(parser)
    text = "decide --seed <n>: decides between equals (default: 0)"
    if not many:
        text += """
decide --request-id <id>: also decides between equals; a report names it, to decide so again
    (default: the same for the same request; with --claim, --compose or --dispatch and
    without --seed another one each time)"""
    add_options(parser, text, seed=whole, request_id=nonempty_name)


def make_request(
    command: PodmCommand,
    args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None = None,
    site: Site | None = None,
) -> Request:
    """Return the request that the words of the shell make.

    Its flavor is the one of ``flavor_name``, or Nova's of the name ``nova_flavor``; without either
    the resources of the shell are all. Flavors and the policy of a ``site`` win over those that
    are configured. UsageError if nothing says what the node is made of, or two flavors do, or more
    nodes must be placed than are asked for.
    """
    from valence_sched.model.extra_specs import qualify
    from valence_sched.model.request_spec import RequestSpec

    count, min_count = getattr(args, "count", None) or 1, getattr(args, "min_count", None)
    if (min_count or 0) > count:
        raise UsageError(f"--min-count {min_count} exceeds --count {count}")
    flavor = site.flavors.get(flavor_name) if site and flavor_name else None
    flavor = flavor or _flavor(command, args, flavor_name, nova_flavor)
    default_policy = site.policy if site and not flavor.policy else None
    attributes = ((qualify(name), expression) for name, expression in args.attribute)
    spec = RequestSpec(
        id=getattr(args, "request_id", None) or "",
        flavor=flavor.name,
        count=count,
        min_count=min_count,
        alternates=getattr(args, "alternates", None) or 0,
        podms=tuple(args.podm),
        exclude_podms=tuple(args.exclude_podm),
        zone=args.zone,
        attributes=by_name("--attribute", attributes, "say what it must be in one of them"),
        policy=args.policy or default_policy,
        seed=args.seed,
        **placement.request_fields(args, flavor.name),
    )
    request = command.scheduler_app.config.compile_request(spec, flavor, args.near_map)
    return placement.with_resources(request, args)


@contextlib.contextmanager
def flavor_named(request: Request, args: argparse.Namespace) -> Iterator[None]:
    """Name the flavor in the error about an unknown policy that a flavor names."""
    try:
        yield
    except UnknownName as error:
        if error.kind == "policy" and args.policy is None:
            raise error.at(f"flavor {request.flavor!r}") from None
        raise


def _flavor(
    command: PodmCommand, args: argparse.Namespace, name: str | None, nova_flavor: str | None
) -> Flavor:
    """Return the flavor that is named; without one, an empty flavor without a name."""
    from valence_sched.model.flavor import Flavor

    app, files = command.scheduler_app, args.flavor_file
    if name is not None and nova_flavor is not None:
        raise UsageError("--flavor and --nova-flavor: one of them, a node has one flavor")
    if name is not None:
        return app.config.flavor(name, files)
    if nova_flavor is not None:
        return cloud.nova_flavor(app, command.app.client_manager, nova_flavor, files)
    if placement.says_resources(args):
        return Flavor(name="")
    raise UsageError("no flavor or resources given: name --flavor, --cores, --memory, --gpu, "
                     "--drive, --resource or --request-file")  # fmt: skip


def _attribute(text: str) -> tuple[str, str]:
    """Parse ``NAME=EXPRESSION``; the operator comes after the first ``=``."""
    name, equals, expression = text.partition("=")
    if not equals or not name.strip() or len(name.split()) > 1 or name.endswith(tuple("<>!")):
        hint = "as in facts.year='>= 2022'"
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not NAME=EXPRESSION, {hint}")
    return name.strip(), expression.strip()
