# SPDX-License-Identifier: Apache-2.0
"""Reading: the choice of pod managers, the pace, failures, liveness, and the age of readings."""

import heapq
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, Self

from msgspec import Struct

from valence_sched.errors import InventoryStale, UsageError, name_some, one_line
from valence_sched.model.base import Noun
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import WHOLE_POOL, Node, Podm, PodmStatus
from valence_sched.model.node_change import DrainSettings
from valence_sched.model.quantity import age_s, format_age, format_count, parse_age
from valence_sched.model.registration import Registration
from valence_sched.model.zone import ZoneSettings

LEAST_FOUND = 0.9  # share of the blocks of the last reading; fewer are reported
DEFAULT_LIMIT_S = 600.0  # largest age of the last sign of a live pod manager, by default


class ReadOptions(Struct, frozen=True, kw_only=True):
    """The sources of live pod managers, and the options for reading them.

    ``state`` is the URL of the state, None for the default. ``catalogue`` are the pod managers in
    the catalogue of a cloud, None if it is not used. ``only`` are the names to read, empty for all.
    A reading older than ``max_age_s`` is an error; a reading older than ``warn_age_s`` is a
    warning. ``liveness`` is the plug-in (``NAME`` or ``NAME:ARGUMENT``) that decides whether unread
    pod managers are alive. With ``stored``, the stored readings are used. With ``subtract_claims``,
    claims are subtracted from recorded pod managers, too.
    """

    podm_files: tuple[str, ...] = ()
    state: str | None = None
    catalogue: tuple[Registration, ...] | None = None
    only: tuple[str, ...] = ()
    timeout_s: float = 30.0
    parallel: int = 4
    full: bool = False
    max_age_s: float | None = None
    warn_age_s: float | None = None
    liveness: str | None = None
    subtract_claims: bool = False
    stored: bool = False

    @property
    def selects_live(self) -> bool:
        return bool(self.podm_files) or self.catalogue is not None


class Selection(Struct, frozen=True, kw_only=True):
    """The inputs of one decision: inventories and files.

    ``sources`` are inventories; if empty, they are taken from the environment, or else the ``live``
    pod managers are used. ``near_maps`` locate external resources. With ``strict``, an unreadable
    document or pod manager is an error. With ``no_cache``, cached views of inventory files are
    ignored. ``zones`` are the settings of this zone; None means the settings of the user's file.
    With ``dispatches``, claimed decisions are queued for the controller. ``drain`` is the hook that
    drains nodes; None means the hook of the user's file. ``stated`` are the capabilities of zones,
    by source.
    """

    sources: tuple[str, ...] = ()
    strict: bool = False
    resource_files: tuple[str, ...] = ()
    flavor_files: tuple[str, ...] = ()
    policy_files: tuple[str, ...] = ()
    near_maps: tuple[str, ...] = ()
    live: ReadOptions = ReadOptions()
    no_cache: bool = False
    zones: ZoneSettings | None = None
    dispatches: bool = False
    drain: DrainSettings | None = None
    stated: dict[str, dict[str, tuple[str, ...]]] = {}


DEFAULT_SELECTION = Selection()


class ReadPace(Struct, frozen=True, kw_only=True):
    """The pace at which pod managers are read.

    Each is read after ``interval_s``, varied by the share ``jitter``; after a failure, the interval
    doubles, up to ``backoff_s``. After ``open_after`` consecutive failures its circuit breaker
    opens; pod managers with an open breaker are probed one at a time. With ``events``, an event
    causes a reading, at least ``event_pause_s`` after the start of the last reading; that pause
    doubles with each failure.
    """

    interval_s: float = 60.0
    jitter: float = 0.1
    backoff_s: float = 900.0
    open_after: int = 5
    events: bool = True
    event_pause_s: float = 5.0

    def pause_s(self, failures: int, draw: float) -> float:
        """Return the seconds to the next reading; ``draw`` is a random number in 0..1."""
        doubled = self.interval_s * 2.0 ** min(failures, 30)
        pause_s = max(self.interval_s, min(self.backoff_s, doubled)) if failures else doubled
        return pause_s * (1.0 + self.jitter * (2.0 * draw - 1.0))


class ReadFailure(Noun, frozen=True, kw_only=True):
    """A failed last reading of a pod manager; ``reason`` is a line without the pod manager's name.

    ``status`` is Offline if it did not answer, Unknown if its answer is invalid. Readings have
    failed since ``since``, in seconds since 1970 by the clock of the store. ``refused`` is true if
    another service answers at its URL: its stored readings must not be used.
    """

    reason: str
    status: PodmStatus = "Offline"
    since: float = 0.0
    refused: bool = False


class PreviousReading(NamedTuple):
    """The last reading of a pod manager: the URIs of its blocks, ids of its pools, its nodes."""

    blocks: frozenset[str] = frozenset()
    pools: frozenset[str] = frozenset()
    nodes: tuple[Node, ...] = ()

    @classmethod
    def of(cls, podm: Podm[Any, Any]) -> Self:
        blocks, pools = (it.uri for it in podm.blocks), (it.id for it in podm.pools)
        return cls(frozenset(blocks), frozenset(pools), podm.nodes)

    def loss(self, podm: Podm[Any, Any]) -> str:
        """Return a text about the blocks missing in the next reading; empty if few are missing."""
        gone = sorted(self.blocks.difference(block.uri for block in podm.blocks))
        found = len(self.blocks) - len(gone)
        if found >= LEAST_FOUND * len(self.blocks):
            return ""
        count = f"{found} of the {format_count(len(self.blocks), 'block')} of the last reading"
        return f"found {count}, without {name_some(gone, 3)}"

    @property
    def has_zones(self) -> bool:
        return not self.pools <= {WHOLE_POOL}


class Sign(NamedTuple):
    """The seconds since the last reading or report (``read_s``), and since the last report."""

    id: str
    read_s: float | None = None
    beat_s: float | None = None


class Liveness(Protocol):
    """A function of the entry point group ``valence_sched.liveness``."""

    def __call__(self, signs: Sequence[Sign], argument: str, now: datetime) -> Mapping[str, bool]:
        """Return whether each pod manager is alive, by ID; a missing pod manager keeps its status.

        ``argument`` is the text after the name and a colon; UsageError if it is invalid.
        """


def parse_limit(argument: str, name: str) -> float:
    """Return the largest age of a live pod manager in seconds; UsageError if it is invalid."""
    try:
        return parse_age(argument) if argument else DEFAULT_LIMIT_S
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def within(age_s: float | None, limit_s: float) -> bool:
    """Return whether an age is known and at most the limit."""
    return age_s is not None and age_s <= limit_s


class ReadingAges:
    """Finds the readings older than a limit; a reading without a valid time is in ``unknown``."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = math.inf if limit_s is None else limit_s
        self._read_at: dict[str, str | None] = {}
        self._due: dict[str, float] = {}  # the time at which each becomes old
        self._queued: dict[str, float] = {}  # the time of the next check of each
        self._queue: list[tuple[float, str]] = []
        self._old: set[str] = set()
        self.unknown: set[str] = set()

    def note(self, podm: str, read_at: str | None, now: datetime) -> None:
        self.forget(podm)
        self._read_at[podm] = read_at
        if (age := age_s(read_at, now)) is None:
            self.unknown.add(podm)
        else:
            self._due[podm] = now.timestamp() - age + self._limit_s
            self._enqueue(podm)

    def _enqueue(self, podm: str) -> None:
        due = self._due.get(podm, math.inf)
        if due < self._queued.get(podm, math.inf):
            self._queued[podm] = due
            heapq.heappush(self._queue, (due, podm))

    def forget(self, podm: str) -> None:
        self._read_at.pop(podm, None)
        self._due.pop(podm, None)
        self._old.discard(podm)
        self.unknown.discard(podm)

    def older(self, now: datetime) -> set[str]:
        at = now.timestamp()
        while self._queue and self._queue[0][0] < at:
            queued, podm = heapq.heappop(self._queue)
            if self._queued.get(podm) == queued:
                del self._queued[podm]
                if self._due.get(podm, math.inf) < at:
                    self._old.add(podm)
                else:  # read again since, or removed
                    self._enqueue(podm)
        return set(self._old)

    def read_at(self, podm: str) -> str | None:
        return self._read_at.get(podm)


def stale_error(podm: str, read_at: str | None, limit_s: float, now: datetime) -> InventoryStale:
    age = age_s(read_at, now)
    if age is not None:
        known = f"read {format_age(age)} ago"
    elif read_at is None:
        known = "read at an unknown time"
    else:
        known = f"read at {read_at}, which is in the future (compare the clocks)"
    text = f"pod manager {podm!r}: {known}, the maximum age is {format_age(limit_s)}"
    return InventoryStale(text)


class OldReadings:
    """Collects the readings of one inventory that are older than a limit, None for no limit."""

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._ages_s: dict[str, float] = {}

    def note(self, podm: str, read_at: str | None, now: datetime) -> None:
        """Note when a pod manager was read; an unknown time is not old."""
        if self._limit_s is None:
            return
        age = age_s(read_at, now)
        if age is not None and age > self._limit_s:
            self._ages_s[podm] = age

    def warn(self, diagnostics: Diagnostics) -> None:
        if not self._ages_s or self._limit_s is None:
            return
        oldest = max(self._ages_s, key=self._ages_s.__getitem__)
        age, count = format_age(self._ages_s[oldest]), len(self._ages_s)
        text = f"{oldest} was read {age} ago: read it again"
        if count > 1:
            start = f"{count:,} pod managers were read over {format_age(self._limit_s)} ago"
            text = f"{start}, {oldest} {age} ago: read them again"
        diagnostics.warn(one_line(f"{text} (--warn-age)"))
