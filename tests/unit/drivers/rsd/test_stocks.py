# SPDX-License-Identifier: Apache-2.0
"""Storage of racks: missing sizes, and parts that are listed beside their whole."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import TestCase

from tests.unit.drivers.racks import NETWORK, POOL, Rack, V
from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import LinkedDocuments
from valence_sched.drivers.rsd import reader
from valence_sched.drivers.rsd.schema import StorageService
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import Stock

DRIVES = f"{V}/Services/rss/LogicalDrives"
GIB = 2**30


class TestRack(TestCase):
    """The storage of a rack as its reader finds it."""

    def test_a_pool_cut_from_a_larger_one_uses_it_whatever_that_one_tells(self) -> None:
        rack = Rack(NETWORK)
        rack[POOL[:-2]]["Members"] = links(POOL)
        large = {"Data": {"AllocatedBytes": 400 * GIB, "ConsumedBytes": 0}}
        other = rack.add(POOL[:-2], "large", Capacity=large)
        rack[POOL]["Capacity"] = {"Data": {"AllocatedBytes": 100 * GIB, "ConsumedBytes": 0}}
        rack[POOL]["CapacitySources"] = [{"ProvidingPools": links(other)}]
        rack.read()
        self.assertEqual((400.0, 100.0), (rack.stocks[other].total, rack.stocks[other].used))


MISSING = "found no such document, but"


def pool(total: object = 8 * GIB, used: object = 0, *drives: str, **more: Any) -> dict[str, Any]:
    return {"Capacity": {"Data": {"AllocatedBytes": total, "ConsumedBytes": used}},
            "CapacitySources": [{"ProvidingDrives": links(*drives)}], **more}  # fmt: skip


def logical(size: object = None, mode: str | None = None, **linked: Any) -> dict[str, Any]:
    found = {name: links(*uris) for name, uris in linked.items()}
    return {"CapacityGiB": size, "Mode": mode, "Links": found}


class Service(unittest.TestCase):
    """Documents by URI; ``_`` in a name stands for ``/``."""

    def stocks(self, *services: dict[str, Any], **documents: Any) -> list[Stock]:
        found = {f"/{name.replace('_', '/')}": json for name, json in documents.items()}
        self.notes = Diagnostics()
        self.service = LinkedDocuments(found.get, self.notes)
        self.storages = [StorageService(f"/{number}", json, self.notes)
                         for number, json in enumerate(services, start=1)]  # fmt: skip
        return list(reader.rack_stocks(self.service, self.storages, ("a", "b")))

    def sizes(
        self, *services: dict[str, Any], **documents: Any
    ) -> dict[str, tuple[float | None, float]]:
        """Return total and used of each stock, in GiB."""
        return {it.uri: (it.total, it.used) for it in self.stocks(*services, **documents)}

    def groups(self, **drives: dict[str, Any]) -> dict[str, tuple[float | None, float]]:
        """Read a service of logical drives by name, and the physical drives /D/1 to /D/3."""
        uris = [f"/{name.replace('_', '/')}" for name in drives if name[0] == "L"]
        sizes = {f"D_{number}": {"CapacityGiB": 100 * number} for number in (1, 2, 3)}
        every = {"L": {"Members": links(*uris)}} | sizes | drives
        return self.sizes({"LogicalDrives": link("/L")}, **every)


class TestPoolSizes(Service):
    """Storage pools, since 2.3."""

    def test_a_pool_is_a_stock_in_gib_of_all_pools(self):
        found = self.stocks({"StoragePools": links("/P")}, P=pool(8 * GIB, 3 * GIB, Name="fast"))
        expected = Stock(uri="/P", resource="storage_gib", unit="GiB", name="fast",
                         pools=("a", "b"), total=8.0, used=3.0)  # fmt: skip
        self.assertEqual([expected], found)

    def test_a_service_or_a_pool_that_cannot_be_used_is_left_out_and_noted(self):
        off = {"Status": {"State": "Disabled"}}
        found = self.sizes({"StoragePools": links("/P"), **off},
                           {"StoragePools": links("/Q", "/R")}, P=pool(), Q=pool(**off),
                           R=pool())  # fmt: skip
        self.assertEqual(["/R"], list(found))
        line = "Status: found Disabled, expected Enabled and OK (left out)"
        self.assertEqual([f"/1: {line}", f"/Q: {line}"], self.notes.lines())

    def test_a_pool_of_two_services_is_one_and_of_two_pools_with_one_drive_one_is_unknown(self):
        found = self.sizes({"StoragePools": links("/P")}, {"StoragePools": links("/P", "/Q", "/R")},
                           P=pool(8 * GIB, 0, "/D/1"), Q=pool(8 * GIB, 0, "/D/1", "/D/2"),
                           R=pool(8 * GIB, 0, "/D/3"))  # fmt: skip
        self.assertEqual({"/P": (8.0, 0.0), "/Q": (None, 0.0), "/R": (8.0, 0.0)}, found)
        line = "found drives that /P also has, expected others (its free size is unknown)"
        self.assertEqual([f"/Q: {line}"], self.notes.lines())

    def test_an_unknown_size_is_not_noted_once_more_for_a_shared_drive(self):
        found = self.sizes({"StoragePools": links("/P", "/Q")}, P=pool(8 * GIB, 0, "/D/1"),
                           Q=pool(None, 0, "/D/1"), D_1={"Name": "d"})  # fmt: skip
        self.assertIsNone(found["/Q"][0])
        self.assertFalse([line for line in self.notes.lines() if "found drives of" in line])

    def test_the_drives_of_all_pools_are_in_use(self):
        self.stocks({"StoragePools": links("/P")}, {"StoragePools": links("/Q")},
                    P=pool(8, 0, "/D/1", "/D/2"), Q=pool(8, 0, "/D/3"))  # fmt: skip
        found = reader.drives_of_storage(self.service, self.storages)
        self.assertEqual({"/D/1", "/D/2", "/D/3"}, found)

    def test_what_is_missing_is_noted_with_what_links_it(self):
        self.sizes({"StoragePools": links("/P"), "LogicalDrives": links("/L", "/M")},
                   L=logical(None, "LVG", PhysicalDrives=["/D/1"]))  # fmt: skip
        lines = [f"/P: {MISSING} /1 links it", f"/M: {MISSING} /1 links it",
                 f"/D/1: {MISSING} /L links it"]  # fmt: skip
        self.assertEqual(lines, self.notes.lines()[:3])
        self.stocks({"StoragePools": links("/P")})
        reader.drives_of_storage(self.service, self.storages)
        self.assertEqual([f"/P: {MISSING} /1 links it"], self.notes.lines())

    def test_a_link_without_a_target_is_noted_where_it_stands(self):
        line = "found a link without @odata.id, expected @odata.id"
        for name in ("PhysicalDrives", "LogicalDrives", "UsedBy"):
            self.groups(L_1={"Mode": "LVG", "CapacityGiB": 5, "Links": {name: [{}]}})
            self.assertEqual([f"/L/1: {line}"], self.notes.lines())
        self.stocks({"StoragePools": links("/P")}, P=pool())
        source = {"CapacitySources": [{"ProvidingDrives": [{}]}]}
        self.stocks({"StoragePools": links("/P")}, P=pool() | source)
        reader.drives_of_storage(self.service, self.storages)
        self.assertIn(f"/P: {line}", self.notes.lines())


class TestGroupSizes(Service):
    """Groups of logical drives, of 2.1 and 2.2."""

    def test_a_group_has_what_its_volumes_leave(self):
        for mode in ("LVG", "lvg", "Pool"):
            volume = logical(30, "LV", LogicalDrives=["/L/1"])
            found = self.groups(L_1=logical(100, mode), L_2=volume, L_3=logical(20, "LV"))
            self.assertEqual({"/L/1": (100.0, 30.0)}, found)
            self.assertEqual([], self.notes.lines())

    def test_a_group_may_name_its_volumes_itself_and_each_counts_once(self):
        found = self.groups(L_1=logical(100, "LVG", UsedBy=["/L/2", "/L/9"]),
                            L_2=logical(30, "LV", LogicalDrives=["/L/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 30.0)}, found)

    def test_one_without_a_size_has_that_of_its_parts_else_of_its_drives(self):
        found = self.groups(L_1=logical(None, "LVG", PhysicalDrives=["/D/1", "/D/2"]))
        self.assertEqual({"/L/1": (300.0, 0.0)}, found)
        found = self.groups(L_1=logical(None, "LVG", PhysicalDrives=["/D/1"]),
                            L_2=logical(70, "PV", UsedBy=["/L/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (70.0, 0.0)}, found)
        self.assertEqual([], self.notes.lines())

    def test_one_of_unknown_size_is_noted(self):
        self.assertEqual({"/L/1": (None, 0.0)}, self.groups(L_1=logical(None, "LVG")))
        what = "CapacityGiB: found none, expected a size (its free size is unknown)"
        self.assertEqual([f"/L/1: {what}"], self.notes.lines())

    def test_drives_that_are_linked_make_a_group_of_what_does_not_say_so(self):
        found = self.groups(L_1=logical(100, None, PhysicalDrives=["/D/1"]), L_2=logical(50, "LV"))
        self.assertEqual({"/L/1": (100.0, 0.0)}, found)

    def test_a_physical_volume_is_no_group_and_its_volumes_are_those_of_its_group(self):
        for of_pv in ({"UsedBy": ["/L/1"]}, {"PhysicalDrives": ["/D/1"]}):
            found = self.groups(L_1=logical(100, "LVG", PhysicalDrives=["/D/1"]),
                                L_2=logical(100, "PV", **of_pv))  # fmt: skip
            self.assertEqual({"/L/1": (100.0, 0.0)}, found)
        found = self.groups(L_1=logical(100, "LVG", LogicalDrives=["/L/2"]),
                            L_2=logical(100, "PV"),
                            L_3=logical(40, "LV", LogicalDrives=["/L/2"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 40.0)}, found)
        found = self.groups(L_1=logical(None, "LVG", LogicalDrives=["/L/2"]),
                            L_2=logical(100, "PV", PhysicalDrives=["/D/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 0.0)}, found)

    def test_a_group_within_a_group_is_a_volume_of_it(self):
        found = self.groups(L_1=logical(100, "LVG"),
                            L_2=logical(30, "LVG", LogicalDrives=["/L/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 30.0)}, found)

    def test_a_volume_of_unknown_size_makes_what_is_free_unknown(self):
        found = self.groups(L_1=logical(100, "LVG"), L_2=logical(30, "LV", LogicalDrives=["/L/1"]),
                            L_3=logical(None, "LV", LogicalDrives=["/L/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (None, 30.0)}, found)
        line = "/L/1: found a volume of unknown size (its free size is unknown)"
        self.assertEqual([line], self.notes.lines())

    def test_one_that_cannot_be_used_is_left_out_and_noted_and_no_other_is_noted(self):
        off = {"Status": {"Health": "Critical"}}
        found = self.groups(L_1=logical(1, "LVG") | off, L_2=logical(1, "LV") | off,
                            L_3=logical(5, "LVG"))  # fmt: skip
        self.assertEqual({"/L/3": (5.0, 0.0)}, found)
        line = "Status: found Critical, expected Enabled and OK (left out)"
        self.assertEqual([f"/L/1: {line}"], self.notes.lines())

    def test_of_two_groups_with_one_drive_also_below_a_part_one_is_unknown(self):
        found = self.groups(L_1=logical(100, "LVG", PhysicalDrives=["/D/1"]),
                            L_2=logical(100, "LVG", PhysicalDrives=["/D/1"]),
                            L_3=logical(100, "LVG", PhysicalDrives=["/D/2"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 0.0), "/L/2": (None, 0.0), "/L/3": (100.0, 0.0)}, found)
        found = self.groups(L_1=logical(100, "LVG"),
                            L_2=logical(100, "PV", UsedBy=["/L/1"], PhysicalDrives=["/D/1"]),
                            L_3=logical(100, "LVG", PhysicalDrives=["/D/1"]))  # fmt: skip
        self.assertEqual({"/L/1": (100.0, 0.0), "/L/3": (None, 0.0)}, found)

    def test_of_a_service_of_both_generations_the_groups_are_unknown(self):
        both = {"StoragePools": links("/P"), "LogicalDrives": links("/L", "/M")}
        found = self.sizes(both, P=pool(), L=logical(5, "LVG"), M=logical(5, "LVG"))
        self.assertEqual({"/P": (8.0, 0.0), "/L": (None, 0.0), "/M": (None, 0.0)}, found)
        what = "found storage pools and 2 groups of logical drives, expected only one kind"
        self.assertEqual([f"/1: {what} (the free size of the groups is unknown)"],
                         self.notes.lines())  # fmt: skip
