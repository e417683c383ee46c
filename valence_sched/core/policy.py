# SPDX-License-Identifier: Apache-2.0
"""A policy bound to its plugins: every name resolved, every option checked."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np

from valence_sched.core import plugins
from valence_sched.errors import InputError, suggest
from valence_sched.model.codec import convert
from valence_sched.model.need import Alternative, Need
from valence_sched.model.policy import FilterUse, Policy, WeigherUse, WeightOverrides
from valence_sched.model.request import Request
from valence_sched.view.view import Floats, Ints, Mask, View

NO_OVERRIDES = WeightOverrides()
UnknownRule = Literal["reject", "allow"]
WEIGHT_UNITS = 1000  # weights count in thousandths, so that costs are whole numbers


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """A filter with its options filled in."""

    name: str
    evaluate: Callable[[View, Request], Mask]
    terms: Callable[[View, Request], Any] | None


@dataclass(frozen=True, slots=True)
class BoundWeigher:
    """A weigher with its options filled in and its weight in thousandths."""

    name: str
    weight: int
    evaluate: Callable[[View, Request], Floats]
    overrides: WeightOverrides = NO_OVERRIDES

    @property
    def heaviest(self) -> int:
        """Return the largest weight that it has anywhere."""
        if not self.overrides:
            return self.weight
        use = WeigherUse(self.name, self.weight / WEIGHT_UNITS, overrides=self.overrides)
        return round(use.max_weight * WEIGHT_UNITS)

    def weights(self, view: View) -> Ints:
        """Return its weight per row, by the aggregates and the zone of the pod manager."""
        by_zone = {name: round(w * WEIGHT_UNITS) for name, w in self.overrides.zone.items()}
        zones = [by_zone.get(zone, self.weight) for zone in view.zone.values]
        found: Ints = np.array(zones, dtype=np.int64)[view.zone.codes]
        by_name = self.overrides.aggregate
        told = [
            [by_name[name] for name in has if name in by_name] for has in view.aggregates.values
        ]
        if any(told):
            least = [round(min(some) * WEIGHT_UNITS) if some else -1 for some in told]
            ours = np.array(least, dtype=np.int64)[view.aggregates.codes]
            found = np.where(ours < 0, found, ours)
        return found


@dataclass(frozen=True)
class BoundPolicy:
    """A policy whose plugins are at hand, but for the ``idle`` filters: they keep everything."""

    policy: Policy
    filters: tuple[BoundFilter, ...]
    weighers: tuple[BoundWeigher, ...]
    idle_filters: frozenset[str] = frozenset()

    @property
    def filter_names(self) -> list[str]:
        """Return the names of all filters in order, idle ones included."""
        return [use.name for use in (self.policy.filters if self.idle_filters else self.filters)]

    @functools.cached_property
    def worst_cost(self) -> int:
        """Return the largest cost a pool can have."""
        return sum(weigher.heaviest for weigher in self.weighers)

    @functools.cached_property
    def weights_vary(self) -> bool:
        """Return whether any weight depends on the aggregate or the zone."""
        return any(weigher.overrides for weigher in self.weighers)


def bind(policy: Policy, file: str = "policy") -> BoundPolicy:
    """Resolve a policy's names and check its options.

    Raises:
        UnknownName: no such filter, weigher or scheduler; the nearest is named.
        InputError: an option the plugin does not have, or of the wrong type, or one plugin twice.
    """
    where = f"{file}: policy {policy.name!r}"
    plugins.load(plugins.SCHEDULERS).get(policy.scheduler, where)
    for kind, uses in (("filter", policy.filters), ("weigher", policy.weighers)):
        names = [use.name for use in uses]
        if twice := [name for name in names if names.count(name) > 1]:
            hint = "answers go by its name: leave one out"
            raise InputError(where, "", f"{kind} {twice[0]!r} twice", "it once", hint)
    weighers = policy.weighers
    if policy.unknown == "penalise" and all(use.name != "known" for use in weighers):
        weight = max(1.0, 2 * sum(use.max_weight for use in weighers))
        weighers = (*weighers, WeigherUse("known", min(1000.0, weight)))
    return BoundPolicy(
        policy=policy,
        filters=tuple(_bind_filter(use, where) for use in policy.filters),
        weighers=tuple(_bind_weigher(use, where) for use in weighers),
    )


def _bind_filter(use: FilterUse, where: str) -> BoundFilter:
    function = plugins.load(plugins.FILTERS).get(use.name, where)
    given = _check_options(function, use.name, use.options, where)
    explain = getattr(function, "terms", None)
    return BoundFilter(
        use.name,
        functools.partial(function, **given),
        functools.partial(explain, **given) if explain else None,
    )


def _bind_weigher(use: WeigherUse, where: str) -> BoundWeigher:
    function = plugins.load(plugins.WEIGHERS).get(use.name, where)
    given = _check_options(function, use.name, use.options, where)
    return BoundWeigher(
        use.name,
        round(use.weight * WEIGHT_UNITS),
        functools.partial(function, **given),
        use.overrides,
    )


def _check_options(
    function: Callable[..., Any], name: str, given: dict[str, Any], where: str
) -> dict[str, Any]:
    known = plugins.options(function)
    hints = _hints(function)
    checked = {}
    for option, value in given.items():
        place = f"option {option!r} of {name!r}"
        if option not in known:
            raise InputError(where, place, "no such option", hint=suggest(option, known))
        hint = hints.get(option, Any)
        checked[option] = convert(value, hint, where, place)
    return checked


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a plugin's options; of names that only type checkers see, none."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class RequestReader:
    """Which plugin reads some words of a request; ``instead``, those that will do as well."""

    kind: Literal["filter", "weigher"]
    name: str
    value: Callable[[Request], object]
    instead: tuple[str, ...] = ()


REQUEST_READERS = (
    RequestReader("filter", "target", lambda request: request.podms or request.exclude_podms),
    RequestReader("filter", "zone", lambda request: request.zone),
    RequestReader("filter", "location", lambda request: request.locations),
    RequestReader("filter", "aggregates", lambda request: request.aggregates),
    RequestReader("filter", "capabilities", lambda request: request.capabilities),
    RequestReader("filter", "traits", lambda request: request.traits),
    RequestReader("filter", "attributes", lambda request: request.attributes),
    RequestReader("filter", "json", lambda request: request.where is not None),
    RequestReader("filter", "near", lambda request: any(not near.soft for near in request.near)),
    RequestReader("filter", "spread", lambda request: request.group and request.group.hard),
    RequestReader("weigher", "near", lambda request: any(near.soft for near in request.near)),
    RequestReader("weigher", "affinity", lambda request: request.group and request.group.soft),
    RequestReader("weigher", "owner", lambda request: request.owner, instead=("isolation",)),
)


def missing_readers(request: Request, bound: BoundPolicy) -> list[RequestReader]:
    """Return whom a request needs to read it and the policy does not have."""
    asked = [reader for reader in REQUEST_READERS if reader.value(request)]
    if not asked:
        return asked
    filters = {use.name for use in bound.filters}
    names = {"filter": filters, "weigher": {use.name for use in bound.weighers}}
    return [
        reader
        for reader in asked
        if reader.name not in names[reader.kind] and filters.isdisjoint(reader.instead)
    ]


def idle_readers(request: Request) -> frozenset[RequestReader]:
    """Return the readers that a request gives nothing to do."""
    return frozenset([reader for reader in REQUEST_READERS if not reader.value(request)])


def without_readers(bound: BoundPolicy, readers: frozenset[RequestReader]) -> BoundPolicy:
    """Return the policy as it decides when some readers have nothing to do.

    The filters among them keep everything, and the weighers take no part.
    """
    filters = frozenset(reader.name for reader in readers if reader.kind == "filter")
    weighers = {reader.name for reader in readers if reader.kind == "weigher"}
    return replace(
        bound,
        filters=tuple(use for use in bound.filters if use.name not in filters),
        weighers=tuple(use for use in bound.weighers if use.name not in weighers),
        idle_filters=filters,
    )


def resolve_unknown(request: Request, policy: Policy) -> Request:
    """Return the request as a policy reads it: what an unknown attribute means is settled.

    Anew where another policy has settled it before, as in a request from a report.
    """
    unknown: UnknownRule = "reject" if policy.unknown == "reject" else "allow"
    if {need.unknown for ask in request.alternatives for need in ask.needs} <= {unknown}:
        return request
    fallbacks = tuple(
        Alternative(_with_unknown(ask.needs, unknown), ask.bonds) for ask in request.fallbacks
    )
    needs = _with_unknown(request.needs, unknown)
    return msgspec.structs.replace(request, needs=needs, fallbacks=fallbacks)


def _with_unknown(needs: tuple[Need, ...], unknown: UnknownRule) -> tuple[Need, ...]:
    return tuple(msgspec.structs.replace(need, unknown=unknown) for need in needs)
