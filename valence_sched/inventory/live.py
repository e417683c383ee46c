# SPDX-License-Identifier: Apache-2.0
"""Live reader: reads the live pod managers that a command applies to.

A pod manager that does not answer is represented by its last known state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable, Collection, Generator, Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from valence_sched.core import plugins
from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
from valence_sched.drivers.identity import with_identity
from valence_sched.errors import (
    CredentialError,
    IdentityConflict,
    PluginError,
    StoreError,
    UnknownName,
)
from valence_sched.inventory.members import (
    last_known_podm,
    podm_of_registration,
    select_members,
    with_age,
)
from valence_sched.inventory.registry import Registry
from valence_sched.model.diagnostic import Progress
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_address import (
    EndpointKey,
    address_of,
    conflict_text,
    endpoint_key,
    is_address,
    is_unencrypted,
)
from valence_sched.model.reading import PreviousReading, ReadOptions
from valence_sched.model.registration import AUTO, Registration

if TYPE_CHECKING:
    from valence_sched.store.store import Store

Now = Callable[[], datetime.datetime]
BATCH_SIZE = 50  # readings that the state stores at once


class LiveReader:
    """Reads each live pod manager that a command applies to once, in the order of the registry.

    ``progress`` is told how many were read, and who has not answered. ``reporting_names`` are the
    names of unregistered pod managers that report by themselves: they come last, as they reported.
    ``remarks`` gets a line when the state could not store a reading, and for each password of a
    file that is sent unencrypted. With ``raw`` readings carry their documents.
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
        members = registry.all_members(live)
        reporting = self._find_reporting({member.registration.name for member in members})
        self.members = select_members(members, live.only, reporting)
        self.reporting_names = [name for name in reporting if not live.only or name in live.only]
        self._uses_state = any(member.uses_state for member in self.members)
        self._cache = cache if self._uses_state else None
        self._progress = progress
        self._dialects = plugins.load(plugins.DIALECTS)
        self._store_failed = False
        self._services: dict[Hashable, str] = {}
        self._other_names: set[str] = set()
        self.remarks = [
            f"{one.name}: its password goes to {one.url} in the clear"
            for one, file, _ in self.members
            if one.password is not None and is_unencrypted(one.url) and file != registry.where
        ]

    def __bool__(self) -> bool:
        return bool(self.members or self.reporting_names)

    @property
    def stored_names(self) -> frozenset[str]:
        names = {member.registration.name for member in self.members if member.uses_state}
        return frozenset(names.union(self.reporting_names))

    def _find_reporting(self, registered: Collection[str]) -> list[str]:
        live, registry = self._live, self._registry
        if live.catalogue is not None or not registry.uses_state(live) or registry.empty:
            return []
        with registry.store() as store:
            return [name for name in store.reported_stats() if name not in registered]

    def passwords(self) -> list[str]:
        """Return all known passwords, so that no capture shows one."""
        passwords = []
        for member in self.members:
            with contextlib.suppress(CredentialError):  # raised when it is needed
                if password := self._registry.password(member.registration):
                    passwords.append(password)
        return passwords

    def __iter__(self) -> Iterator[Reading]:
        """Yield a reading of each; a failed one has the last known state of its pod manager."""
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(self._registry.store()) if self._uses_state else None
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
                    if isinstance(found, IdentityConflict):
                        yield _refused(one, str(found))
                    elif reading.failure is None or reading.podm.id in self._other_names:
                        yield dataclasses.replace(reading, podm=found)
                    else:
                        known, limit_s = None, self._live.max_age_s
                        if store is not None and member.uses_state:
                            known = store.load_podms([one.name]).get(one.name)
                        podm = last_known_podm(one, reading.podm, known, limit_s, self._now())
                        failure = with_age(reading.failure, podm.read_at, self._now())
                        yield dataclasses.replace(reading, podm=podm, failure=failure)
        if self.reporting_names:
            with self._registry.store() as store:
                reported = store.load_podms(self.reporting_names)
            names = [name for name in self.reporting_names if name in reported]
            yield from (Reading(reported[name]) for name in names)

    def _targets(self, store: Store | None) -> list[ReadTarget | Reading]:
        """Return the target of each member, or a failed reading where it cannot be read.

        Of several names for one endpoint only the first is read: its blocks could otherwise be
        composed once for each name.
        """
        endpoints: dict[EndpointKey, str] = {}
        targets: list[ReadTarget | Reading] = []
        names = [member.registration.name for member in self.members if member.uses_state]
        previous = store.previous_readings(names) if store else {}
        for one, *_ in self.members:
            target = self._target(one, previous.get(one.name, PreviousReading()))
            if isinstance(target, ReadTarget):
                name = endpoints.setdefault(endpoint_key(one.url), one.name)
                if name != one.name:
                    failure = f"{one.url}: is read as {name!r} already (take one of them out)"
                    target = self._other_name(one, failure)
            targets.append(target)
        return targets

    def _identified(self, reading: Reading) -> Reading:
        """Return a reading with its identity, a failed one where its service was read already.

        A service without a UUID is the same at another port if it has the very same blocks there.
        """
        podm = with_identity(reading.podm)
        identity = podm.identity
        if reading.failure is not None or identity is None:
            return reading
        keys: list[Hashable] = [identity]
        if is_address(identity) and podm.blocks:
            keys.append((address_of(identity), frozenset(block.uri for block in podm.blocks)))
        for key in keys:
            other = self._services.setdefault(key, podm.id)
            if other != podm.id:
                (one,) = [m.registration for m in self.members if m.registration.name == podm.id]
                return self._other_name(one, conflict_text(podm.id, identity, other))
        return dataclasses.replace(reading, podm=podm)

    def _other_name(self, one: Registration, failure: str) -> Reading:
        """Return the failed reading of another name of a service; no state is known under it."""
        self._other_names.add(one.name)
        return _refused(one, failure)

    def _target(self, one: Registration, previous: PreviousReading) -> ReadTarget | Reading:
        try:
            if one.driver != AUTO:
                self._dialects.get(one.driver)
            return ReadTarget(one, self._registry.password(one), previous)
        except (CredentialError, PluginError, UnknownName) as error:
            return _refused(one, str(error))

    def _answers(self, targets: Sequence[ReadTarget]) -> Generator[Reading, None, None]:
        live, cache = self._live, self._cache
        settings = ReadSettings(live.timeout_s, live.parallel, live.full, cache, raw=self._raw)
        if targets:
            yield from pool.read(targets, self._dialects.by_name, settings, self._progress)

    def _remember(
        self, podms: Sequence[FullPodm], store: Store | None
    ) -> dict[str, FullPodm | IdentityConflict]:
        """Store podms; return by name those that are stored, as the state has them now.

        A service that changed, or has another name, is returned as its error.
        """
        if store is None or self._store_failed:
            return {}
        try:
            results = store.upsert_all(podms)
        except StoreError as error:
            self._store_failed = True
            self.remarks.append(f"what was read is not remembered: {error}")
            return {}
        stored: dict[str, FullPodm | IdentityConflict] = {}
        for podm, result in zip(podms, results, strict=True):
            if isinstance(result, StoreError):
                self.remarks.append(f"what was read is not remembered: {result}")
            else:
                stored[podm.id] = result
        return stored


def _refused(one: Registration, failure: str) -> Reading:
    return Reading(podm_of_registration(one, FullPodm), failure)
