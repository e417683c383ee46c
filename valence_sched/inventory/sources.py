# SPDX-License-Identifier: Apache-2.0
"""Sources: yields pod manager records from files, archives, plug-ins, stdin and live reading."""

from __future__ import annotations

import dataclasses
import datetime
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from valence_sched.config.settings import Configuration, Homes, split_plugin_name
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.errors import NoPodm, errors_at, one_line
from valence_sched.model.diagnostic import Diagnostics, NoProgress, Progress
from valence_sched.model.reading import ReadOptions, Selection

if TYPE_CHECKING:
    from valence_sched.inventory.background_reader import BackgroundReader, Events
    from valence_sched.inventory.events import EventListener
    from valence_sched.inventory.live import LiveReader
    from valence_sched.inventory.registry import Registry
    from valence_sched.inventory.stored import StoredReader
    from valence_sched.model.podm_address import EventAddress
    from valence_sched.model.reading import ReadPace
    from valence_sched.model.registration import Registration
    from valence_sched.store.store import Store

INVENTORY = "VALENCE_SCHED_INVENTORY"
Now = Callable[[], datetime.datetime]


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class SourceReader:
    """Reads the records of pod managers, and notes in ``diagnostics`` what is wrong with them.

    ``registry`` returns the registry of a state, by its URL or None for the usual one.
    ``progress`` is told how many are read so far, and of live ones which have not answered.

    The attributes are about the last reading: ``live_ids`` and ``read_ids`` are the ids of live
    pod managers and of those of them that were read in this run, ``unread_ids`` of those that
    could not be; ``stored_names`` are the names that the state knows.
    """

    def __init__(
        self,
        config: Configuration,
        diagnostics: Diagnostics,
        registry: Callable[[str | None], Registry],
        progress: Progress | None = None,
        now: Now | None = None,
    ) -> None:
        self.config, self.diagnostics, self.registry = config, diagnostics, registry
        self.progress: Progress = NoProgress() if progress is None else progress
        self.now = now or _utc_now
        self.live_ids: set[str] = set()
        self.read_ids: set[str] = set()
        self.unread_ids: set[str] = set()
        self.stored_names: frozenset[str] = frozenset()

    @property
    def reported_ids(self) -> set[str]:
        """Return the ids of pod managers that reported by themselves, and were not read."""
        return self.live_ids - self.read_ids

    def named_sources(self, selection: Selection) -> list[str]:
        """Return the inventories that are read: those named, else those of the environment."""
        sources = list(selection.sources)
        if not sources and not selection.live.selects_live:
            inventories = self.config.environ.get(INVENTORY, "")
            sources = inventories.split(os.pathsep)
        return [source for source in sources if source]

    def forget(self) -> None:
        # new ones: what follows a state keeps those that it has set
        self.unread_ids, self.live_ids, self.read_ids = set(), set(), set()
        self.stored_names = frozenset()

    def records(self, selection: Selection) -> Iterator[recorded.Record]:
        """Yield the podms of inventories, then the live ones.

        Live ones are read when the selection names some, and when it names no inventory.
        """
        self.forget()
        sources = self.named_sources(selection)
        variable = None if selection.sources else INVENTORY
        try:
            with errors_at(variable):
                for number, record in enumerate(self._recorded(sources, selection), 1):
                    self.progress.count_podms(number)
                    yield record
        finally:
            self.progress.end_count()
        if selection.live.selects_live or not sources:
            yield from self._live_records(selection.live, alone=not sources)

    def _recorded(self, sources: Sequence[str], selection: Selection) -> Iterator[recorded.Record]:
        for source in sources:
            stated = selection.stated.get(source)
            for record in self._of_source(source):
                yield record._replace(stated=stated) if stated else record

    def _of_source(self, source: str) -> Iterator[recorded.Record]:
        dialects = plugins.installed(plugins.DIALECTS)
        name, path = split_plugin_name(source)
        if not name:
            yield from recorded.records(source, self.config.input, self.diagnostics, dialects)
            return
        read = plugins.load(plugins.DRIVERS).get(name)
        with plugins.plugin_errors(f"driver {name!r}: {path}"):
            yield from read(path, self.config.input, self.diagnostics, dialects)

    def live_reader(self, live: ReadOptions, *, raw: bool = False) -> LiveReader:
        """Return the reader of the live pod managers that a command applies to.

        With ``raw`` readings carry their documents, which takes far more memory.
        """
        from valence_sched.inventory.live import LiveReader  # HTTP: only to read live ones

        return LiveReader(
            self.registry(live.state),
            live,
            now=self.now,
            cache=Homes(self.config.environ).cache,
            progress=self.progress,
            raw=raw,
        )

    def background_reader(
        self,
        live: ReadOptions,
        store: Store,
        pace: ReadPace,
        tell: Callable[[str], object],
        threads: int,
        *,
        lease_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        changed: Callable[[Sequence[str]], object] = lambda _names: None,
        address: EventAddress | None = None,
    ) -> BackgroundReader:
        """Return what keeps the registered pod managers in a store fresh.

        ``changed`` takes the names of those that a reading found to be otherwise. Pod managers
        without a stream of events send theirs to an ``address``, if there is one.
        """
        from valence_sched.drivers.crawl import pool  # HTTP: only to read live ones
        from valence_sched.drivers.crawl.cache import ReadingMemory
        from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
        from valence_sched.inventory.background_reader import BackgroundReader, ReaderClock
        from valence_sched.inventory.events import ReceivedEvents

        dialects = plugins.installed(plugins.DIALECTS)
        cache = Homes(self.config.environ).cache
        settings = ReadSettings(live.timeout_s, live.parallel, live.full, cache, raw=False)
        settings = dataclasses.replace(settings, memory=ReadingMemory())

        def read(target: ReadTarget) -> Reading:
            (reading,) = pool.read([target], dialects, settings, clock=self.now)
            return reading

        registry = self.registry(live.state)
        events: Events | None = None
        if pace.events:
            listener = self._event_listener(registry, live.timeout_s, tell, address)
            events = listener if address is None else ReceivedEvents(listener, store, clock)
        return BackgroundReader(
            registry,
            live,
            store,
            read,
            holder=process_name(),
            tell=tell,
            pace=pace,
            threads=threads,
            events=events,
            changed=changed,
            lease_s=lease_s,
            clock=ReaderClock(clock, sleep=sleep),
        )

    def _event_listener(
        self,
        registry: Registry,
        timeout_s: float,
        tell: Callable[[str], object],
        address: EventAddress | None,
    ) -> EventListener:
        from valence_sched.drivers.crawl.reading import ReadTarget
        from valence_sched.drivers.events import EventStream, EventSubscription, PushedEvents
        from valence_sched.drivers.http.exchange import TlsContexts
        from valence_sched.inventory.events import EventListener, HintStream

        tls = TlsContexts()

        def open_stream(one: Registration) -> HintStream:
            target = ReadTarget(one, registry.password(one))
            stream = EventStream(target, timeout_s, tls)
            if address is None:
                return stream
            return PushedEvents(stream, EventSubscription(target, address, timeout_s, tls))

        return EventListener(open_stream, tell)

    def no_podm_message(self, live: ReadOptions) -> str:
        if live.podm_files:
            return f"{', '.join(live.podm_files)}: no pod manager in it"
        create = f"podm create NAME URL (none is in {self.registry(live.state).where})"
        named = "name one with --inventory PATH, or - for stdin"
        return f"no inventory: {named}; or register a pod manager with {create}"

    def _live_records(self, live: ReadOptions, *, alone: bool) -> Iterator[recorded.Record]:
        reader: LiveReader | StoredReader
        if live.stored:
            from valence_sched.inventory.stored import StoredReader  # SQL, as of the live ones

            reader = StoredReader(self.registry(live.state), live, now=self.now)
        else:
            reader = self.live_reader(live)
        if alone and not reader:
            raise NoPodm(self.no_podm_message(live))
        self.stored_names = reader.stored_names
        try:
            for reading in reader:
                name = reading.podm.id
                self.live_ids.add(name)
                if name not in reader.reporting_names:
                    self.read_ids.add(name)
                if reading.failure is not None:
                    reason = reading.failure.removeprefix(f"{name}: ")
                    self.unread_ids.add(name)
                    self.diagnostics.unread(one_line(f"{name}: {reason}"))
                self.diagnostics.extend(reading.diagnostics)
                yield recorded.Record(reading.podm, f"pod manager {name}", "$")
        finally:
            self.progress.end_count()
            self.config.remarks += reader.remarks


def process_name() -> str:
    """Return a name for this process that no other one has, as the holder of a lease."""
    import secrets
    import socket

    return f"{socket.gethostname()[:60]} process {os.getpid()} {secrets.token_hex(4)}"
