# SPDX-License-Identifier: Apache-2.0
"""What is counted of a pod manager does not depend on its habits of listing things."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import TestCase

from tests.unit.drivers.files.test_tree import documents_of, read_map
from tests.unit.simulator import site
from valence_sched.drivers.fields import Json
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.simulator.server.documents import DocumentTree
from valence_sched.simulator.server.faults import faults_of
from valence_sched.simulator.server.load import complete

TREES = {
    name: documents_of(f"{name}.json")
    for name in ("accelerators", "drift", "links", "memory-domains", "rsd-network", "rsd-pcie",
                 "shared-blocks", "states", "systems")
} | {"site": site.documents()}  # fmt: skip
KINDS = ("processors", "accelerators", "memory", "drives", "nics")


class TestVariations(TestCase):
    """Reads the trees of the project as they are, and as fault rules change them."""

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
        for name, documents in TREES.items():
            with self.subTest(name):
                plain = self.devices(self.read(documents))
                self.assertEqual(plain, self.devices(self.read(documents, "list-twice")))

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
            self.assertEqual({"A": most, "B": 1}, found)  # in zone B there is one block of them
