# SPDX-License-Identifier: Apache-2.0
"""The order of a mix keeps every share, and the count ends with the first node without a place."""

import itertools
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpus, engine_of, gpu
from tests.unit.core.sites import quietly
from valence_sched.errors import UsageError
from valence_sched.model.capacity import MOST_PARTS, whole_shares
from valence_sched.planning.capacity import mix_order, place_mix
from valence_sched.testing import request

WEB = request({"processor": {"total_cores": 8}}, id="web")
CARD = request({"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]}, id="card")


class TestOrder(unittest.TestCase):
    @quietly(300)
    @given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    def test_every_beginning_has_each_share_rounded_down_or_up(self, shares):
        counts = [0] * len(shares)
        for size, number in enumerate(itertools.islice(mix_order(shares), 2 * sum(shares)), 1):
            counts[number] += 1
            for count, share in zip(counts, shares, strict=True):
                self.assertLessEqual(size * share // sum(shares), count)
                self.assertLessEqual(count, -(-size * share // sum(shares)))

    def test_equal_nodes_of_one_flavor_follow_one_another(self):
        self.assertEqual([0] * 5, list(itertools.islice(mix_order([3]), 5)))


class TestPlacement(unittest.TestCase):
    def test_it_ends_with_the_first_node_without_a_place(self):
        decider = engine_of({"id": "a", "blocks": [*cpus(9), gpu("g1"), gpu("g2")]})
        placement = place_mix(decider, [CARD, WEB], [1, 2], 1000)
        self.assertEqual([2, 5], [sum(n == one for n, _ in placement.nodes) for one in (0, 1)])
        self.assertEqual(0, placement.last)

    def test_it_stops_at_the_limit_of_a_pod_manager(self):
        decider = engine_of({"id": "a", "blocks": cpus(9)})
        placement = place_mix(decider, [WEB], [1], 4)
        self.assertEqual((4, None), (len(placement.nodes), placement.last))


class TestShares(unittest.TestCase):
    def test_shares_become_the_smallest_whole_numbers(self):
        for shares, whole in (
            ({"a": 1.0, "b": 4.0}, (1, 4)),
            ({"a": 0.2, "b": 0.3}, (2, 3)),
            ({"a": 50.0, "b": 50.0}, (1, 1)),
            ({"a": 0.1}, (1,)),
            ({"a": float(MOST_PARTS)}, (1,)),
        ):
            self.assertEqual(whole, whole_shares(shares))

    def test_shares_of_too_many_parts_are_refused(self):
        with self.assertRaisesRegex(UsageError, "come to more than 10,000 parts"):
            whole_shares({"a": 0.333333, "b": 0.666667})
        with self.assertRaisesRegex(UsageError, "more than 10,000 parts"):
            whole_shares({"a": 1e300, "b": 1e-300})
