# SPDX-License-Identifier: Apache-2.0
"""Events: streams and pushed events of pod managers, as hints to read them soon."""

import functools
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self

from msgspec.structs import replace

from valence_sched.drivers.crawl.pool import GRACE_S
from valence_sched.drivers.events import NoEvents, SubscriptionLeft, hint_of_records
from valence_sched.drivers.http.connection import LOGOUT_S
from valence_sched.drivers.http.exchange import Unreachable
from valence_sched.errors import SchedulerError, one_line
from valence_sched.model.podm_address import EventAddress
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

#: The first and the longest pause before a stream is opened again. The pause doubles each time; a
#: stream that was open for longer than the longest pause resets it.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
#: Interval of checking a pod manager without a stream again: new firmware may have one.
LOOK_AGAIN_S = 3600.0
MAX_STREAMS = 512  # concurrent streams; further pod managers are only read at their interval
RECORD = "received events"  # the record with the names of pod managers that sent an event
LOOK_S = 0.5  # shortest time between readings of the record


class Hints:
    """The names of pod managers to read soon, each with the first reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, *names: str, reason: str) -> None:
        with self._lock:
            for name in names:
                self._reasons.setdefault(name, reason)

    def take(self) -> dict[str, str]:
        with self._lock:
            reasons, self._reasons = self._reasons, {}
        return reasons


class Events(Protocol):
    """Hints that pod managers may have changed."""

    def follow(self, members: Mapping[str, Registration]) -> None:
        """Replace the pod managers whose events are received."""
        return

    def take(self) -> dict[str, str]:
        """Return the names of new hints since the last call, each with its reason."""
        return {}

    def close(self) -> None:
        """Stop listening."""
        return


class NoStreams(Events):
    """Gives no hints, for a reader that only polls."""


class HintStream(Protocol):
    """The events of one pod manager."""

    def follow(self, opened: Callable[[], object], hint: Callable[[str], object]) -> None:
        """Follow the events until the end; errors as for an event stream."""

    def cut(self) -> None:
        """End the stream, even if another thread is following it."""


class StreamEnd(NamedTuple):
    """Why a stream ended; with ``left`` its subscription remains on the pod manager."""

    problem: str
    unreachable: bool = False
    left: bool = False


class _Follower:
    """One stream, which its thread opens again and again until ``ended`` is set."""

    def __init__(self, registration: Registration, run: Callable[[Self], None]) -> None:
        self.registration = registration
        self.ended = threading.Event()
        self.stream: HintStream | None = None
        work = functools.partial(run, self)
        self.thread = threading.Thread(target=work, daemon=True, name="events")
        self.thread.start()

    def end(self) -> None:
        self.ended.set()
        if (stream := self.stream) is not None:
            stream.cut()


class EventListener:
    """Follows the event streams of pod managers; ``log`` receives a line for each change.

    ``open_stream`` may raise a SchedulerError, for example for an unreadable password. Pushed
    events, which receivers in any process put into the ``store``, become hints, too.
    """

    def __init__(
        self,
        open_stream: Callable[[Registration], HintStream],
        log: Callable[[str], object],
        *,
        store: Store | None = None,
        clock: Callable[[], float] = time.monotonic,
        first_pause_s: float = FIRST_PAUSE_S,
        most: int = MAX_STREAMS,
    ) -> None:
        self._open_stream, self._log, self._clock = open_stream, log, clock
        self._hints = Hints()
        self._store, self._looked_at = store, -float("inf")
        self._first_pause_s, self._most = first_pause_s, most
        self._followers: dict[str, _Follower] = {}

    def follow(self, members: Mapping[str, Registration]) -> None:
        for name, follower in list(self._followers.items()):
            known, member = follower.registration, members.get(name)
            # ignore the identity: a reading may set it, and the stream does not use it
            if member is None or replace(member, identity=None) != replace(known, identity=None):
                self._followers.pop(name).end()
        for name, registration in members.items():
            if len(self._followers) >= self._most:
                break
            if name not in self._followers:
                self._followers[name] = _Follower(registration, self._run)

    def take(self) -> dict[str, str]:
        """Return the pod managers with events since the last call; or raise StoreError."""
        found = self._hints.take()
        if self._store is not None and self._clock() - self._looked_at >= LOOK_S:
            self._looked_at = self._clock()
            for name in self._store.records.take_words(RECORD):
                found.setdefault(name.decode("utf-8", "replace"), "an event from the pod manager")
        return found

    def close(self) -> None:
        """End all streams, and wait some seconds until their sessions are deleted."""
        threads = [one.thread for one in self._followers.values()]
        self.follow({})
        until = time.monotonic() + LOGOUT_S + GRACE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, one: _Follower) -> None:
        name, pause_s, reported = one.registration.name, self._first_pause_s, ""
        attempts, was_open = 0, False

        def opened() -> None:
            nonlocal reported, was_open
            reported, was_open = "", True
            self._log(f"{name}: subscribed")
            if attempts > 1:  # events may have been lost while the stream was closed
                self._hints.add(name, reason="an event stream that is open again")

        while not one.ended.is_set():
            began, attempts = self._clock(), attempts + 1
            end = self._follow(one, opened)
            if end is None:
                one.ended.wait(LOOK_AGAIN_S)
                continue
            if one.ended.is_set():
                if end.left:
                    self._log(one_line(f"{name}: {end.problem}: delete it there"))
                return
            # do not log that it does not answer: its readings report this
            if end.problem != reported and (was_open or not end.unreachable):
                self._log(one_line(f"{name}: no event stream: {end.problem}: polling"))
            reported, was_open = end.problem, False
            if self._clock() - began > LONGEST_PAUSE_S:
                pause_s = self._first_pause_s
            one.ended.wait(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def _follow(self, one: _Follower, opened: Callable[[], object]) -> StreamEnd | None:
        name = one.registration.name
        try:
            stream = one.stream = self._open_stream(one.registration)
            if one.ended.is_set():  # ``end`` was called before there was a stream to cut
                stream.cut()
            stream.follow(opened, lambda text: self._hints.add(name, reason=f"an event: {text}"))
        except NoEvents:
            return None
        except SchedulerError as error:
            problem = str(error).removeprefix(f"{name}: ")
            left = isinstance(error, SubscriptionLeft)
            return StreamEnd(problem, unreachable=isinstance(error, Unreachable), left=left)
        except Exception as error:
            return StreamEnd(f"{type(error).__name__}: {error} (please report this)")
        return StreamEnd("the pod manager ended its stream")


class EventReceiver:
    """Receives events at an address, and stores the pod managers' names for the reader."""

    def __init__(self, address: EventAddress, store: Callable[[], Store]) -> None:
        self._address, self._store = address, store

    def podm_of(self, token: str) -> str | None:
        return self._address.podm_of(token)

    def take(self, podm: str, records: Iterable[Any]) -> None:
        if hint_of_records(records) is not None:
            self._store().records.add_word(RECORD, podm.encode())
