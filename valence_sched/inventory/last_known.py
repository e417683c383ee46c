# SPDX-License-Identifier: Apache-2.0
"""Last known state: a pod manager that cannot be read, as it was read last."""

from __future__ import annotations

import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from valence_sched.model.inventory import Podm
from valence_sched.model.quantity import age_s, format_age
from valence_sched.model.registration import AUTO, Registration

P = TypeVar("P", bound=Podm[Any, Any])


def podm_of_registration(one: Registration, kind: type[P]) -> P:
    """Return a podm with the fields of its registration, and nothing of its own."""
    return kind(
        id=one.name,
        url=one.url,
        driver=None if one.driver == AUTO else one.driver,
        status="Unknown",
        enabled=one.enabled,
        zone=one.zone,
        aggregates=one.aggregates,
        capabilities=one.capabilities,
        traits=one.traits,
        facts=one.facts,
    )


def last_known_podm(
    one: Registration, podm: P, known: P | None, limit_s: float | None, now: datetime.datetime
) -> P:
    """Return what was ``known`` of a podm with the status of ``podm``, its failed reading.

    One that was never read, or longer than ``limit_s`` ago, has no blocks.
    """
    if known is None:
        return replace(podm, identity=one.identity, read_at=None)
    age = age_s(known.read_at, now)
    if limit_s is not None and (age is None or age > limit_s):
        return replace(podm, read_at=known.read_at)
    return replace(
        known,
        url=one.url,
        status=podm.status,
        enabled=one.enabled,
        zone=podm.zone or known.zone,
        aggregates=podm.aggregates or known.aggregates,
        capabilities=known.capabilities | podm.capabilities,
        traits=podm.traits or known.traits,
        facts=known.facts | podm.facts,
    )


def with_age(failure: str, read_at: str | None, now: datetime.datetime) -> str:
    """Return why a podm could not be read, with the age of what is known of it."""
    age = age_s(read_at, now)
    return failure if age is None else f"{failure}; last read {format_age(age)} ago"
