# SPDX-License-Identifier: Apache-2.0
"""The capabilities that a simulated pod manager states: required properties, limits, zones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from valence_sched.model.quantity import format_count
from valence_sched.simulator.redfish.blocks import ROOT, zones
from valence_sched.simulator.server.documents import DocumentTree, Json, uri_of, uris, value_at
from valence_sched.simulator.server.errors import RequestRefused

SPECIFIC = "ComputerSystemComposition"
CONSTRAINED = "ComputerSystemConstrainedComposition"


class SimulatedCapability(NamedTuple):
    """One way to compose: for what, in which zones (none means all), to which collection."""

    use_case: str
    zones: tuple[str, ...]
    target: str
    object: Json


def capabilities(documents: DocumentTree) -> list[SimulatedCapability]:
    """Return the capabilities that collections and zones state."""
    root = documents.get(ROOT)
    service = documents.get(uri_of(value_at(root, "CompositionService")))
    holders = [
        uri_of(link)
        for link in (
            value_at(root, "Systems"),
            value_at(root, "ResourceBlocks"),
            value_at(service, "ResourceBlocks"),
            value_at(service, "ResourceZones"),
        )
    ]
    found = [one for uri in holders for one in _stated(documents, uri, ())]
    for uri, _, _ in zones(documents):
        found += _stated(documents, uri, (uri,))
    return found


def _stated(
    documents: DocumentTree, holder: str, zone: tuple[str, ...]
) -> Iterator[SimulatedCapability]:
    stated = value_at(documents.get(holder), "@Redfish.CollectionCapabilities", "Capabilities")
    for json in stated if isinstance(stated, list) else []:
        related = zone or tuple(uris(value_at(json, "Links", "RelatedItem")))
        target = uri_of(value_at(json, "Links", "TargetCollection"))
        document = documents.get(uri_of(value_at(json, "CapabilitiesObject"))) or {}
        yield SimulatedCapability(str(value_at(json, "UseCase")), related, target, document)


def check_required(every: Iterable[SimulatedCapability], use_case: str, body: Json) -> None:
    """Refuse a body without a property that all capabilities of a use case require."""
    objects = [one.object for one in every if one.use_case == use_case]
    required = [set(_required(json)) for json in objects]
    for name in sorted(set.intersection(*required)) if required else []:
        if name not in body:
            text = f"The property {name} is required to compose a system."
            raise RequestRefused(400, "CreateFailedMissingReqProperties", text, name)


def limit_violation(
    every: Iterable[SimulatedCapability], zone: str, kinds: Iterable[Iterable[str]]
) -> str:
    """Return the fault of the number of blocks of a type in a zone, empty for none."""
    counts: dict[str, int] = {}
    for types in kinds:
        for kind in map(str, types):
            counts[kind] = counts.get(kind, 0) + 1
    for one in every:
        if one.use_case not in (SPECIFIC, CONSTRAINED) or (one.zones and zone not in one.zones):
            continue
        for name, limit in _limits(one.object):
            count = counts.get(name[3:], 0)
            if (name[:3] == "Max" and count > limit) or (name[:3] == "Min" and count < limit):
                return f"{format_count(count, 'block')} of type {name[3:]}, and {name} is {limit}"
    return ""


def _limits(json: Json) -> Iterator[tuple[str, int]]:
    stated: Any = json.get("@Redfish.ResourceBlockLimits") or {}
    for limits in stated if isinstance(stated, list) else [stated]:
        for name, limit in limits.items() if isinstance(limits, dict) else ():
            if name[:3] in ("Min", "Max") and isinstance(limit, int):
                yield name, limit


def _required(json: Json) -> Iterator[str]:
    for key, value in json.items():
        name, mark, annotation = key.partition("@Redfish.")
        if name and mark and annotation == "RequiredOnCreate" and value is True:
            yield name
