# SPDX-License-Identifier: Apache-2.0
"""The filter about places of external resources: whom it keeps, and what it reads for that."""

import unittest

from valence_sched.filters.near import near
from valence_sched.model.request import Proximity, Request
from valence_sched.testing import view
from valence_sched.view.podm_fields import podm_fields

SITE = (
    {"id": "a", "zone": "z1", "aggregates": ["x"], "facts": {"rack": "r1"}},
    {"id": "b", "zone": "z2", "aggregates": ["x", "y"], "facts": {"rack": "r2"}},
    {"id": "c"},
)


def must(**place: object) -> Proximity:
    return Proximity(thing="volume v", **place)


class TestNear(unittest.TestCase):
    """Each part of each place has to be shared."""

    def check(self, kept: str, *near_to: Proximity) -> None:
        mask = near(view(*SITE), Request(near=near_to)).tolist()
        self.assertEqual(kept, "".join(podm["id"] for podm, is_kept in zip(SITE, mask, strict=True)
                                       if is_kept))  # fmt: skip

    def test_the_zone_an_aggregate_and_every_fact_are_shared(self):
        self.check("b", must(zone="z2"))
        self.check("ab", must(aggregates=("x", "w")))
        self.check("a", must(facts={"rack": "r1"}))
        self.check("", must(zone="z2", facts={"rack": "r1"}))

    def test_all_of_several_things_are_near(self):
        self.check("ab", must(aggregates=("x",)))
        self.check("b", must(aggregates=("x",)), must(zone="z2"))

    def test_a_wish_rejects_nothing(self):
        wish = Proximity(thing="volume w", zone="z1", soft=True)
        self.check("abc", wish)
        self.check("b", wish, must(zone="z2"))


class TestFields(unittest.TestCase):
    """Which changes of a pod manager can change a verdict."""

    def test_any_request_may_name_any_part_of_a_place(self):
        self.assertEqual(["aggregates", "facts", "zone"], sorted(podm_fields(near, {})))

    def test_a_request_reads_the_places_of_what_must_be_near_alone(self):
        wish = Proximity(thing="volume w", zone="z2", soft=True)
        asked = Request(near=(wish, must(aggregates=("x",), facts={"rack": "r1"})))
        self.assertEqual(["aggregates", "facts.rack"], sorted(podm_fields(near, {}, asked)))
