# SPDX-License-Identifier: Apache-2.0
"""Inventories: read by their drivers, completed by what is declared, and built into a View."""

from __future__ import annotations

import contextlib
import datetime
import gc
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from valence_sched.configuration import Configuration
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.errors import (
    DuplicateId,
    InputError,
    InventoryIncomplete,
    InventoryStale,
    Remark,
    Unread,
    UsageError,
    one_line,
)
from valence_sched.model.age import age_s, print_age
from valence_sched.model.build import ViewBuilder
from valence_sched.model.difference import Difference, Text, differences
from valence_sched.model.documents import decode
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm, PodmStatus, to_json
from valence_sched.model.live import EVERY, Live
from valence_sched.model.resource import Declared, replaced
from valence_sched.model.view import View
from valence_sched.registry import Registry
from valence_sched.standing import Told, statuses, stood

if TYPE_CHECKING:
    from valence_sched.readings import Readings

Progress = Callable[..., None]
Now = Callable[[], datetime.datetime]

LIVENESS = "VALENCE_SCHED_LIVENESS"

P = TypeVar("P", bound=Podm[Any, Any])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class Inventories(Configuration):
    """The pod managers of files, directories, archives and standard input, and live ones.

    ``problems`` collects one line per document and per live pod manager that could not be read,
    and remarks on those that are doubtful; with ``strict`` what could not be read is an error.
    ``progress`` is called with the number of podms read so far, for live ones also with how many
    there are and who is still being read, and in the end with None.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
        now: Now | None = None,
    ) -> None:
        super().__init__(environ, stdin)
        self._progress = progress or (lambda *_told: None)
        self.now = now or _now
        self.problems: list[str] = []
        self.live_ids: set[str] = set()
        self._asked: set[str] = set()
        self._kept: frozenset[str] = frozenset()
        self._unread: dict[str, Unread] = {}

    @property
    def skipped(self) -> list[str]:
        """Return the lines about documents that were left out."""
        return [line for line in self.problems if not isinstance(line, (Remark, Unread))]

    @property
    def unread(self) -> list[str]:
        """Return the lines about live pod managers that could not be read."""
        return [line for line in self.problems if isinstance(line, Unread)]

    @property
    def reported_ids(self) -> set[str]:
        """Return the ids of pod managers that reported by themselves, and were not read."""
        return self.live_ids - self._asked

    @property
    def unread_ids(self) -> set[str]:
        """Return the ids of live pod managers that could not be read."""
        return set(self._unread)

    def registry(self, state: str | None = None) -> Registry:
        """Return the registry whose state is at a URL, None for the usual one."""
        return Registry(self, state)

    def readings(self, live: Live, *, raw: bool = False) -> Readings:
        """Return the live pod managers that a command is about, to be read one after another.

        With ``raw`` readings carry their documents, which takes far more memory.
        """
        from valence_sched.readings import Readings  # HTTP: only for who reads live ones

        home = self.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        cache = Path(home) / "valence-sched"
        registry = self.registry(live.state)
        return Readings(registry, live, now=self.now, cache=cache, progress=self._progress, raw=raw)

    def view(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
        texts: dict[str, bytes] | None = None,
    ) -> View:
        """Read inventories and live pod managers into one View.

        Of those that the state knows, what claims hold is in use. ``texts`` gets the JSON of each
        pod manager as it was told, by its id.

        Raises:
            UsageError: no inventory is named, and no pod manager is known.
            InputError: a source cannot be read at all, holds no pod manager, or repeats an id.
            InventoryIncomplete: with ``strict``, something could not be read.
            InventoryStale: something is older than ``live`` allows.
        """
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        with _collector_paused():
            told = self._lean(sources, live, declared, texts)
            for number, (podm, record) in enumerate(self._standing(told, sources, live), 1):
                try:
                    builder.add(podm, record.file, record.place)
                except InputError as error:
                    self._skip(error)
                if number % 256 == 0:
                    self._progress(number)
            self._check(len(builder.podms), sources, strict)
            self._tell_declared(declared)
            view = builder.view()
        self._progress(None)
        return view

    def podms(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> Iterator[FullPodm]:
        """Yield pod managers whole, as their documents describe them; errors as for a view."""
        for podm, _ in self.whole(sources, strict=strict, resource_files=resource_files, live=live):
            yield podm

    def whole(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: Live = EVERY,
    ) -> Iterator[tuple[FullPodm, recorded.Record]]:
        """Yield pod managers as :meth:`podms`, each with its record, which may have a tree."""
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        for number, record in enumerate(self._records(sources, live), 1):
            try:
                builder.add(
                    decode(record.json, LeanPodm, record.file, record.place),
                    record.file,
                    record.place,
                )
                podm = decode(record.json, FullPodm, record.file, record.place)
                yield replaced(self._aged(podm, record, live), declared), record
            except InputError as error:
                self._skip(error)
            self._progress(number)
        self._progress(None)
        self._check(len(builder.podms), sources, strict)
        self._tell_declared(declared)

    def statuses(self, told: Iterable[Told], live: Live) -> dict[str, PodmStatus]:
        """Return who of those that were not asked in this run is alive; errors as for liveness.

        ``told`` are ids, each with when it was read.
        """
        named = live.liveness or self.environ.get(LIVENESS)
        unasked = ((id_, read_at) for id_, read_at in told if id_ not in self._asked)
        return statuses(named, unasked, self.registry(live.state), self.now())

    def _lean(
        self, sources: Sequence[str], live: Live, declared: Declared | None,
        texts: dict[str, bytes] | None,
    ) -> Iterator[tuple[LeanPodm, recorded.Record]]:  # fmt: skip
        """Yield pod managers as they told, the inside of their blocks undecoded."""
        decoder = msgspec.json.Decoder(LeanPodm)
        for record in self._records(sources, live):
            try:
                podm = self._aged(_quick(decoder, record), record, live)
            except InputError as error:
                self._skip(error)
                continue
            if texts is not None:
                texts[podm.id] = bytes(record.json)
            yield replaced(podm, declared), record

    def _standing(
        self, told: Iterator[tuple[LeanPodm, recorded.Record]], sources: Sequence[str], live: Live
    ) -> Iterator[tuple[LeanPodm, recorded.Record]]:
        """Yield pod managers as they stand: recorded ones so, unless the state is named, too."""
        recordings = bool(self.sources(sources, live)) and not live.chosen
        named = live.liveness or self.environ.get(LIVENESS)
        every = live.holds or live.state is not None
        if recordings and not every and not named:
            yield from told
            return
        podms, records = [], []
        for podm, record in told:
            podms.append(podm)
            records.append(record)
        kept = {podm.id for podm in podms} if every else self._kept
        alive = self.statuses(((podm.id, podm.read_at) for podm in podms), live)
        found = stood(podms, self.registry(live.state), kept=kept, statuses=alive)
        yield from zip(found, records, strict=True)

    def differences(self, old: str, new: str) -> Iterator[Difference]:
        """Yield what came, went and changed from one inventory to another; errors as for a view."""
        yield from differences(self._texts(old), self._texts(new))

    def _texts(self, source: str) -> Iterator[Text]:
        """Yield the pod managers of a source as they stand; no pod manager is an error."""
        found = 0
        for found, record in enumerate(self._records([source], EVERY), 1):
            yield Text(bytes(record.json), record.file, record.place)
            self._progress(found)
        self._progress(None)
        self._check(found, [source], strict=False)

    def _declared(self, paths: Sequence[str]) -> Declared | None:
        resources = self.resources(paths)
        return Declared(resources) if resources else None

    def _tell_declared(self, declared: Declared | None) -> None:
        if declared:
            self.problems += [*declared.remarks, *declared.strangers()]

    def _records(self, sources: Sequence[str], live: Live) -> Iterator[recorded.Record]:
        """Yield the podms of inventories, then the live ones.

        Live ones are read when somebody chose them, and when no inventory is named.
        """
        self._unread.clear()
        self.live_ids.clear()
        self._asked.clear()
        self._kept = frozenset()
        named = self.sources(sources, live)
        for source in named:
            read, path = _driver(source)
            yield from read(path, self.input, self.problems)
        if live.chosen or not named:
            yield from self._live_records(live, alone=not named)

    def sources(self, sources: Sequence[str], live: Live = EVERY) -> list[str]:
        """Return the inventories that are read: those named, else those of the environment."""
        named = list(sources)
        if not named and not live.chosen:
            named = self.environ.get("VALENCE_SCHED_INVENTORY", "").split(os.pathsep)
        return [source for source in named if source]

    def _live_records(self, live: Live, *, alone: bool) -> Iterator[recorded.Record]:
        readings = self.readings(live)
        if alone and not readings:
            raise UsageError(self._nobody(live))
        self._kept = readings.kept
        try:
            for reading in readings:
                name = reading.podm.id
                self.live_ids.add(name)
                if name not in readings.reported:
                    self._asked.add(name)
                if reading.failure is not None:
                    reason = reading.failure.removeprefix(f"{name}: ")
                    self._unread[name] = Unread(one_line(f"{name}: {reason}"))
                    self.problems.append(self._unread[name])
                self.problems += reading.problems
                yield recorded.Record(to_json(reading.podm), f"pod manager {name}", "$")
        finally:
            self._progress(None)
            self.remarks += readings.remarks

    def _nobody(self, live: Live) -> str:
        if live.catalogue is not None:
            return "the service catalogue names no pod manager: it lists them as service type podm"
        if live.podm_files:
            return f"{', '.join(live.podm_files)}: no pod manager in it"
        where = self.registry(live.state).where
        return ("no inventory: name one with --inventory PATH, or - for stdin; or register a pod "
                f"manager with podm create NAME URL (none is in {where})")  # fmt: skip

    def _aged(self, podm: P, record: recorded.Record, live: Live) -> P:
        """Return a podm with the time it was read at, if it is not too long ago to decide on."""
        if podm.read_at is None and record.captured_at is not None:
            podm = msgspec.structs.replace(podm, read_at=record.captured_at)
        limit = live.max_age_s
        if limit is None or podm.id in self._unread:  # who is silent is named, and not chosen
            return podm
        age = age_s(podm.read_at, self.now())
        if age is None or age > limit:
            known = f"read {print_age(age)} ago" if age is not None else "read nobody knows when"
            raise InventoryStale(one_line(f"pod manager {podm.id!r}: {known}, and at most "
                                          f"{print_age(limit)} ago is allowed"))  # fmt: skip
        return podm

    def _skip(self, error: InputError) -> None:
        """Remember a document that is skipped; one whose blocks nobody could tell is not."""
        if isinstance(error, DuplicateId):
            raise error
        self.problems.append(str(error))

    def _check(self, found: int, sources: Sequence[str], strict: bool) -> None:
        if strict and (lost := [*self.unread, *self.skipped]):
            others = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
            raise InventoryIncomplete(f"incomplete inventory: {lost[0]}{others}")
        if not found and len(self.problems) == 1:
            raise InputError(self.problems.pop())
        if not found:
            hint = "see what was skipped" if self.skipped else "is this the right file?"
            file = ", ".join(sources) or "VALENCE_SCHED_INVENTORY"
            raise InputError(file, "$", "no pod manager", "at least one", hint)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking a million new objects again and again.

    What was made meanwhile lives as long as the inventory does: it is left out of later walks.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _driver(source: str) -> tuple[Callable[..., Iterator[recorded.Record]], str]:
    """Return who reads a source, and its path: ``DRIVER:PATH`` names an installed driver."""
    name, path = named_plugin(source)
    if not name:
        return recorded.records, source
    return plugins.installed(plugins.DRIVERS).get(name), path


def named_plugin(source: str) -> tuple[str, str]:
    """Return the name before the colon, empty for none, and the rest."""
    name, colon, path = source.partition(":")
    if not colon or not name.isidentifier() or Path(source).exists():
        return "", source
    return name, path


def _quick(decoder: msgspec.json.Decoder[LeanPodm], record: recorded.Record) -> LeanPodm:
    """Decode a podm fast; only a document that fails is decoded again for its error's words."""
    try:
        return decoder.decode(record.json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(record.json, LeanPodm, record.file, record.place)
