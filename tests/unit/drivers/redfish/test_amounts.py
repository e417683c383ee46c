# SPDX-License-Identifier: Apache-2.0
"""Memory chunks and volumes: what is sent for an amount, and which of what is there is ours."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from valence_sched.drivers.redfish.amounts import AmountComposer, Creation, size_of
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest

DOMAIN, CHUNKS = "/R/MemoryDomains/1", "/R/MemoryDomains/1/MemoryChunks"
HOLDER, POOL = "/R/Storage/1", "/R/Storage/1/StoragePools/1"
VOLUMES = f"{POOL}/AllocatedVolumes"
DOMAIN_JSON = {"AllowsMemoryChunkCreation": True, "MemorySizeMiB": 4096,
               "MemoryChunkIncrementMiB": 256, "MemoryChunks": link(CHUNKS)}  # fmt: skip
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
    """What can be made at all, and what can be made now."""

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
                what = "nothing that a memory chunk or a volume can be made of"
                line = f"{grant.uri}: found {what}, expected to make {grant.amount:g} of it"
                self.assertEqual(line, self.composer.refusal(wanted(grant)))
                self.assertEqual(
                    [f"{grant.uri}: found nothing, {grant.amount:g} were chosen"],
                    list(self.composer.conflicts(wanted(grant))),
                )
                self.assertEqual(line, self.create(grant).problem)
                self.assertEqual([], self.podm_.sent("POST"))

    def test_a_memory_domain_without_chunks_is_never_taken_for_a_storage_pool(self):
        podm = self.podm(domain={"AllowsMemoryChunkCreation": True})
        podm.documents["/R"] = {"Volumes": link(VOLUMES)}
        self.assertRegex(self.composer.refusal(wanted(MEMORY)), "^/R/MemoryDomains/1: found noth")

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
            ({"domain": DOMAIN_JSON | {"MemorySizeMiB": 512}}, MEMORY, "512 MiB left"),
            ({}, Grant(DOMAIN, 1000.0), "4096 MiB left"),
            ({"domain": {**DOMAIN_JSON, "MemorySizeMiB": None}}, MEMORY, "an unknown amount"),
            ({"pool": {**POOL_JSON, "Capacity": {"Data": {"AllocatedBytes": 8 * GIB,
              "ConsumedBytes": 3 * GIB}}}}, STORAGE, "5 GiB left"),
            ({"pool": {**POOL_JSON, "Capacity": {"Data": {"AllocatedBytes": 3 * GIB,
              "ConsumedBytes": 8 * GIB}}}}, STORAGE, "0 GiB left"),
        ):  # fmt: skip
            with self.subTest(left):
                self.podm(**changes)
                line = f"{grant.uri}: found {left}, {grant.amount:g} were chosen"
                self.assertEqual([line], list(self.composer.conflicts(wanted(grant))))


class TestBody(Amounts):
    """What is posted."""

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
    """The size of what was made."""

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
