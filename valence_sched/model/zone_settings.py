# SPDX-License-Identifier: Apache-2.0
"""Zone settings: the name and the capabilities of this zone, and how it asks those below it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from valence_sched.errors import InputError
from valence_sched.model.base import Noun
from valence_sched.model.inventory import parse_capabilities
from valence_sched.model.registration import PasswordReference
from valence_sched.model.zone import ZoneName
from valence_sched.model.zone_depth import MOST_HOPS

if TYPE_CHECKING:
    from valence_sched.model.zone_registry import Capabilities

DEFAULT_NAME = "default"


class ZoneSettings(Noun, frozen=True, kw_only=True):
    """The settings of this zone.

    ``capabilities`` is ``key=value;value, key=value``: what its operator states of it and of all
    zones below it; a key that is not named may have any value. With ``enable_zone_routing`` child
    zones can be registered, are polled every ``poll_interval_s``, and are asked for what they
    offer: all of them have ``offer_deadline_s`` to answer, over at most ``most_hops`` levels.
    ``secrets`` sign the plans and offers of this zone, the newest last; every process of the zone
    has the same.
    """

    name: ZoneName = DEFAULT_NAME
    capabilities: str = ""
    enable_zone_routing: bool = False
    poll_interval_s: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    offer_deadline_s: Annotated[float, Meta(gt=0, le=600)] = 10.0
    most_hops: Annotated[int, Meta(ge=1, le=MOST_HOPS)] = MOST_HOPS
    secrets: tuple[PasswordReference, ...] = ()

    @property
    def capability_map(self) -> Capabilities:
        """Return the capabilities as a map; ValueError if their text does not parse."""
        return parse_capabilities(self.capabilities)


DEFAULT_ZONE_SETTINGS = ZoneSettings()


def check_zone_settings(settings: ZoneSettings, file: str, path: str = "$") -> None:
    """Raise InputError where the capabilities do not parse, or a secret has no source, or two."""
    if not settings.name.isprintable() or settings.name != settings.name.strip():
        raise InputError(file, f"{path}.name", repr(settings.name[:40]), "printable characters")
    try:
        _ = settings.capability_map
    except ValueError as error:
        raise InputError(file, f"{path}.capabilities", str(error), "key=value") from None
    for number, one in enumerate(settings.secrets):
        if one.stored or (one.env is None) == (one.file is None):
            where = f"{path}.secrets[{number}]"
            raise InputError(file, where, "no reference", "exactly one of env and file")
