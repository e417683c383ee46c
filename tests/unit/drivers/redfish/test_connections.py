# SPDX-License-Identifier: Apache-2.0
"""Amounts of existing nodes: memory chunks and volumes that a fabric connects."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import (
    CHUNKS,
    DOMAIN,
    DOMAIN_JSON,
    NODE as COMPOSED,
    Service,
    StoredPodm,
    link,
    links,
    lost,
)
from valence_sched.drivers.composer import AmountChange, Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, Grant

NODE, POOL, VOLUMES = "/S/1", "/R/Storage/1/StoragePools/1", "/R/Storage/1/Volumes"
CONNECTIONS = "/F/1/Connections"
MEMORY, STORAGE = Grant(DOMAIN, 1024.0), Grant(POOL, 10.0)


def endpoint(role: str, entity: str, *zones: str) -> dict[str, Any]:
    entities = [{"EntityRole": role, "EntityLink": link(entity)}]
    return {"ConnectedEntities": entities, "Links": {"Zones": links(*zones)}}


DOCUMENTS: dict[str, Any] = {
    ROOT: {"Fabrics": link("/F")},
    "/F": {"Members": links("/F/0", "/F/1")},
    "/F/0": {"Endpoints": link("/F/0/Endpoints")},
    "/F/1": {"Connections": link(CONNECTIONS), "Endpoints": link("/F/1/Endpoints")},
    CONNECTIONS: {"Members": []},
    "/F/1/Endpoints": {"Members": links(*(f"/E/{name}" for name in "12345"))},
    "/E/1": endpoint("Initiator", "/S/2/Processors/1", "/Z/1"),
    "/E/2": endpoint("Initiator", f"{NODE}/Processors/1", "/Z/2"),
    "/E/3": endpoint("Initiator", "/B/1/Processors/1", "/Z/1"),
    "/E/4": endpoint("Target", "/L/1", "/Z/1"),
    "/E/5": endpoint("Target", "/R/Storage/1"),
    NODE: {"Name": "vs-1"},
    DOMAIN: {**DOMAIN_JSON, "Links": {"CXLLogicalDevices": links("/L/1")}},
    CHUNKS: {"Members": []},
    POOL: {"Capacity": {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}}},
    "/R/Storage/1": {"Volumes": link(VOLUMES)},
    VOLUMES: {"Members": []},
}


def links_of(collection: dict[str, Any]) -> list[str]:
    return [str(one["@odata.id"]) for one in collection["Members"]]


def wanted(*grants: Grant, amounts: tuple[Grant, ...] = ()) -> CompositionRequest:
    return CompositionRequest(name="vs-1", blocks=("/B/1",), grants=grants, amounts=amounts)


class Connected(unittest.TestCase):
    """A service whose fabric connects a memory domain and a storage pool to a node."""

    def setUp(self) -> None:
        self.podm = StoredPodm(DOCUMENTS)
        self.podm.on_delete = self.drop
        self.composer = RedfishComposer(self.podm, self.podm.patience)

    def attach(self, *grants: Grant, amounts: tuple[Grant, ...] = ()) -> AmountChange:
        request = wanted(*(grants or (MEMORY,)), amounts=amounts)
        return self.composer.attach_amounts(request, NODE, self.podm.states.append)

    def attached(self, *grants: Grant) -> tuple[Grant, ...]:
        made = self.attach(*grants).amounts
        assert made is not None
        self.podm.requests.clear()
        return made

    def detach(self, *amounts: Grant, of: Grant = MEMORY) -> AmountChange:
        request = wanted(*[of] * len(amounts), amounts=amounts)
        return self.composer.detach_amounts(request, NODE, self.podm.states.append)

    def drop(self, uri: str) -> Reply:
        """Delete a document; its collection still lists it, and its URI is not used again."""
        self.podm.documents[uri] = 404
        return Reply(204, {}, None)

    def refuse(self, *places: str) -> None:
        """Let the service refuse to create a member of a collection, or to delete a document."""

        def post(uri: str, body: dict[str, Any]) -> Reply:
            return self.podm.refuse() if uri in places else self.podm.create(uri, body)

        def delete(uri: str) -> Reply:
            below = uri.rpartition("/")[0]
            return self.podm.refuse() if f"-{below}" in places else self.drop(uri)

        self.podm.on_post, self.podm.on_delete = post, delete

    def connected(self) -> list[str]:
        """Return the amounts that existing connections link."""
        found = map(self.podm.documents.__getitem__, self.existing(CONNECTIONS))
        return [one["MemoryChunkInfo"][0]["MemoryChunk"]["@odata.id"] for one in found]

    def members(self, collection: str) -> list[str]:
        return links_of(self.podm.documents[collection])

    def existing(self, collection: str) -> list[str]:
        return [uri for uri in self.members(collection) if self.podm.documents[uri] != 404]


class TestAttaching(Connected):
    """Creation and connection."""

    def test_a_chunk_is_created_then_connected_within_a_common_zone(self) -> None:
        found = self.attach()
        (chunk,) = self.existing(CHUNKS)
        self.assertEqual(AmountChange((Grant(chunk, 1024.0),)), found)
        self.assertEqual([CHUNKS, CONNECTIONS], self.podm.sent("POST"))
        info = {"AccessCapabilities": ["Read", "Write"], "MemoryChunk": link(chunk)}
        ends = {"InitiatorEndpoints": links("/E/3"), "TargetEndpoints": links("/E/4")}
        expected = {"Name": "vs-1", "ConnectionType": "Memory", "MemoryChunkInfo": [info],
                    "Links": ends}  # fmt: skip
        self.assertEqual(expected, self.podm.bodies[1])

    def test_a_volume_is_connected_as_a_volume_of_its_storage_system(self) -> None:
        found = self.attach(STORAGE)
        (volume,) = self.existing(VOLUMES)
        self.assertEqual(AmountChange((Grant(volume, 10.0),)), found)
        body = self.podm.bodies[1]
        self.assertEqual(("Storage", link(volume)),
                         (body["ConnectionType"], body["VolumeInfo"][0]["Volume"]))  # fmt: skip
        self.assertEqual(links("/E/2"), body["Links"]["InitiatorEndpoints"])

    def test_the_endpoints_of_a_node_may_be_linked_by_its_system(self) -> None:
        self.podm.documents[NODE] = {"Links": {"Endpoints": links("/E/1")}}
        self.attach()
        self.assertEqual(links("/E/1"), self.podm.bodies[1]["Links"]["InitiatorEndpoints"])

    def test_a_stock_in_a_fabric_that_has_zones_only_is_refused_before_a_write(self) -> None:
        self.podm.documents["/F/1"] = {"Endpoints": link("/F/1/Endpoints")}
        words = f"{DOMAIN}: found no Connections in the fabric of /E/4, expected one to connect"
        with self.assertRaisesRegex(PodmError, words):
            self.attach()
        self.assertEqual([], self.podm.sent("POST"))

    def test_a_stock_without_an_endpoint_is_not_connected(self) -> None:
        self.podm.documents["/E/4"] = endpoint("Target", "/L/2")
        self.assertEqual("", self.attach().reason)
        self.assertEqual([CHUNKS], self.podm.sent("POST"))

    def test_a_node_that_no_zone_joins_with_the_stock_is_refused_before_a_write(self) -> None:
        self.podm.documents["/E/4"] = endpoint("Target", "/L/1", "/Z/9")
        words = "/R/MemoryDomains/1: found no endpoint of /S/1 that reaches /E/4, expected one"
        with self.assertRaisesRegex(PodmError, words):
            self.attach()
        self.assertRegex(self.composer.amounts_refusal(wanted(MEMORY), NODE), words)
        self.assertEqual([], self.podm.sent("POST"))

    def test_an_amount_that_is_not_free_any_more_is_a_conflict(self) -> None:
        self.podm.documents[DOMAIN] = {**self.podm.documents[DOMAIN], "MemorySizeMiB": 512}
        found = self.attach()
        self.assertEqual(((), True), (found.amounts, found.conflicts))
        self.assertEqual(f"{DOMAIN}: found 512 MiB free, expected 1024 or more", found.reason)
        refusal = self.composer.amounts_refusal(wanted(MEMORY), NODE)
        self.assertEqual(found.reason, refusal)
        self.assertIsNone(self.composer.amounts_refusal(wanted(STORAGE), NODE))

    def test_a_refused_connection_undoes_the_chunk(self) -> None:
        self.refuse(CONNECTIONS)
        found = self.attach()
        self.assertEqual(((), False), (found.amounts, found.works))
        self.assertRegex(found.reason, f"^{CHUNKS}/.* is not connected: HTTP 400: not here$")
        self.assertEqual([], self.existing(CHUNKS))

    def test_the_second_of_two_amounts_undoes_the_first(self) -> None:
        self.refuse(VOLUMES)
        found = self.attach(MEMORY, STORAGE)
        self.assertEqual(AmountChange((), f"{VOLUMES}: HTTP 400: not here"), found)
        self.assertEqual(([], []), (self.existing(CHUNKS), self.existing(CONNECTIONS)))

    def test_a_chunk_that_cannot_be_deleted_again_is_named(self) -> None:
        self.refuse(CONNECTIONS, f"-{CHUNKS}")
        found = self.attach()
        (chunk,) = self.existing(CHUNKS)
        self.assertEqual((Grant(chunk, 1024.0),), found.amounts)
        self.assertRegex(found.reason, f"is not connected: .*; {chunk} still exists: HTTP 400")

    def test_a_connection_that_was_made_although_the_reply_was_lost_is_found(self) -> None:
        def post(uri: str, body: dict[str, Any]) -> Reply:
            reply = self.podm.create(uri, body)
            return lost() if uri == CONNECTIONS else reply

        self.podm.on_post = post
        self.assertEqual("", self.attach().reason)
        self.assertEqual(self.existing(CHUNKS), self.connected())

    def test_a_success_without_a_connection_is_unknown_and_leaves_no_chunk(self) -> None:
        def post(uri: str, body: dict[str, Any]) -> Reply:
            return Reply(200, {}, {}) if uri == CONNECTIONS else self.podm.create(uri, body)

        self.podm.on_post = post
        found = self.attach()
        self.assertIsNone(found.amounts)
        self.assertRegex(found.reason, "reported success, but shows no connection$")
        self.assertEqual([], self.existing(CHUNKS))

    def test_a_body_is_sent_again_with_its_type_if_the_service_requires_that(self) -> None:
        def post(uri: str, body: dict[str, Any]) -> Reply:
            if "@odata.type" not in body:
                return Reply(400, {}, None, "Property @odata.type not found")
            return self.podm.create(uri, body)

        self.podm.on_post = post
        self.assertEqual("", self.attach().reason)
        types = [body.get("@odata.type") for body in self.podm.bodies]
        chunk, connection = "#MemoryChunks.v1_5_0.MemoryChunks", "#Connection.v1_1_0.Connection"
        self.assertEqual([None, chunk, None, connection], types)


class TestComposing(unittest.TestCase):
    """Nodes that are composed with an amount, which a fabric connects."""

    def setUp(self) -> None:
        self.podm = Service()
        names = (CONNECTIONS, "/F", "/F/1", "/E/3", "/E/4", DOMAIN)
        self.podm.documents |= {name: DOCUMENTS[name] for name in names}
        self.podm.documents[ROOT] = {**self.podm.documents[ROOT], "Fabrics": link("/F")}
        self.podm.documents["/F"] = {"Members": links("/F/1")}
        self.podm.documents["/F/1/Endpoints"] = {"Members": links("/E/3", "/E/4")}

    def refuse(self, *places: str, how: Any = None) -> None:
        """Let the service answer in another way to creations in these collections."""
        other = how or self.podm.refuse
        self.podm.on_post = lambda uri, body: (other if uri in places else self.podm.make)(
            uri, body
        )

    def left(self) -> list[str]:
        """Return the existing systems, chunks and connections."""
        every = ("/S", CHUNKS, CONNECTIONS)
        return [uri for it in every for uri in links_of(self.podm.documents[it])
                if uri in self.podm.documents]  # fmt: skip

    def test_the_chunk_is_connected_after_the_node_is_composed(self) -> None:
        found = self.podm.ask()
        self.assertEqual(("composed", ""), (found.state, found.reason))
        self.assertEqual([CHUNKS, "/S", CONNECTIONS], self.podm.sent("POST"))
        ends = {"InitiatorEndpoints": links("/E/3"), "TargetEndpoints": links("/E/4")}
        self.assertEqual(ends, self.podm.bodies[-1]["Links"])
        self.assertEqual(found, self.podm.composer.read_node(COMPOSED, found.node))
        self.podm.on_delete = lambda uri: (
            self.podm.decompose(uri) if uri == found.node else self.podm.drop(uri)
        )
        self.assertEqual("absent", self.podm.remove(str(found.node), COMPOSED).state)
        self.assertEqual([], self.left())

    def test_a_node_whose_chunk_is_not_connected_is_left_and_can_be_removed(self) -> None:
        def lie(_uri: str, _body: dict[str, Any]) -> Reply:
            return Reply(200, {}, None)

        for how, state, words in (
            (None, "left", "is not connected: HTTP 400"),
            (lie, "unknown", "reported success, but shows no connection"),
        ):
            with self.subTest(state):
                self.setUp()
                self.refuse(CONNECTIONS, how=how)
                found = self.podm.ask()
                self.assertEqual(state, found.state)
                self.assertIn(words, found.reason)
                again = self.podm.composer.read_node(COMPOSED)
                self.assertEqual(("left", found.node), (again.state, again.node))
                self.assertRegex(again.reason, "/MemoryChunks/.* is not connected$")
                self.podm.on_delete = lambda uri, node=found.node: (  # type: ignore[misc]
                    self.podm.decompose(uri) if uri == node else self.podm.drop(uri)
                )
                removed = self.podm.remove(str(found.node), COMPOSED)
                self.assertEqual(("absent", []), (removed.state, self.left()))

    def test_a_node_without_an_endpoint_in_the_fabric_is_left(self) -> None:
        self.podm.documents["/E/3"] = endpoint("Initiator", "/B/9/Processors/1")
        found = self.podm.ask()
        self.assertEqual("left", found.state)
        self.assertIn(f"found no endpoint of {found.node} that reaches /E/4", found.reason)
        self.assertEqual([CHUNKS, "/S"], self.podm.sent("POST"))


class TestDetaching(Connected):
    """Disconnection and deletion."""

    def test_the_connection_goes_before_the_chunk(self) -> None:
        (chunk,) = self.attached()
        self.assertEqual(AmountChange(()), self.detach(chunk))
        deleted = self.podm.sent("DELETE")
        self.assertEqual([CONNECTIONS, CHUNKS], [uri.rpartition("/")[0] for uri in deleted])

    def test_a_deletion_may_be_done_whatever_the_answer(self) -> None:
        for status in (404, 500):
            with self.subTest(status):
                self.setUp()
                (chunk,) = self.attached()

                def delete(uri: str, status: int = status) -> Reply:
                    self.drop(uri)
                    return Reply(status, {}, None)

                self.podm.on_delete = delete
                self.assertEqual(AmountChange(()), self.detach(chunk))

    def test_a_copy_that_is_no_longer_listed_is_gone(self) -> None:
        (chunk,) = self.attached()

        def delete(uri: str) -> Reply:
            collection = uri.rpartition("/")[0]
            self.podm.documents[collection] = {"Members": []}
            return Reply(500, {}, None)

        self.podm.on_delete = delete
        self.assertEqual(AmountChange(()), self.detach(chunk))

    def test_a_refused_deletion_connects_the_chunk_again(self) -> None:
        (chunk,) = self.attached()
        self.refuse(f"-{CHUNKS}")
        found = self.detach(chunk)
        self.assertEqual(((chunk,), False), (found.amounts, found.works))
        self.assertEqual(f"{chunk.uri} still exists: HTTP 400: not here", found.reason)
        self.assertEqual([chunk.uri], self.connected())

    def test_a_chunk_that_cannot_be_connected_again_is_unknown(self) -> None:
        (chunk,) = self.attached()
        self.refuse(f"-{CHUNKS}", CONNECTIONS)
        found = self.detach(chunk)
        self.assertIsNone(found.amounts)
        self.assertRegex(found.reason, "still exists: .*; .* is not connected: HTTP 400")

    def test_a_chunk_can_go_although_its_endpoints_have_changed(self) -> None:
        (chunk,) = self.attached()
        self.podm.documents["/E/3"] = endpoint("Initiator", "/X/1")
        again = RedfishComposer(self.podm, self.podm.patience)
        self.assertEqual(
            (chunk,), again.read_amounts(wanted(MEMORY, amounts=(chunk,)), NODE).amounts
        )
        self.podm.on_delete = lambda uri: self.podm.refuse() if uri == chunk.uri else self.drop(uri)
        request = wanted(MEMORY, amounts=(chunk,))
        found = again.detach_amounts(request, NODE, self.podm.states.append)
        self.assertIsNone(found.amounts)
        self.assertRegex(found.reason, "not here; could not be read back: .* no endpoint of /S/1")
        self.podm.on_delete = self.drop
        self.assertEqual((), again.detach_amounts(request, NODE, self.podm.states.append).amounts)

    def test_a_refused_disconnection_keeps_all(self) -> None:
        first, second = self.attached(MEMORY, MEMORY)
        calls = []

        def delete(uri: str) -> Reply:
            calls.append(uri)
            return self.drop(uri) if len(calls) == 1 else self.podm.refuse()

        self.podm.on_delete = delete
        found = self.detach(first, second)
        self.assertEqual((first, second), found.amounts)
        self.assertEqual({first.uri, second.uri}, set(self.connected()))
        self.assertEqual(2, len(self.existing(CHUNKS)))

    def test_a_part_that_was_deleted_is_not_among_what_remains(self) -> None:
        first, second = self.attached(MEMORY, MEMORY)

        def delete(uri: str) -> Reply:
            return self.podm.refuse() if uri == second.uri else self.drop(uri)

        self.podm.on_delete = delete
        self.assertEqual((second,), self.detach(first, second).amounts)

    def test_a_success_without_an_effect_is_unknown(self) -> None:
        for place in (CONNECTIONS, CHUNKS):
            with self.subTest(place):
                self.setUp()
                (chunk,) = self.attached()

                def delete(uri: str, place: str = place) -> Reply:
                    is_kept = uri.startswith(f"{place}/")
                    return Reply(204, {}, None) if is_kept else self.drop(uri)

                self.podm.on_delete = delete
                found = self.detach(chunk)
                self.assertIsNone(found.amounts)
                self.assertRegex(found.reason, "still exists: the service reported its deletion")

    def test_what_is_gone_or_belongs_to_another_node_is_not_touched(self) -> None:
        self.podm.documents["/X/1"] = {"Name": "vs-2", "MemoryChunkSizeMiB": 5}
        self.assertEqual((), self.detach(Grant("/X/1", 5.0), Grant("/X/2", 5.0)).amounts)
        self.assertEqual([], self.podm.sent("DELETE"))

    def test_a_decomposed_node_leaves_no_connection(self) -> None:
        (chunk,) = self.attached()
        request = CompositionRequest(name="vs-1", amounts=(chunk,))
        self.composer.remove(request, "", self.podm.states.append)
        self.assertEqual(([], []), (self.existing(CHUNKS), self.existing(CONNECTIONS)))


class TestReading(Connected):
    """The amounts of a change after the death of its process."""

    def read(self, *amounts: Grant, new: bool = False) -> AmountChange:
        grants = (MEMORY,) if new else (MEMORY,) * len(amounts)
        return self.composer.read_amounts(wanted(*grants, amounts=amounts), NODE, new=new)

    def test_a_new_chunk_is_found_by_its_name_besides_those_of_before(self) -> None:
        self.assertRegex(self.read(new=True).reason, "found 0 of 1 memory chunks and volumes")
        (old,) = self.attached()
        self.assertEqual((), self.read(old, new=True).amounts)
        (new,) = self.attached()
        self.assertEqual(AmountChange((new,)), self.read(old, new=True))

    def test_a_chunk_without_its_connection_is_named(self) -> None:
        (chunk,) = self.attached()
        self.drop(self.existing(CONNECTIONS)[0])
        for found in (self.read(new=True), self.read(chunk)):
            self.assertEqual((chunk,), found.amounts)
            self.assertEqual(f"{chunk.uri} is not connected", found.reason)

    def test_a_chunk_without_a_name_may_belong_to_the_node(self) -> None:
        uri = self.podm.add(CHUNKS, MemoryChunkSizeMiB=1024)
        found = self.read(new=True)
        self.assertEqual(((), True), (found.amounts, found.conflicts))
        self.assertEqual(f"{uri} may belong to the node: the owner is unknown", found.reason)

    def test_of_amounts_that_leave_those_that_exist_are_found(self) -> None:
        first, second = self.attached(MEMORY, MEMORY)
        self.detach(first)
        found = self.read(first, second)
        self.assertEqual((second,), found.amounts)
        self.assertEqual("found 1 of 2 memory chunks and volumes", found.reason)
