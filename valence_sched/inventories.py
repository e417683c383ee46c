# SPDX-License-Identifier: Apache-2.0
"""Inventories: read by their drivers, completed by what is declared, and built into a View."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from valence_sched.configuration import Configuration
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.errors import (
    DuplicateId,
    InputError,
    InventoryIncomplete,
    Remark,
    UsageError,
)
from valence_sched.model.build import ViewBuilder
from valence_sched.model.difference import Difference, Text, differences
from valence_sched.model.documents import decode
from valence_sched.model.inventory import FullPodm, LeanPodm
from valence_sched.model.resource import Declared, replaced
from valence_sched.model.view import View

Progress = Callable[[int | None], None]


class Inventories(Configuration):
    """The pod managers of files, directories, archives and standard input.

    ``problems`` collects one line per document that could not be read, and remarks on those
    that are doubtful; with ``strict`` the first document that could not be read is an error.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        stdin: BinaryIO | None = None,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(environ, stdin)
        self._progress = progress or (lambda _podms: None)
        self.problems: list[str] = []

    @property
    def skipped(self) -> list[str]:
        """Return the lines about documents that were left out."""
        return [line for line in self.problems if not isinstance(line, Remark)]

    def view(
        self, sources: Sequence[str], *, strict: bool = False, resource_files: Sequence[str] = ()
    ) -> View:
        """Read inventories into one View.

        Raises:
            UsageError: no inventory is named.
            InputError: a source cannot be read at all, holds no pod manager, or repeats an id.
            InventoryIncomplete: with ``strict``, a document had to be skipped.
        """
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        decoder = msgspec.json.Decoder(LeanPodm)
        with _collector_paused():
            for number, record in enumerate(self._records(sources), 1):
                try:
                    podm = replaced(_quick(decoder, record), declared)
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
        self, sources: Sequence[str], *, strict: bool = False, resource_files: Sequence[str] = ()
    ) -> Iterator[FullPodm]:
        """Yield pod managers whole, as their documents describe them; errors as for a view."""
        builder = ViewBuilder()
        declared = self._declared(resource_files)
        for number, record in enumerate(self._records(sources), 1):
            try:
                builder.add(
                    decode(record.json, LeanPodm, record.file, record.place),
                    record.file,
                    record.place,
                )
                podm = decode(record.json, FullPodm, record.file, record.place)
                yield replaced(podm, declared)
            except InputError as error:
                self._skip(error)
            self._progress(number)
        self._progress(None)
        self._check(len(builder.podms), sources, strict)
        self._tell_declared(declared)

    def differences(self, old: str, new: str) -> Iterator[Difference]:
        """Yield what came, went and changed from one inventory to another; errors as for a view."""
        yield from differences(self._texts(old), self._texts(new))

    def _texts(self, source: str) -> Iterator[Text]:
        """Yield the pod managers of a source as they stand; no pod manager is an error."""
        found = 0
        for found, record in enumerate(self._records([source]), 1):
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

    def _records(self, sources: Sequence[str]) -> Iterator[recorded.Record]:
        named = sources or self.environ.get("VALENCE_SCHED_INVENTORY", "").split(os.pathsep)
        if not any(named):
            raise UsageError("no inventory: name one with --inventory PATH, or - for stdin")
        for source in filter(None, named):
            read, path = _driver(source)
            yield from read(path, self.input, self.problems)

    def _skip(self, error: InputError) -> None:
        """Remember a document that is skipped; one whose blocks nobody could tell is not."""
        if isinstance(error, DuplicateId):
            raise error
        self.problems.append(str(error))

    def _check(self, found: int, sources: Sequence[str], strict: bool) -> None:
        if strict and (skipped := self.skipped):
            others = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
            raise InventoryIncomplete(f"incomplete inventory: {skipped[0]}{others}")
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
