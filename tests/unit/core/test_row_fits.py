# SPDX-License-Identifier: Apache-2.0
"""Rows are settled together as each is by itself."""

from random import Random

import msgspec

from tests.benchmarks.instances import FLAVORS, generated_view
from tests.unit.core.deciders import built_in, cpu, engine
from tests.unit.core.fit.covers import FAMILIES, podm, properties
from tests.unit.core.test_decision import WithoutOptimiser
from valence_sched.core.decision import MIN_ROWS, RowFits
from valence_sched.core.fit.fit import Fit
from valence_sched.core.policy import INFINITE_COST
from valence_sched.model.policy import Budget
from valence_sched.testing import request, view

DEFAULT = next(policy for policy in built_in() if policy.name == "default")


def decided(flavor: str, count: int = 1):
    asked = request(FLAVORS[flavor], count=count)
    return engine(generated_view(120, 20, 1), DEFAULT).select_destinations(asked)


class TestRowFits(WithoutOptimiser):
    """What a decision left."""

    def test_many_rows_are_settled_as_each_is_by_itself(self):
        for flavor, count in (("small", 1), ("gpu", 40), ("large", 3)):
            decision = decided(flavor, count)
            context, batch, fits = decision.context, decision.batch, decision.row_fits
            passing = (batch.evaluation.cost != INFINITE_COST).nonzero()[0].tolist()
            expected = [
                "fits" if isinstance(context.fit(batch.view, row), Fit) else "none"
                for row in passing
            ]
            with self.subTest(flavor):
                self.assertIn("fits", expected)
                self.assertEqual(set(passing), set(fits._known))
                self.assertEqual(expected, [fits.of(row) for row in passing])

    def test_a_row_that_the_batch_left_open_is_not_settled_with_the_others(self):
        decision = decided("small")
        passing = (decision.batch.evaluation.cost != INFINITE_COST).nonzero()[0].tolist()
        decision.batch.undecided_rows.add(passing[3])
        fits = RowFits(decision.context, decision.batch)
        self.assertEqual(set(passing) - {passing[3]}, set(fits._known))

    def test_a_few_rows_are_searched_one_by_one(self):
        asked = request(FLAVORS["small"])
        decision = engine(generated_view(5, 20, 1), DEFAULT).select_destinations(asked)
        self.assertEqual({}, decision.row_fits._known)
        fits = [row for row in range(len(decision.view))
                if isinstance(decision.context.fit(decision.view, row), Fit)]  # fmt: skip
        self.assertEqual(fits, [row for row in range(len(decision.view))
                                if decision.row_fits.of(row) == "fits"])  # fmt: skip

    def test_a_row_that_is_not_settled_within_the_budget_is_undecided(self):
        cover = FAMILIES["split"](44, Random(4))
        budget = Budget(pool_states=500, decision_states=10_000_000)
        policy = msgspec.structs.replace(DEFAULT, name="tight", budget=budget)
        site = view(*(podm(f"hard-{number:02}", cover) for number in range(MIN_ROWS)))
        decision = engine(site, policy).select_destinations(
            request(properties(cover), policy="tight")
        )
        self.assertTrue(decision.batch.undecided_rows)
        decision.batch.undecided_rows.clear()  # as if another request had been decided
        fits = RowFits(decision.context, decision.batch)
        self.assertEqual({"undecided"}, {fits.of(row) for row in range(len(site))})

    def test_rows_without_a_fit_are_told_from_those_that_have_one(self):
        pools = [{"id": "p", "limits": {"Compute": {"max": 1}}}]

        def podm(number, *cores):
            blocks = [{**cpu(f"c{n}", each), "pools": ["p"]} for n, each in enumerate(cores)]
            return {"id": f"{number:02}", "pools": pools, "blocks": blocks}

        site = view(*(podm(n, 8, 8) for n in range(MIN_ROWS)), podm(MIN_ROWS, 8, 16))
        asked = request({"processor": {"total_cores": 16}})
        decision = engine(site, DEFAULT).select_destinations(asked)
        found = [decision.row_fits.of(row) for row in range(len(site))]
        self.assertEqual([*["none"] * MIN_ROWS, "fits"], found)

    def test_amounts_of_stocks_are_settled_one_by_one(self):
        asked = request({"stocks": [{"resource": "gib", "amount": 5}]})
        stocks = [{"uri": "s", "resource": "gib", "total": 9}]
        site = view(*({"id": str(number), "stocks": stocks} for number in range(MIN_ROWS)))
        decision = engine(site, DEFAULT).select_destinations(asked)
        self.assertEqual({}, decision.row_fits._known)
        self.assertEqual("fits", decision.row_fits.of(0))
