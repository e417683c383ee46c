# SPDX-License-Identifier: Apache-2.0
"""Purchases: the smallest one is found, it suffices, and what may not be bought is not."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.deciders import cpu, gpu
from tests.unit.core.sites import quietly
from tests.unit.planning.sites import site_of
from valence_sched.errors import NothingMatches, UnknownName, UsageError
from valence_sched.model.inventory import Accelerator, Devices
from valence_sched.model.scenario import AddBlocks, Template
from valence_sched.planning.edits import edited
from valence_sched.planning.purchase import smallest_purchase
from valence_sched.testing import request

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

    @quietly(30)
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
