# SPDX-License-Identifier: Apache-2.0
"""One by one, proven and by sums: the numbers stand in order, and what ends the count is named."""

import unittest

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpu, cpus, engine, engine_of, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import near_site, quietly, sites
from tests.unit.planning.optimise import brute_nodes
from tests.unit.planning.optimise.test_bound import SolverCase, cut, is_shared
from valence_sched.model.request import Request
from valence_sched.planning.capacity import SiteCapacity
from valence_sched.testing import request, view

WEB = request({"processor": {"total_cores": 8}}, id="web", flavor="web")
CARD = request({"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]},
               id="card", flavor="card")  # fmt: skip


def capacity(decider, asked=CARD, most=1000, *, proven=False):
    return SiteCapacity(decider).capacity(asked, most, explain=True, proven=proven)


class TestOrder(SolverCase):
    """One by one ≤ true number ≤ proven ≤ sums, on small random sites."""

    @quietly(100)
    @given(sites())
    def test_of_a_flavor(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        podms = cut(podms)
        decider, asked = engine(view(*podms)), Request(id="x", needs=needs)
        needs = decider.context(asked).request.needs  # the policy says what the unknown is worth
        found = capacity(decider, asked, proven=True)
        true = sum(max(brute_nodes.possible_counts(podm, [needs]))[0] for podm in podms)
        self.assertEqual(found.nodes, sum(podm.nodes for podm in found.podms))
        self.assertLessEqual(max(found.nodes, found.proven.found), true)
        self.assertTrue(true <= found.proven.bound <= found.podm_sums <= found.site_sums)
        self.assertTrue(all(one.nodes <= one.bound for one in found.podms))
        if not is_shared(podms):
            self.assertEqual((true, True), (found.proven.bound, found.is_optimal))

    @quietly(100)
    @given(st.randoms(use_true_random=True), st.integers(1, 3), st.integers(1, 3))
    def test_of_a_mix(self, random, first, second):
        (podms, needs), (_, others) = near_site(random), near_site(random)
        assume(not brute.makes(needs, []) and not brute.makes(others, []))
        podms, shares = cut(podms), (first, second)
        asked = [Request(id=name, needs=one) for name, one in (("x", needs), ("y", others))]
        decider = engine(view(*podms))
        found = SiteCapacity(decider).mix_capacity(asked, shares, 1000, explain=True, proven=True)
        needs, others = (decider.context(one).request.needs for one in asked)
        possible = brute_nodes.possible_counts(podms[0], [needs, others])
        true = max(brute_nodes.largest_mix(counts, shares) for counts in possible)
        self.assertLessEqual(max(found.nodes, found.proven.found), true)
        self.assertTrue(true <= found.proven.bound <= found.podm_sums <= found.site_sums)
        self.assertEqual(found.nodes, sum(found.by_flavor.values()))
        if not is_shared(podms):
            self.assertEqual((true, True), (found.proven.bound, found.is_optimal))

    def test_an_order_that_wastes_is_told_from_the_best_one(self):
        # the first node takes the cores beside the only card: there least is left
        blocks = [cpu("c1", 8, pools=["p"]), cpu("c2", 64, pools=["q"]), gpu("g", pools=["p"])]
        podm = {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}
        found = SiteCapacity(engine_of(podm)).mix_capacity(
            [WEB, CARD], [1, 1], 99, explain=True, proven=True
        )
        self.assertEqual((1, 2, 2), (found.nodes, found.proven.bound, found.proven.found))
        self.assertTrue(found.is_optimal)


class TestExhaustion(unittest.TestCase):
    def test_the_resource_that_the_next_node_lacks_runs_out_first(self):
        found = capacity(engine_of({"id": "a", "blocks": [*cpus(3), gpu("g1"), gpu("g2")]},
                                   {"id": "b", "blocks": [*cpus(1), gpu("g1"), gpu("g2")]},
                                   {"id": "c", "blocks": [gpu("g1")]}))  # fmt: skip
        self.assertEqual([2, 1, 0], [podm.nodes for podm in found.podms])
        self.assertEqual(["GPU", "cores", "cores"], [one.runs_out for one in found.podms])
        self.assertEqual([("GPU", ("a",)), ("cores", ("b",))],
                         [(one.resource, one.podms) for one in found.exhausted])  # fmt: skip

    def test_where_nothing_fits_it_is_what_is_lacking_from_the_start(self):
        found = capacity(engine_of({"id": "c", "blocks": [gpu("g1")]}))
        self.assertEqual([("cores", ("c",))],
                         [(one.resource, one.podms) for one in found.exhausted])  # fmt: skip

    def test_a_pod_manager_that_is_offline_runs_out_of_nothing(self):
        found = capacity(engine_of({"id": "a", "status": "Offline", "blocks": cpus(3)}), WEB)
        self.assertEqual((0, None), (found.nodes, found.podms[0].runs_out))
        self.assertEqual(["status"], [reason.label for reason in found.podms[0].reasons])
        self.assertEqual((), found.exhausted)

    def test_at_the_limit_nothing_has_run_out(self):
        found = capacity(engine_of({"id": "a", "blocks": cpus(3)}), WEB, 2)
        self.assertEqual((2, None, ()), (found.nodes, found.podms[0].runs_out, found.exhausted))

    def test_of_a_mix_it_is_what_the_refused_flavor_lacks(self):
        decider = engine_of({"id": "a", "blocks": [*cpus(9), gpu("g1")]})
        found = SiteCapacity(decider).mix_capacity(
            [CARD, WEB], [1, 1], 99, explain=True, proven=False
        )
        self.assertEqual(({"card": 1, "web": 1}, "card"), (found.by_flavor, found.refused))
        self.assertEqual("GPU", found.podms[0].runs_out)
        self.assertEqual((1, 2, None), (found.podms[0].nodes - 1, found.nodes, found.proven))
