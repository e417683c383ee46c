# SPDX-License-Identifier: Apache-2.0
"""The hardware that a change concerns, read from the documents of nodes, blocks and devices."""

import unittest

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from valence_sched.drivers.hardware import ConcernedHardware, read_hardware
from valence_sched.errors import PodmError

V1 = "/redfish/v1"
UUID = "33333333-3333-4333-8333-333333333333"


SYSTEM = {
    f"{V1}/Systems/7": {
        "UUID": UUID.upper(),
        "EthernetInterfaces": link(f"{V1}/Systems/7/EthernetInterfaces"),
        "Links": {"ManagedBy": links(f"{V1}/Managers/7")},
    },
    f"{V1}/Systems/7/EthernetInterfaces": {
        "Members": links(f"{V1}/Systems/7/EthernetInterfaces/1", f"{V1}/gone"),
        "Members@odata.nextLink": f"{V1}/Systems/7/EthernetInterfaces?page=2",
    },
    f"{V1}/Systems/7/EthernetInterfaces?page=2": {
        "Members": links(f"{V1}/Systems/7/EthernetInterfaces/2"),
    },
    f"{V1}/Systems/7/EthernetInterfaces/1": {"MACAddress": "00-5C-52-31-3A-9C"},
    f"{V1}/Systems/7/EthernetInterfaces/2": {
        "MACAddress": "00:00:00:00:00:00", "PermanentMACAddress": "005c5231.3a9d",
    },
    f"{V1}/Managers/7": {"EthernetInterfaces": link(f"{V1}/Managers/7/EthernetInterfaces")},
    f"{V1}/Managers/7/EthernetInterfaces": {"Members": links(f"{V1}/Managers/7/Nic")},
    f"{V1}/Managers/7/Nic": {
        "IPv4Addresses": [{"Address": "192.0.2.99"}, {}, None],
        "IPv6Addresses": [{"Address": "fe80::1"}],
        "HostName": "bmc-7",
        "FQDN": "bmc-7.example",
    },
}  # fmt: skip
FOUND = ConcernedHardware(
    systems={f"{V1}/Systems/7"},
    uuids={UUID},
    mac_addresses={"00:5c:52:31:3a:9c", "00:5c:52:31:3a:9d"},
    bmc_hosts={"192.0.2.99", "fe80::1", "bmc-7", "bmc-7.example"},
)


class TestHardware(unittest.TestCase):
    """The properties that distinguish systems."""

    def test_a_node_that_is_a_system_is_read_with_its_interfaces_and_its_bmc(self):
        documents = StoredPodm(SYSTEM)
        self.assertEqual(FOUND, read_hardware(documents, f"{V1}/Systems/7", ()))
        self.assertEqual(len(documents.sent("GET")), len(set(documents.sent("GET"))))

    def test_the_system_of_a_node_and_of_a_block_is_found_by_their_links_and_their_uri(self):
        for node, blocks, more in (
            (f"{V1}/Nodes/1", (), {f"{V1}/Nodes/1": {
                "Links": {"ComputerSystem": link(f"{V1}/Systems/7")}}}),
            (None, (f"{V1}/Blocks/1",), {f"{V1}/Blocks/1": {
                "ComputerSystems": links(f"{V1}/Systems/7")}}),
            (None, (f"{V1}/Blocks/1",), {f"{V1}/Blocks/1": {
                "Links": {"ComputerSystems": links(f"{V1}/Systems/7")}}}),
            (None, (f"{V1}/Systems/7",), {}),
            (None, (f"{V1}/Systems/7/Storage/1/Drives/2",), {}),
        ):  # fmt: skip
            with self.subTest(node=node, blocks=blocks, more=more):
                found = read_hardware(StoredPodm(SYSTEM | more), node, blocks)
                nodes = {node} if node else set()
                self.assertEqual(FOUND.systems | nodes, found.systems)
                self.assertEqual(
                    set() if node else {one.casefold() for one in blocks}, found.blocks
                )
                self.assertEqual(
                    (FOUND.uuids, FOUND.mac_addresses, FOUND.bmc_hosts),
                    (found.uuids, found.mac_addresses, found.bmc_hosts),
                )

    def test_other_users_of_a_shared_block_are_not_concerned(self):
        block = {
            "CompositionStatus": {"SharingCapable": True, "SharingEnabled": True},
            "Links": {"ComputerSystems": links(f"{V1}/Systems/7")},
        }
        documents = StoredPodm(SYSTEM | {f"{V1}/Blocks/1": block})
        found = read_hardware(documents, None, (f"{V1}/Blocks/1",))
        self.assertEqual(ConcernedHardware(blocks={f"{V1}/blocks/1"}), found)

    def test_the_blocks_of_a_system_are_read_where_they_are_asked_for(self):
        blocks = {"Links": {"ResourceBlocks": links(f"{V1}/Blocks/1", f"{V1}/Blocks/%31/")}}
        found = read_hardware(StoredPodm({f"{V1}/Systems/8": blocks}), None, ())
        self.assertEqual({f"{V1}/blocks/1"}, found.blocks_of(f"{V1}/Systems/8"))
        self.assertEqual(set(), found.blocks_of(f"{V1}/Systems/9"))

    def test_interfaces_of_a_block_tell_its_mac_addresses(self):
        block = {"EthernetInterfaces": links(f"{V1}/Systems/7/EthernetInterfaces/1")}
        found = read_hardware(StoredPodm(SYSTEM | {"/b": block}), None, ("/b",))
        self.assertEqual({"00:5c:52:31:3a:9c"}, found.mac_addresses)

    def test_a_system_elsewhere_is_one_by_its_type(self):
        kind = {"@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem"}
        found = read_hardware(StoredPodm({"/sleds/1": kind}), None, ("/sleds/1",))
        self.assertEqual({"/sleds/1"}, found.systems)

    def test_a_document_that_is_gone_tells_nothing_and_one_that_is_not_read_is_an_error(self):
        self.assertEqual(
            ConcernedHardware(systems={"/n"}), read_hardware(StoredPodm({}), "/n", ("/b",))
        )
        page = {"Members": [], "Members@odata.nextLink": "/none"}
        documents = {f"{V1}/Systems/7": {"EthernetInterfaces": link("/list")}, "/list": page}
        with self.assertRaisesRegex(PodmError, "/none: found no such document"):
            read_hardware(StoredPodm(documents), f"{V1}/Systems/7", ())
        with self.assertRaises(PodmError):
            read_hardware(StoredPodm(dict.fromkeys(SYSTEM, 500)), f"{V1}/Systems/7", ())
