# SPDX-License-Identifier: Apache-2.0
"""The scheduler over a tree of zones keeps the contract of a scheduler."""

import contextlib
import unittest

from tests.seam.contract import ClaimingContract, ComposingContract, SchedulerContract, request
from tests.seam.test_engine import EXAMPLE
from tests.service.zone_services import ZoneServices, scheduler
from valence_sched.errors import NameTaken, RequestError
from valence_sched.model.zone_registry import ZoneRegistration
from valence_sched.remote.scheduler import RemoteScheduler
from valence_sched.testing.served import served


class TestTree(ComposingContract, ClaimingContract, SchedulerContract, unittest.TestCase):
    """A zone with some of the pod managers, over one that has the others."""

    url = ""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.services = ZoneServices(stack)
        podms = list(stack.enter_context(served(EXAMPLE)).values())
        east = self.services.start("east", served=podms[1::2])
        scheduler(east).podms()  # what a first reading learns makes it read again
        self.url = self.services.start("top", served=podms[::2], children={"east": east})
        super().setUp()

    def new_scheduler(self) -> RemoteScheduler:
        found = scheduler(self.url)
        found.podms()
        return found

    def test_a_capacity_counts_the_same_nodes_and_explains_them_when_asked(self):
        counts = self.scheduler.count_fits(request(), 100)
        told = self.scheduler.capacity(request(), 100, explain=True)
        self.assertEqual(counts.podms, tuple((one.podm, one.nodes) for one in told.podms))
        self.assertTrue(told.nodes <= told.podm_sums)
        self.assertIsNone(told.site_sums)  # each zone knows its own amounts

    def test_each_detail_says_what_the_one_before_says(self):
        placements, summary, report = (
            self.scheduler.select_destinations(request(), detail=detail).report
            for detail in ("placements", "summary", "report")
        )
        self.assertEqual(placements.placements, summary.placements)
        self.assertEqual(placements.placements, report.placements)
        self.assertEqual(((), 8), (summary.podms, len(report.podms)))  # zones are asked for reasons

    def test_a_zone_below_is_refused_until_the_settings_enable_it(self):
        with self.assertRaisesRegex(NameTaken, "a zone named 'east' is a child already"):
            self.scheduler.add_zone(ZoneRegistration(name="east", url="http://127.0.0.1:9"))

    def test_the_zone_tells_its_name_and_what_it_has(self):
        tree, podms = self.scheduler.zone_tree(), self.scheduler.podms()
        parts = (tree.own, tree.children[0].own)
        self.assertEqual(len(podms), sum(one.podms for one in parts))
        self.assertEqual(sum(one.amounts.cores[1] or 0 for one in podms),
                         sum(one.amounts["cores"][1] for one in parts))  # fmt: skip
        self.assertEqual(["east"], [one.registration.name for one in self.scheduler.zones()])

    def test_the_documents_are_those_that_are_decided_on(self):
        """A zone has the documents of its own pod managers; each below has its own."""
        own = [one.podm.id for one in self.scheduler.podms() if "/" not in one.podm.id]
        self.assertEqual(own, [podm.id for podm in self.scheduler.documents()])

    def test_a_plan_is_lost_once_it_would_break_the_rules_of_its_group(self):
        with self.assertRaisesRegex(RequestError, "the rules of group 'apart' are over all zones"):
            self.scheduler.plan(request(group={"name": "apart", "affinity": ["podm"]}))


if __name__ == "__main__":
    unittest.main()
