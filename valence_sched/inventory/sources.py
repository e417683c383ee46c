# SPDX-License-Identifier: Apache-2.0
"""Where pod managers come from: files, directories, archives, standard input, and live ones."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from valence_sched.config.settings import Configuration, Homes
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.errors import Remark, Unread, UsageError, one_line
from valence_sched.inventory.registry import Registry
from valence_sched.model.inventory import to_json
from valence_sched.model.read_options import DEFAULT_READ_OPTIONS, ReadOptions

if TYPE_CHECKING:
    from valence_sched.inventory.live import LiveReader

Progress = Callable[..., None]
Now = Callable[[], datetime.datetime]


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class SourceReader(Configuration):
    """The records of pod managers, and what went wrong in reading them.

    ``problems`` collects one line per document and per live pod manager that could not be read,
    and remarks on those that are doubtful. ``progress`` is called with the number of podms read
    so far, for live ones also with how many there are and who is still being read, and in the
    end with None.
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
        self._read_ids: set[str] = set()
        self._stored_names: frozenset[str] = frozenset()
        self._unread: dict[str, Unread] = {}

    @property
    def skipped_lines(self) -> list[str]:
        """Return the lines about documents that were left out."""
        return [line for line in self.problems if not isinstance(line, (Remark, Unread))]

    @property
    def unread_lines(self) -> list[str]:
        """Return the lines about live pod managers that could not be read."""
        return [line for line in self.problems if isinstance(line, Unread)]

    @property
    def reported_ids(self) -> set[str]:
        """Return the ids of pod managers that reported by themselves, and were not read."""
        return self.live_ids - self._read_ids

    @property
    def unread_ids(self) -> set[str]:
        """Return the ids of live pod managers that could not be read."""
        return set(self._unread)

    def registry(self, state: str | None = None) -> Registry:
        """Return the registry whose state is at a URL, None for the usual one."""
        return Registry(self, state)

    def live_reader(self, live: ReadOptions, *, raw: bool = False) -> LiveReader:
        """Return the live pod managers that a command is about, to be read one after another.

        With ``raw`` readings carry their documents, which takes far more memory.
        """
        from valence_sched.inventory.live import LiveReader  # HTTP: only for who reads live ones

        cache = Homes(self.environ).cache
        registry = self.registry(live.state)
        return LiveReader(
            registry, live, now=self.now, cache=cache, progress=self._progress, raw=raw
        )

    def _records(self, sources: Sequence[str], live: ReadOptions) -> Iterator[recorded.Record]:
        """Yield the podms of inventories, then the live ones.

        Live ones are read when somebody chose them, and when no inventory is named.
        """
        self._unread.clear()
        self.live_ids.clear()
        self._read_ids.clear()
        self._stored_names = frozenset()
        named = self.named_sources(sources, live)
        for source in named:
            name, path = split_plugin_name(source)
            if not name:
                yield from recorded.records(source, self.input, self.problems)
                continue
            read = plugins.load(plugins.DRIVERS).get(name)
            with plugins.plugin_errors(f"driver {name!r}: {path}"):
                yield from read(path, self.input, self.problems)
        if live.selects_live or not named:
            yield from self._live_records(live, alone=not named)

    def named_sources(
        self, sources: Sequence[str], live: ReadOptions = DEFAULT_READ_OPTIONS
    ) -> list[str]:
        """Return the inventories that are read: those named, else those of the environment."""
        named = list(sources)
        if not named and not live.selects_live:
            named = self.environ.get("VALENCE_SCHED_INVENTORY", "").split(os.pathsep)
        return [source for source in named if source]

    def _live_records(self, live: ReadOptions, *, alone: bool) -> Iterator[recorded.Record]:
        readings = self.live_reader(live)
        if alone and not readings:
            raise UsageError(self._no_podm_message(live))
        self._stored_names = readings.stored_names
        try:
            for reading in readings:
                name = reading.podm.id
                self.live_ids.add(name)
                if name not in readings.reporting_names:
                    self._read_ids.add(name)
                if reading.failure is not None:
                    reason = reading.failure.removeprefix(f"{name}: ")
                    self._unread[name] = Unread(one_line(f"{name}: {reason}"))
                    self.problems.append(self._unread[name])
                self.problems += reading.problems
                yield recorded.Record(to_json(reading.podm), f"pod manager {name}", "$")
        finally:
            self._progress(None)
            self.remarks += readings.remarks

    def _no_podm_message(self, live: ReadOptions) -> str:
        if live.catalogue is not None:
            return "the service catalogue names no pod manager: it lists them as service type podm"
        if live.podm_files:
            return f"{', '.join(live.podm_files)}: no pod manager in it"
        where = self.registry(live.state).where
        return ("no inventory: name one with --inventory PATH, or - for stdin; or register a pod "
                f"manager with podm create NAME URL (none is in {where})")  # fmt: skip


def split_plugin_name(source: str) -> tuple[str, str]:
    """Return the name before the colon, empty for none, and the rest."""
    name, colon, path = source.partition(":")
    if not colon or not name.isidentifier() or Path(source).exists():
        return "", source
    return name, path
