# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers, served: trees as they are, inventories, racks; and the page about it."""

import json
import unittest
from pathlib import Path

from tests.unit.simulator.site import ROOT, Client, documents
from valence_sched.errors import InputError
from valence_sched.simulator.server.faults import RULES
from valence_sched.testing.served import served

HERE = Path(__file__).parents[4]
TREES = HERE.parent / "shared" / "data" / "dmtf"


class TestServed(unittest.TestCase):
    def test_every_recorded_tree_of_ours_is_served_document_by_document(self):
        own = ("SessionService", "Sessions", "Links", "ProtocolFeaturesSupported")
        paths = sorted((HERE / "tests" / "recorded").glob("*.json"))
        self.assertTrue(paths)
        for path in paths:
            recorded = json.loads(path.read_text())
            if path.stem.startswith("rsd-"):
                continue  # its nodes go on being assembled
            with self.subTest(path.stem), served(str(path)) as podms:
                (podm,) = podms.values()
                client = Client(podm)
                for uri, document in recorded.items():
                    if not isinstance(document, dict) or "Session" in uri or "Systems" in document:
                        continue
                    found = client.get(uri).json()
                    for key in own:
                        found.pop(key, None), document.pop(key, None)
                    self.assertEqual(document, found, uri)

    def test_all_of_an_inventory_is_served_each_on_its_own_port(self):
        with served(str(HERE / "examples" / "site.json")) as podms:
            self.assertEqual(8, len({podm.url for podm in podms.values()}))
            for podm in podms.values():
                self.assertEqual(200, Client(podm).get(ROOT).status_code)

    def test_a_source_without_a_pod_manager_is_told(self):
        with self.assertRaises(InputError), served(str(HERE / "setup.cfg")):
            pass

    def test_nothing_listens_any_more_when_it_is_over(self):
        with served(documents={"p": documents()}) as podms:
            client = Client(podms["p"])
            client.get(ROOT)
        with self.assertRaises(OSError):
            client.get(ROOT)

    def test_every_fault_rule_stands_on_its_page(self):
        page = (HERE / "doc" / "source" / "howto" / "serve.rst").read_text()
        for rule in RULES:
            self.assertIn(f"``{rule.name}:{rule.words}".rstrip(":") + "``", page)


@unittest.skipUnless(TREES.is_dir(), f"the DMTF mockups are not at {TREES}")
class TestDmtf(unittest.TestCase):
    def test_their_compose_action_is_found_where_it_is_misspelt(self):
        with served(str(TREES / "public-compose-action")) as podms:
            client = Client(podms["public-compose-action"])
            uri = f"{ROOT}/CompositionService"
            actions = client.get(uri).json()["Actions"]
            blocks = f"{uri}/ResourceBlocks/"
            stanza = {
                "StanzaType": "ComposeSystem", "StanzaId": "one",
                "Request": {"Links": {"ResourceBlocks": [{"@odata.id": f"{blocks}RackServer-4"}]}},
            }  # fmt: skip
            body = {"RequestFormat": "Manifest", "RequestType": "Apply",
                    "Manifest": {"Stanzas": [stanza]}}  # fmt: skip
            target = actions["#CompositionService.Compose"]["target"]
            answer = client.post(target, body).json()
            node = answer["Manifest"]["Stanzas"][0]["Response"]
            self.assertEqual(f"{ROOT}/Systems/one", node["@odata.id"])
            self.assertEqual("Active", client.get(f"{blocks}RackServer-4").json()["Pool"])
            pool = json.dumps(client.get(f"{uri}/ActivePool").json()["Members"])
            self.assertIn("RackServer-4", pool)
