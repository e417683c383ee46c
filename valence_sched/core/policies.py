# SPDX-License-Identifier: Apache-2.0
"""A policy bound to its plugins: every name resolved, every option checked."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from valence_sched.core import plugins
from valence_sched.errors import InputError, nearest
from valence_sched.model.documents import convert
from valence_sched.model.need import Ask, Need
from valence_sched.model.policy import FilterUse, Policy, WeigherUse
from valence_sched.model.request import Request
from valence_sched.model.view import Floats, Mask, View

WEIGHT_UNITS = 1000  # weights count in thousandths, so that costs are whole numbers


@dataclass(frozen=True, slots=True)
class BoundFilter:
    """A filter with its options filled in."""

    name: str
    judge: Callable[[View, Request], Mask]
    terms: Callable[[View, Request], Any] | None


@dataclass(frozen=True, slots=True)
class BoundWeigher:
    """A weigher with its options filled in and its weight in thousandths."""

    name: str
    weight: int
    judge: Callable[[View, Request], Floats]


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    """A policy whose plugins are at hand."""

    policy: Policy
    filters: tuple[BoundFilter, ...]
    weighers: tuple[BoundWeigher, ...]

    @property
    def worst(self) -> int:
        """Return the largest cost a pool can have."""
        return sum(weigher.weight for weigher in self.weighers)


def bind(policy: Policy, file: str = "policy") -> BoundPolicy:
    """Resolve a policy's names and check its options.

    Raises:
        UnknownName: no such filter, weigher or scheduler; the nearest is named.
        InputError: an option the plugin does not have, or of the wrong type.
    """
    where = f"{file}: policy {policy.name!r}"
    plugins.installed(plugins.SCHEDULERS).get(policy.scheduler, where)
    weighers = policy.weighers
    if policy.unknown == "penalise" and all(use.name != "known" for use in weighers):
        weight = max(1.0, 2 * sum(use.weight for use in weighers))
        weighers = (*weighers, WeigherUse("known", min(1000.0, weight)))
    return BoundPolicy(
        policy=policy,
        filters=tuple(_filter(use, where) for use in policy.filters),
        weighers=tuple(_weigher(use, where) for use in weighers),
    )


def _filter(use: FilterUse, where: str) -> BoundFilter:
    function = plugins.installed(plugins.FILTERS).get(use.name, where)
    given = _checked(function, use.name, use.options, where)
    explain = getattr(function, "terms", None)
    return BoundFilter(
        use.name,
        functools.partial(function, **given),
        functools.partial(explain, **given) if explain else None,
    )


def _weigher(use: WeigherUse, where: str) -> BoundWeigher:
    function = plugins.installed(plugins.WEIGHERS).get(use.name, where)
    given = _checked(function, use.name, use.options, where)
    return BoundWeigher(
        use.name, round(use.weight * WEIGHT_UNITS), functools.partial(function, **given)
    )


def _checked(
    function: Callable[..., Any], name: str, given: dict[str, Any], where: str
) -> dict[str, Any]:
    known = plugins.options(function)
    hints = _hints(function)
    checked = {}
    for option, value in given.items():
        place = f"option {option!r} of {name!r}"
        if option not in known:
            raise InputError(where, place, "no such option", hint=nearest(option, known))
        hint = hints.get(option, Any)
        checked[option] = convert(value, hint, where, place)
    return checked


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of a plugin's options; of names that only type checkers see, none."""
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:
        return {}


def unread(request: Request, bound: BoundPolicy) -> list[str]:
    """Return the filters that a request needs and the policy does not have."""
    asked = {
        "target": request.podms or request.exclude_podms,
        "zone": request.zone,
        "location": request.locations,
        "aggregates": request.aggregates,
        "capabilities": request.capabilities,
        "traits": request.traits,
        "attributes": request.attributes,
        "json": request.where is not None,
    }
    enabled = {use.name for use in bound.filters}
    return [name for name, words in asked.items() if words and name not in enabled]


def for_policy(request: Request, policy: Policy) -> Request:
    """Return the request as a policy reads it: what an unknown attribute means is settled."""
    if policy.unknown == "reject":
        return request
    fallbacks = tuple(Ask(_allowing(ask.needs), ask.bonds) for ask in request.fallbacks)
    return msgspec.structs.replace(request, needs=_allowing(request.needs), fallbacks=fallbacks)


def _allowing(needs: tuple[Need, ...]) -> tuple[Need, ...]:
    return tuple(msgspec.structs.replace(need, unknown="allow") for need in needs)
