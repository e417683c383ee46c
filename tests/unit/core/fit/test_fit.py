# SPDX-License-Identifier: Apache-2.0
"""The fit agrees with brute force, and says something true when there is none."""

import unittest
from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.fit import brute
from tests.unit.core.sites import A100, AMOUNTS, GPU, POOLS, STOCKS, near_site, need, quietly, sites
from valence_sched.core.fit.demands import price_of_needs
from valence_sched.core.fit.fit import Fit, Fitter
from valence_sched.filters.capacity import capacity
from valence_sched.filters.devices import devices
from valence_sched.model.inventory import Accelerator, Devices, Status, Stock
from valence_sched.model.need import Need
from valence_sched.model.request import Request
from valence_sched.testing import request, view
from valence_sched.view.block_kinds import price
from valence_sched.view.view import View


class TestFit(unittest.TestCase):
    """Blocks."""

    @quietly(600)
    @given(sites())
    def test_it_finds_a_node_just_when_there_is_one_and_at_the_least_price(self, site):
        self.agrees(*site)

    @quietly(3000)
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
                label, wanted, had = plan.shortfall(seen, row)
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
        """Check from the inventory's own words that the blocks make the node; return the price."""
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

    def test_a_card_counts_for_one_group_only(self):
        gpu = {"kind": "GPU", "model": "A100"}
        blocks = [{"uri": str(n), "devices": {"accelerators": [gpu]}} for n in range(3)]
        asked = request({"accelerators": [{"model": "A100", "count": 2}, {"count": 1}]})
        self.assertIsNone(fit(asked, view({"id": "a", "blocks": blocks[:2]})))
        self.assertEqual((0, 1, 2), fit(asked, view({"id": "a", "blocks": blocks})).blocks)

    def test_a_cpu_and_a_module_count_for_one_group_only_and_for_the_totals(self):
        board = {"processors": [{"cores": 16}], "memory": [{"capacity_mib": 64}]}
        blocks = [{"uri": str(n), "devices": board} for n in range(3)]
        for properties, boards in (
            ({"cpus": [{"count": 2, "cores": 16}]}, 2),
            ({"cpus": [{"cores": 16}, {"cores": 8}], "processor": {"total_cores": 20}}, 2),
            ({"modules": [{"count": 3, "capacity_mib": 32}], "memory": {"capacity_mib": 64}}, 3),
            ({"modules": [{"capacity_mib": 65}]}, 0),
            ({"cpus": [{"count": 4}]}, 0),
        ):
            with self.subTest(properties):
                found = fit(request(properties), view({"id": "a", "blocks": blocks}))
                self.assertEqual(boards, len(found.blocks) if found else 0)

    def test_what_cpus_and_modules_are_asked_for_is_no_waste(self):
        blocks = [cpu("only", 16)]
        found = fit(request({"cpus": [{"cores": 12}]}), view({"id": "a", "blocks": blocks}))
        self.assertEqual(10 + 4 * 100, found.waste)

    def test_a_block_goes_whole_so_the_smaller_one_wastes_less(self):
        blocks = [cpu("large", 64), cpu("small", 16)]
        found = fit(
            request({"processor": {"total_cores": 10}}), view({"id": "a", "blocks": blocks})
        )
        self.assertEqual((1,), found.blocks)
        self.assertEqual(10 + 6 * 100, found.waste)  # the block itself, and six cores too many

    def test_of_equal_blocks_the_one_in_fewer_pools_goes_first(self):
        both, only = {**cpu("both", 8), "pools": ["p", "q"]}, {**cpu("only", 8), "pools": ["p"]}
        seen = view({"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": [both, only]})
        asked = request({"processor": {"total_cores": 8}})
        self.assertEqual((1,), fit(asked, seen).blocks)

    def test_of_equal_blocks_one_that_is_shared_already_goes_before_a_fresh_one(self):
        shared = {"shareable": True, "max_compositions": 4}
        used = {**shared, "state": "ComposedAndAvailable", "compositions": 2}
        blocks = [{**cpu("fresh", 8), "status": shared}, {**cpu("used", 8), "status": used}]
        found = fit(request({"processor": {"total_cores": 8}}), view({"id": "a", "blocks": blocks}))
        self.assertEqual((1,), found.blocks)

    def test_the_answer_does_not_depend_on_what_else_the_inventory_holds(self):
        pool = {"id": "a", "blocks": [cpu("c8", 8), cpu("c4", 4), cpu("c4b", 4), cpu("c2", 2)]}
        other = {"id": "0", "blocks": [cpu("c4", 4), cpu("c2", 2), cpu("c8", 8)]}
        asked = request({"processor": {"total_cores": 10}})
        alone, beside = view(pool), view(other, pool)
        self.assertEqual(
            fit(asked, alone).blocks, Fitter(asked.needs, beside.kinds).fit(beside, 1).blocks
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
        self.assertEqual((0, 3, 4), tuple(sorted(fit(asked, view(podm)).blocks)))
        podm["blocks"] = podm["blocks"][:2]
        self.assertIsNone(fit(asked, view(podm)))
        self.assertIsNone(fit(Request(needs=()), view(podm)))

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
        self.assertEqual(2, len(plan._answers))  # of the pools, and of what they offer


class TestShortfall(unittest.TestCase):
    """Why there is no fit."""

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
            {
                "stocks": [
                    {"resource": "plenty", "amount": 5},
                    {"resource": "scarce", "amount": 2},
                ]
            }
        )
        label, wanted, had = shortfall(asked, view({"id": "a", "stocks": stocks}))
        self.assertIn("scarce", label)
        self.assertGreater(wanted, had)


class TestStocks(unittest.TestCase):
    """Amounts."""

    @quietly(1500)
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
                label, wanted, had = plan.shortfall(seen, row)
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


def fit(asked: Request, seen: View) -> Fit | None:
    return Fitter(asked.needs, seen.kinds).fit(seen, 0)


def shortfall(asked: Request, seen: View) -> tuple[str, float, float]:
    return Fitter(asked.needs, seen.kinds).shortfall(seen, 0)
