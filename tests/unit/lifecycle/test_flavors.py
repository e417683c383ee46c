# SPDX-License-Identifier: Apache-2.0
"""Every built-in flavor on every served dialect: it is composed, or refused beforehand."""

import unittest

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import NETWORK, PCIE
from tests.unit.lifecycle.site import EXAMPLE, Site, site
from tests.unit.lifecycle.test_habits import access
from tests.unit.trees import constrained, tree
from valence_sched.app import App
from valence_sched.model.request import Request
from valence_sched.model.request_spec import RequestSpec, compile_request

FLAVORS = App(environ={"XDG_CONFIG_HOME": "/nonexistent"}).config.flavors()
#: The flavors that fit on a recorded rack, and on a pod manager that chooses the blocks.
RACK, CHOOSING = (
    {"small", "medium", "large"},
    {"small", "medium", "large", "gpu-small", "gpu-large"},
)


def requested(flavor: str, **fields) -> Request:
    return compile_request(RequestSpec(flavor=flavor, **fields), FLAVORS[flavor])


def state(here: Site) -> dict:
    """Return the free blocks and the nodes of each pod manager."""
    podms = [here.read(name) for name in here.podms]
    return {podm.id: (podm.nodes, [(it.uri, it.used) for it in podm.stocks],
                      [(it.uri, it.status.slots) for it in podm.blocks])
            for podm in podms}  # fmt: skip


class TestFlavors(unittest.TestCase):
    """From the decision to the removal."""

    flavors = ("gpu-large",)  # all of them in the proofs

    def check(self, here: Site, flavor: str) -> bool:
        """Compose a flavor and remove the node; return whether it was composed."""
        provisioner = access(here).provisioner(here.claimer)
        before = state(here)
        done = provisioner.provision(requested(flavor), detail="report")
        self.assertEqual(((), ()), (done.failures, done.unverified))
        if not done.nodes:
            self.assertEqual("nothing_fits", done.decision.report.outcome)
            self.assertTrue(
                all(
                    verdict.outcome == "rejected" and verdict.reason
                    for verdict in done.decision.report.podms
                )
            )
            self.assertEqual([], here.store.claims.list())
            writes = [it for podm in here.podms.values() for it in podm.requests
                      if it.method != "GET" and "/Sessions" not in it.path]  # fmt: skip
            self.assertEqual([], writes)
            return False
        (node,) = done.nodes
        here.read_again()
        self.assertEqual("SETTLED", here.store.claims.show(node.claim).state)
        here.composer.remove(node)
        self.assertEqual(before, state(here))
        return True

    def test_each_is_composed_on_the_served_example_site(self):
        for flavor in self.flavors:
            with self.subTest(flavor), site(source=EXAMPLE) as here:
                self.assertTrue(self.check(here, flavor))

    def test_a_rack_composes_what_it_can_hold_and_says_of_the_others_why_not(self):
        racks = {"pcie": documents_of(PCIE), "network": documents_of(NETWORK)}
        for flavor in self.flavors:
            with self.subTest(flavor), site(source=None, documents=racks) as here:
                self.assertEqual(flavor in RACK, self.check(here, flavor))

    def test_a_pod_manager_that_chooses_the_blocks_does_so_too(self):
        trees = {"chooses": constrained(tree("gpu-east"))}
        for flavor in self.flavors:
            with self.subTest(flavor), site(source=None, documents=trees) as here:
                self.assertEqual(flavor in CHOOSING, self.check(here, flavor))
