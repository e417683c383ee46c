# SPDX-License-Identifier: Apache-2.0
"""External resources (volumes, ports, networks) that a node should stand near, and their places."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from valence_sched.errors import RequestError, UnknownName, closest
from valence_sched.model.base import Fact, Noun
from valence_sched.model.request import Proximity


class ExternalResource(Noun, frozen=True):
    """An external resource by kind and name: ``volume``, ``db-1``; ``soft``: a preference."""

    kind: str
    name: str
    soft: bool = False

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


class Place(Noun, frozen=True, kw_only=True):
    """The place of an external resource, as far as it is known: its zone, aggregates and facts."""

    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}

    def __bool__(self) -> bool:
        return bool(self.zone or self.aggregates or self.facts)

    def for_resource(self, resource: ExternalResource) -> Proximity:
        place = msgspec.structs.asdict(self)
        return Proximity(thing=resource.text, soft=resource.soft, **place)


class Resolver(Protocol):
    """Finds the places of external resources in one source."""

    @property
    def where(self) -> str:
        """Return the name of the source, for the message about an unknown resource."""

    def find(self, kind: str, name: str) -> Place | None:
        """Return the place of a resource; empty if the source has none, None if it is unknown.

        Raises:
            CloudError: the cloud cannot be asked.
        """

    def known(self, kind: str) -> Iterable[str]:
        """Return the names of resources of a kind that are at hand, for the hint; or none."""

    def kinds(self) -> Iterable[str]:
        """Return the kinds of resources that the source has."""


def external_resources(
    names_by_kind: Mapping[str, str | Iterable[str]], *, soft: bool = False
) -> tuple[ExternalResource, ...]:
    """Return the resources of a map from kinds to names; RequestError if any of them is empty."""
    resources = tuple(
        ExternalResource(kind, name, soft)
        for kind, names in names_by_kind.items()
        for name in ([names] if isinstance(names, str) else names)
    )
    if not all(resource.kind and resource.name for resource in resources):
        raise RequestError("a thing to be near needs a kind and a name, as in volume: db-1")
    return resources


def is_known(resolvers: Sequence[Resolver], resource: ExternalResource) -> bool:
    """Return whether any resolver knows the resource, with or without a place."""
    return any(resolver.find(resource.kind, resource.name) is not None for resolver in resolvers)


def resolve_resource(resource: ExternalResource, resolvers: Sequence[Resolver]) -> Proximity:
    """Return the place of a resource, from the first resolver that knows it.

    Raises:
        UnknownName: no resolver knows it; the message has the nearest known name or kind.
        RequestError: its place is unknown, or there is no resolver.
    """
    for resolver in resolvers:
        place = resolver.find(resource.kind, resource.name)
        if place:
            return place.for_resource(resource)
        if place is not None:
            raise RequestError(f"{resolver.where} knows {resource.text} but does not tell where it "
                               "is: say so in a map and name it with --near-map")  # fmt: skip
    if not resolvers:
        raise RequestError(f"nobody is there to ask where {resource.text} is: "
                           "name a map with --near-map")  # fmt: skip
    sources = ", ".join(resolver.where for resolver in resolvers)
    kinds = {kind for resolver in resolvers for kind in resolver.kinds()}
    if resource.kind not in kinds and closest(resource.kind, kinds) is not None:
        raise UnknownName("kind of thing", resource.kind, kinds, f"looked in {sources}")
    names = {name for resolver in resolvers for name in resolver.known(resource.kind)}
    raise UnknownName(resource.kind, resource.name, names, f"looked in {sources}")
