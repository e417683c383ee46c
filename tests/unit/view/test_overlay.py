# SPDX-License-Identifier: Apache-2.0
"""What a draft shows is what a View read anew would show once the node is composed."""

import json
import unittest

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from tests.unit.view.same import assert_same_rows, assert_same_view
from tests.unit.view.test_view import FULL_SITES
from valence_sched.model.stock import grant_size
from valence_sched.testing import contract, request, view
from valence_sched.view.overlay import Overlay

ASKED = request({"processor": {"sockets": 1}})


def composed(podm: dict, blocks: list[int], grants: list[tuple[int, float]]) -> dict:
    """Return the podm as it would tell once these are in use."""
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


class TestDraft(unittest.TestCase):
    """Virtual depletion."""

    @quietly(80)
    @given(FULL_SITES, st.randoms(use_true_random=False), st.booleans())
    def test_what_is_left_equals_an_inventory_in_which_it_was_taken(self, podms, random, warm):
        seen = view(*podms)
        if warm:  # sums that were asked for before may be carried over, and must still be right
            assert_same_view(self, seen, view(*podms))
        before = contract.fingerprint(seen, ASKED)
        draft = Overlay(seen)
        for _ in range(3):
            row = random.randrange(len(seen))
            podm = row // 2
            shelf = draft.view.block_tables[podm]
            # A shareable block without a maximum stays free for ever; a View cannot count that.
            free = [b for b, slots in enumerate(shelf.slots) if slots
                    and self.counted(podms[podm]["blocks"][b]["status"])]  # fmt: skip
            blocks = random.sample(free, random.randint(0, len(free)))
            grants = self.grants(shelf.stocks, random)
            first, last = draft.rows(podm)
            self.assertEqual((2 * podm, 2 * podm + 2), (first, last))
            undo = draft.allocate(row, blocks, grants)
            if random.random() < 0.3:
                undo()
            else:
                podms[podm] = composed(podms[podm], blocks, grants)
            assert_same_rows(self, view(*podms), [first, first + 1], draft.window(first, last))
        assert_same_view(self, view(*podms), draft.view)
        self.assertEqual(before, contract.fingerprint(seen, ASKED))

    @quietly(40)
    @given(FULL_SITES, st.randoms(use_true_random=False))
    def test_several_at_once_are_taken_and_given_back_as_one_after_another(self, podms, random):
        seen = view(*podms)
        at_once, one_by_one = Overlay(seen), Overlay(seen)
        takes = []
        for podm, shelf in enumerate(seen.block_tables):
            free = [block for block, slots in enumerate(shelf.slots) if slots]
            blocks = random.sample(free, random.randint(0, len(free)))
            takes.append((2 * podm, tuple(blocks), tuple(self.grants(shelf.stocks, random))))
        before = at_once.allocate_each(takes)
        undos = [one_by_one.allocate(*take) for take in takes]
        assert_same_view(self, one_by_one.view, at_once.view)
        at_once.apply(before[1:])
        for undo in undos[1:]:
            undo()
        assert_same_view(self, one_by_one.view, at_once.view)

    @staticmethod
    def counted(status: dict) -> bool:
        return not status.get("shareable") or "max_compositions" in status

    @staticmethod
    def grants(stocks, random) -> list[tuple[int, float]]:
        number = random.randrange(len(stocks)) if stocks else None
        amount = grant_size(stocks[number], random.randint(1, 4)) if stocks else None
        return [] if amount is None else [(number, amount)]

    def test_the_drafts_own_arrays_cannot_be_written_either(self):
        draft = Overlay(view({"id": "a", "blocks": [{"uri": "b"}],
                            "stocks": [{"uri": "s", "resource": "gib", "total": 9}]}))  # fmt: skip
        draft.allocate(0, [0], [(0, 2.0)])
        column = draft.view.resources["gib"]
        for array in (
            draft.view.block_counts.free,
            draft.view.podm_block_counts.free,
            *column.arrays(),
        ):
            self.assertFalse(array.flags.writeable)
        self.assertEqual(([7.0], [7.0]), (column.free.tolist(), column.largest_grant.tolist()))


class TestMore(unittest.TestCase):
    """A node that goes."""

    def podm(self, *states: str) -> dict:
        blocks = [
            {"uri": str(n), "type": ["Compute"], "pools": ["p"] if n % 2 else ["p", "q"],
             "status": {"state": state}, "devices": {"processors": [{"cores": 4 + n % 3}]}}
            for n, state in enumerate(states)
        ]  # fmt: skip
        return {"id": "a", "pools": [{"id": "p"}, {"id": "q"}], "blocks": blocks}

    def test_it_leaves_the_view_in_which_its_blocks_are_free(self):
        other = {**self.podm("Unused", "Composed"), "id": "z"}
        draft = Overlay(view(other, self.podm("Composed", "Unused", "Composed", "Composed")))
        undo = draft.remove_node(1, [0, 1, 3, 3])
        after = view(other, self.podm("Unused", "Unused", "Composed", "Unused"))
        self.assertEqual(after.block_counts.free.tolist(), draft.view.block_counts.free.tolist())
        self.assertEqual(
            after.podm_block_counts.free.tolist(), draft.view.podm_block_counts.free.tolist()
        )
        self.assertEqual(after.block_tables[1].slots, draft.view.block_tables[1].slots)
        undo()
        before = view(other, self.podm("Composed", "Unused", "Composed", "Composed"))
        self.assertEqual(before.block_counts.free.tolist(), draft.view.block_counts.free.tolist())
        self.assertEqual(
            before.podm_block_counts.free.tolist(), draft.view.podm_block_counts.free.tolist()
        )
        self.assertEqual(before.block_tables[1].slots, draft.view.block_tables[1].slots)
