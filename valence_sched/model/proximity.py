# SPDX-License-Identifier: Apache-2.0
"""External resources (volumes, ports, networks) that a node should stand near, and their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from valence_sched.errors import RequestError, UnknownName, closest
from valence_sched.model.base import Noun
from valence_sched.model.inventory import Fact
from valence_sched.model.request import Proximity


class ExternalResource(Noun, frozen=True):
    """What somebody calls a thing outside: ``volume``, ``db-1``; ``soft`` when only wished for."""

    kind: str
    name: str
    soft: bool = False

    @property
    def text(self) -> str:
        """Return the thing in an operator's words."""
        return f"{self.kind} {self.name}"


class Place(Noun, frozen=True, kw_only=True):
    """Where a thing is, as far as somebody told: its zone, its aggregates, its facts."""

    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}

    def __bool__(self) -> bool:
        return bool(self.zone or self.aggregates or self.facts)

    def for_resource(self, resource: ExternalResource) -> Proximity:
        """Return the place as a request holds it."""
        return Proximity(
            thing=resource.text,
            zone=self.zone,
            aggregates=self.aggregates,
            facts=self.facts,
            soft=resource.soft,
        )


class Resolver(Protocol):
    """What a resolver makes of a source: somebody who knows where things are."""

    @property
    def where(self) -> str:
        """Return what was looked in, for the person whose thing is not there."""
        ...

    def find(self, kind: str, name: str) -> Place | None:
        """Return where a thing is; an empty place when nobody tells, None for an unknown thing.

        Raises:
            CloudError: who should know cannot be asked.
        """
        ...

    def known(self, kind: str) -> Iterable[str]:
        """Return the names of things of a kind that are at hand, for the hint; or none."""
        ...

    def kinds(self) -> Iterable[str]:
        """Return the kinds of things that it knows of."""
        ...


def external_resources(
    names_by_kind: Mapping[str, str | Iterable[str]], *, soft: bool = False
) -> tuple[ExternalResource, ...]:
    """Return the things that a map from kind to a name, or to a list of names, speaks of.

    Raises:
        RequestError: a kind or a name is empty.
    """
    found = [
        ExternalResource(kind, name, soft)
        for kind, names in names_by_kind.items()
        for name in ([names] if isinstance(names, str) else names)
    ]
    for thing in found:
        if not thing.kind or not thing.name:
            raise RequestError("a thing to be near needs a kind and a name, as in volume: db-1")
    return tuple(found)


def is_known(resolvers: Sequence[Resolver], resource: ExternalResource) -> bool:
    """Return whether any of them knows the thing, were it without its place."""
    return any(one.find(resource.kind, resource.name) is not None for one in resolvers)


def resolve_resource(resource: ExternalResource, resolvers: Sequence[Resolver]) -> Proximity:
    """Return where a thing is, by the first who knows it.

    Raises:
        UnknownName: nobody knows it; the nearest known name, or kind, is in the message.
        RequestError: it is known, but not where it is, or nobody is there to ask.
    """
    for one in resolvers:
        place = one.find(resource.kind, resource.name)
        if place:
            return place.for_resource(resource)
        if place is not None:
            raise RequestError(f"{one.where} knows {resource.text} but does not tell where it is: "
                               "say so in a map and name it with --near-map")  # fmt: skip
    if not resolvers:
        raise RequestError(f"nobody is there to ask where {resource.text} is: "
                           "name a map with --near-map")  # fmt: skip
    looked = ", ".join(one.where for one in resolvers)
    kinds = {kind for one in resolvers for kind in one.kinds()}
    if resource.kind not in kinds and closest(resource.kind, kinds) is not None:
        raise UnknownName("kind of thing", resource.kind, kinds, f"looked in {looked}")
    names = {name for one in resolvers for name in one.known(resource.kind)}
    raise UnknownName(resource.kind, resource.name, names, f"looked in {looked}")
