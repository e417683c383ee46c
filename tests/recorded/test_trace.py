# SPDX-License-Identifier: Apache-2.0
"""The whole pipeline places a small part of a production trace at least as well as best fit.

The trace is not part of this project.
"""

import unittest

from tests.benchmarks import trace


@unittest.skipUnless(trace.THERE, trace.MISSING)
class TestTrace(unittest.TestCase):
    """One hundred nodes, one seed."""

    @classmethod
    def setUpClass(cls):
        cls.replay, nodes, cls.pods = trace.lists()
        cls.nodes = cls.replay.subset(nodes, 100, 42)

    def run_of(self, choose):
        return self.replay.replay(self.nodes, self.pods, choose, 42, 1.1, (100,), True)

    def test_no_answer_is_invalid_and_nothing_that_fits_is_declined(self):
        ours, best = self.run_of(trace.Trace()), self.run_of(self.replay.build("bestfit"))
        self.assertNotIn("invalid", ours["count"])
        self.assertEqual(0, ours["misses"])
        self.assertGreaterEqual(trace.allocated(ours), trace.allocated(best))

    def test_the_order_of_the_nodes_does_not_matter(self):
        runs = [
            self.replay.replay(nodes, self.pods, trace.Trace(), 42, 1.0, (100,), shuffle=False)
            for nodes in (self.nodes, self.nodes[::-1])
        ]
        self.assertEqual(*map(trace.allocated, runs))

    def test_what_departs_is_free_again(self):
        for seed in (42, 7):
            ours, best = (
                self.replay.churn(self.nodes, self.pods, choose, seed, 0.9, 0.5)["served_gpu"]
                for choose in (trace.Trace(), self.replay.build("bestfit"))
            )
            self.assertGreaterEqual(ours, best)
