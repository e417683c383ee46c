# SPDX-License-Identifier: Apache-2.0
"""Storage of racks: sizes that are not told, and what is listed beside what it is part of."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from tests.unit.drivers.racks import FPGAS, GROUP, NETWORK, PCIE, POOL, Rack, V

DRIVES = f"{V}/Services/rss/LogicalDrives"
GIB = 2**30


def links(*uris: str) -> list[dict[str, str]]:
    return [{"@odata.id": uri} for uri in uris]


class TestPools(TestCase):
    """Storage pools of services since 2.3."""

    def setUp(self) -> None:
        self.rack = Rack(NETWORK)
        self.rack[POOL[:-2]]["Members"] = links(POOL)
        for number in (1, 2):
            drive = {"CapacityBytes": number * 100 * GIB}
            self.rack.documents[f"{V}/Chassis/box/Drives/{number}"] = drive
        self.sources = [{"ProvidingDrives": links(f"{V}/Chassis/box/Drives/1")}]

    def amounts(self, **pool: Any) -> tuple[float | None, float]:
        self.rack[POOL].update(pool)
        self.rack.read()
        return self.rack.stocks[POOL].total, self.rack.stocks[POOL].used

    def test_a_pool_without_a_size_has_that_of_its_sources_and_is_else_unknown(self) -> None:
        provided = [{"ProvidedCapacity": {"Data": {"AllocatedBytes": 30 * GIB}}}]
        for size in ({}, {"AllocatedBytes": None}, {"AllocatedBytes": 0}, {"AllocatedBytes": "x"}):
            for sources, total in (
                (self.sources, 100.0),
                (
                    [{"ProvidingDrives": links(*(f"{V}/Chassis/box/Drives/{i}" for i in (1, 2)))}],
                    300.0,
                ),
                (provided, 30.0),
                (provided + self.sources, 130.0),
                ([{}], None),
                ([{"ProvidingDrives": links(f"{V}/Chassis/box/Drives/gone")}], None),
            ):
                with self.subTest(size=size, sources=sources):
                    used = {"Data": {**size, "ConsumedBytes": 10 * GIB}}
                    found = self.amounts(Capacity=used, CapacitySources=sources)
                    self.assertEqual((total, 10.0), found)
                    if total is None:
                        self.assertTrue(self.rack.noted("AllocatedBytes: found "))

    def test_a_pool_of_0_bytes_that_is_made_of_nothing_has_none(self) -> None:
        capacity = {"Data": {"AllocatedBytes": 0, "ConsumedBytes": 0}}
        self.assertEqual((0.0, 0.0), self.amounts(Capacity=capacity, CapacitySources=[]))

    def test_what_is_used_is_the_sum_of_the_volumes_where_the_pool_does_not_tell(self) -> None:
        volumes = f"{V}/StorageServices/nvme-1/Volumes"
        capacity = {"Data": {"AllocatedBytes": 2048 * GIB, "ConsumedBytes": None}}
        found = self.amounts(Capacity=capacity, AllocatedVolumes={"@odata.id": volumes})
        self.assertEqual((2048.0, 512.0), found)
        self.rack[f"{volumes}/1"]["CapacityBytes"] = None
        self.assertIsNone(self.amounts()[0])
        self.assertTrue(self.rack.noted("ConsumedBytes: found none"))

    def test_a_physical_volume_is_not_a_stock_beside_the_pool_that_is_made_of_it(self) -> None:
        other = self.rack.add(POOL[:-2], "pv", Capacity={"Data": {"AllocatedBytes": 100 * GIB}},
                              CapacitySources=self.sources)  # fmt: skip
        capacity = {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}}
        self.amounts(Capacity=capacity, CapacitySources=[{"ProvidingPools": links(other)}])
        self.assertEqual([POOL], list(self.rack.stocks))
        self.assertEqual(100.0, self.rack.stocks[POOL].total)

    def test_a_pool_cut_from_a_larger_one_uses_it_whatever_that_one_tells(self) -> None:
        large = {"Data": {"AllocatedBytes": 400 * GIB, "ConsumedBytes": 0}}
        other = self.rack.add(POOL[:-2], "large", Capacity=large)
        capacity = {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}}
        self.amounts(Capacity=capacity, CapacitySources=[{"ProvidingPools": links(other)}])
        self.assertEqual(
            (400.0, 100.0), (self.rack.stocks[other].total, self.rack.stocks[other].used)
        )

    def test_of_two_pools_with_one_drive_the_second_is_unknown_and_that_is_noted(self) -> None:
        capacity = {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}}
        other = self.rack.add(POOL[:-2], "b", Capacity=capacity, CapacitySources=self.sources)
        self.assertEqual(100.0, self.amounts(Capacity=capacity, CapacitySources=self.sources)[0])
        self.assertIsNone(self.rack.stocks[other].total)
        self.assertTrue(self.rack.noted("found drives that"))

    def test_a_drive_of_a_pool_is_not_free_for_a_node(self) -> None:
        rack = Rack(PCIE)
        free = next(it.uri for it in rack.read().blocks if it.status.slots and "Drives" in it.uri)
        service = {"@odata.id": rack.add(f"{V}/Services", "s", StoragePools=links(f"{V}/pools"))}
        self.assertTrue(service)
        sources = [{"ProvidingDrives": links(free)}]
        rack.documents[f"{V}/pools"] = {"Members": links(f"{V}/pools/1")}
        rack.documents[f"{V}/pools/1"] = {"CapacitySources": sources}
        self.assertEqual(0, rack.slots(free))
        self.assertNotIn(free, FPGAS)

    def test_pools_that_are_not_there_are_noted_with_their_service_and_the_rest_is_read(
        self,
    ) -> None:
        del self.rack.documents[POOL[:-2]]
        self.assertTrue(self.rack.read().blocks)
        self.assertNotIn(POOL, self.rack.stocks)
        service = f"{V}/StorageServices/nvme-1"
        what = f"{POOL[:-2]}: found no such document, expected it: {service} links it"
        self.assertTrue(self.rack.noted(what), self.rack.diagnostics.lines())


class TestGroups(TestCase):
    """Logical drives of services of 2.1 and 2.2."""

    def setUp(self) -> None:
        self.rack = Rack(PCIE)
        for number in (1, 2):
            uri = f"{V}/Services/rss/Drives/{number}"
            self.rack.documents[uri] = {"CapacityGiB": 1000 * number}

    def pv(self, **json: Any) -> str:
        drives = {"PhysicalDrives": links(f"{V}/Services/rss/Drives/1")}
        known = {"Mode": "PV", "CapacityGiB": 1000, "Links": drives}
        return self.rack.add(DRIVES, "pv", **{**known, **json})

    def stocks(self) -> dict[str, tuple[float | None, float]]:
        self.rack.read()
        return {uri: (it.total, it.used) for uri, it in self.rack.stocks.items()}

    def test_a_group_without_a_size_has_that_of_its_drives_and_is_else_unknown(self) -> None:
        for size in (None, 0, "", "much"):
            self.rack[GROUP]["CapacityGiB"] = size
            self.assertEqual({GROUP: (3000.0, 750.0)}, self.stocks(), size)
        self.rack.documents[f"{V}/Services/rss/Drives/1"]["CapacityGiB"] = None
        self.assertEqual({GROUP: (None, 750.0)}, self.stocks())
        self.assertTrue(self.rack.noted("group-1: CapacityGiB: found none"))

    def test_a_physical_volume_that_is_listed_beside_its_group_is_one_with_it(self) -> None:
        """The link may stand in either of the two, or only the drive may say it."""
        for of_pv, of_group in (
            ({"UsedBy": links(GROUP)}, {}),
            ({}, {"LogicalDrives": ["pv"]}),
            ({"PhysicalDrives": links(f"{V}/Services/rss/Drives/1")}, {}),
        ):
            with self.subTest(of_pv=of_pv, of_group=of_group):
                self.setUp()
                pv = self.pv(Links=of_pv)
                self.rack[GROUP]["Links"] |= {key: links(pv) for key in of_group}
                self.assertEqual({GROUP: (2000.0, 750.0)}, self.stocks())

    def test_a_group_without_a_size_has_that_of_its_physical_volumes(self) -> None:
        pv = self.pv()
        self.rack[GROUP] |= {"CapacityGiB": None, "Links": {"LogicalDrives": links(pv)}}
        self.rack[f"{DRIVES}/volume-1"]["Links"]["LogicalDrives"] = links(pv)
        self.assertEqual({GROUP: (1000.0, 750.0)}, self.stocks())

    def test_of_a_service_of_both_generations_the_groups_are_unknown(self) -> None:
        pool = f"{V}/Services/rss/StoragePools/1"
        capacity = {"Data": {"AllocatedBytes": 2000 * GIB, "ConsumedBytes": 0}}
        self.rack[pool] = {"Capacity": capacity}
        self.rack[f"{V}/Services/rss"]["StoragePools"] = links(pool)
        self.assertEqual({pool: (2000.0, 0.0), GROUP: (None, 750.0)}, self.stocks())
        self.assertTrue(self.rack.noted("/rss: found storage pools and 1 group "))

    def test_of_two_groups_with_one_drive_the_second_is_unknown(self) -> None:
        same = {"PhysicalDrives": links(f"{V}/Services/rss/Drives/2")}
        other = self.rack.add(DRIVES, "b", Mode="LVG", CapacityGiB=2000, Links=same)
        self.assertEqual({GROUP: (2000.0, 750.0), other: (None, 0.0)}, self.stocks())
        self.assertTrue(self.rack.noted("b: found drives that"))
