# SPDX-License-Identifier: Apache-2.0
"""Options that describe a request, a workload of requests, or hypothetical edits of the site."""

from __future__ import annotations

import argparse
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from valence_sched.errors import UnknownName, UsageError, is_not
from valence_sched_cli import plugin as cloud
from valence_sched_cli.late import app, model
from valence_sched_cli.options import inventory, parser as parsing

if TYPE_CHECKING:
    from valence_sched_cli.base import PodmCommand

RESOURCE_DESTS = ("cores", "memory", "gpu", "drive", "resource")
#: The argparse destinations of the options for resources, places and groups.
OPTION_DESTS = (
    *RESOURCE_DESTS,
    *("required", "forbidden", "member_of", "aggregate", "exclude_aggregate", "trait"),
    *("exclude_trait", "capability", "location", "where", "near", "prefer_near", "owner", "group"),
    "tolerate",
    *("affinity", "anti_affinity", "soft_affinity", "soft_anti_affinity", "at_most", "spread"),
    "soft_spread",
)
FLAVOR = """\
what --flavor <flavor>: name of a flavor, a file with one flavor, or - for standard input
what --nova-flavor <flavor>: Nova flavor, by name or ID, instead of --flavor (only inside
    openstack)"""
FLAVORS = """\
what --flavor <flavor>...: name of a flavor, a file with one flavor, or - for standard input
    (repeat for several; default: all known)
what --nova-flavor <flavor>...: Nova flavor, by name or ID, in addition to --flavor (only inside
    openstack; repeat for several)"""
#: The options for resources; the field is a text after the name of each.
RESOURCES = """\
what --cores <n>: CPU cores{0}
what --memory <size>: memory{0}: 256GiB
what --gpu <gpus>...: GPUs{0}: 2, A100 or 2xA100
what --drive <drives>...: drives{0}: 1TB or 2x1.92TB
what --resource <class=n>...: amount of a resource class of Placement{0}: VCPU=4, MEMORY_MB=256GiB,
    DISK_GB=100, PGPU=1, CUSTOM_STORAGE_GIB=50"""
#: The options that describe a request; all values of a repeated option apply.
OPTIONS = f"""\
{inventory.FLAVOR_FILE}
decide --policy <policy>: name of a policy (default: that of the flavor, else default)
{inventory.POLICY_FILE}
where --podm <podm>...: only this pod manager, by ID or name
where --exclude-podm <podm>...: not this pod manager, by ID or name
where --zone <zone>: only this availability zone
where --aggregate <aggregate>...: only in this aggregate, or in any of a comma-separated list
    (repeat to require several)
where --exclude-aggregate <aggregate>: not in this aggregate, or not in any of a comma-separated
    list
where --trait <trait>...: only with this trait, or with any of a comma-separated list (repeat to
    require several)
where --exclude-trait <trait>: not with this trait, or not with any of a comma-separated list
where --capability <key=value>...: only with this capability: os=linux, or one of several
    ;-separated values (repeat for several keys; overrides the key in the flavor)
where --location <location>...: only at this location or below it (repeat to accept several;
    overrides the flavor)
where --where <expression>...: only where this JSON expression holds: '[">=", "$facts.year", 2022]'
    (repeat for several; all must hold, and those of the flavor)
where --tolerate <key[=value]>...: also use blocks with this taint; a key alone tolerates any value
    (repeat for several; added to those of the flavor)
where --attribute <name=expression>...: only where this attribute of the pod manager matches:
    facts.year='>= 2022' (repeat for several; overrides the flavor)
{RESOURCES.format(", in addition to the flavor")}
where --required <trait>...: only with this trait, in Placement's syntax: !A forbids A, in:A,B
    requires A or B (repeat: all must hold)
where --forbidden <trait>...: only without this trait (repeat: all must hold)
where --member-of <aggregate>...: only members of this aggregate, in Placement's syntax: in:a,b for
    a or b, !a for not a, !in:a,b for neither (repeat: all must hold)
together --owner <owner>: owner of the nodes (default: the ID of the project if the command logs in
    to a cloud)
together --group <group>: group that the nodes join (default with a rule: the flavor's name); the
    domain of a rule is podm, zone, location, aggregate or facts.NAME
together --affinity <domain>...: place all nodes of the group in the same domain, such as zone
together --anti-affinity <domain>...: place each node of the group in a different domain
together --soft-affinity <domain>...: prefer to place all nodes of the group in the same domain
together --soft-anti-affinity <domain>...: prefer to place each node of the group in a different
    domain
together --at-most <domain=n>...: place at most n nodes of the group in each domain
together --spread <domain[=skew]>...: spread the group evenly over this domain; node counts differ
    by at most skew (default: 1; repeat for several)
together --soft-spread <domain[=skew]>...: prefer to spread the group evenly over this domain,
    within skew (default: 1; repeat for several)
where --near <kind=name>...: only near this external resource, such as volume=db-1; its location
    comes from --near-map or, inside openstack, from the cloud
where --prefer-near <kind=name>...: prefer pod managers near this external resource
where --near-map <file>...: YAML file with locations of external resources, or RESOLVER:SOURCE
decide --seed <n>: seed that breaks ties (default: 0)"""
REQUEST_ID = """\
decide --request-id <id>: ID of the request, which also breaks ties; to repeat a decision, use the
    ID in its report (default: derived from the request; random with --claim, --compose or
    --dispatch and without --seed)"""


def make_request(
    command: PodmCommand,
    args: argparse.Namespace,
    flavor_name: str | None,
    nova_flavor: str | None = None,
    site: app.Site | None = None,
) -> model.request.Request:
    """Return the request that the options describe: by a flavor, a Nova flavor, or resources.

    The flavors and the policy of a ``site`` override the configured ones. UsageError or InputError
    if an option is invalid or contradicts another.
    """
    count, min_count = getattr(args, "count", None) or 1, getattr(args, "min_count", None)
    if (min_count or 0) > count:
        raise UsageError(f"--min-count {min_count} exceeds --count {count}")
    flavor = site.flavors.get(flavor_name) if site and flavor_name else None
    flavor = flavor or _flavor(command, args, flavor_name, nova_flavor)
    default_policy = site.policy if site and not flavor.policy else None
    qualify = model.extra_specs.qualify
    attributes = ((qualify(name), expression) for name, expression in args.attribute)
    capabilities = itertools.chain(*(one.items() for one in args.capability))
    several = "write KEY=value;value to accept both"
    spec = model.request_spec.RequestSpec(
        id=getattr(args, "request_id", None) or "",
        flavor=flavor.name,
        count=count,
        min_count=min_count,
        alternates=getattr(args, "alternates", None) or 0,
        podms=tuple(args.podm),
        exclude_podms=tuple(args.exclude_podm),
        zone=args.zone,
        attributes=parsing.by_name("--attribute", attributes),
        policy=args.policy or default_policy,
        seed=args.seed,
        capabilities=parsing.by_name("--capability", capabilities, several),
        locations=tuple(args.location),
        where=model.request_spec.parse_conjunction(args.where, "--where"),
        near=_by_kind(args.near),
        prefer_near=_by_kind(args.prefer_near),
        tolerations=tuple(dict.fromkeys(args.tolerate)),
        owner=args.owner,
        group=_group(args, flavor.name),
        traits=model.need.merge_names(
            "trait", [*args.trait, *args.exclude_trait, *args.required, *args.forbidden]
        ),
        aggregates=model.need.merge_names(
            "aggregate", [*args.aggregate, *args.exclude_aggregate, *args.member_of]
        ),
    )
    request = command.scheduler_app.config.compile_request(spec, flavor, args.near_map)
    if not says_resources(args):
        return request
    return model.request_spec.with_resources(request, *_resources(args))


def device_properties(args: argparse.Namespace) -> model.flavor.Properties | None:
    """Return the devices that the options for resources describe, None without such an option."""
    if not says_resources(args):
        return None
    return model.request_spec.properties_of(*_resources(args))


def _resources(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, float]]:
    properties: dict[str, Any] = {"accelerators": args.gpu, "drives": args.drive}
    if args.cores is not None:
        properties["processor"] = {"total_cores": args.cores}
    if args.memory is not None:
        properties["memory"] = {"capacity_mib": args.memory}
    return properties, parsing.by_name("--resource", args.resource)


@contextlib.contextmanager
def flavor_named(request: model.request.Request, args: argparse.Namespace) -> Iterator[None]:
    """Within the context, an error about an unknown policy names the flavor that refers to it."""
    try:
        yield
    except UnknownName as error:
        if error.kind == "policy" and args.policy is None:
            raise error.at(f"flavor {request.flavor!r}") from None
        raise


def _flavor(
    command: PodmCommand, args: argparse.Namespace, name: str | None, nova_flavor: str | None
) -> model.flavor.Flavor:
    app, files = command.scheduler_app, args.flavor_file
    if name is not None and nova_flavor is not None:
        raise UsageError("--flavor excludes --nova-flavor: a node has one flavor")
    if name is not None:
        return app.config.flavor(name, files)
    if nova_flavor is not None:
        return cloud.nova_flavor(app, command.app.client_manager, nova_flavor, files)
    if says_resources(args):
        return model.flavor.Flavor(name="")
    options = "--flavor, --cores, --memory, --gpu, --drive, --resource or --request-file"
    raise UsageError(f"no flavor or resources given: name {options}")


def says_resources(args: argparse.Namespace) -> bool:
    return any(getattr(args, name) for name in RESOURCE_DESTS)


def _group(args: argparse.Namespace, flavor: str) -> model.request.Group | None:
    spread = [
        model.request.Spread(over, skew, soft=soft)
        for option, soft in (("spread", False), ("soft_spread", True))
        for over, skew in parsing.by_name(
            parsing.option_name(option), getattr(args, option), "give the skew once"
        ).items()
    ]
    rules = ("affinity", "anti_affinity", "soft_affinity", "soft_anti_affinity")
    group = model.request.Group(
        name=args.group or flavor,
        **{rule: tuple(dict.fromkeys(getattr(args, rule))) for rule in rules},
        at_most=parsing.by_name("--at-most", args.at_most, "give the number once"),
        spread=tuple(spread),
    )
    return group if args.group or group.domains else None


def _by_kind(named: Sequence[tuple[str, str]]) -> dict[str, str | tuple[str, ...]]:
    names: dict[str, str | tuple[str, ...]] = {}
    for kind, name in dict.fromkeys(named):
        names[kind] = (*names.get(kind, ()), name)
    return names


_domain = parsing.parsed_by("request:check_domain")


def _counted_domain(text: str) -> tuple[str, int]:
    domain, equals, number = text.rpartition("=")
    return (_domain(domain), parsing.positive(number)) if equals else (_domain(text), 1)


def _at_most(text: str) -> tuple[str, int]:
    if "=" not in text:
        raise is_not("DOMAIN=N, as in podm=2", text)
    return _counted_domain(text)


def _capabilities(text: str) -> dict[str, tuple[str, ...]]:
    if not (found := model.inventory.parse_capabilities(text)):
        raise is_not("key=value or key=value;value", text)
    return found


#: The types of values, by the option or by the name of its value in usage texts.
SETTINGS: dict[str, parsing.Setting] = {
    "attribute": parsing.parsed_by("extra_specs:parse_attribute"),
    "memory": parsing.parsed_by("flavor:parse_memory_mib"),
    "gpu": parsing.parsed_by("flavor:parse_gpus"),
    "drive": parsing.parsed_by("flavor:parse_drives"),
    "resource": parsing.parsed_by("flavor:parse_resource"),
    "required": parsing.parsed_by("need:parse_traits"),
    "forbidden": parsing.parsed_by("need:parse_forbidden"),
    "member_of": parsing.parsed_by("need:parse_aggregates"),
    **dict.fromkeys(("aggregate", "trait"), parsing.parsed_by("need:parse_one_of")),
    **{
        name: {"type": parsing.parsed_by("need:parse_excluded"), **parsing.LISTED}
        for name in ("exclude_aggregate", "exclude_trait")
    },
    "capability": _capabilities,
    "tolerate": parsing.parsed_by("need:parse_toleration"),
    **dict.fromkeys(("owner", "group"), parsing.parsed_by("request:check_group_name")),
    "<domain>": _domain,
    "<domain=n>": _at_most,
    "<domain[=skew]>": _counted_domain,
    "<kind=name>": parsing.key_and_value("KIND=NAME, as in volume=db-1"),
    "seed": parsing.whole,
    "request_id": parsing.nonempty_name,
}


TARGETS = """<target> is PODM, PODM/POOL, BLOCK@PODM or BLOCK@PODM/POOL, and * matches any text. It
    may also be a list of conditions that must all hold, such as model=A100,zone=az2, on podm, pool,
    block, type, kind, model, free, zone, aggregate, trait, status, enabled. Edits of a scenario are
    applied first, then the edits of the command line in their order."""

EDITS = ("fail", "drain", "remove", "clone", "add", "set")


def add_edit_options(parser: argparse.ArgumentParser) -> None:
    group = parsing.section(parser, "edits")
    group.description = " ".join(TARGETS.split())
    parsing.add_options(
        group,
        """
        --scenario <file>...: YAML file of scenarios, or FILE#NAME for one of them
        --fail <target>: let this hardware fail: nodes on it are lost, and no node can use it
            (all edits: repeat for several)
        --drain <target>: place no new nodes on this hardware; existing nodes stay
        --remove <target>: remove this hardware and its nodes
        --clone <podm[xN]>: add N copies of this pod manager, healthy and free (default: 1)
        --add <[Nx]block@podm[/pool]>: add N copies of this block of the pod manager, or of a
            template of a scenario file, healthy and free (default: 1)
        --set <target:key=value>: set a property of a pod manager (enabled, status, zone,
            aggregates, traits, facts.NAME, capabilities.NAME), a pool (traits) or a block
            (enabled, health, reserved). Several values are a ;-separated list; an empty value
            removes the property""",
        **{verb: {"dest": "edits", "type": edit(verb), **parsing.LISTED} for verb in EDITS},
    )


#: The option that overrides weights of the policy.
WEIGHT = """\
decide --weight <weigher=number>...: override the weight of this weigher in the policy
"""


def edited_sites(command: PodmCommand, args: argparse.Namespace) -> list[app.Site]:
    """Return the inventory after the edits: one site for each scenario, else one site."""
    app, selection = command.scheduler_app, command.selection(args)
    zones, policy = getattr(args, "zone_file", None), getattr(args, "policy", None)
    site = app.site(selection) if zones is None else app.zoned_site(selection, zones)
    weights = parsing.by_name("--weight", getattr(args, "weight", ()))
    edits = tuple(args.scenario), tuple(args.edits)
    return app.whatif.edited_sites(site, *edits, policy=policy, weights=weights)


def edited_site(command: PodmCommand, args: argparse.Namespace) -> app.Site:
    """Return the inventory after the edits; UsageError for several scenarios."""
    site, *others = edited_sites(command, args)
    if others:
        names = ", ".join(one.name for one in (site, *others))
        hint = "but the command needs one inventory: name a scenario with FILE#NAME"
        raise UsageError(f"--scenario: {1 + len(others)} scenarios ({names}), {hint}")
    return site


def edit(verb: str) -> Callable[[str], model.scenario.Edit]:
    return lambda text: model.scenario.parse_edit(verb, text)


_OF_FILES = ("map", "map_file", "sort", "near_map")
_SYNTHETIC = ("rate", "mix", "lifetime", "horizon", "seed")


#: The options that name or generate a workload.
WORKLOAD = """\
what --workload <file>: requests with arrival and end times, in the order of arrival: a CSV, JSON
    Lines, JSON or YAML file, also as .gz or .zst, or - for standard input
what --map <field=column>...: for a CSV trace, the column of a field, as arrival=created or
    properties.processor.total_cores=cpu_milli/1000 (repeat for several; other columns are ignored)
what --map-file <file>: YAML file with such a mapping under columns
what --sort: sort the lines by arrival, in memory
what --near-map <file>...: YAML file with locations of external resources, or RESOLVER:SOURCE
what --rate <n/period>: generate requests with this average arrival rate, instead of reading a file:
    10/h, 0.5/s
what --mix <flavor=share,...>: flavors of the generated requests, with their shares
what --lifetime <duration>: average lifetime of a node, such as 90s, 2h or 3d (default: unlimited)
what --horizon <duration>: duration in which requests arrive"""


def make_workload(app: app.App, args: argparse.Namespace) -> app.Workload:
    """Return the workload that the options name; UsageError or InputError if they are invalid."""
    drawn = [name for name in _SYNTHETIC if getattr(args, name, None) is not None]
    if args.workload is not None:
        if drawn:
            raise UsageError(f"--{drawn[0]}: not with --workload, whose file sets it")
        columns = parsing.by_name("--map", args.map)
        files = {"sort": args.sort, "near_maps": args.near_map}
        return app.whatif.workload(args.workload, columns, args.map_file, **files)
    if of_files := [name for name in _OF_FILES if getattr(args, name)]:
        raise UsageError(f"--{of_files[0].replace('_', '-')}: only with --workload FILE")
    if missing := [name for name in ("rate", "mix", "horizon") if getattr(args, name) is None]:
        hint = "use --workload FILE, or generate requests with --rate, --mix and --horizon"
        raise UsageError(f"no --{missing[0]}: {hint}")
    return app.whatif.synthetic_workload(
        model.request_spec.SyntheticSpec(
            rate_per_s=args.rate,
            mix=args.mix,
            horizon_s=args.horizon,
            lifetime_s=args.lifetime,
            seed=getattr(args, "seed", 0) or 0,
        )
    )


def workload_facts(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the facts for a page about a generated workload; none about a workload file."""
    if args.workload is not None:
        return []
    lifetime = model.quantity.format_age(args.lifetime) if args.lifetime else "unlimited"
    facts = [
        ("Requests an hour", f"{args.rate * 3600:,.6g}"),
        ("Mix", ", ".join(f"{name}={share:g}" for name, share in args.mix.items())),
        ("Mean lifetime", lifetime),
    ]
    return facts if not hasattr(args, "seed") else [*facts, ("Seed", str(args.seed or 0))]
