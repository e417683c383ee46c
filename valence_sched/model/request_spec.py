# SPDX-License-Identifier: Apache-2.0
"""Request specs: requests as people write them, and how they compile to requests."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.model import extra_specs
from valence_sched.model.base import Noun
from valence_sched.model.flavor import Flavor, Properties
from valence_sched.model.group import Group
from valence_sched.model.inventory import capability_map
from valence_sched.model.request import MAX_ID, NameRequirements, Owner, Proximity, Request

ExternalResourceNames = dict[str, str | tuple[str, ...]]


class RequestSpec(Noun, frozen=True, kw_only=True):
    """One request: a flavor by name or ``properties`` of its own, and further requirements.

    ``near`` and ``prefer_near`` name external resources by their kind: ``{volume: 9f2c}``. With
    ``min_count`` fewer nodes may be placed, but at least so many; else all ``count`` or none.
    """

    id: Annotated[str, Meta(max_length=MAX_ID)] = ""
    flavor: str | None = None
    properties: Properties | None = None
    first_of: tuple[Properties, ...] = ()
    count: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    min_count: Annotated[int, Meta(ge=0, le=1_000_000)] | None = None
    alternates: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    podms: tuple[str, ...] = ()
    exclude_podms: tuple[str, ...] = ()
    zone: Annotated[str, Meta(min_length=1)] | None = None
    aggregates: tuple[str, ...] | NameRequirements = ()
    locations: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None
    near: ExternalResourceNames = {}
    prefer_near: ExternalResourceNames = {}
    owner: Owner | None = None
    group: Group | None = None
    policy: Annotated[str, Meta(min_length=1)] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        has_properties = self.properties is not None or self.first_of
        if (self.flavor is None) != bool(has_properties):
            raise ValueError("Expected a flavor, or else properties or first_of")


class RequestFile(Noun, frozen=True, kw_only=True):
    """Several requests, each decided as if the nodes of the earlier ones were composed."""

    requests: Annotated[tuple[RequestSpec, ...], Meta(min_length=1, max_length=10_000)]


def inline_flavor(spec: RequestSpec) -> Flavor:
    """Return a flavor of the request's own properties."""
    properties = spec.properties or Properties()
    return Flavor(name=spec.id or "request", properties=properties, first_of=spec.first_of)


def compile_request(spec: RequestSpec, flavor: Flavor, near: tuple[Proximity, ...] = ()) -> Request:
    """Return the compiled request: the requirements of the flavor and of the spec.

    The name requirements and the expressions of both must hold; attributes and capabilities of the
    spec override those of the flavor. A group without a name has that of the flavor.
    """
    first, *others = flavor.alternatives
    return Request(
        id=spec.id,
        flavor=flavor.name if spec.flavor else None,
        needs=first.needs,
        bonds=first.bonds,
        fallbacks=tuple(others),
        count=spec.count,
        min_count=spec.min_count,
        alternates=spec.alternates,
        podms=spec.podms,
        exclude_podms=spec.exclude_podms,
        zone=spec.zone or flavor.zone,
        aggregates=flavor.aggregate_names.plus(NameRequirements.of(spec.aggregates)),
        locations=spec.locations or flavor.locations,
        capabilities=flavor.capability_map | capability_map(spec.capabilities),
        attributes=_attributes(flavor.attributes, spec.attributes),
        traits=flavor.traits.plus(spec.traits),
        where=_conjunction(flavor.where, spec.where),
        near=near,
        owner=spec.owner,
        group=_group(spec.group, flavor.name if spec.flavor else spec.id),
        policy=spec.policy or flavor.policy or "default",
        seed=spec.seed or 0,
    )


def _group(group: Group | None, flavor: str) -> Group | None:
    if group is None or group.name:
        return group
    return msgspec.structs.replace(group, name=flavor)


def _attributes(flavor: dict[str, str], requested: dict[str, str]) -> dict[str, str]:
    qualified = {extra_specs.qualify(name): text for name, text in requested.items()}
    others = (name for name in flavor if extra_specs.qualify(name) not in qualified)
    return {name: flavor[name] for name in others} | qualified


def _conjunction(flavor: Any, requested: Any) -> Any:
    expressions = [expression for expression in (flavor, requested) if expression is not None]
    return ["and", *expressions] if len(expressions) == 2 else next(iter(expressions), None)
