# SPDX-License-Identifier: Apache-2.0
"""Options that say what a node has, and those of Placement: resources, traits, member-of."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from valence_sched_cli.options.help import section
from valence_sched_cli.options.types import add_option, add_options, by_name, positive

if TYPE_CHECKING:
    from valence_sched.model.request import NameRequirements, Request

RESOURCE_DESTS = ("cores", "memory", "gpu", "drive", "resource")
OPTION_DESTS = (*RESOURCE_DESTS, "required", "forbidden", "member_of")


class NameConstraints(NamedTuple):
    """What one option says: all of these, none of those, and one of each list."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()


def add_placement_options(parser: argparse.ArgumentParser) -> None:
    """Add the options; each may be repeated, and all of them must hold."""
    add_options(
        section(parser, "what"),
        """
        --cores <n>: CPU cores, beside what the flavor asks
        --memory <size>: memory, beside what the flavor asks: 256GiB
        --gpu <gpus>...: GPUs, beside what the flavor asks: 2, A100 or 2xA100 (repeat for several)
        --drive <drives>...: drives, beside what the flavor asks: 1TB or 2x1.92TB (repeat for
            several)
        """,
        cores={"type": positive},
        memory={"type": _memory_mib},
        gpu={"type": parse_gpus},
        drive={"type": parse_drives},
    )
    for name, usage, type_, words in (
        ("what", "--resource <class=n>", parse_resource,
         "so much of a resource class of Placement, beside what the flavor asks: VCPU=4, "
         "MEMORY_MB=256GiB, DISK_GB=100, PGPU=1, CUSTOM_STORAGE_GIB=50"),
        ("where", "--required <trait>", parse_traits,
         "only where this trait is, as Placement writes it; !A for not, in:A,B for one of them"),
        ("where", "--forbidden <trait>", parse_forbidden, "only where this trait is not"),
        ("where", "--member-of <aggregate>", parse_aggregates,
         "only members of this aggregate, as Placement writes it; in:a,b for one of them, !a for "
         "none, !in:a,b for neither"),
    ):  # fmt: skip
        text = f"{usage}...: {words} (repeat: all must hold)"
        add_option(section(parser, name), text, type=type_)


def request_fields(args: argparse.Namespace, fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a request with these traits and aggregates beside; errors as for names."""
    return fields | {
        "traits": merge_names("trait", fields["traits"], [*args.required, *args.forbidden]),
        "aggregates": merge_names("aggregate", fields["aggregates"], args.member_of),
    }


def says_resources(args: argparse.Namespace) -> bool:
    """Return whether the options say something that a node has."""
    return any(getattr(args, name) for name in RESOURCE_DESTS)


def with_resources(request: Request, args: argparse.Namespace) -> Request:
    """Return the request with the resources of the shell in each way to make the node."""
    import msgspec

    from valence_sched.model import resource_classes
    from valence_sched.model.flavor import Flavor, Properties

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
        *(Flavor(name="shell", properties=resource_classes.compile_amounts(amounts)).needs
          if amounts else ()),
    )  # fmt: skip
    first, *others = (resource_classes.add_needs(ask, more) for ask in request.alternatives)
    fields = {"needs": first.needs, "bonds": first.bonds, "fallbacks": tuple(others)}
    return msgspec.structs.replace(request, **fields)


def parse_gpus(text: str) -> dict[str, Any]:
    """Parse ``N``, ``MODEL`` or ``NxMODEL`` into the accelerators of a flavor."""
    match = re.fullmatch(r"([0-9]{1,4})(?:x(\S.*))?|((?![0-9]+x?$)\S.*)", text)
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


def _memory_mib(text: str) -> int:
    return math.ceil(_amount(text, "MiB"))


def _amount(text: str, unit: str) -> float:
    """Parse an amount with a unit, above 0, into a number of another unit."""
    from valence_sched.model.quantity import quantity_in

    try:
        number = quantity_in(text, unit)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if number <= 0:
        raise argparse.ArgumentTypeError(f"must be above 0, got {text[:40]!r}")
    return number


def merge_names(
    kind: str, names: NameRequirements, constraints: Iterable[NameConstraints]
) -> NameRequirements:
    """Return names with those of terms beside; UsageError if they contradict each other."""
    from valence_sched.errors import UsageError
    from valence_sched.model.request import NameRequirements

    for term in constraints:
        names = names.plus(NameRequirements(*term))
    if contrary := names.contradiction:
        raise UsageError(f"{kind} {contrary}")
    return names


MOST_OF_A_CLASS = 10**15  # what a flavor may ask for at most


def parse_resource(text: str) -> tuple[str, float]:
    """Parse ``CLASS=N``; an amount of a class whose name ends in a unit may have another unit."""
    from valence_sched.model.quantity import is_quantity, quantity_in, unit_of
    from valence_sched.model.resource_classes import resource_class_problem

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
    return _parse_names(text)


def parse_forbidden(text: str) -> NameConstraints:
    """Parse the name of a trait that must not be there."""
    if text.startswith("in:") or "," in text:
        hint = "none of several is the option for each of them"
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: {hint}")
    return NameConstraints(forbidden=_plain_names(text, text))


def parse_aggregates(text: str) -> NameConstraints:
    """Parse ``a``, ``in:a,b``, ``!a`` or ``!in:a,b``."""
    return _parse_names(text)


def _parse_names(text: str) -> NameConstraints:
    """Parse one name or a list of alternatives.

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
    names = _names(text, part)
    for name in names:
        if name.startswith("!"):
            raise argparse.ArgumentTypeError(f"{text[:60]!r}: {name[:40]!r} has no place here")
    return names


def _names(text: str, part: str) -> tuple[str, ...]:
    return tuple(_name(text, item) for item in part.split(","))


def _name(text: str, item: str) -> str:
    name = item.strip()
    if not name or name == "!":
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: an empty name")
    return name
