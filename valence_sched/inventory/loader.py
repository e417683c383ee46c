# SPDX-License-Identifier: Apache-2.0
"""Inventory loader: reads all sources, adds declared resources and status, and builds a View."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from valence_sched import files
from valence_sched.config.settings import Homes, split_plugin_name
from valence_sched.drivers import recorded
from valence_sched.errors import DuplicateId, InputError, InventoryIncomplete
from valence_sched.inventory.old_readings import OldReadings, stale_error
from valence_sched.inventory.sources import INVENTORY, SourceReader
from valence_sched.inventory.written_podm import check_podm, contradicted_limits, with_use_of_nodes
from valence_sched.model.codec import decode
from valence_sched.model.custom_resource import DeclaredResources, with_declared
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm, PodmStatus, to_json
from valence_sched.model.podm_address import conflict_text
from valence_sched.model.quantity import age_s
from valence_sched.model.reading import ReadOptions, Selection
from valence_sched.view.builder import ViewBuilder, repeated_id
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.inventory.status import PodmReadTime
    from valence_sched.inventory.view_cache import ViewCache
    from valence_sched.model.diff import Difference, PodmDocument

LIVENESS = "VALENCE_SCHED_LIVENESS"
NO_CACHE = "VALENCE_SCHED_NO_CACHE"
MIN_CACHED_BYTES = 8 << 20  # a smaller file is read about as fast as its cached view

P = TypeVar("P", bound=Podm[Any, Any])
PlacedPodm = tuple[LeanPodm, str, str]  # with its file and its place in that


class InventoryLoader:
    """Loads the pod managers of all sources; with ``strict`` an unreadable one is an error.

    The view of an inventory file of ``min_cached_bytes`` or more is cached.
    """

    def __init__(self, sources: SourceReader, min_cached_bytes: int = MIN_CACHED_BYTES) -> None:
        self._sources, self._config = sources, sources.config
        self._diagnostics, self._min_cached_bytes = sources.diagnostics, min_cached_bytes

    def view(self, selection: Selection, texts: dict[str, bytes] | None = None) -> View:
        """Read inventories and live pod managers into one View.

        Blocks and amounts that claims hold are in use on pod managers that the state knows.
        ``texts`` gets the JSON of each pod manager as it was read, by its id. The view of one large
        file, to which nothing else is added, comes from the cache if the file has not changed.

        Raises:
            UsageError: no inventory is named, and no pod manager is known.
            InputError: a source cannot be read at all, holds no pod manager, or repeats an id.
            InventoryIncomplete: with ``strict``, something could not be read.
            InventoryStale: something is older than ``selection.live`` allows.
        """
        source = self._cacheable_source(selection) if texts is None else None
        if source is None:
            return self._build(selection, texts)
        cache = self._view_cache()
        with collector_paused():
            cached = cache.load(source)
        if cached is None:
            return self._build(selection, None)
        if cached.view is not None:
            return self._checked_again(cached.view, selection)
        before, trees = len(self._diagnostics), set[str]()
        view = self._build(selection, None, trees=trees)
        # a dialect may read a tree otherwise tomorrow, and what is doubtful is told each time
        if not trees and {one.kind for one in self._diagnostics[before:]} <= {"warning"}:
            cache.save(cached.key, view)
        return view

    def view_and_podms(self, selection: Selection) -> tuple[View, tuple[LeanPodm, ...]]:
        """Return a view and, in its order, the pod managers that it is of; errors as for a view."""
        podms: list[LeanPodm] = []
        return self._build(selection, None, podms), tuple(podms)

    def _build(
        self,
        selection: Selection,
        texts: dict[str, bytes] | None,
        added: list[LeanPodm] | None = None,
        trees: set[str] | None = None,
    ) -> View:
        builder, old = ViewBuilder(), OldReadings(selection.live.warn_age_s)
        declared = self._declared_resources(selection)
        with collector_paused():
            placed = self._lean_podms(selection, declared, texts, old, trees)
            podms = self._with_status(placed, selection, requests=added is not None)
            for podm, file, place in podms:
                try:
                    builder.add(podm, file, place)
                except InputError as error:
                    self._skip(error)
                else:
                    if added is not None:
                        added.append(podm)
            self.check(len(builder.podms), selection)
            self._remark_declared(declared)
            old.warn(self._diagnostics)
            return builder.view()

    def _view_cache(self) -> ViewCache:
        from valence_sched.inventory.view_cache import ViewCache  # only for large files

        return ViewCache(
            Homes(self._config.environ).cache / "views",
            self._config.remarks.append,
            now_ns=lambda: int(self._sources.now().timestamp() * 1e9),
            min_bytes=self._min_cached_bytes,
        )

    def _cacheable_source(self, selection: Selection) -> str | None:
        """Return the only source of a selection if it is a large file and decides alone."""
        sources, live = self._sources.named_sources(selection), selection.live
        if selection.no_cache or self._config.environ.get(NO_CACHE) or len(sources) != 1:
            return None
        (source,) = sources
        if (
            selection.stated.get(source)
            or self._changes_recordings(live)
            or source == "-"
            or split_plugin_name(source)[0]
        ):
            return None
        try:
            large = os.stat(source).st_size >= self._min_cached_bytes
        except (OSError, ValueError):  # reading it says why
            return None
        return source if large and self._declared_resources(selection) is None else None

    def _changes_recordings(self, live: ReadOptions) -> bool:
        """Return whether a state or a liveness changes what was recorded, or live ones join it."""
        changes = live.selects_live or live.subtract_claims or live.state is not None
        return bool(changes or live.liveness or self._config.environ.get(LIVENESS))

    def _checked_again(self, view: View, selection: Selection) -> View:
        """Return a cached view after what depends on the time; errors as for a view."""
        self._sources.forget()
        old = OldReadings(selection.live.warn_age_s)
        for podm in view.podms:
            self._check_age(podm, selection.live, old)
        old.warn(self._diagnostics)
        return view

    def podms(self, selection: Selection) -> Iterator[FullPodm]:
        """Yield pod managers whole, as their documents describe them; errors as for a view."""
        for podm, _ in self.podm_records(selection):
            yield podm

    def podm_records(self, selection: Selection) -> Iterator[tuple[FullPodm, recorded.Record]]:
        """Yield pod managers as :meth:`podms`, each with its record, which may have a tree."""
        validator, services = RecordValidator(), _Services()
        old = OldReadings(selection.live.warn_age_s)
        declared = self._declared_resources(selection)
        for record in self._sources.records(selection):
            try:
                podm = validator.podm(record)  # also what a driver made
                services.check(podm, record)
                podm = self._checked(podm, record, lean=False)
                podm = self._with_read_time(podm, record, selection.live, old)
                yield with_declared(podm, declared), record
            except InputError as error:
                self._skip(error)
        self.check(len(validator), selection)
        self._remark_declared(declared)
        old.warn(self._diagnostics)

    def convert(self, selection: Selection, output: str) -> tuple[int, int]:
        """Write inventories as one file; return the numbers of its podms and blocks."""
        return files.write_inventory(self.podms(selection), output)

    def statuses(self, reports: Iterable[PodmReadTime], live: ReadOptions) -> dict[str, PodmStatus]:
        """Return the liveness of the pod managers that were not read in this run, by id.

        ``reports`` are ids, each with the time it was read. Errors as for liveness.
        """
        from valence_sched.inventory.status import statuses  # only of pod managers not read now

        liveness = live.liveness or self._config.environ.get(LIVENESS)
        place = "--liveness" if live.liveness else LIVENESS
        unread = ((id_, read_at) for id_, read_at in reports if id_ not in self._sources.read_ids)
        registry = self._sources.registry(live.state)
        return statuses(liveness, unread, registry, self._sources.now(), place)

    def differences(self, old: str, new: str) -> Iterator[Difference]:
        """Yield each difference from one inventory to another; errors as for a view."""
        from valence_sched.model.diff import differences

        return differences(self._documents(old), self._documents(new))

    def check(self, count: int, selection: Selection) -> None:
        """Raise InputError for a count of 0, InventoryIncomplete for gaps if ``strict``."""
        skipped = self._diagnostics.lines("skipped")
        if selection.strict and (lines := [*self._diagnostics.lines("unread"), *skipped]):
            others = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
            raise InventoryIncomplete(f"incomplete inventory: {lines[0]}{others}")
        if count:
            return
        if len(self._diagnostics) == 1:
            (only,) = self._diagnostics
            self._diagnostics.clear()
            raise InputError(only.text)
        hint = "see what was skipped" if skipped else "is this the right file?"
        file = ", ".join(selection.sources) or INVENTORY
        raise InputError(file, "$", "no pod manager", "at least one", hint)

    def skipped(self) -> list[str]:
        """Return a line for each pod manager and document that could not be read."""
        return [*self._diagnostics.lines("unread"), *self._diagnostics.lines("skipped")]

    def _lean_podms(
        self,
        selection: Selection,
        declared: DeclaredResources | None,
        texts: dict[str, bytes] | None,
        old: OldReadings,
        trees: set[str] | None,
    ) -> Iterator[PlacedPodm]:
        """Yield pod managers without the inside of their blocks.

        ``texts`` as of a view, ``trees`` gets the files that are Redfish trees.
        """
        decoder, services = msgspec.json.Decoder(LeanPodm), _Services()
        for record in self._sources.records(selection):
            json = record.json
            try:
                podm = _decode_lean(decoder, json, record)
                services.check(podm, record)
                checked = self._checked(podm, record, lean=True)
                json = json if checked is podm else to_json(checked)
                podm = self._with_read_time(checked, record, selection.live, old)
            except InputError as error:
                self._skip(error)
                continue
            if texts is not None:
                texts[podm.id] = bytes(json)
            if trees is not None and record.tree is not None:
                trees.add(record.file)
            yield with_declared(podm, declared), record.file, record.place

    def _with_status(
        self, placed: Iterator[PlacedPodm], selection: Selection, *, requests: bool
    ) -> Iterator[PlacedPodm]:
        """Yield pod managers with their claims subtracted and their status.

        With ``requests`` their nodes say what they were asked for. Recorded ones stay as they are,
        unless the selection also names a state or a liveness.
        """
        live = selection.live
        if self._sources.named_sources(selection) and not self._changes_recordings(live):
            yield from placed
            return
        from valence_sched.inventory.status import with_status  # claims: only of a state

        every = live.subtract_claims or live.state is not None
        podms, places = [], []
        for podm, file, place in placed:
            podms.append(podm)
            places.append((file, place))
        stored = {podm.id for podm in podms} if every else self._sources.stored_names
        by_id = self.statuses(((podm.id, podm.read_at) for podm in podms), live)
        registry = self._sources.registry(live.state)
        with_claims = with_status(podms, registry, stored=stored, statuses=by_id, requests=requests)
        for podm, (file, place) in zip(with_claims, places, strict=True):
            yield podm, file, place

    def _documents(self, source: str) -> Iterator[PodmDocument]:
        from valence_sched.model.diff import PodmDocument

        selection = Selection(sources=(source,))
        count = 0
        for record in self._sources.records(selection):
            count += 1
            yield PodmDocument(bytes(record.json), record.file, record.place)
        self.check(count, selection)

    def _declared_resources(self, selection: Selection) -> DeclaredResources | None:
        resources = self._config.resources(selection.resource_files)
        return DeclaredResources(resources) if resources else None

    def _remark_declared(self, declared: DeclaredResources | None) -> None:
        if declared:
            for remark in (*declared.remarks, *declared.unmatched_remarks()):
                self._diagnostics.remark(remark)

    def _checked(self, podm: P, record: recorded.Record, *, lean: bool) -> P:
        """Return a pod manager that agrees with itself, with what its zones state."""
        if record.stated:
            capabilities = {**record.stated, **podm.capabilities}
            podm = msgspec.structs.replace(podm, capabilities=capabilities)
        if isinstance(record.content, Podm):
            return podm
        check_podm(podm, record.file, record.place)
        podm, remark = with_use_of_nodes(podm, record.file, record.place, lean=lean)
        if remark:
            self._diagnostics.remark(remark)
        for remark in contradicted_limits(podm, record.file, record.place):
            self._diagnostics.remark(remark)
        return podm

    def _with_read_time(
        self, podm: P, record: recorded.Record, live: ReadOptions, old: OldReadings
    ) -> P:
        if podm.read_at is None and record.captured_at is not None:
            podm = msgspec.structs.replace(podm, read_at=record.captured_at)
        self._check_age(podm, live, old)
        return podm

    def _check_age(self, podm: Podm[Any, Any], live: ReadOptions, old: OldReadings) -> None:
        """Note when a pod manager was read; raise InventoryStale if that is too long ago."""
        now = self._sources.now()
        old.note(podm.id, podm.read_at, now)
        limit = live.max_age_s
        if limit is None or podm.id in self._sources.unread_ids:  # noted already, never chosen
            return
        age = age_s(podm.read_at, now)
        if age is None or age > limit:
            raise stale_error(podm.id, podm.read_at, limit, now)

    def _skip(self, error: InputError) -> None:
        """Note a document that is skipped; a repeated id is refused, its blocks are ambiguous."""
        if isinstance(error, DuplicateId):
            raise error
        self._diagnostics.skip(error)


class RecordValidator:
    """Validates records one after another, without building anything of those that are sound."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._files)

    def podm(self, record: recorded.Record) -> FullPodm:
        """Return the pod manager of a record; a noun that a driver made is returned as it is.

        Raises:
            InputError, DuplicateId: a builder of views refuses it; an earlier record has its id.
        """
        podm = _decode_sound(record)
        if podm is None:  # a builder says what is wrong
            lean = decode(record.json, LeanPodm, record.file, record.place)
            self._check_id(lean.id, record)
            ViewBuilder().add(lean, record.file, record.place)
            podm = decode(record.json, FullPodm, record.file, record.place)
        self._check_id(podm.id, record)
        self._files[podm.id] = record.file
        return record.content if isinstance(record.content, Podm) else podm

    def _check_id(self, podm_id: str, record: recorded.Record) -> None:
        if podm_id in self._files:
            raise repeated_id(podm_id, self._files[podm_id], record.file, record.place)


class _Services:
    """The services of an inventory: the second name of one is left out, it has the same blocks."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def check(self, podm: Podm[Any, Any], record: recorded.Record) -> None:
        """Raise InputError for a pod manager whose service has another name before."""
        if podm.identity is None:
            return
        other = self._names.setdefault(podm.identity, podm.id)
        if other != podm.id:
            text = conflict_text(podm.id, podm.identity, other)
            raise InputError(record.file, f"{record.place}.identity", text)


def _decode_sound(record: recorded.Record) -> FullPodm | None:
    try:
        podm = decode(record.json, FullPodm, record.file, record.place)
    except InputError:
        return None
    pools = {pool.id for pool in podm.pools}
    uris = {block.uri for block in podm.blocks}
    unique = len(pools) == len(podm.pools) and len(uris) == len(podm.blocks)
    named = [block.pools for block in podm.blocks] + [stock.pools for stock in podm.stocks]
    listed = pools.issuperset(itertools.chain.from_iterable(named))
    return podm if unique and listed else None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from walking a million new objects again and again.

    The objects made meanwhile live as long as the inventory: later walks leave them out.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _decode_lean(
    decoder: msgspec.json.Decoder[LeanPodm], json: bytes | msgspec.Raw, record: recorded.Record
) -> LeanPodm:
    """Decode a podm fast; a document that fails is decoded again for the text of its error."""
    try:
        return decoder.decode(json)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode(json, LeanPodm, record.file, record.place)
