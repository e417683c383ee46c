# SPDX-License-Identifier: Apache-2.0
"""Options that say what is read: inventory, state, files of resources, flavors and policies."""

from __future__ import annotations

import argparse
import functools

from valence_sched.errors import UsageError
from valence_sched_cli.options.parser import add_options

#: Where pod managers are registered.
STATE = """\
inventory --state <url>: state with the registered pod managers: a file, or the URL of a database
    without a password (default: VALENCE_SCHED_STATE, else valence-sched/state.sqlite in the state
    directory)
"""
#: Which live pod managers are read, and how.
LIVE = f"""\
inventory --podm-file <file>...: YAML file of pod managers to read, in place of those that are
    registered; beside --inventory it adds them (repeat for several)
{STATE}\
inventory --from-catalog: read the pod managers of the cloud's service catalogue, service type podm
    (only inside openstack)
inventory --all-regions: with --from-catalog: of every region, in place of the one that is
    configured
inventory --request-timeout <seconds>=30: how long each pod manager may take to answer, all of them
    at once (default: 30)
inventory --parallel <requests>=4: how many requests at once each pod manager gets at most
    (default: 4)
inventory --full: read everything anew, not only what can have changed since the last time
inventory --max-age <age>: exit 5 when a pod manager was read longer ago than this, such as 30s,
    10m, 2h or 1d, or at an unknown time
"""
#: Resources that no pod manager reports.
RESOURCE_FILE = """\
inventory --resource-file <file>...: YAML file of resources that pod managers have and do not
    report, such as power (repeat for several)
"""
#: What is read.
INVENTORY = f"""\
inventory --inventory <path>...: inventory to decide on: a file, a directory or archive of recorded
    Redfish documents, or - for standard input; repeat for several (default:
    VALENCE_SCHED_INVENTORY, else the pod managers that are registered)
inventory --warn-age <age>: warn of pod managers that were read longer ago than this, such as 12h;
    0 or never for no warning (default: VALENCE_SCHED_WARN_AGE, else 1d)
{LIVE}\
inventory --liveness <name[:argument]>: how to know whether pod managers are alive that are not read
    in this run: read:<age> (last read), file:<folder> (a file each, by its age), store:<age> (last
    report), or a plug-in's (default: VALENCE_SCHED_LIVENESS, else their status)
{RESOURCE_FILE}\
inventory --no-cache: read large inventory files whole, and do not use or write the view that is
    cached of each (or set VALENCE_SCHED_NO_CACHE)
inventory --strict: exit 5 when a pod manager could not be read, a zone gave no answer or any
    document had to be skipped, and fail when a plug-in does
"""
#: A tree of zones with recorded inventories.
ZONE_FILE = """\
inventory --zone-file <file>: YAML file of a tree of zones with recorded inventories, in place of
    --inventory
"""
#: That a list over zones is to be whole.
STRICT_LIST = """\
inventory --strict: exit 5 when a zone does not answer, so that the list is incomplete
"""
#: Flavors of one's own.
FLAVOR_FILE = """\
what --flavor-file <file>...: YAML or JSON file of flavors, beside the built-in ones (repeat for
    several)
what --ignore-extra-spec <key>...: extra spec of Nova flavors to pass over, in place of an error
    (repeat for several)
"""
#: Policies of one's own.
POLICY_FILE = """\
decide --policy-file <file>...: YAML file of policies, beside the built-in ones (repeat for several)
"""
#: What a decision reads.
DECISION = f"{INVENTORY}{FLAVOR_FILE}{POLICY_FILE}"
#: Adds what is read, for commands of others.
add_inventory_options = functools.partial(add_options, text=INVENTORY)


def check_zone_file(args: argparse.Namespace) -> None:
    """Raise UsageError where pod managers are named besides a zone file, or a plan is wanted."""
    if args.zone_file is None:
        return
    if getattr(args, "plan", None) is not None:
        hint = "leave --zone-file out, and name the inventories of that zone"
        raise UsageError(f"--plan: a plan is of one zone: {hint}")
    if args.inventory or args.podm_file or args.from_catalog:
        hint = "leave --inventory, --podm-file and --from-catalog out"
        raise UsageError(f"--zone-file names all inventories: {hint}")


def html_option(what: str) -> str:
    """Return the usage of the option for the file of the page; ``what`` says what it is about."""
    return f"output --html <file>: write {what} as one self-contained page for a browser"
