# SPDX-License-Identifier: Apache-2.0
"""Paths: names of objects in zones below, ``CHILD/NAME``; each level adds a prefix.

The function ``below`` returns an object of a child zone with the names that its parent uses.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from valence_sched.model import hardware, lifecycle
from valence_sched.model.capacity import StrandedAmount
from valence_sched.model.claim import Claim, ClaimPart, ComposedNode, NodeShrink
from valence_sched.model.decision import Candidate, PoolRef, SilentZone
from valence_sched.model.inventory import Podm
from valence_sched.model.node_change import NodeChangeResult
from valence_sched.model.request import GroupState, Request
from valence_sched.model.zone import DomainValues, Generations

V = TypeVar("V")
#: Begins a line about what no pod manager, block or device of a zone has.
_LACK = re.compile(r"no (?:pod manager|block|\S+(?: module)? has the) ")
N = TypeVar("N", bound=Struct)
NO_CLAIM = "-"  # the claim of a node that was composed without one
#: By class: the fields that contain names, or objects with names.
_NAMING: Mapping[type[Struct], tuple[str, ...]] = {
    Claim: ("id", "parts"),
    ClaimPart: ("podm", "node"),
    ComposedNode: ("id", "podm", "claim", "undo_claim"),
    NodeShrink: ("node", "podm"),
    StrandedAmount: ("podm",),
    Candidate: ("podm",),
    PoolRef: ("podm",),
    SilentZone: ("zone",),
    hardware.BlockOverview: ("podm",),
    hardware.PodmOverview: ("podm",),
    hardware.PoolOverview: ("podm",),
    NodeChangeResult: ("node",),
    Podm: ("id",),
    lifecycle.ClaimRecord: ("claim", "nodes", "events"),
    lifecycle.Event: ("claim", "podm"),
    lifecycle.NodeRecord: ("node", "events"),
    lifecycle.NodeStatus: ("node",),
}


def path(zone: str, name: str) -> str:
    """Return the path of a name in a child zone, or the name itself for the zone ``""``."""
    return f"{zone}/{name}" if zone else name


def way(*zones: str) -> str:
    """Join the names of zones to a path; skip empty names."""
    return "/".join(filter(None, zones))


def split(name: str, zones: Container[str]) -> tuple[str, str]:
    """Split a path into its child zone and the rest; a plain name has the child ``""``."""
    zone, slash, rest = name.partition("/")
    return (zone, rest) if slash and zone in zones else ("", name)


def request_for(
    zone: str,
    request: Request,
    zones: Container[str],
    having: Callable[[str], Container[str]] | None = None,
) -> Request:
    """Return a request with only the pod manager names of one child, or of this zone (``""``).

    A plain name applies to every zone; with ``having``, to the zones that have such a pod manager.
    If all names belong to other zones, the request gets an unknown name, so that no pod manager
    matches.
    """
    if not request.podms and not request.exclude_podms:
        return request
    podms, excluded = (
        tuple(found for name in names if (found := name_in(zone, name, zones, having)))
        for names in (request.podms, request.exclude_podms)
    )
    podms = podms or tuple(f"../{name}" for name in request.podms[:1])
    return replace(request, podms=podms, exclude_podms=excluded)


def name_in(
    zone: str,
    name: str,
    zones: Container[str],
    having: Callable[[str], Container[str]] | None = None,
) -> str:
    child, rest = split(name, zones)
    if child:
        return rest if child == zone else ""
    return name if having is None or zone in having(name) else ""


def below(zone: str, noun: N) -> N:
    """Return an object of a child zone with the names that its parent uses."""

    def renamed(value: Any) -> Any:
        if value in (None, "", NO_CLAIM):
            return value
        if isinstance(value, tuple):
            return tuple(map(renamed, value))
        return path(zone, value) if isinstance(value, str) else below(zone, value)

    return replace(noun, **{name: renamed(getattr(noun, name)) for name in _NAMING[type(noun)]})


def unverified_below(zone: str, node: lifecycle.UnverifiedNode) -> lifecycle.UnverifiedNode:
    named = ("node", "podm", "claim") if node.still_composing else ()
    changes = {word: path(zone, getattr(node, word)) for word in named}
    return replace(node, message=line_below(zone, node.message), **changes)


def name_for(zone: str, name: str) -> str:
    """Return a path as a name in a child zone; a path of another zone becomes an unused name."""
    start = f"{zone}/"
    return name.removeprefix(start) if name.startswith(start) else f"../{name}"


def renamed_place(place: DomainValues, rename: Callable[[str], str]) -> DomainValues:
    """Return a place with each pod manager name renamed, as by ``path`` or ``name_for``."""
    return _renamed(place, lambda names: tuple(map(rename, names)))


def generations_for(zone: str, generations: Generations) -> Generations:
    start, found = f"{zone}/", {f"{name}/": number for name, number in generations.items()}
    return {
        name.removeprefix(start).removesuffix("/"): number
        for name, number in found.items()
        if name.startswith(start)
    }


def renamed_state(state: GroupState, rename: Callable[[str], str]) -> GroupState:
    def counts(of: Mapping[str, int]) -> dict[str, int]:
        return {rename(name): number for name, number in of.items()}

    return replace(
        state,
        members=_renamed(state.members, counts),
        owned=counts(state.owned),
        open=_renamed(state.open, lambda names: tuple(sorted(map(rename, names)))),
    )


def _renamed(by_domain: Mapping[str, V], rename: Callable[[V], V]) -> dict[str, V]:
    return {domain: rename(one) if domain == "podm" else one for domain, one in by_domain.items()}


def line_below(zone: str, line: str) -> str:
    return f"zone {zone}: {line}" if zone else line


def lines_below(by_zone: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the lines of zones, each with its zone; a lack only once, and only if all lack it."""
    lacks = [
        {line.partition(" (")[0]: line for line in lines if _LACK.match(line)}
        for lines in by_zone.values()
    ]
    first, *others = lacks or [{}]
    all_lack = (line for text, line in first.items() if all(text in one for one in others))
    found = dict.fromkeys(all_lack)
    for zone, lines in by_zone.items():
        found |= {line_below(zone, line): None for line in lines if not _LACK.match(line)}
    return list(found)
