# SPDX-License-Identifier: Apache-2.0
"""Request specs: requests as people write them, their compilation, and workloads of them."""

import datetime
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from valence_sched.errors import InputError, RequestError, UnknownName, closest, is_not
from valence_sched.model import expression, extra_specs
from valence_sched.model.base import Fact, Noun
from valence_sched.model.codec import decode
from valence_sched.model.flavor import Flavor, Properties, add_needs, compile_amounts
from valence_sched.model.inventory import capabilities_in, parse_capabilities
from valence_sched.model.need import NameRequirements, Proximity, Toleration
from valence_sched.model.quantity import as_number, parse_age
from valence_sched.model.request import MAX_ID, Group, Owner, Request

ExternalResourceNames = dict[str, str | tuple[str, ...]]
#: Seconds, or a duration as people write it.
Duration = (
    Annotated[float, Meta(ge=0, le=10**15)]
    | Annotated[str, Meta(pattern=r"^\s*[0-9]+(\.[0-9]+)?\s*[smhd]?\s*$")]
)
#: Seconds or a duration since a moment that all lines share, or a date and time.
Moment = Annotated[float, Meta(ge=0, le=10**15)] | Annotated[str, Meta(min_length=1)]
TIMES = ("arrival", "departure", "duration")
MOST_SECONDS = 1e15
MOST_RATE = 1e9  # requests per second
_SOURCE = re.compile(r"(?P<column>.+?)(?:(?P<operator>[*/])(?P<number>[0-9]+(?:\.[0-9]+)?))?")


class ExternalResource(Noun, frozen=True):
    """An external resource by kind and name (``volume``, ``db-1``); a preference if ``soft``."""

    kind: str
    name: str
    soft: bool = False

    @property
    def text(self) -> str:
        return f"{self.kind} {self.name}"


class Place(Noun, frozen=True, kw_only=True):
    """The known place of an external resource: its zone, aggregates and facts."""

    zone: str | None = None
    aggregates: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}

    def __bool__(self) -> bool:
        return bool(self.zone or self.aggregates or self.facts)


class Resolver(Protocol):
    """Finds the places of external resources in one source."""

    @property
    def where(self) -> str:
        """Return the name of the source, for the message about an unknown resource."""

    def find(self, kind: str, name: str) -> Place | None:
        """Return a place, empty if it is not known; None for an unknown resource; or CloudError."""

    def known(self, kind: str) -> Iterable[str]:
        """Return known names of resources of a kind, for the hint."""

    def kinds(self) -> Iterable[str]:
        """Return the kinds of resources that the source has."""


def resolve_resource(resource: ExternalResource, resolvers: Sequence[Resolver]) -> Proximity:
    """Return the place in the first resolver that has one; else UnknownName or RequestError."""
    for resolver in resolvers:
        place = resolver.find(resource.kind, resource.name)
        if place:
            found = msgspec.structs.asdict(place)
            return Proximity(thing=resource.text, soft=resource.soft, **found)
        if place is not None:
            text = f"{resolver.where} has {resource.text} without its place"
            raise RequestError(f"{text}: add it to a map, and give the map with --near-map")
    if not resolvers:
        raise RequestError(f"cannot locate {resource.text}: give a map with --near-map")
    sources = ", ".join(resolver.where for resolver in resolvers)
    kinds = {kind for resolver in resolvers for kind in resolver.kinds()}
    if resource.kind not in kinds and closest(resource.kind, kinds) is not None:
        raise UnknownName("kind of resource", resource.kind, kinds, f"looked in {sources}")
    names = {name for resolver in resolvers for name in resolver.known(resource.kind)}
    raise UnknownName(resource.kind, resource.name, names, f"looked in {sources}")


class RequestSpec(Noun, frozen=True, kw_only=True):
    """One request: a flavor by name or ``properties`` of its own, and further requirements.

    ``near`` and ``prefer_near`` name external resources by their kind: ``{volume: 9f2c}``. With
    ``min_count`` at least that many nodes are placed, else all ``count`` nodes or no node.
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
    tolerations: tuple[Toleration, ...] = ()
    owner: Owner | None = None
    group: Group | None = None
    policy: Annotated[str, Meta(min_length=1)] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        has_properties = self.properties is not None or self.first_of
        if (self.flavor is None) != bool(has_properties):
            raise ValueError("Expected a flavor, or else properties or first_of")

    @property
    def external_resources(self) -> tuple[ExternalResource, ...]:
        """Return the resources that it is near; RequestError without a kind or a name."""
        found = [
            ExternalResource(kind, name, soft)
            for names_by_kind, soft in ((self.near, False), (self.prefer_near, True))
            for kind, names in names_by_kind.items()
            for name in ([names] if isinstance(names, str) else names)
        ]
        if not all(resource.kind and resource.name for resource in found):
            raise RequestError("near: a resource needs a kind and a name, as in volume: db-1")
        return tuple(found)


class RequestFile(Noun, frozen=True, kw_only=True):
    """Several requests, each decided as if the nodes of the earlier requests were composed."""

    requests: Annotated[tuple[RequestSpec, ...], Meta(min_length=1, max_length=10_000)]


def compile_request(
    spec: RequestSpec, flavor: Flavor | None = None, near: tuple[Proximity, ...] = ()
) -> Request:
    """Return the request; attributes and capabilities of the spec override those of the flavor."""
    if flavor is None:
        own = spec.properties or Properties()
        flavor = Flavor(name=spec.id or "request", properties=own, first_of=spec.first_of)
    first, *other_alternatives = flavor.alternatives
    attributes = {extra_specs.qualify(name): text for name, text in spec.attributes.items()}
    others = {
        name: text
        for name, text in flavor.attributes.items()
        if extra_specs.qualify(name) not in attributes
    }
    group = spec.group
    if group is not None and not group.name:
        group = msgspec.structs.replace(group, name=flavor.name if spec.flavor else spec.id)
    both = [one for one in (flavor.where, spec.where) if one is not None]
    return Request(
        id=spec.id,
        flavor=flavor.name if spec.flavor else None,
        needs=first.needs,
        topology=first.topology,
        other_alternatives=tuple(other_alternatives),
        count=spec.count,
        min_count=spec.min_count,
        alternates=spec.alternates,
        podms=spec.podms,
        exclude_podms=spec.exclude_podms,
        zone=spec.zone or flavor.zone,
        aggregates=flavor.aggregate_names.plus(NameRequirements.of(spec.aggregates)),
        locations=spec.locations or flavor.locations,
        capabilities=flavor.capability_map | parse_capabilities(spec.capabilities),
        attributes=others | attributes,
        traits=flavor.traits.plus(spec.traits),
        where=["and", *both] if len(both) == 2 else next(iter(both), None),
        near=near,
        tolerations=(*dict.fromkeys(flavor.tolerations + spec.tolerations),),
        owner=spec.owner,
        group=group,
        policy=spec.policy or flavor.policy or "default",
        seed=spec.seed or 0,
    )


class WorkloadLine(RequestSpec, frozen=True, kw_only=True):
    """One request of a workload, its arrival, and the departure of its nodes.

    ``arrival`` defaults to the arrival of the previous line; 0 for the first line. Its nodes depart
    at ``departure`` or after ``duration``, else never.
    """

    arrival: Moment | None = None
    departure: Moment | None = None
    duration: Duration | None = None


class WorkloadEntry(Struct, frozen=True, gc=False):
    """One compiled request of a workload, with times in seconds; ``departure`` None means never."""

    arrival: float
    departure: float | None
    request: Request
    line: int


class TraceColumn(Noun, frozen=True, kw_only=True):
    """The column of a recorded trace for a field, and the factor of its numbers."""

    column: Annotated[str, Meta(min_length=1)]
    factor: Annotated[float, Meta(gt=0)] = 1.0


class TraceFile(Noun, frozen=True, kw_only=True):
    """The columns of a recorded trace for the fields of a workload.

    ``/1000`` or ``*60`` after a column converts its unit.
    """

    columns: Annotated[dict[str, str], Meta(min_length=1)]


def parse_trace_column(text: str) -> TraceColumn:
    """Parse ``creation_time``, ``cpu_milli/1000`` or ``minutes*60``; else ValueError."""
    match = _SOURCE.fullmatch(text.strip())
    if match is None:
        expected = "a column such as creation_time or cpu_milli/1000"
        raise ValueError(f"{text[:60]!r}, expected {expected}")
    number = float(match["number"] or 1)
    if not number:
        raise ValueError(f"{text[:60]!r}, expected a factor above 0")
    factor = 1.0 / number if match["operator"] == "/" else number
    return TraceColumn(column=match["column"], factor=factor)


def parse_duration(value: float | str) -> float:
    """Return the seconds of ``90``, ``30s``, ``2h`` or ``3d``; ValueError for other texts."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{str(value)[:40]!r}, expected a number of seconds")
    seconds = as_number(value)
    if math.isnan(seconds):
        try:
            return parse_age(str(value))
        except ValueError:
            shown = f"{str(value)[:40]!r}"
            raise ValueError(f"{shown}, expected a duration such as 90s, 2h or 3d") from None
    if not 0.0 <= seconds <= MOST_SECONDS:
        expected = "seconds from 0 on" if seconds < 0.0 else "a time"
        raise ValueError(f"{seconds:g}, expected {expected}")
    return seconds


def parse_moment(value: float | str) -> float:
    """Return the seconds of a number, a duration or a time (UTC); ValueError for others."""
    try:
        return parse_duration(value)
    except ValueError:  # most are numbers, which are read fastest
        if not isinstance(value, str) or len(value) < 8 or "-" not in value[1:]:
            raise
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        example = "2026-01-05T08:00:00Z"
        raise ValueError(f"{value[:40]!r}, expected a time such as 90s, 3d or {example}") from None
    zone = moment.tzinfo or datetime.UTC
    return moment.replace(tzinfo=zone).timestamp()


class SyntheticSpec(Noun, frozen=True, kw_only=True):
    """The parameters of a synthetic workload.

    On average ``rate_per_s`` requests arrive per second until ``horizon_s``; ``mix`` has the share
    of each flavor. Nodes live for ``lifetime_s`` on average, None: for ever.
    """

    rate_per_s: Annotated[float, Meta(gt=0)]
    mix: Annotated[dict[str, Annotated[float, Meta(gt=0)]], Meta(min_length=1)]
    horizon_s: Annotated[float, Meta(gt=0)]
    lifetime_s: Annotated[float, Meta(gt=0)] | None = None
    seed: Annotated[int, Meta(ge=0)] = 0


def parse_rate(text: str) -> float:
    """Parse ``10/h``, ``0.5/s`` or ``200/2d`` into requests per second above 0; else ValueError."""
    number, slash, period = text.strip().partition("/")
    try:
        seconds = parse_duration(period if period[:1].isdigit() else f"1{period}")
        rate = as_number(number) / seconds
    except (ValueError, ZeroDivisionError):
        rate = 0.0
    if not slash or not period or not 0.0 < rate <= MOST_RATE:
        raise ValueError(f"must be a rate such as 10/h or 0.5/s, got {text[:40]!r}")
    return rate


def parse_time_span(text: str) -> float:
    """Return the seconds of a duration above 0; else ValueError."""
    seconds = parse_duration(text)
    if not seconds:
        raise ValueError(f"{text[:40]!r}: must be above 0")
    return seconds


def with_resources(
    request: Request, properties: Mapping[str, Any], amounts: Mapping[str, float]
) -> Request:
    """Return a request with more properties and resource classes in every alternative."""
    needed = [msgspec.convert(properties, Properties)]
    needed += [compile_amounts(amounts)] if amounts else []
    more = tuple(need for one in needed for need in Flavor(name="shell", properties=one).needs)
    return request.with_needs(lambda needs: add_needs(needs, more))


def properties_of(properties: Mapping[str, Any], amounts: Mapping[str, float]) -> Properties:
    """Return properties with resource classes as one noun; RequestError for a total in both."""
    own, more = msgspec.convert(properties, Properties), compile_amounts(amounts)
    for name in ("processor", "memory"):
        if getattr(own, name) and getattr(more, name):
            raise RequestError(f"{name} is given twice: also as a resource class")
    return msgspec.structs.replace(
        more,
        processor=own.processor or more.processor,
        memory=own.memory or more.memory,
        accelerators=own.accelerators + more.accelerators,
        drives=own.drives + more.drives,
    )


def parse_conjunction(texts: Sequence[str], name: str) -> Any:
    """Return the conjunction of expressions in JSON, None for no text.

    InputError names the text by ``name``, and by its number if there are several.
    """
    conjuncts = []
    for number, text in enumerate(texts, 1):
        place = f"{name} {number}" if len(texts) > 1 else name
        try:
            value = decode(text.encode(errors="surrogateescape"), object, place)
        except InputError as error:
            hint = 'quote it for the shell, as in \'["=", "$zone", "east-1"]\''
            path, found = error.document_path, error.found
            raise InputError(place, path, found, error.expected, hint) from None
        expression.parse_expression(value, place)
        conjuncts.append(value)
    return ["and", *conjuncts] if len(conjuncts) > 1 else next(iter(conjuncts), None)


def parse_shares(text: str) -> dict[str, float]:
    """Parse ``FLAVOR=SHARE,FLAVOR=SHARE``; a flavor alone has a share of 1."""
    shares: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        share = as_number(number or "1")
        if not name or not 0.0 < share < math.inf or name in shares:
            raise is_not("FLAVOR=SHARE, as in gpu-large=1,small=3, each flavor once", part)
        shares[name] = share
    return shares


def check_syntax(noun: Flavor | RequestSpec, file: str, path: str) -> None:
    """Raise InputError for capabilities, attributes or an expression that cannot be parsed."""
    if isinstance(noun.capabilities, str):
        capabilities_in(noun.capabilities, file, path)
    for attribute, condition in noun.attributes.items():
        if problem := extra_specs.condition_problem(attribute, condition):
            raise InputError(file, f"{path}.attributes[{attribute!r}]", problem)
    if noun.where is not None:
        expression.parse_expression(noun.where, file, f"{path}.where")
