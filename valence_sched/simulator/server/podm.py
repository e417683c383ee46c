# SPDX-License-Identifier: Apache-2.0
"""One simulated pod manager: answers reads and writes, without a network."""

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from valence_sched.drivers.fields import NO_NOTES
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.stocks import GIB, domain_stock, holder_uri, pool_stock
from valence_sched.errors import InputError
from valence_sched.model.codec import check_depth, escape_json
from valence_sched.model.inventory import Stock, grant_size
from valence_sched.simulator.redfish import composition as composing, fabric
from valence_sched.simulator.redfish.block_change import VERBS, BlockChanges, ComposeAction
from valence_sched.simulator.redfish.composition import Composition
from valence_sched.simulator.redfish.system import media_action, reset
from valence_sched.simulator.rsd.service import NodesService
from valence_sched.simulator.server import documents as docs, services
from valence_sched.simulator.server.documents import DocumentTree, HttpReply, Json, RequestRefused
from valence_sched.simulator.server.faults import Faults
from valence_sched.simulator.server.load import complete
from valence_sched.simulator.server.reads import DocumentReads, HttpRequest

PUBLIC_PATHS = ("/redfish", "/redfish/v1")  # that can be read without a login
#: Prefixes of the types of memory chunks, volumes and connections.
_AMOUNTS = ("#MemoryChunks.", "#Volume.", fabric.CONNECTION_TYPE)
POOLS = ("Free", "Active", "Unassigned")


@dataclass(frozen=True, slots=True)
class SimulatorSettings:
    """The behaviour of a simulated pod manager in addition to its recording."""

    login: services.Account = field(default_factory=services.Account)
    page_size: int = 0
    session_limit: int = 64
    session_timeout_s: float = 300.0
    task_s: float = 0.2
    clock: Callable[[], float] = time.time


class EncodedReply(msgspec.Struct, frozen=True):
    """An encoded answer."""

    status: int
    body: bytes
    headers: dict[str, str]


class SimulatedPodm:
    """A pod manager whose state is its documents."""

    def __init__(
        self, id_: str, documents: DocumentTree, settings: SimulatorSettings | None, faults: Faults
    ) -> None:
        self.id, self.documents, self.faults = id_, documents, faults
        self.settings = settings = settings or SimulatorSettings()
        complete(documents, faults, id_)
        stated, timeout_s = faults.number("session-limit"), settings.session_timeout_s
        limit = settings.session_limit if stated is None else stated
        account = settings.clock, settings.login
        self.sessions = services.Sessions(documents, *account, limit, timeout_s)
        self.subscriptions = services.Subscriptions(documents, faults)
        clock, task_s = settings.clock, settings.task_s
        self.composition = Composition(documents, faults)
        self._action = ComposeAction(self.composition, clock)
        self._tasks = services.Tasks(documents, clock, faults)
        self._changes = BlockChanges(self.composition, self._tasks, faults, clock)
        root = documents.get(ROOT)
        self._rack: NodesService | None = None
        if docs.value_at(root, "Nodes") or docs.value_at(root, "Oem", "Intel_RackScale"):
            self._rack = NodesService(documents, clock, assemble_s=task_s, faults=faults)
        self._reads = DocumentReads(documents, faults, self._tasks, settings.page_size)
        self._cache: dict[str, EncodedReply] = {}
        self._cached_changes = -1

    def reply(self, request: HttpRequest) -> EncodedReply:
        self.sessions.tick()
        self.tick()
        fault = {ROOT: "slash-root", f"{ROOT}/": "bare-root"}.get(request.path)
        if fault is not None and fault in self.faults:
            return encode_reply(docs.not_found(request.path))
        try:
            user = self._user(request)
            if user is None:
                text = "Log in first: with a session, or with basic authentication."
                body = docs.error_body("ResourceAtUriUnauthorized", text)
                headers = {"WWW-Authenticate": 'Basic realm="redfish"'}
                return encode_reply(HttpReply(401, body, headers))
            if request.method in ("GET", "HEAD"):
                return self._read(request)
            return encode_reply(self._write(request, user))
        except RequestRefused as refused:
            return encode_reply(refused.answer)

    def tick(self) -> None:
        """Carry out what is due: ends of tasks and of reservations, and states of rack nodes."""
        self._tasks.tick()
        self._changes.tick()
        self._action.tick()
        if self._rack:
            self._rack.tick()

    def streams(self, request: HttpRequest) -> bool:
        wanted = request.method == "GET" and request.path == self.subscriptions.stream != ""
        return wanted and self._user(request) is not None

    def _user(self, request: HttpRequest) -> str | None:
        user = self.sessions.user(request.headers)
        if user is not None:
            return user
        path = request.path.rstrip("/")
        login = path in (self.sessions.collection, f"{self.sessions.collection}/Members")
        if request.method == "POST" and login:
            return None if "session-basic" in self.faults else ""
        closed = "closed-root" in self.faults and path != "/redfish"
        read = request.method in ("GET", "HEAD") and path in PUBLIC_PATHS
        return "" if read and not closed else None

    def _read(self, request: HttpRequest) -> EncodedReply:
        """Answer a read; a reply that contains no sessions stays cached if only sessions change."""
        changes = self.documents.changes - self.sessions.changes
        if self._cached_changes != changes:
            self._cache.clear()
            self._cached_changes = changes
        key = f"{request.path}?{request.query}" if request.query else request.path
        reply = self._cache.get(key)
        if reply is None:
            reply = encode_reply(self._reads.answer(request))
            if self.sessions.collection.encode() not in reply.body:
                self._cache[key] = reply
        tag, known = reply.headers.get("ETag"), request.headers.get("if-none-match", "")
        if tag and tag in map(str.strip, known.split(",")):
            return EncodedReply(304, b"", {"ETag": tag})
        return reply

    def _write(self, request: HttpRequest, user: str) -> HttpReply:
        path, method = request.path.rstrip("/"), request.method
        services = ((self.sessions, path.removesuffix("/Members")), (self.subscriptions, path))
        for service, posted in services:
            if not service.collection:
                continue
            if method == "DELETE" and path.startswith(f"{service.collection}/"):
                return service.delete(path)
            if method == "POST" and posted == service.collection:
                return service.create(json_of(request.body))
        if method not in ("POST", "PATCH", "DELETE"):
            return docs.method_not_allowed(method, path)
        wanted = request.headers.get("if-match")
        if wanted is None and method != "POST" and "if-match" in self.faults:
            raise RequestRefused(428, "PreconditionRequired", "If-Match is required.")
        if wanted is not None and wanted.strip() != "*" and path in self.documents:
            if "stale-tags" in self.faults:
                raise RequestRefused(412, "PreconditionFailed", "The resource has no tag.")
            if self.documents.etag(path) not in map(str.strip, wanted.split(",")):
                raise RequestRefused(412, "PreconditionFailed", "The resource has changed.")
        json = {} if method == "DELETE" else json_of(request.body)
        if self._rack and (found := self._rack_reply(self._rack, method, path, json)) is not None:
            return found
        if method == "DELETE":
            return self._delete(path)
        if method == "PATCH":
            return self._patch(path, json, user)
        return self._post(path, json, request.headers, user)

    def _rack_reply(
        self, rack: NodesService, method: str, path: str, json: Json
    ) -> HttpReply | None:
        if "ghost" in self.faults and method == "DELETE" and path in self.documents:
            return HttpReply(204)
        nodes, mark, _ = path.partition("/Actions/")
        if "empty-create" in self.faults and mark and path.endswith("Allocate"):
            return HttpReply(201, None, {"Location": f"{nodes}/There-Is-None"})
        answer = rack.reply(method, path, json)
        assembled = answer is not None and answer.status < 300 and path.endswith("Assemble")
        if assembled and "failed-node" in self.faults:
            node = self.documents.get(nodes)
            rack.lose(docs.uri_at(node, "Links", "ComputerSystem"))
        return answer

    def _post(self, path: str, json: Json, headers: Mapping[str, str], user: str) -> HttpReply:
        if path.removesuffix("/Members") in self.composition.targets():
            return self._compose(json, headers, user)
        if path == self._action.target:
            self._steal()
            return self._action.compose(json, user)
        system, mark, action = path.rpartition("/Actions/ComputerSystem.")
        if mark and action and system in self.documents:
            if action == "Reset":
                return reset(self.documents, system, json)
            if action in VERBS:
                return self._changes.act(system, action, json, user)
            return docs.not_found(path)
        zone, mark, action = path.rpartition("/Actions/Zone.")
        if mark and action and zone in self.documents:
            return self._changes.act_on_zone(zone, action, json)
        if (made := self._create_member(path, json)) is not None:
            return made
        media, mark, action = path.rpartition("/Actions/VirtualMedia.")
        if mark and action and media in self.documents:
            return media_action(self.documents, media, action, json)
        if path in self.documents:
            return docs.method_not_allowed("POST", path)
        return docs.not_found(path)

    def _compose(self, json: Json, headers: Mapping[str, str], user: str) -> HttpReply:
        self._steal()
        systems = self.composition.systems
        if "fixed-hosts" in self.faults or "servers" in self.faults:
            return docs.method_not_allowed("POST", systems)
        if "stores" in self.faults:
            uri = f"{systems}/{self.documents.free_id(systems)}"
            own = {"@odata.id": uri, "@odata.type": "#ComputerSystem.v1_20_1.ComputerSystem"}
            self.documents.add_member(systems, {**own, "Id": uri.rpartition("/")[2], **json})
            return HttpReply(201, None, {"Location": uri})
        blocks = self.composition.plan(json, user)
        if "empty-create" in self.faults:
            return HttpReply(201, None, {"Location": f"{systems}/There-Is-None"})
        wanted = headers.get("prefer", "").replace(" ", "").lower().split(",")
        if "respond-async" in wanted or "async" in self.faults or "task-exception" in self.faults:
            run = functools.partial(self.composition.compose, blocks, json)
            task_s = self.settings.task_s
            return self._tasks.start(run, blocks, duration_s=task_s, creates=True)
        uri = self.composition.compose(blocks, json)
        if "failed-node" in self.faults:
            failed = {"State": "Disabled", "Health": "Critical"}
            self.documents.update(uri, PowerState="Off", Status=failed)
            for block in blocks:
                composing.set_status(self.documents, block, CompositionState="Failed")
        return _created(self.documents, self.faults, uri)

    def _create_member(self, path: str, json: Json) -> HttpReply | None:
        """Create an amount or a connection; return None for another collection."""
        if "typed-posts" in self.faults and "@odata.type" not in json:
            raise RequestRefused(400, docs.MISSING, "@odata.type is required.", "@odata.type")
        name = composing.node_name(self.faults, json.get("Name"))
        if (made := fabric.create_connection(self.documents, path, json, name)) is not None:
            return _created(self.documents, self.faults, made)
        return _create_amount(self.documents, path, json, self.faults)

    def _delete_member(self, path: str) -> HttpReply:
        json, collection = self.documents.get(path) or {}, path.rpartition("/")[0]
        if not str(json["@odata.type"]).startswith(fabric.CONNECTION_TYPE):
            fabric.refuse_connected(self.documents, path)
        for pool in _providing_pools(json):
            composing.consume(self.documents, pool, -int(json.get("CapacityBytes") or 0))
        if "reads-deleted" in self.faults:
            self.documents.unlist_member(collection, path)
            return HttpReply(204)
        self.documents.remove_member(collection, path)
        if "lists-deleted" in self.faults:
            self.documents.list_member(collection, path)
            return docs.not_found(path)
        return HttpReply(204)

    def _delete(self, path: str) -> HttpReply:
        if path.startswith(f"{self._action.collection}/"):
            return self._action.delete(path)
        json = self.documents.get(path)
        type_ = str(docs.value_at(json, "@odata.type"))
        if json is None:
            return docs.not_found(path)
        if not type_.startswith(("#ComputerSystem.", *_AMOUNTS)):
            return docs.method_not_allowed("DELETE", path)
        if "ghost" in self.faults:
            return HttpReply(204)
        if "stores" in self.faults:
            self.documents.remove_member(self.composition.systems, path)
            return HttpReply(204)
        if not type_.startswith(_AMOUNTS):
            return self.composition.decompose(path)
        return self._delete_member(path)

    def _steal(self) -> None:
        for name in self.faults.once("steal"):
            for uri, json in composing.blocks(self.documents):
                if name in (uri, json.get("Id"), uri.rpartition("/")[2]):
                    self.composition.compose((uri,), {"Name": "Other-Client"})

    def _patch(self, uri: str, body: Json, client: str) -> HttpReply:
        json = self.documents.get(uri)
        if json is None:
            return docs.not_found(uri)
        if self._changes.is_zone(uri):
            return self._changes.patch_zone(uri, body)
        is_system = str(json.get("@odata.type")).startswith("#ComputerSystem.")
        if is_system and "fabric-zones" in self.faults and "Links" in body:
            return docs.method_not_allowed("PATCH", uri)
        if is_system and "fixed-hosts" in self.faults and "Links" in body:
            changed = self._changes.patch(uri, body, client)
            return changed or HttpReply(200, self.documents.get(uri))
        replaces, writable = "patch-replaces" in self.faults, _writable(json)
        for name, value in body.items():
            if name not in writable and value != json.get(name):
                raise _not_writable(name)
        change = dict(body)
        if composing.is_block(json):
            change = _checked_block(json, change, replaces)
            now = docs.value_at(change, "CompositionStatus", "Reserved")
            if "CompositionStatus" in change and now != json["CompositionStatus"].get("Reserved"):
                self.composition.owners.pop(uri, None)
                if now is True:
                    self.composition.owners[uri] = client
        if "Links" in writable and "Links" in change:
            if (changed := self._changes.patch(uri, change, client)) is not None:
                return changed
            del change["Links"]
            json = self.documents.get(uri) or json
        if not replaces and isinstance(boot := change.get("Boot"), dict):
            change["Boot"] = {**docs.object_of(json, "Boot"), **boot}
        self.documents.put(uri, {**json, **change})
        return HttpReply(200, self.documents.get(uri))


def encode_reply(answer: HttpReply) -> EncodedReply:
    headers = {"OData-Version": "4.0", **answer.headers}
    if answer.body is None:
        return EncodedReply(answer.status, b"", headers)
    body = msgspec.json.encode(answer.body)
    headers["Content-Type"] = "application/json"
    if answer.status == 200:
        headers["ETag"] = docs.etag_of(body)
    return EncodedReply(answer.status, escape_json(body), headers)


def json_of(body: bytes) -> Json:
    try:
        check_depth(body, "the body")
        return msgspec.json.decode(body or b"{}", type=Json)
    except (InputError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RequestRefused(400, "MalformedJSON", "The body is not a JSON object.") from None


def _created(documents: DocumentTree, faults: Faults, uri: str) -> HttpReply:
    if "no-location" in faults:
        return HttpReply(201)
    return HttpReply(201, documents.get(uri), {"Location": uri})


def _create_amount(
    documents: DocumentTree, collection: str, body: Json, faults: Faults
) -> HttpReply | None:
    if (source := _amount_source(documents, collection, body)) is None:
        return None
    uri, stock = source
    kind, name, unit = "Volume", "CapacityBytes", GIB
    if stock.unit == "MiB":
        kind, name, unit = "MemoryChunks", "MemoryChunkSizeMiB", 1
    size = body.get(name)
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0:
        raise RequestRefused(400, docs.MISSING, f"{name} is required.", name)
    if kind == "MemoryChunks" and body.get("AddressRangeType") not in ("Volatile", "PMEM", "Block"):
        text = "AddressRangeType is required."
        raise RequestRefused(400, docs.MISSING, text, "AddressRangeType")
    if grant_size(stock, size / unit) != round(size / unit, 9):
        text = f"{name} {size} is not granted: {uri} has {stock.used:g} of {stock.total} in use."
        raise RequestRefused(400, "PropertyValueError", text, name)
    size = size // 2 if "short-amounts" in faults else size
    properties = ("AddressRangeType", "InterleaveSets")
    own: Json = {"Status": docs.OK, name: size}
    own |= {key: body[key] for key in properties if key in body}
    if kind == "Volume":
        own["CapacitySources"] = [{"ProvidingPools": docs.links_to([uri])}]
    id_ = documents.free_id(collection)
    title = composing.node_name(faults, body.get("Name")) or f"{kind} {id_}"
    place = f"{collection}/{id_}"
    documents.add_member(collection, docs.resource_document(place, f"{kind}.v1_6_0", title, **own))
    if kind == "Volume":
        composing.consume(documents, uri, size)
    return _created(documents, faults, place)


def _amount_source(
    documents: DocumentTree, collection: str, body: Json
) -> tuple[str, Stock] | None:
    pools = _providing_pools(body)
    service = LinkedDocuments(documents.get, NO_NOTES, documents)
    for uri in documents:
        json = documents.get(uri) or {}
        if docs.uri_of(json.get("MemoryChunks")) == collection:
            domain = schema.MemoryDomain(uri, json, NO_NOTES)
            if domain.leads:
                return uri, domain_stock(service, domain)
            continue
        offers = docs.uri_of(json.get("AllocatedVolumes")) == collection
        holder = documents.get(holder_uri(uri))
        if offers or (uri in pools and docs.uri_at(holder, "Volumes") == collection):
            return uri, pool_stock(service, schema.StoragePool(uri, json, NO_NOTES))
    return None


def _providing_pools(volume: Json) -> list[str]:
    return docs.uris_at((volume.get("CapacitySources") or [{}])[0], "ProvidingPools")


def _not_writable(name: str) -> RequestRefused:
    text = f"The property {name} cannot be written."
    return RequestRefused(400, "PropertyNotWritable", text, name)


def _writable(json: Json) -> tuple[str, ...]:
    names, type_ = ("Name", "Description"), str(json.get("@odata.type"))
    if composing.is_block(json):
        return (*names, "Pool", "Client", "CompositionStatus")
    if json.get("SystemType") == "Composed":
        return (*names, "HostName", "AssetTag", "Boot", "Links")
    if type_.startswith("#ComputerSystem."):
        return (*names, "HostName", "AssetTag", "Boot")
    if type_.startswith("#CompositionService."):
        return (*names, "AllowOverprovisioning", "ReservationDuration")
    return names


def _checked_block(json: Json, change: Json, replaces: bool) -> Json:
    if "Pool" in change and change["Pool"] not in POOLS:
        text = f"Pool is {change['Pool']}, expected one of {', '.join(POOLS)}."
        raise RequestRefused(400, "PropertyValueNotInList", text, str(change["Pool"]), "Pool")
    if "CompositionStatus" not in change:
        return change
    sent, status = change["CompositionStatus"], json["CompositionStatus"]
    if not isinstance(sent, dict):
        text = "CompositionStatus is not an object."
        raise RequestRefused(400, docs.WRONG_TYPE, text, str(sent)[:200], "CompositionStatus")
    for name, value in sent.items():
        if name in status and value == status[name]:
            continue
        if name not in ("Reserved", "SharingEnabled"):
            raise _not_writable(name)
        if not isinstance(value, bool) and (value is not None or name != "Reserved"):
            text = f"{name} is neither true nor false."
            raise RequestRefused(400, docs.WRONG_TYPE, text, str(value)[:200], name)
        if name == "SharingEnabled" and status.get("CompositionState") != "Unused":
            text = "SharingEnabled cannot be changed while the block is composed."
            raise RequestRefused(400, "PropertyNotWritable", text, name)
    return {**change, "CompositionStatus": sent if replaces else {**status, **sent}}
