# SPDX-License-Identifier: Apache-2.0
"""An overlay shows the same as a View that is built again after a composition."""

import json
import unittest

import msgspec
import numpy as np
from hypothesis import given, strategies as st

from tests.unit.core.sites import quietly
from tests.unit.model.test_inventory import STOCKS
from tests.unit.view.same import assert_same_rows, assert_same_view
from tests.unit.view.test_view import FULL_SITES
from valence_sched.core.fit.stocks import allocate
from valence_sched.model.inventory import free_amount, grant_size
from valence_sched.testing import contract, request, view
from valence_sched.view.overlay import Overlay
from valence_sched.view.stocks import build_grants, grant_bounds

REQUEST = request({"processor": {"sockets": 1}})
SOCKETS = REQUEST.needs[0]


def composed(podm: dict, blocks: list[int], grants: list[tuple[int, float]]) -> dict:
    """Return the podm after these blocks are in use."""
    after = json.loads(json.dumps(podm))
    for number in blocks:
        status = after["blocks"][number]["status"]
        status["compositions"] = status.get("compositions", 0) + 1
        if not status.get("shareable"):
            status["state"] = "Composed"
        else:
            status["state"] = "ComposedAndAvailable"
    for number, amount in grants:
        stock = after["stocks"][number]
        stock["used"] = stock.get("used", 0) + amount
    return after


def has_bounded_slots(status: dict) -> bool:
    """Return whether a View can count slots; a shareable block without a maximum is unlimited."""
    return not status.get("shareable") or "max_compositions" in status


class TestOverlay(unittest.TestCase):
    @quietly(25)
    @given(FULL_SITES, st.randoms(use_true_random=False), st.booleans())
    def test_an_overlay_equals_an_inventory_with_the_node_composed(self, podms, random, warm):
        site = view(*podms)
        if warm:  # cached sums may be kept, and must still be right
            assert_same_view(self, site, view(*podms))
        before = contract.fingerprint(site, REQUEST)
        overlay = Overlay(site)
        for _ in range(3):
            row = random.randrange(len(site))
            podm = row // 2
            table = overlay.view.block_tables[podm]
            free = [b for b, slots in enumerate(table.slots) if slots
                    and has_bounded_slots(podms[podm]["blocks"][b]["status"])]  # fmt: skip
            blocks = random.sample(free, random.randint(0, len(free)))
            grants = self.grants(table.stocks, random)
            first, last = overlay.rows(podm)
            self.assertEqual((2 * podm, 2 * podm + 2), (first, last))
            undo = overlay.allocate(row, blocks, grants)
            if random.random() < 0.3:
                undo()
            else:
                podms[podm] = composed(podms[podm], blocks, grants)
            assert_same_rows(
                self, view(*podms), [first, first + 1], overlay.view.window(first, last)
            )
        assert_same_view(self, view(*podms), overlay.view)
        self.assertEqual(before, contract.fingerprint(site, REQUEST))

    @quietly(20)
    @given(FULL_SITES, st.randoms(use_true_random=False))
    def test_several_allocations_at_once_equal_one_after_another(self, podms, random):
        site = view(*podms)
        at_once, one_by_one = Overlay(site), Overlay(site)
        allocations = []
        for podm, table in enumerate(site.block_tables):
            free = [block for block, slots in enumerate(table.slots) if slots]
            blocks = random.sample(free, random.randint(0, len(free)))
            allocations.append((2 * podm, tuple(blocks), tuple(self.grants(table.stocks, random))))
        before = at_once.allocate_each(allocations)
        undos = [one_by_one.allocate(*take) for take in allocations]
        assert_same_view(self, one_by_one.view, at_once.view)
        at_once.apply(before[1:])
        for undo in undos[1:]:
            undo()
        assert_same_view(self, one_by_one.view, at_once.view)

    @staticmethod
    def grants(stocks, random) -> list[tuple[int, float]]:
        number = random.randrange(len(stocks)) if stocks else None
        amount = grant_size(stocks[number], random.randint(1, 4)) if stocks else None
        return [] if amount is None else [(number, amount)]

    def test_the_arrays_of_an_overlay_are_read_only(self):
        overlay = Overlay(view({"id": "a", "blocks": [{"uri": "b"}],
                            "stocks": [{"uri": "s", "resource": "gib", "total": 9}]}))  # fmt: skip
        overlay.allocate(0, [0], [(0, 2.0)])
        column = overlay.view.resources["gib"]
        for array in (
            overlay.view.block_counts.free,
            overlay.view.podm_block_counts.free,
            *column.arrays(),
        ):
            self.assertFalse(array.flags.writeable)
        self.assertEqual(([7.0], [7.0]), (column.free.tolist(), column.largest_grant.tolist()))


class TestRemoval(unittest.TestCase):
    def podm(self, *states: str) -> dict:
        blocks = [
            {"uri": str(n), "type": ["Compute"], "pools": ["p"] if n % 2 else ["p", "q"],
             "status": {"state": state}, "devices": {"processors": [{"cores": 4 + n % 3}]}}
            for n, state in enumerate(states)
        ]  # fmt: skip
        return {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}

    def test_a_removal_gives_the_view_in_which_the_blocks_are_free(self):
        other = {**self.podm("Unused", "Composed"), "id": "z"}
        overlay = Overlay(view(other, self.podm("Composed", "Unused", "Composed", "Composed")))
        undo = overlay.remove_node(1, [0, 1, 3, 3])
        after = view(other, self.podm("Unused", "Unused", "Composed", "Unused"))
        self.assertEqual(after.block_counts.free.tolist(), overlay.view.block_counts.free.tolist())
        self.assertEqual(
            after.podm_block_counts.free.tolist(), overlay.view.podm_block_counts.free.tolist()
        )
        self.assertEqual(after.block_tables[1].slots, overlay.view.block_tables[1].slots)
        undo()
        before = view(other, self.podm("Composed", "Unused", "Composed", "Composed"))
        self.assertEqual(before.block_counts.free.tolist(), overlay.view.block_counts.free.tolist())
        self.assertEqual(
            before.podm_block_counts.free.tolist(), overlay.view.podm_block_counts.free.tolist()
        )
        self.assertEqual(before.block_tables[1].slots, overlay.view.block_tables[1].slots)


ENOUGH = 10_000_000  # states of a search
POOLS = st.lists(st.lists(STOCKS, max_size=4), min_size=1, max_size=3)


def count_grants(pool, amount):
    """Count by hand: grant repeatedly until no stock has room."""
    number = 0
    for pool_stock in pool:
        stock = pool_stock
        while (granted := grant_size(stock, amount)) is not None:
            stock = msgspec.structs.replace(stock, used=stock.used + granted)
            number += 1
    return number


class TestGrants(unittest.TestCase):
    """Exact for equal amounts, for any min, max and step."""

    @quietly(100)
    @given(POOLS, st.integers(1, 8))
    def test_the_count_equals_grants_made_one_by_one(self, pools, amount):
        grants = build_grants([grant_bounds(pool) for pool in pools])
        by_hand = [count_grants(pool, amount) for pool in pools]
        self.assertEqual(by_hand, grants.grant_count(amount).tolist())

    @quietly(100)
    @given(POOLS, st.integers(1, 6), st.integers(1, 4))
    def test_as_many_can_be_allocated_as_are_counted(self, pools, amount, count):
        number = build_grants([grant_bounds(pool) for pool in pools]).grant_count(amount)
        for pool, most in zip(pools, number, strict=True):
            self.assertEqual(
                most >= count, allocate(pool, [amount] * count, ENOUGH).found is not None
            )

    @quietly(100)
    @given(POOLS, st.integers(1, 6))
    def test_one_grant_comes_from_the_stock_that_the_allocation_chooses(self, pools, amount):
        after = build_grants([grant_bounds(pool) for pool in pools]).after_grants(amount, 1)
        for row, pool in enumerate(pools):
            rest = [free_amount(stock) for stock in pool]
            for number, granted in allocate(pool, [amount], ENOUGH).found or []:
                rest[number] -= granted
            free_here = after.free[after.start[row] : after.start[row + 1]]
            self.assertEqual(rest or [0.0], free_here.tolist())

    def test_several_grants_empty_the_tightest_first(self):
        grants = build_grants([[(9.0, 0.0, np.inf, 0.0), (4.0, 0.0, np.inf, 0.0)]])
        self.assertEqual([7.0, 0.0], grants.after_grants(2.0, 3).free.tolist())
