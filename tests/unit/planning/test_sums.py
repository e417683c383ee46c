# SPDX-License-Identifier: Apache-2.0
"""Sums are never below the true number, and say of the site at least what they say of its parts."""

import unittest

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpu, cpus, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import near_site, quietly, sites
from tests.unit.planning.optimise import brute_nodes
from tests.unit.planning.optimise.test_bound import cut, node_type
from valence_sched.planning.capacity import sums_of, sums_of_mix
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.testing import request, view

CARD = {"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]}


def sums(podms, *flavors, rows=None):
    seen = view(*podms)
    mask = None if rows is None else np.array(rows)
    return sums_of(seen, NodeType.of(request(*flavors), mask))


class TestSums(unittest.TestCase):
    def test_free_amounts_are_added_up_over_a_pod_manager_and_over_the_site(self):
        podms = [{"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": [gpu("g1", 2), *cpus(1)]}]
        found = sums(podms, CARD)
        self.assertEqual(((0, 1), 1, 2), (found.by_podm, found.podms, found.site))

    def test_a_block_in_several_pools_counts_once(self):
        pools = [{"id": "p"}, {"id": "q"}]
        podm = {"id": "a", "pools": pools, "blocks": [cpu("c", 8, pools=["p", "q"])]}
        self.assertEqual(1, sums([podm], {"processor": {"total_cores": 8}}).site)

    def test_a_block_for_several_nodes_counts_for_each_of_them(self):
        status = {"state": "ComposedAndAvailable", "shareable": True, "max_compositions": 5}
        podm = {"id": "a", "blocks": [cpu("c", 8, status={**status, "compositions": 2})]}
        self.assertEqual(3, sums([podm], {"processor": {"total_cores": 8}}).site)

    def test_pools_that_the_policy_rules_out_do_not_count(self):
        podms = [{"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": cpus(2)}]
        found = sums(podms, {"processor": {"total_cores": 8}}, rows=[False, True])
        self.assertEqual(((0, 2), 2), (found.by_podm, found.site))

    def test_stocks_are_added_up_and_rounding_does_not_lose_a_grant(self):
        stock = {"uri": "/s", "resource": "gib", "total": 0.3}
        node = {"resources": {"gib": 0.1}}
        self.assertEqual(3, sums([{"id": "a", "blocks": [], "stocks": [stock]}], node).site)

    @quietly(150)
    @given(sites())
    def test_of_a_flavor_they_are_never_below_the_true_number(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        podms = cut(podms)
        found = sums_of(view(*podms), node_type(*needs))
        most = [max(brute_nodes.possible_counts(podm, [needs]))[0] for podm in podms]
        for promised, possible in zip(found.by_podm, most, strict=True):
            self.assertGreaterEqual(promised, possible)
        self.assertTrue(sum(most) <= found.podms <= found.site)

    @quietly(150)
    @given(st.randoms(use_true_random=True), st.integers(1, 3), st.integers(1, 3))
    def test_of_a_mix_they_are_never_below_the_true_number(self, random, first, second):
        (podms, needs), (_, others) = near_site(random), near_site(random)
        assume(not brute.makes(needs, []) and not brute.makes(others, []))
        podms, shares = cut(podms), (first, second)
        found = sums_of_mix(view(*podms), [node_type(*needs), node_type(*others)], shares)
        possible = brute_nodes.possible_counts(podms[0], [needs, others])
        most = max(brute_nodes.largest_mix(counts, shares) for counts in possible)
        self.assertTrue(most <= found.podms <= found.site)
