# SPDX-License-Identifier: Apache-2.0
"""Options that say what a node has, and where it goes: Placement's, groups, locations."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from valence_sched.errors import InputError, RequestError, UsageError
from valence_sched_cli.options.parser import add_options, by_name, parsed, positive

if TYPE_CHECKING:
    from valence_sched.model.request import Group, NameRequirements, Request

RESOURCE_DESTS = ("cores", "memory", "gpu", "drive", "resource")
#: Where argparse stores all these options.
OPTION_DESTS = (
    *RESOURCE_DESTS, "required", "forbidden", "member_of", "aggregate", "exclude_aggregate",
    "trait", "exclude_trait", "capability", "location", "where", "near", "prefer_near", "owner",
    "group", "affinity", "anti_affinity", "soft_affinity", "soft_anti_affinity", "at_most",
    "spread", "soft_spread",
)  # fmt: skip


class NameConstraints(NamedTuple):
    """What one option says: all of these, none of those, and one of each list."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()


def add_placement_options(parser: argparse.ArgumentParser) -> None:
    """Add the options; each may be repeated, and all of them must hold."""
    add_options(
        parser,
        """
        what --cores <n>: CPU cores, beside what the flavor asks
        what --memory <size>: memory, beside what the flavor asks: 256GiB
        what --gpu <gpus>...: GPUs, beside what the flavor asks: 2, A100 or 2xA100 (repeat for
            several)
        what --drive <drives>...: drives, beside what the flavor asks: 1TB or 2x1.92TB (repeat for
            several)
        what --resource <class=n>...: so much of a resource class of Placement, beside what the
            flavor asks: VCPU=4, MEMORY_MB=256GiB, DISK_GB=100, PGPU=1, CUSTOM_STORAGE_GIB=50
            (repeat: all must hold)
        where --required <trait>...: only where this trait is, as Placement writes it; !A for not,
            in:A,B for one of them (repeat: all must hold)
        where --forbidden <trait>...: only where this trait is not (repeat: all must hold)
        where --member-of <aggregate>...: only members of this aggregate, as Placement writes it;
            in:a,b for one of them, !a for none, !in:a,b for neither (repeat: all must hold)
        """,
        memory=lambda text: math.ceil(_amount(text, "MiB")),
        gpu=parse_gpus,
        drive=parse_drives,
        resource=parse_resource,
        required=parse_traits,
        forbidden=parse_forbidden,
        member_of=parse_aggregates,
    )


def request_fields(args: argparse.Namespace, flavor: str) -> dict[str, Any]:
    """Return the options as fields of a request; UsageError or InputError if one is wrong."""
    traits = _name_constraints(args.trait, args.exclude_trait)
    aggregates = _name_constraints(args.aggregate, args.exclude_aggregate)
    return {
        "capabilities": _merge_capabilities(args.capability),
        "locations": tuple(args.location),
        "where": _conjunction(args.where),
        "near": _by_kind(args.near),
        "prefer_near": _by_kind(args.prefer_near),
        "owner": args.owner,
        "group": _group(args, flavor),
        "traits": merge_names("trait", traits, [*args.required, *args.forbidden]),
        "aggregates": merge_names("aggregate", aggregates, args.member_of),
    }


def says_resources(args: argparse.Namespace) -> bool:
    """Return whether the options say something that a node has."""
    return any(getattr(args, name) for name in RESOURCE_DESTS)


def with_resources(request: Request, args: argparse.Namespace) -> Request:
    """Return the request with the resources of the shell in each way to make the node."""
    import msgspec

    from valence_sched.model.flavor import Flavor, Properties, add_needs, compile_amounts

    if not says_resources(args):
        return request
    amounts = by_name("--resource", args.resource, "say how much in one of them")
    properties: dict[str, Any] = {"accelerators": args.gpu, "drives": args.drive}
    if args.cores is not None:
        properties["processor"] = {"total_cores": args.cores}
    if args.memory is not None:
        properties["memory"] = {"capacity_mib": args.memory}
    more = (
        *Flavor(name="shell", properties=msgspec.convert(properties, Properties)).needs,
        *(Flavor(name="shell", properties=compile_amounts(amounts)).needs
          if amounts else ()),
    )  # fmt: skip
    first, *others = (add_needs(ask, more) for ask in request.alternatives)
    fields = {"needs": first.needs, "bonds": first.bonds, "fallbacks": tuple(others)}
    return msgspec.structs.replace(request, **fields)


def parse_gpus(text: str) -> dict[str, Any]:
    """Parse ``N``, ``MODEL`` or ``NxMODEL`` into the accelerators of a flavor."""
    match = re.fullmatch(r"([0-9]{1,4})(?:x(\S.*))?|((?![0-9]+x?$)\S.*)", text.strip())
    count, model = (match[1] or "1", match[2] or match[3]) if match else ("0", None)
    if int(count) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not 2, A100 or 2xA100")
    found = {"kind": "GPU", "count": int(count)}
    return found | ({"model": model} if model else {})


def parse_drives(text: str) -> dict[str, Any]:
    """Parse ``SIZE`` or ``NxSIZE`` into the drives of a flavor."""
    match = re.fullmatch(r"(?:([0-9]{1,4})x)?(.*)", text)
    count, size = (int(match[1] or 1), match[2]) if match else (0, "")
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not 1TB or 2x1TB")
    return {"count": count, "capacity_gib": _amount(size, "GiB")}


def _amount(text: str, unit: str) -> float:
    from valence_sched.model.quantity import quantity_in

    number = parsed(lambda amount: quantity_in(amount, unit), text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text[:40]!r}")
    return number


def merge_names(
    kind: str, names: NameRequirements, constraints: Iterable[NameConstraints]
) -> NameRequirements:
    """Return names with those of terms beside; UsageError if they contradict each other."""
    from valence_sched.model.request import NameRequirements

    for term in constraints:
        names = names.plus(NameRequirements(*term))
    if contrary := names.contradiction:
        raise UsageError(f"{kind} {contrary}")
    return names


MOST_OF_A_CLASS = 10**15  # what a flavor may ask for at most


def parse_resource(text: str) -> tuple[str, float]:
    """Parse ``CLASS=N``; an amount of a class whose name ends in a unit may have another unit."""
    from valence_sched.model.flavor import resource_class_problem
    from valence_sched.model.quantity import is_quantity, quantity_in, unit_of

    name, equals, amount = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not CLASS=N, as in VCPU=4")
    if wrong := resource_class_problem(name):
        raise argparse.ArgumentTypeError(wrong)
    unit = unit_of(name)
    if unit and is_quantity(amount):
        try:
            number = quantity_in(amount, unit)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{name}: {error}") from None
        if number > 0:
            return name, number
    if not re.fullmatch(r"[0-9]{1,16}", amount) or not 0 < int(amount) <= MOST_OF_A_CLASS:
        raise argparse.ArgumentTypeError(
            f"{name} must be a whole number of 1 to {MOST_OF_A_CLASS:,}, got {amount[:40]!r}"
        )
    return name, int(amount)


def parse_traits(text: str) -> NameConstraints:
    """Parse ``A``, ``!A`` or ``in:A,B``."""
    if text.startswith("!in:"):
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: none of several is --forbidden for each")
    return parse_aggregates(text)


def parse_forbidden(text: str) -> NameConstraints:
    """Parse the name of a trait that must not be there."""
    if text.startswith("in:") or "," in text:
        hint = "none of several is the option for each of them"
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: {hint}")
    return NameConstraints(forbidden=_plain_names(text, text))


def parse_aggregates(text: str) -> NameConstraints:
    """Parse ``a``, ``in:a,b``, ``!a`` or ``!in:a,b``.

    A list without ``in:`` is refused: Placement's API reads it as all of them, its client as one.
    """
    word = text.removeprefix("!")
    if word.startswith("in:"):
        options = _plain_names(text, word[3:])
        return NameConstraints((), options) if word != text else NameConstraints(any_of=(options,))
    if "," in word:
        hint = "in:a,b is one of them, and the option twice is both"
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: {hint}")
    name = _plain_names(text, word)
    return NameConstraints((), name) if word != text else NameConstraints(name)


def _plain_names(text: str, part: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in part.split(","))
    for name in names:
        if not name or name == "!":
            raise argparse.ArgumentTypeError(f"{text[:60]!r}: an empty name")
    for name in names:
        if name.startswith("!"):
            raise argparse.ArgumentTypeError(f"{text[:60]!r}: {name[:40]!r} has no place here")
    return names


def add_group_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about owner and group."""
    add_options(
        parser,
        """
        together --owner <owner>: for whom the nodes are (default: the project, by its ID, where the
            command logs in to a cloud)
        together --group <group>: group that the nodes join (default: the flavor's name, where a
            rule is given); a domain of a rule is podm, zone, location, aggregate or facts.NAME
        together --affinity <domain>...: all nodes of the group at one value of this domain (repeat
            for several)
        together --anti-affinity <domain>...: no two nodes of the group at one value of this domain
            (repeat for several)
        together --soft-affinity <domain>...: better all nodes of the group at one value of this
            domain (repeat for several)
        together --soft-anti-affinity <domain>...: better no two nodes of the group at one value of
            this domain (repeat for several)
        together --at-most <domain=n>...: at most n nodes of the group at one value of this domain
            (repeat for several)
        together --spread <domain[=skew]>...: spread the group evenly over this domain, its counts
            at most skew (1) apart (repeat for several)
        together --soft-spread <domain[=skew]>...: better spread the group evenly over this domain,
            its counts at most skew (1) apart (repeat for several)
        """,
        owner=_group_name,
        group=_group_name,
        **{"<domain>": _domain, "<domain=n>": _at_most, "<domain[=skew]>": _spread},
    )


def _group(args: argparse.Namespace, flavor: str) -> Group | None:
    from valence_sched.model.request import Group, Spread

    hint = "say the skew in one of them"
    spread = by_name("--spread", args.spread, hint)
    soft_spread = by_name("--soft-spread", args.soft_spread, hint)
    group = Group(
        name=args.group or flavor,
        affinity=tuple(dict.fromkeys(args.affinity)),
        anti_affinity=tuple(dict.fromkeys(args.anti_affinity)),
        soft_affinity=tuple(dict.fromkeys(args.soft_affinity)),
        soft_anti_affinity=tuple(dict.fromkeys(args.soft_anti_affinity)),
        at_most=by_name("--at-most", args.at_most, "say how many in one of them"),
        spread=(
            *(Spread(over, skew) for over, skew in spread.items()),
            *(Spread(over, skew, soft=True) for over, skew in soft_spread.items()),
        ),
    )
    return group if args.group or group.domains else None


def _group_name(text: str) -> str:
    if not text.strip() or len(text) > 255:
        what = f"must be a name of 1 to 255 characters, got {text[:40]!r}"
        raise argparse.ArgumentTypeError(what)
    return text


def _domain(text: str) -> str:
    from valence_sched.model.request import check_domain

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


def add_location_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where."""
    add_options(
        parser,
        """
        where --aggregate <aggregate>...: only in this aggregate, or with commas in one of these
            (repeat: in each)
        where --exclude-aggregate <aggregate>...: not in this aggregate, or with commas in none of
            these
        where --trait <trait>...: only with this trait, or with commas with one of these (repeat:
            with each)
        where --exclude-trait <trait>...: not with this trait, or with commas with none of these
        where --capability <key=value>...: only with this capability: os=linux, or with semicolons
            one of several values (repeat for several keys; takes the place of the flavor's of that
            key)
        where --location <location>...: only at this location or below it (repeat: at any of them;
            takes the place of the flavor's)
        where --where <expression>...: only where this expression in JSON holds: '[">=",
            "$facts.year", 2022]' (repeat: all must hold, the flavor's too)
        """,
        capability=_capabilities,
        **{"<aggregate>": _comma_names, "<trait>": _comma_names},
    )


def add_proximity_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about external resources, such as volumes."""
    add_options(
        parser,
        """
        where --near <kind=name>...: only near this thing, such as volume=db-1: where a map says
            that it is, or, within openstack, the cloud (repeat for several)
        where --prefer-near <kind=name>...: rather near this thing: where a map says that it is, or,
            within openstack, the cloud (repeat for several)
        where --near-map <file>...: YAML map that says where things are, or RESOLVER:SOURCE (repeat
            for several)
        """,
        **{"<kind=name>": _external_resource},
    )


def _comma_names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} holds an empty name")
    return names


def _capabilities(text: str) -> dict[str, tuple[str, ...]]:
    from valence_sched.model.inventory import parse_capabilities

    capabilities = parsed(parse_capabilities, text)
    if not capabilities:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not key=value or key=value;value")
    return capabilities


def _name_constraints(
    required: Sequence[tuple[str, ...]], excluded: Sequence[tuple[str, ...]]
) -> NameRequirements:
    from valence_sched.model.request import NameRequirements

    return NameRequirements(
        required=tuple(names[0] for names in required if len(names) == 1),
        forbidden=tuple(name for names in excluded for name in names),
        any_of=tuple(names for names in required if len(names) > 1),
    )


def _merge_capabilities(named: Sequence[dict[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    merged: dict[str, tuple[str, ...]] = {}
    for capabilities in named:
        for key, values in capabilities.items():
            if key in merged:
                hint = f"write {key}=value;value for either"
                raise UsageError(f"--capability: {key!r} twice: {hint}")
            merged[key] = values
    return merged


def _conjunction(texts: Sequence[str]) -> Any:
    from valence_sched.model.codec import decode
    from valence_sched.model.expression import parse_expression

    conjuncts = []
    for number, text in enumerate(texts, 1):
        name = f"--where {number}" if len(texts) > 1 else "--where"
        try:
            value = decode(text.encode(errors="surrogateescape"), object, name)
        except InputError as error:
            hint = 'in quotes for the shell, as in \'["=", "$zone", "east-1"]\''
            place = error.document_path
            raise InputError(name, place, error.found, error.expected, hint) from None
        parse_expression(value, name)
        conjuncts.append(value)
    return conjuncts[0] if len(conjuncts) == 1 else ["and", *conjuncts] if conjuncts else None


def _by_kind(named: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    names: dict[str, tuple[str, ...]] = {}
    for kind, name in dict.fromkeys(named):
        names[kind] = (*names.get(kind, ()), name)
    return names


def _external_resource(text: str) -> tuple[str, str]:
    kind, equals, name = (part.strip() for part in text.partition("="))
    if not equals or not kind or not name:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KIND=NAME, as in volume=db-1")
    return kind, name
