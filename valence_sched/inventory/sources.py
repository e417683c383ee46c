# SPDX-License-Identifier: Apache-2.0
"""Sources: yields pod manager records from files, archives, plug-ins, stdin and live reading."""

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from valence_sched.config.settings import Configuration, split_plugin_name, user_folder
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.errors import NoPodm, UsageError, errors_at, one_line
from valence_sched.model.diagnostic import Diagnostics, NoProgress, Progress
from valence_sched.model.reading import ReadOptions, Selection

if TYPE_CHECKING:
    from valence_sched.drivers.crawl.reading import Reading
    from valence_sched.inventory.live import LiveReader
    from valence_sched.inventory.registry import Registry

INVENTORY = "VALENCE_SCHED_INVENTORY"
Now = Callable[[], datetime.datetime]


class SourceReader:
    """Reads the records of pod managers, and notes problems in ``diagnostics``.

    ``registry`` returns the registry of a state by its URL, None for the default state. The other
    attributes describe the last run: ``live_ids`` are the ids of all live pod managers,
    ``read_ids`` of those read in this run, ``unread_ids`` of those that could not be read, and
    ``stored_names`` are the names of the pod managers in the state.
    """

    def __init__(
        self,
        config: Configuration,
        diagnostics: Diagnostics,
        registry: Callable[[str | None], "Registry"],
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
        return self.live_ids - self.read_ids

    def named_sources(self, selection: Selection) -> list[str]:
        """Return the inventories that the selection names, else those of the environment."""
        sources = list(selection.sources)
        if not sources and not selection.live.selects_live:
            inventories = self.config.environ.get(INVENTORY, "")
            sources = inventories.split(os.pathsep)
        return [source for source in sources if source]

    def forget(self) -> None:
        # make new sets: a follower of a state keeps the old sets
        self.unread_ids, self.live_ids, self.read_ids = set(), set(), set()
        self.stored_names = frozenset()

    def records(self, selection: Selection) -> Iterator[recorded.Record]:
        """Yield the podms of inventories; also live podms, if named or without an inventory."""
        self.forget()
        sources = self.named_sources(selection)
        variable = None if selection.sources else self.config.origin(INVENTORY)
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
        dialects = plugins.InstalledPlugins(plugins.DIALECTS)
        name, path = split_plugin_name(source)
        if not name:
            yield from recorded.records(source, self.config.input, self.diagnostics, dialects)
            return
        if name in ("http", "https"):
            text = "an inventory is a file or a folder, not a URL"
            raise UsageError(f"{text}: register its pod manager with podm create NAME URL")
        read = plugins.load(plugins.DRIVERS).get(name)
        with plugins.plugin_errors(f"driver {name!r}: {path}"):
            for record in read(path, self.config.input, self.diagnostics, dialects):
                if not isinstance(record, recorded.Record):
                    raise TypeError(f"found {type(record).__name__}, expected a Record")
                yield record

    def live_reader(self, live: ReadOptions, *, raw: bool = False) -> "LiveReader":
        """Return the live reader; with ``raw``, its readings keep their documents in memory."""
        from valence_sched.inventory.live import LiveReader  # HTTP: only for live pod managers

        registry, now, progress = self.registry(live.state), self.now, self.progress
        cache = user_folder("cache", self.config.environ)
        return LiveReader(registry, live, now=now, cache=cache, progress=progress, raw=raw)

    def no_podm_message(self, live: ReadOptions) -> str:
        if live.podm_files:
            return f"{', '.join(live.podm_files)}: no pod manager in it"
        create = f"podm create NAME URL (state: {self.registry(live.state).where})"
        named = "name one with --inventory PATH, or - for stdin"
        return f"no inventory: {named}; or register a pod manager with {create}"

    def _live_records(self, live: ReadOptions, *, alone: bool) -> Iterator[recorded.Record]:
        reader = self.live_reader(live)
        if alone and not reader:
            raise NoPodm(self.no_podm_message(live))
        self.stored_names = reader.stored_names
        for reading in self.live_readings(reader):
            name = reading.podm.id
            if name not in reader.reporting_names:
                self.read_ids.add(name)
            if reading.failure is not None:
                reason = reading.failure.removeprefix(f"{name}: ")
                self.unread_ids.add(name)
                self.diagnostics.unread(one_line(f"{name}: {reason}"))
            yield recorded.Record(reading.podm, f"pod manager {name}", "$")

    def live_readings(self, reader: "LiveReader") -> Iterator["Reading"]:
        """Yield the readings of a reader; note their ids, diagnostics and remarks."""
        try:
            for reading in reader:
                self.live_ids.add(reading.podm.id)
                self.diagnostics.extend(reading.diagnostics)
                yield reading
        finally:
            self.progress.end_count()
            self.config.remarks += reader.remarks


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
