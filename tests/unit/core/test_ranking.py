# SPDX-License-Identifier: Apache-2.0
"""The order of the pools, and the choice from them."""

import random
import unittest
from collections import Counter

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from tests.unit.chi_square import chi_square
from tests.unit.core.deciders import built_in, engine
from tests.unit.core.sites import quietly, sized
from tests.unit.core.test_evaluation import ASKED, site
from valence_sched.core.explain.report import decision_report
from valence_sched.core.fit.fit import Fit, Undecided
from valence_sched.core.policy import INFINITE_COST
from valence_sched.core.ranking import (
    alternate_fits,
    batch_lots,
    choose_fit,
    draw_lots,
    order_by_lot,
    pool_lot,
    random_order,
    rank_rows,
)
from valence_sched.model.inventory import to_json
from valence_sched.testing import request, view
from valence_sched.testing.generate import podms
from valence_sched.view.view import inventory_digest

BATCH = msgspec.structs.replace(ASKED, count=9)
#: The recorded lots of these rows on turns 0 and 3.
RECORDED_LOTS = [7364972092233856716, 16576498745873898467, 13188716101872798616,
                 8416397781187786964, 18337321993921327294, 2798256574727370876]  # fmt: skip
RECORDED_LATER = [11848408305013334593, 8250155175741546073, 15642875105771184799,
                  10050397935796105940, 5513082353300930717, 9177245865611915930]  # fmt: skip


def fit_of(row: int) -> Fit:
    return Fit(row=row, blocks=(row,), grants=(), waste=0)


class TestRows(unittest.TestCase):
    def test_the_cheapest_come_first_equals_by_their_lot_and_none_that_fail(self):
        cost = np.array([5, 2, INFINITE_COST, 2, 5, 0, 2, INFINITE_COST])
        seen = site(8)
        rows = list(rank_rows(seen, cost, ASKED, 0))
        self.assertEqual([5], rows[:1])
        self.assertEqual(order_by_lot(seen, np.array([1, 3, 6]), ASKED).tolist(), rows[1:4])
        self.assertEqual(order_by_lot(seen, np.array([0, 4]), ASKED).tolist(), rows[4:])
        self.assertEqual([5, 2, INFINITE_COST, 2, 5, 0, 2, INFINITE_COST], cost.tolist())
        self.assertEqual([], list(rank_rows(seen, np.full(8, INFINITE_COST), ASKED, 0)))
        self.assertEqual([], list(rank_rows(site(0), np.array([], dtype=np.int64), ASKED, 0)))

    def test_equals_are_in_the_same_order_on_every_turn(self):
        cost = np.zeros(30, dtype=np.int64)
        orders = {tuple(rank_rows(site(30), cost, BATCH, turn)) for turn in range(6)}
        self.assertEqual(1, len(orders))

    def test_a_lot_is_that_of_the_recorded_request(self):
        """A replay after years gives the same order."""
        seen = site(6)
        asked = msgspec.structs.replace(ASKED, id="recorded", seed=7)
        self.assertEqual(RECORDED_LOTS, [int(lot) for lot in draw_lots(seen.lot, asked)])
        self.assertEqual(RECORDED_LATER, [int(lot) for lot in draw_lots(seen.lot, asked, 3)])

    def test_the_first_nodes_of_a_batch_share_one_draw_and_later_turns_have_their_own(self):
        seen, rows = site(20), np.array([3, 9, 4, 17])
        self.assertIs(batch_lots(seen, BATCH), batch_lots(seen, BATCH))
        self.assertEqual(draw_lots(seen.lot, BATCH).tolist(), batch_lots(seen, BATCH).tolist())
        for asked in (ASKED, BATCH):
            for turn in (0, 1, 2):
                lots = draw_lots(seen.lot, asked, turn)[rows]
                expected = [
                    row for _, row in sorted(zip(lots.tolist(), rows.tolist(), strict=True))
                ]
                self.assertEqual(expected, order_by_lot(seen, rows, asked, turn).tolist())

    def test_the_draw_of_another_request_is_not_remembered_for_this_one(self):
        seen = site(9)
        for other in (
            msgspec.structs.replace(BATCH, id="x"),
            msgspec.structs.replace(BATCH, seed=4),
        ):
            batch_lots(seen, BATCH)
            self.assertEqual(draw_lots(seen.lot, other).tolist(), batch_lots(seen, other).tolist())

    def test_in_a_random_order_each_turn_draws_the_podms_anew_and_then_their_pools(self):
        pools = [{"id": name} for name in "pqrs"]
        seen, asked = view(*({"id": name, "pools": pools} for name in "abc")), BATCH
        cost = np.array([0, INFINITE_COST, *range(10)])
        for turn in (0, 1, 5):
            podm_lots = draw_lots(seen.podm_lots, asked, turn)[seen.podm_of].tolist()
            row_lots = draw_lots(seen.lot, asked, turn).tolist()
            lots = zip(podm_lots, row_lots, range(12), strict=True)
            drawn = [row for _, _, row in sorted(lots)]
            drawn.remove(1)
            self.assertEqual(drawn, list(random_order(seen, cost, asked, turn)))


class TestChoice(unittest.TestCase):
    """The fits of the first rows that have one."""

    def choose(self, finds, best_of=1, turn=0, without=(), seen=None):
        """Return the chosen row, the rows without a fit, the undecided rows, and the tried rows."""
        asked, rows_without, undecided = [], set(without), set()

        def find(row):
            asked.append(row)
            return finds.get(row)

        chosen = choose_fit(seen or site(9), iter(range(9)), find, ASKED, best_of, turn,
                            rows_without, undecided)  # fmt: skip
        return chosen and chosen.row, rows_without, undecided, asked

    def test_the_first_row_with_a_fit_is_chosen_and_no_further_row_is_asked(self):
        finds = {2: fit_of(2), 3: fit_of(3)}
        self.assertEqual((2, {0, 1}, set(), [0, 1, 2]), self.choose(finds))

    def test_without_any_fit_every_row_is_noted(self):
        self.assertEqual((None, set(range(9)), set(), [*range(9)]), self.choose({}))

    def test_rows_known_to_have_no_fit_are_not_asked_again(self):
        finds = {row: fit_of(row) for row in range(9)}
        self.assertEqual((3, {0, 1, 2}, set(), [3]), self.choose(finds, without=(0, 1, 2)))

    def test_an_undecided_row_is_noted_apart_and_is_no_choice(self):
        finds = {0: Undecided(9), 2: fit_of(2)}
        self.assertEqual((2, {1}, {0}, [0, 1, 2]), self.choose(finds))
        self.assertEqual((None, {*range(1, 9)}, {0}, [*range(9)]), self.choose({0: Undecided(9)}))

    def test_of_the_best_few_one_is_chosen_by_lot_of_the_turn(self):
        finds = {row: fit_of(row) for row in (1, 3, 4, 6, 8)}
        seen = site(9)
        for turn in range(6):
            row, without, _, asked = self.choose(finds, 3, turn, seen=seen)
            lot = order_by_lot(seen, np.array([1, 3, 4]), ASKED, 1 + turn)
            self.assertEqual((lot[0], {0, 2}, [0, 1, 2, 3, 4]), (row, without, asked))

    def test_fewer_fits_than_the_best_few_are_all_there_is_to_choose_from(self):
        self.assertEqual(1, self.choose({1: fit_of(1)}, 3)[0])
        self.assertIn(self.choose({1: fit_of(1), 5: fit_of(5)}, 3)[0], (1, 5))


class TestAlternates(unittest.TestCase):
    """The next best pools, each on a different podm."""

    def alternates(self, finds, most: int, chosen: int = 0):
        pools = [{"id": "p"}, {"id": "q"}]
        seen = view(*({"id": str(number), "pools": pools} for number in range(4)))
        asked: list[int] = []

        def find(row: int):
            asked.append(row)
            return finds.get(row)

        found = alternate_fits(seen, iter(range(8)), find, fit_of(chosen), most)
        return [one.row for one in found], asked

    def test_each_is_on_another_podm_and_none_on_the_chosen_one(self):
        finds = {row: fit_of(row) for row in range(8)}
        self.assertEqual(([2, 4, 6], [2, 4, 6]), self.alternates(finds, 9))
        self.assertEqual(([0, 4, 6], [0, 4, 6]), self.alternates(finds, 9, chosen=3))

    def test_no_more_are_looked_for_than_are_wanted(self):
        finds = {row: fit_of(row) for row in range(8)}
        self.assertEqual(([2, 4], [2, 4]), self.alternates(finds, 2))
        self.assertEqual(([], []), self.alternates(finds, 0))

    def test_a_pool_without_a_fit_or_undecided_leaves_its_podm_to_the_next_pool(self):
        finds = {3: fit_of(3), 4: Undecided(9), 5: fit_of(5)}
        self.assertEqual(([3, 5], [2, 3, 4, 5, 6, 7]), self.alternates(finds, 9))


class TestLots(unittest.TestCase):
    """Ties are broken by lot."""

    def test_ties_are_drawn_uniformly_over_3000_requests(self):
        seen, first, orders = site(3), Counter(), Counter()
        for number in range(3000):
            asked = msgspec.structs.replace(ASKED, id=f"request-{number}")
            order = tuple(order_by_lot(seen, np.arange(3), asked).tolist())
            first[order[0]] += 1
            orders[order] += 1
        self.assertLess(chi_square(first, 3), 9.21)  # 2 degrees of freedom, p = 0.01
        self.assertLess(chi_square(orders, 6), 15.09)  # 5 degrees of freedom, p = 0.01

    def test_seeds_draw_uniformly_too(self):
        seen, first = site(5), Counter()
        for seed in range(sized(3000)):
            asked = msgspec.structs.replace(ASKED, seed=seed)
            first[int(order_by_lot(seen, np.arange(5), asked)[0])] += 1
        self.assertLess(chi_square(first, 5), 13.28)  # 4 degrees of freedom, p = 0.01

    def test_each_turn_of_a_batch_is_a_draw_of_its_own(self):
        seen, rows = site(30), np.arange(30)
        for count in (1, 5):
            asked = msgspec.structs.replace(ASKED, count=count)
            orders = {tuple(order_by_lot(seen, rows, asked, turn).tolist()) for turn in range(9)}
            self.assertEqual(9, len(orders))
            lots = {tuple(draw_lots(seen.lot, asked, turn).tolist()) for turn in range(9)}
            self.assertEqual(9, len(lots))

    def test_the_lot_of_a_pool_is_the_same_wherever_it_is_drawn(self):
        seen = site(40)
        for turn in (0, 3):
            drawn = draw_lots(seen.lot, ASKED, turn).tolist()
            alone = [pool_lot(seen.podms[podm].id, pool.id, ASKED, turn)
                     for podm, pool in zip(seen.podm_of, seen.pools, strict=True)]  # fmt: skip
            self.assertEqual(drawn, alone)

    def test_who_goes_first_does_not_depend_on_who_else_is_there(self):
        seen = site(20)
        order = order_by_lot(seen, np.arange(20), ASKED).tolist()
        few = [3, 7, 11, 19]
        self.assertEqual([row for row in order if row in few],
                         order_by_lot(seen, np.array(few), ASKED).tolist())  # fmt: skip
        part = seen.take(few)
        again = [few[row] for row in order_by_lot(part, np.arange(4), ASKED)]
        self.assertEqual([row for row in order if row in few], again)


NODES = (
    {"processor": {"total_cores": 16}},
    {"processor": {"total_cores": 8}, "accelerators": [{}]},
    {"processor": {"total_cores": 8}, "drives": [{"count": 2}], "memory": {"capacity_mib": 4096}},
)
POLICIES = tuple(policy.name for policy in built_in())


def shuffled(podm: dict, draw: random.Random) -> dict:
    lists = {name: podm.get(name, []) for name in ("blocks", "stocks")}
    return podm | {name: draw.sample(found, len(found)) for name, found in lists.items()}


class TestListingOrder(unittest.TestCase):
    """The choice of blocks does not depend on their order in the inventory."""

    @quietly(sized(60))
    @given(st.integers(0, 999), st.integers(0, 999), st.sampled_from(NODES),
           st.sampled_from(POLICIES), st.integers(1, 4))  # fmt: skip
    def test_shuffled_lists_give_the_same_bytes(self, seed, order, node, policy, count):
        draw = random.Random(order)
        site = [msgspec.json.decode(text) for text in podms(3, 8, seed, pools=3, stocks=2)]
        stocks = [stock["resource"] for stock in site[0]["stocks"]][:1]
        node = node | {"stocks": [{"resource": name, "amount": 1} for name in stocks]}
        asked = request(node, policy=policy, count=count, min_count=0, alternates=1)
        listed, other = view(*site), view(*(shuffled(podm, draw) for podm in site))
        self.assertEqual(inventory_digest(listed), inventory_digest(other))
        reports = (
            decision_report(engine(one).select_destinations(asked)) for one in (listed, other)
        )
        first, second = map(to_json, reports)
        self.assertEqual(first, second)
