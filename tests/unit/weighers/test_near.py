# SPDX-License-Identifier: Apache-2.0
"""The weigher about places of external resources, by hand numbers, and what it reads for them."""

import unittest

from tests.unit.weighers.test_weighers import WeigherCase
from valence_sched.model.request import Proximity, Request
from valence_sched.view.podm_fields import podm_fields
from valence_sched.weighers.near import near

SITE = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1"}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)


def wish(**place: object) -> Proximity:
    return Proximity(thing="volume v", soft=True, **place)


class TestNear(WeigherCase):
    """The share of the place that a pool has in common, the mean of several things."""

    def test_each_reported_part_of_the_place_counts_alike(self):
        place = wish(zone="z1", aggregates=("x",), facts={"rack": "r2"})
        self.scores([2 / 3, 2 / 3, 0], near, Request(near=(place,)), *SITE)

    def test_of_several_things_the_mean_however_many_parts_they_have(self):
        places = wish(zone="z2", aggregates=("y",)), wish(facts={"rack": "r1"})
        self.scores([1 / 2, 1 / 2, 0], near, Request(near=places), *SITE)
        places = wish(zone="z2", aggregates=("x",)), wish(facts={"rack": "r2"})
        self.scores([1 / 4, 1, 0], near, Request(near=places), *SITE)

    def test_what_must_be_near_is_no_wish_and_a_wish_without_a_place_counts_for_nothing(self):
        must = Proximity(thing="volume u", zone="z2")
        self.scores([1, 1, 1], near, Request(near=(must,)), *SITE)
        self.scores([1, 1, 1], near, Request(near=(wish(),)), *SITE)
        self.scores([1, 0, 0], near, Request(near=(must, wish(), wish(zone="z1"))), *SITE)


class TestFields(unittest.TestCase):
    """Which changes of a pod manager can change a score."""

    def test_any_request_may_name_any_part_of_a_place(self):
        self.assertEqual(["aggregates", "facts", "zone"], sorted(podm_fields(near, {})))

    def test_a_request_reads_the_parts_of_its_wishes_alone(self):
        must = Proximity(thing="volume u", zone="z2")
        asked = Request(near=(must, wish(aggregates=("x",), facts={"rack": "r1"})))
        self.assertEqual(["aggregates", "facts.rack"], sorted(podm_fields(near, {}, asked)))
