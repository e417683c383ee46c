# SPDX-License-Identifier: Apache-2.0
"""Inventory loader: reads all sources, adds declared resources and status, and builds a View."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from valence_sched import errors, files
from valence_sched.config.settings import Homes, split_plugin_name
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.inventory import validation
from valence_sched.inventory.old_readings import OldReadings, stale_error
from valence_sched.inventory.sources import INVENTORY, SourceReader
from valence_sched.model import diff
from valence_sched.model.claim import NO_USAGE, Usage, subtract_usage
from valence_sched.model.custom_resource import DeclaredResources, with_declared
from valence_sched.model.inventory import FullPodm, LeanPodm, Node, Podm, PodmStatus, to_json
from valence_sched.model.quantity import age_s
from valence_sched.model.reading import ReadOptions, Selection, Sign
from valence_sched.view.builder import ViewBuilder
from valence_sched.view.view import View

if TYPE_CHECKING:
    from valence_sched.inventory.registry import Registry
    from valence_sched.model.claim import ComposedNode

LIVENESS = "VALENCE_SCHED_LIVENESS"
NO_CACHE = "VALENCE_SCHED_NO_CACHE"
MIN_CACHED_BYTES = 8 << 20  # a smaller file is read about as fast as its cached view

P = TypeVar("P", bound=Podm[Any, Any])
PodmReadTime = tuple[str, str | None]  # the id of a pod manager, and the time of its reading
PlacedPodm = tuple[LeanPodm, str, str]  # with its file and its place in the file


class InventoryLoader:
    """Loads the pod managers of all sources; the view of a large inventory file is cached."""

    def __init__(self, sources: SourceReader, min_cached_bytes: int = MIN_CACHED_BYTES) -> None:
        self._sources, self._config = sources, sources.config
        self._diagnostics, self._min_cached_bytes = sources.diagnostics, min_cached_bytes

    def view(self, selection: Selection, texts: dict[str, bytes] | None = None) -> View:
        """Read inventories and live pod managers into one View.

        Blocks and amounts that claims hold are in use on pod managers that the state knows.
        ``texts`` gets the JSON of each pod manager as it was read, by its id.

        Raises:
            UsageError: no inventory is named, and no pod manager is known.
            InputError: a source cannot be read at all, has no pod manager, or repeats an id.
            InventoryIncomplete: with ``strict``, something could not be read.
            InventoryStale: something is older than ``selection.live`` allows.
        """
        source = self._cacheable_source(selection) if texts is None else None
        if source is None:
            return self._build(selection, texts)
        from valence_sched.inventory.view_cache import ViewCache  # only for large files

        cache = ViewCache(
            Homes(self._config.environ).cache / "views",
            self._config.remarks.append,
            now_ns=lambda: int(self._sources.now().timestamp() * 1e9),
            min_bytes=self._min_cached_bytes,
        )
        with collector_paused():
            cached = cache.load(source)
        if cached is None:
            return self._build(selection, None)
        if cached.view is not None:
            return self._checked_again(cached.view, selection)
        before, trees = len(self._diagnostics), set[str]()
        view = self._build(selection, None, trees=trees)
        # a later dialect may read a tree differently, and remarks are printed each time
        if not trees and {one.kind for one in self._diagnostics[before:]} <= {"warning"}:
            cache.save(cached.key, view)
        return view

    def view_and_podms(self, selection: Selection) -> tuple[View, tuple[LeanPodm, ...]]:
        """Return a view and its pod managers in the view's order; errors as for a view."""
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
                except errors.InputError as error:
                    self._skip(error)
                else:
                    if added is not None:
                        added.append(podm)
            self.check(len(builder.podms), selection)
            self._remark_declared(declared)
            old.warn(self._diagnostics)
            return builder.view()

    def _cacheable_source(self, selection: Selection) -> str | None:
        """Return the source of a selection if it is a single large file."""
        sources, live = self._sources.named_sources(selection), selection.live
        if selection.no_cache or self._config.environ.get(NO_CACHE) or len(sources) != 1:
            return None
        (source,) = sources
        is_other = source == "-" or split_plugin_name(source)[0]
        if is_other or selection.stated.get(source) or self._changes_recordings(live):
            return None
        try:
            large = os.stat(source).st_size >= self._min_cached_bytes
        except (OSError, ValueError):  # reading it raises the error
            return None
        return source if large and self._declared_resources(selection) is None else None

    def _changes_recordings(self, live: ReadOptions) -> bool:
        changes = live.selects_live or live.subtract_claims or live.state is not None
        return bool(changes or live.liveness or self._config.environ.get(LIVENESS))

    def _checked_again(self, view: View, selection: Selection) -> View:
        """Return a cached view after the checks that depend on the time; errors as for a view."""
        self._sources.forget()
        old = OldReadings(selection.live.warn_age_s)
        for podm in view.podms:
            self._check_age(podm, selection.live, old)
        old.warn(self._diagnostics)
        return view

    def podms(self, selection: Selection) -> Iterator[FullPodm]:
        """Yield complete pod managers, as their documents describe them; errors as for a view."""
        return (podm for podm, _ in self.podm_records(selection))

    def podm_records(self, selection: Selection) -> Iterator[tuple[FullPodm, recorded.Record]]:
        """Yield pod managers as :meth:`podms`, each with its record, which may have a tree."""
        validator, services = validation.RecordValidator(), validation.Services()
        old = OldReadings(selection.live.warn_age_s)
        declared = self._declared_resources(selection)
        for record in self._sources.records(selection):
            try:
                podm = validator.podm(record)  # also the record of a driver
                services.check(podm, record)
                podm = self._checked(podm, record, lean=False)
                podm = self._with_read_time(podm, record, selection.live, old)
                yield with_declared(podm, declared), record
            except errors.InputError as error:
                self._skip(error)
        self.check(len(validator), selection)
        self._remark_declared(declared)
        old.warn(self._diagnostics)

    def convert(self, selection: Selection, output: str) -> tuple[int, int]:
        """Write inventories as one file; return the numbers of its podms and blocks."""
        return files.write_inventory(self.podms(selection), output)

    def statuses(self, reports: Iterable[PodmReadTime], live: ReadOptions) -> dict[str, PodmStatus]:
        """Return the liveness of the pod managers that were not read in this run, by id.

        ``reports`` are ids with the times of their readings. Errors as for liveness.
        """
        liveness = live.liveness or self._config.environ.get(LIVENESS)
        place = "--liveness" if live.liveness else LIVENESS
        unread = ((id_, read_at) for id_, read_at in reports if id_ not in self._sources.read_ids)
        registry = self._sources.registry(live.state)
        return _statuses(liveness, unread, registry, self._sources.now(), place)

    def differences(self, old: str, new: str) -> Iterator[diff.Difference]:
        """Yield each difference from one inventory to another; errors as for a view."""
        return diff.differences(self._documents(old), self._documents(new))

    def check(self, count: int, selection: Selection) -> None:
        """Raise InputError for a count of 0, InventoryIncomplete for gaps if ``strict``."""
        skipped = self._diagnostics.lines("skipped")
        if selection.strict and (lines := [*self._diagnostics.lines("unread"), *skipped]):
            others = f", and {len(lines) - 1} more" if len(lines) > 1 else ""
            raise errors.InventoryIncomplete(f"incomplete inventory: {lines[0]}{others}")
        if count:
            return
        if len(self._diagnostics) == 1:
            (only,) = self._diagnostics
            self._diagnostics.clear()
            raise errors.InputError(only.text)
        hint = "see the skipped documents" if skipped else "is this the right file?"
        file = ", ".join(selection.sources) or self._sources.config.origin(INVENTORY)
        raise errors.InputError(file, "$", "no pod manager", "at least one", hint)

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
        """Yield lean pod managers; ``texts`` as for a view, ``trees`` gets the files of trees."""
        decoder, services = msgspec.json.Decoder(LeanPodm), validation.Services()
        for record in self._sources.records(selection):
            json = record.json
            try:
                podm = validation.decode_lean(decoder, json, record)
                services.check(podm, record)
                checked = self._checked(podm, record, lean=True)
                json = json if checked is podm else to_json(checked)
                podm = self._with_read_time(checked, record, selection.live, old)
            except errors.InputError as error:
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
        """Yield pod managers with claims subtracted and status, as for :func:`_with_claims`.

        Recorded pod managers stay unchanged, unless the selection also names a state or a liveness.
        """
        live = selection.live
        if self._sources.named_sources(selection) and not self._changes_recordings(live):
            yield from placed
            return
        every = live.subtract_claims or live.state is not None
        both = list(placed)
        podms = [podm for podm, *_ in both]
        stored = {podm.id for podm in podms} if every else self._sources.stored_names
        by_id = self.statuses(((podm.id, podm.read_at) for podm in podms), live)
        registry = self._sources.registry(live.state)
        with_claims = _with_claims(
            podms, registry, stored=stored, statuses=by_id, requests=requests
        )
        for podm, (_, file, place) in zip(with_claims, both, strict=True):
            yield podm, file, place

    def _documents(self, source: str) -> Iterator[diff.PodmDocument]:
        selection, count = Selection(sources=(source,)), 0
        for record in self._sources.records(selection):
            count += 1
            yield diff.PodmDocument(bytes(record.json), record.file, record.place)
        self.check(count, selection)

    def _declared_resources(self, selection: Selection) -> DeclaredResources | None:
        resources = self._config.resources(selection.resource_files)
        return DeclaredResources(resources) if resources else None

    def _remark_declared(self, declared: DeclaredResources | None) -> None:
        if declared:
            for remark in (*declared.remarks, *declared.unmatched_remarks()):
                self._diagnostics.remark(remark)

    def _checked(self, podm: P, record: recorded.Record, *, lean: bool) -> P:
        """Return a consistent pod manager, with the capabilities that its zones state."""
        if record.stated:
            capabilities = {**record.stated, **podm.capabilities}
            podm = replace(podm, capabilities=capabilities)
        if isinstance(record.content, Podm):
            return podm
        validation.check_podm(podm, record.file, record.place)
        podm, remark = validation.with_use_of_nodes(podm, record.file, record.place, lean=lean)
        if remark:
            self._diagnostics.remark(remark)
        for remark in validation.contradicted_limits(podm, record.file, record.place):
            self._diagnostics.remark(remark)
        return podm

    def _with_read_time(
        self, podm: P, record: recorded.Record, live: ReadOptions, old: OldReadings
    ) -> P:
        if podm.read_at is None and record.captured_at is not None:
            podm = replace(podm, read_at=record.captured_at)
        self._check_age(podm, live, old)
        return podm

    def _check_age(self, podm: Podm[Any, Any], live: ReadOptions, old: OldReadings) -> None:
        """Note when a pod manager was read; raise InventoryStale if the reading is too old."""
        now = self._sources.now()
        old.note(podm.id, podm.read_at, now)
        limit = live.max_age_s
        if (
            limit is None or podm.id in self._sources.unread_ids
        ):  # unread pod managers are noted, and never chosen
            return
        age = age_s(podm.read_at, now)
        if age is None or age > limit:
            raise stale_error(podm.id, podm.read_at, limit, now)

    def _skip(self, error: errors.InputError) -> None:
        """Note a skipped document; a repeated ID is an error, as its blocks are ambiguous."""
        if isinstance(error, errors.DuplicateId):
            raise error
        self._diagnostics.skip(error)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would traverse a million new objects repeatedly.

    The objects made meanwhile live as long as the inventory: later traversals skip them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _with_claims(
    podms: Sequence[LeanPodm],
    registry: Registry,
    *,
    stored: Collection[str],
    statuses: dict[str, PodmStatus],
    requests: bool = False,
) -> Iterator[LeanPodm]:
    """Yield pod managers with their status; those in ``stored`` without hardware of claims.

    With ``requests`` their nodes have the flavor and the request that the store knows.
    """
    names = [podm.id for podm in podms if podm.id in stored]
    usages: dict[str, Usage] = {}
    composed: dict[str, dict[str, ComposedNode]] = {}
    if names and not registry.empty:
        with registry.store() as store:
            usages = store.usages(names)
            for node in store.nodes.list() if requests else ():
                if node.podm in stored:
                    composed.setdefault(node.podm, {})[node.uri] = node
    for podm in podms:
        status = statuses.get(podm.id, podm.status)
        same = status == podm.status
        with_its_status = podm if same else replace(podm, status=status)
        if known := composed.get(podm.id):
            nodes = tuple(_with_request(node, known.get(node.uri)) for node in podm.nodes)
            with_its_status = replace(with_its_status, nodes=nodes)
        yield subtract_usage(with_its_status, usages.get(podm.id, NO_USAGE))


def _statuses(
    liveness: str | None,
    reports: Iterable[PodmReadTime],
    registry: Registry,
    now: datetime,
    place: str = "--liveness",
) -> dict[str, PodmStatus]:
    """Return the status of the reported pod managers by ID, Online or Offline.

    ``liveness`` names the plug-in, with its argument after a colon; ``place`` is the option or
    variable that errors name: UnknownName, PluginError, UsageError.
    """
    if not liveness:
        return {}
    name, _, argument = liveness.partition(":")
    decide = plugins.load(plugins.LIVENESS).get(name, place)
    report_ages_s: dict[str, float] = {}
    if not registry.empty:
        with registry.store() as store:
            report_ages_s = store.report_ages_s()
    signs = [Sign(id_, age_s(read_at, now), report_ages_s.get(id_)) for id_, read_at in reports]
    with plugins.plugin_errors(f"liveness {name!r}"), errors.errors_at(place):
        alive_by_id = decide(signs, argument, now)
    known = {sign.id for sign in signs}
    try:
        found = ((id_, alive) for id_, alive in alive_by_id.items() if id_ in known)
        return {id_: "Online" if alive else "Offline" for id_, alive in found}
    except (AttributeError, TypeError, ValueError) as error:
        raise errors.PluginError(f"liveness {name!r} returned no map: {error}") from None


def _with_request(node: Node, composed: ComposedNode | None) -> Node:
    if composed is None:
        return node
    flavor, request = composed.flavor or node.flavor, composed.request or node.request
    return replace(node, flavor=flavor, request=request)
