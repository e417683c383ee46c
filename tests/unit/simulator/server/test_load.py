# SPDX-License-Identifier: Apache-2.0
"""Recorded pod managers, served; their counts do not depend on their listing habits."""

import json
import unittest
from collections import Counter
from pathlib import Path
from typing import Any

from tests.unit.drivers.files.test_tree import documents_of, read_map
from tests.unit.simulator.site import ROOT, Client, documents
from valence_sched.drivers.fields import Json
from valence_sched.errors import InputError
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.server.documents import DocumentTree
from valence_sched.simulator.server.faults import RULES, faults_of
from valence_sched.simulator.server.load import complete
from valence_sched.testing.served import served

HERE = Path(__file__).parents[4]
MOCKUPS = HERE.parent / "shared" / "data" / "dmtf"


class TestServed(unittest.TestCase):
    def test_every_recorded_tree_of_ours_is_served_document_by_document(self):
        own = ("SessionService", "Sessions", "Links", "ProtocolFeaturesSupported")
        paths = sorted((HERE / "tests" / "recorded").glob("*.json"))
        self.assertTrue(paths)
        for path in paths:
            recorded = json.loads(path.read_text())
            if path.stem.startswith("rsd-"):
                continue  # its nodes continue to assemble
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


@unittest.skipUnless(MOCKUPS.is_dir(), f"the DMTF mockups are not at {MOCKUPS}")
class TestDmtf(unittest.TestCase):
    def test_their_compose_action_is_found_where_it_is_misspelt(self):
        with served(str(MOCKUPS / "public-compose-action")) as podms:
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


TREES = {
    name: documents_of(f"{name}.json")
    for name in ("accelerators", "drift", "links", "memory-domains", "rsd-network", "rsd-pcie",
                 "shared-blocks", "states", "systems")
} | {"site": documents()}  # fmt: skip
KINDS = ("processors", "accelerators", "memory", "drives", "nics")


class TestVariations(unittest.TestCase):
    """Reads the trees of the project, unchanged and changed by fault rules."""

    def read(self, documents: dict[str, Json], *rules: str) -> FullPodm:
        tree = DocumentTree(documents)
        complete(tree, faults_of(rules, ["p"])["p"], "p")
        self.notes = Diagnostics()
        return read_map({uri: tree.get(uri) for uri in tree}, self.notes)

    def devices(self, podm: FullPodm) -> Counter[tuple[str, Any]]:
        """Return the number of devices of each block, by its URI and their kind."""
        found: Counter[tuple[str, Any]] = Counter()
        for block in podm.blocks:
            for kind in KINDS:
                lines = getattr(block.devices, kind)
                found[block.uri, kind] = sum(line.count or 0 for line in lines)
        return found

    def test_devices_that_are_listed_twice_are_not_more(self) -> None:
        for name, plain_tree in TREES.items():
            with self.subTest(name):
                plain = self.devices(self.read(plain_tree))
                self.assertEqual(plain, self.devices(self.read(plain_tree, "list-twice")))

    def test_stocks_are_as_large_where_only_what_they_hold_tells_it(self) -> None:
        for name, rule in (("memory-domains", "no-sizes"), ("rsd-network", "no-sizes"),
                           ("rsd-pcie", "no-sizes"), ("rsd-network", "physical-volumes"),
                           ("rsd-pcie", "physical-volumes")):  # fmt: skip
            with self.subTest(name=name, rule=rule):
                plain = {it.uri: (it.total, it.used) for it in self.read(TREES[name]).stocks}
                plain.pop("/redfish/v1/Chassis/pool-1/MemoryDomains/boastful", None)
                found = {it.uri: (it.total, it.used) for it in self.read(TREES[name], rule).stocks}
                self.assertEqual(plain, {uri: found[uri] for uri in plain})
                self.assertFalse([uri for uri in found if uri.endswith("-PV")])

    def test_a_property_that_is_null_or_missing_is_unknown_and_never_0(self) -> None:
        for rule in ("null:CapacityBytes", "omit:CapacityBytes"):
            drives = [it for block in self.read(TREES["shared-blocks"], rule).blocks
                      for it in block.devices.drives]  # fmt: skip
            self.assertEqual({None}, {drive.capacity_bytes for drive in drives})
        for rule in ("null:MemorySizeMiB", "omit:MemorySizeMiB"):
            stocks = self.read(TREES["memory-domains"], rule).stocks
            self.assertNotIn(0, [stock.total for stock in stocks])

    def test_blocks_without_a_composition_state_are_named_and_not_free(self) -> None:
        for rule in ("null:CompositionState", "omit:CompositionState"):
            podm = self.read(TREES["site"], rule)
            self.assertEqual(0, sum(block.status.slots for block in podm.blocks))
            noted = [it for it in self.notes.lines() if "CompositionState: found none" in it]
            self.assertEqual(len(podm.blocks), len(noted))

    def test_a_composed_system_of_two_is_evidence_where_no_limit_is_stated(self) -> None:
        for rules, most in (((), 1), (("no-limits",), 1), (("join",), 2)):
            podm = self.read(TREES["site"], *rules)
            found = {pool.id: pool.limits["Compute"].max for pool in podm.pools}
            self.assertEqual({"A": most, "B": 1}, found)  # zone B contains one of its blocks
