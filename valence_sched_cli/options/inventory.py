# SPDX-License-Identifier: Apache-2.0
"""Options that name inputs: inventory, state, files of resources, flavors and policies."""

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
