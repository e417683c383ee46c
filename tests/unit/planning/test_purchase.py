# SPDX-License-Identifier: Apache-2.0
"""Purchases: the smallest sufficient one is found, and excluded hardware is not bought."""

import itertools
import unittest
from random import Random

import msgspec
from hypothesis import assume, given, strategies as st

from tests.benchmarks import instances
from tests.unit.core.deciders import cpu, cpus, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import POOLS, near_site, quietly, sized
from tests.unit.planning.optimise import brute_nodes
from tests.unit.planning.optimise.test_bound import MOST_BLOCKS, SolverCase, is_shared, node_type
from tests.unit.planning.sites import site_of
from valence_sched.core.fit.optimiser import Effort
from valence_sched.errors import NothingMatches, RequestError, UnknownName, UsageError
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.need import Need, Toleration
from valence_sched.model.scenario import AddBlocks, Template
from valence_sched.planning.edits import edited
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.purchase import (
    Purchase,
    PurchaseOption,
    cheapest_purchase,
    smallest_purchase,
)
from valence_sched.testing import request, view
from valence_sched.view.view import View

MOST_ADDED = 3


def option(seen: View, block: dict, rows: tuple[int, ...], **words: int) -> PurchaseOption:
    """Return the option of blocks like one of a pod manager."""
    other = view({"id": "other", "blocks": [{**block, "pools": []}]})
    kind = other.kinds.kinds[other.block_tables[0].kinds[0]]
    number = seen.kinds.number(
        kind.types, msgspec.Raw(msgspec.json.encode(kind.devices)), "test", "$"
    )
    return PurchaseOption(number, rows, **words)


def cheapest(podms: list[dict], seen: View, blocks: list[dict], purchase: Purchase) -> list[dict]:
    """Return the podms with the blocks of a purchase."""
    added: dict[str, list[dict]] = {}
    for n, item in enumerate(purchase.items):
        pools = [name for name in (seen.pools[item.row].id,) if name in POOLS]
        new = [{**blocks[item.option], "uri": f"new-{n}-{m}", "pools": pools}
               for m in range(item.number)]  # fmt: skip
        added.setdefault(seen.podm(item.row).id, []).extend(new)
    return [{**one, "blocks": [*one["blocks"], *added.get(one["id"], ())]} for one in podms]


class TestCheapest(SolverCase):
    @quietly(sized(150))
    @given(st.randoms(use_true_random=True), st.integers(1, 2), st.integers(1, 3))
    def test_it_agrees_with_brute_force(self, random, number, price):
        podms, needs = near_site(random)
        assume(not brute.makes(needs, []) and not is_shared(podms))
        podm = {**podms[0], "blocks": podms[0]["blocks"][: MOST_BLOCKS - 2]}
        choices = [random.choice(podms[0]["blocks"]) for _ in range(2)]
        blocks = [{**one, "status": {}} for one in choices]
        prices = (1, price)
        seen = view(podm)
        options = [
            option(seen, block, (0, 1), price=prices[n], most=MOST_ADDED)
            for n, block in enumerate(blocks)
        ]
        found = cheapest_purchase(seen, [node_type(*needs, most=number)], options)
        least = self.least_price(podm, needs, number, blocks, prices)
        if found is None or found.price > MOST_ADDED:  # brute force does not search further
            self.assertTrue(least is None or least > MOST_ADDED)
            return
        self.assertEqual((least, least), (found.price, found.bound))
        after = view(*cheapest([podm], seen, blocks, found))
        self.assertGreaterEqual(most_nodes(after, [node_type(*needs)]).placed, number)

    def least_price(
        self, podm: dict, needs: tuple[Need, ...], number: int, blocks: list[dict], prices
    ) -> int | None:
        places = list(itertools.product(range(len(blocks)), POOLS))
        found = None
        for size in range(MOST_ADDED + 1):
            for chosen in itertools.combinations_with_replacement(places, size):
                price = sum(prices[block] for block, _ in chosen)
                if found is not None and price >= found:
                    continue
                new = [{**blocks[block], "uri": f"n{n}", "pools": [pool]}
                       for n, (block, pool) in enumerate(chosen)]  # fmt: skip
                more = {**podm, "blocks": [*podm["blocks"], *new]}
                ((most,),) = brute_nodes.possible_counts(more, [needs])
                if most >= number:
                    found = price
        return found

    def test_cheaper_blocks_win_over_fewer(self):
        seen = view({"id": "a", "blocks": cpus(2)})
        asked = NodeType.of(
            request({"processor": {"total_cores": 8}, "accelerators": [{"count": 2}]}), most=2
        )
        options = [option(seen, gpu("x", 2), (0,), price=30), option(seen, gpu("x"), (0,), price=7)]
        found = cheapest_purchase(seen, [asked], options)
        self.assertEqual([(1, 4)], [(one.option, one.number) for one in found.items])
        self.assertEqual((28, 28), (found.price, found.bound))
        fewest = [msgspec.structs.replace(one, price=1) for one in options]
        self.assertEqual(2, cheapest_purchase(seen, [asked], fewest).price)

    def test_nothing_is_bought_for_what_fits_and_none_is_enough_if_another_block_lacks(self):
        seen = view({"id": "a", "blocks": [cpu("c0", 8), gpu("g0")]})
        node = request({"processor": {"total_cores": 8}, "accelerators": [{}]})
        options = [option(seen, gpu("x"), (0,))]
        one, two = (cheapest_purchase(seen, [NodeType.of(node, most=n)], options) for n in (1, 2))
        self.assertEqual(((), 0), (one.items, one.price))
        self.assertIsNone(two)

    def test_a_large_site_has_a_stated_gap(self):
        seen = instances.generated_view(8, 30)
        rows = tuple(range(len(seen)))
        blocks = [gpu("x", 4, "NVIDIA H100"), cpu("x", 64, 512 << 10)]
        prices = (40, 15)
        options = [option(seen, block, rows, price=prices[n]) for n, block in enumerate(blocks)]
        asked = [one for one in instances.node_types(gpu_large=40) if one.most]
        exact = cheapest_purchase(seen, asked, options)
        large = cheapest_purchase(seen, asked, options, Effort(most_columns=200))
        self.assertEqual(exact.price, exact.bound)
        self.assertTrue(large.bound <= exact.price <= large.price)
        self.assertLessEqual(large.price - large.bound, 0.2 * large.price)
        random = Random(0)
        podms = [instances.podm(number, 30, random) for number in range(8)]
        enough = view(*cheapest(podms, seen, blocks, large))
        self.assertEqual(40, most_nodes(enough, asked).placed)

    def test_how_many_and_the_prices_are_checked(self):
        seen = view({"id": "a", "blocks": cpus(1)})
        asked = request({"processor": {"total_cores": 1}})
        cases = (
            ([NodeType.of(asked)], []),
            ([NodeType.of(asked, most=1)], [PurchaseOption(0, (), -1)]),
        )
        for types, options in cases:
            with self.assertRaises(RequestError):
                cheapest_purchase(seen, types, options)


NODE = {"processor": {"total_cores": 8}, "accelerators": [{"count": 2}]}
PAIR = Template(name="pair", price=5.0,
                devices=Devices(accelerators=(Accelerator(kind="GPU", count=2),)))  # fmt: skip


def asked(count=1):
    return request(NODE, id="node", count=count, min_count=0)


def buy(*texts):
    return [AddBlocks(add=text.partition("@")[0], to=text.partition("@")[2]) for text in texts]


def bought(result):
    return [(line.block, line.podm, line.pool, line.number) for line in result.lines]


class TestPurchase(unittest.TestCase):
    def test_the_fewest_blocks_are_bought_where_they_serve(self):
        site = site_of({"id": "a", "blocks": [cpu("c1", 8), cpu("c2", 8), gpu("g1")]},
                       {"id": "b", "blocks": [cpu("c1", 8)]})  # fmt: skip
        result = smallest_purchase(site, asked(2), buy("g1@a", "c1@*"))
        self.assertEqual([("g1", "a", "all", 3)], bought(result))
        self.assertEqual(
            (3.0, True, 2, False), (result.total, result.is_smallest, result.placed, result.priced)
        )

    def test_with_prices_the_cheapest_are_bought(self):
        site = site_of({"id": "a", "blocks": [cpu("c1", 8), gpu("g1")]}, templates={"pair": PAIR})
        for price, expected in ((6.0, "pair"), (4.0, "g1")):
            result = smallest_purchase(site, asked(), buy("g1@a", "pair@a"), {"g1": price})
            self.assertEqual([expected], [line.block for line in result.lines])
            self.assertEqual(min(price, 5.0), result.total)
            self.assertEqual(result.total, result.bound)

    def test_nothing_is_bought_for_what_fits(self):
        site = site_of({"id": "a", "blocks": [cpu("c1", 8), gpu("g1", 2)]})
        self.assertEqual([], bought(smallest_purchase(site, asked(), buy("g1@a"))))

    def test_a_tolerated_block_is_not_bought_again(self):
        site = site_of(
            {"id": "a", "blocks": [cpu("c1", 8), gpu("g1", 2, status={"taints": ["k:NoPlace"]})]}
        )
        tolerant = msgspec.structs.replace(asked(), tolerations=(Toleration("k", "Exists"),))
        self.assertEqual([], bought(smallest_purchase(site, tolerant, buy("g1@a"))))

    def test_no_number_of_cards_replaces_a_processor(self):
        site = site_of({"id": "a", "blocks": [gpu("g1")]})
        self.assertIsNone(smallest_purchase(site, asked(), buy("g1@a")).lines)

    def test_blocks_are_bought_for_the_pools_that_are_named(self):
        site = site_of(
            {
                "id": "a",
                "pools": [{"id": "p"}, {"id": "q"}],
                "blocks": [
                    cpu("c1", 8, pools=["p"]),
                    cpu("c2", 8, pools=["q"]),
                    gpu("g1", pools=["p"]),
                ],
            }
        )
        result = smallest_purchase(site, asked(), buy("g1@a/q"))
        self.assertEqual([("g1", "a", "q", 2)], bought(result))

    def test_wrong_choices_are_refused(self):
        site = site_of({"id": "a", "blocks": [cpu("c1", 8), gpu("g1")]})
        for choices, prices, error in (
            ((), {}, UsageError),
            (buy("g1@a", "c1@a"), {"g1": 1.0}, UsageError),
            (buy("g1@a"), {"g2": 1.0}, UnknownName),
            (buy("g1@b"), {}, NothingMatches),
            (buy("g2@a"), {}, NothingMatches),
        ):
            with self.subTest(str(choices)), self.assertRaises(error):
                smallest_purchase(site, asked(), choices, prices)

    @quietly(sized(90))
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=3),
           st.integers(1, 3))  # fmt: skip
    def test_a_purchase_suffices_and_one_block_less_does_not(self, sizes, count):
        spare = [cpu("c", 8, status={"reserved": True}), gpu("g", status={"reserved": True})]
        site = site_of(*(
            {"id": f"p{number}", "blocks": [*spare, *(cpu(f"c{n}", 8) for n in range(cpus)),
                                            *(gpu(f"g{n}") for n in range(cards))]}
            for number, (cpus, cards) in enumerate(sizes)
        ))  # fmt: skip
        result = smallest_purchase(site, asked(count), buy("c@*", "g@*"))
        self.assertEqual((count, True), (result.placed, result.is_smallest))
        edits = [AddBlocks(add=line.block, to=line.podm, count=line.number)
                 for line in result.lines]  # fmt: skip
        for number, edit in enumerate(edits):
            less = (
                AddBlocks(add=edit.add, to=edit.to, count=edit.count - 1)
                if edit.count > 1
                else None
            )
            others = [*edits[:number], *([less] if less else []), *edits[number + 1 :]]
            fewer = edited(site, others).decider().select_destinations(asked(count))
            self.assertLess(len(fewer.placed_nodes), count)
