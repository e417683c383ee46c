# SPDX-License-Identifier: Apache-2.0
"""Stored reader: the live pod managers that a command applies to, as the state knows them.

None of them is read: a background reader, or another command, has stored them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from valence_sched.drivers.crawl.reading import Reading
from valence_sched.inventory.members import (
    Member,
    last_known_podm,
    podm_of_registration,
    select_members,
)
from valence_sched.inventory.registry import Registry
from valence_sched.model.inventory import FullPodm, Podm
from valence_sched.model.reading import ReadFailure, ReadOptions
from valence_sched.model.registration import Registration
from valence_sched.model.stats import Stats
from valence_sched.store.snapshot import ReportedSwitch

P = TypeVar("P", bound=Podm[Any, Any])


class StoredMembers(NamedTuple):
    """The pod managers that a command applies to: registered ones, and names that only report."""

    members: list[Member]
    reporting: list[str]


def stored_members(
    registry: Registry, live: ReadOptions, reported: Collection[str]
) -> StoredMembers:
    """Return what a command applies to; ``reported`` are the names that the state has reports of.

    Errors as for members, UnknownName for a name of ``live.only`` that is neither.
    """
    every = registry.all_members(live)
    registered = {member.registration.name for member in every}
    alone = [] if live.catalogue is not None or not registry.uses_state(live) else reported
    reporting = [name for name in sorted(alone) if name not in registered]
    chosen = [name for name in reporting if not live.only or name in live.only]
    return StoredMembers(select_members(every, live.only, reporting), chosen)


def stored_podm(
    one: Registration,
    known: P | None,
    failure: ReadFailure | None,
    report: ReportedSwitch | None,
    kind: type[P],
    limit_s: float | None,
    now: datetime.datetime,
) -> tuple[P, str | None]:
    """Return a registered podm as it is ``known``, and in one line why it is not read at present.

    It is as the live reader represents it: without blocks where it was never read, where a failure
    refuses what was, and where that is older than ``limit_s``. What it reported by itself wins.
    """
    if known is not None and failure is None:
        return _registered_podm(one, known, report), None
    podm = podm_of_registration(one, kind)
    if failure is None:
        return replace(podm, identity=one.identity), f"{one.url}: not read yet (podm watch)"
    if failure.refused:
        return podm, failure.reason
    podm = last_known_podm(one, replace(podm, status=failure.status), known, limit_s, now)
    # the line may be told long after it was worded: a time stays true, an age does not
    last = f"; last read {podm.read_at}" if podm.read_at else ""
    return podm, failure.reason + last


def _registered_podm(one: Registration, known: P, report: ReportedSwitch | None) -> P:
    """Return a podm with the properties of its registration, which may be newer than its reading.

    Of one that reports, only whether it is enabled: the rest counts with its next reading.
    """
    if report is not None:
        return replace(known, enabled=one.enabled if report.enabled is None else report.enabled)
    return replace(
        known,
        enabled=one.enabled,
        zone=one.zone or known.zone,
        aggregates=tuple(dict.fromkeys(one.aggregates + known.aggregates)),
        capabilities=known.capabilities | one.capabilities,
        traits=tuple(dict.fromkeys(one.traits + known.traits)),
        facts=known.facts | one.facts,
    )


class StoredReader:
    """Yields the pod managers of a state as the live reader does, without reading any of them."""

    def __init__(
        self, registry: Registry, live: ReadOptions, *, now: Callable[[], datetime.datetime]
    ) -> None:
        self._registry, self._live, self._now = registry, live, now
        reported: Collection[str] = ()
        if not registry.empty:
            with registry.store() as store:
                reported = store.reported_stats()
        self.members, self.reporting_names = stored_members(registry, live, reported)
        self.remarks: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.members or self.reporting_names)

    @property
    def stored_names(self) -> frozenset[str]:
        names = {member.registration.name for member in self.members}
        return frozenset(names.union(self.reporting_names))

    def __iter__(self) -> Iterator[Reading]:
        """Yield a reading of each; one that is not read at present has its last known state."""
        known: dict[str, FullPodm] = {}
        reports: dict[str, Stats] = {}
        failures: dict[str, ReadFailure] = {}
        if not self._registry.empty:
            with self._registry.store() as store:
                known, failures = store.load_podms(self.stored_names), store.failures()
                reports = store.reported_stats()
        now, limit_s = self._now(), self._live.max_age_s
        for one, *_ in self.members:
            name, stats = one.name, reports.get(one.name)
            report = None if stats is None else ReportedSwitch(stats.get("enabled"))
            stored = known.get(name), failures.get(name), report
            yield Reading(*stored_podm(one, *stored, FullPodm, limit_s, now))
        yield from (Reading(known[name]) for name in self.reporting_names if name in known)
