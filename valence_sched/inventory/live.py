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
from valence_sched.drivers.crawl.pool import Reading, Settings, Target
from valence_sched.errors import CredentialError, PluginError, StoreError, UnknownName
from valence_sched.inventory.members import AUTO, Member, only
from valence_sched.inventory.registry import Registry
from valence_sched.model.age import age_s
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_url import Place, in_the_clear, place
from valence_sched.model.read_options import Live
from valence_sched.model.registration import Registered

if TYPE_CHECKING:
    from valence_sched.store.store import Store

Now = Callable[[], datetime.datetime]
Progress = Callable[[int, int, str], None]
Asked = tuple[Member, Target | Reading]
TOGETHER = 50  # readings that the state remembers in one go


class Readings:
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
        live: Live,
        *,
        now: Now,
        cache: Path | None = None,
        progress: Progress | None = None,
        raw: bool = False,
    ) -> None:
        self._registry, self._live, self._now, self._raw = registry, live, now, raw
        every = registry.every(live)
        self.reported = self._reporting({member.registered.name for member in every})
        self.members = only(every, live.only, self.reported)
        self.reported = [name for name in self.reported if not live.only or name in live.only]
        self._keeps = any(member.kept for member in self.members)
        self._cache = cache if self._keeps else None
        self._progress = progress or (lambda _read, _every, _slowest: None)
        self._awaited = ""
        self._dialects = plugins.installed(plugins.DIALECTS)
        self._forgets = False
        self.remarks = [
            f"{one.name}: its password goes to {one.url} in the clear"
            for one, file, _ in self.members
            if one.password is not None and in_the_clear(one.url) and file != registry.where
        ]

    def __bool__(self) -> bool:
        return bool(self.members or self.reported)

    @property
    def kept(self) -> frozenset[str]:
        """Return the names of those that the state remembers."""
        members = {member.registered.name for member in self.members if member.kept}
        return frozenset(members.union(self.reported))

    def _reporting(self, registered: Collection[str]) -> list[str]:
        """Return the names of those that report by themselves, and are not registered."""
        live, registry = self._live, self._registry
        if live.catalogue is not None or not registry.uses_state(live) or registry.empty:
            return []
        with registry.store() as store:
            return [name for name in store.reported() if name not in registered]

    def passwords(self) -> list[str]:
        """Return every password that is there, so that no record shows it."""
        found = []
        for member in self.members:
            with contextlib.suppress(CredentialError):  # told when it is needed
                found.append(self._registry.password(member.registered))
        return [password for password in found if password]

    def __iter__(self) -> Iterator[Reading]:
        """Yield a reading of each; what could not be read has what was known of it last."""
        asked = self._asked()
        targets = [one for one in asked if isinstance(one, Target)]
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(self._registry.store()) if self._keeps else None
            answers = stack.enter_context(contextlib.closing(self._answers(targets)))
            for some in _together(zip(self.members, asked, strict=True)):
                read = [(member, self._reading(member, one, answers)) for member, one in some]
                kept = [reading.podm for member, reading in read
                        if member.kept and reading.failure is None]  # fmt: skip
                known = self._remembered(kept, store)
                for member, reading in read:
                    if reading.failure is None:
                        podm = known.get(reading.podm.id, reading.podm)
                    else:
                        mine = store if member.kept else None
                        podm = self._last(member.registered, reading.podm, mine)
                    yield dataclasses.replace(reading, podm=podm)
        if self.reported:
            with self._registry.store() as store:
                told = store.last(self.reported)
            yield from (Reading(told[name]) for name in self.reported if name in told)

    def _reading(
        self, member: Member, one: Target | Reading, answers: Iterator[Reading]
    ) -> Reading:
        self._awaited = member.registered.name
        return next(answers) if isinstance(one, Target) else one

    def _asked(self) -> list[Target | Reading]:
        """Return of each member whom to ask, or why nobody can be.

        Of several names for one address only the first is asked: what is there could else be
        handed out once for each.
        """
        names: dict[Place, str] = {}
        asked: list[Target | Reading] = []
        for one, *_ in self.members:
            found = self._target(one)
            if isinstance(found, Target):
                name = names.setdefault(place(one.url), one.name)
                if name != one.name:
                    words = f"{one.url}: is read as {name!r} already (take one of them out)"
                    found = Reading(_silent(one), words)
            asked.append(found)
        return asked

    def _target(self, one: Registered) -> Target | Reading:
        """Return whom to ask, or why nobody can be."""
        try:
            if one.driver != AUTO:
                self._dialects.get(one.driver)
            return Target(one, self._registry.password(one))
        except (CredentialError, PluginError, UnknownName) as error:
            return Reading(_silent(one), str(error))

    def _answers(self, targets: Sequence[Target]) -> Generator[Reading, None, None]:
        """Yield what came of reading targets, in their order."""
        settings = Settings(
            timeout_s=self._live.timeout_s,
            parallel=self._live.parallel,
            full=self._live.full,
            cache=self._cache,
            raw=self._raw,
        )

        def tell(read: int, every: int) -> None:
            self._progress(read, every, self._awaited if read < every else "")

        if targets:
            tell(0, len(targets))
            yield from driver.read(targets, self._dialects.found, settings, tell)

    def _remembered(self, podms: Sequence[FullPodm], store: Store | None) -> dict[str, FullPodm]:
        """Return podms as the state knows them from now on, by name, as far as it does."""
        if store is None or self._forgets:
            return {}
        try:
            told = store.known_all(podms)
        except StoreError as error:
            self._forgets = True
            self.remarks.append(f"what was read is not remembered: {error}")
            return {}
        self.remarks += [f"what was read is not remembered: {error}"
                         for error in told if isinstance(error, StoreError)]  # fmt: skip
        return {podm.id: podm for podm in told if not isinstance(podm, StoreError)}

    def _last(self, one: Registered, podm: FullPodm, store: Store | None) -> FullPodm:
        """Return what was known of a podm last, as it is now; too old, it hands nothing out."""
        known = store.last([one.name]).get(one.name) if store else None
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


def _together(asked: Iterable[Asked]) -> Iterator[list[Asked]]:
    """Yield as many at once as the state is to remember in one go."""
    rest = iter(asked)
    while some := list(itertools.islice(rest, TOGETHER)):
        yield some


def _silent(one: Registered) -> FullPodm:
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
