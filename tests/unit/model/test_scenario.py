# SPDX-License-Identifier: Apache-2.0
"""Scenario nouns: targets as text and as maps, and contradictory edits."""

import unittest

from hypothesis import given, strategies as st

from valence_sched.errors import InputError
from valence_sched.model.scenario import (
    AddBlocks,
    Clone,
    Drain,
    Fail,
    SetAttributes,
    Target,
    edit_text,
    parse_target,
)

NAMES = st.text("ab*/@= ü", min_size=1, max_size=6)


class TestTarget(unittest.TestCase):
    def test_pod_managers_pools_and_blocks_have_a_short_form(self):
        for text, target in (
            ("east", Target(podm="east")),
            ("east/a", Target(podm="east", pool="a")),
            ("GPU-*@east", Target(podm="east", block="GPU-*")),
            ("/redfish/v1/GPU-1@east", Target(podm="east", block="/redfish/v1/GPU-1")),
            ("a@b@east/p/q", Target(podm="east", pool="p/q", block="a@b")),
        ):
            with self.subTest(text):
                self.assertEqual(target, parse_target(text))
                self.assertEqual(text, str(target))

    def test_conditions_are_keys_with_values(self):
        text = "model=A100 SXM4,free=yes,zone=az2"
        target = Target(model="A100 SXM4", free=True, zone="az2")
        self.assertEqual(target, parse_target(text))
        self.assertEqual(target, parse_target(str(target)))
        self.assertEqual(Target(podm="a=b"), parse_target("podm=a=b"))
        self.assertEqual("podm=a/b", str(Target(podm="a/b")))

    def test_the_conditions_say_whether_it_is_blocks_pools_or_pod_managers(self):
        for target, blocks, pools in (
            (Target(zone="az1"), False, False),
            (Target(pool="a"), False, True),
            (Target(pool="a", free=False), True, False),
            (Target(podm="east", model="A100"), True, False),
        ):
            self.assertEqual((blocks, pools), (target.selects_blocks, target.selects_pools))

    def test_other_words_are_refused_with_what_is_expected(self):
        for text, problem in (
            ("", "BLOCK@PODM"),
            ("@east", "BLOCK@PODM"),
            ("g1@", "BLOCK@PODM"),
            ("east/", "BLOCK@PODM"),
            ("modle=A100", "did you mean 'model'?"),
            ("status=Ofline", "did you mean 'Offline'?"),
            ("free=maybe", "free"),
            ("model=A100,az2", "'az2', expected KEY=VALUE"),
            ("zone=a,zone=b", "'zone' twice"),
        ):
            with self.subTest(text), self.assertRaises(InputError) as caught:
                parse_target(text)
            self.assertIn(problem, str(caught.exception))

    @given(st.builds(Target, podm=NAMES, pool=NAMES | st.none(),
                     block=NAMES | st.none(), free=st.booleans() | st.none()))  # fmt: skip
    def test_a_target_is_what_its_text_says(self, target):
        self.assertEqual(target, parse_target(str(target)))


class TestEdits(unittest.TestCase):
    """Invalid edits."""

    def test_an_edit_takes_its_target_as_words_or_as_a_map(self):
        self.assertEqual(Target(podm="east"), Fail("east").target)
        self.assertEqual(Target(pool="a"), Drain(Target(pool="a")).target)
        self.assertEqual(Target(podm="east"), AddBlocks("g1", "east").target)

    def test_an_edit_that_contradicts_itself_is_refused(self):
        for make in (
            lambda: Clone("east/a"),
            lambda: Clone(Target(model="A100")),
            lambda: AddBlocks("g1", "g1@east"),
            lambda: SetAttributes("east"),
            lambda: SetAttributes("east", health="OK"),
            lambda: SetAttributes("east/a", zone="az1"),
            lambda: SetAttributes("g1@east", traits=("X",)),
        ):
            with self.assertRaisesRegex(ValueError, "^Expected "):
                make()
        with self.assertRaises(InputError):
            Fail("east/")
        with self.assertRaisesRegex(ValueError, "^Expected at least one condition"):
            Target()

    def test_null_is_a_value_that_is_set_and_an_attribute_left_out_is_not(self):
        edit = SetAttributes("east", zone=None, facts={"price": None})
        self.assertEqual({"zone": None, "facts": {"price": None}}, edit.changes)

    def test_an_edit_in_a_few_words(self):
        self.assertEqual("fail g*@east", edit_text(Fail("g*@east")))
        self.assertEqual("clone east x3", edit_text(Clone("east", 3)))
        self.assertEqual("add 2xg1@east/a", edit_text(AddBlocks("g1", "east/a", 2)))
        edit = SetAttributes("zone=az1", zone="az2", facts={"a": 1})
        self.assertEqual("set zone=az1: zone, facts.a", edit_text(edit))
