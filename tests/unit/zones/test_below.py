# SPDX-License-Identifier: Apache-2.0
"""What is directly below a zone: found by its name or path, and nothing is guessed."""

import unittest
from types import SimpleNamespace

from valence_sched.errors import ServiceError, UnknownName, UsageError
from valence_sched.model.inventory import LeanPodm
from valence_sched.model.podm_overview import PodmOverview, PodmSummary
from valence_sched.model.request import Request
from valence_sched.zones.below import ZoneChild, ZonesBelow
from valence_sched.zones.nodes import ZoneNodes
from valence_sched.zones.scheduler import ZoneScheduler


def overview(name):
    """Return the overview of a pod manager without blocks."""
    nothing = dict.fromkeys(("cores", "memory_mib", "gpus", "accelerators", "drives", "nics"),
                            (0, 0))  # fmt: skip
    amounts = PodmSummary(blocks=(0, 0), stocks={}, **nothing)
    return PodmOverview(podm=LeanPodm(id=name), amounts=amounts, pool_count=0)


class Verbs:
    """The verbs of a zone with pod managers of some names."""

    def __init__(self, *names, error=None):
        self.names, self.error, self.stored = names, error, []

    def podm(self, name):
        if self.error:
            raise self.error
        if name not in self.names:
            raise UnknownName("pod manager", name, self.names)
        return overview(name)

    def update_resource_stats(self, podm, stats):
        self.stored.append((podm, stats))
        return len(self.stored)

    def reported_stats(self, podm):
        return dict(self.stored)[podm]

    def forget_report(self, podm):
        self.stored = [one for one in self.stored if one[0] != podm]


def below(own, **children):
    """Return what is below a zone that has pod managers, and children with more."""
    zones = {name: child if isinstance(child, str) else ZoneChild(child, child)
             for name, child in children.items()}  # fmt: skip
    return ZonesBelow(own, zones, 5.0)


def podms(own, **children):
    """Return the scheduler of that zone."""
    return ZoneScheduler(own, ZoneNodes(SimpleNamespace(below=below(own, **children))))


def requests(own, **children):
    """Return what tells a request as each zone names its pod managers."""
    return below(own, **children).requests


class TestNames(unittest.TestCase):
    """A child by its name."""

    zones = below(None, east="zone east is not active")

    def test_one_that_is_no_child_is_told_to_be_added(self):
        for find in (self.zones.child, self.zones.part):
            with self.assertRaisesRegex(ServiceError, "^it is no longer a child zone: add it"):
                find("eats")

    def test_of_one_that_cannot_be_asked_the_reason_is_told(self):
        for find in (self.zones.child, self.zones.part, lambda _: self.zones.find_podm("east/p")):
            with self.assertRaisesRegex(ServiceError, "^zone east is not active$"):
                find("east")


class TestPodms(unittest.TestCase):
    """Own ones come first, then those of children by path or by name."""

    def test_what_is_stored_is_stored_where_the_pod_manager_is(self):
        own, east, west = Verbs("a"), Verbs("b"), Verbs("c")
        zone = podms(own, east=east, west=west)
        for name in ("a", "b", "west/c", "new", ("host", "node")):
            zone.update_resource_stats(name, {"x": 1})
        self.assertEqual(["a", "new", "host/node"], [name for name, _ in own.stored])
        self.assertEqual((["b"], ["c"]), ([n for n, _ in east.stored], [n for n, _ in west.stored]))
        self.assertEqual({"x": 1}, zone.reported_stats("b"))
        zone.forget_report("east/b")
        self.assertEqual([], east.stored)
        self.assertEqual(overview("west/c"), zone.podm("c"))

    def test_a_name_of_several_zones_is_not_guessed(self):
        zone = podms(Verbs(), east=Verbs("b"), west=Verbs("b"))
        with self.assertRaisesRegex(UsageError, "several zones have .*'b': name east/b or west/b$"):
            zone.update_resource_stats("b", {})
        self.assertEqual(overview("west/b"), zone.podm("west/b"))

    def test_a_zone_that_does_not_answer_may_have_what_no_other_has(self):
        zone = podms(Verbs("a"), east=Verbs("b"), west=Verbs(error=ServiceError("it is away")))
        self.assertEqual(overview("a"), zone.podm("a"))
        self.assertEqual(overview("east/b"), zone.podm("b"))
        with self.assertRaisesRegex(ServiceError, "zone west may have .*'new'.*it is away"):
            zone.update_resource_stats("new", {})

    def test_a_request_names_its_pod_managers_as_each_zone_does(self):
        zone_requests = requests(Verbs("a", "b"), east=Verbs("b", "c"), west=Verbs("d"))
        named = ("a", "b", "c", "east/c", "west/d")
        found = zone_requests(Request(podms=named, exclude_podms=named))
        for name, expected in (
            ("", ("a", "b")), ("east", ("b", "c", "c")), ("west", ("d",)),
        ):  # fmt: skip
            asked = found(name)
            self.assertEqual(expected, asked.exclude_podms)
            self.assertEqual(expected, asked.podms)
        self.assertEqual(("../west/d",), zone_requests(Request(podms=("west/d",)))("").podms)
        for name in ("z", "west/b"):
            with self.assertRaisesRegex(UnknownName, f"'{name}'"):
                zone_requests(Request(exclude_podms=(name,)))

    def test_a_silent_zone_need_not_have_what_a_request_names_of_another(self):
        zone_requests = requests(
            Verbs("a"), east=Verbs("b"), west=Verbs(error=ServiceError("it is away"))
        )
        found = zone_requests(Request(podms=("a", "b")))
        self.assertEqual(("a",), found("").podms)
        with self.assertRaisesRegex(ServiceError, "zone west may have .*'z'.*it is away"):
            zone_requests(Request(podms=("z",)))

    def test_what_no_zone_has_is_unknown(self):
        with self.assertRaisesRegex(UnknownName, "'z'"):
            podms(Verbs("a"), east=Verbs("b")).podm("z")
