# SPDX-License-Identifier: Apache-2.0
"""Storage pools as stocks: their size, what is used of them, and which of them count."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.redfish import stocks
from valence_sched.drivers.redfish.schema import ServiceRoot, StoragePool
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Stock

POOLS = "/St/1/StoragePools"
ONE = f"{POOLS}/1"
UNKNOWN = "expected a size (what is free is unknown)"
TOTAL, USED = "Capacity/Data/AllocatedBytes", "Capacity/Data/ConsumedBytes"


def capacity(total: object = None, used: object = None) -> dict[str, Any]:
    return {"Capacity": {"Data": {"AllocatedBytes": total, "ConsumedBytes": used}}}


def pool(total: object = None, used: object = None, *sources: Any, **more: Any) -> dict[str, Any]:
    found = {**capacity(total, used), "AllocatedVolumes": link("/V")}
    return {**found, "CapacitySources": list(sources), **more}


def providing(size: object) -> dict[str, Any]:
    return {"ProvidedCapacity": {"Data": {"AllocatedBytes": size}}}


class Service(unittest.TestCase):
    """A storage system with pools; ``notes`` are the lines on them."""

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


class TestStocks(Service):
    """Which pools are stocks, and with what."""

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
        what = "found no AllocatedVolumes, expected it: no volume can be made of it (left out)"
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


class TestSizes(Service):
    """Bytes of pools and what is used of them."""

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
        line = f"{ONE}: {USED}: found none, expected bytes (what is free is unknown)"
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
        line = f"{ONE}: {USED}: found none, expected bytes (what is free is unknown)"
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
        self.assertEqual([f"{ONE}: found a link without @odata.id, expected one"],
                         self.notes.lines())  # fmt: skip


class TestWhere(unittest.TestCase):
    """Where volumes are made."""

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
