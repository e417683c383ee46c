# SPDX-License-Identifier: Apache-2.0
"""Inventory loader: reads all sources, adds declared resources and statuses, and builds a View."""

import contextlib
import gc
import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from valence_sched import errors, files
from valence_sched.config.settings import split_plugin_name, user_folder
from valence_sched.core import plugins
from valence_sched.drivers import recorded
from valence_sched.inventory.sources import INVENTORY, SourceReader
from valence_sched.model import diff, inventory
from valence_sched.model.claim import NO_USAGE, ComposedNode, PodmRemainder, Usage
from valence_sched.model.codec import decode
from valence_sched.model.custom_resource import DeclaredResources, with_declared
from valence_sched.model.inventory import FullPodm, LeanPodm, Podm, PodmStatus, Status, to_json
from valence_sched.model.podm_address import conflict_text
from valence_sched.model.quantity import age_s, check_time, format_count
from valence_sched.model.reading import OldReadings, ReadOptions, Selection, Sign, stale_error
from valence_sched.view.builder import ViewBuilder, repeated_id
from valence_sched.view.view import View

LIVENESS = "VALENCE_SCHED_LIVENESS"
NO_CACHE = "VALENCE_SCHED_NO_CACHE"
MIN_CACHED_BYTES = 8 << 20  # reading a smaller file takes about as long as its cached view

P = TypeVar("P", bound=Podm[Any, Any])
PodmReadTime = tuple[str, str | None]  # the id of a pod manager, and the time of its reading
PlacedPodm = tuple[LeanPodm, str, str]  # a pod manager, its file, and its place in the file


class InventoryLoader:
    """Loads the pod managers of all sources; the view of a large inventory file is cached."""

    def __init__(self, sources: SourceReader, min_cached_bytes: int = MIN_CACHED_BYTES) -> None:
        self._sources, self._config = sources, sources.config
        self._diagnostics, self._min_cached_bytes = sources.diagnostics, min_cached_bytes

    def view(self, selection: Selection, texts: dict[str, bytes] | None = None) -> View:
        """Read inventories and live pod managers into one View; claimed hardware is in use.

        The JSON of each pod manager, as it was read, is added to ``texts`` by its id.

        Raises UsageError if no pod manager is known, InputError for a source that cannot be read,
        has no pod manager or repeats an id, InventoryIncomplete with ``strict`` after a failed
        reading, and InventoryStale if a reading is older than ``selection.live`` allows.
        """
        source = self._cacheable_source(selection) if texts is None else None
        if source is None:
            return self._build(selection, texts)
        from valence_sched.inventory.view_cache import ViewCache  # only needed for large files

        cache = ViewCache(
            user_folder("cache", self._config.environ) / "views",
            self._config.remarks.append,
            now_ns=lambda: int(self._sources.now().timestamp() * 1e9),
            min_bytes=self._min_cached_bytes,
        )
        with collector_paused():
            cached = cache.load(source)
        if cached is None:
            return self._build(selection, None)
        if (known := cached.view) is not None:  # a cached view only needs checks of its age
            self._sources.forget()
            old = OldReadings(selection.live.warn_age_s)
            for podm in known.podms:
                self._check_age(podm, selection.live, old)
            old.warn(self._diagnostics)
            return known
        before, trees = len(self._diagnostics), set[str]()
        view = self._build(selection, None, trees=trees)
        # not cached: trees, as a new dialect may read them differently; views with remarks
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
        declared = self._config.declared_resources(selection.resource_files)
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
        sources, live = self._sources.named_sources(selection), selection.live
        if selection.no_cache or self._config.environ.get(NO_CACHE) or len(sources) != 1:
            return None
        (source,) = sources
        is_other = source == "-" or split_plugin_name(source)[0]
        if is_other or selection.stated.get(source) or self._changes_recordings(live):
            return None
        try:
            large = os.stat(source).st_size >= self._min_cached_bytes
        except (OSError, ValueError):  # the reading of this file raises the error
            return None
        files = selection.resource_files
        return source if large and not self._config.declared_resources(files) else None

    def _changes_recordings(self, live: ReadOptions) -> bool:
        changes = live.selects_live or live.subtract_claims or live.state is not None
        return bool(changes or live.liveness or self._config.environ.get(LIVENESS))

    def podms(self, selection: Selection) -> Iterator[FullPodm]:
        return (podm for podm, _ in self.podm_records(selection))

    def podm_records(self, selection: Selection) -> Iterator[tuple[FullPodm, recorded.Record]]:
        """Yield pod managers like :meth:`podms`, each with its record, which may have a tree."""
        files_by_id: dict[str, str] = {}
        names_by_identity: dict[str, str] = {}
        old = OldReadings(selection.live.warn_age_s)
        declared = self._config.declared_resources(selection.resource_files)
        for record in self._sources.records(selection):
            try:
                podm = _full_podm(record, files_by_id)  # records of drivers are checked, too
                _check_service(podm, record, names_by_identity)
                podm = self._checked(podm, record, lean=False)
                podm = self._with_read_time(podm, record, selection.live, old)
                yield with_declared(podm, declared), record
            except errors.InputError as error:
                self._skip(error)
        self.check(len(files_by_id), selection)
        self._remark_declared(declared)
        old.warn(self._diagnostics)

    def convert(self, selection: Selection, output: str) -> tuple[int, int]:
        return files.write_inventory(self.podms(selection), output)

    def statuses(self, reports: Iterable[PodmReadTime], live: ReadOptions) -> dict[str, PodmStatus]:
        """Return the status, by id, of the pod managers that were not read in this run.

        The liveness plug-in decides each status. ``reports`` are ids with the times of their
        readings. Raises UnknownName, PluginError or UsageError about the plug-in.
        """
        liveness = live.liveness or self._config.environ.get(LIVENESS)
        if not liveness:
            return {}
        place = "--liveness" if live.liveness else LIVENESS
        name, _, argument = liveness.partition(":")
        decide = plugins.load(plugins.LIVENESS).get(name, place)
        registry, now = self._sources.registry(live.state), self._sources.now()
        ages_s = {name: one.age_s for name, one in registry.reports().items()}
        unread = ((id_, read_at) for id_, read_at in reports if id_ not in self._sources.read_ids)
        signs = [Sign(id_, age_s(read_at, now), ages_s.get(id_)) for id_, read_at in unread]
        with plugins.plugin_errors(f"liveness {name!r}"), errors.errors_at(place):
            alive_by_id = decide(signs, argument, now)
        known = {sign.id for sign in signs}
        try:
            found = ((id_, alive) for id_, alive in alive_by_id.items() if id_ in known)
            return {id_: "Online" if alive else "Offline" for id_, alive in found}
        except (AttributeError, TypeError, ValueError) as error:
            raise errors.PluginError(f"liveness {name!r} returned no map: {error}") from None

    def differences(self, old: str, new: str) -> Iterator[diff.Difference]:
        return diff.differences(self._documents(old), self._documents(new))

    def check(self, count: int, selection: Selection) -> None:
        skipped = self._diagnostics.lines("skipped")
        if selection.strict and (lines := [*self._diagnostics.lines("unread"), *skipped]):
            found = errors.name_some(lines, 1, last=", and")
            raise errors.InventoryIncomplete(f"incomplete inventory: {found}")
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
        return [*self._diagnostics.lines("unread"), *self._diagnostics.lines("skipped")]

    def _lean_podms(
        self,
        selection: Selection,
        declared: DeclaredResources | None,
        texts: dict[str, bytes] | None,
        old: OldReadings,
        trees: set[str] | None,
    ) -> Iterator[PlacedPodm]:
        """Yield lean pod managers; add texts to ``texts`` as a view does, files to ``trees``."""
        decoder = msgspec.json.Decoder(LeanPodm)
        names_by_identity: dict[str, str] = {}
        for record in self._sources.records(selection):
            json = record.json
            try:
                try:  # the fast decoder; ``decode`` repeats a failure with a better message
                    podm = decoder.decode(json)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    podm = decode(json, LeanPodm, record.file, record.place)
                _check_service(podm, record, names_by_identity)
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
        """Yield pod managers with their statuses; hardware of their claims in the state is in use.

        Recorded pod managers stay unchanged, unless the selection also names a state or a liveness.
        With ``requests`` the nodes get the flavor and the request that the store has for them.
        """
        live = selection.live
        if self._sources.named_sources(selection) and not self._changes_recordings(live):
            yield from placed
            return
        every = live.subtract_claims or live.state is not None
        listed = list(placed)
        by_id = self.statuses(((podm.id, podm.read_at) for podm, *_ in listed), live)
        ids = {podm.id for podm, *_ in listed}
        stored = ids if every else ids & self._sources.stored_names
        usages: dict[str, Usage] = {}
        composed: dict[str, dict[str, ComposedNode]] = {}
        registry = self._sources.registry(live.state)
        if stored and not registry.empty:
            with registry.opened() as store:
                usages = store.usages([podm.id for podm, *_ in listed if podm.id in stored])
                for node in store.nodes.list() if requests else ():
                    if node.podm in stored:
                        composed.setdefault(node.podm, {})[node.uri] = node

        for podm, file, place in listed:
            status = by_id.get(podm.id, podm.status)
            current = podm if status == podm.status else replace(podm, status=status)
            if known := composed.get(podm.id):
                nodes = tuple(_with_request(node, known.get(node.uri)) for node in podm.nodes)
                current = replace(current, nodes=nodes)
            try:
                remainder = PodmRemainder(current, usages.get(podm.id, NO_USAGE))
            except msgspec.ValidationError:  # of a status: ``ViewBuilder.add`` names its block
                yield current, file, place
                continue
            if remainder.lost:
                self._diagnostics.warn(remainder.lost)
            yield remainder.podm, file, place

    def _documents(self, source: str) -> Iterator[diff.PodmDocument]:
        selection, count = Selection(sources=(source,)), 0
        for record in self._sources.records(selection):
            count += 1
            yield diff.PodmDocument(bytes(record.json), record.file, record.place)
        self.check(count, selection)

    def _remark_declared(self, declared: DeclaredResources | None) -> None:
        if declared:
            for remark in (*declared.remarks, *declared.unmatched_remarks()):
                self._diagnostics.remark(remark)

    def _checked(self, podm: P, record: recorded.Record, *, lean: bool) -> P:
        if record.stated:
            podm = replace(podm, capabilities={**record.stated, **podm.capabilities})
        if isinstance(record.content, Podm):
            return podm
        _check_podm(podm, record.file, record.place)
        podm, remark = _with_use_of_nodes(podm, record.file, record.place, lean=lean)
        if remark:
            self._diagnostics.remark(remark)
        for remark in _contradicted_limits(podm, record.file, record.place):
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
        """Note the read time of a pod manager; raise InventoryStale if its reading is too old."""
        now = self._sources.now()
        old.note(podm.id, podm.read_at, now)
        limit = live.max_age_s
        if limit is None or podm.id in self._sources.unread_ids:  # an unread one is never chosen
            return
        age = age_s(podm.read_at, now)
        if age is None or age > limit:
            raise stale_error(podm.id, podm.read_at, limit, now)

    def _skip(self, error: errors.InputError) -> None:
        """Note a skipped document; raise the error of a repeated ID: its blocks are ambiguous."""
        if isinstance(error, errors.DuplicateId):
            raise error
        self._diagnostics.skip(error)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector, and exempt the objects made in the context from collection."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.freeze()
            gc.enable()


def _with_request(node: inventory.Node, composed: ComposedNode | None) -> inventory.Node:
    if composed is None:
        return node
    flavor, request = composed.flavor or node.flavor, composed.request or node.request
    return replace(node, flavor=flavor, request=request)


def _check_podm(podm: Podm[Any, Any], file: str, place: str) -> None:
    check_time(podm.read_at, file, f"{place}.read_at")
    for field in ("stocks", "nodes"):
        known: set[str] = set()
        for index, uri in enumerate(one.uri for one in getattr(podm, field)):
            if uri in known:
                where = f"{place}.{field}[{index}].uri"
                raise errors.InputError(file, where, f"{uri!r} again", "a unique URI")
            known.add(uri)
    for index, node in enumerate(podm.nodes):
        if len(set(node.blocks)) != len(node.blocks):
            where = f"{place}.nodes[{index}].blocks"
            raise errors.InputError(file, where, "a block twice", "it once")


def _contradicted_limits(podm: Podm[Any, Any], file: str, place: str) -> Iterator[str]:
    for index, pool in enumerate(podm.pools):
        for kind, limit in pool.limits.items():
            if limit.max is not None and limit.min > limit.max:
                where, found = f"pools[{index}].limits.{kind}", f"{limit.min} above max {limit.max}"
                text = f"found min {found}: no node of the pool meets both"
                yield errors.one_line(f"{file}: {place}.{where}: {text}")
    for index, stock in enumerate(podm.stocks):
        if stock.max is not None and stock.min > stock.max:
            text = f"found min {stock.min:g} above max {stock.max:g}: the stock grants nothing"
            yield errors.one_line(f"{file}: {place}.stocks[{index}]: {text}")


def _with_use_of_nodes(podm: P, file: str, place: str, *, lean: bool) -> tuple[P, str | None]:
    """Mark the blocks of nodes as in use; return the podm, and a remark about Unused ones.

    A ``lean`` podm stays lean. Shareable blocks are skipped: they count their compositions.
    """
    used = {uri: node for node in podm.nodes for uri in node.blocks}
    blocks, doubtful = list(podm.blocks), []
    for index, block in enumerate(podm.blocks if used else ()):
        if block.uri not in used:
            continue
        known = block.status
        if not isinstance(known, Status):
            raw, at = bytes(known or b"null"), f"{place}.blocks[{index}].status"
            known = inventory.FREE_STATUS if raw == b"null" else decode(raw, Status, file, at)
        if known.slots > 0 and not known.shareable:  # free, although a node has it
            composed = replace(known, state="Composed")
            status = msgspec.Raw(to_json(composed)) if lean else composed
            blocks[index] = replace(block, status=status)
            doubtful.append(index)
    if not doubtful:
        return podm, None
    node = used[blocks[doubtful[0]].uri].uri
    text = f"found Unused, expected Composed: node {node} has the block, and it counts as in use"
    if len(doubtful) > 1:
        text += f"; also {format_count(len(doubtful) - 1, 'other block')}"
    remark = errors.one_line(f"{file}: {place}.blocks[{doubtful[0]}].status: {text}")
    return replace(podm, blocks=tuple(blocks)), remark


def _full_podm(record: recorded.Record, files_by_id: dict[str, str]) -> FullPodm:
    """Return the pod manager of a record, unchanged if a driver made it.

    Adds its file to ``files_by_id``. InputError for an invalid record, DuplicateId for a known ID.
    """

    def check_id(podm_id: str) -> None:
        if podm_id in files_by_id:
            raise repeated_id(podm_id, files_by_id[podm_id], record.file, record.place)

    podm = None
    with contextlib.suppress(errors.InputError):
        podm = decode(record.json, FullPodm, record.file, record.place)
    if podm is None or not _is_sound(podm):  # ``ViewBuilder.add`` raises the error
        lean = decode(record.json, LeanPodm, record.file, record.place)
        check_id(lean.id)
        ViewBuilder().add(lean, record.file, record.place)
        podm = decode(record.json, FullPodm, record.file, record.place)
    check_id(podm.id)
    files_by_id[podm.id] = record.file
    return record.content if isinstance(record.content, Podm) else podm


def _check_service(
    podm: Podm[Any, Any], record: recorded.Record, names_by_identity: dict[str, str]
) -> None:
    """Raise InputError if a service appears under two names: its blocks would count twice."""
    if podm.identity is None:
        return
    other = names_by_identity.setdefault(podm.identity, podm.id)
    if other != podm.id:
        text = conflict_text(podm.id, podm.identity, other)
        raise errors.InputError(record.file, f"{record.place}.identity", text)


def _is_sound(podm: FullPodm) -> bool:
    pools = {pool.id for pool in podm.pools}
    uris = {block.uri for block in podm.blocks}
    unique = len(pools) == len(podm.pools) and len(uris) == len(podm.blocks)
    named = [block.pools for block in podm.blocks] + [stock.pools for stock in podm.stocks]
    return unique and pools.issuperset(itertools.chain.from_iterable(named))
