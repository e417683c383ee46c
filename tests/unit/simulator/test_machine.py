# SPDX-License-Identifier: Apache-2.0
"""A served system as its owner uses it: power, boot, interfaces, virtual media."""

import sushy

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import PCIE
from tests.unit.simulator.server.test_podm import Case
from tests.unit.simulator.site import BLOCKS, ROOT, SYSTEMS, documents, links, message_key
from valence_sched.simulator.redfish.system import RESETS

RESET = "Actions/ComputerSystem.Reset"


def with_nic():
    """Return documents in which a compute block has an interface."""
    tree, uri = documents(), f"{BLOCKS}/C1/EthernetInterfaces/1"
    tree[f"{BLOCKS}/C1"]["EthernetInterfaces"] = links(uri)
    tree[uri] = {"@odata.id": uri, "Id": "1", "Name": "nic", "SpeedMbps": 10000}
    return tree


class TestMachine(Case):
    """A node that was composed over the socket."""

    def composed(self, *blocks, documents=with_nic):
        client = self.serve(documents=documents)
        self.uri = client.compose(*(blocks or ("C1",))).headers["Location"]
        return client

    def system(self):
        return self.client.get(self.uri).json()

    def reset(self, kind):
        return self.client.post(f"{self.uri}/{RESET}", {"ResetType": kind})

    def test_the_power_state_follows_each_reset(self):
        self.composed()
        self.assertEqual("On", self.system()["PowerState"])
        for kind, power in RESETS.items():
            with self.subTest(kind):
                was = self.system()["PowerState"]
                self.assertEqual(204, self.reset(kind).status_code)
                wanted = {None: was, "": "Off" if was == "On" else "On"}.get(power, power)
                self.assertEqual(wanted, self.system()["PowerState"])

    def test_an_unknown_reset_is_refused_and_changes_nothing(self):
        self.composed()
        for kind in ("Explode", None):
            self.assertEqual("ActionParameterNotSupported", message_key(self.reset(kind)))
        self.assertEqual("On", self.system()["PowerState"])

    def test_a_change_of_blocks_leaves_power_and_media(self):
        client = self.composed("C2")
        self.reset("ForceOff")
        disc = f"{self.system()['Links']['ManagedBy'][0]['@odata.id']}/VirtualMedia/Cd"
        client.post(f"{disc}/Actions/VirtualMedia.InsertMedia", {"Image": "http://x/a.iso"})
        body = {"ResourceBlock": {"@odata.id": f"{BLOCKS}/D1"}}
        client.post(f"{self.uri}/Actions/ComputerSystem.AddResourceBlock", body)
        self.assertEqual("Off", self.system()["PowerState"])
        self.assertIs(True, client.get(disc).json()["Inserted"])

    def test_an_override_for_once_is_used_up_by_the_next_start(self):
        client = self.composed()
        boot = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}
        self.assertEqual(200, client.ask("PATCH", self.uri, {"Boot": boot}).status_code)
        self.assertIn("BootSourceOverrideTarget@Redfish.AllowableValues", self.system()["Boot"])
        self.reset("ForceOff")
        self.assertEqual("Cd", self.system()["Boot"]["BootSourceOverrideTarget"])
        self.reset("On")
        self.assertEqual("Disabled", self.system()["Boot"]["BootSourceOverrideEnabled"])

    def test_each_system_has_interfaces_and_each_interface_an_address(self):
        client = self.composed()
        (nic,) = client.get(f"{self.uri}/EthernetInterfaces").json()["Members"]
        address = client.get(nic["@odata.id"]).json()["MACAddress"]
        self.assertRegex(address, "^02(:[0-9a-f]{2}){5}$")
        self.composed("C2")  # its blocks have none, so it boots from its own
        (nic,) = self.client.get(f"{self.uri}/EthernetInterfaces").json()["Members"]
        self.assertEqual(f"{self.uri}/EthernetInterfaces/Onboard", nic["@odata.id"])

    def test_a_manager_comes_and_goes_with_its_system(self):
        client = self.composed()
        (manager,) = client.get(f"{ROOT}/Managers").json()["Members"]
        self.assertEqual(manager, self.system()["Links"]["ManagedBy"][0])
        client.ask("DELETE", self.uri)
        self.assertEqual([], client.get(f"{ROOT}/Managers").json()["Members"])
        self.assertEqual(404, client.get(manager["@odata.id"]).status_code)

    def test_media_without_an_image_are_refused(self):
        client = self.composed()
        disc = f"{self.system()['Links']['ManagedBy'][0]['@odata.id']}/VirtualMedia/Cd"
        for body in ({}, {"Image": ""}, {"Image": 3}):
            answer = client.post(f"{disc}/Actions/VirtualMedia.InsertMedia", body)
            self.assertEqual("ActionParameterMissing", message_key(answer))
        self.assertIs(False, client.get(disc).json()["Inserted"])

    def use(self, system):
        """Use a system as Ironic does."""
        system.reset_system(sushy.RESET_TYPE_FORCE_OFF)
        system.refresh(force=True)
        self.assertEqual(sushy.PowerState.OFF, system.power_state)
        system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_CD, enabled="Once")
        (media,) = system.managers[0].virtual_media.get_members()
        media.insert_media("http://127.0.0.1/tiny.iso")
        media.refresh(force=True)
        self.assertTrue(media.inserted)
        system.reset_system(sushy.RESET_TYPE_ON)
        system.refresh(force=True)
        self.assertEqual(sushy.PowerState.ON, system.power_state)
        media.eject_media()
        media.refresh(force=True)
        self.assertFalse(media.inserted)
        return system.ethernet_interfaces.summary

    def test_sushy_powers_it_and_boots_it_from_a_virtual_cd(self):
        self.composed()
        uri = self.uri
        root = sushy.Sushy(self.podm.url, auth=sushy.auth.BasicAuth("a", "b"))
        self.assertEqual(1, len(self.use(root.get_system(uri))))

    def test_sushy_uses_the_system_of_a_rack_node_in_the_same_way(self):
        client = self.serve(documents=lambda: documents_of(PCIE))
        where = client.post(f"{ROOT}/Nodes/Actions/Allocate", {"Name": "n"}).headers["Location"]
        uri = client.get(where).json()["Links"]["ComputerSystem"]["@odata.id"]
        root = sushy.Sushy(self.podm.url, auth=sushy.auth.BasicAuth("a", "b"))
        self.assertTrue(self.use(root.get_system(uri)))
        self.assertIn(SYSTEMS, uri)
