# SPDX-License-Identifier: Apache-2.0
"""Creates and deletes the memory chunks and volumes of a node, and reads them back.

Each has the name of its node, by which it is found again. Where the service does not keep the
name, it is the one that came with our write; what may be another's is never deleted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from valence_sched.drivers.composer import (
    SendResult,
    Session,
    Watch,
    get_document,
    member_uris,
    write,
)
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import LATE_READS, Patience
from valence_sched.drivers.links import LinkedDocuments, fold_uri, link_path
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.stocks import (
    GIB,
    PERSISTENT,
    domain_stock,
    gib,
    holder_uri,
    pool_stock,
    volume_collection,
)
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, own_name
from valence_sched.model.inventory import Stock, grant_size

CHANGING_STATES = ("Starting", "Updating", "Qualified")


class Source(NamedTuple):
    """What an amount is made of: its stock as it is now, where to post, and the body."""

    stock: Stock
    collection: str
    body: Callable[[Grant], Json]


class Creation(NamedTuple):
    """What was made; ``problem`` is why not all of it, ``unknown`` that something else may be."""

    made: tuple[Grant, ...] = ()
    problem: str = ""
    unknown: bool = False


class AmountComposer:
    """Chunks and volumes of one service; ``patience`` makes the pauses of one wait."""

    def __init__(self, session: Session, patience: Callable[[], Patience]) -> None:
        self._session, self._patience = session, patience
        self._made: dict[str, tuple[Grant, ...]] = {}

    def refusal(self, request: CompositionRequest) -> str | None:
        """Return why an amount can never be made here, None when all can."""
        for grant in request.made_grants:
            if self._source(grant.uri) is None:
                what = "nothing that a memory chunk or a volume can be made of"
                return f"{grant.uri}: found {what}, expected to make {grant.amount:g} of it"
        return None

    def conflicts(self, request: CompositionRequest) -> Iterator[str]:
        """Yield a line for each amount that its stock does not grant now."""
        for grant in request.made_grants:
            source = self._source(grant.uri)
            if source is None or grant_size(source.stock, grant.amount) != grant.amount:
                left = "nothing"
                if source is not None:
                    stock, left = source.stock, "an unknown amount"
                    if stock.total is not None:
                        left = f"{max(0.0, stock.total - stock.used):g} {stock.unit} left"
                yield f"{grant.uri}: found {left}, {grant.amount:g} were chosen"

    def create(self, request: CompositionRequest, watch: Watch) -> Creation:
        """Make every amount of a request, one after the other, until one is refused."""
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
        """Return what there is of the amounts of a request, by where it was made or by its name.

        What has another node's name by now is another's; what is known by nothing but its place
        must have the size that was made.
        """
        known = request.amounts or self._made.get(request.name, ())
        found = {fold_uri(it.uri): it for it in known if self._is_ours(it, request)}
        for grant in () if known else request.made_grants:
            source = self._source(grant.uri)
            named = () if source is None else self._named(source.collection, request)
            found |= {fold_uri(it.uri): it for it in named}
        wanted = known or request.made_grants
        problem = ""
        if len(found) < len(wanted):
            where = ", ".join(dict.fromkeys(it.uri for it in wanted))
            what = f"{len(found)} of {len(wanted)} memory chunks and volumes of {request.name}"
            problem = f"found {what} ({where})"
        return Creation(tuple(found.values()), problem)

    def suspects(self, request: CompositionRequest) -> list[str]:
        """Return what may be an amount of a request: it has its size, and no name of a node."""
        found: list[str] = []
        for grant in request.made_grants:
            source = self._source(grant.uri)
            for uri in sorted(self._members(source.collection)) if source else ():
                json = get_document(self._session, uri) or {}
                if size_of(json) == grant.amount and not own_name(json.get("Name"), uri):
                    found.append(uri)
        return list(dict.fromkeys(found))

    def remove(self, made: tuple[Grant, ...], watch: Watch) -> str:
        """Delete and read back; return what is still there and why, empty for nothing."""
        return "; ".join(filter(None, (self._remove(one, watch) for one in made)))

    def _remove(self, one: Grant, watch: Watch) -> str:
        watch("deleting")
        delete = self._session.delete
        sent = write(self._session, one.uri, lambda: delete(one.uri), self._patience(), watch)
        patience, late = self._patience(), LATE_READS if sent.lost or sent.succeeded else 0
        while True:
            try:
                if get_document(self._session, one.uri) is None:
                    return ""
                why = sent.reason or "it answered that it is gone"
            except PodmError as error:
                why = f"could not be read back: {error}"
            late -= 1
            if late <= 0 or not patience.pause():
                return f"{one.uri} is still there: {why}"

    def _create(self, request: CompositionRequest, grant: Grant, watch: Watch) -> Creation:
        source = self._source(grant.uri)
        if source is None:
            return Creation(problem=self.refusal(request) or "it cannot be made")
        watch("creating")
        target, post = source.collection, self._session.post
        body = {"Name": request.name, **source.body(grant)}
        before = set(map(fold_uri, self._members(target)))
        sent = write(self._session, target, lambda: post(target, body), self._patience(), watch)
        if sent.unsent:
            return Creation(problem=sent.reason)
        try:
            return self._created(request, grant, source, sent, before)
        except PodmError as error:
            problem = f"{sent.reason or target}: could not be read back: {error}"
            return Creation(problem=problem, unknown=True)

    def _created(
        self,
        request: CompositionRequest,
        grant: Grant,
        source: Source,
        sent: SendResult,
        before: set[str],
    ) -> Creation:
        """Find what a write made: where its answer says, by its name, or as the only new one."""
        patience, late = self._patience(), LATE_READS if sent.lost else 1
        new: list[str] = []
        while late > 0 and not new:
            late -= 1
            members = self._members(source.collection)
            if sent.succeeded and sent.node and get_document(self._session, sent.node):
                members.add(sent.node)
            new = sorted(uri for uri in members if fold_uri(uri) not in before)
            if not new and not (late and patience.pause()):
                break
        names = ((uri, get_document(self._session, uri)) for uri in new)
        named = [uri for uri, it in names if it is not None and request.names(it.get("Name"), uri)]
        answered = [uri for uri in new if sent.node and fold_uri(uri) == fold_uri(sent.node)]
        ours = named or (answered if sent.succeeded else []) or (new if sent.succeeded else [])
        if len(ours) != 1 and new and not sent.refused:
            words = f"{', '.join(new)} came meanwhile, and whose it is cannot be told"
            return Creation(problem="; ".join(filter(None, (sent.reason, words))), unknown=True)
        if not ours:
            why = sent.reason or "it answered success, and made nothing"
            return Creation(problem=f"{source.collection}: {why}", unknown=sent.goes_on)
        return self._checked(ours[0], grant)

    def _checked(self, uri: str, grant: Grant) -> Creation:
        """Read what was made until it is enabled; a smaller one than granted is a problem."""
        patience = self._patience()
        while True:
            json = get_document(self._session, uri) or {}
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
        json = get_document(self._session, one.uri)
        if json is None:
            return False
        return request.names(json.get("Name"), one.uri) or (
            not own_name(json.get("Name"), one.uri) and size_of(json) == one.amount
        )

    def _named(self, collection: str, request: CompositionRequest) -> Iterator[Grant]:
        for uri in sorted(self._members(collection)):
            json = get_document(self._session, uri)
            if json is not None and request.names(json.get("Name"), uri):
                yield Grant(uri, size_of(json) or 0.0)

    def _members(self, collection: str) -> set[str]:
        return set(member_uris(self._session, collection))

    def _source(self, uri: str) -> Source | None:
        json = get_document(self._session, uri)
        if json is None:
            return None
        if "/memorydomains/" in uri.casefold() or "MemoryChunks" in json:
            return self._domain(schema.MemoryDomain(uri, json, NO_NOTES))
        holder = holder_uri(uri)
        target = volume_collection(json, get_document(self._session, holder) or {})
        if target is None:
            return None
        stock = pool_stock(self._service, schema.StoragePool(uri, json, NO_NOTES))

        def body(grant: Grant) -> Json:
            sources = [{"ProvidingPools": [{"@odata.id": uri}]}]
            size = {"CapacityBytes": math.ceil(grant.amount * GIB - 0.5)}
            own = fold_uri(target).startswith(fold_uri(uri) + "/")  # of a pool, not of its holder
            return size if own else {**size, "CapacitySources": sources}

        return Source(stock, target, body)

    @property
    def _service(self) -> LinkedDocuments:
        return LinkedDocuments(lambda uri: get_document(self._session, uri), NO_NOTES)

    def _domain(self, domain: schema.MemoryDomain) -> Source | None:
        target = next(filter(None, map(link_path, domain.chunks)), None)
        if target is None or not domain.leads:
            return None
        stock = domain_stock(self._service, domain)
        persistent = stock.resource == PERSISTENT
        first = next(iter(domain.sets), None)
        modules = domain.part(schema.MemorySet, first, "").modules if first else ()
        interleaved = [{"Memory": {"@odata.id": module}} for module in modules]

        def body(grant: Grant) -> Json:
            chunk = {"MemoryChunkSizeMiB": math.ceil(grant.amount - 1e-6),
                     "AddressRangeType": "PMEM" if persistent else "Volatile"}  # fmt: skip
            return {**chunk, "InterleaveSets": interleaved} if interleaved else chunk

        return Source(stock, target, body)


def size_of(json: Json) -> float | None:
    """Return the size of a chunk in MiB, of a volume in GiB; None where none can be read."""
    chunk = schema.MemoryChunks("", json, NO_NOTES).size_mib
    if chunk is not None:
        return float(chunk)
    return gib(schema.Volume("", json, NO_NOTES).capacity_bytes)
