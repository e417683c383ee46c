# SPDX-License-Identifier: Apache-2.0
"""Memory domains as stocks, also without a reported size."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import TestCase

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import stocks
from valence_sched.drivers.redfish.schema import ServiceRoot, StoragePool
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Stock

V = "/redfish/v1"
DOMAIN = f"{V}/Chassis/1/MemoryDomains/1"
DIMM, PMEM = {"CapacityMiB": 1024}, {"CapacityMiB": 4096, "MemoryType": "NVDIMM_P"}


class TestMemoryStocks(TestCase):
    """Domains of one chassis /C and one system /S, and their notes."""

    def stocks(self, *domains: Any, root: Any = None, **documents: Any) -> tuple[Stock, ...]:
        found = {f"/D/{number}": json for number, json in enumerate(domains, start=1)}
        found |= {"/C": {"MemoryDomains": links(*found)}, "/K": {"Members": []}}
        found |= {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        self.notes = Diagnostics()
        json = root or {"Chassis": links("/C")}
        service = LinkedDocuments(found.get, self.notes)
        return stocks.stocks(
            service, ServiceRoot("/R", json, self.notes), ("a", "b"), lambda zones: zones or None
        )

    def domain(self, **json: Any) -> dict[str, Any]:
        """Return a domain of 4096 MiB that has no modules."""
        whole = {"AllowsMemoryChunkCreation": True, "MemorySizeMiB": 4096}
        return {**whole, "MemoryChunks": link("/K"), **json}

    def modules(self, *uris: str, **json: Any) -> dict[str, Any]:
        return {"InterleavableMemorySets": [{"MemorySet": links(*uris)}], **json}

    def test_a_domain_is_a_stock_in_mib_of_all_pools_unless_it_says_which(self) -> None:
        own = {"ValenceSched": {"MaxMemoryChunkSizeMiB": 2048}}
        sizes = {"MinMemoryChunkSizeMiB": 128, "MemoryChunkIncrementMiB": 64}
        chunks = {"K": {"Members": links("/K/1", "/K/2", "/K/3")},
                  "K_1": {"MemoryChunkSizeMiB": 1024}, "K_2": {"MemoryChunkSizeMiB": 512},
                  "K_3": {"MemoryChunkSizeMiB": 0}}  # fmt: skip
        found = self.stocks(self.domain(Name="Far", Oem=own, **sizes), **chunks)
        limits = {"min": 128.0, "max": 2048.0, "step": 64.0}
        expected = Stock(uri="/D/1", resource="cxl_memory_mib", unit="MiB", name="Far",
                         pools=("a", "b"), total=4096.0, used=1536.0, **limits)  # fmt: skip
        self.assertEqual((expected,), found)
        zones = {"ValenceSched": {"Zones": links("/Z/1")}}
        bare = Stock(uri="/D/1", resource="cxl_memory_mib", unit="MiB", pools=("/Z/1",), total=8.0)
        self.assertEqual((bare,), self.stocks(self.domain(MemorySizeMiB=8, Oem=zones)))
        self.assertEqual([], self.notes.lines())

    def test_a_domain_without_a_size_has_that_of_its_modules_each_once(self) -> None:
        absent = DIMM | {"Status": {"State": "Absent"}}
        for modules, total in (
            ((DIMM, DIMM), 2048),
            ((DIMM, absent), 1024),
            ((DIMM, PMEM | {"VolatileSizeMiB": 512}), 1536),
            ((PMEM, PMEM), 8192),
            ((), None),
            ((DIMM, {"CapacityMiB": "x"}), None),
        ):
            with self.subTest(modules):
                documents = {f"M_{n}": json for n, json in enumerate(modules)}
                uris = [f"/M/{n}" for n in range(len(modules))]
                sets = [{"MemorySet": links(*uris)}, {"MemorySet": links(*uris[:1])}]
                json = self.domain(MemorySizeMiB=None, InterleavableMemorySets=sets)
                (found,) = self.stocks(json, **documents)
                self.assertEqual(total, found.total)
        for size in ("0", "", "plenty", -1, True):
            with self.subTest(size):
                json = self.domain(MemorySizeMiB=size, **self.modules("/M/1", "/M/2"))
                (found,) = self.stocks(json, M_1=DIMM, M_2=DIMM)
                self.assertEqual(2048, found.total)
                self.assertTrue([line for line in self.notes.lines() if "MemorySizeMiB" in line])
        self.assertEqual(0, self.stocks(self.domain(MemorySizeMiB=0))[0].total)

    def test_domains_of_chassis_and_systems_count_once(self) -> None:
        root = {"Chassis": links("/C"), "Systems": links("/S")}
        found = self.stocks(self.domain(), root=root, S={"MemoryDomains": links("/D/1", "/D/2")},
                            D_2=self.domain(MemorySizeMiB=8))  # fmt: skip
        self.assertEqual([("/D/1", 4096), ("/D/2", 8)], [(it.uri, it.total) for it in found])
        self.assertEqual([], self.notes.lines())

    def test_what_is_linked_and_missing_is_noted_with_what_links_it(self) -> None:
        self.stocks(root={"Chassis": links("/C/9"), "Systems": links("/S", "/S/9")},
                    S={"MemoryDomains": links("/D/9")})  # fmt: skip
        missing = "found no such document, but"
        lines = [f"/C/9: {missing} /R links it", f"/D/9: {missing} /S links it",
                 f"/S/9: {missing} /R links it"]  # fmt: skip
        self.assertEqual(lines, sorted(self.notes.lines()))

    def test_chunks_and_modules_that_are_missing_are_noted_with_their_domain(self) -> None:
        self.stocks(self.domain(**self.modules("/M/9"), MemoryChunks=link("/K/9")))
        missing = "found no such document, but /D/1 links it"
        self.assertEqual([f"/K/9: {missing}", f"/M/9: {missing}"], sorted(self.notes.lines()))

    def test_a_domain_that_hands_out_nothing_is_left_out_and_why_is_noted(self) -> None:
        what = "found no MemoryChunks, expected a collection for new chunks (left out)"
        for json, line in (
            ({"MemoryChunks": None}, what),
            ({"Status": {"State": "Disabled"}},
             "Status: found Disabled, expected Enabled and OK (left out)"),
            ({"AllowsMemoryChunkCreation": None},
             "AllowsMemoryChunkCreation: found none, expected true or false (left out)"),
            ({"AllowsMemoryChunkCreation": False}, ""),
        ):  # fmt: skip
            with self.subTest(json):
                found = self.stocks(self.domain(**json), self.domain())
                self.assertEqual(["/D/2"], [it.uri for it in found])
                self.assertEqual([f"/D/1: {line}"] if line else [], self.notes.lines())

    def test_it_is_persistent_by_its_chunks_else_by_all_of_its_modules(self) -> None:
        pmem, dimm = {"CapacityMiB": 9000, "MemoryType": "NVDIMM_P"}, {"CapacityMiB": 9000}
        for chunks, modules, resource in (
            (("PMEM",), (dimm,), "cxl_pmem_mib"),
            (("Volatile", "block"), (dimm,), "cxl_pmem_mib"),
            (("Volatile",), (pmem,), "cxl_memory_mib"),
            ((None,), (pmem, pmem), "cxl_pmem_mib"),
            ((), (pmem, dimm), "cxl_memory_mib"),
            ((), (), "cxl_memory_mib"),
        ):
            with self.subTest(chunks=chunks, modules=modules):
                documents = {f"M_{n}": json for n, json in enumerate(modules)}
                documents |= {f"K_{n}": {"MemoryChunkSizeMiB": 1, "AddressRangeType": kind}
                              for n, kind in enumerate(chunks)}  # fmt: skip
                documents["K"] = {"Members": links(*(f"/K/{n}" for n in range(len(chunks))))}
                sets = self.modules(*(f"/M/{n}" for n in range(len(modules))))
                (found,) = self.stocks(self.domain(**sets), **documents)
                self.assertEqual(resource, found.resource)

    def test_a_domain_of_0_mib_is_noted_with_the_size_that_was_taken(self) -> None:
        what = "expected a size, or a size of each module"
        known, empty, nameless = {"CapacityMiB": 8192}, {"CapacityMiB": 0}, {"Name": "m"}
        for size, modules, line, total in (
            (0, (known, known), f"found 0, {what} (using 16384, the sum of its modules)", 16384),
            (0, (known, nameless), f"found 0, {what} (its size is unknown)", None),
            (None, (known, nameless), f"found none, {what} (its size is unknown)", None),
            (None, (empty,), "", None),
            (0, (empty,), f"found 0, {what} (its size is unknown)", None),
        ):
            with self.subTest(size=size, modules=modules):
                documents = {f"M_{n}": json for n, json in enumerate(modules)}
                sets = self.modules(*(f"/M/{n}" for n in range(len(modules))))
                (found,) = self.stocks(self.domain(MemorySizeMiB=size, **sets), **documents)
                self.assertEqual(total, found.total)
                of_domain = [it for it in self.notes.lines() if it.startswith("/D/1")]
                self.assertEqual([f"/D/1: MemorySizeMiB: {line}"] if line else [], of_domain)
                is_noted = any("CapacityMiB: found 0" in it for it in self.notes.lines())
                self.assertEqual(empty in modules, is_noted)

    def test_a_domain_larger_than_its_modules_is_noted_where_all_of_them_tell_theirs(self) -> None:
        for modules, noted in (
            (({"CapacityMiB": 4096},), False),
            (({"CapacityMiB": 2048}, {"CapacityMiB": 2047}), True),
            (({"CapacityMiB": 1024}, {"Name": "m"}), False),
            ((), False),
        ):
            with self.subTest(modules):
                documents = {f"M_{n}": json for n, json in enumerate(modules)}
                sets = self.modules(*(f"/M/{n}" for n in range(len(modules))))
                (found,) = self.stocks(self.domain(**sets), **documents)
                self.assertEqual(4096, found.total)
                what = "found 4096, expected at most 4095, the sum of its modules"
                self.assertEqual([f"/D/1: MemorySizeMiB: {what}"] if noted else [],
                                 self.notes.lines())  # fmt: skip

    def test_a_chunk_of_unknown_size_makes_what_is_free_unknown(self) -> None:
        chunks = {"K": {"Members": links("/K/1", "/K/2")}, "K_1": {"MemoryChunkSizeMiB": 8},
                  "K_2": {"Name": "k"}}  # fmt: skip
        (found,) = self.stocks(self.domain(), **chunks)
        self.assertEqual((None, 8.0), (found.total, found.used))
        line = "/D/1: found a chunk of unknown size (its free size is unknown)"
        self.assertEqual(line, self.notes.lines()[-1])

    def test_chunks_beyond_a_stated_size_are_believed_and_beyond_the_modules_are_not(self) -> None:
        chunks = {"K": {"Members": links("/K/1")}, "K_1": {"MemoryChunkSizeMiB": 5000},
                  "M_1": {"CapacityMiB": 4096}}  # fmt: skip
        (found,) = self.stocks(self.domain(), **chunks)
        self.assertEqual((4096.0, 5000.0), (found.total, found.used))
        sizeless = self.domain(**self.modules("/M/1"), MemorySizeMiB=None)
        (found,) = self.stocks(sizeless, **chunks)
        self.assertEqual((None, 5000.0), (found.total, found.used))
        what = "found chunks of 5000 MiB, expected at most 4096, the sum of its modules"
        self.assertEqual([f"/D/1: {what} (its size is unknown)"], self.notes.lines())
        full = chunks | {"K_1": {"MemoryChunkSizeMiB": 4096}}
        self.assertEqual(4096.0, self.stocks(sizeless, **full)[0].total)

    def test_a_size_that_is_known_is_kept_though_modules_are_shared_or_absent(self) -> None:
        absent = {"CapacityMiB": 8192, "Status": {"State": "Absent"}}
        shared = self.modules("/M/1", MemorySizeMiB=None)
        documents = {"M_1": {"CapacityMiB": 8192}, "M_2": absent}
        first, second = self.stocks(self.domain(**shared), self.domain(**shared), **documents)
        self.assertEqual((8192.0, None), (first.total, second.total))
        line = "/D/2: found modules that /D/1 also has, expected others (its size is unknown)"
        self.assertEqual([line], self.notes.lines())
        gone = self.modules("/M/2", MemorySizeMiB=None)
        self.stocks(self.domain(**gone), self.domain(**gone), **documents)
        self.assertFalse([line for line in self.notes.lines() if "found modules" in line])


POOLS = "/St/1/StoragePools"
ONE = f"{POOLS}/1"
UNKNOWN = "expected a size (its free size is unknown)"
TOTAL, USED = "Capacity/Data/AllocatedBytes", "Capacity/Data/ConsumedBytes"


def capacity(total: object = None, used: object = None) -> dict[str, Any]:
    return {"Capacity": {"Data": {"AllocatedBytes": total, "ConsumedBytes": used}}}


def pool(total: object = None, used: object = None, *sources: Any, **more: Any) -> dict[str, Any]:
    found = {**capacity(total, used), "AllocatedVolumes": link("/V")}
    return {**found, "CapacitySources": list(sources), **more}


def providing(size: object) -> dict[str, Any]:
    return {"ProvidedCapacity": {"Data": {"AllocatedBytes": size}}}


class Service(unittest.TestCase):
    """A storage system with pools; ``notes`` are the lines about them."""

    def service(self, pools: list[Any], **documents: Any) -> LinkedDocuments:
        found = {f"{POOLS}/{number}": json for number, json in enumerate(pools, start=1)}
        uris = list(found)
        found |= {"/St/1": {"StoragePools": link(POOLS)}, POOLS: {"Members": links(*uris)},
                  "/V": {"Members": []}}  # fmt: skip
        found |= {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        self.notes = Diagnostics()
        return LinkedDocuments(found.get, self.notes)

    def stocks(self, *pools: Any, root: Any = None, **documents: Any) -> tuple[Stock, ...]:
        service = self.service([*pools], **documents)
        json = root or {"Storage": link("/St/1")}
        return stocks.stocks(
            service, ServiceRoot("/R", json, self.notes), ("a", "b"), lambda zones: zones or None
        )

    def sizes(self, *pools: Any, **documents: Any) -> list[tuple[float | None, float]]:
        """Return total and used of each, in bytes."""
        service = self.service([*pools], **documents)
        found = [StoragePool(uri, service.json(uri, "/") or {}, self.notes)
                 for uri in (f"{POOLS}/{number + 1}" for number in range(len(pools)))]  # fmt: skip
        self.drives: dict[str, set[str]] = {}
        return [it[1:] for it in stocks.pool_sizes(service, found, self.drives)]


class TestStorageStocks(Service):
    """The pools that are stocks, and their properties."""

    def test_a_pool_is_a_stock_in_gib_of_all_pools_of_blocks(self):
        own = {"MinVolumeSizeBytes": GIB, "MaxVolumeSizeBytes": 8 * GIB,
               "VolumeIncrementBytes": GIB // 2}  # fmt: skip
        json = pool(100 * GIB, 30 * GIB, Name="Fast", Oem={"ValenceSched": own})
        limits = {"min": 1.0, "max": 8.0, "step": 0.5}
        expected = Stock(uri=ONE, resource="storage_gib", unit="GiB", name="Fast",
                         pools=("a", "b"), total=100.0, used=30.0, **limits)  # fmt: skip
        self.assertEqual((expected,), self.stocks(json))
        self.assertEqual([], self.notes.lines())
        bare = Stock(uri=ONE, resource="storage_gib", unit="GiB", pools=("a", "b"), total=2.0)
        self.assertEqual((bare,), self.stocks(pool(2 * GIB, 0)))

    def test_it_may_say_itself_which_pools_reach_it(self):
        own = {"ValenceSched": {"Zones": links("/Z/1")}}
        (found,) = self.stocks(pool(GIB, 0, Oem=own))
        self.assertEqual(("/Z/1",), found.pools)

    def test_each_counts_once_whatever_storage_systems_link_it(self):
        root = {"Storage": link("/St/1"), "StorageServices": link("/St/2")}
        second = {"StoragePools": link("/Q")}
        found = self.stocks(pool(GIB, 0), root=root, St_2=second,
                            Q={"Members": links(ONE, "/Q/2")}, Q_2=pool(2 * GIB, 0))  # fmt: skip
        self.assertEqual([(ONE, 1.0), ("/Q/2", 2.0)], [(it.uri, it.total) for it in found])

    def test_one_that_cannot_be_used_is_noted_and_the_others_stay(self):
        for status, found in (
            ({"State": "Disabled"}, "Disabled"),
            ({"State": "Enabled", "Health": "Critical"}, "Critical"),
            ({"HealthRollup": "Critical"}, "Critical"),
        ):
            with self.subTest(status):
                stocks = self.stocks(pool(GIB, 0, Status=status), pool(GIB, 0))
                self.assertEqual([f"{POOLS}/2"], [it.uri for it in stocks])
                line = f"found {found}, expected Enabled and OK (left out)"
                self.assertEqual([f"{ONE}: Status: {line}"], self.notes.lines())

    def test_one_that_is_enabled_and_not_critical_can_be_used(self):
        for status in ({"State": "enabled", "Health": "Warning"}, {"Health": "OK",
                       "HealthRollup": "Critical"}, {}):  # fmt: skip
            with self.subTest(status):
                self.assertEqual(1, len(self.stocks(pool(GIB, 0, Status=status))))

    def test_one_that_no_volume_can_be_made_of_is_noted_and_the_others_stay(self):
        stocks = self.stocks(pool(GIB, 0, AllocatedVolumes=None), pool(GIB, 0))
        self.assertEqual([f"{POOLS}/2"], [it.uri for it in stocks])
        what = "found no AllocatedVolumes, expected a collection for new volumes (left out)"
        self.assertEqual([f"{ONE}: {what}"], self.notes.lines())
        holder = {"StoragePools": link(POOLS), "Volumes": link("/St/1/Volumes")}
        self.assertEqual(2, len(self.stocks(
            pool(GIB, 0, AllocatedVolumes=None), pool(GIB, 0), St_1=holder)))  # fmt: skip

    def test_one_of_unknown_size_is_a_stock_without_a_total(self):
        (found,) = self.stocks(pool())
        self.assertEqual((None, 0.0), (found.total, found.used))

    def test_a_single_pool_is_a_stock_of_no_pool_of_blocks(self):
        service = self.service([pool(4 * GIB, GIB)])
        one = StoragePool(ONE, pool(4 * GIB, GIB), self.notes)
        expected = Stock(uri=ONE, resource="storage_gib", unit="GiB", total=4.0, used=1.0)
        self.assertEqual(expected, stocks.pool_stock(service, one))


class TestStorageSizes(Service):
    """Bytes of pools, and used bytes."""

    def test_its_own_size_goes_before_that_of_what_it_is_made_of(self):
        self.assertEqual([(100, 30)], self.sizes(pool(100, 30, providing(7))))

    def test_without_one_it_is_the_sum_of_its_sources_or_of_their_drives(self):
        drives = {"ProvidingDrives": links("/D/1", "/D/2")}
        sizes = {"D_1": {"CapacityBytes": 40}, "D_2": {"CapacityBytes": 2}}
        for total in (None, 0):
            with self.subTest(total):
                self.assertEqual([(42, 1)], self.sizes(pool(total, 1, drives), **sizes))
                parts = providing(5), drives | providing(3)
                self.assertEqual([(8, 1)], self.sizes(pool(total, 1, *parts), **sizes))
                self.assertEqual([], self.notes.lines())

    def test_a_source_that_provides_nothing_is_known_and_adds_nothing(self):
        self.assertEqual([(5, 0)], self.sizes(pool(None, 0, providing(0), providing(5))))

    def test_a_source_of_unknown_size_makes_it_unknown_and_that_is_noted(self):
        lost = {"ProvidingDrives": links("/D/1")}
        for total, sources, found, more in (
            (None, ({},), "none", {}),
            (0, ({},), "0", {}),
            (None, (providing(5), {}), "none", {}),
            (None, (lost,), "none", {"D_1": {"Name": "d", "CapacityBytes": None}}),
            (None, (), "none", {}),
            (None, (providing(0),), "none", {}),
        ):
            with self.subTest(total=total, sources=sources):
                self.assertEqual([(None, 3)], self.sizes(pool(total, 3, *sources), **more))
                self.assertIn(f"{ONE}: {TOTAL}: found {found}, {UNKNOWN}", self.notes.lines())

    def test_one_of_0_bytes_that_nothing_is_part_of_has_0(self):
        self.assertEqual([(0.0, 0)], self.sizes(pool(0, 0)))
        self.assertEqual([], self.notes.lines())

    def test_what_is_used_is_what_its_volumes_hold_where_it_does_not_tell(self):
        volumes = {"Members": links("/V/1", "/V/2", "/V/3")}
        sizes = {"V_1": {"CapacityBytes": 10}, "V_2": {"CapacityBytes": 5},
                 "V_3": {"CapacityBytes": 0}}  # fmt: skip
        self.assertEqual([(100, 15)], self.sizes(pool(100), V=volumes, **sizes))
        self.assertEqual([(100, 0)], self.sizes(pool(100)))
        self.assertEqual([(100, 7)], self.sizes(pool(100, 7), V=volumes, **sizes))
        self.assertEqual([], self.notes.lines())

    def test_what_is_used_of_an_unknown_size_is_not_asked_for(self):
        self.assertEqual([(None, 0)], self.sizes(pool()))
        self.assertEqual([f"{ONE}: {TOTAL}: found none, {UNKNOWN}"], self.notes.lines())

    def test_volumes_that_are_not_linked_or_of_unknown_size_make_it_unknown(self):
        line = f"{ONE}: {USED}: found none, expected a number of bytes (its free size is unknown)"
        self.assertEqual([(None, 0)], self.sizes(pool(100, AllocatedVolumes=None)))
        self.assertEqual([line], self.notes.lines())
        volumes = {"Members": links("/V/1", "/V/2")}
        sizes = {"V_1": {"CapacityBytes": 10}, "V_2": {"Name": "v"}}
        self.assertEqual([(None, 0)], self.sizes(pool(100), V=volumes, **sizes))
        self.assertEqual(line, self.notes.lines()[-1])

    def test_a_physical_volume_is_left_out_beside_the_group_that_has_all_of_it(self):
        group = pool(100, 30, {"ProvidingPools": links(ONE)})
        self.assertEqual([(100, 30)], self.sizes(pool(100, 0), group))
        self.assertEqual([(100, 30)], self.sizes(pool(90, 0), group))

    def test_one_that_several_share_counts_when_they_have_less_than_all_of_it(self):
        half = pool(40, 10, {"ProvidingPools": links(ONE)})
        self.assertEqual([(100, 80), (40, 10), (40, 10)], self.sizes(pool(100, 0), half, half))
        self.assertEqual([(100, 90), (40, 10)], self.sizes(pool(100, 90), half))
        self.assertEqual([(40, 10), (40, 10)], self.sizes(pool(80, 0), half, half))

    def test_one_that_a_group_of_unknown_size_is_made_of_is_unknown_itself(self):
        group = pool(None, 0, {"ProvidingPools": links(ONE)})
        self.assertEqual([(None, 5), (None, 0)], self.sizes(pool(100, 5), group))
        line = f"{ONE}: {USED}: found none, expected a number of bytes (its free size is unknown)"
        self.assertIn(line, self.notes.lines())

    def test_the_drives_of_a_pool_are_told_but_not_those_that_others_divide(self):
        drives = {"ProvidingDrives": links("/D/1", "/D/2")}
        group = pool(40, 0, {"ProvidingPools": links(ONE)}, {"ProvidingDrives": links("/D/3")})
        sizes = {f"D_{number}": {"CapacityBytes": 50} for number in (1, 2, 3)}
        self.sizes(pool(100, 0, drives), group, pool(7, 0), **sizes)
        self.assertEqual({f"{POOLS}/2": {"/D/3"}, f"{POOLS}/3": set()}, self.drives)

    def test_a_source_that_cannot_be_read_is_noted_where_it_stands(self):
        self.sizes(pool(None, 0, providing("much"), providing(5)))
        where = f"{ONE}#/CapacitySources: ProvidedCapacity/Data/AllocatedBytes"
        self.assertIn(f"{where}: found 'much', expected a number", self.notes.lines())

    def test_a_pool_that_a_source_does_not_name_is_noted_with_the_pool_that_it_is_of(self):
        self.sizes(pool(100, 0, {"ProvidingPools": [{}]}))
        self.assertEqual([f"{ONE}: found a link without @odata.id, expected @odata.id"],
                         self.notes.lines())  # fmt: skip


class TestWhere(unittest.TestCase):
    """The collections for volumes."""

    def test_the_own_collection_of_a_pool_goes_before_that_of_its_holder(self):
        own, holders = {"AllocatedVolumes": link("/P/V/")}, {"Volumes": link("http://h.invalid/V")}
        for pool_json, holder, found in (
            (own, holders, "/P/V"),
            ({}, holders, "/V"),
            ({"AllocatedVolumes": link("")}, holders, "/V"),
            ({"AllocatedVolumes": {"@odata.id": 7}}, holders, "/V"),
            ({"AllocatedVolumes": "/P/V"}, holders, "/V"),
            ({"AllocatedVolumes": {}}, {"Volumes": []}, None),
            ({}, {}, None),
        ):
            with self.subTest(pool_json):
                self.assertEqual(found, stocks.volume_collection(pool_json, holder))

    def test_the_holder_is_two_places_above_the_pool(self):
        self.assertEqual("/St/1", stocks.holder_uri(ONE))

    def test_bytes_are_rounded_to_a_billionth_of_a_gib(self):
        for size, found in ((GIB, 1.0), (GIB + 1, 1.000000001), (0, 0.0), (None, None)):
            self.assertEqual(found, stocks.gib(size))
