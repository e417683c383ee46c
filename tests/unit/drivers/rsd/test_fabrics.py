# SPDX-License-Identifier: Apache-2.0
"""Small racks, document by document: pools, pooled devices, their status, and every note."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link, links
from valence_sched.drivers.links import ROOT, LinkedDocuments
from valence_sched.drivers.rsd.reader import NETWORK_TYPES, read_podm
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Pool, Status

MISSING = "found no such document, but"
ONE = {"ComputerSystem": Limit(1, 1)}


def drive(erased: object = True, **more: Any) -> dict[str, Any]:
    return {"@odata.type": "#Drive.v1_0_0.Drive", "CapacityBytes": 5 * 10**9,
            "Oem": {"Intel_RackScale": {"DriveErased": erased}}, **more}  # fmt: skip


def end(*entities: str, role: str | None = "Target", **more: Any) -> dict[str, Any]:
    return {"ConnectedEntities": [{"EntityRole": role, "EntityLink": link(uri)}
                                  for uri in entities], **more}  # fmt: skip


def system(*cables: str, **more: Any) -> dict[str, Any]:
    return {"Name": "s", "Oem": {"Intel_RackScale": {"PCIeConnectionId": list(cables)}}, **more}


class Rack(unittest.TestCase):
    """A rack of the systems /S/1 and /S/2 and the PCIe fabrics /F/A and /F/B.

    Cable ``a`` ends at the switch of /F/A and ``b`` at that of /F/B.
    """

    def read(self, **changes: Any) -> FullPodm:
        """Read the rack with other documents; ``_`` in a name stands for ``/``."""
        found: dict[str, Any] = {
            ROOT: {"Nodes": link("/N"), "Systems": link("/S"), "Fabrics": link("/F"), "Name": "r"},
            "/N": {"Members": []},
            "/S": {"Members": links("/S/1", "/S/2")},
            "/S/1": system("a"), "/S/2": system("b"),
            "/F": {"Members": links("/F/A", "/F/B")},
        }  # fmt: skip
        for name in "AB":
            found |= {
                f"/F/{name}": {"FabricType": "PCIe", "Endpoints": link(f"/F/{name}/E"),
                               "Zones": link(f"/F/{name}/Z"), "Switches": link(f"/F/{name}/W")},
                f"/F/{name}/E": {"Members": links(f"/F/{name}/E/1")},
                f"/F/{name}/E/1": end(f"/D/{name}"),
                f"/F/{name}/Z": {"Members": []},
                f"/F/{name}/W": {"Members": links(f"/F/{name}/W/1")},
                f"/F/{name}/W/1": {"Ports": link(f"/F/{name}/P")},
                f"/F/{name}/P": {"Members": links(f"/F/{name}/P/1")},
                f"/F/{name}/P/1": {"Oem": {"Intel_RackScale": {"PCIeConnectionId":
                                                               [name.lower()]}}},
                f"/D/{name}": drive(),
            }  # fmt: skip
        found |= {f"/{name.replace('_', '/')}": json for name, json in changes.items()}
        self.notes = Diagnostics()
        service = LinkedDocuments(found.get, self.notes)
        podm = read_podm(service, "t", "rsd")
        self.blocks = {block.uri: block for block in podm.blocks}
        return podm

    def pools(self) -> dict[str, tuple[str, ...]]:
        return {uri: block.pools for uri, block in self.blocks.items()}


class TestPools(Rack):
    """The devices that each system can reach."""

    def test_systems_of_different_fabrics_are_two_pools_each_with_its_drives(self):
        podm = self.read()
        self.assertEqual((Pool(id="A", limits=ONE), Pool(id="B", limits=ONE)), podm.pools)
        expected = {"/S/1": ("A",), "/S/2": ("B",), "/D/A": ("A",), "/D/B": ("B",)}
        self.assertEqual(expected, self.pools())
        self.assertEqual(("t", "r", "rsd"), (podm.id, podm.name, podm.driver))
        self.assertEqual([], self.notes.lines())

    def test_a_system_of_two_fabrics_reaches_the_drives_of_both(self):
        podm = self.read(S_1=system("b", "a"))
        self.assertEqual(["A+B", "B"], [pool.id for pool in podm.pools])
        expected = {"/S/1": ("A+B",), "/S/2": ("B",), "/D/A": ("A+B",), "/D/B": ("A+B", "B")}
        self.assertEqual(expected, self.pools())

    def test_one_without_a_cable_is_in_a_pool_of_its_own(self):
        podm = self.read(S_2=system())
        self.assertEqual(["A+B", "B"], [pool.id for pool in podm.pools])
        podm = self.read(S_2=system(), F={"Members": links("/F/A")})
        self.assertEqual(["A", "unswitched"], [pool.id for pool in podm.pools])

    def test_fabrics_whose_uris_end_alike_are_named_whole(self):
        self.read(F={"Members": links("/F/A", "/G/A")}, G_A={"Endpoints": link("/F/B/E"),
                  "Switches": link("/F/B/W")})  # fmt: skip
        self.assertEqual({"/F/A", "/G/A"}, {self.pools()[uri][0] for uri in ("/S/1", "/S/2")})

    def test_a_fabric_that_names_no_system_reaches_all_and_that_is_noted(self):
        self.read(S_2=system())
        line = "/F/B: found no cable to a system (assuming that every system reaches it)"
        self.assertEqual([line], self.notes.lines())
        self.assertEqual(("A+B",), self.pools()["/S/1"])

    def test_without_systems_nothing_is_noted_of_fabrics_and_nothing_reaches_a_drive(self):
        podm = self.read(S={"Members": []})
        self.assertEqual([f"{ROOT}: found no system for a node"], self.notes.lines())
        self.assertEqual(["all"], [pool.id for pool in podm.pools])
        self.assertEqual({"/D/A": (), "/D/B": ()}, self.pools())

    def test_an_initiator_or_an_endpoint_names_a_system_that_is_listed(self):
        host = end("/S/2", "/S/9", role="Initiator")
        self.read(S_2=system(), F_B_E={"Members": links("/F/B/E/1", "/F/B/E/2")}, F_B_E_2=host)
        self.assertEqual((("B",), []), (self.pools()["/S/2"], self.notes.lines()))
        self.read(S_2=system(Links={"Endpoints": links("/F/B/E/1")}))
        self.assertEqual((("B",), []), (self.pools()["/S/2"], self.notes.lines()))

    def test_a_device_that_two_fabrics_offer_is_one_in_the_pools_of_both(self):
        self.read(F_B_E_1=end("/D/A", Links={"Ports": links("/F/B/P/1")}))
        self.assertEqual(("A", "B"), self.pools()["/D/A"])
        self.assertNotIn("/D/B", self.blocks)
        self.assertEqual(1, self.blocks["/D/A"].status.slots)

    def test_a_device_that_a_network_offers_too_is_in_every_pool_and_remote(self):
        for order in (("/F/A", "/F/B", "/F/C"), ("/F/C", "/F/A", "/F/B")):
            podm = self.read(F={"Members": links(*order)}, F_C={"FabricType": "iSCSI",
                             "Endpoints": link("/F/A/E")})  # fmt: skip
            self.assertEqual(["unswitched", "B"], [pool.id for pool in podm.pools])
            self.assertEqual(("unswitched", "B"), self.pools()["/D/A"])
            self.assertIs(True, self.blocks["/D/A"].devices.drives[0].remote)
            self.assertIsNone(self.blocks["/D/B"].devices.drives[0].remote)

    def test_every_network_reaches_every_system(self):
        names = ("NVMeOverFabrics", "Ethernet", "iSCSI", "FPGA-oF", "RoCE", "RoCEv2", "InfiniBand")
        self.assertEqual(len(names), len(NETWORK_TYPES))
        for name in names:
            with self.subTest(name):
                podm = self.read(F={"Members": links("/F/A")},
                                 F_A={"FabricType": name, "Endpoints": link("/F/A/E")})  # fmt: skip
                self.assertEqual(["all"], [pool.id for pool in podm.pools])
                self.assertEqual([("all",)] * 3, [*self.pools().values()])

    def test_a_fabric_of_no_type_is_a_pcie_fabric(self):
        for name in (None, "PCIe", "GenZ"):
            fabric = {"FabricType": name, "Endpoints": link("/F/A/E"), "Switches": link("/F/A/W")}
            podm = self.read(F={"Members": links("/F/A")}, F_A=fabric)
            self.assertEqual(["A", "unswitched"], [pool.id for pool in podm.pools])


class TestDevices(Rack):
    """The devices that are separate blocks, and their status."""

    def test_drives_and_all_processors_but_cpus_are_blocks(self):
        for json, types in (
            (drive(), ("Storage",)),
            ({"@odata.type": "Drive", "Oem": {"Intel_RackScale": {"DriveErased": True}}},
             ("Storage",)),
            ({"@odata.type": "#Processor.v1", "ProcessorType": "FPGA"}, ("Processor",)),
            ({"@odata.type": "#Processor.v1", "ProcessorType": "cpu"}, None),
            ({"@odata.type": "#Processor.v1"}, None),
            ({"@odata.type": "#Volume.v1"}, None),
            ({**drive(), "@odata.type": "#XDrive.v1"}, None),
        ):  # fmt: skip
            with self.subTest(json):
                self.read(D_A=json)
                found = self.blocks.get("/D/A")
                self.assertEqual(types, found and found.type)

    def test_without_a_type_the_place_of_a_device_tells_what_it_is(self):
        for place, types in (("Drives", ("Storage",)), ("Processors", ("Processor",)),
                             ("Volumes", None)):  # fmt: skip
            json = {**drive(), "@odata.type": None, "ProcessorType": "GPU"}
            self.read(F_A_E_1=end(f"/C/{place}/1"), **{f"C_{place}_1": json})
            found = self.blocks.get(f"/C/{place}/1")
            self.assertEqual(types, found and found.type)

    def test_what_an_initiator_names_is_not_offered(self):
        for role in ("Initiator", "initiator"):
            self.read(F_A_E_1=end("/D/A", role=role))
            self.assertNotIn("/D/A", self.blocks)
        for role in ("Both", None):
            self.read(F_A_E_1=end("/D/A", role=role))
            self.assertIn("/D/A", self.blocks)

    def status(self, **changes: Any) -> Status:
        self.read(**changes)
        return self.blocks["/D/A"].status

    def test_a_drive_is_free_once_it_is_erased_and_that_it_does_not_say_is_noted(self):
        self.assertEqual(Status(state="Unused"), self.status())
        self.assertEqual(Status(state="Unavailable"), self.status(D_A=drive(False)))
        self.assertEqual([], self.notes.lines())
        self.assertEqual(Status(state="Unavailable"), self.status(D_A=drive(None)))
        what = "found no value, expected true or false (cannot be composed)"
        line = f"/D/A: Oem/Intel_RackScale/DriveErased: {what}"
        self.assertEqual([line], self.notes.lines())

    def test_each_sign_of_use_is_one_composition(self):
        used = Status(state="Composed", compositions=1)
        oem = {"Intel_RackScale": {"Zones": links("/Z/9")}}
        storage = {"Intel_RackScale": {"DriveErased": True, "Storage": links("/S/1/St")}}
        for changes in (
            {"F_A_Z": {"Members": links("/F/A/Z/1")},
             "F_A_Z_1": {"Links": {"Endpoints": links("/F/A/E/1")}}},
            {"F_A_E_1": end("/D/A", Links={"Oem": oem})},
            {"D_A": drive(Oem=storage)},
            {"S_1": system("a", Storage=links("/S/1/St")), "S_1_St": {"Drives": links("/D/A")}},
        ):  # fmt: skip
            with self.subTest(changes):
                self.assertEqual(used, self.status(**changes))

    def test_a_zone_of_another_end_is_no_sign(self):
        zone = {"F_A_Z": {"Members": links("/F/A/Z/1")},
                "F_A_Z_1": {"Links": {"Endpoints": links("/F/A/E/2")}}}  # fmt: skip
        self.assertEqual("Unused", self.status(**zone).state)

    def test_a_device_that_is_zoned_in_one_of_two_fabrics_is_in_use(self):
        zoned = end("/D/A", Links={"Oem": {"Intel_RackScale": {"Zones": links("/Z/9")}}})
        self.assertEqual("Composed", self.status(F_B_E_1=zoned).state)
        self.assertEqual("Composed", self.status(F_A_E_1=zoned, F_B_E_1=end("/D/A")).state)

    def test_one_that_is_not_well_is_unavailable_and_its_health_is_told(self):
        for status, expected in (
            ({"Health": "Warning"}, Status(state="Unavailable", health="Warning")),
            ({"HealthRollup": "Warning"}, Status(state="Unavailable", health="Warning")),
            ({"Health": "OK", "State": "enabled"},
             Status(state="Unused", health="OK", enabled=True)),
            ({"State": "StandbyOffline"},
             Status(state="Unused", enabled=False, resource_state="StandbyOffline")),
        ):  # fmt: skip
            with self.subTest(status):
                self.assertEqual(expected, self.status(D_A=drive(Status=status)))

    def node(self, state: str | None, **linked: Any) -> dict[str, Any]:
        return {"Name": "n", "ComposedNodeState": state, "Links": linked}

    def test_a_block_is_composing_while_all_of_its_nodes_are_under_way(self):
        for states, state in (
            (("Allocating",), "Composing"),
            (("assembling", "Allocating"), "Composing"),
            (("Assembling", "Assembled"), "Composed"),
            (("Failed",), "Composed"),
            ((None,), "Composed"),
        ):
            with self.subTest(states):
                nodes = {f"N_{number}": self.node(it, ComputerSystem=link("/S/1"),
                                                  LocalDrives=links("/D/A", "/X"))
                         for number, it in enumerate(states)}  # fmt: skip
                members = links(*(f"/N/{number}" for number in range(len(states))))
                found = self.status(N={"Members": members}, **nodes)
                expected = Status(state=state, compositions=len(states))
                self.assertEqual((expected, expected), (found, self.blocks["/S/1"].status))

    def test_a_node_of_an_unknown_state_or_system_is_noted(self):
        self.read(N={"Members": links("/N/1", "/N/2")},
                  N_1=self.node("Odd", ComputerSystem=link("/S/9")),
                  N_2=self.node(None, LocalDrives=links("/D/A")))  # fmt: skip
        states = "expected Allocating, Allocated, Assembling, Assembled, Failed (assumed in use)"
        lines = [
            f"/N/1: ComposedNodeState: found 'Odd', {states}",
            "/N/1: Links/ComputerSystem: found /S/9, expected a listed system",
            f"/N/2: ComposedNodeState: found None, {states}",
            "/N/2: Links/ComputerSystem: found no link, expected a system",
        ]
        self.assertEqual(lines, self.notes.lines())

    def test_a_system_that_is_switched_off_or_runs_storage_makes_no_node(self):
        self.read(S_1=system("a", Enabled=False))
        self.assertEqual(Status(state="Unavailable"), self.blocks["/S/1"].status)
        root = {"Nodes": link("/N"), "Systems": link("/S"), "StorageServices": link("/St")}
        self.read(redfish_v1=root, St={"Members": links("/St/1")},
                  St_1={"Links": {"HostingSystem": link("/S/2")}})  # fmt: skip
        self.assertEqual(["Unused", "Unavailable"],
                         [self.blocks[uri].status.state for uri in ("/S/1", "/S/2")])  # fmt: skip

    def test_the_drives_that_storage_pools_are_made_of_are_in_use(self):
        root = {"Nodes": link("/N"), "Systems": link("/S"), "StorageServices": link("/St"),
                "Fabrics": link("/F")}  # fmt: skip
        capacity = {"Data": {"AllocatedBytes": 2**30, "ConsumedBytes": 0}}
        sources = [{"ProvidingDrives": links("/D/A")}]
        found = self.status(
            redfish_v1=root,
            St={"Members": links("/St/1")},
            St_1={"StoragePools": link("/St/1/P")},
            St_1_P={"Members": links("/St/1/P/1")},
            St_1_P_1={"Capacity": capacity, "CapacitySources": sources},
        )
        self.assertEqual(Status(state="Composed", compositions=1), found)

    def test_places_are_those_of_the_device_and_of_the_ends_that_lead_to_it(self):
        fabric = "/redfish/v1/Fabrics/A"
        ends = end("/D/A", Links={"Ports": links(f"{fabric}/Switches/1/Ports/1")})
        chassis = {"Chassis": links("/C/1")}
        self.read(F_A_E_1=ends, D_A=drive(Links=chassis), S_1=system("a", Links=chassis))
        places = {"chassis": "/C/1", "fabric": fabric, "switch": f"{fabric}/Switches/1"}
        self.assertEqual(places, self.blocks["/D/A"].places)
        self.assertEqual({"chassis": "/C/1"}, self.blocks["/S/1"].places)


class TestMissing(Rack):
    """Each missing document is noted with the document that links it."""

    def test_of_a_fabric(self):
        for missing, where in (
            ("F_A", "/F"), ("F_A_E", "/F/A"), ("F_A_E_1", "/F/A/E"), ("F_A_Z", "/F/A"),
            ("F_A_W", "/F/A"), ("F_A_W_1", "/F/A/W"), ("F_A_P", "/F/A/W/1"),
            ("F_A_P_1", "/F/A/P"), ("D_A", "/F/A/E/1"), ("S_1", "/S"), ("F", ROOT), ("S", ROOT),
            ("N", ROOT),
        ):  # fmt: skip
            with self.subTest(missing):
                self.read(**{missing: None})
                line = f"/{missing.replace('_', '/')}: {MISSING} {where} links it"
                self.assertIn(line, self.notes.lines())

    def test_links_without_a_target_are_noted_where_they_stand(self):
        for where, changes in (
            ("/F/A/Z/1", {"F_A_Z": {"Members": links("/F/A/Z/1")},
                          "F_A_Z_1": {"Links": {"Endpoints": [{}]}}}),
            ("/F/A/E/2", {"F_A_E": {"Members": links("/F/A/E/1", "/F/A/E/2")},
                          "F_A_E_2": {"ConnectedEntities": [{"EntityRole": "Initiator",
                                                             "EntityLink": {"x": 1}}]}}),
            ("/S/1", {"S_1": system("a", Links={"Endpoints": [{}]})}),
            ("/N/1", {"N": {"Members": links("/N/1")},
                      "N_1": {"ComposedNodeState": "Assembled", "Links":
                              {"ComputerSystem": link("/S/1"), "LocalDrives": [{}]}}}),
            ("/St/1", {"redfish_v1": {"Nodes": link("/N"), "Systems": link("/S"),
                                      "StorageServices": link("/St")},
                       "St": {"Members": links("/St/1")},
                       "St_1": {"Links": {"HostingSystem": {"x": 1}}}}),
        ):  # fmt: skip
            with self.subTest(where):
                self.read(F_B_E={"Members": []}, **changes)
                line = f"{where}: found a link without @odata.id, expected @odata.id"
                self.assertIn(line, self.notes.lines())
