# SPDX-License-Identifier: Apache-2.0
"""Flavors: named request templates, a superset of the Valence flavor."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.model.compile import compile_properties
from valence_sched.model.flavor_properties import Properties, Word
from valence_sched.model.inventory import capability_map
from valence_sched.model.need import Alternative, Need
from valence_sched.model.request import NameRequirements

MAX_ALTERNATIVES = 16  # alternatives of one flavor


class Flavor(Noun, frozen=True, kw_only=True):
    """A named request template.

    ``first_of`` are alternatives in the order in which they are tried, each with ``properties``
    added. ``aggregates`` as a plain list are all required. ``uuid`` is the flavor's id in another
    project. ``share`` is how often its nodes are requested relative to other flavors: the weigher
    ``fragmentation`` leaves room for this mix, in which a flavor of share 0 takes no part.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    uuid: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str = ""
    policy: Word | None = None
    share: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    properties: Properties = Properties()
    first_of: Annotated[tuple[Properties, ...], Meta(max_length=MAX_ALTERNATIVES)] = ()
    zone: Word | None = None
    aggregates: tuple[str, ...] | NameRequirements = ()
    locations: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: NameRequirements = NameRequirements()
    where: Any = None

    @property
    def capability_map(self) -> dict[str, tuple[str, ...]]:
        """Return the capabilities as a map; ValueError if their text does not parse."""
        return capability_map(self.capabilities)

    @property
    def aggregate_names(self) -> NameRequirements:
        """Return the aggregates that are required or forbidden, or of which one is required."""
        return NameRequirements.of(self.aggregates)

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Return the alternatives to make a node, in the order in which they are tried."""
        common = compile_properties(self.properties)
        others = [
            compile_properties(properties, preceding=self.properties)
            for properties in self.first_of
        ]
        return tuple(
            Alternative(common.needs + other.needs, common.bonds + other.bonds) for other in others
        ) or (common,)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return the needs of the first alternative, totals first."""
        return self.alternatives[0].needs
