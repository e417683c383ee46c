# SPDX-License-Identifier: Apache-2.0
"""Readings of live pod managers: who is meant, what they say, and what was known of the silent."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from valence_sched.core import plugins
from valence_sched.drivers.crawl import pool as driver
from valence_sched.drivers.crawl.pool import Reading, ReadSettings, ReadTarget
from valence_sched.errors import CredentialError, PluginError, StoreError, UnknownName
from valence_sched.inventory.members import Member, select_members
from valence_sched.inventory.registry import Registry
from valence_sched.model.age import age_s
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_url import EndpointKey, endpoint_key, is_unencrypted
from valence_sched.model.read_options import ReadOptions
from valence_sched.model.registration import AUTO, Registration

if TYPE_CHECKING:
    from valence_sched.store.store import Store

Now = Callable[[], datetime.datetime]
LiveProgress = Callable[[int, int, str], None]
MemberTarget = tuple[Member, ReadTarget | Reading]
BATCH_SIZE = 50  # readings that the state remembers in one go


class LiveReader:
    """Every live pod manager that a command is about, read once, in the order of the registry.

    ``progress`` is told how many were read, of how many, and who holds up the others.
    ``reported`` are the names of those that nobody registered and that report by themselves: they
    come last, as they told. ``remarks`` gets a line when the state could not remember what was
    read, and for each password of a file that anybody on the way can read. With ``raw`` readings
    carry their documents.
    """

    def __init__(
        self,
        registry: Registry,
        live: ReadOptions,
        *,
        now: Now,
        cache: Path | None = None,
        progress: LiveProgress | None = None,
        raw: bool = False,
    ) -> None:
        self._registry, self._live, self._now, self._raw = registry, live, now, raw
        every = registry.all_members(live)
        self.reporting_names = self._find_reporting({member.registration.name for member in every})
        self.members = select_members(every, live.only, self.reporting_names)
        self.reporting_names = [
            name for name in self.reporting_names if not live.only or name in live.only
        ]
        self._uses_state = any(member.uses_state for member in self.members)
        self._cache = cache if self._uses_state else None
        self._progress = progress or (lambda _read, _every, _slowest: None)
        self._slowest = ""
        self._dialects = plugins.load(plugins.DIALECTS)
        self._store_failed = False
        self.remarks = [
            f"{one.name}: its password goes to {one.url} in the clear"
            for one, file, _ in self.members
            if one.password is not None and is_unencrypted(one.url) and file != registry.where
        ]

    def __bool__(self) -> bool:
        return bool(self.members or self.reporting_names)

    @property
    def stored_names(self) -> frozenset[str]:
        """Return the names of those that the state remembers."""
        members = {member.registration.name for member in self.members if member.uses_state}
        return frozenset(members.union(self.reporting_names))

    def _find_reporting(self, registered: Collection[str]) -> list[str]:
        """Return the names of those that report by themselves, and are not registered."""
        live, registry = self._live, self._registry
        if live.catalogue is not None or not registry.uses_state(live) or registry.empty:
            return []
        with registry.store() as store:
            return [name for name in store.reported_stats() if name not in registered]

    def passwords(self) -> list[str]:
        """Return every password that is there, so that no record shows it."""
        found = []
        for member in self.members:
            with contextlib.suppress(CredentialError):  # told when it is needed
                found.append(self._registry.password(member.registration))
        return [password for password in found if password]

    def __iter__(self) -> Iterator[Reading]:
        """Yield a reading of each; what could not be read has what was known of it last."""
        asked = self._targets()
        targets = [one for one in asked if isinstance(one, ReadTarget)]
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(self._registry.store()) if self._uses_state else None
            answers = stack.enter_context(contextlib.closing(self._answers(targets)))
            for some in _batches(zip(self.members, asked, strict=True)):
                read = [(member, self._reading(member, one, answers)) for member, one in some]
                kept = [reading.podm for member, reading in read
                        if member.uses_state and reading.failure is None]  # fmt: skip
                known = self._remember(kept, store)
                for member, reading in read:
                    if reading.failure is None:
                        podm = known.get(reading.podm.id, reading.podm)
                    else:
                        mine = store if member.uses_state else None
                        podm = self._last_known(member.registration, reading.podm, mine)
                    yield dataclasses.replace(reading, podm=podm)
        if self.reporting_names:
            with self._registry.store() as store:
                told = store.load_podms(self.reporting_names)
            yield from (Reading(told[name]) for name in self.reporting_names if name in told)

    def _reading(
        self, member: Member, one: ReadTarget | Reading, answers: Iterator[Reading]
    ) -> Reading:
        self._slowest = member.registration.name
        return next(answers) if isinstance(one, ReadTarget) else one

    def _targets(self) -> list[ReadTarget | Reading]:
        """Return of each member whom to ask, or why nobody can be.

        Of several names for one address only the first is asked: what is there could else be
        handed out once for each.
        """
        names: dict[EndpointKey, str] = {}
        asked: list[ReadTarget | Reading] = []
        for one, *_ in self.members:
            found = self._target(one)
            if isinstance(found, ReadTarget):
                name = names.setdefault(endpoint_key(one.url), one.name)
                if name != one.name:
                    words = f"{one.url}: is read as {name!r} already (take one of them out)"
                    found = Reading(_podm_of_registration(one), words)
            asked.append(found)
        return asked

    def _target(self, one: Registration) -> ReadTarget | Reading:
        """Return whom to ask, or why nobody can be."""
        try:
            if one.driver != AUTO:
                self._dialects.get(one.driver)
            return ReadTarget(one, self._registry.password(one))
        except (CredentialError, PluginError, UnknownName) as error:
            return Reading(_podm_of_registration(one), str(error))

    def _answers(self, targets: Sequence[ReadTarget]) -> Generator[Reading, None, None]:
        """Yield what came of reading targets, in their order."""
        settings = ReadSettings(
            timeout_s=self._live.timeout_s,
            parallel=self._live.parallel,
            full=self._live.full,
            cache=self._cache,
            raw=self._raw,
        )

        def tell(read: int, every: int) -> None:
            self._progress(read, every, self._slowest if read < every else "")

        if targets:
            tell(0, len(targets))
            yield from driver.read(targets, self._dialects.by_name, settings, tell)

    def _remember(self, podms: Sequence[FullPodm], store: Store | None) -> dict[str, FullPodm]:
        """Return podms as the state knows them from now on, by name, as far as it does."""
        if store is None or self._store_failed:
            return {}
        try:
            told = store.upsert_all(podms)
        except StoreError as error:
            self._store_failed = True
            self.remarks.append(f"what was read is not remembered: {error}")
            return {}
        self.remarks += [f"what was read is not remembered: {error}"
                         for error in told if isinstance(error, StoreError)]  # fmt: skip
        return {podm.id: podm for podm in told if not isinstance(podm, StoreError)}

    def _last_known(self, one: Registration, podm: FullPodm, store: Store | None) -> FullPodm:
        """Return what was known of a podm last, as it is now; too old, it hands nothing out."""
        known = store.load_podms([one.name]).get(one.name) if store else None
        if known is None:
            return msgspec.structs.replace(podm, read_at=None)
        limit, age = self._live.max_age_s, age_s(known.read_at, self._now())
        if limit is not None and (age is None or age > limit):
            return msgspec.structs.replace(podm, read_at=known.read_at)
        return msgspec.structs.replace(
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


def _batches(asked: Iterable[MemberTarget]) -> Iterator[list[MemberTarget]]:
    """Yield as many at once as the state is to remember in one go."""
    rest = iter(asked)
    while some := list(itertools.islice(rest, BATCH_SIZE)):
        yield some


def _podm_of_registration(one: Registration) -> FullPodm:
    """Return a podm of which only the registry is known."""
    return FullPodm(
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
