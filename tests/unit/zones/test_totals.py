# SPDX-License-Identifier: Apache-2.0
"""How many nodes fit on several zones together, and the names that they have above."""

import unittest

from msgspec.structs import replace

from valence_sched.model.capacity import Capacity, PodmCapacity, ProvenMost
from valence_sched.model.decision_result import FitCounts
from valence_sched.model.decision_zones import SilentZone
from valence_sched.model.lifecycle import Event, UnverifiedNode
from valence_sched.zones import paths
from valence_sched.zones.result import MIX_NOTE, added_capacities, added_fit_counts

AWAY = SilentZone(zone="west", reason="it is away")


def capacity(podm: str, nodes: int = 1, **words: object) -> Capacity:
    return Capacity(name="small", podms=(PodmCapacity(podm=podm, nodes=nodes),), **words)


class TestFitCounts(unittest.TestCase):
    """Nodes of one request."""

    def test_each_zone_adds_its_own_by_their_paths(self):
        found = added_fit_counts({
            "": FitCounts(podms=(("a", 1),), warnings=("old",)),
            "east": FitCounts(podms=(("b", 2), ("deep/c", 3)), warnings=("old", "old"),
                              undecided=("b",), silent=(AWAY,)),
        }, [AWAY])  # fmt: skip
        self.assertEqual((("a", 1), ("east/b", 2), ("east/deep/c", 3)), found.podms)
        self.assertEqual(("old", "zone east: old"), found.warnings)
        self.assertEqual(("east/b",), found.undecided)
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])


class TestCapacities(unittest.TestCase):
    """Nodes of one flavor, or of a mix."""

    OWN = capacity("a", 2, podm_sums=3, site_sums=4, proven=ProvenMost(bound=2, found=2),
                   by_flavor={"small": 2}, refused="large", warnings=("old",))  # fmt: skip
    EAST = capacity("b", 5, podm_sums=6, site_sums=9, proven=ProvenMost(bound=8, found=7),
                    by_flavor={"small": 4, "large": 1}, undecided=("b",),
                    silent=(AWAY,))  # fmt: skip

    def test_the_own_pod_managers_alone_are_as_they_are(self):
        self.assertIs(self.OWN, added_capacities("", {"": self.OWN}))
        self.assertEqual((AWAY,), added_capacities("", {"": self.OWN}, [AWAY]).silent)

    def test_several_zones_are_added_up(self):
        found = added_capacities("none", {"": self.OWN, "east": self.EAST}, [AWAY])
        self.assertEqual(("small", 7, 9), (found.name, found.nodes, found.podm_sums))
        self.assertEqual(["a", "east/b"], [one.podm for one in found.podms])
        self.assertEqual(ProvenMost(bound=10, found=9), found.proven)
        self.assertEqual({"small": 6, "large": 1}, found.by_flavor)
        self.assertEqual((None, None), (found.site_sums, found.refused))
        self.assertEqual((("old",), ("east/b",)), (found.warnings, found.undecided))
        self.assertEqual(["west", "east/west"], [one.zone for one in found.silent])

    def test_what_one_zone_does_not_know_is_not_known_of_all(self):
        unknown = capacity("c")
        found = added_capacities("", {"": self.OWN, "east": unknown})
        self.assertEqual((None, None), (found.podm_sums, found.proven))

    def test_a_single_zone_below_keeps_what_it_says_of_itself(self):
        found = added_capacities("", {"east": self.OWN})
        self.assertEqual(("east/a", 4, "large", ("zone east: old",)), (
            found.podms[0].podm, found.site_sums, found.refused, found.warnings,
        ))  # fmt: skip
        self.assertEqual(self.OWN.proven, found.proven)

    def test_a_mix_is_counted_by_each_zone_and_nothing_is_proven(self):
        found = added_capacities("", {"": self.OWN, "east": self.EAST}, mix=True)
        self.assertEqual((None, ("old", MIX_NOTE)), (found.proven, found.warnings))
        alone = added_capacities("", {"east": self.EAST}, mix=True)
        self.assertEqual((None, ()), (alone.proven, alone.warnings))

    def test_without_an_answer_nothing_is_known(self):
        found = added_capacities("small", {}, [AWAY])
        self.assertEqual(("small", 0, None, None, None), (
            found.name, found.nodes, found.site_sums, found.proven, found.refused,
        ))  # fmt: skip


class TestPaths(unittest.TestCase):
    """Names of what could not be verified, and of what events are about."""

    def test_events_name_what_they_are_about_by_its_way(self):
        about = Event(at=1.0, kind="held", words="x", claim="c", podm="p")
        named, nothing = paths.events_below("east", [about, replace(about, claim=None, podm=None)])
        self.assertEqual(("east/c", "east/p"), (named.claim, named.podm))
        self.assertEqual((None, None), (nothing.claim, nothing.podm))

    def test_one_that_is_still_composing_has_its_way_in_front(self):
        node = UnverifiedNode(message="it composes", still_composing=True, node="n", podm="p",
                              claim="c")  # fmt: skip
        self.assertEqual(
            UnverifiedNode(message="zone east: it composes", still_composing=True, node="east/n",
                           podm="east/p", claim="east/c"),
            paths.unverified_below("east", node),
        )  # fmt: skip
        plain = paths.unverified_below("east", UnverifiedNode(message="it stays"))
        self.assertEqual(UnverifiedNode(message="zone east: it stays"), plain)
