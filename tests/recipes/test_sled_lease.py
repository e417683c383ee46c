# SPDX-License-Identifier: Apache-2.0
"""The dialect of the recipe: it reads a recorded tree, reads live, and composes."""

import importlib
import io
import tomllib
import unittest

import msgspec

from tests.recipes.lease_server import LEASES, RECORDED, lease_server
from valence_sched.drivers.connect import connect
from valence_sched.drivers.crawl.pool import ReadSettings, ReadTarget, read
from valence_sched.drivers.recorded import records
from valence_sched.drivers.redfish.dialect import redfish
from valence_sched.model.claim import CompositionRequest
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm
from valence_sched.model.registration import Registration

from .sled_lease.sled_lease import leases_sleds, sled_lease

DIALECTS = {"redfish": redfish, "sled_lease": sled_lease}
SLEDS = "/redfish/v1/Oem/SledLease/Sleds"


def recorded_podm() -> FullPodm:
    """Return the pod manager of the recorded tree."""
    (record,) = records(str(RECORDED), io.BytesIO(), Diagnostics(), DIALECTS)
    return msgspec.json.decode(record.json, type=FullPodm)


class TestRecordedTree(unittest.TestCase):
    """A tree recorded from such a pod manager."""

    def test_its_service_root_is_recognised(self):
        self.assertEqual("sled_lease", recorded_podm().driver)
        for root in ({}, {"Oem": {}}, {"Oem": None}, {"Nodes": {}}):
            self.assertFalse(leases_sleds(root))

    def test_a_sled_is_a_block_and_a_lease_is_a_node(self):
        podm = recorded_podm()
        self.assertEqual([1, 0, 1], [block.status.slots for block in podm.blocks])
        self.assertEqual([("training", (f"{SLEDS}/2",))], [(n.name, n.blocks) for n in podm.nodes])

    def test_a_size_that_a_sled_does_not_tell_is_unknown_and_not_zero(self):
        sizes = [block.devices.memory[0].capacity_mib for block in recorded_podm().blocks]
        self.assertEqual([524288, 524288, None], sizes)


class TestLive(unittest.TestCase):
    """A pod manager of the recipe, served on loopback."""

    def setUp(self):
        self.server = self.enterContext(lease_server())
        self.target = ReadTarget(Registration(name="rack-9", url=self.server.url))

    def test_it_reads_as_its_recorded_tree(self):
        (reading,) = read([self.target], DIALECTS, ReadSettings())
        self.assertIsNone(reading.failure)
        podm = msgspec.structs.replace(reading.podm, url=None, read_at=None)
        self.assertEqual(recorded_podm(), podm)

    def test_a_node_is_composed_read_back_and_removed(self):
        request = CompositionRequest(name="vs-1", pool="sleds", blocks=(f"{SLEDS}/1",))
        with connect(self.target, DIALECTS, 10, 1) as (composer, _session):
            self.assertIsNone(composer.refusal(request))
            self.assertEqual([], composer.conflicts(request))
            result = composer.compose(request, lambda _state: None)
            self.assertEqual(("composed", f"{LEASES}/8"), (result.state, result.node))
            self.assertEqual([f"{SLEDS}/1: leased as 'vs-1'"], list(composer.conflicts(request)))
            removed = composer.remove(request, result.node, lambda _state: None)
            self.assertEqual("absent", removed.state)
        self.assertEqual(1, len([path for method, path in self.server.log if method == "POST"]))

    def test_a_lease_of_two_sleds_is_refused(self):
        request = CompositionRequest(name="vs-1", blocks=(f"{SLEDS}/1", f"{SLEDS}/3"))
        with connect(self.target, DIALECTS, 10, 1) as (composer, _session):
            self.assertEqual("a lease is of one whole sled", composer.refusal(request))


class TestDistribution(unittest.TestCase):
    """The recipe's pyproject.toml."""

    def test_entry_point_function_and_file_have_one_name(self):
        text = (RECORDED.parent / "pyproject.toml").read_text()
        ((name, value),) = tomllib.loads(text)["project"]["entry-points"][
            "valence_sched.dialects"
        ].items()
        module, _, function = value.partition(":")
        self.assertEqual((name, name), (function, module.rpartition(".")[2]))
        found = importlib.import_module(f"tests.recipes.{module}")
        self.assertEqual(name, getattr(found, function)().name)
