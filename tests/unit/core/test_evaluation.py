# SPDX-License-Identifier: Apache-2.0
"""The context of a decision: as a part of another, and of some of the rows."""

import unittest

from tests.unit.core.deciders import cpus, engine
from valence_sched.core.fit.spending import Spending
from valence_sched.model.policy import Budget, Policy, WeigherUse
from valence_sched.testing import request, view

POLICY = Policy(name="mine", weighers=(WeigherUse("room"),), budget=Budget(decision_states=70))


class TestContext(unittest.TestCase):
    def setUp(self) -> None:
        seen = view(*({"id": name, "blocks": cpus(size)} for size, name in enumerate("abcd")))
        asked = request({"processor": {"total_cores": 8}}, policy="mine", count=5, alternates=2)
        self.context = engine(seen, POLICY).context(asked)

    def test_a_part_of_a_decision_knows_of_the_nodes_elsewhere_and_shares_what_is_left(self):
        shared = Spending(Budget(decision_states=3))
        part = self.context.with_others(4, shared)
        self.assertEqual(4, part.other_nodes)
        self.assertIs(shared, part.spending)
        alone = self.context.with_others(1, None)
        self.assertIs(self.context.spending, alone.spending)
        self.assertEqual((0, 70), (self.context.other_nodes, self.context.spending.left))

    def test_a_window_has_some_rows_a_count_of_its_own_no_alternates_and_all_to_spend(self):
        self.context.spending.left = 1
        window = self.context.window(1, 3, 9)
        self.assertEqual(["b", "c"], [podm.id for podm in window.view.podms])
        self.assertEqual((9, 0), (window.request.count, window.request.alternates))
        self.assertEqual(70, window.spending.left)
        for whole, part in (
            (self.context.evaluation.cost[1:3], window.evaluation.cost),
            (self.context.evaluation.scores[:, 1:3], window.evaluation.scores),
            (self.context.evaluation.verdicts[:, 1:3], window.evaluation.verdicts),
        ):
            self.assertEqual(whole.tolist(), part.tolist())
        self.assertEqual((5, 2), (self.context.request.count, self.context.request.alternates))
