# SPDX-License-Identifier: Apache-2.0
"""Options that name inputs: inventory, state, files of resources, flavors and policies.

Also the options of the hook that drains a node before blocks are detached from it.
"""

from __future__ import annotations

import argparse
import shlex

from valence_sched.errors import UsageError, is_not
from valence_sched_cli.late import model
from valence_sched_cli.options import parser as parsing

PARALLEL = """\
inventory --parallel <requests>=4: maximum number of concurrent requests to each pod manager"""
STATE = """\
inventory --state <url>: state with the registered pod managers: a file, or the URL of a database
    without a password (default: VALENCE_SCHED_STATE, else valence-sched/state.sqlite in the state
    directory)"""
LIVE = f"""\
inventory --podm-file <file>...: YAML file of pod managers to read, instead of the registered ones
    or in addition to --inventory
{STATE}
inventory --from-catalog: read the pod managers in the cloud's service catalogue, of service type
    podm (only inside openstack)
inventory --all-regions: with --from-catalog, read all regions, not only the configured one
inventory --request-timeout <seconds>=30: how long to wait for each pod manager; all are read in
    parallel
{PARALLEL}
inventory --full: read every resource again, not only those that may have changed since the last
    reading
inventory --max-age <age>: exit 5 if a reading is of unknown age or older than this, such as 30s,
    10m, 2h or 1d"""
RESOURCE_FILE = """\
inventory --resource-file <file>...: YAML file of resources that pod managers do not report, such as
    power"""
INVENTORY = f"""\
inventory --inventory <path>...: inventory to use: a file, a directory or archive of recorded
    Redfish documents, or - for standard input; repeat for several (default:
    VALENCE_SCHED_INVENTORY, else the registered pod managers)
inventory --warn-age <age>: warn if a reading is older than this, such as 12h; 0 or never disables
    the warning (default: VALENCE_SCHED_WARN_AGE, else 1d)
{LIVE}
inventory --liveness <name[:argument]>: how to tell if pod managers that this run does not read are
    Online: read:<age> limits the age of the last reading, store:<age> of the last report,
    file:<folder> of a file for each; or a plug-in (default: VALENCE_SCHED_LIVENESS, else as stored)
{RESOURCE_FILE}
inventory --no-cache: do not use or write cached views of large inventory files (or set
    VALENCE_SCHED_NO_CACHE)
inventory --strict: exit 5 if a pod manager could not be read, a zone did not answer or a document
    was skipped; exit 1 if a plug-in fails"""
ZONE_FILE = """\
inventory --zone-file <file>: YAML file of a tree of zones with recorded inventories, instead of
    --inventory"""
STRICT_LIST = """\
inventory --strict: exit 5 if a zone does not answer and the list is incomplete"""
FLAVOR_FILE = """\
what --flavor-file <file>...: YAML or JSON file of further flavors
what --ignore-extra-spec <key>...: extra spec of Nova flavors to ignore"""
POLICY_FILE = """\
decide --policy-file <file>...: YAML file of further policies"""
DECISION = f"{INVENTORY}\n{FLAVOR_FILE}\n{POLICY_FILE}"


def html_option(what: str) -> str:
    """Return the usage of --html; ``what`` describes the content of the page."""
    return f"output --html <file>: write {what} as one self-contained page for a browser"


DRAIN = """\
then | --drain-command <command>: before blocks are detached, run this command, which must exit 0;
    it receives the change as JSON on standard input (default: the hook in drain.yaml, if any)
then | --drain-url <url>: before blocks are detached, post the change to this URL, which must answer
    {"drained": true}
then --drain-deadline <seconds>: time that the command or the URL has to drain the node (default:
    60)
then --drain-key-env <variable>: environment variable with the key that signs requests to
    --drain-url"""


def drain_settings(args: argparse.Namespace) -> model.node_change.DrainSettings | None:
    """Return the hook that the options name, if any; UsageError or InputError if it is invalid."""
    command, url = getattr(args, "drain_command", None), getattr(args, "drain_url", None)
    variable = getattr(args, "drain_key_env", None)
    if variable is not None and url is None:
        raise UsageError("--drain-key-env: only with --drain-url")
    if command is None and url is None:
        if getattr(args, "drain_deadline", None) is not None:
            raise UsageError("--drain-deadline: only with --drain-command or --drain-url")
        return None
    key = model.registration.PasswordReference(env=variable) if variable is not None else None
    deadline = {} if args.drain_deadline is None else {"deadline_s": args.drain_deadline}
    settings = model.node_change.DrainSettings(command=command or (), url=url, key=key, **deadline)
    model.node_change.check_drain(settings, "--drain-url" if command is None else "--drain-command")
    return settings


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError:  # a quote without its end
        words = ()
    if not words:
        raise is_not("a command with its arguments, quoted as for a shell", text)
    return words


#: The types of values, by the option.
DRAIN_SETTINGS: dict[str, parsing.Setting] = {
    "drain_command": _command,
    "drain_deadline": parsing.number("seconds from 1 to 3,600", 1, 3600),
    "drain_key_env": parsing.nonempty("name a variable"),
}
