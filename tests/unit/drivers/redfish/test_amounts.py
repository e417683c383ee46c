# SPDX-License-Identifier: Apache-2.0
"""Memory chunks and volumes: the request for an amount, and the detection of our own."""

import functools
import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import (
    CHUNKS,
    DOMAIN,
    DOMAIN_JSON,
    StoredPodm,
    link,
    links,
    lost,
)
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish.amounts import AmountComposer, Creation, size_of
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.model.claim import CompositionRequest, Grant

HOLDER, POOL = "/R/Storage/1", "/R/Storage/1/StoragePools/1"
VOLUMES = f"{POOL}/AllocatedVolumes"
POOL_JSON = {"Capacity": {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}},
             "AllocatedVolumes": link(VOLUMES)}  # fmt: skip
DOCUMENTS: dict[str, Any] = {
    DOMAIN: DOMAIN_JSON, CHUNKS: {"Members": []}, POOL: POOL_JSON, VOLUMES: {"Members": []},
    HOLDER: {},
}  # fmt: skip
MEMORY, STORAGE = Grant(DOMAIN, 1024.0), Grant(POOL, 10.0)
NAME = "vs-1"


def wanted(*grants: Grant, amounts: tuple[Grant, ...] = ()) -> CompositionRequest:
    return CompositionRequest(name=NAME, grants=grants, amounts=amounts)


def chunk(size: object = 1024, **properties: Any) -> dict[str, Any]:
    return {"MemoryChunkSizeMiB": size, **properties}


class Amounts(unittest.TestCase):
    """A service with one memory domain and one storage pool, both empty."""

    def podm(self, pauses: int = 20, **changes: Any) -> StoredPodm:
        names = {"domain": DOMAIN, "chunks": CHUNKS, "pool": POOL, "holder": HOLDER}
        found = {names[word]: json for word, json in changes.items()}
        self.podm_ = StoredPodm(DOCUMENTS | found, pauses)
        self.composer = AmountComposer(self.podm_, self.podm_.patience)
        return self.podm_

    def create(self, *grants: Grant) -> Creation:
        return self.composer.create(wanted(*grants), self.podm_.states.append)


class TestDeciding(Amounts):
    """Amounts that can never be created, and amounts that can be created now."""

    def test_what_nothing_can_be_made_of_is_named_with_its_amount(self):
        for changes, grant in (
            ({"domain": 404}, MEMORY),
            ({"domain": DOMAIN_JSON | {"AllowsMemoryChunkCreation": False}}, MEMORY),
            ({"domain": DOMAIN_JSON | {"Status": {"State": "Disabled"}}}, MEMORY),
            ({"domain": {"AllowsMemoryChunkCreation": True}}, MEMORY),
            ({"pool": {}}, STORAGE),
        ):
            with self.subTest(changes=changes):
                self.podm(**changes)
                what = "neither a memory domain nor a storage pool"
                line = f"{grant.uri}: found {what}, expected one to create {grant.amount:g}"
                self.assertEqual(line, self.composer.refusal(wanted(grant)))
                self.assertEqual(
                    [f"{grant.uri}: found nothing, expected {grant.amount:g} or more"],
                    list(self.composer.conflicts(wanted(grant))),
                )
                self.assertEqual(line, self.create(grant).problem)
                self.assertEqual([], self.podm_.sent("POST"))

    def test_a_memory_domain_without_chunks_is_never_taken_for_a_storage_pool(self):
        podm = self.podm(domain={"AllowsMemoryChunkCreation": True})
        podm.documents["/R"] = {"Volumes": link(VOLUMES)}
        self.assertRegex(self.composer.refusal(wanted(MEMORY)), "^/R/MemoryDomains/1: found neith")

    def test_what_can_be_made_is_not_refused(self):
        self.podm()
        self.assertIsNone(self.composer.refusal(wanted(MEMORY, STORAGE)))
        self.assertEqual([], list(self.composer.conflicts(wanted(MEMORY, STORAGE))))

    def test_a_domain_is_known_by_its_chunks_where_its_uri_does_not_tell(self):
        podm = StoredPodm({"/X/1": DOMAIN_JSON, CHUNKS: {"Members": []}})
        composer = AmountComposer(podm, podm.patience)
        self.assertIsNone(composer.refusal(wanted(Grant("/X/1", 256.0))))
        made = composer.create(wanted(Grant("/X/1", 256.0)), podm.states.append).made
        self.assertEqual([256.0], [one.amount for one in made])

    def test_an_amount_that_is_not_granted_now_is_told_with_what_is_left(self):
        for changes, grant, left in (
            ({"domain": DOMAIN_JSON | {"MemorySizeMiB": 512}}, MEMORY, "512 MiB free"),
            ({}, Grant(DOMAIN, 1000.0), "4096 MiB free"),
            ({"domain": {**DOMAIN_JSON, "MemorySizeMiB": None}}, MEMORY, "an unknown free amount"),
            ({"pool": {**POOL_JSON, "Capacity": {"Data": {"AllocatedBytes": 8 * GIB,
              "ConsumedBytes": 3 * GIB}}}}, STORAGE, "5 GiB free"),
            ({"pool": {**POOL_JSON, "Capacity": {"Data": {"AllocatedBytes": 3 * GIB,
              "ConsumedBytes": 8 * GIB}}}}, STORAGE, "0 GiB free"),
        ):  # fmt: skip
            with self.subTest(left):
                self.podm(**changes)
                line = f"{grant.uri}: found {left}, expected {grant.amount:g} or more"
                self.assertEqual([line], list(self.composer.conflicts(wanted(grant))))


class TestBody(Amounts):
    """The posted body."""

    def body(self, grant: Grant, **changes: Any) -> dict[str, Any]:
        self.podm(**changes)
        self.assertEqual("", self.create(grant).problem)
        (body,) = self.podm_.bodies
        return body

    def test_a_chunk_has_the_name_of_its_node_its_size_and_its_kind(self):
        expected = {"Name": NAME, "MemoryChunkSizeMiB": 1024, "AddressRangeType": "Volatile"}
        self.assertEqual(expected, self.body(MEMORY))
        self.assertEqual([CHUNKS], self.podm_.sent("POST"))

    def test_a_fraction_of_a_mib_is_rounded_up_but_for_an_error_of_rounding(self):
        for amount, size in ((1024.5, 1025), (1024.0000001, 1024), (1024.00001, 1025)):
            with self.subTest(amount):
                self.podm()
                self.create(Grant(DOMAIN, amount))
                self.assertEqual(size, self.podm_.bodies[0]["MemoryChunkSizeMiB"])

    def test_a_chunk_of_persistent_modules_is_persistent_and_interleaves_the_first_set(self):
        sets = [{"MemorySet": links("/M/1", "/M/2")}, {"MemorySet": links("/M/3")}]
        podm = StoredPodm(DOCUMENTS | {
            DOMAIN: DOMAIN_JSON | {"InterleavableMemorySets": sets},
            **{f"/M/{n}": {"CapacityMiB": 2048, "MemoryType": "NVDIMM_P"} for n in (1, 2, 3)},
        })  # fmt: skip
        composer = AmountComposer(podm, podm.patience)
        self.assertEqual("", composer.create(wanted(MEMORY), podm.states.append).problem)
        modules = [{"Memory": link("/M/1")}, {"Memory": link("/M/2")}]
        expected = {"Name": NAME, "MemoryChunkSizeMiB": 1024, "AddressRangeType": "PMEM",
                    "InterleaveSets": modules}  # fmt: skip
        self.assertEqual([expected], podm.bodies)

    def test_a_volume_of_a_pool_has_its_name_and_its_bytes(self):
        self.assertEqual({"Name": NAME, "CapacityBytes": 10 * GIB}, self.body(STORAGE))
        tenth = self.body(Grant(POOL, 0.1))["CapacityBytes"]
        self.assertEqual(round(0.1 * GIB), tenth)

    def test_a_volume_of_a_storage_system_names_the_pool_that_provides_it(self):
        sources = [{"ProvidingPools": [link(POOL)]}]
        for volumes in (f"{HOLDER}/Volumes", f"{POOL}0/AllocatedVolumes"):
            pool = {**POOL_JSON, "AllocatedVolumes": None}
            with self.subTest(volumes):
                self.podm(pool=pool, holder={"Volumes": link(volumes)})
                self.podm_.documents[volumes] = {"Members": []}
                self.assertEqual("", self.create(STORAGE).problem)
                expected = {"Name": NAME, "CapacityBytes": 10 * GIB, "CapacitySources": sources}
                self.assertEqual([expected], self.podm_.bodies)
                self.assertEqual([volumes], self.podm_.sent("POST"))

    def test_a_pool_whose_volumes_are_spelled_in_another_case_provides_them_itself(self):
        own = VOLUMES.upper()
        self.podm(pool=POOL_JSON | {"AllocatedVolumes": link(own)})
        self.podm_.documents[own] = {"Members": []}
        self.create(STORAGE)
        self.assertEqual([{"Name": NAME, "CapacityBytes": 10 * GIB}], self.podm_.bodies)


class TestSize(unittest.TestCase):
    """The size of a created amount."""

    def test_a_chunk_is_read_in_mib_and_a_volume_in_gib(self):
        for json, size in (
            ({"MemoryChunkSizeMiB": 512}, 512.0),
            ({"MemoryChunkSizeMiB": 0, "CapacityBytes": GIB}, 0.0),
            ({"CapacityBytes": GIB // 2}, 0.5),
            ({"CapacityBytes": GIB + 1}, 1.000000001),
            ({}, None),
        ):
            with self.subTest(json):
                self.assertEqual(size, size_of(json))


class TestFound(Amounts):
    """The existing amounts of a node."""

    def line(self, found: int, of: int, where: str = DOMAIN) -> str:
        return f"found {found} of {of} memory chunks and volumes of {NAME} ({where})"

    def find(self, *grants: Grant, amounts: tuple[Grant, ...] = ()) -> Creation:
        return self.composer.find(wanted(*grants, amounts=amounts))

    def test_what_has_the_name_of_the_node_is_found_in_the_collection(self):
        podm = self.podm()
        uri = podm.add(CHUNKS, **chunk(512, Name=NAME))
        podm.add(CHUNKS, **chunk(Name="vs-2"))
        podm.add(CHUNKS, **chunk())
        volume = podm.add(VOLUMES, Name=NAME, CapacityBytes=10 * GIB)
        expected = Grant(uri, 512.0), Grant(volume, 10.0)
        self.assertEqual(Creation(expected), self.find(MEMORY, STORAGE))

    def test_the_name_may_stand_in_the_uri_alone_and_the_size_nowhere(self):
        podm = self.podm(chunks={"Members": links(f"{CHUNKS}/{NAME}")})
        podm.documents[f"{CHUNKS}/{NAME}"] = {}
        self.assertEqual(Creation((Grant(f"{CHUNKS}/{NAME}", 0.0),)), self.find(MEMORY))

    def test_what_is_missing_is_counted_and_each_place_named_once(self):
        self.podm()
        both = self.find(MEMORY, MEMORY, STORAGE)
        self.assertEqual(Creation((), self.line(0, 3, f"{DOMAIN}, {POOL}")), both)
        self.podm(domain=404)
        self.assertEqual(Creation((), self.line(0, 1)), self.find(MEMORY))
        self.assertEqual(Creation(), self.find())

    def test_what_was_made_is_ours_by_its_name_or_while_it_has_none_by_its_size(self):
        one = Grant("/X/1", 1024.0)
        for json, ours in (
            (chunk(Name=NAME), True),
            (chunk(512, Name=NAME), True),
            (chunk(), True),
            (chunk(Name="Chunk 1"), True),
            (chunk(512), False),
            (chunk(Name="vs-2"), False),
            (404, False),
        ):
            with self.subTest(json):
                self.podm().documents["/X/1"] = json
                made, problem = ((one,), "") if ours else ((), self.line(0, 1, "/X/1"))
                self.assertEqual(Creation(made, problem), self.find(MEMORY, amounts=(one,)))

    def test_one_that_is_recorded_in_two_spellings_is_one(self):
        podm = self.podm()
        podm.documents |= {"/X/1": chunk(), "/x/1": chunk()}
        both = Grant("/X/1", 1024.0), Grant("/x/1", 1024.0)
        self.assertEqual(self.line(1, 2, "/X/1, /x/1"), self.find(amounts=both).problem)

    def test_what_this_process_made_is_found_where_it_was_made(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.create(uri, chunk())  # it stores no name
        (made,) = self.create(MEMORY).made
        self.assertEqual(Creation((made,)), self.find(MEMORY))
        other = CompositionRequest(name="vs-2", grants=(MEMORY,))
        self.assertEqual((), self.composer.find(other).made)

    def test_suspects_have_the_size_and_no_name_of_a_node_each_once(self):
        podm = self.podm()
        first, second = podm.add(CHUNKS, **chunk()), podm.add(CHUNKS, **chunk(Name="Chunk"))
        podm.add(CHUNKS, **chunk(512))
        podm.add(CHUNKS, **chunk(Name="vs-2"))
        podm.documents[CHUNKS]["Members"] += links("/X/gone", "")
        podm.documents[CHUNKS]["Members"].reverse()
        request = wanted(MEMORY, MEMORY)
        self.assertEqual([first, second], self.composer.suspects(request))
        self.podm(domain=404)
        self.assertEqual([], self.composer.suspects(request))


class TestRemoved(Amounts):
    """Deletion, and verification that the amount is gone."""

    def remove(self, *uris: str) -> str:
        grants = tuple(Grant(uri, 1.0) for uri in uris)
        return self.composer.remove(grants, self.podm_.states.append)

    def test_what_is_gone_leaves_no_words(self):
        podm = self.podm()
        uri = podm.add(CHUNKS)
        self.assertEqual("", self.remove(uri))
        self.assertEqual(([uri], ["deleting", "answered"]), (podm.sent("DELETE"), podm.states))

    def test_what_stays_is_named_with_why_and_the_rest_is_deleted(self):
        podm = self.podm()
        uris = [podm.add(CHUNKS), podm.add(CHUNKS), podm.add(CHUNKS)]
        podm.on_delete = lambda uri: podm.refuse() if uri != uris[1] else podm.drop(uri)
        first, _, last = uris
        why = "still exists: HTTP 400: not here"
        self.assertEqual(f"{first} {why}; {last} {why}", self.remove(*uris))
        self.assertEqual(1, podm.sent("GET").count(first))  # a refusal stays a refusal

    def test_what_stays_after_a_success_is_read_for_some_time(self):
        podm = self.podm()
        uri = podm.add(CHUNKS)
        podm.on_delete = lambda uri: Reply(204, {}, None)
        self.assertEqual(f"{uri} still exists: the service reported its deletion", self.remove(uri))
        self.assertEqual(8, podm.sent("GET").count(uri))
        podm.meanwhile = [lambda: None, lambda: podm.drop(uri)]
        self.assertEqual("", self.remove(uri))

    def test_a_lost_reply_is_waited_for_until_patience_ends(self):
        podm = self.podm(pauses=3)
        uri = podm.add(CHUNKS)
        podm.on_delete = lost
        self.assertEqual(f"{uri} still exists: no reply: timed out", self.remove(uri))
        self.assertEqual(4, podm.sent("GET").count(uri))

    def test_what_cannot_be_read_back_is_said_so(self):
        podm = self.podm()
        podm.documents["/X/1"] = 500
        podm.on_delete = lambda uri: Reply(204, {}, None)
        error = "could not be read back: /X/1: HTTP 500, expected a document"
        self.assertEqual(f"/X/1 still exists: {error}", self.remove("/X/1"))


class TestMade(Amounts):
    """The amount that a write has created, among all that exist."""

    def check(self, made: list[float], problem: str = "", unknown: bool = False) -> Creation:
        found = self.create(MEMORY)
        self.assertEqual(made, [one.amount for one in found.made])
        self.assertEqual((problem, unknown), (found.problem, found.unknown))
        return found

    def test_every_amount_is_made_in_turn_and_told(self):
        podm = self.podm()
        found = self.create(MEMORY, STORAGE)
        self.assertEqual([1024.0, 10.0], [one.amount for one in found.made])
        self.assertEqual(("", False), (found.problem, found.unknown))
        self.assertTrue(all(one.uri in podm.documents for one in found.made))
        self.assertEqual(["creating", "answered"] * 2, podm.states)

    def test_what_is_refused_ends_it_and_what_was_made_before_is_named(self):
        podm = self.podm(pool={})
        found = self.create(MEMORY, STORAGE, MEMORY)
        self.assertEqual([1024.0], [one.amount for one in found.made])
        self.assertRegex(found.problem, f"^{POOL}: found neither")
        self.assertEqual([CHUNKS], podm.sent("POST"))

    def test_a_stock_that_cannot_be_read_is_a_problem_before_the_write(self):
        podm = self.podm(domain=500)
        self.check([], f"{DOMAIN}: HTTP 500, expected a document")
        self.assertEqual([], podm.sent("POST"))

    def test_a_refusal_is_no_chunk_even_if_anothers_came_meanwhile(self):
        podm = self.podm()
        podm.on_post = podm.refuse
        self.check([], f"{CHUNKS}: HTTP 400: not here")
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and podm.refuse()
        self.check([], f"{CHUNKS}: HTTP 400: not here")

    def test_what_was_never_sent_made_nothing(self):
        podm = self.podm()
        podm.on_post = podm.send_nothing
        self.check([], "no reply: no connection")

    def test_success_that_made_nothing_is_a_problem(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: Reply(201, {}, None)
        self.check([], f"{CHUNKS}: the service reported success, but created nothing")

    def test_a_task_that_does_not_end_may_make_it_yet(self):
        podm = self.podm(pauses=2)
        podm.on_post = lambda uri, body: Reply(202, {"Location": "/T/1"}, None)
        podm.documents["/T/1"] = {"TaskState": "Running"}
        self.check([], f"{CHUNKS}: the task did not end in time", unknown=True)

    def test_it_is_where_the_answer_says_though_the_collection_does_not_list_it(self):
        podm = self.podm()
        podm.documents["/X/9"] = chunk()
        podm.on_post = lambda uri, body: Reply(201, {"Location": "/X/9"}, None)
        self.assertEqual("/X/9", self.check([1024.0]).made[0].uri)

    def test_an_answer_that_names_what_was_there_before_names_nothing(self):
        podm = self.podm()
        old = podm.add(CHUNKS, **chunk())
        podm.on_post = lambda uri, body: Reply(201, {"Location": old.upper()}, None)
        podm.documents[old.upper()] = podm.documents[old]
        self.check([], f"{CHUNKS}: the service reported success, but created nothing")

    def test_of_several_new_ones_ours_has_the_name_or_is_what_the_answer_names(self):
        for name, location in ((NAME, False), ("theirs", True), ("theirs", False)):
            with self.subTest(name=name, location=location):
                podm = self.podm()
                made = []

                def answer(uri, body, name=name, location=location, podm=podm, made=made):
                    podm.add(uri, **chunk(Name="another"))
                    made.append(podm.add(uri, **chunk(Name=name)))
                    return Reply(201, {"Location": made[0].upper()} if location else {}, None)

                podm.on_post = answer
                found = self.create(MEMORY)
                if name == NAME or location:
                    self.assertEqual((Grant(made[0], 1024.0),), found.made)
                else:
                    new = ", ".join(uri for uri in podm.documents if uri.startswith(f"{CHUNKS}/"))
                    doubt = f"{new} appeared after the request: the owner is unknown"
                    self.assertEqual(Creation((), doubt, True), found)

    def test_two_that_have_our_name_are_in_doubt(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.add(uri, **body) and podm.create(uri, body)
        found = self.create(MEMORY)
        self.assertRegex(found.problem, ", .* appeared after the request")
        self.assertTrue(found.unknown)

    def test_the_only_new_one_is_ours_after_a_success(self):
        podm = self.podm()
        podm.add(CHUNKS, **chunk(Name="before"))
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and Reply(201, {}, None)
        self.check([1024.0])

    def test_after_a_lost_reply_it_is_looked_for_some_time(self):
        podm = self.podm()
        podm.on_post = lost
        podm.meanwhile = [lambda: None, lambda: podm.add(CHUNKS, **chunk(Name=NAME))]
        self.check([1024.0])
        self.assertEqual([], podm.meanwhile)
        podm = self.podm()
        podm.on_post = lost
        self.check([], f"{CHUNKS}: no reply: timed out")

    def test_after_a_lost_reply_a_new_one_without_our_name_is_in_doubt(self):
        podm = self.podm()
        podm.on_post = lost
        podm.meanwhile = [lambda: podm.add(CHUNKS, **chunk())]
        doubt = f"{CHUNKS}/5 appeared after the request: the owner is unknown"
        self.check([], f"no reply: timed out; {doubt}", unknown=True)

    def test_after_an_answer_it_is_looked_for_once(self):
        podm = self.podm()
        podm.on_post = lambda uri, body: Reply(201, {}, None)
        podm.meanwhile = [lambda: podm.add(CHUNKS, **chunk())]
        self.check([], f"{CHUNKS}: the service reported success, but created nothing")
        self.assertEqual(1, len(podm.meanwhile))

    def test_where_it_cannot_be_read_back_something_may_be_made(self):
        podm = self.podm()

        def answer(uri, body):
            podm.documents[CHUNKS] = 500
            return Reply(201, {}, None) if body else podm.refuse()

        podm.on_post = answer
        error = f"could not be read back: {CHUNKS}: HTTP 500, expected a document"
        self.check([], f"{CHUNKS}: {error}", unknown=True)
        podm = self.podm()
        podm.on_post = lambda uri, body: answer(uri, {})
        self.check([], f"HTTP 400: not here: {error}", unknown=True)

    def makes(self, size: object, **properties: Any) -> StoredPodm:
        """Return a service that creates chunks of this size for any request."""
        podm = self.podm()
        podm.on_post = lambda uri, body: podm.create(uri, chunk(size, **properties))
        return podm

    def test_one_smaller_than_granted_is_made_and_a_problem(self):
        for size, found, made in ((512, "512", 512.0), (None, "no size", 0.0)):
            with self.subTest(size):
                self.makes(size)
                self.check([made], f"{CHUNKS}/5: found {found}, expected 1024 as granted")

    def test_one_larger_than_granted_is_taken(self):
        self.makes(2048)
        self.check([2048.0])

    def test_its_size_is_read_when_it_has_stopped_changing(self):
        enabled = {f"{CHUNKS}/5": chunk(Status={"State": "Enabled"})}
        for state in ("Starting", "Updating", "Qualified"):
            with self.subTest(state):
                podm = self.makes(None, Status={"State": state})
                podm.meanwhile = [functools.partial(podm.documents.update, enabled)]
                self.check([1024.0])

    def test_one_that_never_stops_changing_is_taken_as_it_is_when_patience_ends(self):
        podm = self.podm(pauses=3)
        podm.on_post = lambda uri, body: podm.create(uri, chunk(Status={"State": "Starting"}))
        self.check([1024.0])

    def test_one_whose_status_is_no_object_is_as_large_as_it_says(self):
        self.makes(1024, Status="Starting")
        self.check([1024.0])

    def test_members_of_every_page_were_there_before(self):
        podm = self.podm(chunks={"Members": [], "Members@odata.nextLink": "/Next"})
        podm.documents["/Next"] = {"Members": links("/X/1"), "Members@odata.nextLink": CHUNKS}
        podm.documents["/X/1"] = chunk()
        podm.on_post = lambda uri, body: Reply(201, {"Location": "/X/1"}, None)
        self.check([], f"{CHUNKS}: the service reported success, but created nothing")
