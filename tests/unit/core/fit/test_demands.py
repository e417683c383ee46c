# SPDX-License-Identifier: Apache-2.0
"""The needs of a request as demands of a cover, and what they are worth."""

import unittest

from tests.unit.core.sites import A100, BIG, GPU, LARGE, SIX, SIXTEEN, SSD, need
from valence_sched.core.fit.demands import demands, least_blocks, price_of_needs, waste
from valence_sched.model.inventory import Limit
from valence_sched.model.need import Need
from valence_sched.testing import view
from valence_sched.view import block_kinds

STOCK = Need(kind="stock", measure="amount", resource="gib", amount=7, count=2)


class TestDemands(unittest.TestCase):
    """Totals, and sets of groups."""

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
    """Points: what is beyond the needs is waste."""

    def test_each_need_has_the_price_of_the_least_that_it_can_mean(self):
        core, card, nic = (block_kinds.PRICE_CORE, block_kinds.PRICE_ACCELERATOR,
                           block_kinds.PRICE_NIC)  # fmt: skip
        drive, mib = block_kinds.PRICE_DRIVE, block_kinds.MIB_PER_POINT
        for asked, points in (
            (STOCK, 0),
            (need("processor", "sockets", 3), 0),
            (need("processor", "sockets", 3, SIX), 0),  # the cores are a need of their own
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
