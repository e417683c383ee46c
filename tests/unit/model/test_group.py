# SPDX-License-Identifier: Apache-2.0
"""Groups: their rules, and the counts of their members."""

import unittest

from valence_sched.model.group import Group, GroupState, Spread


class TestGroup(unittest.TestCase):
    """Rules of groups and counts of members."""

    def test_rules_are_hard_or_soft_and_name_their_domains(self):
        hard = Group(
            name="g", at_most={"zone": 2}, affinity=("location",), spread=(Spread("zone"),)
        )
        self.assertEqual((True, False), (hard.hard, hard.soft))
        self.assertEqual(("location", "zone"), hard.domains)
        soft = Group(name="g", soft_affinity=("zone",), spread=(Spread("podm", 2, True),))
        self.assertEqual((False, True), (soft.hard, soft.soft))
        self.assertEqual(("zone", "podm"), soft.domains)
        self.assertEqual((False, False), (Group(name="g").hard, Group(name="g").soft))

    def test_the_smallest_count_of_an_open_value_may_be_0(self):
        state = GroupState(members={"zone": {"a": 3, "b": 1, "shut": 0}}, open={"zone": ("a", "b")})
        self.assertEqual(1, state.fewest_members("zone"))
        self.assertEqual(0, GroupState(open={"zone": ("a", "c")}).fewest_members("zone"))
        self.assertEqual(0, GroupState().fewest_members("zone"))
