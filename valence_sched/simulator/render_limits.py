# SPDX-License-Identifier: Apache-2.0
"""The limits of pools as the capabilities of a collection of systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from valence_sched.drivers.fields import Json
from valence_sched.drivers.limits import ONE_SYSTEM
from valence_sched.model.inventory import FullBlock, Limit, Pool
from valence_sched.simulator.sheet import Sheet, link, links


def capabilities(
    sheet: Sheet, systems: str, zones: Sequence[tuple[str, Pool]], blocks: Sequence[FullBlock]
) -> Json:
    """Return what the collection of systems says of composing, and write what that links.

    Pools of equal limits share a capability; without pools it is for all there is.
    """
    stated: dict[bytes, tuple[Json, list[str]]] = {}
    for zone, pool in zones or ((None, None),):
        if found := _limits(pool, blocks):
            key = msgspec.json.encode(found, order="sorted")
            stated.setdefault(key, (found, []))[1].extend([zone] if zone else [])
    if not stated:
        return {}
    return {
        "@Redfish.CollectionCapabilities": {
            "@odata.type": "#CollectionCapabilities.v1_4_0.CollectionCapabilities",
            "Capabilities": [
                _capability(sheet, systems, limits, related) for limits, related in stated.values()
            ],
        }
    }


def _limits(pool: Pool | None, blocks: Iterable[FullBlock]) -> Json:
    """Return the block limits of a pool as Redfish states them.

    No maximum would be read as one of a compute unit, so all there are is stated instead.
    """
    found: Json = {}
    known = dict(pool.limits) if pool else {}
    here = [block for block in blocks if pool is None or pool.id in block.pools]
    for kind in ONE_SYSTEM:
        count = sum(kind in block.type for block in here)
        limit = known.get(kind, Limit())
        if limit.max is None and count:
            known[kind] = Limit(limit.min, max(count, limit.min, 1))
    for kind, limit in known.items():
        if limit.min:
            found[f"Min{kind}"] = limit.min
        if limit.max is not None:
            found[f"Max{kind}"] = limit.max
    return found


def _capability(sheet: Sheet, systems: str, limits: Json, zones: list[str]) -> Json:
    place = sheet.put(sheet.own(f"{systems}/Capabilities"), "ComputerSystem", "Capabilities", {
        "@Redfish.ResourceBlockLimits": limits,
        "Name@Redfish.RequiredOnCreate": True,
        "Links@Redfish.RequiredOnCreate": True,
        "Links": {"ResourceBlocks@Redfish.RequiredOnCreate": True},
    })  # fmt: skip
    related = {"RelatedItem": links(zones)} if zones else {}
    return {
        "CapabilitiesObject": link(place),
        "UseCase": "ComputerSystemComposition",
        "Links": {"TargetCollection": link(systems), **related},
    }
