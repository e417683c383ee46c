# SPDX-License-Identifier: Apache-2.0
"""Counting the nodes of all pod managers at once gives what counting each by itself gives."""

import unittest

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import built_in, cpu, cpus
from tests.unit.core.sites import quietly
from tests.unit.core.test_ledger import ASKED, POLICY
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core.evaluation import context_of
from valence_sched.core.fit.pool_covers import MIN_POOLS
from valence_sched.core.policy import bind
from valence_sched.model.policy import Budget, Pick
from valence_sched.planning import fit_counts
from valence_sched.testing import contract, request, view

DEFAULT = next(policy for policy in built_in() if policy.name == "default")
POLICIES = st.sampled_from([DEFAULT, POLICY]).flatmap(
    lambda policy: st.builds(
        lambda best_of: msgspec.structs.replace(policy, pick=Pick(best_of=best_of)),
        st.integers(1, 3),
    )
)


class TestFitCounts(unittest.TestCase):
    """Turns of one node on every pod manager."""

    @quietly(120)
    @given(FULL_SITES, ASKED, POLICIES, st.integers(1, 5))
    def test_pod_managers_count_the_same_together_and_alone(self, podms, asked, policy, most):
        site, bound = view(*podms), bind(policy)
        context = context_of(site, request(asked, policy=policy.name), bound)
        before = contract.fingerprint(site, context.request)
        alone = [fit_counts._count_alone(context, podm, most) for podm in range(len(podms))]
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
        """By their sums each has 16 cores; a node is made of one compute block."""
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
