# SPDX-License-Identifier: Apache-2.0
"""Capacity: counts agree with each other, with brute force and with the sums."""

import itertools
import unittest

import msgspec
import numpy as np
from hypothesis import assume, given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, cpus, engine, engine_of, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import near_site, quietly, sites, sized
from tests.unit.core.test_evaluation_cache import ASKED, POLICY
from tests.unit.planning.optimise import brute_nodes
from tests.unit.planning.optimise.test_bound import SolverCase, cut, is_shared
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core.evaluation import context_of
from valence_sched.core.fit.pool_covers import MIN_POOLS
from valence_sched.core.policy import bind
from valence_sched.errors import UsageError
from valence_sched.model.capacity import MOST_PARTS, whole_shares
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.need import Toleration
from valence_sched.model.policy import Budget, Pick
from valence_sched.model.request import Request
from valence_sched.planning import fit_counts
from valence_sched.planning.capacity import Filling, SiteCapacity, mix_order, place_mix, sums_of
from valence_sched.planning.fit_counts import count_fits
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.testing import contract, request, view
from valence_sched.view.hardware import device_counts

WEB = request({"processor": {"total_cores": 8}}, id="web", flavor="web")
CARD = request({"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]},
               id="card", flavor="card")  # fmt: skip


def capacity(decider, asked=CARD, most=1000, *, proven=False):
    return SiteCapacity(decider).capacity(asked, most, explain=True, proven=proven)


class TestOrder(SolverCase):
    """One by one ≤ true number ≤ proven ≤ sums, on small random sites."""

    @quietly(sized(100))
    @given(sites())
    def test_of_a_flavor(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        podms = cut(podms)
        decider, asked = engine(view(*podms)), Request(id="x", needs=needs)
        needs = decider.context(asked).request.needs  # the policy sets the value of unknown facts
        found = capacity(decider, asked, proven=True)
        true = sum(max(brute_nodes.possible_counts(podm, [needs]))[0] for podm in podms)
        self.assertEqual(found.nodes, sum(podm.nodes for podm in found.podms))
        self.assertLessEqual(max(found.nodes, found.proven.found), true)
        self.assertTrue(true <= found.proven.bound <= found.podm_sums <= found.site_sums)
        self.assertTrue(all(one.nodes <= one.bound for one in found.podms))
        if not is_shared(podms):
            self.assertEqual((true, True), (found.proven.bound, found.is_optimal))

    @quietly(sized(100))
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

    def test_the_cores_beside_a_card_are_kept_for_the_mix_that_is_asked_for(self):
        # the best fit of the first node would use the cores beside the only card
        card = replace(CARD, tolerations=(Toleration("team", value="x"),))
        for taints in ([], ["team=x:NoPlace"]):
            blocks = [cpu("c1", 8, pools=["p"]), cpu("c2", 64, pools=["q"]),
                      gpu("g", pools=["p"], status={"taints": taints})]  # fmt: skip
            podm = {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}
            found = SiteCapacity(engine_of(podm)).mix_capacity(
                [WEB, card], [1, 1], 99, explain=True, proven=True
            )
            self.assertEqual((2, 2, 2), (found.nodes, found.proven.bound, found.proven.found))
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


class TestMixOrder(unittest.TestCase):
    @quietly(sized(300))
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
        with self.assertRaisesRegex(UsageError, "add up to more than 10,000 parts"):
            whole_shares({"a": 0.333333, "b": 0.666667})
        with self.assertRaisesRegex(UsageError, "more than 10,000 parts"):
            whole_shares({"a": 1e300, "b": 1e-300})


CARD_NODE = {"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]}


def sums(podms, *flavors, rows=None):
    seen = view(*podms)
    mask = None if rows is None else np.array(rows)
    return sums_of(seen, NodeType.of(request(*flavors), mask))


class TestSums(unittest.TestCase):
    def test_free_amounts_are_added_up_over_a_pod_manager_and_over_the_site(self):
        podms = [{"id": "a", "blocks": cpus(3)}, {"id": "b", "blocks": [gpu("g1", 2), *cpus(1)]}]
        found = sums(podms, CARD_NODE)
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


DEFAULT = next(policy for policy in built_in() if policy.name == "default")
POLICIES = st.sampled_from([DEFAULT, POLICY]).flatmap(
    lambda policy: st.builds(
        lambda best_of: msgspec.structs.replace(policy, pick=Pick(best_of=best_of)),
        st.integers(1, 3),
    )
)


class TestFitCounts(unittest.TestCase):
    """Turns of one node on every pod manager."""

    @quietly(sized(120))
    @given(FULL_SITES, ASKED, POLICIES, st.integers(1, 5))
    def test_pod_managers_count_the_same_together_and_alone(self, podms, asked, policy, most):
        site, bound = view(*podms), bind(policy)
        context = context_of(site, request(asked, policy=policy.name), bound)
        before = contract.fingerprint(site, context.request)
        # a listener has every pod manager counted alone
        alone = list(fit_counts.counts_by_podm(context, most, lambda podm, attempts: None))
        if context.fitter.covers_blocks_alone and policy.pick.best_of == 1:
            for min_pools in (1, len(site) + 1):
                rounds = fit_counts._CoverRounds(context, most, min_pools)
                self.assertEqual(alone, rounds.run())
        self.assertEqual(alone, list(fit_counts.counts_by_podm(context, most)))
        self.assertEqual(before, contract.fingerprint(site, context.request))

    def test_a_plug_in_that_reads_blocks_one_by_one_is_counted_with_block_tables(self):
        site = view({"id": "a", "blocks": [cpu("c1", 8), cpu("c2", 8), cpu("c3", 8)]})
        bound = bind(DEFAULT)

        def two_left(seen, _):
            return np.array([sum(table.slots) > 1 for table in seen.block_tables])

        use = replace(bound.filters[0], evaluate=two_left)
        bound = replace(bound, filters=(*bound.filters[1:], use))
        context = context_of(site, request({"processor": {"sockets": 1}}), bound)
        self.assertIsNone(fit_counts._CoverRounds(context, 5).run())
        self.assertEqual([(0, 2, None)], list(fit_counts.counts_by_podm(context, 5)))

    def test_pools_that_share_their_covers_make_none_where_no_blocks_cover_the_node(self):
        """By their sums each has 16 cores; a node has one compute block."""
        pools = [{"id": "p", "limits": {"Compute": {"max": 1}}}]
        sites = [cpus(2)] * 3 + [[*cpus(2), cpu("large", 16)]] + [cpus(2)] * 2 * MIN_POOLS
        podms = [{"id": f"p{number}", "pools": pools,
                  "blocks": [{**block, "pools": ["p"]} for block in blocks]}
                 for number, blocks in enumerate(sites)]  # fmt: skip
        wanted = request({"processor": {"total_cores": 16}})
        context = context_of(view(*podms), wanted, bind(DEFAULT))
        counts = {podm: count for podm, count, _ in fit_counts._CoverRounds(context, 5).run()}
        self.assertEqual({**dict.fromkeys(range(len(podms)), 0), 3: 1}, counts)

    def test_what_the_budget_leaves_open_is_undecided(self):
        blocks = [cpu(f"c{n}", n) for n in (3, 5, 7, 9, 11, 13)]
        policy = msgspec.structs.replace(DEFAULT, budget=Budget(pool_states=1, decision_states=1))
        asked = request({"processor": {"total_cores": 47}})
        context = context_of(view({"id": "a", "blocks": blocks}), asked, bind(policy))
        self.assertEqual([(0, 0, 0)], list(fit_counts.counts_by_podm(context, 5)))
        self.assertEqual([(0, 0, 0)], fit_counts._CoverRounds(context, 5, 1).run())


def stranded(decider, *requests):
    return SiteCapacity(decider).stranded(requests)


def by_kind(found):
    return {(one.podm, one.kind): (one.usable, one.stranded, dict(one.why)) for one in found}


class TestStranded(unittest.TestCase):
    def test_cards_without_a_processor_in_their_pool_are_stranded(self):
        blocks = [cpu("c1", 8, pools=["p"]), *(gpu(f"p{n}", pools=["p"]) for n in range(3)),
                  *(gpu(f"q{n}", pools=["q"]) for n in range(2))]  # fmt: skip
        podm = {"id": "rack", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}
        self.assertEqual(
            {("rack", "GPU"): (1, 4, {"no free cores (card)": 4}),
             ("rack", "cores"): (8, 0, {})},
            by_kind(stranded(engine_of(podm), CARD)),
        )  # fmt: skip

    def test_what_a_light_flavor_would_take_first_is_not_stranded_by_it(self):
        decider = engine_of({"id": "rack", "blocks": [*cpus(2), gpu("g1"), gpu("g2")]})
        for order in ((WEB, CARD), (CARD, WEB)):
            self.assertEqual((2, 0, {}), by_kind(stranded(decider, *order))["rack", "GPU"])

    def test_what_no_flavor_asks_for_is_told_as_such(self):
        decider = engine_of({"id": "rack", "blocks": [*cpus(2), gpu("g1")]})
        self.assertEqual((0, 1, {"no flavor requests it": 1}),
                         by_kind(stranded(decider, WEB))["rack", "GPU"])  # fmt: skip

    def test_all_that_an_offline_pod_manager_has_is_stranded(self):
        decider = engine_of({"id": "rack", "status": "Offline", "blocks": cpus(2)})
        ((usable, left, why),) = by_kind(stranded(decider, WEB)).values()
        self.assertEqual((0, 16), (usable, left))
        self.assertRegex(next(iter(why)), "status Offline")

    def test_too_few_of_a_device_strand_themselves(self):
        pair = request({"accelerators": [{"count": 2}]}, id="pair", flavor="pair")
        decider = engine_of({"id": "rack", "blocks": [gpu(f"g{n}") for n in range(5)]})
        self.assertEqual((4, 1, {"too few GPU (pair)": 1}),
                         by_kind(stranded(decider, pair))["rack", "GPU"])  # fmt: skip

    def test_amounts_of_stocks_are_stranded_as_well(self):
        node = request({"processor": {"total_cores": 8}, "resources": {"gib": 4}}, flavor="node")
        stock = {"uri": "/s", "resource": "gib", "unit": "GiB", "total": 10.0}
        decider = engine_of({"id": "rack", "blocks": cpus(1), "stocks": [stock]})
        self.assertEqual((4, 6, {"no free cores (node)": 6}),
                         by_kind(stranded(decider, node))["rack", "stock"])  # fmt: skip

    def test_a_pod_manager_that_is_left_out_by_name_is_not_listed(self):
        decider = engine_of({"id": "a", "blocks": cpus(1)}, {"id": "b", "blocks": cpus(1)})
        only = request({"processor": {"total_cores": 8}}, podms=("b",))
        self.assertEqual(["b"], [one.podm for one in stranded(decider, only)])

    @quietly(sized(150))
    @given(sites())
    def test_stranded_and_usable_are_what_is_free_and_no_node_fits_any_more(self, drawn):
        podms, needs = drawn
        assume(not brute.makes(needs, []))
        seen = view(*cut(podms))
        decider, asked = engine(seen), Request(id="x", needs=needs)
        found = stranded(decider, asked)
        left = count_fits(engine(Filling([decider.context(asked)]).after), asked, 9).podms
        self.assertEqual({0}, {number for _, number in left})
        free = {"GPU": 0, "NIC": 0, "FPGA": 0}
        for one in device_counts(seen, BlockFilter()):
            if one.kind in free and one.free is not None:
                free[one.kind] += one.free
        for one in found:
            self.assertGreaterEqual(one.usable, 0)
            self.assertEqual(one.free, one.usable + one.stranded)
            self.assertAlmostEqual(one.stranded, sum(amount for _, amount in one.why))
        for kind, number in free.items():
            self.assertEqual(number, sum(one.free for one in found if one.kind == kind))
