# SPDX-License-Identifier: Apache-2.0
"""Amounts of nodes: creates, connects, finds and deletes memory chunks and volumes."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from valence_sched.drivers import composer
from valence_sched.drivers.composer import AmountChange, SendResult, Session, Watch
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import LATE_READS, MakePatience
from valence_sched.drivers.links import LinkedDocuments, fold_uri, link_paths
from valence_sched.drivers.redfish import connections, schema, stocks
from valence_sched.drivers.redfish.connections import ConnectionPath, WriteEffect, listed_document
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, Grant, own_name
from valence_sched.model.inventory import Stock, grant_size

CHANGING_STATES = ("Starting", "Updating", "Qualified")
_CHUNK, _VOLUME = "MemoryChunks.v1_5_0", "Volume.v1_6_0"


class Source(NamedTuple):
    """The source of an amount: its present stock, and the target and body of the POST."""

    stock: Stock
    collection: str
    body: Json
    type: str


class Creation(NamedTuple):
    """Created amounts; ``problem`` is the failure, and ``unknown`` means that more may exist."""

    made: tuple[Grant, ...] = ()
    problem: str = ""
    unknown: bool = False


class AmountComposer:
    """Memory chunks and volumes of one service; ``links`` connect them to nodes."""

    def __init__(
        self, session: Session, patience: MakePatience, links: connections.AmountLinks | None = None
    ) -> None:
        self._session, self._patience = session, patience
        self._made: dict[str, tuple[Grant, ...]] = {}
        self._connections = links or connections.AmountConnections(session, patience)

    def refusal(self, request: CompositionRequest) -> str | None:
        for grant in request.made_grants:
            if self._source(grant) is None:
                what = "neither a memory domain nor a storage pool"
                return f"{grant.uri}: found {what}, expected one to create {grant.amount:g}"
        return None

    def conflicts(self, request: CompositionRequest) -> Iterator[str]:
        for grant in request.made_grants:
            source = self._source(grant)
            if source is None or grant_size(source.stock, grant.amount) != grant.amount:
                left = "nothing" if source is None else "an unknown free amount"
                if source is not None and (total := source.stock.total) is not None:
                    left = f"{max(0.0, total - source.stock.used):g} {source.stock.unit} free"
                yield f"{grant.uri}: found {left}, expected {grant.amount:g} or more"

    def attach_refusal(self, request: CompositionRequest, node: str) -> str | None:
        """Return the reason why amounts cannot be attached to a node, as far as readings show."""
        try:
            for grant in request.made_grants:
                self._connections.path(request, node, grant.uri)
        except PodmError as error:
            return str(error)
        return "; ".join(self.conflicts(request)) or None

    def attach(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        """Create amounts and connect them to a node; if one fails, delete all again."""
        if lacking := "; ".join(self.conflicts(request)):
            return AmountChange((), lacking, conflicts=True)
        paths = self.paths(request, node)
        created = self.create(request, watch)
        problem, works = created.problem, created.unknown
        if not problem:
            problem, works = self.connect(request, paths, created.made, watch)
        if not problem:
            return AmountChange(created.made)
        undone = [(one, self._remove(one, watch)) for one in created.made]
        left = tuple(one for one, effect in undone if effect.problem)
        reason = "; ".join(filter(None, (problem, *(effect.problem for _, effect in undone))))
        return AmountChange(None if works else left, reason)

    def paths(self, request: CompositionRequest, node: str) -> list[ConnectionPath | None]:
        """Return how to connect each amount to a node; PodmError if one cannot be connected."""
        return [self._connections.path(request, node, it.uri) for it in request.made_grants]

    def connect(
        self,
        request: CompositionRequest,
        paths: Sequence[ConnectionPath | None],
        made: Sequence[Grant],
        watch: Watch,
    ) -> WriteEffect:
        """Connect created amounts, each by its path, up to the first failure."""
        try:
            for path, one in zip(paths, made, strict=True):
                if path is not None:
                    found = self._connections.connect(request, path, one.uri, watch)
                    if found.problem:
                        return found
        except PodmError as error:
            return WriteEffect(f"could not be read back: {error}", True)
        return WriteEffect()

    def loose(self, request: CompositionRequest, node: str, made: Sequence[Grant]) -> str:
        """Return which of these amounts a fabric does not connect to a node, empty if none."""
        stocks = {it.uri for it in request.made_grants}
        for one in made:
            own = {uri for uri in stocks if one.uri.startswith(f"{uri}/")} or stocks
            try:
                found = (self._connections.path(request, node, uri) for uri in sorted(own))
                needed = any(path is not None for path in found)
            except PodmError:  # its endpoints have changed
                needed = True
            if needed and not self._connections.of(one.uri):
                return f"{one.uri} is not connected"
        return ""

    def detach(self, request: CompositionRequest, node: str, watch: Watch) -> AmountChange:
        """Disconnect amounts and delete them; if none can be deleted, connect all again."""
        grants = dict(zip(request.amounts, request.grants, strict=True))
        left = [one for one in request.amounts if self._is_ours(one, request)]
        connected = [one for one in left if self._connections.of(one.uri)]
        problem, works, every = "", False, tuple(left)
        try:
            for one in every:
                if not problem:
                    problem, works = self._connections.disconnect(one.uri, watch)
            for one in every if not problem else ():
                problem, works = self._delete(one, watch)
                if problem:
                    break
                left.remove(one)
            for one in connected if problem and not works and len(left) == len(every) else ():
                if not self._connections.of(one.uri):
                    stock = grants[one].uri
                    path = self._connections.path(request, node, stock)
                    lacking = f"{one.uri} is not connected: found no endpoint of {stock}"
                    undone = WriteEffect(lacking)
                    if path is not None:
                        undone = self._connections.connect(request, path, one.uri, watch)
                    problem = "; ".join(filter(None, (problem, undone.problem)))
                    works = works or bool(undone.problem)
        except PodmError as error:
            problem = "; ".join(filter(None, (problem, f"could not be read back: {error}")))
            works = True
        return AmountChange(None if works else tuple(left), problem)

    def read(self, request: CompositionRequest, node: str, *, new: bool) -> AmountChange:
        """Read the amounts of a change back: with ``new``, those of the grants of a request."""
        known, grants = {fold_uri(it.uri) for it in request.amounts}, request.made_grants
        doubtful: list[str] = []
        if new:
            named = {
                fold_uri(uri): Grant(uri, size_of(json) or 0.0)
                for _, uri, json in self._existing(request)
                if fold_uri(uri) not in known and request.names(_name(json), uri)
            }
            found = list(named.values())
            if not found:
                doubtful = [it for it in self.suspects(request) if fold_uri(it) not in known]
        else:
            found = [one for one in request.amounts if self._is_ours(one, request)]
        reason = ""
        if len(found) < len(grants):
            reason = f"found {len(found)} of {len(grants)} memory chunks and volumes"
        reason = reason or self.loose(request, node, found)
        if doubtful:
            reason = f"{', '.join(doubtful)} may belong to the node: the owner is unknown"
        return AmountChange(tuple(found), reason, conflicts=bool(doubtful))

    def create(self, request: CompositionRequest, watch: Watch) -> Creation:
        made: list[Grant] = []
        for grant in request.made_grants:
            try:
                one = self._create(request, grant, watch)
            except PodmError as error:  # before the write
                one = Creation(problem=str(error))
            made += one.made
            self._made[request.name] = tuple(made)
            if one.problem:
                return Creation(tuple(made), one.problem, one.unknown)
        return Creation(tuple(made))

    def find(self, request: CompositionRequest) -> Creation:
        """Find the existing amounts of a request by their URIs, else by the name of the request."""
        known = request.amounts or self._made.get(request.name, ())
        found = {fold_uri(it.uri): it for it in known if self._is_ours(it, request)}
        for _, uri, json in () if known else self._existing(request):
            if request.names(_name(json), uri):
                found[fold_uri(uri)] = Grant(uri, size_of(json) or 0.0)
        wanted = known or request.made_grants
        where = ", ".join(dict.fromkeys(it.uri for it in wanted))
        what = f"{len(found)} of {len(wanted)} memory chunks and volumes of {request.name}"
        problem = f"found {what} ({where})" if len(found) < len(wanted) else ""
        return Creation(tuple(found.values()), problem)

    def suspects(self, request: CompositionRequest) -> list[str]:
        """Return unnamed chunks and volumes with the size of an amount."""
        existing = self._existing(request)
        sized = ((uri, json) for grant, uri, json in existing if size_of(json) == grant.amount)
        return [*dict.fromkeys(uri for uri, json in sized if not own_name(_name(json), uri))]

    def _existing(self, request: CompositionRequest) -> Iterator[tuple[Grant, str, Json]]:
        """Yield the chunks and volumes in the collection for each amount."""
        for grant in request.made_grants:
            source = self._source(grant)
            for uri in sorted(self._members(source.collection)) if source else ():
                if (json := composer.get_document(self._session, uri)) is not None:
                    yield grant, uri, json

    def remove(self, made: tuple[Grant, ...], watch: Watch) -> str:
        return "; ".join(filter(None, (self._remove(one, watch).problem for one in made)))

    def _remove(self, one: Grant, watch: Watch) -> WriteEffect:
        try:
            found = self._connections.disconnect(one.uri, watch)
        except PodmError as error:
            found = WriteEffect(f"its connections could not be read: {error}", True)
        if found.problem:
            return found._replace(problem=f"{one.uri} still exists: {found.problem}")
        return self._delete(one, watch)

    def _delete(self, one: Grant, watch: Watch) -> WriteEffect:
        watch("deleting")
        sent = composer.write(self._session, one.uri, None, self._patience(), watch)
        why = ""
        for _ in self._patience().tries(LATE_READS if sent.lost or sent.succeeded else 1):
            try:
                if listed_document(self._session, one.uri) is None:
                    return WriteEffect()
                why = sent.reason or "the service reported its deletion"
            except PodmError as error:
                why = f"could not be read back: {error}"
        works = not (sent.refused or sent.unsent)
        return WriteEffect(f"{one.uri} still exists: {why}", works)

    def _create(self, request: CompositionRequest, grant: Grant, watch: Watch) -> Creation:
        if (source := self._source(grant)) is None:
            return Creation(problem=self.refusal(request) or "the amount cannot be created")
        watch("creating")
        target, body = source.collection, {"Name": request.name, **source.body}
        before = set(map(fold_uri, self._members(target)))
        post = functools.partial(connections.post_member, self._session, target)
        sent = post(body, source.type, self._patience, watch)
        if sent.unsent:
            return Creation(problem=sent.reason)
        try:
            return self._created(request, grant, target, sent, before)
        except PodmError as error:
            problem = f"{sent.reason or target}: could not be read back: {error}"
            return Creation(problem=problem, unknown=True)

    def _created(
        self,
        request: CompositionRequest,
        grant: Grant,
        target: str,
        sent: SendResult,
        old: set[str],
    ) -> Creation:
        """Find the created amount by its name, the URI in the answer, or as the only new amount."""
        new: list[str] = []
        for _ in self._patience().tries(LATE_READS if sent.lost else 1):
            members = self._members(target)
            if sent.succeeded and sent.node and composer.get_document(self._session, sent.node):
                members.add(sent.node)
            if new := sorted(uri for uri in members if fold_uri(uri) not in old):
                break
        names = ((uri, composer.get_document(self._session, uri)) for uri in new)
        named = [uri for uri, it in names if it is not None and request.names(_name(it), uri)]
        answered = [uri for uri in new if sent.node and fold_uri(uri) == fold_uri(sent.node)]
        ours = named or ((answered or new) if sent.succeeded else [])
        if len(ours) != 1 and new and not sent.refused:
            words = f"{', '.join(new)} appeared after the request: the owner is unknown"
            return Creation(problem="; ".join(filter(None, (sent.reason, words))), unknown=True)
        if not ours:
            why = sent.reason or "the service reported success, but created nothing"
            return Creation(problem=f"{target}: {why}", unknown=sent.goes_on)
        return self._checked(ours[0], grant)

    def _checked(self, uri: str, grant: Grant) -> Creation:
        """Read a created amount until it is enabled; a smaller size than granted is a problem."""
        patience = self._patience()
        while True:
            json = composer.get_document(self._session, uri) or {}
            size, status = size_of(json), json.get("Status")
            state = status.get("State") if isinstance(status, dict) else None
            if state not in CHANGING_STATES or not patience.pause():
                break
        made = (Grant(uri, size or 0.0),)
        if size is None or size + 1e-6 < grant.amount:
            found = "no size" if size is None else f"{size:g}"
            return Creation(made, f"{uri}: found {found}, expected {grant.amount:g} as granted")
        return Creation(made)

    def _is_ours(self, one: Grant, request: CompositionRequest) -> bool:
        json = listed_document(self._session, one.uri) or {}
        name, is_size = _name(json), size_of(json) == one.amount
        is_named = request.names(name, one.uri) or (is_size and not own_name(name, one.uri))
        return bool(json) and is_named

    def _members(self, collection: str) -> set[str]:
        return set(composer.member_uris(self._session, collection))

    def _source(self, grant: Grant) -> Source | None:
        get = functools.partial(composer.get_document, self._session)
        service, uri = composer.live_documents(self._session), grant.uri
        if (json := get(uri)) is None:
            return None
        if "/memorydomains/" in uri.casefold() or "MemoryChunks" in json:
            return _chunks(service, schema.MemoryDomain(uri, json, NO_NOTES), grant)
        if (target := stocks.volume_collection(json, get(stocks.holder_uri(uri)) or {})) is None:
            return None
        stock = stocks.pool_stock(service, schema.StoragePool(uri, json, NO_NOTES))
        body: Json = {"CapacityBytes": math.ceil(grant.amount * stocks.GIB - 0.5)}
        if not fold_uri(target).startswith(fold_uri(uri) + "/"):  # the storage system's collection
            body["CapacitySources"] = [{"ProvidingPools": [{"@odata.id": uri}]}]
        return Source(stock, target, body, _VOLUME)


def _chunks(service: LinkedDocuments, domain: schema.MemoryDomain, grant: Grant) -> Source | None:
    target = next(link_paths(domain.chunks), None)
    if target is None or not domain.leads:
        return None
    stock = stocks.domain_stock(service, domain)
    kind = "PMEM" if stock.resource == stocks.PERSISTENT else "Volatile"
    body: Json = {"MemoryChunkSizeMiB": math.ceil(grant.amount - 1e-6), "AddressRangeType": kind}
    first = next(iter(domain.sets), None)
    if modules := domain.part(schema.MemorySet, first, "").modules if first else ():
        body["InterleaveSets"] = [{"Memory": {"@odata.id": module}} for module in modules]
    return Source(stock, target, body, _CHUNK)


def _name(json: Json) -> str | None:
    return schema.Volume("", json, NO_NOTES).name


def size_of(json: Json) -> float | None:
    """Return the size of a chunk in MiB, of a volume in GiB; None if it is unreadable."""
    chunk = schema.MemoryChunks("", json, NO_NOTES).size_mib
    volume = schema.Volume("", json, NO_NOTES).capacity_bytes
    return stocks.gib(volume) if chunk is None else float(chunk)
