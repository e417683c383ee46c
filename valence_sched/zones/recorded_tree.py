# SPDX-License-Identifier: Apache-2.0
"""RecordedTree: the zones of a zone file in this process, over recorded inventories."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from msgspec.structs import replace

from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.request import Request
from valence_sched.model.scheduler import OwnPodms
from valence_sched.model.zone_file import RecordedZone
from valence_sched.zones.merge import Weighting
from valence_sched.zones.tokens import Tokens
from valence_sched.zones.tree import ChildZone, ZoneTree


def recorded_tree(
    zone: RecordedZone, podms: Callable[[RecordedZone], OwnPodms], path: str = ""
) -> ZoneTree:
    """Return the tree of a zone; ``podms`` returns the pod managers of a zone that has any.

    Zones are asked one after another, in the thread of the caller.
    """
    children = [
        ChildZone(
            child.name,
            recorded_tree(child, podms, f"{path}/{child.name}"),
            Weighting(child.weight_scale, child.weight_offset),
            parse_capabilities(child.capabilities),
        )
        for child in zone.children
    ]
    own = podms(zone) if zone.inventories else None
    return ZoneTree(path or "/", Tokens([secrets.token_hex(32)], path), own, children)


def flat_request(zone: RecordedZone, request: Request) -> Request:
    """Return a request with the names that pod managers have without the paths of their zones."""
    ways = sorted((f"{way}/" for way, _ in zone.walk() if way), key=len, reverse=True)

    def flat(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name.removeprefix(next(filter(name.startswith, ways), "")) for name in names)

    return replace(request, podms=flat(request.podms), exclude_podms=flat(request.exclude_podms))
