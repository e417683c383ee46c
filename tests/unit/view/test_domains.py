# SPDX-License-Identifier: Apache-2.0
"""The domain values of pod managers, and the counts of nodes at them."""

import unittest

import numpy as np

from tests.unit.core.deciders import built_in, cpus, engine_of
from valence_sched.core.decider import Decider
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError
from valence_sched.model.need import Proximity
from valence_sched.testing import request, view
from valence_sched.view.view import domain_index, domain_values

SITE = view(
    {
        "id": "a",
        "zone": "z1",
        "aggregates": ["x", "y", "x"],
        "facts": {"location": ["hall", "row"], "rack": 7},
        "pools": [{"id": "1"}, {"id": "2"}],
    },
    {"id": "b", "aggregates": ["y"], "facts": {"location": "hall", "rack": "7"}},
    {"id": "c", "zone": "z1", "facts": {"location": "", "rack": 7.5}},
)


class TestValues(unittest.TestCase):
    """The values of one pod manager."""

    def test_each_domain(self):
        for domain, expected in (
            ("podm", [("a",), ("b",), ("c",)]),
            ("zone", [("z1",), (), ("z1",)]),
            ("aggregate", [("x", "y"), ("y",), ()]),
            ("location", [("hall", "row"), ("hall",), ()]),
            ("facts.rack", [("7",), ("7",), ("7.5",)]),
            ("facts.nobody", [(), (), ()]),
        ):
            with self.subTest(domain):
                self.assertEqual(expected, [domain_values(podm, domain) for podm in SITE.podms])


class TestDomainIndex(unittest.TestCase):
    def test_a_row_has_the_count_of_its_value_and_each_pool_is_a_row(self):
        counts = domain_index(SITE, "podm").largest_count({"a": 2, "c": 1, "elsewhere": 9})
        self.assertEqual([2, 2, 0, 1], counts.tolist())

    def test_of_several_values_the_largest_count_applies(self):
        counts = domain_index(SITE, "aggregate").largest_count({"x": 1, "y": 4})
        self.assertEqual([4, 4, 4], counts[:3].tolist())
        self.assertEqual(
            [3, 3, 0], domain_index(SITE, "aggregate").largest_count({"x": 3})[:3].tolist()
        )

    def test_no_value_is_unknown_and_never_zero(self):
        self.assertTrue(np.isnan(domain_index(SITE, "aggregate").largest_count({})[3]))
        self.assertEqual(
            [False, False, True, False],
            np.isnan(domain_index(SITE, "zone").largest_count({"z1": 1})).tolist(),
        )
        self.assertTrue(np.isnan(domain_index(SITE, "facts.nobody").largest_count({"x": 1})).all())

    def test_selections_of_rows_have_the_counts_of_the_whole(self):
        whole = domain_index(SITE, "location").largest_count({"row": 3, "hall": 1})
        part = domain_index(SITE.take([2, 0]), "location").largest_count({"row": 3, "hall": 1})
        self.assertEqual(whole[[2, 0]].tolist(), part.tolist())

    def test_an_unknown_domain_is_refused_with_the_known_ones(self):
        for wrong in ("rack", "facts.", "", "podms"):
            with self.assertRaisesRegex(RequestError, "unknown domain .*podm, zone, .*facts.NAME"):
                domain_index(SITE, wrong)


PODMS = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1", "labels": ["p", "q"]}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)
WORKING = tuple({**podm, "blocks": cpus(2)} for podm in PODMS)


def near_request(*near: Proximity):
    return request({"processor": {"sockets": 1}}, near=near)


class TestNear(unittest.TestCase):
    def test_s16_a_request_near_a_volume_picks_a_pod_manager_of_its_domain(self):
        volume = Proximity(thing="volume X", zone="z2")
        decision = engine_of(*WORKING).select_destinations(near_request(volume))
        self.assertEqual("b", decision.placements[0].chosen.podm)
        reasons = [
            reason.text for reason in Verdicts(decision).reasons(0) if reason.filter == "near"
        ]
        self.assertEqual(["near: zone of volume X: needs z2, has z1"], reasons)

    def test_a_preference_changes_the_choice_and_without_one_the_scores_do_not_change(self):
        engine = engine_of(*WORKING)
        plain = engine.select_destinations(near_request()).placements[0].chosen
        self.assertEqual({"fragmentation", "room", "level", "tight"}, set(plain.scores))
        for podm, zone in (("a", "z1"), ("b", "z2")):
            wish = near_request(Proximity(thing="volume X", zone=zone, soft=True))
            chosen = engine.select_destinations(wish).placements[0].chosen
            self.assertEqual((podm, 1.0), (chosen.podm, chosen.scores["near"]))

    def test_requests_that_differ_only_in_proximity_are_not_confused(self):
        engine = engine_of(*WORKING)
        for podm, zone in (("a", "z1"), ("b", "z2"), ("a", "z1")):
            decision = engine.select_destinations(near_request(Proximity(thing="v", zone=zone)))
            self.assertEqual(podm, decision.placements[0].chosen.podm)

    def test_a_policy_without_the_plugin_refuses(self):
        (chance,) = [policy for policy in built_in() if policy.name == "chance"]
        engine = Decider(view(*WORKING), [chance])
        for soft, kind in ((False, "filter"), (True, "weigher")):
            wish = request({"processor": {"sockets": 1}}, policy="chance",
                           near=[{"thing": "v", "zone": "z1", "soft": soft}])  # fmt: skip
            with self.assertRaisesRegex(RequestError, f"has no {kind} 'near'"):
                engine.select_destinations(wish)
