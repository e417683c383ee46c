# SPDX-License-Identifier: Apache-2.0
"""A group that must stay together begins where all of it fits, not where one node fits best."""

import unittest
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpus, engine_of, gpu
from tests.unit.core.sites import quietly
from valence_sched.core.batch import MOST_ANCHORS
from valence_sched.testing import request

CORES = {"processor": {"total_cores": 8}}
ZONE = {"name": "g", "affinity": ["zone"]}


def site(sizes):
    """Return a podm of so many nodes for each; two neighbours share a zone."""
    return [
        {"id": f"p{n}", "zone": f"z{n // 2}", "facts": {"rack": str(n % 2)}, "blocks": cpus(size)}
        for n, size in enumerate(sizes)
    ]


class TestFounding(unittest.TestCase):
    """Hard affinity of several nodes."""

    def test_the_place_that_is_best_for_one_is_left_when_the_others_do_not_fit_there(self):
        podms = site([3, 0, 2, 2])
        podms[0]["blocks"] += [{"uri": "big", "devices": {"processors": [{"cores": 64}]}}]
        alone = engine_of(*podms).select_destinations(request(CORES, group=ZONE))
        self.assertEqual(["p0"], [p.chosen.podm for p in alone.placements])
        podms[0]["blocks"] = podms[0]["blocks"][2:]
        four = engine_of(*podms).select_destinations(request(CORES, group=ZONE, count=4))
        self.assertEqual({"p2", "p3"}, {p.chosen.podm for p in four.placements})

    @quietly(60)
    @given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 7))
    def test_it_is_placed_whole_just_when_one_zone_holds_it(self, sizes, count):
        asked = request(CORES, group=ZONE, count=count)
        decision = engine_of(*site(sizes)).select_destinations(asked)
        zones = [sum(sizes[n : n + 2]) for n in range(0, len(sizes), 2)]
        self.assertEqual("placed" if max(zones) >= count else "nothing_fits", decision.outcome)
        part = engine_of(*site(sizes)).select_destinations(
            request(CORES, group=ZONE, count=count, min_count=0)
        )
        self.assertEqual(min(count, max(zones)), len(part.placements))

    def test_a_place_that_holds_all_by_several_alternatives_is_found(self):
        cards = site([0, 0, 9, 0])
        cards[0]["blocks"] = [gpu("g1"), gpu("g2")]
        cards[2]["blocks"] += [gpu("g1")]
        for first_of, expected in (
            ([{"accelerators": [{}]}, CORES], {"p2": 3}),
            ([{"accelerators": [{"count": 2}]}, CORES], {"p2": 3}),
            ([CORES, {"accelerators": [{}]}], {"p2": 3}),
        ):
            with self.subTest(first_of):
                asked = request({}, first_of=first_of, group=ZONE, count=3)
                decision = engine_of(*cards).select_destinations(asked)
                self.assertEqual(expected, Counter(p.chosen.podm for p in decision.placements))
        two = request({}, first_of=[{"accelerators": [{}]}, CORES], group=ZONE, count=2)
        decision = engine_of(*cards).select_destinations(two)
        self.assertEqual([("p0", 1)] * 2, [(p.chosen.podm, p.choice) for p in decision.placements])

    def test_several_domains_are_left_together(self):
        group = {"name": "g", "affinity": ["zone", "facts.rack"]}
        asked = request(CORES, group=group, count=3)
        decision = engine_of(*site([2, 2, 1, 3])).select_destinations(asked)
        self.assertEqual({"p3"}, {p.chosen.podm for p in decision.placements})

    def test_where_the_group_is_already_it_stays(self):
        podms = site([1, 0, 5, 0])
        podms[0]["nodes"] = [{"uri": "n", "group": "g"}]
        asked = request(CORES, group=ZONE, count=2)
        self.assertEqual("nothing_fits", engine_of(*podms).select_destinations(asked).outcome)

    def test_the_tries_are_counted(self):
        most = MOST_ANCHORS
        podms = [{"id": f"p{n:02}", "zone": f"z{n:02}", "blocks": cpus(1)} for n in range(most + 9)]
        asked = request(CORES, group=ZONE, count=2, min_count=1)
        decision = engine_of(*podms).select_destinations(asked)
        self.assertEqual(1, len(decision.placements))


if __name__ == "__main__":
    unittest.main()
