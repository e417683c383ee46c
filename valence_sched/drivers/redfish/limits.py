# SPDX-License-Identifier: Apache-2.0
"""The minimum and maximum number of blocks of each type in one node, for each zone.

A composed node is booted as one system, so the sum of two servers is not one server: where a pod
manager states no maximum for blocks that are a whole compute unit, one is assumed, unless the
operator says otherwise or the pod manager has composed a system of several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from valence_sched.drivers.fields import Field, Json, Resource, number
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.model.inventory import SINGLE_PER_NODE, BlockType, Limit
from valence_sched.model.quantity import format_count

Limits = dict[BlockType, Limit]

_FIELDS: dict[BlockType, tuple[Field[int | None], Field[int | None]]] = {
    kind: (
        Field(f"Min{kind}", number, "least of this type in a node", "blocks"),
        Field(f"Max{kind}", number, "most of this type in a node", "blocks"),
    )
    for kind in get_args(BlockType)
}


class LimitsByZone:
    """The limits that the capabilities of a pod manager state, for each of its zones.

    ``joined`` is the largest number of blocks of a type that a composed system has, ``zones`` are
    the URIs of the zones.
    """

    def __init__(
        self,
        service: LinkedDocuments,
        collections: Iterable[schema.Collection],
        joined: Mapping[BlockType, int],
        zones: set[str],
    ) -> None:
        self._service, self._joined = service, joined
        self._noted: set[BlockType] = set()
        # The zones that they apply to, none for all, and the limits.
        self._stated = [
            (_zones_of(service, capability, zones), limits)
            for holder in collections
            for capability, limits in _stated_limits(service, holder, holder.capabilities)
        ]

    def of(self, zone: schema.Zone | None, blocks: Mapping[BlockType, int]) -> Limits:
        """Return the limits of a zone, or of a pod manager without zones; the strictest win.

        ``blocks`` is how many blocks of each type it has.
        """
        found: Limits = {}
        for zones, limits in self._stated:
            if not zones or (zone and zone.uri in zones):
                _tighten(found, limits)
        if zone:
            for _, limits in _stated_limits(self._service, zone, zone.capabilities):
                _tighten(found, limits)
        for kind in SINGLE_PER_NODE:
            least = found[kind].min if kind in found else 0
            if kind not in found or found[kind].max is None:
                found[kind] = Limit(least, max(self._assume(kind, blocks), least))
        return found

    def _assume(self, kind: BlockType, blocks: Mapping[BlockType, int]) -> int:
        if kind in self._service.max_blocks:
            return self._service.max_blocks[kind]
        joined = self._joined.get(kind, 0)
        if joined < 2 or blocks.get(kind, 0) < 2:
            return 1
        if kind not in self._noted:
            self._noted.add(kind)
            size = format_count(joined, f"{kind} block")
            what = f"found a composed system of {size} and no maximum of them"
            self._service.notes.remark(f"{what} (assumed: at most {joined} in a node)")
        return joined


def _zones_of(
    service: LinkedDocuments, capability: schema.CollectionCapability, zones: set[str]
) -> set[str]:
    """Return what a capability applies to, none for all; that none of it is a zone is noted."""
    found = set(service.uris(capability.zones, capability.uri))
    if found and zones.isdisjoint(found):
        path = schema.CollectionCapability.zones.path
        what = f"found {', '.join(sorted(found))}, expected a zone of resource blocks"
        service.notes.remark(f"{capability.uri}: {path}: {what} (its limits apply to none)")
    return found


def _stated_limits(
    service: LinkedDocuments, holder: Resource, capabilities: Iterable[Json]
) -> Iterator[tuple[schema.CollectionCapability, Limits]]:
    for json in capabilities:
        capability = holder.part(
            schema.CollectionCapability, json, "@Redfish.CollectionCapabilities"
        )
        if not capability.leads:
            continue
        for document in service.follow(capability.object, schema.CapabilitiesObject, holder.uri):
            for limits in document.limits:
                yield capability, _read(document, limits)


def _read(document: schema.CapabilitiesObject, limits: Json) -> Limits:
    part = document.part(Resource, limits, "@Redfish.ResourceBlockLimits")
    found: Limits = {}
    for kind, (least, most) in _FIELDS.items():
        limit = Limit(least.of(part) or 0, most.of(part))
        if limit != Limit():
            found[kind] = limit
    return found


def _tighten(found: Limits, limits: Limits) -> None:
    for kind, limit in limits.items():
        old = found.get(kind, Limit())
        tops = [top for top in (old.max, limit.max) if top is not None]
        found[kind] = Limit(max(old.min, limit.min), min(tops, default=None))
