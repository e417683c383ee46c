# SPDX-License-Identifier: Apache-2.0
"""The rule for which hardware counts: what ``Status`` means for a block, a system or a device.

The worse of ``Health`` and ``HealthRollup`` holds. Critical never counts, nor does hardware in a
state that is not one of those below; Warning counts, and a policy can be stricter. A block or a
system whose parts are Critical counts without them, where it is known which they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from valence_sched.drivers.fields import Field, NamedResource
from valence_sched.drivers.redfish.device_schema import Device, DriveDevice
from valence_sched.model.inventory import Health

#: What each word of ``Status.State`` (Redfish schema Resource) means: hardware in it counts (None),
#: counts as of health Warning, or does not count.
STATES: dict[str, str | None] = {
    "Enabled": None,
    "Qualified": None,  # "quality within the acceptable range of operation"
    "Degraded": "Warning",  # "enabled but operates in a degraded state"
    "Absent": "Absent",  # "not present or detected": of a device there is nothing to list
    "Disabled": "Disabled",
    "StandbyOffline": "StandbyOffline",  # "awaits an external action to activate it"
    "StandbySpare": "StandbySpare",  # "part of a redundancy set, awaits a failover"
    "InTest": "InTest",
    "Starting": "Starting",
    "UnavailableOffline": "UnavailableOffline",  # "present but cannot be used"
    "Deferring": "Deferring",  # "does not process any commands but queues new requests"
    "Quiesced": "Quiesced",  # "only processes a restricted set of commands"
    "Updating": "Updating",  # "might be unavailable or degraded"
}
_SPELLED = {word.casefold(): word for word in STATES}
_HEALTH: tuple[Health | None, ...] = (None, "OK", "Warning", "Critical")
#: Values of ``Drive.HotspareType`` with which a drive waits for another one to fail.
_SPARE = ("global", "chassis", "dedicated")
_INDICATORS = {"fail": "Critical", "predictivefailureanalysis": "Warning"}


class Condition(NamedTuple):
    """The state of hardware, None where it is usable, and its health, None where it is not told."""

    state: str | None = None
    health: Health | None = None

    @property
    def counts(self) -> bool:
        return self.state is None and self.health != "Critical"

    @property
    def is_fine(self) -> bool:
        return self.state is None and self.health in (None, "OK")

    @property
    def word(self) -> str | None:
        """The word of a state that is more than ``Disabled``, which needs none."""
        return None if self.state == "Disabled" else self.state


def condition_of(of: NamedResource, *, with_parts: bool = True) -> Condition:
    """Return the condition of a resource without a note; that of its parts counts, too.

    Without parts their health counts only where the resource does not tell its own.
    """
    word = of.state
    state = STATES[_SPELLED[word.casefold()]] if word and word.casefold() in _SPELLED else word
    health = _health(of, NamedResource.health)
    if with_parts or health is None:
        health = max(health, _health(of, NamedResource.rollup), key=_HEALTH.index)
    if state == "Warning":
        state, health = None, max(health, "Warning", key=_HEALTH.index)
    if isinstance(of, Device):
        if state is None and of.enabled is False:
            state = "Disabled"
        if isinstance(of, DriveDevice):
            state, health = _drive_condition(of, state, health)
    return Condition(state, health)


def _health(of: NamedResource, field: Field[str | None]) -> Health | None:
    """Return a health; a word that Redfish does not have is noted and taken for Warning."""
    found: Health | None = field.of(of)  # type: ignore[assignment]
    return "Warning" if found is None and field.raw(of) else found


def _drive_condition(
    drive: DriveDevice, state: str | None, health: Health | None
) -> tuple[str | None, Health | None]:
    indicator = (drive.indicator or "").casefold()
    is_spare = (drive.hot_spare or "").casefold() in _SPARE or indicator == "hotspare"
    told: list[Health | None] = [health, "Warning" if drive.failure_predicted else None]
    told.append(_INDICATORS.get(indicator))  # type: ignore[arg-type]
    return state or ("StandbySpare" if is_spare else None), max(told, key=_HEALTH.index)


def note_condition(of: NamedResource, condition: Condition, effect: str) -> None:
    """Note hardware that does not count, or counts although something is wrong with it."""
    if condition.is_fine:
        return
    found = " and ".join(filter(None, condition))
    known = "" if condition.state in (None, *STATES) else ", which Redfish does not know"
    if condition.counts:
        effect = "it counts, unless a policy is stricter"
    of.notes.remark(f"{of.uri}: Status: found {found}{known}, expected Enabled and OK ({effect})")


def worst(conditions: Iterable[Condition]) -> Condition:
    """Return the state of the first that is in one, and the worst health of all."""
    every = list(conditions)
    state = next((it.state for it in every if it.state), None)
    return Condition(state, max((it.health for it in every), key=_HEALTH.index, default=None))
