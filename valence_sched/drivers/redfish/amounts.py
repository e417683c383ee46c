# SPDX-License-Identifier: Apache-2.0
"""Amounts of nodes: creates, finds and deletes memory chunks and volumes."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from valence_sched.drivers import composer
from valence_sched.drivers.composer import SendResult, Session, Watch
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import LATE_READS, Patience
from valence_sched.drivers.links import LinkedDocuments, fold_uri, link_paths
from valence_sched.drivers.redfish import schema, stocks
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, Grant, own_name
from valence_sched.model.inventory import Stock, grant_size

CHANGING_STATES = ("Starting", "Updating", "Qualified")


class Source(NamedTuple):
    """The source of an amount: its present stock, and the target and body of the POST."""

    stock: Stock
    collection: str
    body: Json


class Creation(NamedTuple):
    """Created amounts; ``problem`` is the failure, and ``unknown`` means that more may exist."""

    made: tuple[Grant, ...] = ()
    problem: str = ""
    unknown: bool = False


class AmountComposer:
    """Memory chunks and volumes of one service."""

    def __init__(self, session: Session, patience: Callable[[], Patience]) -> None:
        self._session, self._patience = session, patience
        self._made: dict[str, tuple[Grant, ...]] = {}

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
            if request.names(json.get("Name"), uri):
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
        return [*dict.fromkeys(uri for uri, json in sized if not own_name(json.get("Name"), uri))]

    def _existing(self, request: CompositionRequest) -> Iterator[tuple[Grant, str, Json]]:
        """Yield the chunks and volumes in the collection for each amount."""
        for grant in request.made_grants:
            source = self._source(grant)
            for uri in sorted(self._members(source.collection)) if source else ():
                if (json := composer.get_document(self._session, uri)) is not None:
                    yield grant, uri, json

    def remove(self, made: tuple[Grant, ...], watch: Watch) -> str:
        return "; ".join(filter(None, (self._remove(one, watch) for one in made)))

    def _remove(self, one: Grant, watch: Watch) -> str:
        watch("deleting")
        sent = composer.write(self._session, one.uri, None, self._patience(), watch)
        patience, late = self._patience(), LATE_READS if sent.lost or sent.succeeded else 0
        while True:
            try:
                if composer.get_document(self._session, one.uri) is None:
                    return ""
                why = sent.reason or "the service reported its deletion"
            except PodmError as error:
                why = f"could not be read back: {error}"
            late -= 1
            if late <= 0 or not patience.pause():
                return f"{one.uri} still exists: {why}"

    def _create(self, request: CompositionRequest, grant: Grant, watch: Watch) -> Creation:
        if (source := self._source(grant)) is None:
            return Creation(problem=self.refusal(request) or "the amount cannot be created")
        watch("creating")
        target, body = source.collection, {"Name": request.name, **source.body}
        before = set(map(fold_uri, self._members(target)))
        sent = composer.write(self._session, target, body, self._patience(), watch)
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
        patience, late = self._patience(), LATE_READS if sent.lost else 1
        new: list[str] = []
        while late > 0 and not new:
            late -= 1
            members = self._members(target)
            if sent.succeeded and sent.node and composer.get_document(self._session, sent.node):
                members.add(sent.node)
            new = sorted(uri for uri in members if fold_uri(uri) not in old)
            if not new and not (late and patience.pause()):
                break
        names = ((uri, composer.get_document(self._session, uri)) for uri in new)
        named = [uri for uri, it in names if it is not None and request.names(it.get("Name"), uri)]
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
        json = composer.get_document(self._session, one.uri) or {}
        name, is_size = json.get("Name"), size_of(json) == one.amount
        is_named = request.names(name, one.uri) or (is_size and not own_name(name, one.uri))
        return bool(json) and is_named

    def _members(self, collection: str) -> set[str]:
        return set(composer.member_uris(self._session, collection))

    def _source(self, grant: Grant) -> Source | None:
        get = functools.partial(composer.get_document, self._session)
        service, uri = LinkedDocuments(get, NO_NOTES), grant.uri
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
        return Source(stock, target, body)


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
    return Source(stock, target, body)


def size_of(json: Json) -> float | None:
    """Return the size of a chunk in MiB, of a volume in GiB; None if it is unreadable."""
    chunk = schema.MemoryChunks("", json, NO_NOTES).size_mib
    volume = schema.Volume("", json, NO_NOTES).capacity_bytes
    return stocks.gib(volume) if chunk is None else float(chunk)
