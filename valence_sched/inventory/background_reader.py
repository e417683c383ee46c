# SPDX-License-Identifier: Apache-2.0
"""Background reader: keeps the readings of a state fresh, in the process that has the lease."""

import contextlib
import functools
import math
import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from valence_sched import errors
from valence_sched.config.settings import user_folder
from valence_sched.core import plugins
from valence_sched.drivers.crawl import pool
from valence_sched.drivers.crawl.cache import ReadingMemory
from valence_sched.drivers.crawl.reading import Reading, ReadSettings, ReadTarget
from valence_sched.drivers.dialect import with_identity
from valence_sched.drivers.events import EventStream, EventSubscription, PushedEvents
from valence_sched.drivers.http.exchange import TlsContexts
from valence_sched.inventory import events as event_hints
from valence_sched.inventory.live import podm_of_registration
from valence_sched.inventory.registry import Registry
from valence_sched.inventory.sources import SourceReader
from valence_sched.model.claim import NO_USAGE, with_lost_blocks
from valence_sched.model.inventory import FullPodm
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.quantity import format_count
from valence_sched.model.reading import PreviousReading, ReadFailure, ReadOptions, ReadPace
from valence_sched.model.registration import Registration
from valence_sched.store.service_state import process_name
from valence_sched.store.store import Store

LEASE = "background reader"
LEASE_S = 30.0
RENEWALS = 3  # how often a lease is renewed in its lifetime
#: Shortest intervals between checks for changed registrations, and between readings of them all.
LOOK_S, MEMBERS_S = 0.5, 5.0
LONGEST_WAIT_S = 1.0  # longest wait between checks for due readings and for the end
THREADS = 32


@dataclass(slots=True)
class _Entry:
    due: float
    failures: int = 0
    running: bool = False
    started: float = -math.inf
    hinted: bool = False


class ReadSchedule:
    """Decides when each pod manager is read next; ``draw`` returns a random number from 0 to 1."""

    def __init__(self, pace: ReadPace, draw: Callable[[], float]) -> None:
        self._pace, self._draw = pace, draw
        self._entries: dict[str, _Entry] = {}

    def set_names(self, names: Collection[str], now: float) -> None:
        for gone in self._entries.keys() - set(names):
            del self._entries[gone]
        for name in names:
            self._entries.setdefault(name, _Entry(now))

    def hasten(self, name: str, now: float) -> None:
        """Make a pod manager due now: it or its registration has changed."""
        if known := self._entries.get(name):
            self._entries[name] = _Entry(now, running=known.running, started=known.started)

    def hint(self, name: str, now: float) -> None:
        """Make a pod manager due soon: it may have changed since its last reading began."""
        if entry := self._entries.get(name):
            entry.hinted = entry.running
            shortest = self._pace.event_pause_s
            doubled = min(self._pace.interval_s, shortest * 2.0 ** min(entry.failures, 30))
            entry.due = min(entry.due, max(now, entry.started + max(shortest, doubled)))

    def start_due(self, now: float, most: int) -> Iterator[str]:
        """Mark up to ``most`` due pod managers as running, the longest due first; yield them."""
        due = [name for name, one in self._entries.items() if one.due <= now and not one.running]
        probing = any(one.running and self._is_open(one) for one in self._entries.values())
        for name in sorted(due, key=lambda name: self._entries[name].due):
            if most <= 0:
                return
            entry = self._entries[name]
            if self._is_open(entry):
                if probing:
                    continue
                probing = True
            entry.running, entry.started, entry.hinted = True, now, False
            most -= 1
            yield name

    def end(self, name: str, now: float, *, failed: bool) -> None:
        entry = self._entries.get(name)
        if entry is None:  # the pod manager was removed during its reading
            return
        entry.running = False
        entry.failures = entry.failures + 1 if failed else 0
        entry.due = now + self._pace.pause_s(entry.failures, self._draw())
        if entry.hinted:  # the reading may have missed the change behind an event
            self.hint(name, now)

    def is_open(self, name: str) -> bool:
        return name in self._entries and self._is_open(self._entries[name])

    def wait_s(self, now: float) -> float | None:
        due = [one.due for one in self._entries.values() if not one.running]
        return max(0.0, min(due) - now) if due else None

    def _is_open(self, entry: _Entry) -> bool:
        return entry.failures >= self._pace.open_after


class ReaderClock(NamedTuple):
    """The clock, random numbers from 0 to 1, and the sleep function of a background reader."""

    now: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random
    sleep: Callable[[float], object] = time.sleep


class ReadOutcome(NamedTuple):
    """A finished reading, and the registration that it was made with."""

    registration: Registration
    reading: Reading


def _start_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True, name=LEASE).start()


class BackgroundReader:
    """Reads pod managers repeatedly, as one of the processes that share a store.

    ``read`` never raises. ``holder`` names this process; if it dies, its lease ends after
    ``lease_s``. ``log`` receives a line when the reading process changes, and when a pod manager
    becomes readable or unreadable. ``changed`` receives the names of changed pod managers.
    """

    def __init__(
        self,
        registry: Registry,
        live: ReadOptions,
        store: Store,
        read: Callable[[ReadTarget], Reading],
        *,
        holder: str,
        log: Callable[[str], object],
        pace: ReadPace | None = None,
        clock: ReaderClock | None = None,
        threads: int = THREADS,
        lease_s: float = LEASE_S,
        start: Callable[[Callable[[], None]], object] = _start_thread,
        events: event_hints.Events | None = None,
        changed: Callable[[Sequence[str]], object] = lambda _names: None,
    ) -> None:
        self._registry, self._live, self._store, self._read = registry, live, store, read
        self._holder, self._log, self._threads = holder, log, threads
        self._clock = clock or ReaderClock()
        self._lease_s = lease_s
        self._schedule = ReadSchedule(pace or ReadPace(), self._clock.draw)
        self._outcomes: queue.SimpleQueue[ReadOutcome] = queue.SimpleQueue()
        self._start_thread, self._events = start, events or event_hints.NoStreams()
        self._note_changed = changed
        self._hints = event_hints.Hints()  # other threads add to it
        self._hinted: dict[str, str] = {}
        self._reasons: dict[str, str] = {}  # why each running reading was started
        self._generations: dict[str, int] = {}
        self._running = 0
        self._members: dict[str, Registration] = {}
        self._previous: dict[str, PreviousReading] = {}
        self._failures: dict[str, ReadFailure] = {}
        self._ended: set[str] = set()
        self._leads = False
        self._renewed_at = self._looked_at = self._members_at = -float("inf")
        self._registry_count = -1
        self._problem = ""

    def run(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Read until ``ended`` returns True; wait while the state is unavailable."""
        try:
            while not ended():
                self._clock.sleep(self.step())
        finally:
            self.close()

    def run_once(self) -> None:
        """Read every pod manager once; InUse if another process reads, else StoreError."""
        try:
            if not self._lead():
                by = f"another process ({self._store.leases.holder(LEASE)})"
                raise errors.InUse(f"{by} already reads the pod managers: end it first")
            self._failures = {}  # forget earlier failures, so that each failure is logged
            self._update_members()
            while self._members.keys() - self._ended:
                self._renew_in_time()
                self._start()
                self._store_outcomes(self._gathered(LONGEST_WAIT_S))
        finally:
            self.close()

    def step(self) -> float:
        """Start due readings, store finished readings, and return the seconds to wait."""
        try:
            self._renew_in_time()
            if self._leads:
                self._update_members_in_time()
                # only the first of many events of a pod manager is logged
                for name, why in (self._hints.take() | self._events.take()).items():
                    if name in self._members:
                        self._hinted.setdefault(name, why)
                        self._schedule.hint(name, self._clock.now())
                self._start()
                self._store_outcomes(self._gathered())
            else:
                for one in self._gathered():
                    self._running -= 1
                    self._schedule.end(one.registration.name, self._clock.now(), failed=False)
            self._note_problem("")
        except errors.SchedulerError as error:
            self._note_problem(str(error))
            return LONGEST_WAIT_S
        if self._running:
            return 0.05
        due = self._schedule.wait_s(self._clock.now()) if self._leads else None
        return min(LONGEST_WAIT_S, LONGEST_WAIT_S if due is None else max(0.01, due))

    def close(self) -> None:
        self._events.close()
        if self._leads:
            self._leads = False
            try:
                self._store.leases.release(LEASE, self._holder)
            except errors.StoreError as error:
                self._note_problem(str(error))

    def hint(self, names: Iterable[str], reason: str) -> None:
        """Make these pod managers due soon if they are registered; any thread may call this."""
        self._hints.add(*(name for name in names if name in self._members), reason=reason)

    @property
    def read_names(self) -> set[str]:
        return self._ended - self._failures.keys()

    def _renew_in_time(self) -> None:
        now = self._clock.now()
        if now - self._renewed_at < self._lease_s / RENEWALS:
            return
        if self._leads:
            if self._store.leases.renew(LEASE, self._holder, self._lease_s):
                self._renewed_at = now
                return
            self._leads = False
            self._events.follow({})
            self._log("the lease is lost: another process reads")
        self._lead()

    def _lead(self) -> bool:
        self._renewed_at = self._clock.now()
        self._leads = self._store.leases.acquire(LEASE, self._holder, self._lease_s)
        if self._leads:
            self._failures, self._previous = self._store.failures(), {}
            self._looked_at = self._members_at = -float("inf")
            for name in self._members:
                self._schedule.hasten(name, self._renewed_at)
            self._log(f"leader: this process ({self._holder})")
            if self._failures:
                count = format_count(len(self._failures), "pod manager")
                self._log(f"{count} could not be read before")
        return self._leads

    def _update_members_in_time(self) -> None:
        """Read the registrations again after a change in the state, and every ``MEMBERS_S``."""
        now = self._clock.now()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        count = self._store.registry_count()
        if count != self._registry_count or now - self._members_at >= MEMBERS_S:
            self._update_members()
            self._events.follow(self._members)
            self._registry_count = count

    def _update_members(self) -> None:
        now, before = self._clock.now(), self._members
        members = self._registry.members(self._live)
        names = {one.registration.name for one in members}
        self._previous |= self._store.previous_readings(names - self._previous.keys())
        self._members = {one.registration.name: one.registration for one in members}
        self._members_at = now
        self._schedule.set_names(self._members, now)
        for name, one in self._members.items():
            known = before.get(name)
            if known is not None and known != replace(one, identity=known.identity):
                self._schedule.hasten(name, now)
        if len(before) != len(self._members):
            self._log(f"{format_count(len(self._members), 'pod manager')} to read")

    def _start(self) -> None:
        free = self._threads - self._running
        for name in self._schedule.start_due(self._clock.now(), free):
            self._running += 1
            why = self._hinted.pop(name, None)
            self._reasons[name] = f"on {why}" if why else "at its interval"
            self._start_thread(functools.partial(self._read_one, self._members[name]))

    def _read_one(self, one: Registration) -> None:
        try:
            previous = self._previous.get(one.name, PreviousReading())
            reading = self._read(ReadTarget(one, self._registry.password(one), previous))
        except (errors.CredentialError, errors.PluginError, errors.UnknownName) as error:
            reading = Reading(podm_of_registration(one, FullPodm), str(error))
        except Exception as error:
            what = f"{type(error).__name__}: {error} (please report this)"
            reading = Reading(podm_of_registration(one, FullPodm), errors.one_line(what))
        self._outcomes.put(ReadOutcome(one, reading))

    def _gathered(self, timeout_s: float = 0.0) -> list[ReadOutcome]:
        found: list[ReadOutcome] = []
        with contextlib.suppress(queue.Empty):
            if timeout_s:
                found.append(self._outcomes.get(timeout=timeout_s))
            while True:
                found.append(self._outcomes.get_nowait())
        return found

    def _store_outcomes(self, outcomes: Sequence[ReadOutcome]) -> None:
        current = [one for one in outcomes if one.registration.name in self._members]
        failures: dict[str, tuple[FullPodm, ReadFailure]] = {}
        whole = [one for one in current if one.reading.failure is None]
        try:
            podms = [one.reading.podm for one in whole]
            stale = [podm.id for podm in podms if any(node.stale for node in podm.nodes)]
            known = self._store.previous_readings(stale) if stale else {}
            stored = self._store.upsert_all([with_identity(one.reading.podm) for one in whole])
            self._note_contents(one for one in stored if not isinstance(one, errors.SchedulerError))
            self._previous |= known  # so that a node removed from the state is not stale again
            for one, result in zip(whole, stored, strict=True):
                if isinstance(result, errors.SchedulerError):
                    refused = isinstance(result, errors.IdentityConflict)
                    failure = ReadFailure(reason=str(result), status="Unknown", refused=refused)
                    podm = podm_of_registration(one.registration, FullPodm)
                    failures[one.registration.name] = (podm, failure)
            for one in current:
                if one.reading.failure is not None:
                    name = one.registration.name
                    reason = errors.one_line(one.reading.failure.removeprefix(f"{name}: "))
                    failure = ReadFailure(reason=reason, status=one.reading.podm.status)
                    failures[name] = (one.reading.podm, failure)
            if failures:
                self._store.record_failures(failures)
        except errors.StoreError:  # the outcomes are stored when the state is available again
            for one in outcomes:
                self._outcomes.put(one)
            raise
        self._running -= len(outcomes)
        for name in (one.registration.name for one in current):
            self._note_end(name, failures[name][1] if name in failures else None)

    def _note_contents(self, podms: Iterable[FullPodm]) -> None:
        changed = [one for one in podms if self._generations.get(one.id) != one.generation]
        again = [one.id for one in changed if one.id in self._generations]
        usages = self._store.usages(again) if again else {}
        for one in changed:
            if one.id in self._generations:
                text = f"{one.id}: changed, read {self._reasons.get(one.id, '')}"
                self._log(errors.one_line(text))
            _, lost = with_lost_blocks(one, usages.get(one.id, NO_USAGE).settled)
            if lost:
                self._log(lost)
            if loss := self._previous.get(one.id, PreviousReading()).loss(one):
                self._log(errors.one_line(f"{one.id}: {loss}"))
            self._previous[one.id] = PreviousReading.of(one)
            self._generations[one.id] = one.generation
        if changed:
            self._note_changed([one.id for one in changed])

    def _note_end(self, name: str, failure: ReadFailure | None) -> None:
        known = self._failures.pop(name, None)
        self._schedule.end(name, self._clock.now(), failed=failure is not None)
        self._ended.add(name)
        if failure is not None:
            self._failures[name] = failure
            if known is None or known.reason != failure.reason:
                problem = "unreachable" if failure.status == "Offline" else "not read"
                self._log(f"{name}: {problem}: {failure.reason}")
        elif known is not None:
            self._log(f"{name}: reachable again")

    def _note_problem(self, text: str) -> None:
        if text and text != self._problem:
            self._log(f"waiting: {text}")
        self._problem = text


def background_reader(
    sources: SourceReader,
    live: ReadOptions,
    store: Store,
    pace: ReadPace,
    log: Callable[[str], object],
    threads: int,
    *,
    lease_s: float = LEASE_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    changed: Callable[[Sequence[str]], object] = lambda _names: None,
    address: EventAddress | None = None,
) -> BackgroundReader:
    """Return the background reader of a store; podms without a stream push to ``address``."""
    dialects, registry = plugins.InstalledPlugins(plugins.DIALECTS), sources.registry(live.state)
    cache, tls = user_folder("cache", sources.config.environ), TlsContexts()
    limits, memory = (live.timeout_s, live.parallel, live.full), ReadingMemory()
    settings = ReadSettings(*limits, cache, raw=False, memory=memory)

    def read(target: ReadTarget) -> Reading:
        (reading,) = pool.read([target], dialects, settings, clock=sources.now)
        return reading

    def open_stream(one: Registration) -> event_hints.HintStream:
        target = ReadTarget(one, registry.password(one))
        stream = EventStream(target, live.timeout_s, tls)
        if address is None:
            return stream
        return PushedEvents(stream, EventSubscription(target, address, live.timeout_s, tls))

    events = None
    if pace.events:
        stored = None if address is None else store
        events = event_hints.EventListener(open_stream, log, store=stored, clock=clock)
    return BackgroundReader(
        registry,
        live,
        store,
        read,
        holder=process_name(),
        log=log,
        pace=pace,
        threads=threads,
        events=events,
        changed=changed,
        lease_s=lease_s,
        clock=ReaderClock(clock, sleep=sleep),
    )
