# SPDX-License-Identifier: Apache-2.0
"""Small services, document by document: zones, nodes, the status of blocks, and every note."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.redfish.reader import read_podm
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Node, Pool, Status

ONE = {"Compute": Limit(0, 1), "ComputerSystem": Limit(0, 1)}
STATES = "Unused, Composing, Composed, ComposedAndAvailable, Failed, Unavailable"
TYPES = "Compute, Processor, Memory, Network, Storage, ComputerSystem, Expansion"


def block(state: object = "Unused", **more: Any) -> dict[str, Any]:
    status = {"CompositionState": state, **more.pop("status", {})}
    return {"ResourceBlockType": ["Compute"], "CompositionStatus": status, **more}


def zone(*blocks: str, **more: Any) -> dict[str, Any]:
    return {"Links": {"ResourceBlocks": links(*blocks)}, **more}


def system(*blocks: str, type_: object = "Composed", **more: Any) -> dict[str, Any]:
    return {"SystemType": type_, "Links": {"ResourceBlocks": links(*blocks)}, **more}


class Service(unittest.TestCase):
    """A service of the blocks /B/1 and /B/2, both in the zone /Z/a."""

    def read(self, **changes: Any) -> FullPodm:
        """Read the service with other documents; ``_`` in a name stands for ``/``."""
        found: dict[str, Any] = {
            ROOT: {"CompositionService": link("/C"), "Systems": link("/S"), "Name": "r"},
            "/C": {"ResourceBlocks": link("/B"), "ResourceZones": link("/Z")},
            "/B": {"Members": links("/B/1", "/B/2")}, "/B/1": block(), "/B/2": block(),
            "/Z": {"Members": links("/Z/a")}, "/Z/a": zone("/B/1", "/B/2"),
            "/S": {"Members": []},
        }  # fmt: skip
        found |= {f"/{name.replace('_', '/')}": json for name, json in changes.items()}
        self.notes = Diagnostics()
        podm = read_podm(LinkedDocuments(found.get, self.notes), "t", "redfish")
        self.blocks = {one.uri: one for one in podm.blocks}
        return podm

    def noted(self, *lines: str) -> None:
        self.assertEqual(list(lines), self.notes.lines())


class TestPools(Service):
    """Zones of resource blocks are pools."""

    def test_a_zone_is_a_pool_by_the_last_part_of_its_uri(self):
        podm = self.read(Z_a=zone("/B/1", "/B/2", "/B/1", Name="Row A"))
        self.assertEqual((Pool(id="a", name="Row A", limits=ONE),), podm.pools)
        self.assertEqual([("a",), ("a",)], [one.pools for one in podm.blocks])
        self.assertEqual(("t", "r", "redfish"), (podm.id, podm.name, podm.driver))
        self.noted()

    def test_zones_whose_uris_end_alike_are_named_whole(self):
        podm = self.read(Z={"Members": links("/Z/a", "/Y/a", "/Z/b")}, Y_a=zone("/B/1"),
                         Z_b=zone("/B/1"))  # fmt: skip
        self.assertEqual(["/Z/a", "/Y/a", "b"], [pool.id for pool in podm.pools])
        self.assertEqual(("/Z/a", "/Y/a", "b"), self.blocks["/B/1"].pools)

    def test_without_zones_all_blocks_are_one_pool_and_without_blocks_there_is_none(self):
        podm = self.read(Z={"Members": []})
        self.assertEqual((Pool(id="all", limits=ONE),), podm.pools)
        self.assertEqual([("all",), ("all",)], [one.pools for one in podm.blocks])
        self.noted()
        podm = self.read(Z={"Members": []}, B={"Members": []})
        self.assertEqual(((), ()), (podm.pools, podm.blocks))
        what = "found no resource block, no memory domain and no storage pool to compose"
        self.noted(f"{ROOT}: {what}")

    def test_a_zone_of_another_kind_is_none_and_one_of_no_kind_is_noted(self):
        for type_, lines in (
            ("Default", []),
            ("ZoneOfEndpoints", []),
            ("zoneofzones", []),
            ("Odd", ["/Z/b: ZoneType: found Odd, expected ZoneOfResourceBlocks or another type "
                     "(left out)"]),
        ):  # fmt: skip
            with self.subTest(type_):
                podm = self.read(Z={"Members": links("/Z/b", "/Z/a")},
                                 Z_b=zone("/B/1", ZoneType=type_))  # fmt: skip
                self.assertEqual(["a"], [pool.id for pool in podm.pools])
                self.noted(*lines)
        podm = self.read(Z_a=zone("/B/1", "/B/2", ZoneType="zoneOfResourceBlocks"))
        self.assertEqual(["a"], [pool.id for pool in podm.pools])

    def test_a_free_block_in_no_zone_is_noted_and_one_in_use_is_not(self):
        self.read(Z_a=zone("/B/1"))
        self.assertEqual((), self.blocks["/B/2"].pools)
        self.noted("/B/2: found in no zone, expected in one (no node can have it)")
        self.read(Z_a=zone("/B/1"), B_2=block("Composed"))
        self.noted()

    def test_a_block_that_only_a_zone_or_the_root_links_is_read_once(self):
        root = {"CompositionService": link("/C"), "ResourceBlocks": link("/A")}
        podm = self.read(redfish_v1=root, A={"Members": links("/B/2", "/B/3")}, B_3=block(),
                         Z_a=zone("/B/1", "/B/4"), B_4=block())  # fmt: skip
        self.assertEqual(["/B/2", "/B/3", "/B/1", "/B/4"], [one.uri for one in podm.blocks])

    def test_without_a_root_the_usual_links_are_tried(self):
        podm = self.read(redfish_v1=None, redfish_v1_Systems={"Members": links("/S/1")},
                         redfish_v1_CompositionService={"ResourceBlocks": link("/B")},
                         redfish_v1_Chassis={"Members": links("/Ch")}, Ch={"Name": "c"},
                         S_1=system("/B/1"))  # fmt: skip
        self.assertEqual(["/B/1", "/B/2"], [one.uri for one in podm.blocks])
        self.assertEqual(["/S/1"], [node.uri for node in podm.nodes])
        first, *_ = self.notes.lines()
        self.assertEqual(f"{ROOT}: found no such document, expected it: the protocol links it",
                         first)  # fmt: skip
        self.assertFalse([line for line in self.notes.lines() if "Chassis: found no" in line])

    def test_each_of_the_usual_links_that_is_missing_is_noted(self):
        self.read(redfish_v1=None)
        missing = "found no such document, expected it"
        lines = [f"{ROOT}: {missing}: the protocol links it"]
        names = ("CompositionService", "Systems", "Chassis")
        lines += [f"{ROOT}/{name}: {missing}: {ROOT} links it" for name in names]
        self.assertLessEqual({*lines}, {*self.notes.lines()})

    def test_pages_that_are_named_by_a_query_alone_are_read(self):
        podm = self.read(B={"Members": links("/B/1"), "Members@odata.nextLink": "?page=2"},
                         **{"B?page=2": {"Members": links("/B/2")}})  # fmt: skip
        self.assertEqual(["/B/1", "/B/2"], [one.uri for one in podm.blocks])

    def test_limits_stand_at_systems_blocks_and_zones(self):
        use = {"UseCase": "ComputerSystemComposition", "CapabilitiesObject": link("/L")}
        stated = {"@Redfish.CollectionCapabilities": {"Capabilities": [use]}}
        limits = {"@Redfish.ResourceBlockLimits": {"MaxStorage": 3}}
        root = {"CompositionService": link("/C"), "ResourceBlocks": link("/A")}
        for changes in (
            {"S": {"Members": [], **stated}},
            {"B": {"Members": links("/B/1", "/B/2"), **stated}},
            {"Z": {"Members": links("/Z/a"), **stated}},
            {"redfish_v1": root, "A": {"Members": links("/B/1"), **stated}},
        ):
            with self.subTest(changes):
                (pool,) = self.read(**changes, L=limits).pools
                self.assertEqual(Limit(0, 3), pool.limits["Storage"])

    def test_the_zones_of_a_stock_are_pools_and_one_that_is_none_is_noted(self):
        domain = {"AllowsMemoryChunkCreation": True, "MemorySizeMiB": 8, "MemoryChunks": link("/K"),
                  "Oem": {"ValenceSched": {"Zones": links("/Z/b", "/Z/9")}}}  # fmt: skip
        root = {"CompositionService": link("/C"), "Chassis": links("/Ch")}
        words = {"redfish_v1": root, "Ch": {"MemoryDomains": links("/D")}, "K": {"Members": []},
                 "Z": {"Members": links("/Z/a", "/Z/b")}, "Z_b": zone("/B/1")}  # fmt: skip
        (stock,) = self.read(D=domain, **words).stocks
        self.assertEqual(("b",), stock.pools)
        self.noted("/Z/9: found no such zone, expected it: a stock links it")
        (stock,) = self.read(D={**domain, "Oem": {}}, **words).stocks
        self.assertEqual(("a", "b"), stock.pools)
        self.noted()

    def test_one_compute_block_more_is_assumed_for_those_of_the_same_zone_alone(self):
        joined = {"S": {"Members": links("/S/1")}, "S_1": system("/B/1", "/B/2")}
        zones = {"Z": {"Members": links("/Z/a", "/Z/b")}, "Z_b": zone("/B/1")}
        podm = self.read(**joined, **zones)
        self.assertEqual([2, 1], [pool.limits["Compute"].max for pool in podm.pools])
        (pool,) = self.read(**joined, Z={"Members": []}).pools
        self.assertEqual(2, pool.limits["Compute"].max)


class TestNodes(Service):
    """Composed systems are nodes."""

    def test_a_composed_system_is_a_node_of_the_blocks_it_links(self):
        physical = {f"S_{n}": system("/B/1", type_=it) for n, it in ((2, "Physical"), (3, None))}
        podm = self.read(S={"Members": links("/S/1", "/S/2", "/S/3")},
                         S_1=system("/B/1", "/b/1", "/B/2", Name="n"), **physical)  # fmt: skip
        self.assertEqual((Node(uri="/S/1", name="n", blocks=("/B/1", "/B/2")),), podm.nodes)

    def test_a_block_that_is_not_listed_is_noted_and_kept(self):
        podm = self.read(S={"Members": links("/S/1")}, S_1=system("/B/9", type_="composed"))
        self.assertEqual(("/B/9",), podm.nodes[0].blocks)
        what = "found /B/9, expected a resource block that is listed"
        self.noted("/B/9: found no such document, expected it: /S/1 links it",
                   f"/S/1: Links/ResourceBlocks: {what}")  # fmt: skip

    def test_a_block_that_a_node_has_is_in_use_whatever_it_says(self):
        shared = {"SharingCapable": True, "SharingEnabled": True}
        for before, used, state, noted in (
            (block(), 1, "Composed", True),
            (block(status=shared), 2, "ComposedAndAvailable", True),
            (block("Composed"), 1, "Composed", False),
            (block("Failed"), 2, "Failed", False),
        ):
            with self.subTest(before):
                members = links(*(f"/S/{number}" for number in range(used)))
                nodes = {f"S_{number}": system("/B/1", "/B/1") for number in range(used)}
                self.read(B_1=before, S={"Members": members}, **nodes)
                status = self.blocks["/B/1"].status
                self.assertEqual((state, used), (status.state, status.compositions))
                others = "" if used == 1 else " and 1 more"
                what = f"found Unused, expected {state}: it is a block of /S/0{others}"
                where = "/B/1: CompositionStatus/CompositionState"
                self.noted(*([f"{where}: {what}"] if noted else []))

    def test_a_block_that_counts_more_nodes_than_are_listed_is_believed(self):
        self.read(B_1=block("Composed", status={"NumberOfCompositions": 3}),
                  S={"Members": links("/S/1")}, S_1=system("/B/1"))  # fmt: skip
        self.assertEqual(3, self.blocks["/B/1"].status.compositions)


class TestBlocks(Service):
    """What a block says of itself."""

    def status(self, state: object = "Unused", **more: Any) -> Status:
        self.read(B_1=block(state, **more))
        return self.blocks["/B/1"].status

    def test_every_part_of_its_status_is_read(self):
        told = {"Reserved": True, "SharingCapable": True, "SharingEnabled": True,
                "MaxCompositions": 4, "NumberOfCompositions": 2}  # fmt: skip
        found = self.status("composedandavailable", status=told, Pool="active", Client="me",
                            Status={"State": "enabled", "Health": "OK"})  # fmt: skip
        expected = Status(state="ComposedAndAvailable", reserved=True, enabled=True, health="OK",
                          active=True, shareable=True, max_compositions=4, compositions=2,
                          client="me")  # fmt: skip
        self.assertEqual(expected, found)
        self.assertEqual(Status(state="Unused"), self.status())
        self.noted()

    def test_health_is_the_worse_of_its_own_and_that_of_all_below_it(self):
        for status, health in (
            ({"Health": "OK", "HealthRollup": "Critical"}, "Critical"),
            ({"Health": "Critical", "HealthRollup": "OK"}, "Critical"),
            ({"HealthRollup": "Critical"}, "Critical"),
            ({"Health": "OK"}, "OK"),
        ):
            self.assertEqual(health, self.status(Status=status).health)
        self.assertIs(False, self.status(Status={"State": "Disabled"}).enabled)
        self.assertIs(False, self.status(Pool="Free").active)

    def test_it_can_be_shared_only_if_both_flags_say_so(self):
        for flags in ({"SharingCapable": True}, {"SharingEnabled": True}, {}):
            self.assertIs(False, self.status(status=flags).shareable)

    def test_of_a_shared_block_in_use_that_tells_no_number_the_maximum_is_unknown(self):
        shared = {"SharingCapable": True, "SharingEnabled": True, "MaxCompositions": 4}
        self.assertIsNone(self.status("ComposedAndAvailable", status=shared).max_compositions)
        what = "found none, expected the nodes that use it (how many more can is unknown)"
        self.noted(f"/B/1: CompositionStatus/NumberOfCompositions: {what}")
        for state, status in (
            ("Unused", shared),
            ("Composed", shared | {"SharingCapable": False}),
            ("ComposedAndAvailable", shared | {"NumberOfCompositions": 0}),
        ):
            self.assertEqual(4, self.status(state, status=status).max_compositions)
            self.noted()
        self.status("ComposedAndAvailable", status=shared | {"MaxCompositions": None})
        self.noted()

    def test_a_state_that_is_none_is_unknown_and_noted(self):
        where = "/B/1: CompositionStatus/CompositionState"
        for state, found in ((None, "none"), ("", "none"), ("Odd", "Odd")):
            self.assertEqual(Status(state="Unknown"), self.status(state))
            self.noted(f"{where}: found {found}, expected one of {STATES} (no node can have it)")
        self.assertEqual("Unknown", self.status("unknown").state)
        self.noted()

    def test_its_types_are_read_once_each_and_what_is_none_is_noted(self):
        for told, types, found in (
            (["Compute", "storage", "Compute"], ("Compute", "Storage"), None),
            ("Memory", ("Memory",), None),
            ([], (), None),
            (["Odd", "Storage"], ("Storage",), ["Odd", "Storage"]),
            (None, (), "none (no limit on the blocks of a node counts it)"),
        ):
            with self.subTest(told):
                self.read(B_1=block(ResourceBlockType=told))
                self.assertEqual(types, self.blocks["/B/1"].type)
                lines = self.notes.lines()
                self.assertEqual(found is not None, bool(lines))
                start = f"/B/1: ResourceBlockType: found {found}, expected {TYPES}"
                self.assertTrue(all(line.startswith(start) for line in lines), lines)

    def test_a_block_has_its_name_its_places_and_its_devices(self):
        self.read(B_1=block(Name="b", Links={"Chassis": links("/Ch/1")}, Drives=links("/D")),
                  D={"CapacityBytes": 10**12})  # fmt: skip
        found = self.blocks["/B/1"]
        self.assertEqual(("b", {"chassis": "/Ch/1"}), (found.name, found.places))
        self.assertEqual([10**12], [drive.capacity_bytes for drive in found.devices.drives])

    def test_what_is_missing_is_noted_with_what_links_it(self):
        for missing, where in (("B_1", "/B"), ("Z_a", "/Z"), ("C", ROOT), ("S", ROOT), ("B", "/C"),
                               ("Z", "/C"), ("S_9", "/S"), ("D", "/B/2")):  # fmt: skip
            with self.subTest(missing):
                words = {"S": {"Members": links("/S/9")}, "S_9": system(type_="Physical"),
                         "B_2": block(Drives=links("/D")), "D": {"CapacityBytes": 5}}  # fmt: skip
                self.read(**words | {missing: None})
                line = f"/{missing.replace('_', '/')}: found no such document, expected it"
                self.assertIn(f"{line}: {where} links it", self.notes.lines())
