# SPDX-License-Identifier: Apache-2.0
"""Inventories: completed by what is declared and what is held, and built into a View."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from valence_sched.drivers import recorded
from valence_sched.errors import (
    DuplicateId,
    InputError,
    InventoryIncomplete,
    InventoryStale,
    one_line,
)
from valence_sched.inventory.sources import SourceReader
from valence_sched.inventory.status import PodmReadTime, statuses, with_status
from valence_sched.model.age import age_s, format_age
from valence_sched.model.codec import decode
from valence_sched.model.custom_resource import DeclaredStocks, with_declared_stocks
from valence_sched.model.diff import Difference, PodmDocument, differences
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm, PodmStatus
from valence_sched.model.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

LIVENESS = "VALENCE_SCHED_LIVENESS"

P = TypeVar("P", bound=Podm[Any, Any])


class InventoryLoader(SourceReader):
    """The pod managers of all sources; with ``strict`` what could not be read is an error."""

    def view(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
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
        declared = self._declared_resources(resource_files)
        with _collector_paused():
            told = self._lean_podms(sources, live, declared, texts)
            for number, (podm, record) in enumerate(self._with_status(told, sources, live), 1):
                try:
                    builder.add(podm, record.file, record.place)
                except InputError as error:
                    self._skip(error)
                if number % 256 == 0:
                    self._progress(number)
            self._check(len(builder.podms), sources, strict)
            self._remark_declared(declared)
            view = builder.view()
        self._progress(None)
        return view

    def podms(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> Iterator[FullPodm]:
        """Yield pod managers whole, as their documents describe them; errors as for a view."""
        for podm, _ in self.podm_records(
            sources, strict=strict, resource_files=resource_files, live=live
        ):
            yield podm

    def podm_records(
        self,
        sources: Sequence[str],
        *,
        strict: bool = False,
        resource_files: Sequence[str] = (),
        live: ReadOptions = DEFAULT_READ_OPTIONS,
    ) -> Iterator[tuple[FullPodm, recorded.Record]]:
        """Yield pod managers as :meth:`podms`, each with its record, which may have a tree."""
        builder = ViewBuilder()
        declared = self._declared_resources(resource_files)
        for number, record in enumerate(self._records(sources, live), 1):
            try:
                builder.add(
                    decode(record.json, LeanPodm, record.file, record.place),
                    record.file,
                    record.place,
                )
                podm = decode(record.json, FullPodm, record.file, record.place)
                yield (
                    with_declared_stocks(self._with_read_time(podm, record, live), declared),
                    record,
                )
            except InputError as error:
                self._skip(error)
            self._progress(number)
        self._progress(None)
        self._check(len(builder.podms), sources, strict)
        self._remark_declared(declared)

    def statuses(self, told: Iterable[PodmReadTime], live: ReadOptions) -> dict[str, PodmStatus]:
        """Return who of those that were not asked in this run is alive; errors as for liveness.

        ``told`` are ids, each with when it was read.
        """
        named = live.liveness or self.environ.get(LIVENESS)
        unasked = ((id_, read_at) for id_, read_at in told if id_ not in self._read_ids)
        return statuses(named, unasked, self.registry(live.state), self.now())

    def _lean_podms(
        self, sources: Sequence[str], live: ReadOptions, declared: DeclaredStocks | None,
        texts: dict[str, bytes] | None,
    ) -> Iterator[tuple[LeanPodm, recorded.Record]]:  # fmt: skip
        """Yield pod managers as they told, the inside of their blocks undecoded."""
        decoder = msgspec.json.Decoder(LeanPodm)
        for record in self._records(sources, live):
            try:
                podm = self._with_read_time(_decode_lean(decoder, record), record, live)
            except InputError as error:
                self._skip(error)
                continue
            if texts is not None:
                texts[podm.id] = bytes(record.json)
            yield with_declared_stocks(podm, declared), record

    def _with_status(
        self,
        told: Iterator[tuple[LeanPodm, recorded.Record]],
        sources: Sequence[str],
        live: ReadOptions,
    ) -> Iterator[tuple[LeanPodm, recorded.Record]]:
        """Yield pod managers as they stand: recorded ones so, unless the state is named, too."""
        recordings = bool(self.named_sources(sources, live)) and not live.selects_live
        named = live.liveness or self.environ.get(LIVENESS)
        every = live.subtract_claims or live.state is not None
        if recordings and not every and not named:
            yield from told
            return
        podms, records = [], []
        for podm, record in told:
            podms.append(podm)
            records.append(record)
        kept = {podm.id for podm in podms} if every else self._stored_names
        alive = self.statuses(((podm.id, podm.read_at) for podm in podms), live)
        found = with_status(podms, self.registry(live.state), stored=kept, statuses=alive)
        yield from zip(found, records, strict=True)

    def differences(self, old: str, new: str) -> Iterator[Difference]:
        """Yield what came, went and changed from one inventory to another; errors as for a view."""
        yield from differences(self._document_texts(old), self._document_texts(new))

    def _document_texts(self, source: str) -> Iterator[PodmDocument]:
        """Yield the pod managers of a source as they stand; no pod manager is an error."""
        found = 0
        for found, record in enumerate(self._records([source], DEFAULT_READ_OPTIONS), 1):
            yield PodmDocument(bytes(record.json), record.file, record.place)
            self._progress(found)
        self._progress(None)
        self._check(found, [source], strict=False)

    def _declared_resources(self, paths: Sequence[str]) -> DeclaredStocks | None:
        resources = self.resources(paths)
        return DeclaredStocks(resources) if resources else None

    def _remark_declared(self, declared: DeclaredStocks | None) -> None:
        if declared:
            for remark in (*declared.remarks, *declared.unmatched_remarks()):
                self.diagnostics.remark(remark)

    def _with_read_time(self, podm: P, record: recorded.Record, live: ReadOptions) -> P:
        """Return a podm with the time it was read at, if it is not too long ago to decide on."""
        if podm.read_at is None and record.captured_at is not None:
            podm = msgspec.structs.replace(podm, read_at=record.captured_at)
        limit = live.max_age_s
        if limit is None or podm.id in self._unread:  # who is silent is named, and not chosen
            return podm
        age = age_s(podm.read_at, self.now())
        if age is None or age > limit:
            known = f"read {format_age(age)} ago" if age is not None else "read nobody knows when"
            raise InventoryStale(one_line(f"pod manager {podm.id!r}: {known}, and at most "
                                          f"{format_age(limit)} ago is allowed"))  # fmt: skip
        return podm

    def _skip(self, error: InputError) -> None:
        """Remember a document that is skipped; one whose blocks nobody could tell is not."""
        if isinstance(error, DuplicateId):
            raise error
        self.diagnostics.skip(error)

    def _check(self, found: int, sources: Sequence[str], strict: bool) -> None:
        if strict and (lost := [*self.unread_lines, *self.skipped_lines]):
            others = f", and {len(lost) - 1} more" if len(lost) > 1 else ""
            raise InventoryIncomplete(f"incomplete inventory: {lost[0]}{others}")
        if not found and len(self.diagnostics) == 1:
            (only,) = self.diagnostics
            self.diagnostics.clear()
            raise InputError(only.text)
        if not found:
            hint = "see what was skipped" if self.skipped_lines else "is this the right file?"
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


def _decode_lean(decoder: msgspec.json.Decoder[LeanPodm], record: recorded.Record) -> LeanPodm:
    """Decode a podm fast; only a document that fails is decoded again for its error's words."""
    try:
        return decoder.decode(record.json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(record.json, LeanPodm, record.file, record.place)
