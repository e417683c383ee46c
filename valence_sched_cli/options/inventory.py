# SPDX-License-Identifier: Apache-2.0
"""Options that say what is read: inventory, state, files of resources, flavors and policies."""

from __future__ import annotations

import argparse

from valence_sched.errors import UsageError
from valence_sched_cli.options.parser import (
    add_option,
    add_options,
    age,
    age_limit,
    positive,
    seconds,
    section,
)


def add_inventory_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to read."""
    group = section(parser, "inventory")
    add_option(
        group,
        "--inventory <path>...: inventory to decide on: a file, a directory or archive of recorded "
        "Redfish documents, or - for standard input; repeat for several (default: "
        "VALENCE_SCHED_INVENTORY, else the pod managers that are registered)",
    )
    add_option(
        group,
        "--warn-age <age>: warn of pod managers that were read longer ago than this, such as 12h; "
        "0 or never for no warning (default: VALENCE_SCHED_WARN_AGE, else 1d)",
        type=age_limit,
    )
    add_live_options(parser)
    add_option(
        group,
        "--liveness <name[:argument]>: how to know whether pod managers are alive that are not "
        "read in this run: read:<age> (last read), file:<folder> (a file each, by its age), "
        "store:<age> (last report), or a plug-in's (default: VALENCE_SCHED_LIVENESS, else what "
        "they say)",
    )
    add_resource_file_option(parser)
    add_option(
        group,
        "--no-cache: read large inventory files whole, and do not use or write the view that is "
        "cached of each (or set VALENCE_SCHED_NO_CACHE)",
    )
    add_option(
        group,
        "--strict: exit 5 when a pod manager could not be read, a zone gave no answer or any "
        "document had to be skipped, and fail when a plug-in does",
    )


def add_zone_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for a tree of zones with recorded inventories."""
    add_option(
        section(parser, "inventory"),
        "--zone-file <file>: YAML file of a tree of zones with recorded inventories, in place of "
        "--inventory",
    )


def check_zone_file(args: argparse.Namespace) -> None:
    """Raise UsageError where pod managers are named besides a zone file, or a plan is wanted."""
    if args.zone_file is None:
        return
    if getattr(args, "plan", None) is not None:
        raise UsageError("--plan: a plan is of one zone: leave --zone-file out, and name the "
                         "inventories of that zone")  # fmt: skip
    if args.inventory or args.podm_file or args.from_catalog:
        raise UsageError("--zone-file names all inventories: leave --inventory, --podm-file and "
                         "--from-catalog out")  # fmt: skip


def add_live_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which live pod managers to read, and how."""
    group = section(parser, "inventory")
    add_option(
        group,
        "--podm-file <file>...: YAML file of pod managers to read, in place of those that are "
        "registered; beside --inventory it adds them (repeat for several)",
    )
    add_state_option(parser)
    add_options(
        group,
        """
        --from-catalog: read the pod managers of the cloud's service catalogue, service type podm
            (only inside openstack)
        --all-regions: with --from-catalog: of every region, in place of the one that is configured
        --request-timeout <seconds>: how long each pod manager may take to answer, all of them at
            once (default: 30)
        --parallel <requests>: how many requests at once each pod manager gets at most (default: 4)
        --full: read everything anew, not only what can have changed since the last time
        --max-age <age>: exit 5 when a pod manager was read longer ago than this, such as 30s, 10m,
            2h or 1d, or nobody knows when
        """,
        request_timeout={"type": seconds, "default": 30.0},
        parallel={"type": positive, "default": 4},
        max_age={"type": age},
    )


def add_strict_list_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that a list over zones is to be whole."""
    add_option(
        section(parser, "inventory"),
        "--strict: exit 5 when a zone gave no answer, so that the list lacks what it has",
    )


def add_state_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where pod managers are registered."""
    add_option(
        section(parser, "inventory"),
        "--state <url>: state with the registered pod managers: a file, or the URL of a database "
        "without a password (default: VALENCE_SCHED_STATE, else valence-sched/state.sqlite in the "
        "state directory)",
    )


def add_resource_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for resources that no pod manager tells."""
    add_option(
        section(parser, "inventory"),
        "--resource-file <file>...: YAML file of resources that pod managers have and do not tell, "
        "such as power (repeat for several)",
    )


def add_flavor_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for flavors of one's own."""
    group = section(parser, "what")
    add_option(
        group,
        "--flavor-file <file>...: YAML or JSON file of flavors, beside the built-in ones (repeat "
        "for several)",
    )
    group.add_argument(
        "--ignore-extra-spec",
        metavar="<key>",
        action="append",
        default=[],
        help="extra spec of Nova flavors to pass over, in place of an error (repeat for several)",
    )


def add_policy_file_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for policies of one's own."""
    add_option(
        section(parser, "decide"),
        "--policy-file <file>...: YAML file of policies, beside the built-in ones (repeat for "
        "several)",
    )
