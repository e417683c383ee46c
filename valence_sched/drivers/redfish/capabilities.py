# SPDX-License-Identifier: Apache-2.0
"""What a Redfish service offers to compose with: where to post, by which rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from valence_sched.drivers.composer import Wire
from valence_sched.drivers.fields import Field, Json, Resource, flag, text
from valence_sched.drivers.links import ROOT, path_of
from valence_sched.drivers.redfish.schema import Capability, Collection, CompositionService, Root
from valence_sched.errors import PodmError

GONE = (404, 410)


class UseCase(NamedTuple):
    """One way to create: what for, where to post, in which zones (none: in all), its rules."""

    name: str
    target: str
    zones: tuple[str, ...]
    rules: Json


class Offered(NamedTuple):
    """All ways of a service; ``systems`` is the collection of systems."""

    systems: str | None
    compose_target: str | None
    zone_affinity: bool
    use_cases: tuple[UseCase, ...]


class _Actions(Resource):
    compose = Field(
        "Actions/#CompositionService.Compose/target", text, "where manifests go; follow it as it is"
    )
    zone_affinity = Field("AllowZoneAffinity", flag, "whether a zone can be named by its Id")


class _Target(Resource):
    target = Field("Links/TargetCollection/@odata.id", text, "where to post")


def offered(wire: Wire) -> Offered:
    """Read what a service offers.

    Raises:
        PodmError: the service root cannot be read.
    """
    root = Root(ROOT, document(wire, ROOT) or {}, unheard)
    service = next(_read(wire, root.composition), {})
    actions = _Actions(ROOT, service, unheard)
    systems = next(filter(None, (path(link) for link in root.systems)), None)
    cases: list[UseCase] = []
    parts = CompositionService(ROOT, service, unheard)
    for link in (*root.systems, *parts.blocks, *parts.zones):
        json = next(_read(wire, (link,)), {})
        cases += _use_cases(wire, json, path(link) or "")
        if link in parts.zones:
            for zone in Collection(ROOT, json, unheard).members:
                held = _tried(wire, zone)
                cases += [
                    case._replace(zones=(path(zone) or "",), target=systems or case.target)
                    for case in _use_cases(wire, held, systems or "")
                ]
    return Offered(systems, path(actions.compose), bool(actions.zone_affinity), tuple(cases))


def document(wire: Wire, uri: str | None) -> Json | None:
    """Return a document, None when there is none.

    Raises:
        PodmError: it cannot be read.
    """
    if not uri:
        return None
    reply = wire.get(uri)
    if reply.status in GONE:
        return None
    if reply.status != 200 or reply.body is None:
        raise PodmError(f"{uri}: HTTP {reply.status}, expected a document")
    return reply.body


def path(link: str | None) -> str | None:
    """Return the path of a link, whatever host it names; None for no link."""
    if not link:
        return None
    parts = urlsplit(link)
    return path_of(parts.path + (f"?{parts.query}" if parts.query else ""))


def unheard(_problem: str) -> None:
    """Take no note: what is doubtful was told when the inventory was read."""


def _read(wire: Wire, links: Iterable[str]) -> Iterator[Json]:
    """Yield the documents behind links, those that are there."""
    for link in links:
        json = document(wire, path(link))
        if json is not None:
            yield json


def _tried(wire: Wire, link: str) -> Json:
    """Return the document behind a link; one that is bad keeps nobody from the others."""
    try:
        return document(wire, path(link)) or {}
    except PodmError:
        return {}


def _use_cases(wire: Wire, json: Json, collection: str) -> Iterator[UseCase]:
    for stated in Collection(ROOT, json, unheard).capabilities:
        capability = Capability(ROOT, stated, unheard)
        rules = next(filter(None, (_tried(wire, link) for link in capability.object)), None)
        if rules is not None:
            yield UseCase(
                capability.use_case or "",
                path(_Target(ROOT, stated, unheard).target) or collection,
                tuple(filter(None, (path(zone) for zone in capability.zones))),
                rules,
            )
