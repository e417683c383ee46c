# SPDX-License-Identifier: Apache-2.0
"""DecisionZones: which zones a decision came from, and which have no part in it."""

from msgspec import Struct


class SilentZone(Struct, frozen=True, kw_only=True):
    """A zone that has no part in an answer, and why: the answer may lack the best."""

    zone: str
    reason: str


class PlacementZone(Struct, frozen=True, kw_only=True):
    """The zones of one placement: the way down to each, empty for the zone that was asked."""

    node: int
    zone: str
    alternates: tuple[str, ...] = ()


class DecisionZones(Struct, frozen=True, kw_only=True):
    """The zones of a decision: ``answered`` of them had a part in it, the one asked included.

    The children were asked for offers in ``rounds``. ``silent`` zones were asked and did not
    answer, or could not be asked; ``excluded`` ones were not asked: their capabilities rule the
    request out.
    """

    answered: int
    rounds: int
    placements: tuple[PlacementZone, ...] = ()
    silent: tuple[SilentZone, ...] = ()
    excluded: tuple[SilentZone, ...] = ()
