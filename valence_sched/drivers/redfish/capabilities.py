# SPDX-License-Identifier: Apache-2.0
"""The compose capabilities of a Redfish service: targets, use cases and their rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from valence_sched.drivers.composer import Session, get_document
from valence_sched.drivers.fields import NO_NOTES, Field, Json, Resource, flag, text
from valence_sched.drivers.links import ROOT, link_path
from valence_sched.drivers.redfish.schema import (
    Collection,
    CollectionCapability,
    CompositionService,
    ServiceRoot,
)
from valence_sched.errors import PodmError


class UseCase(NamedTuple):
    """One way to create: what for, where to post, in which zones (none: in all), its rules."""

    name: str
    target: str
    zones: tuple[str, ...]
    rules: Json


class ComposeCapabilities(NamedTuple):
    """All ways of a service; ``systems`` is the collection of systems."""

    systems: str | None
    compose_target: str | None
    zone_affinity: bool
    use_cases: tuple[UseCase, ...]


class _CompositionServiceActions(Resource):
    compose = Field(
        "Actions/#CompositionService.Compose/target", text, "where manifests go; follow it as it is"
    )
    zone_affinity = Field("AllowZoneAffinity", flag, "whether a zone can be named by its Id")


class _TargetCollection(Resource):
    target = Field("Links/TargetCollection/@odata.id", text, "where to post")


def read_capabilities(session: Session) -> ComposeCapabilities:
    """Read the compose capabilities of a service.

    Raises:
        PodmError: the service root cannot be read.
    """
    root = ServiceRoot(ROOT, get_document(session, ROOT) or {}, NO_NOTES)
    service = next(_documents(session, root.composition), {})
    actions = _CompositionServiceActions(ROOT, service, NO_NOTES)
    systems = next(filter(None, (link_path(link) for link in root.systems)), None)
    cases: list[UseCase] = []
    parts = CompositionService(ROOT, service, NO_NOTES)
    for link in (*root.systems, *parts.blocks, *parts.zones):
        json = next(_documents(session, (link,)), {})
        cases += _use_cases(session, json, link_path(link) or "")
        if link in parts.zones:
            for zone in Collection(ROOT, json, NO_NOTES).members:
                held = _document_or_empty(session, zone)
                cases += [
                    case._replace(zones=(link_path(zone) or "",), target=systems or case.target)
                    for case in _use_cases(session, held, systems or "")
                ]
    return ComposeCapabilities(
        systems, link_path(actions.compose), bool(actions.zone_affinity), tuple(cases)
    )


def _documents(session: Session, links: Iterable[str]) -> Iterator[Json]:
    for link in links:
        json = get_document(session, link_path(link))
        if json is not None:
            yield json


def _document_or_empty(session: Session, link: str) -> Json:
    """Return the document behind a link, empty for one that cannot be read."""
    try:
        return get_document(session, link_path(link)) or {}
    except PodmError:
        return {}


def _use_cases(session: Session, json: Json, collection: str) -> Iterator[UseCase]:
    for stated in Collection(ROOT, json, NO_NOTES).capabilities:
        capability = CollectionCapability(ROOT, stated, NO_NOTES)
        rules = next(
            filter(None, (_document_or_empty(session, link) for link in capability.object)), None
        )
        if rules is not None:
            yield UseCase(
                capability.use_case or "",
                link_path(_TargetCollection(ROOT, stated, NO_NOTES).target) or collection,
                tuple(filter(None, (link_path(zone) for zone in capability.zones))),
                rules,
            )
