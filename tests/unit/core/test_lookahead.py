# SPDX-License-Identifier: Apache-2.0
"""Looking ahead is faster and otherwise changes nothing."""

import unittest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpu, cpus
from tests.unit.core.sites import quietly
from tests.unit.view.same import assert_same_view
from valence_sched.core.batch import Lookahead
from valence_sched.core.evaluation import EvaluationContext, evaluate
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.policy import INFINITE_COST, BoundPolicy, bind
from valence_sched.core.ranking import (
    RowOrder,
    choose_fit,
    order_by_lot,
    random_order,
    rank_rows,
)
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.view import View

POOLS = (["p"], ["p", "q"], ["q"])
PODS = st.lists(st.lists(st.sampled_from([8, 9, 10, 4]), max_size=5), min_size=6, max_size=14)


def site(pods: list[list[int]]) -> View:
    return view(
        *(
            {
                "id": str(number),
                "pools": [{"id": "p"}, {"id": "q", "limits": {"Compute": {"max": 2}}}],
                "blocks": [
                    cpu(f"c{n}", cores, pools=POOLS[cores % 3]) for n, cores in enumerate(sizes)
                ],
                "stocks": [{"uri": "s", "resource": "gib", "total": 7, "pools": ["p", "q"]}],
            }
            for number, sizes in enumerate(pods)
        )
    )


def policy(by: str, best_of: int, *more: str) -> BoundPolicy:
    """Return a policy of room and balance, and of these weighers that read the group state."""
    return bind(
        Policy(
            name="mine",
            filters=(FilterUse("capacity"), FilterUse("spread")),
            weighers=(
                WeigherUse("room", 1.0, {"by": by}),
                WeigherUse("balance"),
                *map(WeigherUse, more),
            ),
            pick=Pick(best_of),
        )
    )


class TestLookahead(unittest.TestCase):
    """Far and near."""

    def run_batch(self, seen: View, bound: BoundPolicy, asked, order, farthest: int):
        plan = Fitter(asked.needs, seen.kinds)
        ahead = Lookahead(
            EvaluationContext(seen, asked, bound, evaluate(seen, asked, bound), plan), farthest
        )
        rows_without_fit: set[int] = set()
        fits: list[Fit] = []
        for turn in range(asked.count):
            rows = order(ahead.view, ahead.evaluation.cost, asked, turn)
            fit = choose_fit(
                ahead.view, rows, ahead.fit, asked, bound, turn, rows_without_fit, set()
            )
            if fit is None:
                break
            fits.append(fit)
            first, last = ahead.take(fit)
            rows_without_fit.difference_update(range(first, last))
        ahead.close()
        return fits, ahead

    @quietly(60)
    @given(
        PODS,
        st.sampled_from(["pool", "podm"]),
        st.integers(1, 4),
        st.sampled_from([rank_rows, random_order]),
        st.integers(1, 25),
        st.integers(0, 9),
    )
    def test_far_and_near_place_alike_and_leave_the_same_behind(
        self, pods, by, best_of, order, count, seed
    ):
        node = {
            "processor": {"total_cores": 12},
            "stocks": [{"resource": "gib", "amount": 2}],
        }
        asked = request(node, count=count, seed=seed)
        seen, bound = site(pods), policy(by, best_of)
        self.alike(seen, bound, asked, order)
        assert_same_view(self, seen, site(pods))

    @quietly(60)
    @given(
        PODS,
        st.sampled_from([{}, {"at_most": {"podm": 2}}, {"anti_affinity": ["podm"]},
                         {"soft_anti_affinity": ["podm"]}, {"at_most": {"zone": 20}}]),
        st.integers(1, 4),
        st.sampled_from([rank_rows, random_order]),
        st.integers(1, 25),
        st.integers(0, 9),
    )  # fmt: skip
    def test_so_do_nodes_that_look_at_each_other(self, pods, rules, best_of, order, count, seed):
        asked = request(
            {"processor": {"total_cores": 12}}, count=count, seed=seed,
            group={"name": "g", **rules} if rules else None, owner="me",
        )  # fmt: skip
        self.alike(site(pods), policy("pool", best_of, "affinity", "owner"), asked, order)

    def alike(self, seen: View, bound: BoundPolicy, asked: Request, order: RowOrder) -> None:
        """Check that looking far ahead and near leaves the same nodes, view and evaluation."""
        near, after_near = self.run_batch(seen, bound, asked, order, 1)
        far, after_far = self.run_batch(seen, bound, asked, order, 64)
        self.assertEqual(near, far)
        self.assertEqual(after_near.request, after_far.request)
        assert_same_view(self, after_near.view, after_far.view)
        for name in ("verdicts", "scores", "cost", "notes"):
            evaluations = (after_near.evaluation, after_far.evaluation)
            one, other = (getattr(evaluation, name) for evaluation in evaluations)
            self.assertEqual(list(map(str, one)), list(map(str, other)), name)


class TestHowFar(unittest.TestCase):
    """Twice as far when that paid, half as far when it did not; it changes the time only."""

    def ahead(self, pods: int = 40, most: int = 64, **words) -> Lookahead:
        asked = request({"processor": {"total_cores": 8}}, **{"count": 9, **words})
        seen = view(*({"id": f"p{n:02}", "blocks": cpus(3)} for n in range(pods)))
        bound = policy("pool", 1)
        found = evaluate(seen, asked, bound)
        context = EvaluationContext(seen, asked, bound, found, Fitter(asked.needs, seen.kinds))
        return Lookahead(context, most)

    def test_it_begins_with_none_and_doubles_while_pods_take_turns(self):
        ahead = self.ahead()
        self.assertEqual(1, ahead._count_ahead)
        for podm, hits, count in ((0, 0, 2), (1, 1, 4), (2, 2, 8), (3, 4, 16), (4, 8, 32),
                                  (5, 16, 64), (6, 32, 64)):  # fmt: skip
            ahead._hits = hits
            ahead._adapt(podm)
            self.assertEqual((count, 0), (ahead._count_ahead, ahead._hits))
            ahead._last = podm

    def test_it_halves_where_fewer_than_half_of_those_ahead_came(self):
        ahead = self.ahead()
        ahead._count_ahead = 16
        for hits, count in ((7, 8), (3, 4), (1, 2), (0, 1), (0, 1)):
            ahead._hits, ahead._last = hits, 5
            ahead._adapt(5)
            self.assertEqual(count, ahead._count_ahead)

    def test_it_is_never_farther_than_it_may(self):
        for words, most in (({}, 3), ({"alternates": 1}, 1)):
            ahead = self.ahead(most=3, **words)
            for podm in range(9):
                ahead._hits = 99
                ahead._adapt(podm)
            self.assertEqual(most, ahead._count_ahead)

    def test_the_pods_ahead_are_the_best_of_others_with_a_node_each(self):
        ahead = self.ahead(12)
        self.assertEqual([], ahead._likely_fits(0))
        ahead._count_ahead = 4
        fits = ahead._likely_fits(3)
        podms = [int(ahead.view.podm_of[fit.row]) for fit in fits]
        self.assertEqual((3, 3), (len(fits), len(set(podms))))
        self.assertNotIn(3, podms)
        ahead.evaluation.cost[:] = INFINITE_COST
        ahead.evaluation.cost[[2, 7, 9]] = 5, 3, 4
        self.assertEqual([7, 9, 2], [fit.row for fit in ahead._likely_fits(3)])
        self.assertEqual([7, 2], [fit.row for fit in ahead._likely_fits(9)])

    def test_no_more_pods_are_ahead_than_nodes_are_left(self):
        ahead = self.ahead(12, count=4)
        ahead._count_ahead = 64
        self.assertEqual(2, len(ahead._likely_fits(0)))  # the chosen pod's is the third to take
        for podm, more in ((0, 1), (11, 0), (5, 0)):
            ahead._ahead.clear()
            ahead.take(ahead.fit(podm))
            self.assertEqual(more, len(ahead._likely_fits(podm)))

    def test_of_equally_good_pods_the_first_by_lot_are_ahead(self):
        ahead = self.ahead(40, count=12)
        ahead._count_ahead = 11
        ahead.evaluation.cost[:] = 7
        lots = order_by_lot(ahead.view, np.arange(40), ahead.request).tolist()
        rows = [fit.row for fit in ahead._likely_fits(lots[1])]
        self.assertEqual([lots[0], *lots[2:11]], rows)

    def test_each_pod_that_is_ahead_has_the_evaluation_of_its_own_rows(self):
        asked = request({"processor": {"total_cores": 8}}, count=9)
        seen = view(*({"id": f"p{n}", "blocks": cpus(n + 2)} for n in range(6)))
        bound = policy("pool", 1)
        found = evaluate(seen, asked, bound)
        fitter = Fitter(asked.needs, seen.kinds)
        ahead = Lookahead(EvaluationContext(seen, asked, bound, found, fitter))
        ahead._evaluate_ahead([ahead.fit(row) for row in (4, 1, 3)])
        for row in (1, 3, 4):
            after = ahead._ahead[row]
            self.assertEqual(row, after.fit.row)
            again = evaluate(ahead.view, asked, bound)
            self.assertEqual([again.cost[row]], after.cost[after.rows].tolist())
            self.assertEqual(again.scores[:, [row]].tolist(), after.scores[:, after.rows].tolist())

    def test_what_is_taken_counts_as_a_hit_only_where_it_was_ahead(self):
        ahead = self.ahead(12)
        first = next(rank_rows(ahead.view, ahead.evaluation.cost, ahead.request, 0))
        ahead.take(ahead.fit(first))
        self.assertEqual((0, 1, first), (ahead._hits, len(ahead._ahead), ahead._last))
        (there,) = ahead._ahead
        ahead.take(ahead.fit(there))
        self.assertEqual((1, 0, there), (ahead._hits, len(ahead._ahead), ahead._last))

    def test_closing_puts_back_all_that_is_ahead(self):
        ahead = self.ahead(12)
        seen = ahead.view.block_counts.row(5)[1].copy()
        ahead._count_ahead = 8
        ahead._hits = 8
        fit = ahead.fit(5)
        ahead.take(fit)
        self.assertTrue(ahead._ahead)
        ahead.close()
        self.assertFalse(ahead._ahead)
        for row in range(12):
            free = ahead.view.block_counts.row(row)[1].sum()
            self.assertEqual(seen.sum() - (row == 5), free)

    def test_another_pool_of_a_pod_that_is_ahead_is_fitted_as_the_pod_is_now(self):
        asked = request({"processor": {"total_cores": 8}}, count=3)
        pods = [{"id": f"p{n}", "pools": [{"id": "p"}, {"id": "q"}],
                 "blocks": [{**block, "pools": ["p", "q"]} for block in cpus(1)]}
                for n in range(4)]  # fmt: skip
        seen, bound = view(*pods), policy("pool", 1)
        context = EvaluationContext(seen, asked, bound, evaluate(seen, asked, bound),
                                    Fitter(asked.needs, seen.kinds))  # fmt: skip
        ahead = Lookahead(context)
        ahead.take(ahead.fit(0))
        (podm,) = ahead._ahead
        row = ahead._ahead[podm].fit.row
        self.assertIs(ahead._ahead[podm].fit, ahead.fit(row))
        other = 4 * podm + 1 - row  # the other pool of the two
        self.assertEqual((0,), ahead.fit(other).blocks)
        self.assertEqual({}, ahead._ahead)
