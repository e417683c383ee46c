# SPDX-License-Identifier: Apache-2.0
"""The most blocks of a type in one node, as an operator registers them."""

import unittest

from valence_sched.drivers.crawl.reading import with_max_blocks
from valence_sched.model.diagnostic import Diagnostics
from valence_sched.model.inventory import FullPodm, Limit, Pool


def limited(most, *pools: dict[str, Limit]):
    """Return the limits of each pool, and what was remarked."""
    noted: list[str] = []

    class Notes(Diagnostics):
        def remark(self, text: str) -> None:
            noted.append(text)

    podm = FullPodm(id="a", pools=tuple(Pool(id=f"p{n}", limits=one)
                                        for n, one in enumerate(pools)))  # fmt: skip
    return [pool.limits for pool in with_max_blocks(podm, most, Notes()).pools], noted


class TestMaxBlocks(unittest.TestCase):
    """The stricter of two limits holds."""

    def test_a_limit_is_set_where_the_pod_manager_states_none(self):
        for stated in ({}, {"Compute": Limit()}):
            self.assertEqual(([{"Compute": Limit(0, 3)}], []), limited({"Compute": 3}, stated))

    def test_limits_of_other_types_and_the_least_number_stay(self):
        stated = {"Compute": Limit(1, None), "Memory": Limit(0, 9)}
        self.assertEqual(([{"Compute": Limit(1, 3), "Memory": Limit(0, 9)}], []),
                         limited({"Compute": 3}, stated))  # fmt: skip
        self.assertEqual(([stated], []), limited({}, stated))

    def test_a_looser_limit_of_the_pod_manager_gives_way_without_a_word(self):
        self.assertEqual(([{"Compute": Limit(0, 3)}], []),
                         limited({"Compute": 3}, {"Compute": Limit(0, 5)}))  # fmt: skip

    def test_a_stricter_one_holds_and_that_is_noted(self):
        limits, noted = limited({"Compute": 3}, {"Compute": Limit(0, 2)})
        self.assertEqual([{"Compute": Limit(0, 2)}], limits)
        self.assertEqual(["pool p0: found a limit of 2 Compute blocks in a node, expected 3 as "
                          "registered (what the pod manager states holds)"], noted)  # fmt: skip

    def test_the_most_is_never_below_the_least_and_that_is_noted(self):
        limits, noted = limited({"Compute": 1}, {"Compute": Limit(2, 5)})
        self.assertEqual([{"Compute": Limit(2, 2)}], limits)
        self.assertIn("found a limit of 2 Compute blocks in a node, expected 1", noted[0])

    def test_pools_with_the_same_limit_are_one_note_and_each_limit_is_another(self):
        two, one = {"Compute": Limit(0, 2)}, {"Compute": Limit(0, 1)}
        _, noted = limited({"Compute": 3, "Memory": 4}, two, one, two, {}, two)
        self.assertEqual(2, len(noted))
        self.assertTrue(noted[0].startswith("pool p0 and 2 more: found a limit of 2"))
        self.assertTrue(noted[1].startswith("pool p1: found a limit of 1"))
