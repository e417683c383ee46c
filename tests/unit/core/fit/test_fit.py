# SPDX-License-Identifier: Apache-2.0
"""The fit agrees with brute force, within the budget of a decision, and explains a misfit."""

import unittest
from random import Random
from unittest import mock

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from tests.unit.core.fit import brute
from tests.unit.core.fit.covers import FAMILIES, podm, properties
from tests.unit.core.fit.test_stocks import IMPOSSIBLE, IMPROVABLE, POSSIBLE
from tests.unit.core.sites import (
    A100,
    AMOUNTS,
    BIG,
    GPU,
    LARGE,
    POOLS,
    SIX,
    SIXTEEN,
    SSD,
    STOCKS,
    near_site,
    need,
    quietly,
    sites,
    sized,
)
from valence_sched.core.fit import fit
from valence_sched.core.fit.fit import Fit, Fitter, Spending, Undecided
from valence_sched.core.fit.set_cover import demands, least_blocks, price_of_needs, waste
from valence_sched.core.fit.stocks import FREE_STATES, SearchOutcome
from valence_sched.filters.capacity import capacity
from valence_sched.filters.devices import devices
from valence_sched.model.inventory import Accelerator, Devices, Limit, Status, Stock
from valence_sched.model.need import Need, Toleration
from valence_sched.model.policy import DEFAULT_BUDGET, Budget
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view import block_kinds
from valence_sched.view.block_kinds import price
from valence_sched.view.view import View

TEAM = Toleration("team", value="a")


class TestFit(unittest.TestCase):
    @quietly(sized(600))
    @given(sites())
    def test_it_finds_a_node_just_when_there_is_one_and_at_the_least_price(self, site):
        self.agrees(*site)

    @quietly(sized(1500))
    @given(st.randoms(use_true_random=True))
    def test_it_agrees_with_brute_force_where_a_node_is_just_possible_or_just_not(self, random):
        self.agrees(*near_site(random))

    def test_the_sites_are_neither_all_possible_nor_all_impossible(self):
        made = []
        for seed in range(300):
            podms, needs = near_site(Random(seed))
            seen = view(*podms)
            plan = Fitter(needs, seen.kinds)
            made += [plan.fit(seen, row) for row in range(len(seen))]
        self.assertGreater(sum(found is None for found in made), 100)
        self.assertGreater(sum(found is not None and len(found.blocks) > 1 for found in made), 100)

    @quietly(sized(600))
    @given(st.randoms(use_true_random=True))
    def test_a_block_is_free_just_for_a_request_that_tolerates_its_taints(self, random):
        podms, needs = near_site(random)
        (podm,) = podms
        if tolerated := random.random() < 0.5:
            needs = tuple(replace(one, tolerations=(TEAM,)) for one in needs)
        marked, plain = [], []
        for block in podm["blocks"]:
            taints = random.choice([[], [], ["team=a:NoPlace"], ["team=a:NoPlace", "x:NoPlace"]])
            marked.append({**block, "status": {**block["status"], "taints": taints}})
            if not taints or (tolerated and len(taints) == 1):
                plain.append(block)
        tainted, expected = view({**podm, "blocks": marked}), view({**podm, "blocks": plain})
        for row in range(2):
            found = Fitter(needs, tainted.kinds).fit(tainted, row)
            other = Fitter(needs, expected.kinds).fit(expected, row)
            self.assertEqual(other and other.waste, found and found.waste, (podm, needs, marked))

    def agrees(self, podms: list[dict], needs: tuple[Need, ...]) -> None:
        """Check every pool against brute force."""
        seen = view(*podms)
        plan = Fitter(needs, seen.kinds)
        for row in range(len(seen)):
            podm, pool = podms[row // 2], podms[row // 2]["pools"][row % 2]
            free = self.free_blocks(podm, pool["id"])
            least = brute.least_price(needs, pool["limits"], free)
            found = plan.fit(seen, row)
            self.assertEqual(least is None, found is None, (podm, pool, needs))
            if found is None:
                label, wanted, had = plan.shortfall(seen, row)[:3]
                self.assertTrue(label)
                self.assertGreater(wanted, had, label)
            else:
                self.assertEqual(least, self.recheck(seen, row, podm, pool, needs, found))
                self.assertEqual(max(0, least - price_of_needs(plan.needs)), found.waste)
                self.assert_filters_pass(seen, row, needs)

    @staticmethod
    def free_blocks(podm: dict, pool: str) -> list[tuple[list[str], Devices]]:
        return [
            (block["type"], msgspec.convert(block["devices"], Devices))
            for block in podm["blocks"]
            if pool in block["pools"] and brute.is_free(msgspec.convert(block["status"], Status))
        ]

    def recheck(
        self, seen: View, row: int, podm: dict, pool: dict, needs: tuple[Need, ...], found: Fit
    ) -> int:
        """Check from the inventory that the blocks make the node; return the price."""
        self.assertEqual(row, found.row)
        self.assertEqual(len(set(found.blocks)), len(found.blocks))
        uris = [seen.block_tables[seen.podm_of[row]].uris[number] for number in found.blocks]
        blocks = [block for block in podm["blocks"] if block["uri"] in uris]
        self.assertEqual(len(uris), len(blocks))
        for block in blocks:
            self.assertIn(pool["id"], block["pools"])
            self.assertTrue(brute.is_free(msgspec.convert(block["status"], Status)))
        self.assertTrue(brute.within(pool["limits"], [block["type"] for block in blocks]))
        hardware = [msgspec.convert(block["devices"], Devices) for block in blocks]
        self.assertTrue(brute.makes(needs, hardware))
        return sum(map(price, hardware))

    def assert_filters_pass(self, seen: View, row: int, needs: tuple[Need, ...]) -> None:
        asked = Request(needs=needs)
        self.assertTrue(capacity(seen, asked)[row], "capacity rejects what fits")
        self.assertTrue(devices(seen, asked)[row], "devices rejects what fits")

    def test_brute_force_itself_tells_matchings_from_sums(self):
        a100 = Devices(accelerators=(Accelerator(kind="GPU", model="A100"),))
        needs = (need("accelerator", "devices", 2, A100), need("accelerator", "devices", 1, GPU))
        self.assertFalse(brute.makes(needs, [a100, a100]))
        self.assertTrue(brute.makes(needs, [a100, a100, a100]))

    def test_a_cpu_and_a_module_count_for_one_group_only_and_for_the_totals(self):
        board = {"processors": [{"cores": 16}], "memory": [{"capacity_mib": 64}]}
        blocks = [{"uri": str(n), "devices": board} for n in range(3)]
        for wanted, boards in (
            ({"cpus": [{"count": 2, "cores": 16}]}, 2),
            ({"cpus": [{"cores": 16}, {"cores": 8}], "processor": {"total_cores": 20}}, 2),
            ({"modules": [{"count": 3, "capacity_mib": 32}], "memory": {"capacity_mib": 64}}, 3),
            ({"modules": [{"capacity_mib": 65}]}, 0),
            ({"cpus": [{"count": 4}]}, 0),
        ):
            with self.subTest(wanted):
                found = fit_of(request(wanted), view({"id": "a", "blocks": blocks}))
                self.assertEqual(boards, len(found.blocks) if found else 0)

    def test_what_cpus_and_modules_are_asked_for_is_no_waste(self):
        blocks = [cpu("only", 16)]
        found = fit_of(request({"cpus": [{"cores": 12}]}), view({"id": "a", "blocks": blocks}))
        self.assertEqual(10 + 4 * 100, found.waste)

    def test_a_block_goes_whole_so_the_smaller_one_wastes_less(self):
        blocks = [cpu("large", 64), cpu("small", 16)]
        found = fit_of(
            request({"processor": {"total_cores": 10}}), view({"id": "a", "blocks": blocks})
        )
        self.assertEqual((1,), found.blocks)
        self.assertEqual(10 + 6 * 100, found.waste)  # the block itself, and six surplus cores

    def test_of_equal_blocks_the_one_in_fewer_pools_goes_first(self):
        both, only = {**cpu("both", 8), "pools": ["p", "q"]}, {**cpu("only", 8), "pools": ["p"]}
        seen = view({"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": [both, only]})
        asked = request({"processor": {"total_cores": 8}})
        self.assertEqual((1,), fit_of(asked, seen).blocks)

    def test_of_equal_blocks_one_that_is_shared_already_goes_before_a_fresh_one(self):
        shared = {"shareable": True, "max_compositions": 4}
        used = {**shared, "state": "ComposedAndAvailable", "compositions": 2}
        blocks = [{**cpu("fresh", 8), "status": shared}, {**cpu("used", 8), "status": used}]
        found = fit_of(
            request({"processor": {"total_cores": 8}}), view({"id": "a", "blocks": blocks})
        )
        self.assertEqual((1,), found.blocks)

    def test_the_answer_does_not_depend_on_what_else_the_inventory_holds(self):
        pool = {"id": "a", "blocks": [cpu("c8", 8), cpu("c4", 4), cpu("c4b", 4), cpu("c2", 2)]}
        other = {"id": "0", "blocks": [cpu("c4", 4), cpu("c2", 2), cpu("c8", 8)]}
        asked = request({"processor": {"total_cores": 10}})
        alone, beside = view(pool), view(other, pool)
        self.assertEqual(
            fit_of(asked, alone).blocks, Fitter(asked.needs, beside.kinds).fit(beside, 1).blocks
        )

    def test_the_least_numbers_of_blocks_of_a_pool_are_taken_though_nothing_needs_them(self):
        def storage(uri, **words):
            return {"uri": uri, "type": ["Storage"], "devices": {"drives": [{"count": 1}]}, **words}

        limits = {"Storage": {"min": 2, "max": 3}, "Memory": {"max": 1}}
        nic = {"uri": "n", "type": ["Network"], "devices": {"nics": [{"count": 1}]}}
        blocks = [cpu("c0", 8), storage("s0"), storage("s1"), storage("s2"), cpu("c1", 8), nic]
        podm = {"id": "a", "pools": [{"id": "p", "limits": limits}],
                "blocks": [{**block, "pools": ["p"]} for block in blocks]}  # fmt: skip
        asked = request({"processor": {"total_cores": 8}})
        self.assertEqual((0, 3, 4), tuple(sorted(fit_of(asked, view(podm)).blocks)))
        podm["blocks"] = podm["blocks"][:2]
        self.assertIsNone(fit_of(asked, view(podm)))
        self.assertIsNone(fit_of(Request(needs=()), view(podm)))

    def test_blocks_that_cannot_help_are_not_offered_and_others_no_more_often_than_they_can(self):
        nic = {"uri": "n", "type": ["Network"], "devices": {"nics": [{"count": 1}]}}
        seen = view({"id": "a", "blocks": [cpu("c0", 8), cpu("c1", 8), cpu("c2", 8), nic]})
        plan = Fitter(request({"processor": {"total_cores": 12}}).needs, seen.kinds)
        offer = plan._offer(seen.block_counts.kinds(0), seen.pools[0])
        self.assertEqual([2], [number for _, number in offer])

    def test_nothing_asked_for_in_a_pool_without_limits_is_no_block_and_no_state(self):
        seen = view({"id": "a", "blocks": [cpu("c0", 8)]})
        plan = Fitter((), seen.kinds)
        found = plan.fit(seen, 0)
        self.assertEqual(((), (), 0), (found.blocks, found.grants, found.waste))
        (answer,) = plan._answers.values()
        self.assertEqual((True, 0), (answer.complete, answer.states))

    def test_a_fraction_of_a_core_is_rounded_up_never_down(self):
        half = Need(kind="processor", measure="cores", amount=8.5)
        seen = view({"id": "a", "blocks": [cpu("c", 8)]})
        self.assertIsNone(Fitter((half,), seen.kinds).fit(seen, 0))

    def test_the_same_question_is_searched_once_however_many_pools_ask_it(self):
        seen = view(*({"id": str(n), "blocks": [cpu("a", 8), cpu("b", 8)]} for n in range(50)))
        plan = Fitter(request({"processor": {"total_cores": 16}}).needs, seen.kinds)
        self.assertEqual([(0, 1)] * 50, [plan.fit(seen, row).blocks for row in range(50)])
        self.assertEqual(2, len(plan._answers))  # one for the pools, one for their offers


class TestShortfall(unittest.TestCase):
    def test_block_limits_are_named(self):
        pool = {"id": "p", "limits": {"Compute": {"max": 1}}}
        blocks = [{**cpu(name, 8), "pools": ["p"]} for name in "ab"]
        seen = view({"id": "a", "pools": [pool], "blocks": blocks})
        found = shortfall(request({"processor": {"total_cores": 16}}), seen)
        self.assertEqual(("cores within the pool's block limits", 16, 8), found)

    def test_a_least_number_of_blocks_is_named(self):
        pool = {"id": "p", "limits": {"Storage": {"min": 1}}}
        seen = view({"id": "a", "pools": [pool], "blocks": [{**cpu("a", 8), "pools": ["p"]}]})
        found = shortfall(request({"processor": {"total_cores": 8}}), seen)
        self.assertEqual(("Storage blocks within the pool's block limits", 1, 0), found)

    def test_a_stock_that_is_large_enough_but_in_pieces_is_told_in_grants(self):
        stocks = [{"uri": str(n), "resource": "gib", "total": t} for n, t in enumerate((11, 5))]
        asked = request({"stocks": [{"resource": "gib", "amount": 6, "count": 2}]})
        label, wanted, had = shortfall(asked, view({"id": "a", "stocks": stocks}))
        self.assertIn("gib", label)
        self.assertEqual((2, 1), (wanted, had))

    def test_the_stock_that_is_short_is_named_not_the_first_one(self):
        stocks = [
            {"uri": "1", "resource": "plenty", "total": 100},
            {"uri": "2", "resource": "scarce", "total": 1},
        ]
        asked = request(
            {"stocks": [{"resource": "plenty", "amount": 5}, {"resource": "scarce", "amount": 2}]}
        )
        label, wanted, had = shortfall(asked, view({"id": "a", "stocks": stocks}))
        self.assertIn("scarce", label)
        self.assertGreater(wanted, had)


class TestStocks(unittest.TestCase):
    @quietly(sized(1500))
    @given(STOCKS, AMOUNTS)
    def test_it_grants_just_when_it_can_and_as_little_as_it_can(self, stocks, amounts):
        stocks = [{**stock, "uri": f"s{number}"} for number, stock in enumerate(stocks)]
        pools = [{"id": name} for name in POOLS]
        seen = view({"id": "a", "pools": pools, "stocks": stocks})
        asked = Request(needs=tuple(
            Need(kind="stock", measure="amount", resource=name, amount=amount, count=count)
            for name, amount, count in amounts
        ))  # fmt: skip
        plan = Fitter(asked.needs, seen.kinds)
        nouns = [msgspec.convert(stock, Stock, strict=False) for stock in stocks]
        for row, pool in enumerate(POOLS):
            here = [stock for stock in nouns if pool in stock.pools]
            least = [
                brute.least_granted(
                    [stock for stock in here if stock.resource == resource],
                    [a for name, a, count in amounts for _ in range(count) if name == resource],
                )
                for resource in {name for name, _, _ in amounts}
            ]
            found = plan.fit(seen, row)
            self.assertEqual(None in least, found is None, here)
            if found is None:
                label, wanted, had = plan.shortfall(seen, row)[:3]
                self.assertGreater(wanted, had, label)
                continue
            self.assertEqual(sum(least), sum(amount for _, amount in found.grants))
            self.assert_grants_are_real(nouns, pool, amounts, found)
            self.assertTrue(capacity(seen, asked)[row], "capacity rejects what fits")

    def assert_grants_are_real(self, stocks, pool, amounts, found: Fit) -> None:
        used: dict[int, float] = {}
        granted: dict[str, list[float]] = {}
        for number, amount in found.grants:
            stock = stocks[number]
            self.assertIn(pool, stock.pools)
            self.assertGreaterEqual(amount, stock.min)
            self.assertLessEqual(amount, amount if stock.max is None else stock.max)
            self.assertEqual(0, amount % stock.step if stock.step else 0)
            used[number] = used.get(number, 0) + amount
            granted.setdefault(stock.resource, []).append(amount)
        for number, amount in used.items():
            self.assertLessEqual(stocks[number].used + amount, stocks[number].total)
        for resource, found_amounts in granted.items():
            asked = [a for name, a, count in amounts for _ in range(count) if name == resource]
            self.assertEqual(len(asked), len(found_amounts))
            for least, amount in zip(sorted(asked), sorted(found_amounts), strict=True):
                self.assertGreaterEqual(amount, least)


def cpu(uri: str, cores: int) -> dict:
    return {"uri": uri, "type": ["Compute"], "devices": {"processors": [{"cores": cores}]}}


def fit_of(asked: Request, seen: View) -> Fit | None:
    return Fitter(asked.needs, seen.kinds).fit(seen, 0)


def shortfall(asked: Request, seen: View) -> tuple[str, float, float]:
    return Fitter(asked.needs, seen.kinds).shortfall(seen, 0)[:3]


STOCK = Need(kind="stock", measure="amount", resource="gib", amount=7, count=2)


class TestDemands(unittest.TestCase):
    def amounts(self, *needs: Need) -> list[tuple[int, int]]:
        """Return each demand as its amount and the number of its needs."""
        return [(one.amount, len(one.needs)) for one in demands(needs)]

    def test_a_total_is_a_demand_rounded_up_and_a_stock_is_none(self):
        cores = Need(kind="processor", measure="cores", amount=8.5)
        memory = need("memory", "capacity_mib", 64)
        self.assertEqual([(9, 1), (64, 1)], self.amounts(cores, STOCK, memory))
        self.assertEqual([], self.amounts(STOCK))

    def test_each_set_of_groups_of_one_kind_is_a_demand_the_sum_of_theirs(self):
        one, two, three = (need("accelerator", "devices", n, *t)
                           for n, t in ((1, (A100,)), (2, (GPU,)), (4, (BIG,))))  # fmt: skip
        found = list(demands((one, two, three)))
        self.assertEqual([(one,), (two,), (three,), (one, two), (one, three), (two, three),
                          (one, two, three)], [demand.needs for demand in found])  # fmt: skip
        self.assertEqual([1, 2, 4, 3, 5, 6, 7], [demand.amount for demand in found])

    def test_groups_of_different_kinds_share_no_demand_and_come_after_the_totals(self):
        drive, card = need("drive", "devices", 2, SSD), need("accelerator", "devices", 3, GPU)
        cores = need("processor", "cores", 5)
        found = list(demands((drive, card, cores)))
        self.assertEqual([(cores,), (card,), (drive,)], [demand.needs for demand in found])

    def test_every_kind_of_device_has_its_groups(self):
        kinds = ("processor", "memory", "accelerator", "drive", "nic")
        found = demands(tuple(need(kind, "devices", 1) for kind in reversed(kinds)))
        self.assertEqual([*kinds], [demand.needs[0].kind for demand in found])

    def test_a_label_names_every_need(self):
        asked = need("accelerator", "devices", 1, A100), need("accelerator", "devices", 2, GPU)
        *_, both = demands(asked)
        self.assertEqual(f"{asked[0].label} and {asked[1].label}", both.label)


class TestWorth(unittest.TestCase):
    """Points for the surplus over the needs."""

    def test_each_need_has_the_price_of_the_least_that_it_can_mean(self):
        core, card, nic = (block_kinds.PRICE_CORE, block_kinds.PRICE_ACCELERATOR,
                           block_kinds.PRICE_NIC)  # fmt: skip
        drive, mib = block_kinds.PRICE_DRIVE, block_kinds.MIB_PER_POINT
        for asked, points in (
            (STOCK, 0),
            (need("processor", "sockets", 3), 0),
            (need("processor", "sockets", 3, SIX), 0),  # the cores are a separate need
            (need("processor", "cores", 3), 3 * core),
            (Need(kind="processor", measure="cores", amount=3.9), 3 * core),
            (need("processor", "devices", 3), 0),
            (need("processor", "devices", 3, SIX), 3 * 6 * core),
            (need("memory", "capacity_mib", 5 * mib + mib - 1), 5),
            (need("memory", "devices", 3 * mib), 0),
            (need("memory", "devices", 3 * mib, SIXTEEN), 3 * 16),
            (need("accelerator", "devices", 3, A100), 3 * card),
            (need("nic", "devices", 3), 3 * nic),
            (need("drive", "devices", 3, SSD), 3 * drive),
            (need("drive", "devices", 3, LARGE),
             3 * (drive + (1 << 30) // block_kinds.BYTES_PER_POINT)),
        ):  # fmt: skip
            with self.subTest(asked):
                self.assertEqual(points, price_of_needs((asked,)))
        both = need("processor", "cores", 3), need("nic", "devices", 2)
        self.assertEqual(3 * core + 2 * nic, price_of_needs(both))

    def test_waste_is_the_price_of_the_blocks_beyond_the_needs_and_never_below_nothing(self):
        blocks = [{"uri": f"b{n}", "devices": {"processors": [{"cores": n}]}} for n in (4, 6)]
        kinds = view({"id": "a", "blocks": blocks}).kinds
        prices = [kind.price for kind in kinds.kinds]
        four, six = prices.index(410), prices.index(610)
        asked = (need("processor", "cores", 5),)
        self.assertEqual(2 * 410 + 610 - 500, waste(kinds, [(four, 2), (six, 1)], asked))
        self.assertEqual(0, waste(kinds, [(four, 1)], asked))
        self.assertEqual(0, waste(kinds, [], asked))
        self.assertEqual(410 + 610, waste(kinds, [(four, 1), (six, 1)], ()))

    def test_least_blocks_are_those_of_the_limits_that_say_so(self):
        limits = {"Compute": Limit(min=2, max=3), "Memory": Limit(max=5), "Storage": Limit(min=1)}
        self.assertEqual({"Compute": 2, "Storage": 1}, least_blocks(limits))
        self.assertEqual({}, least_blocks({}))


YES, NO = SearchOutcome("found", True, 5), SearchOutcome(None, True, 5)
OPEN = SearchOutcome(None, False, 3)
BETTER_MAY_BE = SearchOutcome("found", False, 3)


def never() -> SearchOutcome:
    raise AssertionError("it was searched again")


class TestSpending(unittest.TestCase):
    def test_an_outcome_is_open_just_when_it_is_neither_a_yes_nor_a_no(self):
        self.assertTrue(OPEN.is_open)
        for settled in (YES, NO, BETTER_MAY_BE):
            self.assertFalse(settled.is_open)

    def test_it_begins_with_the_states_of_the_budget(self):
        self.assertEqual(DEFAULT_BUDGET.decision_states, Spending().left)
        self.assertEqual(7, Spending(Budget(decision_states=7)).left)

    def test_each_question_is_searched_and_paid_for_once(self):
        spending = Spending(Budget(decision_states=100))
        self.assertIs(YES, spending.answer("a", OPEN, lambda: YES))
        self.assertIs(YES, spending.answer("a", OPEN, never))
        self.assertEqual(95, spending.left)
        self.assertIs(NO, spending.answer("b", OPEN, lambda: NO))
        self.assertEqual(90, spending.left)

    def test_the_last_state_still_pays_for_a_search_and_then_the_short_answers_stand(self):
        spending = Spending(Budget(decision_states=1))
        self.assertIs(YES, spending.answer("a", OPEN, lambda: YES))
        self.assertEqual(-4, spending.left)
        self.assertIs(OPEN, spending.answer("b", OPEN, never))
        self.assertIs(BETTER_MAY_BE, spending.answer("c", BETTER_MAY_BE, never))
        self.assertEqual(-4, spending.left)
        none = Spending(Budget(decision_states=0))
        self.assertIs(OPEN, none.answer("a", OPEN, never))

    def test_the_questions_left_open_are_counted(self):
        spending = Spending(Budget(decision_states=5))
        self.assertEqual(0, spending.undecided)
        for question, outcome in (("a", NO), ("b", OPEN), ("c", OPEN), ("d", BETTER_MAY_BE)):
            spending.answer(question, outcome, lambda: NO)
        self.assertEqual(2, spending.undecided)


def stocks(case, count: int = 1):
    totals, amounts = case
    pairs = [total if isinstance(total, tuple) else (total, 0) for total in totals]
    offer = [
        {"uri": f"{number}", "resource": "gib", "total": total, "step": step}
        for number, (total, step) in enumerate(pairs)
    ]
    podms = [{"id": f"s{number}", "stocks": offer} for number in range(count)]
    return view(*podms), request(
        {"stocks": [{"resource": "gib", "amount": amount} for amount in amounts]}
    )


def blocks(family: str, size: int, seed: int, count: int = 1):
    cover = FAMILIES[family](size, Random(seed))
    return view(*(podm(f"b{n}", cover) for n in range(count))), request(properties(cover))


def long_answers(plan: Fitter) -> list[SearchOutcome]:
    """Return the results with all states of a search."""
    most = plan.budget.pool_states
    return [answer for (_, states), answer in plan._answers.items() if states == most]


class TestFitter(unittest.TestCase):
    def test_what_the_short_search_leaves_open_a_decision_settles(self):
        for name, (seen, asked), possible in (
            ("blocks", blocks("split", 16, 2), False),
            ("two amounts", blocks("two_amounts", 28, 2), True),
            ("stocks", stocks(POSSIBLE), True),
            ("no stocks", stocks(IMPOSSIBLE), False),
        ):
            with self.subTest(name):
                plan = Fitter(asked.needs, seen.kinds)
                self.assertIsNone(plan.quick_fit(seen, 0))
                found = plan.fit(seen, 0)
                self.assertEqual(Fit if possible else type(None), type(found))

    def test_a_pool_that_is_not_settled_is_undecided_within_the_states_of_the_budget(self):
        for states in (1, 100, FREE_STATES, FREE_STATES + 1):
            for name, (seen, asked) in (("blocks", blocks("split", 16, 2)),
                                        ("stocks", stocks(POSSIBLE))):  # fmt: skip
                with self.subTest(name, states=states):
                    plan = Fitter(asked.needs, seen.kinds, budget=Budget(pool_states=states))
                    spending = Spending()
                    self.assertEqual(Undecided(states), plan.fit(seen, 0, spending))
                    self.assertEqual(1, spending.undecided)

    def test_no_more_states_are_searched_than_the_budget_has_for_a_pool(self):
        seen, asked = blocks("split", 16, 2)
        plan = Fitter(asked.needs, seen.kinds, budget=Budget(pool_states=50))
        plan.quick_fit(seen, 0)
        self.assertTrue(all(short.states <= 51 for short in plan._answers.values()))

    def test_the_quick_fit_is_that_of_the_decision_or_none(self):
        seen, asked = blocks("powers", 8, 0)
        plan = Fitter(asked.needs, seen.kinds)
        quick = plan.quick_fit(seen, 0)
        self.assertIsNotNone(quick)
        self.assertEqual(quick, plan.fit(seen, 0))
        seen, asked = stocks(((10, 10), (3, 4)))
        plan = Fitter(asked.needs, seen.kinds)
        self.assertEqual(((0, 3.0), (0, 4.0)), plan.quick_fit(seen, 0).grants)
        self.assertEqual((), plan.quick_fit(seen, 0).blocks)

    def test_what_may_not_be_the_cheapest_is_no_quick_fit_but_better_than_none(self):
        for name, (seen, asked), least in (
            ("blocks", blocks("two_amounts", 20, 0), lambda found: found.waste),
            ("stocks", stocks(IMPROVABLE), lambda found: sum(a for _, a in found.grants)),
        ):
            with self.subTest(name):
                plan = Fitter(asked.needs, seen.kinds)
                self.assertIsNone(plan.quick_fit(seen, 0))
                quick = plan.fit(seen, 0, Spending(Budget(decision_states=0)))
                self.assertGreater(least(quick), least(plan.fit(seen, 0)))

    def test_what_the_short_search_settles_is_free(self):
        for name, (seen, asked) in (("blocks", blocks("powers", 8, 0)),
                                    ("stocks", stocks(((9, 8), (5, 4, 4, 4))))):  # fmt: skip
            with self.subTest(name):
                plan, spending = Fitter(asked.needs, seen.kinds), Spending()
                self.assertIsInstance(plan.fit(seen, 0, spending), Fit)
                self.assertEqual(DEFAULT_BUDGET.decision_states, spending.left)
                self.assertFalse(long_answers(plan))

    def test_pools_that_pose_one_question_pay_for_it_once_in_a_decision(self):
        for name, (seen, asked) in (("blocks", blocks("split", 16, 2, 3)),
                                    ("stocks", stocks(IMPOSSIBLE, 3))):  # fmt: skip
            with self.subTest(name):
                plan, spending = Fitter(asked.needs, seen.kinds), Spending()
                found = [plan.fit(seen, 0, spending)]
                spent = DEFAULT_BUDGET.decision_states - spending.left
                self.assertGreater(spent, FREE_STATES)
                found += [plan.fit(seen, row, spending) for row in (1, 2)]
                self.assertEqual([None] * 3, found)
                self.assertEqual(spent, DEFAULT_BUDGET.decision_states - spending.left)

    def test_another_decision_pays_as_much_though_the_answer_is_known(self):
        seen, asked = blocks("split", 16, 2)
        plan, first, second = Fitter(asked.needs, seen.kinds), Spending(), Spending()
        plan.fit(seen, 0, first)
        answer, *others = long_answers(plan)
        plan.fit(seen, 0, second)
        self.assertEqual([answer, *others], long_answers(plan))
        self.assertEqual(first.left, second.left)
        self.assertEqual(DEFAULT_BUDGET.decision_states - answer.states, first.left)

    def test_requests_do_not_take_the_answers_of_others_within_a_decision(self):
        seen, asked = stocks(POSSIBLE)
        _, other = stocks((POSSIBLE[0], (*POSSIBLE[1][:-1], 24)))
        spending, left = Spending(), []
        for one in (asked, other, asked):
            Fitter(one.needs, seen.kinds).fit(seen, 0, spending)
            left.append(spending.left)
        self.assertGreater(left[0], left[1])
        self.assertEqual(left[1], left[2])

    def test_answers_are_forgotten_when_there_are_too_many_and_found_again(self):
        seen = view(*(
            {"id": f"p{n}", "blocks": [{"uri": "b", "devices": {"processors": [{"cores": 8 + n}]}}]}
            for n in range(5)
        ))  # fmt: skip
        plan = Fitter(request({"processor": {"total_cores": 8}}).needs, seen.kinds)
        with mock.patch.object(fit, "MOST_ANSWERS", 2):
            for row in (*range(5), 0):
                self.assertEqual(10 + 100 * row, plan.fit(seen, row).waste)
                self.assertLessEqual(len(plan._answers), 2)

    def test_so_are_those_of_hard_questions(self):
        totals, _ = IMPOSSIBLE
        offers = [[{"uri": f"{i}", "resource": "gib", "total": total + n / 8}
                   for i, total in enumerate(totals)] for n in range(3)]  # fmt: skip
        seen = view(*({"id": f"s{n}", "stocks": offer} for n, offer in enumerate(offers)))
        plan = Fitter(stocks(IMPOSSIBLE)[1].needs, seen.kinds)
        with mock.patch.object(fit, "MOST_ANSWERS", 2):
            for row in range(3):
                self.assertIsNone(plan.fit(seen, row))
                self.assertLessEqual(len(plan._answers), 2)
