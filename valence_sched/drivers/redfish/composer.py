# SPDX-License-Identifier: Apache-2.0
"""Composes on a DMTF Redfish CompositionService: specific, manifest or constrained."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from valence_sched.drivers import composer, power
from valence_sched.drivers.composer import Change, SendResult, Session, Watch
from valence_sched.drivers.fields import NO_NOTES, Json
from valence_sched.drivers.http.exchange import LATE_READS, Patience
from valence_sched.drivers.links import LinkedDocuments, fold_uri, link_paths
from valence_sched.drivers.redfish import hot_plug, methods, schema, stocks
from valence_sched.drivers.redfish.change import NodeChanger, RedfishNode
from valence_sched.drivers.redfish.describe import own_status
from valence_sched.drivers.redfish.methods import ComposeCapabilities, ComposeWrite, choose_write
from valence_sched.drivers.redfish.schema import ResourceBlock
from valence_sched.drivers.redfish.verify import NodeReader, Written, describe_block
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant, own_name
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


class BlockReservations:
    """The ``Reserved`` flags of blocks; a flag is cleared only if this client has set it."""

    def __init__(self, session: Session, reader: NodeReader) -> None:
        self._session, self._reader = session, reader
        self._reserved: list[str] | None = None

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve all unshared blocks and return True; if one fails, undo it and return False."""
        self._reserved = []
        for block in self._own(request, self._reader.last_block):
            if block.reserved:
                self._release(self._reserved)
                raise ClaimLost(f"{block.uri}: {describe_block(block)}")
            if block.reserved is not None:
                self._reserved.append(block.uri)
            if block.reserved is None or not self._set(block, True):
                self._release(self._reserved)
                return False
        return bool(self._reserved)

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags of a reservation by any of our processes; PodmError if a flag stays."""
        mine = self._reserved
        if mine is None:
            mine = [block.uri for block in self._own(request, self._reader.block)]
        self._release(mine)

    def _release(self, uris: Iterable[str]) -> None:
        stays = []
        for uri in uris:
            try:
                block = self._reader.block(uri)
                if block is not None and block.reserved and not self._set(block, False):
                    stays.append(f"{uri}: the flag stays set")
            except PodmError as error:
                stays.append(f"{uri}: {error}")
        if stays:
            raise PodmError(f"may still be reserved: {'; '.join(stays)}")
        self._reserved = []

    def clear_own(self) -> None:
        if self._reserved:
            self.clear(self._reserved)
            self._reserved = []

    def clear(self, uris: Iterable[str]) -> None:
        for uri in uris:
            with contextlib.suppress(PodmError):
                block = self._reader.last_block(uri)
                if block is not None and block.reserved:
                    self._set(block, False, verify=False)

    def _own(
        self, request: CompositionRequest, read: Callable[[str], ResourceBlock | None]
    ) -> list[ResourceBlock]:
        blocks = (read(uri) for uri in request.blocks)
        return [block for block in blocks if block and not own_status(block).shareable]

    def _set(self, block: ResourceBlock, reserved: bool, *, verify: bool = True) -> bool:
        """Set or clear the flag; retry once after a refused ETag. Return whether it succeeded."""
        uri, status = block.uri, "CompositionStatus"
        # Some services replace the whole object, so all of it is sent.
        body = {status: dict(block.json[status], Reserved=reserved)}
        try:
            reply = self._session.patch(uri, body)
            if reply.status in (composer.PRECONDITION_FAILED, composer.PRECONDITION_REQUIRED):
                present = self._reader.block(uri)
                if present is None or present.json[status] != block.json[status]:
                    return False
                reply = self._session.patch(uri, body)
            after = self._reader.block_of_reply(uri, reply)
            if after is None and verify:
                after = self._reader.block(uri)
        except PodmError:
            return False
        return after is not None and after.reserved == reserved


class RedfishComposer:
    """Composes on one Redfish service; ``own`` and ``own_changes`` are methods of its vendor."""

    def __init__(
        self,
        session: Session,
        patience: Callable[[], Patience],
        own: tuple[methods.ComposeMethod, ...] = (),
        own_changes: tuple[methods.ChangeMethod, ...] = (),
    ) -> None:
        self._session, self._patience, self._methods = session, patience, own
        self._known_capabilities: ComposeCapabilities | None = None
        self._reader = NodeReader(session, self._capabilities)
        self._block_reservations = BlockReservations(session, self._reader)
        self._amounts = AmountComposer(session, patience)
        self._reservation: str | None = None
        system = RedfishNode(session, self._reader, self._capabilities, own_changes)
        self._changer = NodeChanger(session, patience, system)

    def refusal(self, request: CompositionRequest) -> str | None:
        way = choose_write(self._capabilities(request), request)
        return way if isinstance(way, str) else self._amounts.refusal(request)

    def conflicts(self, request: CompositionRequest) -> Sequence[str]:
        return [*self._reader.conflicts(request), *self._amounts.conflicts(request)]

    def preview(self, request: CompositionRequest) -> str | None:
        if (target := methods.read_capabilities(self._session).compose_target) is None:
            raise PodmError("the service has no Compose action for a preview")
        body = methods.manifest_body(request, "Preview")
        return composer.refusal(self._session.post(target, body))

    def reserve(self, request: CompositionRequest) -> bool:
        """Reserve by the Compose action if it composes the node, else by the flag on each block."""
        if (target := self._exact_target(request)) is None:
            return False
        if target != self._capabilities().compose_target:
            return self._block_reservations.reserve(request)
        reply = self._session.post(target, methods.manifest_body(request, "PreviewReserve"))
        if problem := composer.refusal(reply):
            raise PodmError(problem)
        self._reservation = str((reply.body or {}).get("ReservationId") or "") or None
        return self._reservation is not None

    def unreserve(self, request: CompositionRequest) -> None:
        """Clear the flags; a reservation by action expires."""
        if self._exact_target(request) not in (None, self._capabilities().compose_target):
            self._block_reservations.unreserve(request)

    def _exact_target(self, request: CompositionRequest) -> str | None:
        way = choose_write(self._capabilities(request), request)
        return None if isinstance(way, str) or not way.exact else way.target

    def compose(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        """Create the amounts, then the node; if the node fails, delete the amounts.

        ClaimLost if another client has taken a block; all writes are undone.
        """
        created, lost = self._amounts.create(request, watch), None
        if created.problem:
            outcome = CompositionResult(state="absent", reason=created.problem)
        else:
            try:
                outcome = self._compose_node(request, watch)
            except ClaimLost as error:
                lost, outcome = error, CompositionResult(state="absent", reason=str(error))
                self._block_reservations.clear_own()
        if outcome.state == "absent":
            outcome = self._without_amounts(outcome, created.made, watch)
            if lost and outcome.state == "absent":
                raise lost
        else:
            outcome = replace(outcome, amounts=created.made)
        return replace(outcome, state="unknown") if created.unknown else outcome

    def _compose_node(self, request: CompositionRequest, watch: Watch) -> CompositionResult:
        way = choose_write(self._capabilities(request), request)
        if isinstance(way, str):
            return CompositionResult(state="absent", reason=way)
        if self._reservation:
            way = way._replace(body=way.body | {"ReservationId": self._reservation})
        outcome, sent = self._compose_once(request, way, watch)
        if self._reservation and outcome.state == "absent" and sent.refused:
            self._reservation = None  # it may have expired
            return self._compose_node(request, watch)
        return outcome

    def read_node(self, request: CompositionRequest, node: str | None = None) -> CompositionResult:
        is_unnamed = node is None
        result = self._reader.read_node(request, node, same_blocks=is_unnamed, confirmed=is_unnamed)
        if result.state == "unknown" or not (request.amounts or request.made_grants):
            return result
        try:
            found = self._amounts.find(request)
            suspects = [] if found.made or result.node else self._amounts.suspects(request)
        except PodmError as error:
            return replace(result, state="unknown", reason=composer.unread_result(error).reason)
        if (result.node is None and found.made) or suspects:
            why = f"{', '.join(it.uri for it in found.made)} exists without its node"
            if suspects:
                why = f"{', '.join(suspects)} may belong to the node: the owner is unknown"
            reason = "; ".join(filter(None, (result.reason, why)))
            return replace(result, state="left", amounts=found.made, reason=reason)
        if result.node is not None and found.problem:
            result = replace(result, reason=f"{result.node} exists, but {found.problem}")
            state = "left" if request.amounts else "unknown"
            return replace(result, state=state, amounts=found.made)
        return replace(result, amounts=found.made)

    def remove(self, request: CompositionRequest, node: str, watch: Watch) -> CompositionResult:
        before = self.read_node(request, node or None)
        if before.state == "unknown":
            return before
        if before.node is None:
            amounts = before.amounts
            return self._without_amounts(before, amounts, watch) if amounts else before
        uri = before.node
        watch("decomposing")
        last = map(self._reader.last_block, before.blocks)
        marked = [block.uri for block in last if block and block.reserved]

        def is_undone() -> bool:
            return self._reader.read_node(request, uri).node == uri

        host = self._reader.host(uri)
        ours = {fold_uri(it) for it in request.blocks}
        if foreign := [it for it in host.attached if fold_uri(it) not in ours] if host else []:
            why = f"{uri} has {', '.join(foreign)}, attached by another client: detach it first"
            return replace(before, state="left", reason=why)
        body = methods.links_body(host.own) if host else None
        patience = self._patience()
        sent = composer.write(self._session, uri, body, patience, watch, is_undone, changes=True)
        outcome = self._wait_until_stable(request, uri, watch, deleted=True)
        if outcome.state == "absent":
            self._block_reservations.clear(marked)
            read = map(self._reader.last_block, request.blocks)
            freed = tuple(block.uri for block in read if block and own_status(block).slots)
            return self._without_amounts(replace(outcome, freed=freed), before.amounts, watch)
        if outcome.node and outcome.state != "unknown":
            words = sent.reason or "the service reported its deletion"
            stays = "still has the blocks of the node" if host else "still exists"
            return replace(outcome, state="left", reason=f"{uri} {stays}: {words}")
        return outcome

    def change(
        self, node: str, attach: Sequence[str], detach: Sequence[str], watch: Watch
    ) -> Change:
        return self._changer.change(node, attach, detach, watch)

    def is_on(self, node: str) -> bool | None:
        return power.is_on(self._session, node)

    def set_power(self, node: str, on: bool, watch: Watch) -> None:
        power.set_power(self._session, node, on, self._patience, watch)

    def fixed_blocks(self, node: str, blocks: Sequence[str]) -> Sequence[str]:
        return self._reader.fixed_blocks(self._reader.system(node), blocks)

    def is_hot_removable(self, block: str) -> bool:
        return hot_plug.is_hot_removable(self._session, block)

    def _without_amounts(
        self, outcome: CompositionResult, made: tuple[Grant, ...], watch: Watch
    ) -> CompositionResult:
        if stays := self._amounts.remove(made, watch):
            reason = "; ".join(filter(None, (outcome.reason, stays)))
            return replace(outcome, state="left", amounts=made, reason=reason)
        return replace(outcome, state="absent", amounts=())

    def _compose_once(
        self, request: CompositionRequest, way: ComposeWrite, watch: Watch
    ) -> tuple[CompositionResult, SendResult]:
        watch(f"composing ({way.name})")
        target, patience = way.target, self._patience()
        before = self._reader.system_uris()
        if way.on_host and not self._reader.is_idle_host(target):
            raise ClaimLost(f"{target}: found a host with attached blocks")

        def is_undone() -> bool:
            if way.on_host:
                return self._reader.is_idle_host(target)
            found = self._reader.read_node(request, None, same_blocks=True, written=Written(before))
            return found.state == "absent" and not found.reason  # no other node has a block

        sent = composer.write(
            self._session, target, way.body, patience, watch, is_undone, changes=way.on_host
        )
        if sent.unsent:
            return CompositionResult(state="absent", reason=sent.reason), sent
        written = Written(before, sent.succeeded)
        node = target if way.on_host else sent.node
        outcome = self._wait_until_stable(request, node, watch, sent.lost, written)
        if way.on_host and outcome.state == "absent":
            if sent.conflicts:
                raise ClaimLost(f"{target}: {sent.reason.rstrip('.')}")
            if sent.succeeded:
                why = f"the service reported success, but attached no block to {target}"
                return replace(outcome, state="unknown", reason=why), sent
        if outcome.state == "composed" and not outcome.works:
            self._block_reservations.clear_own()  # a composed block needs no flag
            return outcome, sent
        reason = "; ".join(filter(None, (sent.reason, outcome.reason)))
        if outcome.works or (sent.goes_on and outcome.state == "absent"):
            return replace(outcome, state="unknown", reason=reason, works=True), sent
        return replace(outcome, reason=reason), sent

    def _wait_until_stable(
        self,
        request: CompositionRequest,
        node: str | None,
        watch: Watch,
        lost: bool = False,
        written: Written | None = None,
        *,
        deleted: bool = False,
    ) -> CompositionResult:
        """Read back until the state is stable: writes and links may take effect late."""
        patience, late, at = self._patience(), LATE_READS, node
        options: Any = {"same_blocks": lost, "confirmed": written is not None, "deleted": deleted}
        while True:
            outcome = self._reader.read_node(request, at, written=written, **options)
            is_open = outcome.state == "unknown" and bool(outcome.blocks)
            is_open = is_open or (lost and outcome.state == "absent")
            if not (outcome.works or (late > 0 and is_open)) or not patience.pause():
                return outcome
            late -= 1
            at = node or outcome.node
            watch("reading back")

    def _capabilities(self, request: CompositionRequest | None = None) -> ComposeCapabilities:
        if self._known_capabilities is None:
            found = methods.read_capabilities(self._session, request, self._methods)
            self._known_capabilities = found._replace(host=self._reader.host_of)
        return self._known_capabilities
