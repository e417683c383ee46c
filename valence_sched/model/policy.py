# SPDX-License-Identifier: Apache-2.0
"""Policies: filters and weighers with weights and options, and how the winner is picked."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.model.need import Unknown

Weight = Annotated[float, Meta(ge=0, le=1000)]


class FilterUse(Noun, frozen=True):
    """A filter by name, with its options."""

    name: str
    options: dict[str, Any] = {}


class WeightOverrides(Noun, frozen=True):
    """Other weights by the aggregate or the zone of a pod manager; a name need not exist yet.

    Of several aggregates the smallest weight applies; an aggregate's weight overrides a zone's.
    """

    aggregate: dict[str, Weight] = {}
    zone: dict[str, Weight] = {}

    def __bool__(self) -> bool:
        return bool(self.aggregate or self.zone)


class WeigherUse(Noun, frozen=True):
    """A weigher by name, with its weight and its options."""

    name: str
    weight: Weight = 1.0
    options: dict[str, Any] = {}
    overrides: WeightOverrides = WeightOverrides()

    @property
    def max_weight(self) -> float:
        """Return the largest weight of the weigher on any pod manager."""
        others = (*self.overrides.aggregate.values(), *self.overrides.zone.values())
        return max((self.weight, *others))


class Pick(Noun, frozen=True):
    """Pick the best pool, or a random one of the ``best_of`` best, so that schedulers differ."""

    best_of: Annotated[int, Meta(ge=1, le=1000)] = 1


class Policy(Noun, frozen=True, kw_only=True):
    """A named list of filters and of weighted weighers, in the order in which they run."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    description: str = ""
    scheduler: str = "filter"
    filters: tuple[FilterUse, ...] = ()
    weighers: tuple[WeigherUse, ...] = ()
    pick: Pick = Pick()
    unknown: Unknown = "reject"


class PolicyText(Noun, frozen=True, kw_only=True):
    """A policy as people write it: a filter or weigher without options is just its name."""

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    description: str = ""
    scheduler: str = "filter"
    filters: tuple[str | FilterUse, ...] = ()
    weighers: tuple[str | WeigherUse, ...] = ()
    pick: Pick = Pick()
    unknown: Unknown = "reject"

    def policy(self) -> Policy:
        """Return the policy with every filter and weigher written out."""
        fields = msgspec.structs.asdict(self)
        fields["filters"] = tuple(
            FilterUse(use) if isinstance(use, str) else use for use in self.filters
        )
        fields["weighers"] = tuple(
            WeigherUse(use) if isinstance(use, str) else use for use in self.weighers
        )
        return Policy(**fields)
