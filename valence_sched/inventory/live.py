# SPDX-License-Identifier: Apache-2.0
"""Reads the live pod managers of a command, from the network or from the state."""

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.core import plugins
from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
from valence_sched.drivers.dialect import with_identity
from valence_sched.inventory.registry import Member, Registry, select_members
from valence_sched.model import podm_address
from valence_sched.model.diagnostic import Progress
from valence_sched.model.hardware import StatsReport
from valence_sched.model.inventory import FullPodm, Podm
from valence_sched.model.quantity import age_s, format_age
from valence_sched.model.reading import PreviousReading, ReadFailure, ReadOptions
from valence_sched.model.registration import AUTO, Registration, with_registration
from valence_sched.model.stats import ReportedSwitch

if TYPE_CHECKING:
    from valence_sched.store.store import Store

P = TypeVar("P", bound=Podm[Any, Any])
Now = Callable[[], datetime.datetime]
BATCH_SIZE = 50  # readings that the state stores in one transaction


class LiveReader:
    """Reads the live pod managers of a command, each once, in the order of the registry.

    With ``live.stored``, their stored readings are used. Pod managers that only report
    (``reporting_names``) come last. ``remarks`` has a line for each reading that the state could
    not store, and for each password of a file that is sent unencrypted. With ``raw`` each reading
    includes its Redfish documents.
    """

    def __init__(
        self,
        registry: Registry,
        live: ReadOptions,
        *,
        now: Now,
        cache: Path | None = None,
        progress: Progress | None = None,
        raw: bool = False,
    ) -> None:
        self._registry, self._live, self._now, self._raw = registry, live, now, raw
        self.members, self.reporting_names = _reporting_members(registry, live)
        self._uses_state = any(member.uses_state for member in self.members)
        self._cache = cache if self._uses_state else None
        self._progress = progress
        self._store_failed = False
        self._services: dict[Hashable, str] = {}
        self._other_names: set[str] = set()
        self.remarks = [
            f"{one.name}: its password is sent to {one.url} unencrypted"
            for one, file, _ in self.members
            if not live.stored
            and one.password is not None
            and podm_address.is_unencrypted(one.url)
            and file != registry.where
        ]

    def __bool__(self) -> bool:
        return bool(self.members or self.reporting_names)

    @property
    def stored_names(self) -> frozenset[str]:
        members = (one for one in self.members if one.uses_state or self._live.stored)
        return frozenset((*(one.registration.name for one in members), *self.reporting_names))

    def passwords(self) -> list[str]:
        """Return all known passwords, which a capture must not contain."""
        passwords = []
        for member in self.members:
            with contextlib.suppress(errors.CredentialError):  # raised again when it is needed
                if password := self._registry.password(member.registration):
                    passwords.append(password)
        return passwords

    def __iter__(self) -> Iterator[Reading]:
        """Yield the readings; a failed reading has the last known content of its pod manager."""
        yield from self._stored_readings() if self._live.stored else self._new_readings()
        if self.reporting_names:
            with self._registry.opened() as store:
                reported = store.load_podms(self.reporting_names)
            names = [name for name in self.reporting_names if name in reported]
            yield from (Reading(reported[name]) for name in names)

    def _stored_readings(self) -> Iterator[Reading]:
        known: dict[str, FullPodm] = {}
        reports: Mapping[str, StatsReport] = {}
        failures: dict[str, ReadFailure] = {}
        if not self._registry.empty:
            with self._registry.opened() as store:
                known, failures = store.load_podms(self.stored_names), store.failures()
                reports = store.reports()
        now, limit_s = self._now(), self._live.max_age_s
        for one, *_ in self.members:
            name, report = one.name, reports.get(one.name)
            switch = None if report is None else ReportedSwitch(report.stats.get("enabled"))
            stored = known.get(name), failures.get(name), switch
            yield Reading(*stored_podm(one, *stored, FullPodm, limit_s, now))

    def _new_readings(self) -> Iterator[Reading]:
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(self._registry.opened()) if self._uses_state else None
            member_targets = self._targets(store)
            targets = [target for target in member_targets if isinstance(target, ReadTarget)]
            answers = stack.enter_context(contextlib.closing(self._answers(targets)))
            rest = zip(self.members, member_targets, strict=True)
            while batch := list(itertools.islice(rest, BATCH_SIZE)):
                readings = []
                for member, target in batch:
                    reading = next(answers) if isinstance(target, ReadTarget) else target
                    readings.append((member, self._identified(reading)))
                whole = [both for both in readings if both[1].failure is None]
                podms = [reading.podm for member, reading in whole if member.uses_state]
                stored = self._remember(podms, store)
                for member, reading in readings:
                    one, found = member.registration, stored.get(reading.podm.id, reading.podm)
                    if isinstance(found, errors.IdentityConflict):
                        yield _refused(one, str(found))
                    elif reading.failure is None or reading.podm.id in self._other_names:
                        yield dataclasses.replace(reading, podm=found)
                    else:
                        known, limit_s = None, self._live.max_age_s
                        if store is not None and member.uses_state:
                            known = store.load_podms([one.name]).get(one.name)
                        podm = last_known_podm(one, reading.podm, known, limit_s, self._now())
                        failure, age = reading.failure, age_s(podm.read_at, self._now())
                        if age is not None:
                            failure += f"; last read {format_age(age)} ago"
                        yield dataclasses.replace(reading, podm=podm, failure=failure)

    def _targets(self, store: "Store | None") -> list[ReadTarget | Reading]:
        # read an endpoint only under its first name: otherwise each name would offer its blocks
        endpoints: dict[podm_address.EndpointKey, str] = {}
        targets: list[ReadTarget | Reading] = []
        names = [member.registration.name for member in self.members if member.uses_state]
        previous = store.previous_readings(names) if store else {}
        for one, *_ in self.members:
            try:
                if one.driver != AUTO:
                    plugins.load(plugins.DIALECTS).get(one.driver)
                password = self._registry.password(one)
            except (errors.CredentialError, errors.PluginError, errors.UnknownName) as error:
                targets.append(_refused(one, str(error)))
                continue
            name = endpoints.setdefault(podm_address.endpoint_key(one.url), one.name)
            if name == one.name:
                before = previous.get(name, PreviousReading())
                targets.append(ReadTarget(one, password, before))
            else:
                failure = f"{one.url}: is already read as {name!r} (remove one of them)"
                targets.append(self._other_name(one, failure))
        return targets

    def _identified(self, reading: Reading) -> Reading:
        """Return a reading with its identity; a failure if its service was read under another name.

        A service without a UUID at another port is the same service if its blocks are the same.
        """
        podm = with_identity(reading.podm)
        identity = podm.identity
        if reading.failure is not None or identity is None:
            return reading
        keys: list[Hashable] = [identity]
        if podm_address.is_address(identity) and podm.blocks:
            blocks = frozenset(block.uri for block in podm.blocks)
            keys.append((identity.rpartition(":")[0], blocks))  # without the port
        for key in keys:
            other = self._services.setdefault(key, podm.id)
            if other != podm.id:
                (one,) = [m.registration for m in self.members if m.registration.name == podm.id]
                return self._other_name(one, podm_address.conflict_text(podm.id, identity, other))
        return dataclasses.replace(reading, podm=podm)

    def _other_name(self, one: Registration, failure: str) -> Reading:
        self._other_names.add(one.name)
        return _refused(one, failure)

    def _answers(self, targets: Sequence[ReadTarget]) -> Generator[Reading, None, None]:
        live, cache = self._live, self._cache
        settings = ReadSettings(live.timeout_s, live.parallel, live.full, cache, raw=self._raw)
        if targets:
            from valence_sched.drivers.crawl import pool  # HTTP: not needed for stored readings

            dialects = plugins.load(plugins.DIALECTS).by_name
            yield from pool.read(targets, dialects, settings, self._progress)

    def _remember(
        self, podms: Sequence[FullPodm], store: "Store | None"
    ) -> dict[str, FullPodm | errors.IdentityConflict]:
        if store is None or self._store_failed:
            return {}
        try:
            results = store.upsert_all(podms)
        except errors.StoreError as error:
            self._store_failed = True
            self.remarks.append(f"reading not stored: {error}")
            return {}
        stored: dict[str, FullPodm | errors.IdentityConflict] = {}
        for podm, result in zip(podms, results, strict=True):
            if isinstance(result, errors.StoreError):
                self.remarks.append(f"reading not stored: {result}")
            else:
                stored[podm.id] = result
        return stored


def _refused(one: Registration, failure: str) -> Reading:
    return Reading(podm_of_registration(one, FullPodm), failure)


def podm_of_registration(one: Registration, kind: type[P]) -> P:
    driver = None if one.driver == AUTO else one.driver
    return with_registration(kind(id=one.name, url=one.url, driver=driver, status="Unknown"), one)


def last_known_podm(
    one: Registration, podm: P, known: P | None, limit_s: float | None, now: datetime.datetime
) -> P:
    """Return ``known`` with a failed reading's status; without blocks if older than ``limit_s``."""
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


class StoredMembers(NamedTuple):
    """The pod managers of a command: registered members, and names of those that only report."""

    members: list[Member]
    reporting: list[str]


def stored_members(
    registry: Registry, live: ReadOptions, reported: Collection[str]
) -> StoredMembers:
    """Return the pod managers of a command; UnknownName for an unknown name in ``live.only``."""
    every = registry.all_members(live)
    registered = {member.registration.name for member in every}
    alone = [] if live.catalogue is not None or not registry.uses_state(live) else reported
    reporting = [name for name in sorted(alone) if name not in registered]
    chosen = [name for name in reporting if not live.only or name in live.only]
    return StoredMembers(select_members(every, live.only, reporting), chosen)


def _reporting_members(registry: Registry, live: ReadOptions) -> StoredMembers:
    if live.catalogue is not None or not registry.uses_state(live):
        return stored_members(registry, live, ())
    return stored_members(registry, live, registry.reports())


def stored_podm(
    one: Registration,
    known: P | None,
    failure: ReadFailure | None,
    report: ReportedSwitch | None,
    kind: type[P],
    limit_s: float | None,
    now: datetime.datetime,
) -> tuple[P, str | None]:
    """Return a registered podm as the state has it, and the reason if its last reading failed.

    It has no blocks if it was never read, if the failure makes earlier readings invalid, or if the
    reading is older than ``limit_s``. For a pod manager that reports, ``enabled`` of its report
    applies now, and a changed registration at the next reading.
    """
    if known is not None and failure is None:
        if report is not None:
            enabled = one.enabled if report.enabled is None else report.enabled
            return replace(known, enabled=enabled), None
        return with_registration(known, one), None  # which may be newer than the reading
    podm = podm_of_registration(one, kind)
    if failure is None:
        return replace(podm, identity=one.identity), f"{one.url}: not read yet (podm watch)"
    if failure.refused:
        return podm, failure.reason
    podm = last_known_podm(one, replace(podm, status=failure.status), known, limit_s, now)
    # show a time, not an age: the line may be printed much later
    last = f"; last read {podm.read_at}" if podm.read_at else ""
    return podm, failure.reason + last
