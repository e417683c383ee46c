# SPDX-License-Identifier: Apache-2.0
"""Named request templates: a superset of the Valence flavor."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from valence_sched.model.base import Noun
from valence_sched.model.compile import ask_of
from valence_sched.model.flavor_properties import Properties, Word
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.need import Ask, Need
from valence_sched.model.request import Names

MAX_ASKS = 16  # alternatives of one flavor


class Flavor(Noun, frozen=True, kw_only=True):
    """A named request template.

    ``first_of`` are alternatives, each together with ``properties``, in the order in which they
    are tried. ``aggregates`` as a plain list are all required. ``uuid`` is what another project
    knows it by. ``share`` is how often its nodes are asked for beside those of other flavors: the
    mix that the weigher ``fragmentation`` leaves room for, in which 0 takes no part.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    uuid: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    description: str = ""
    policy: Word | None = None
    share: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    properties: Properties = Properties()
    first_of: Annotated[tuple[Properties, ...], Meta(max_length=MAX_ASKS)] = ()
    zone: Word | None = None
    aggregates: tuple[str, ...] | Names = ()
    locations: tuple[str, ...] = ()
    capabilities: str | dict[str, tuple[str, ...]] = {}
    attributes: dict[str, str] = {}
    traits: Names = Names()
    where: Any = None

    @property
    def wanted_capabilities(self) -> dict[str, tuple[str, ...]]:
        """Return the capabilities as a map; ValueError when their text does not parse."""
        if isinstance(self.capabilities, str):
            return parse_capabilities(self.capabilities)
        return self.capabilities

    @property
    def wanted_aggregates(self) -> Names:
        """Return the aggregates that are required, forbidden, or of which one must be."""
        if isinstance(self.aggregates, Names):
            return self.aggregates
        return Names(required=self.aggregates)

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Return the ways to make a node, the first that is tried at the front."""
        common = ask_of(self.properties)
        others = [ask_of(properties, after=self.properties) for properties in self.first_of]
        return tuple(
            Ask(common.needs + other.needs, common.bonds + other.bonds) for other in others
        ) or (common,)

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return what the first way to make a node compiles to, totals first."""
        return self.asks[0].needs
