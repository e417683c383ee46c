# SPDX-License-Identifier: Apache-2.0
"""The blocks of a pool by kind and place: cut to what can help, and numbered without names."""

import unittest

from valence_sched.core.fit.topology import BlockGroup, block_offer, blocks_by_value
from valence_sched.testing import view
from valence_sched.view.block_kinds import BlockKinds


def kinds() -> BlockKinds:
    """Return three kinds of block."""
    blocks = [{"uri": f"b{n}", "devices": {"processors": [{"cores": n}]}} for n in (1, 2, 3)]
    made: BlockKinds = view({"id": "a", "blocks": blocks}).kinds
    return made


KINDS = kinds()
#: Their numbers in the order in which they are offered.
A, B, C = sorted(range(3), key=lambda number: KINDS.kinds[number].sort_key)


def offer(free, useful=lambda kind: 9, most: int = 9):
    return block_offer(free, KINDS, useful, most)


class TestOffer(unittest.TestCase):
    """Which blocks of a pool are offered."""

    def test_no_more_of_a_group_than_could_help_and_none_of_a_kind_that_cannot(self):
        free = {(A, ("x",)): 5, (B, ("x",)): 2, (C, ("x",)): 7}
        found = offer(free, {A: 3, B: 3, C: 0}.__getitem__)
        self.assertEqual((BlockGroup(A, (0,), 3), BlockGroup(B, (0,), 2)), found.groups)
        self.assertEqual(((A, ("x",)), (B, ("x",))), found.keys)

    def test_nothing_free_or_nothing_useful_is_an_empty_offer(self):
        self.assertEqual(((), ()), tuple(offer({})))
        self.assertEqual(((), ()), tuple(offer({(A, ("x",)): 5}, lambda kind: 0)))

    def test_values_are_numbered_by_the_blocks_at_them_not_by_their_names(self):
        for names in (("x", "y"), ("y", "x")):
            one, two = names
            found = offer({(B, (one,)): 1, (A, (two,)): 2, (B, (two,)): 1})
            self.assertEqual(
                (BlockGroup(A, (0,), 2), BlockGroup(B, (0,), 1), BlockGroup(B, (1,), 1)),
                found.groups,
            )
            self.assertEqual(((A, (two,)), (B, (two,)), (B, (one,))), found.keys)

    def test_of_values_with_equal_blocks_the_first_name_has_the_first_number(self):
        found = offer({(A, ("b",)): 1, (A, ("a",)): 1, (A, ("c",)): 1})
        self.assertEqual([(0,), (1,), (2,)], [group.values for group in found.groups])
        self.assertEqual(((A, ("a",)), (A, ("b",)), (A, ("c",))), found.keys)

    def test_fewer_blocks_of_a_kind_come_before_more(self):
        found = offer({(A, ("a",)): 2, (A, ("b",)): 1})
        self.assertEqual(((A, ("b",)), (A, ("a",))), found.keys)

    def test_an_unreported_value_stays_so_and_comes_first(self):
        found = offer({(A, ("a",)): 2, (A, (None,)): 1, (B, (None,)): 1})
        self.assertEqual([(A, (None,)), (A, (0,)), (B, (None,))],
                         [group[:2] for group in found.groups])  # fmt: skip

    def test_each_domain_has_numbers_of_its_own(self):
        found = offer({(A, ("r1", "x")): 1, (A, ("r1", "y")): 1, (B, ("r2", "y")): 1})
        self.assertEqual([(A, (0, 0)), (A, (0, 1)), (B, (1, 1))],
                         [group[:2] for group in found.groups])  # fmt: skip

    def test_of_values_with_equal_blocks_no_more_remain_than_a_node_has_blocks(self):
        free = {(A, (name,)): 1 for name in "abcde"} | {(B, ("f",)): 1}
        self.assertEqual(((A, ("a",)), (A, ("b",)), (B, ("f",))), offer(free, most=2).keys)
        self.assertEqual(6, len(offer(free, most=5).keys))
        self.assertEqual(5, len(offer(free, most=4).keys))

    def test_values_are_equal_only_with_equal_blocks_in_the_other_domains_too(self):
        free = {(A, ("a", "x")): 1, (A, ("b", "x")): 1, (A, ("c", "y")): 2, (A, ("d", None)): 1}
        keys = set(offer(free, most=1).keys)
        self.assertEqual(3, len(keys))
        self.assertTrue({(A, ("c", "y")), (A, ("d", None))} < keys)


class TestByValue(unittest.TestCase):
    """What stands at each value of a domain."""

    def test_it_is_the_kinds_the_other_values_and_the_numbers(self):
        groups = [BlockGroup(A, (1, 5), 2), BlockGroup(B, (0, None), 3), BlockGroup(C, (1, 6), 1),
                  BlockGroup(A, (None, 6), 4)]  # fmt: skip
        first, second = blocks_by_value(groups, 0), blocks_by_value(groups, 1)
        self.assertEqual({0: {(B, (None,), 3)}, 1: {(A, (5,), 2), (C, (6,), 1)}}, first)
        self.assertEqual([0, 1], list(first))
        self.assertEqual({5: {(A, (1,), 2)}, 6: {(C, (1,), 1), (A, (None,), 4)}}, second)
        self.assertEqual({}, blocks_by_value([], 0))
