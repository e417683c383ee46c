# SPDX-License-Identifier: Apache-2.0
"""Counting the nodes of all pod managers at once gives what counting each by itself gives."""

import unittest

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import built_in
from tests.unit.core.sites import quietly
from tests.unit.core.test_ledger import ASKED, POLICY
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core import fit_counts
from valence_sched.core.evaluate import context_of
from valence_sched.core.policy import bind
from valence_sched.model.policy import Pick
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
        self.assertEqual(alone, fit_counts._Rounds(context, most).run())
        self.assertEqual(alone, list(fit_counts.count_fits(context, most)))
        self.assertEqual(before, contract.fingerprint(site, context.request))
