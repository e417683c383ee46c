# SPDX-License-Identifier: Apache-2.0
"""Look-ahead is faster and otherwise changes nothing."""

import unittest

from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.deciders import cpu, cpus
from tests.unit.core.sites import quietly, sized
from tests.unit.view.same import assert_same_view
from valence_sched.core.batch import Lookahead, place
from valence_sched.core.evaluation import EvaluationContext, context_of, evaluate
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.core.policy import BoundPolicy, bind
from valence_sched.core.ranking import RowOrder, choose_fit, random_order, rank_rows
from valence_sched.model.policy import FilterUse, Pick, Policy, WeigherUse, WeightOverrides
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
    """Return a policy of room, balance and weighers that read the group state."""
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

    @quietly(sized(180))
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
        node = {"processor": {"total_cores": 12}, "stocks": [{"resource": "gib", "amount": 2}]}
        asked = request(node, count=count, seed=seed)
        seen, bound = site(pods), policy(by, best_of)
        self.alike(seen, bound, asked, order)
        assert_same_view(self, seen, site(pods))

    @quietly(sized(180))
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

    def test_the_weights_of_a_zone_stay_in_the_costs_of_a_group(self):
        zones = WeightOverrides(zone={"z": 9.0})
        weighers = (WeigherUse("room"), WeigherUse("affinity", overrides=zones))
        bound = bind(Policy(name="mine", filters=(FilterUse("capacity"),), weighers=weighers))
        group = {"name": "g", "soft_anti_affinity": ["podm"]}
        asked = request({"processor": {"total_cores": 8}}, count=2, group=group)
        seen = view(*({"id": name, "zone": zone, "blocks": cpus(3)}
                      for name, zone in (("a", "y"), ("b", "z"), ("c", "z"))))  # fmt: skip
        ahead = Lookahead(context_of(seen, asked, bound))
        ahead.take(ahead.fit(1))
        ahead.close()
        fresh = evaluate(ahead.view.without_memo(), ahead.request, bound)
        self.assertEqual(fresh.cost.tolist(), ahead.evaluation.cost.tolist())

    def alike(self, seen: View, bound: BoundPolicy, asked: Request, order: RowOrder) -> None:
        """Check that long and short look-ahead leave the same nodes, view and evaluation."""
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
    """The look-ahead grows while podms take turns; it affects only the time."""

    def test_nodes_that_spread_over_pods_are_evaluated_many_at_a_time(self):
        bound, sizes = policy("pool", 1), list[int]()
        weigher = bound.weighers[0]

        def counting(seen: View, asked: Request):
            sizes.append(len(seen))
            return weigher.evaluate(seen, asked)

        counted = replace(weigher, evaluate=counting)
        bound = replace(bound, weighers=(counted, *bound.weighers[1:]))
        for pods, together in ((40, 2), (1, 1)):
            asked = request({"processor": {"total_cores": 8}}, count=30)
            seen = view(*({"id": f"p{n:02}", "blocks": cpus(40)} for n in range(pods)))
            sizes.clear()
            batch = place(context_of(seen, asked, bound), rank_rows)
            self.assertEqual(30, len(batch.nodes))
            self.assertGreaterEqual(max(sizes[1:]), together)
            self.assertLess(len(sizes), 31)

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
