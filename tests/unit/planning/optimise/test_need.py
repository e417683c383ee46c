# SPDX-License-Identifier: Apache-2.0
"""The smallest purchase: brute force agrees, and what is bought is enough."""

import itertools
from random import Random

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.benchmarks import instances
from tests.unit.core.deciders import cpu, cpus, gpu
from tests.unit.core.fit import brute
from tests.unit.core.sites import POOLS, near_site, quietly
from tests.unit.planning.optimise import brute_nodes
from tests.unit.planning.optimise.test_bound import MOST_BLOCKS, SolverCase, is_shared, node_type
from valence_sched.core.fit.optimiser import Effort
from valence_sched.errors import RequestError
from valence_sched.model.need import Need
from valence_sched.planning.optimise.bound import most_nodes
from valence_sched.planning.optimise.node_types import NodeType
from valence_sched.planning.purchase import Purchase, PurchaseOption, cheapest_purchase
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


def bought(podms: list[dict], seen: View, blocks: list[dict], purchase: Purchase) -> list[dict]:
    """Return the podms with the blocks of a purchase."""
    added: dict[str, list[dict]] = {}
    for n, item in enumerate(purchase.items):
        pools = [name for name in (seen.pools[item.row].id,) if name in POOLS]
        new = [{**blocks[item.option], "uri": f"new-{n}-{m}", "pools": pools}
               for m in range(item.number)]  # fmt: skip
        added.setdefault(seen.podm(item.row).id, []).extend(new)
    return [{**one, "blocks": [*one["blocks"], *added.get(one["id"], ())]} for one in podms]


class TestPurchase(SolverCase):
    """Blocks to add."""

    @quietly(150)
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
        if found is None or found.price > MOST_ADDED:  # brute force does not look further
            self.assertTrue(least is None or least > MOST_ADDED)
            return
        self.assertEqual((least, True), (found.price, found.is_optimal))
        after = view(*bought([podm], seen, blocks, found))
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
        self.assertTrue(exact.is_optimal)
        self.assertTrue(large.bound <= exact.price <= large.price)
        self.assertLessEqual(large.price - large.bound, 0.2 * large.price)
        random = Random(0)
        podms = [instances.podm(number, 30, random) for number in range(8)]
        enough = view(*bought(podms, seen, blocks, large))
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
