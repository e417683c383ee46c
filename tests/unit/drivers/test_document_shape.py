# SPDX-License-Identifier: Apache-2.0
"""Documents in older and drifted forms, one by one and many of one pod manager."""

from __future__ import annotations

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.drivers.document_shape import MAX_NAMES, ShapeMemo, current_form

LINKS = [{"@odata.id": "/a"}]
TYPES = st.sampled_from([
    "#Zone.v1_0_0.Zone", "#ZoneCollection.ZoneCollection", "#ComputerSystem.v1_0_0.ComputerSystem",
    "#ComputerSystem.1.0.0", "#1.0", "", None, 7, ["#Zone.v1_0_0.Zone"],
])  # fmt: skip
VALUES = st.sampled_from([None, 1, "x", LINKS, {}, {"@odata.id": "/b"}, {"a": LINKS}])
NAMES = st.sampled_from([
    "Name", "Members", "members", "Members@odata.count", "Mem", "bers", "Value", "Items", "Type",
    "Processors", "Memory", "ResourceBlocks", "@odata.context", "nextLink",
])  # fmt: skip
BELOW = st.one_of(VALUES, st.dictionaries(NAMES, VALUES, max_size=3))


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a document that may be a collection, or nearly one."""
    found: dict[str, Any] = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    if draw(st.booleans()):
        found["@odata.type"] = draw(TYPES)
    if draw(st.booleans()):
        found[draw(st.sampled_from(["Links", "links"]))] = draw(BELOW)
    return found


class ShapeMemoTest(TestCase):
    @given(st.lists(st.tuples(documents(), st.booleans()), max_size=8))
    def test_every_document_has_the_form_that_it_has_alone(
        self, drawn: list[tuple[dict[str, Any], bool]]
    ) -> None:
        memo = ShapeMemo()
        for json, root in drawn * 2:
            expected, found = current_form(json, root=root), memo.current_form(json, root=root)
            self.assertEqual(expected, found)
            self.assertEqual(list(expected), list(found))

    def test_a_document_in_the_present_form_is_itself(self) -> None:
        memo = ShapeMemo()
        json = {"@odata.type": "#Zone.v1_0_0.Zone", "Links": {"ResourceBlocks": LINKS}}
        for _ in range(2):
            self.assertIs(json, memo.current_form(json))

    def test_one_shape_does_not_hide_the_members_of_another(self) -> None:
        memo = ShapeMemo()
        memo.current_form({"@odata.type": "#Zone.v1_0_0.Zone", "Name": "a"})
        odd = {"@odata.type": "#Zone.v1_0_0.Zone", "Name": "a", "members": LINKS}
        self.assertEqual(LINKS, memo.current_form(odd)["Members"])
        below = {"@odata.type": "#Zone.v1_0_0.Zone", "Links": {"Members": LINKS}}
        self.assertEqual(LINKS, memo.current_form(below)["Members"])

    def test_of_very_many_names_or_long_ones_not_all_are_remembered(self) -> None:
        memo, told = ShapeMemo(), "#Zone.v1_0_0.Zone"
        for number in range(3 * MAX_NAMES // 2):
            json = {"@odata.type": told, f"Name{number}": 1}
            self.assertIs(json, memo.current_form(json))
            self.assertLessEqual(len(memo), MAX_NAMES)
        before = len(memo)
        for json in ({"@odata.type": told, "x" * 10_000: 1}, {"@odata.type": f"#{'x' * 10_000}.Y"}):
            self.assertIs(json, memo.current_form(json))
        self.assertEqual(before, len(memo))
