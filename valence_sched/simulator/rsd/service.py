# SPDX-License-Identifier: Apache-2.0
"""The Nodes service of a rack's pod manager: allocates, assembles, resets and deletes nodes.

It changes only the documents of nodes, fabric zones and volumes.
"""

import contextlib
import copy
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from valence_sched.drivers.fields import NO_NOTES, links, objects
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish import schema
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.drivers.rsd.reader import rack_stocks
from valence_sched.drivers.rsd.schema import StorageService
from valence_sched.model.inventory import free_amount
from valence_sched.simulator.redfish.composition import consume, node_name
from valence_sched.simulator.redfish.system import complete_system, power_after
from valence_sched.simulator.rsd import choice
from valence_sched.simulator.server import documents as docs
from valence_sched.simulator.server.documents import DocumentTree, HttpReply, Json
from valence_sched.simulator.server.faults import Faults

RESETS: tuple[str, ...] = ("On", "ForceOff", "GracefulShutdown", "GracefulRestart")
RESETS += ("ForceRestart", "Nmi", "ForceOn", "PushPowerButton")
#: The actions of RSD 2.3 and later, and of earlier versions.
ATTACHES = ("AttachResource", "AttachEndpoint")
DETACHES = ("DetachResource", "DetachEndpoint")
RETRY_AFTER_S = 5
_REMOTE = ("Links", "RemoteDrives")


def _node_document(
    uri: str, body: Json, chosen: choice.ChosenSystem, volumes: Iterable[str], version: str
) -> Json:
    def of(type_: type[schema.Device]) -> list[Json]:
        own = (uri for uri, it in chosen.devices.items() if isinstance(it, type_))
        return docs.links_to(uri for uri in own if "#" not in uri)

    there = chosen.devices.values()
    processors = (it for it in there if isinstance(it, schema.ProcessorDevice))
    cpus = [it for it in processors if (it.type or "CPU") == "CPU"]
    memory = sum(it.capacity_mib or 0 for it in there if isinstance(it, schema.MemoryDevice))
    status, model = _status("OK"), cpus[0].model if cpus else None
    pooled = docs.links_to(chosen.pooled)
    drives = [link for link in pooled if "/Drives/" in link["@odata.id"]]
    own: Json = {
        "Description": body.get("Description") or "",
        "UUID": str(uuid.uuid5(uuid.NAMESPACE_URL, uri)),
        "PowerState": "Off",
        "Status": status,
        "ComposedNodeState": "Allocated",
        "Processors": {"Count": len(cpus), "Model": model, "Status": status},
        "Memory": {"TotalSystemMemoryGiB": memory / 1024, "Status": status},
        "Links": {
            "ComputerSystem": {"@odata.id": chosen.system.uri},
            "Processors": [*of(schema.ProcessorDevice), *(it for it in pooled if it not in drives)],
            "Memory": of(schema.MemoryDevice),
            "EthernetInterfaces": of(schema.EthernetInterface),
            "LocalDrives": [*of(schema.DriveDevice), *drives],
            "RemoteDrives": docs.links_to(volumes),
        },
    }
    names = ["Assemble", "Reset", *(["ForceDelete"] if version >= "2.5" else [])]
    device = "Resource" if version >= "2.3" else "Endpoint"
    names += [f"Attach{device}", f"Detach{device}"]
    target = f"{uri}/Actions/ComposedNode"
    actions: Json = {f"#ComposedNode.{name}": {"target": f"{target}.{name}"} for name in names}
    actions["#ComposedNode.Reset"]["ResetType@Redfish.AllowableValues"] = list(RESETS)
    name = body.get("Name") or f"Node {uri.rpartition('/')[2]}"
    return docs.resource_document(uri, "ComposedNode.v1_1_0", name, **own, Actions=actions)


def _node_assets(node: Json) -> list[str]:
    systems = docs.uris_at(node, "Links", "ComputerSystem")
    kinds = ("Processors", "LocalDrives")
    devices = [uri for kind in kinds for uri in docs.uris_at(node, "Links", kind)]
    inside = tuple(f"{system}/" for system in systems)
    return list(dict.fromkeys([*systems, *(it for it in devices if not it.startswith(inside))]))


class NodesService:
    """The Nodes service over some documents; Assemble takes ``assemble_s`` by the clock."""

    def __init__(
        self,
        documents: DocumentTree,
        clock: Callable[[], float],
        *,
        assemble_s: float = 1.0,
        faults: Faults | None = None,
    ) -> None:
        self._documents, self._clock, self._assemble_s = documents, clock, assemble_s
        self._faults = faults or Faults()
        if "odd-actions" in self._faults:
            for uri in self._collections:
                actions = docs.value_at(documents.get(uri), "Actions") or {}
                documents.update(uri, Actions=_renamed(actions))
        self._due: dict[str, float] = {}
        self._before: dict[str, str] = {}

    def lose(self, uri: str) -> None:
        """Set an asset to Absent; its nodes fail until it is present again."""
        self._documents.update(uri, Status={"State": "Absent", "Health": "Critical"})
        self.tick()

    def tick(self) -> None:
        for uri in self._nodes():
            node, put = self._node(uri), self._documents.update
            state = node.get("ComposedNodeState")
            if any(self._is_away(asset) for asset in _node_assets(node)):
                if state != "Failed":
                    self._before[uri] = str(state)
                    put(uri, ComposedNodeState="Failed", Status=_status("Critical"))
                continue
            if state == "Failed":
                state = self._before.pop(uri, "Assembled")
                put(uri, ComposedNodeState=state, Status=_status("OK"))
            now = self._clock()
            if state == "Assembling" and now >= self._due.setdefault(uri, now + self._assemble_s):
                del self._due[uri]
                put(uri, ComposedNodeState="Assembled")
                self._power(uri, "On")

    def reply(self, method: str, uri: str, body: Any = None) -> HttpReply | None:
        """Answer a request to this service, None for any other; the URI ends in the action."""
        uri, _, action = uri.rstrip("/").partition("/Actions/")
        verb = action.rpartition(".")[2]
        if method == "DELETE" and not action:
            return self.delete(uri) if uri in self._nodes() else None
        if method != "POST" or not verb:
            return None
        if verb == "Allocate":
            return self.allocate(body) if uri in self._collections else None
        if uri not in self._nodes():
            return None
        if verb == "Reset":
            return self.reset(uri, body)
        if verb in ATTACHES + DETACHES:
            return self.change(uri, docs.uri_at(body, "Resource"), is_removal=verb in DETACHES)
        verbs = {"Assemble": self.assemble, "ForceDelete": self.force_delete}
        return verbs[verb](uri) if verb in verbs else None

    def allocate(self, body: Any) -> HttpReply:
        """Allocate a node: 201 with its Location, 400, 409 with the counts, or 503."""
        self.tick()
        if not (collections := self._collections):
            return _missing(ROOT)
        if wrong := choice.violations(body, lambda uri: uri in self._documents):
            return _invalid(wrong)
        named = {uri for some in choice.requested_resources(body).values() for uri in some}
        if away := sorted(filter(self._is_away, named)):
            return _unavailable(away)
        chooser = choice.SystemChooser(self._documents)
        chosen, counts = chooser.choose(body, equal="equal-device" in self._faults)
        if chosen is None:
            none = "There are no computer systems available for this allocation request."
            return _conflict("Conflict during allocation", none, counts)
        volumes: list[str] = []
        for wanted in body.get("RemoteDrives") or ():
            size_gib, protocol = wanted["CapacityGiB"], wanted.get("Protocol")
            share = 0.5 if "short-amounts" in self._faults else 1
            uri = _cut(self._documents, size_gib * share, protocol)
            if uri is None:
                for volume in volumes:
                    _release(self._documents, volume)
                what = f"{size_gib} GiB over {protocol or 'any protocol'}"
                reason = f"There is no storage pool with room for {what}."
                return _conflict("Conflict during allocation", reason)
            volumes.append(uri)
        collection, wanted_id = collections[0], body.get("Name")
        uri = f"{collection}/{wanted_id}"
        if "uri-names" not in self._faults or wanted_id is None or uri in self._documents:
            uri = f"{collection}/{self._documents.free_id(collection)}"
        renamed = {**body, "Name": node_name(self._faults, wanted_id)}
        rack = docs.value_at(self._documents.get(ROOT), "Oem", "Intel_RackScale")
        version = str(docs.value_at(rack, "ApiVersion") or "")
        node = _node_document(uri, renamed, chosen, volumes, version)
        if "odd-actions" in self._faults:
            node["Actions"] = _renamed(node["Actions"])
        self._documents.add_member(collection, node)
        complete_system(self._documents, chosen.system.uri)
        return HttpReply(201, None, {} if "no-location" in self._faults else {"Location": uri})

    def assemble(self, uri: str) -> HttpReply:
        if refusal := self._refusal(uri):
            return refusal
        node = self._node(uri)
        if (state := node.get("ComposedNodeState")) != "Allocated":
            reason = f"Only an Allocated node can be assembled; this one is {state}."
            return _conflict("Assembly action could not be completed", reason)
        host, *devices = _node_assets(node) or [""]
        connect(self._documents, {*devices, *docs.uris_at(node, "Links", "RemoteDrives")}, host)
        self._due[uri] = self._clock() + self._assemble_s
        self._documents.update(uri, ComposedNodeState="Assembling")
        return HttpReply(204)

    def reset(self, uri: str, body: Any) -> HttpReply:
        if refusal := self._refusal(uri):
            return refusal
        kind = body.get("ResetType") if isinstance(body, dict) else None
        if kind not in RESETS:
            return _invalid([f"ResetType: expected one of {', '.join(RESETS)}"])
        node = self._node(uri)
        if (state := node.get("ComposedNodeState")) != "Assembled":
            reason = f"Only an Assembled node can be reset; this one is {state}."
            return _conflict("Reset action could not be completed", reason)
        self._power(uri, power_after(str(kind), node.get("PowerState")))
        return HttpReply(204)

    def change(self, uri: str, device: str, *, is_removal: bool) -> HttpReply:
        """Attach a pooled device or a volume to an Assembled or Failed node, or detach it."""
        if refusal := self._refusal(uri):
            return refusal
        node, verb = self._node(uri), "Detach" if is_removal else "Attach"
        if (state := node.get("ComposedNodeState")) not in ("Assembled", "Failed"):
            reason = f"Devices of an Assembled or Failed node can be changed; this one is {state}."
            return _conflict(f"{verb} action could not be completed", reason)
        host, *devices = _node_assets(node) or [""]
        chooser = choice.SystemChooser(self._documents)
        known = set(devices) & chooser.pooled if is_removal else chooser.attachable(host)
        linked = {uri for it in self._nodes() for uri in docs.uris_at(self._node(it), *_REMOTE)}
        volumes = set(docs.uris_at(node, *_REMOTE))
        if not is_removal:
            lists = (docs.uri_at(it.json, "Volumes") for it in _storages(self._documents))
            volumes = {uri for it in lists for uri in self._documents.member_uris(it)} - linked
        if device not in known | volumes:
            return _invalid([f"Resource: {device or 'no link'} cannot be {verb.lower()}ed"])
        if "empty-change" in self._faults:
            return HttpReply(204)
        kind = "LocalDrives" if "/Drives/" in device else "Processors"
        kind = _REMOTE[-1] if device in volumes else kind
        links = docs.object_of(node, "Links")
        others = [it for it in docs.uris_at(node, "Links", kind) if it != device]
        now = others if is_removal else [*others, device]
        self._documents.update(uri, Links={**links, kind: docs.links_to(now)})
        every = {*devices, device, *docs.uris_at(links, "RemoteDrives")}
        disconnect(self._documents, every)
        if is_removal:
            every.remove(device)
        if is_removal and device not in volumes:
            with changed_copy(self._documents, device) as json:
                _erase(json)
        connect(self._documents, every, host)
        return HttpReply(204)

    def delete(self, uri: str) -> HttpReply:
        if refusal := self._refusal(uri):
            return refusal
        if self._node(uri).get("ComposedNodeState") == "Assembling":
            reason = "A node that is Assembling cannot be deleted."
            return _conflict("The node could not be disassembled", reason)
        return self._free(uri)

    def force_delete(self, uri: str) -> HttpReply:
        self.tick()
        return self._free(uri) if uri in self._nodes() else _missing(uri)

    def _free(self, uri: str) -> HttpReply:
        node = self._node(uri)
        self._power(uri, "Off")
        assets, volumes = _node_assets(node), docs.uris_at(node, "Links", "RemoteDrives")
        disconnect(self._documents, {*assets, *volumes})
        for volume in volumes:
            _release(self._documents, volume)
        for asset in assets:
            with changed_copy(self._documents, asset) as device:
                _erase(device)
        for collection in self._collections:
            self._documents.remove_member(collection, uri)
        self._due.pop(uri, None)
        self._before.pop(uri, None)
        return HttpReply(204)

    def _refusal(self, uri: str) -> HttpReply | None:
        self.tick()
        if uri not in self._nodes():
            return _missing(uri)
        away = [it for it in _node_assets(self._node(uri)) if self._is_away(it)]
        return _unavailable(away) if away else None

    def _is_away(self, uri: str) -> bool:
        state = docs.value_at(self._documents.get(uri), "Status", "State")
        return uri not in self._documents or str(state or "").casefold() in choice.AWAY

    def _power(self, uri: str, power: Any) -> None:
        self._documents.update(uri, PowerState=power)
        for system in docs.uris_at(self._node(uri), "Links", "ComputerSystem")[:1]:
            self._documents.update(system, PowerState=power)

    def _node(self, uri: str) -> Json:
        return self._documents.get(uri) or {}

    @property
    def _collections(self) -> list[str]:
        return root_links(self._documents, "Nodes")

    def _nodes(self) -> list[str]:
        return [uri for uri, _ in listed(self._documents, "Nodes")]


def _renamed(actions: Json) -> Json:
    return {f"#Rack.Nodes.{name.rpartition('.')[2]}": value for name, value in actions.items()}


def _status(health: str) -> Json:
    return {"State": "Enabled", "Health": health, "HealthRollup": health}


def _erase(device: Json) -> None:
    rack = docs.value_at(device, "Oem", "Intel_RackScale")
    if not isinstance(rack, dict):
        return
    erased = rack.get("EraseOnDetach") is not False
    if "FPGA" in rack and isinstance(rack["FPGA"], dict):
        rack["FPGA"]["Erased"] = erased
    else:
        rack["DriveErased"] = erased
        rack["Storage"] = None


def _invalid(reasons: Iterable[str]) -> HttpReply:
    return _refused(400, "InvalidPayload", "Request payload is invalid or missing", reasons)


def _missing(uri: str) -> HttpReply:
    return _refused(404, "InvalidEndpoint", "No such composed node", [f"{uri} does not exist"])


def _conflict(message: str, *reasons: str) -> HttpReply:
    return _refused(409, "ResourcesStateMismatch", message, reasons)


def _unavailable(uris: Iterable[str]) -> HttpReply:
    reasons, later = [f"{uri} does not answer" for uri in uris], {"Retry-After": str(RETRY_AFTER_S)}
    return _refused(503, "ServiceTemporarilyUnavailable", "An asset is absent", reasons, **later)


def _refused(
    status: int, code: str, message: str, reasons: Iterable[str], **headers: str
) -> HttpReply:
    info: list[Json] = [{"Message": reason} for reason in reasons]
    error = {"code": f"Base.1.0.{code}", "message": message, "@Message.ExtendedInfo": info}
    return HttpReply(status, {"error": error}, headers)


def _cut(documents: DocumentTree, size_gib: float, protocol: str | None) -> str | None:
    """Create the volume of a RemoteDrive; return its URI, None if it does not fit."""
    for storage in _storages(documents):
        service = LinkedDocuments(documents.get, NO_NOTES, documents)
        for stock in rack_stocks(service, [storage], ()):
            if free_amount(stock) < size_gib:
                continue
            make, offered = _cut_logical_drive, "iSCSI"
            if "Capacity" in (documents.get(stock.uri) or {}):
                make, ends = _cut_volume, docs.uri_at(storage.json, "Endpoints")
                every = (it for _, it in listed(documents, "Fabrics") if ends)
                near = (it for it in every if docs.uri_at(it, "Endpoints") == ends)
                if docs.value_at(next(near, None), "FabricType") == "NVMeOverFabrics":
                    offered = "NVMeOverFabrics"
            if protocol not in (None, offered):
                continue
            if uri := make(documents, storage, stock.uri, size_gib):
                return uri
    return None


def _release(documents: DocumentTree, uri: str) -> None:
    json = documents.get(uri)
    if json is None:
        return
    for storage in _storages(documents):
        both = (docs.uri_at(storage.json, name) for name in ("Volumes", "RemoteTargets"))
        volumes, targets = both
        if uri in documents.member_uris(volumes):
            size = schema.DriveDevice.capacity_bytes.of(schema.DriveDevice("", json, NO_NOTES)) or 0
            for source in objects(json.get("CapacitySources")):
                for pool in docs.uris_at(source, "ProvidingPools"):
                    consume(documents, pool, -size)
            documents.remove_member(volumes, uri)
        if uri in documents.member_uris(targets):
            _remove_logical_drives(documents, docs.uri_at(storage.json, "LogicalDrives"), json)
            documents.remove_member(targets, uri)


def _storages(documents: DocumentTree) -> Iterator[StorageService]:
    for uri, json in listed(documents, "StorageServices", "Services"):
        yield StorageService(uri, json, NO_NOTES)


def _cut_volume(
    documents: DocumentTree, storage: StorageService, pool: str, size_gib: float
) -> str | None:
    collection = docs.uri_at(storage.json, "Volumes")
    if collection not in documents:
        return None
    id_, size = documents.free_id(collection), round(size_gib * GIB)
    uri, capacity = f"{collection}/{id_}", {"Data": {"AllocatedBytes": size}}
    own: Json = {"Status": docs.OK, "CapacityBytes": size, "Capacity": capacity}
    source = {"ProvidingPools": docs.links_to([pool]), "ProvidedCapacity": capacity}
    own |= {"CapacitySources": [source], "Links": {"Oem": {"Intel_RackScale": {"Endpoints": []}}}}
    json = docs.resource_document(uri, "Volume.v1_1_0", f"Volume {id_}", **own)
    documents.add_member(collection, json)
    consume(documents, pool, size)
    return uri


def _cut_logical_drive(
    documents: DocumentTree, storage: StorageService, pool: str, size_gib: float
) -> str | None:
    both = (docs.uri_at(storage.json, name) for name in ("LogicalDrives", "RemoteTargets"))
    drives, targets = both
    if not drives or targets not in documents:
        return None
    id_, number = documents.free_id(drives), documents.free_id(targets)
    uri, target = f"{drives}/{id_}", f"{targets}/{number}"
    drive: Json = {"@odata.id": uri, "Id": id_, "Name": f"Logical drive {id_}", "Status": docs.OK}
    drive |= {"Type": "LVM", "Mode": "LV", "CapacityGiB": size_gib}
    linked: Json = {"PhysicalDrives": [], "UsedBy": [], "Targets": []}
    drive["Links"] = linked | {"LogicalDrives": docs.links_to([pool])}
    documents.add_member(drives, drive)
    unit = {"LUN": 1, "LogicalDrive": uri}
    own: Json = {"@odata.id": target, "Id": number, "Name": f"Target {number}", "Status": docs.OK}
    own |= {"Type": "Network Storage", "Addresses": [{"iSCSI": {"TargetLUN": [unit]}}]}
    documents.add_member(targets, own)
    return target


def _remove_logical_drives(documents: DocumentTree, drives: str, target: Json) -> None:
    for address in objects(target.get("Addresses")):
        for unit in objects(docs.value_at(address, "iSCSI", "TargetLUN")):
            for uri in filter(None, links(unit.get("LogicalDrive"))):
                documents.remove_member(drives, uri)
                for group in documents.member_uris(drives):
                    with changed_copy(documents, group) as drive:
                        used = docs.value_at(drive, "Links", "UsedBy")
                        if isinstance(used, list):
                            used[:] = [it for it in used if docs.value_at(it, "@odata.id") != uri]


def root_links(documents: DocumentTree, name: str) -> list[str]:
    root = documents.get(ROOT)
    found = [docs.uri_at(root, name), docs.uri_at(root, "Oem", "Intel_RackScale", name)]
    return list(dict.fromkeys(filter(None, found)))


def listed(documents: DocumentTree, *names: str) -> list[tuple[str, Json]]:
    """Return the documents in collections of the root by their URI."""
    links = (link for name in names for link in root_links(documents, name))
    uris = dict.fromkeys(uri for link in links for uri in documents.member_uris(link))
    return [(uri, json) for uri in uris if (json := documents.get(uri)) is not None]


@contextlib.contextmanager
def changed_copy(documents: DocumentTree, uri: str) -> Iterator[Json]:
    """Yield a copy of a document, empty if it is missing; the copy then replaces the document."""
    json = copy.deepcopy(documents.get(uri))
    yield {} if json is None else json
    if json is not None:
        documents.put(uri, json)


def _endpoints_of(documents: DocumentTree, fabric: Json, devices: set[str]) -> list[str]:
    def offers(end: str) -> bool:
        entities = objects(docs.value_at(documents.get(end), "ConnectedEntities"))
        offered = (it for it in entities if it.get("EntityRole") != "Initiator")
        return any(docs.uri_at(it, "EntityLink") in devices for it in offered)

    return list(filter(offers, documents.member_uris(docs.uri_at(fabric, "Endpoints"))))


def connect(documents: DocumentTree, devices: set[str], host: str) -> None:
    """Make a zone in each fabric that offers some of these devices to a system."""
    for _, fabric in listed(documents, "Fabrics"):
        zones, ends = docs.uri_at(fabric, "Zones"), _endpoints_of(documents, fabric, devices)
        if not zones or not ends:
            continue
        id_ = documents.free_id(zones)
        inside = set(documents.member_uris(docs.uri_at(fabric, "Endpoints")))
        hosts = docs.uris_at(documents.get(host), "Links", "Endpoints")
        ends += [end for end in hosts if end in inside]
        uri, name = f"{zones}/{id_}", f"Zone {id_}"
        joined = {"Endpoints": docs.links_to(ends)}
        zone = {"@odata.id": uri, "Id": id_, "Name": name, "Status": docs.OK, "Links": joined}
        documents.add_member(zones, zone)
        _set_zones(documents, ends, [uri])


def disconnect(documents: DocumentTree, devices: set[str]) -> None:
    for _, fabric in listed(documents, "Fabrics"):
        zones, ends = docs.uri_at(fabric, "Zones"), _endpoints_of(documents, fabric, devices)
        _set_zones(documents, ends, [])
        for uri in documents.member_uris(zones):
            inside = docs.uris_at(documents.get(uri), "Links", "Endpoints")
            if not set(ends).isdisjoint(inside):
                documents.remove_member(zones, uri)
                _set_zones(documents, inside, [])


def _set_zones(documents: DocumentTree, endpoints: Iterable[str], zones: list[str]) -> None:
    for end in endpoints:
        with changed_copy(documents, end) as endpoint:
            rack = docs.value_at(endpoint, "Links", "Oem", "Intel_RackScale")
            if isinstance(rack, dict):
                rack["Zones"] = docs.links_to(zones)
