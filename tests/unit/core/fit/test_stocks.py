# SPDX-License-Identifier: Apache-2.0
"""Amounts are granted from stocks: each from one stock, with the smallest surplus."""

import unittest

from hypothesis import given, strategies as st

from tests.unit.core.fit import brute
from tests.unit.core.sites import quietly, sized
from valence_sched.core.fit import stocks as stock_allocation
from valence_sched.core.fit.stocks import SearchOutcome, StockAmount
from valence_sched.model.inventory import Stock
from valence_sched.model.need import Need
from valence_sched.testing import view


def stock(total: float | None = 10.0, **words: float | None) -> Stock:
    return Stock(uri="s", resource="gib", total=total, **words)


def allocate(stocks: list[Stock], amounts: list[float]) -> list[StockAmount] | None:
    return stock_allocation.allocate(stocks, amounts, 10_000_000).found


STOCKS = st.lists(
    st.builds(
        lambda total, step, least, most: stock(total, step=step, min=least, max=most),
        st.integers(3, 12).map(float),
        st.sampled_from([0.0, 2.0, 3.0, 5.0]),
        st.sampled_from([0.0, 0.0, 2.0, 4.0]),
        st.sampled_from([None, None, 0.0, 5.0]),
    ),
    min_size=2,
    max_size=3,
)


class TestPour(unittest.TestCase):
    """By brute force, and small cases by hand."""

    @quietly(sized(1200))
    @given(STOCKS, st.lists(st.integers(1, 6), min_size=2, max_size=4))
    def test_the_total_granted_is_the_least_of_all_assignments(self, stocks, amounts):
        found = allocate(stocks, [float(amount) for amount in amounts])
        least = brute.least_granted(stocks, amounts)
        self.assertEqual(least, None if found is None else sum(amount for _, amount in found))

    def test_by_hand(self):
        for stocks, amounts, granted in (
            ([], [], []),
            ([stock(3.0), stock(8.0)], [2.0, 7.0], [(0, 2.0), (1, 7.0)]),  # in the requested order
            ([stock(3.0), stock(6.0, step=3.0)], [3.0, 1.0], [(1, 3.0), (0, 1.0)]),
            ([stock(9.0), stock(5.0), stock(6.0)], [4.0], [(1, 4.0)]),  # the smallest remainder
            ([stock(640.0, step=64.0)], [10.0], [(0, 64.0)]),
            ([stock(640.0, step=64.0), stock(999.0)], [10.0], [(1, 10.0)]),
            ([stock(8.0, step=4.0), stock(9.0), stock(8.0)], [5.0], [(2, 5.0)]),
            ([stock(min=5.0)], [2.0], [(0, 5.0)]),
            ([stock(max=0.0), stock()], [3.0], [(1, 3.0)]),
            ([stock(10.0), stock(10.0, max=5.0)], [6.0, 5.0], [(0, 6.0), (1, 5.0)]),
            ([stock(10.0, max=5.0), stock(10.0)], [6.0, 5.0], [(1, 6.0), (0, 5.0)]),
            ([stock(None)], [1.0], None),  # the total is not reported
            # the tightest stock for 5 leaves no room for 4, 4 and 4: it is tried again
            (
                [stock(9.0), stock(8.0)],
                [5.0, 4.0, 4.0, 4.0],
                [(0, 5.0), (0, 4.0), (1, 4.0), (1, 4.0)],
            ),
        ):
            with self.subTest(stocks=stocks, amounts=amounts):
                self.assertEqual(granted, allocate(stocks, amounts))

    def test_thousands_of_amounts_are_no_deeper_than_one(self):
        self.assertEqual([(0, 3.0)] * 3000, allocate([stock(9000.0)], [3.0] * 3000))
        self.assertIsNone(allocate([stock(8999.0)], [3.0] * 3000))


#: Totals in GiB, some with steps, and amounts that require a search.
POSSIBLE = (47, 51, 52), (14, 16, 10, 12, 14, 16, 26, 16, 22)
IMPOSSIBLE = (54, 58, 56), (10, 16, 18, 30, 30, 30, 16, 14)
IMPROVABLE = ((35, 3), (43, 5), 60), (5, 12, 9, 13, 8, 8, 12, 13)
ENDLESS = ((59, 4), 42, (49, 3)), (5, 7, 6, 10, 12, 8, 11, 13, 6)


def searched(case, states: int = 10_000_000) -> SearchOutcome:
    totals, amounts = case
    pairs = [total if isinstance(total, tuple) else (total, 0) for total in totals]
    stocks = [stock(float(total), step=float(step)) for total, step in pairs]
    return stock_allocation.allocate(stocks, [float(one) for one in amounts], states)


class TestStates(unittest.TestCase):
    """The count of states of a search, and its answer if it ends early."""

    def test_a_level_counts_as_twenty_states_and_eight_for_each_stock(self):
        for case, states, total in (
            (((10, 10), (3, 4)), 0, 7),  # the first try of all amounts is free
            (((8, 5), (5, 4, 4)), 0, 13),
            (((9, 8), (5, 4, 4, 4)), 3 * (20 + 2 * 8), 17),
            (POSSIBLE, 90 * (20 + 3 * 8), 146),
            (IMPROVABLE, 41 * (20 + 3 * 8), 80),
        ):
            with self.subTest(case):
                found = searched(case)
                self.assertEqual((states, True), (found.states, found.complete))
                self.assertEqual(total, sum(amount for _, amount in found.found))

    def test_a_search_in_vain_visits_no_equal_state_twice(self):
        self.assertEqual(SearchOutcome(None, True, 20 * 44), searched(IMPOSSIBLE))

    def test_what_cannot_be_is_seen_without_a_search(self):
        for case in (((10, 10), (7, 7, 7)), ((10,) * 4, (6,) * 5), ((11, 5), (6, 6)), ((5,), (6,)),
                     (((20, 4),), (5, 5, 5)), ((9, 9), (5, 5, 5, 1))):  # fmt: skip
            with self.subTest(case):
                self.assertEqual(SearchOutcome(None, True, 1), searched(case))

    def test_one_amount_or_none_is_one_state(self):
        self.assertEqual(SearchOutcome([], True, 1), searched(((5,), ())))
        self.assertEqual(SearchOutcome([(1, 4.0)], True, 1), searched(((9, 5, 6), (4,))))

    def test_without_enough_states_it_is_open(self):
        for states, spent in ((1, 44), (43, 44), (44, 88), (400, 440)):
            self.assertEqual(SearchOutcome(None, False, spent), searched(IMPOSSIBLE, states))
        self.assertTrue(searched(IMPOSSIBLE, 880).complete)

    def test_what_was_found_by_then_is_granted_and_may_not_be_the_least(self):
        early = searched(IMPROVABLE, 400)
        self.assertFalse(early.complete)
        self.assertEqual(81, sum(amount for _, amount in early.found))

    def test_less_surplus_is_looked_for_no_longer_than_so_many_states(self):
        found = searched(ENDLESS)
        self.assertEqual((False, 455 * 44), (found.complete, found.states))
        self.assertEqual(80, sum(amount for _, amount in found.found))

    def test_sums_that_are_off_by_rounding_only_are_granted(self):
        found = stock_allocation.allocate([stock(0.3)], [0.1, 0.2], 1000)
        self.assertEqual([(0, 0.1), (0, 0.2)], found.found)
        thirds = stock_allocation.allocate([stock(0.3), stock(0.3)], [0.1] * 6, 1000)
        self.assertEqual(6, len(thirds.found))
        self.assertIsNone(stock_allocation.allocate([stock(0.3)], [0.1, 0.21], 1000).found)


def needs(*amounts: tuple[str, float, int]) -> tuple[Need, ...]:
    return tuple(Need(kind="stock", measure="amount", resource=name, amount=amount, count=count)
                 for name, amount, count in amounts)  # fmt: skip


def site(*stocks, count: int = 1):
    """Return a View of podms with stocks of (resource, total), or with further fields."""
    offer = [
        {"uri": f"{number}", "resource": one[0], "total": one[1], **(one[2] if one[2:] else {})}
        for number, one in enumerate(stocks)
    ]
    return view(*({"id": f"s{number}", "stocks": offer} for number in range(count)))


class TestPool(unittest.TestCase):
    """The stocks of one pool by resource."""

    def test_amounts_are_those_of_stocks_each_as_often_as_it_is_asked_for(self):
        cores = Need(kind="processor", measure="cores", amount=9)
        asked = (cores, *needs(("gib", 3.0, 2), ("mib", 5.0, 1), ("gib", 4.0, 1)))
        self.assertEqual({"gib": [3.0, 3.0, 4.0], "mib": [5.0]},
                         stock_allocation.stock_amounts(asked))  # fmt: skip
        self.assertEqual({}, stock_allocation.stock_amounts((cores,)))

    def granted(self, seen, *amounts, states: int = 10_000_000) -> SearchOutcome:
        asked = stock_allocation.stock_amounts(needs(*amounts))
        return stock_allocation.allocate_in_pool(seen, 0, asked, states)

    def test_each_resource_is_granted_by_its_own_stocks(self):
        seen = site(("mib", 9), ("gib", 8), ("gib", 7))
        found = self.granted(seen, ("gib", 6, 2), ("mib", 2, 1))
        self.assertEqual(SearchOutcome([(2, 6.0), (1, 6.0), (0, 2.0)], True, 0), found)
        found = self.granted(seen, ("mib", 2, 1), ("gib", 6, 1))
        self.assertEqual(SearchOutcome([(0, 2.0), (2, 6.0)], True, 1), found)

    def test_one_stock_for_one_amount_is_no_search(self):
        seen = site(("mib", 9, {"step": 4}), ("gib", 8))
        self.assertEqual(SearchOutcome([(0, 8.0)], True, 0), self.granted(seen, ("mib", 5, 1)))
        self.assertEqual(SearchOutcome([(1, 5.0), (0, 4.0)], True, 0),
                         self.granted(seen, ("gib", 5, 1), ("mib", 3, 1)))  # fmt: skip
        self.assertEqual(SearchOutcome(None, True, 1),
                         self.granted(seen, ("gib", 9, 1), ("mib", 3, 1)))  # fmt: skip

    def test_a_resource_that_cannot_be_granted_is_the_answer_whatever_the_others_leave_open(self):
        seen = site(("mib", 9), *(("gib", total) for total in IMPOSSIBLE[0]))
        hard = [("gib", amount, 1) for amount in IMPOSSIBLE[1]]
        self.assertEqual(SearchOutcome(None, True, 880), self.granted(seen, *hard))
        self.assertEqual(SearchOutcome(None, False, 440), self.granted(seen, *hard, states=400))
        easy = ("mib", 5, 2)
        self.assertEqual(SearchOutcome(None, True, 1), self.granted(seen, easy, *hard, states=9))

    def test_the_states_of_all_resources_add_up_and_one_that_may_do_better_is_told(self):
        totals = [("gib", *((t, {}) if isinstance(t, int) else (t[0], {"step": t[1]})))
                  for t in IMPROVABLE[0]]  # fmt: skip
        seen = site(*totals, ("mib", 9), ("mib", 8), ("mib", 0))
        improvable = [("gib", amount, 1) for amount in IMPROVABLE[1]]
        for asked in ((("mib", 4, 1), *improvable), (*improvable, ("mib", 4, 1))):
            found = self.granted(seen, *asked)
            self.assertEqual((True, 41 * 44 + 1), (found.complete, found.states))
            early = self.granted(seen, *asked, states=400)
            self.assertEqual((False, 10 * 44 + 1), (early.complete, early.states))
            self.assertEqual(len(asked), len(early.found))

    def test_pools_pose_one_question_when_their_stocks_of_the_resources_are_the_same(self):
        asked = stock_allocation.stock_amounts(needs(("gib", 3.0, 1), ("mib", 1.0, 1)))
        seen = site(("gib", 9), ("mib", 5), ("tib", 5), count=2)
        first, second = (stock_allocation.question(seen, row, asked) for row in (0, 1))
        self.assertEqual(first, second)
        self.assertEqual(hash(first), hash(second))
        for other in (site(("gib", 8), ("mib", 5)), site(("gib", 9), ("mib", 4)), site(("gib", 9)),
                      site(("mib", 5), ("gib", 9))):  # fmt: skip
            self.assertNotEqual(first, stock_allocation.question(other, 0, asked))
        more = site(("gib", 9), ("mib", 5), ("tib", 4))
        self.assertEqual(first, stock_allocation.question(more, 0, asked))

    def test_a_shortfall_names_the_resource_the_grants_wanted_and_the_most_of_them(self):
        seen = site(("gib", 11), ("gib", 5), ("mib", 9))
        for amounts, shortfall in (
            ([("gib", 6, 1), ("mib", 9, 1)], None),
            ([("gib", 6, 2)], ("grants of gib", 2, 1)),
            ([("mib", 1, 1), ("gib", 12, 1)], ("grants of gib", 1, 0)),
            ([("gib", 6, 1), ("mib", 4, 3)], ("grants of mib", 3, 2)),
            ([("gib", 3, 9)], ("grants of gib", 9, 4)),
            ([("gib", 3, 3), ("gib", 7, 2)], ("grants of gib", 5, 3)),
            ([("gib", 1, 4), ("gib", 99, 1)], ("grants of gib", 5, 4)),
            ([("tib", 1, 2)], ("grants of tib", 2, 0)),
        ):
            with self.subTest(amounts):
                asked = stock_allocation.stock_amounts(needs(*amounts))
                found = stock_allocation.stock_shortfall(seen, 0, asked, 10_000_000)
                self.assertEqual(shortfall, found)

    def test_what_is_open_is_no_shortfall(self):
        seen = site(*(("gib", total) for total in IMPOSSIBLE[0]))
        asked = {"gib": [float(amount) for amount in IMPOSSIBLE[1]]}
        self.assertIsNone(stock_allocation.stock_shortfall(seen, 0, asked, 400))
        self.assertEqual(("grants of gib", 8, 7),
                         stock_allocation.stock_shortfall(seen, 0, asked, 900))  # fmt: skip
