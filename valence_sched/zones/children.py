# SPDX-License-Identifier: Apache-2.0
"""Children: the zones directly below this one, as its decisions see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone_registry import ZoneOverview
from valence_sched.zones.merge import PLAIN, Weighting

FAILURES = 3  # in a row, after which a child is not active
INTERVALS = 3  # after which what a child told of itself has expired


@dataclass(frozen=True)
class ChildRow:
    """A child zone that may be asked: how it is reached, and what it told of itself.

    ``reason`` is why it is not active, empty where it is. Without ``capabilities`` for a key it
    may have any. ``password`` is a reference, which :mod:`valence_sched.config.credentials`
    resolves.
    """

    name: str
    url: str
    username: str | None = None
    password: PasswordReference | None = None
    cacert: str | None = None
    weighting: Weighting = PLAIN
    is_active: bool = False
    capabilities: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""


class Children:
    """The enabled child zones of a state, read each time they are asked for.

    ``zones`` lists those of the state; they are polled every ``interval_s``.
    """

    def __init__(self, zones: Callable[[], Sequence[ZoneOverview]], interval_s: float) -> None:
        self._zones, self._interval_s = zones, interval_s

    def enabled(self) -> Sequence[ChildRow]:
        """Return the enabled ones by name; StoreError where the state cannot be read."""
        return [_row(one, self._interval_s) for one in self._zones() if one.registration.enabled]


def _row(zone: ZoneOverview, interval_s: float) -> ChildRow:
    one, report = zone.registration, zone.report
    return ChildRow(
        name=one.name,
        url=one.url,
        username=one.username,
        password=one.password,
        cacert=one.cacert,
        weighting=Weighting(one.weight_scale, one.weight_offset),
        is_active=report.is_active,
        capabilities=current_capabilities(zone, interval_s),
        reason="" if report.is_active else report.reason,
    )


def current_capabilities(zone: ZoneOverview, interval_s: float) -> Mapping[str, tuple[str, ...]]:
    """Return the capabilities that a child told, none once they have expired."""
    info, age_s = zone.report.info, zone.heard_age_s
    if info is None or age_s is None or age_s > INTERVALS * interval_s:
        return {}
    return info.capabilities
