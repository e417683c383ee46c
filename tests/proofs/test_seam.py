# SPDX-License-Identifier: Apache-2.0
"""Services and trees of zones meet the contracts that the engine meets in ``tests/seam``.

Without ``VALENCE_SCHED_SOAK``, only some of the contracts of changes are tested.
"""

import contextlib
import unittest

from tests.functional.through import is_chosen
from tests.seam.contract import ClaimingContract, ComposingContract, RegisteringContract, request
from tests.seam.node_changes import OWNER, STOCK, ChangingContract, DroppingContract
from tests.seam.test_client import RACK, ClientCase, ReportingContract, SelectingContract
from tests.seam.test_engine import CHANGING, SharedService, start_service, start_tree
from tests.seam.test_shrinking import ShrinkingCase
from tests.service.zone_services import ZoneServices, scheduler
from valence_sched import client
from valence_sched.errors import NoPodm, RequestError, UnknownName


def sampled(share):
    """Return a decorator that leaves one inherited test of ``share`` to a case, all in a soak."""

    def decorate(case):
        for name in dir(case):
            if name not in vars(case) and not is_chosen(case.__name__, name, share):
                setattr(case, name, None)
        return case

    return decorate


class EveryChange(
    SharedService, ChangingContract, ComposingContract, ClaimingContract, RegisteringContract
):
    """The tests change the served pod managers."""

    used = CHANGING


@sampled(10)
class TestServiceChanges(EveryChange, unittest.TestCase):
    """On the state of a service."""

    start = staticmethod(start_service)


@sampled(3)
class TestTreeChanges(EveryChange, unittest.TestCase):
    """On a tree of zones, which the tests restore."""

    used = (*CHANGING, "general-1")  # the zone above has two with cores
    start = staticmethod(start_tree)

    def used_memory(self) -> float:
        """Return the memory of an owner by the quota of the zone below, which counts its own."""
        (child,) = self.scheduler.zones()
        return scheduler(child.registration.url).quota(OWNER).used[f"stock:{STOCK}"]

    def test_a_plan_is_lost_once_it_would_break_the_rules_of_its_group(self):
        with self.assertRaisesRegex(RequestError, "the rules of group 'apart' cover all zones"):
            self.scheduler.plan(request(group={"name": "apart", "affinity": ["podm"]}))


class TestTreeDrops(SharedService, DroppingContract, unittest.TestCase):
    """On a tree of zones, with a pod manager that drops blocks."""

    used = CHANGING
    start = staticmethod(start_tree)


class TestServiceShrinks(ShrinkingCase, unittest.TestCase):
    """The scheduler is a service."""

    def start(self, stack, podm):
        url = ZoneServices(stack).start("one", served=[podm], policy_files=(self.policies,))
        return scheduler(url), scheduler(url)


class TestZonesShrink(ShrinkingCase, unittest.TestCase):
    """The scheduler is a zone without pod managers, over the zone of the node."""

    key = None  # a key shrinks no node over zones

    def start(self, stack, podm):
        services, files = ZoneServices(stack), {"policy_files": (self.policies,)}
        east = services.start("east", served=[podm], **files)
        return scheduler(services.start("top", children={"east": east}, **files)), scheduler(east)


class ThroughZone(ClientCase):
    """The scheduler is a zone without pod managers, over a zone that has them all."""

    def named(self, name):
        """Return the path of a name in the zone above."""
        return f"below/{name if isinstance(name, str) else '/'.join(name)}"

    def new_client(self):
        zones = ZoneServices(self.enterContext(contextlib.ExitStack()))
        below = zones.start("below", inventories=self.inventories)
        url = zones.start("top", children={"below": below}, near_maps=self.near_maps)
        self.below = client.connect(below, environ=self.environ)
        return client.connect(url, environ=self.environ)


class TestSelectingThroughZone(SelectingContract, ThroughZone, unittest.TestCase):
    """Through a zone."""


class TestReportingThroughZone(ReportingContract, ThroughZone, unittest.TestCase):
    """Through a zone; a new pod manager reports to the zone below."""

    def report(self, name, **fields):
        self.below.update_resource_stats(None, name, {**RACK, **fields})

    def test_what_no_zone_has_reports_to_the_zone_that_is_told(self):
        self.client.update_resource_stats(None, "rack-9", RACK)
        self.assertEqual("rack-9", self.client.scheduler.podm("rack-9").podm.id)
        with self.assertRaises((UnknownName, NoPodm)):
            self.below.scheduler.podm("rack-9")

    def test_a_name_of_two_zones_needs_the_way_to_one(self):
        self.client.update_resource_stats(None, "rack-1", RACK)
        self.report("rack-1")
        self.client.update_resource_stats(None, "below/rack-1", {"enabled": False})
        enabled = [one.scheduler.podm("rack-1").podm.enabled for one in (self.client, self.below)]
        self.assertEqual([True, False], enabled)


if __name__ == "__main__":
    unittest.main()
