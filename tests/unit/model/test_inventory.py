# SPDX-License-Identifier: Apache-2.0
"""The nouns of an inventory: how a block's state is read, and capabilities as text."""

import itertools
import unittest

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.sites import quietly
from valence_sched.model.inventory import (
    CompositionState,
    FullPodm,
    Status,
    format_capabilities,
    parse_capabilities,
    to_json,
)

STATES = CompositionState.__args__


class TestSlots(unittest.TestCase):
    """How many more nodes may use a block: redfish.md, ResourceBlock."""

    # (words of the status, slots)
    READINGS = (
        ({}, 1),
        ({"state": "Unused"}, 1),
        ({"state": "Composing"}, 0),
        ({"state": "Composed"}, 0),
        ({"state": "Composed", "compositions": 1}, 0),
        ({"state": "ComposedAndAvailable", "compositions": 1}, 0),
        ({"state": "Failed"}, 0),
        ({"state": "Unavailable"}, 0),
        ({"state": "Unknown"}, 0),
        # the block says it is free and counts a node: the strictest reading
        ({"state": "Unused", "compositions": 1}, 0),
        ({"state": "Unused", "max_compositions": 5}, 1),
        ({"state": "Unused", "max_compositions": 0}, 1),
        # one statement against it is enough
        ({"reserved": True}, 0),
        ({"enabled": False}, 0),
        ({"enabled": True}, 1),
        ({"active": True}, 0),
        ({"health": "Critical"}, 0),
        ({"health": "Warning"}, 1),
        ({"health": "OK"}, 1),
        ({"client": "somebody"}, 1),
        # sharing
        ({"shareable": True}, 1),
        ({"shareable": True, "max_compositions": 4}, 4),
        ({"shareable": True, "max_compositions": 0}, 0),
        ({"shareable": True, "max_compositions": 4, "compositions": 1}, 3),
        ({"shareable": True, "max_compositions": 4, "compositions": 5}, 0),
        ({"shareable": True, "state": "ComposedAndAvailable"}, 1),
        ({"shareable": True, "state": "ComposedAndAvailable", "compositions": 7}, 1),
        (
            {
                "shareable": True,
                "state": "ComposedAndAvailable",
                "max_compositions": 4,
                "compositions": 3,
            },
            1,
        ),
        ({"shareable": True, "state": "Composed", "max_compositions": 4}, 0),
        ({"shareable": True, "state": "Failed", "max_compositions": 4}, 0),
    )

    def test_readings(self):
        for words, slots in self.READINGS:
            with self.subTest(words):
                self.assertEqual(slots, msgspec.convert(words, Status).slots)

    def test_every_state_and_every_flag_together_is_read_by_the_same_rules(self):
        every = itertools.product(
            STATES,
            (False, True),
            (None, False, True),
            (None, "OK", "Warning", "Critical"),
            (False, True),
            (False, True),
            (None, 0, 1, 3),
            (0, 1, 3),
        )
        table = {
            (state, reserved, enabled, health, active, shareable, most, count): Status(
                state=state,
                reserved=reserved,
                enabled=enabled,
                health=health,
                active=active,
                shareable=shareable,
                max_compositions=most,
                compositions=count,
            ).slots
            for state, reserved, enabled, health, active, shareable, most, count in every
        }
        self.assertEqual(7 * 2 * 3 * 4 * 2 * 2 * 4 * 3, len(table))
        for words, slots in table.items():
            state, reserved, enabled, health, active, shareable, most, count = words
            barred = reserved or enabled is False or health == "Critical" or active
            if barred or state not in ("Unused", "ComposedAndAvailable"):
                self.assertEqual(0, slots, words)
            elif not shareable:
                self.assertEqual(int(state == "Unused" and count == 0), slots, words)
            else:
                self.assertEqual(1 if most is None else max(0, most - count), slots, words)

    def test_states_are_those_of_redfish(self):
        self.assertEqual(
            {
                "Unused",
                "Composing",
                "Composed",
                "ComposedAndAvailable",
                "Failed",
                "Unavailable",
                "Unknown",
            },
            set(STATES),
        )


TEXT = st.text("abcXYZ09_-.: /é", min_size=1, max_size=6).map(str.strip).filter(bool)
CAPABILITIES = st.dictionaries(TEXT, st.lists(TEXT, min_size=1, max_size=3).map(tuple), max_size=4)


class TestCapabilities(unittest.TestCase):
    """``key=value;value, key=value``."""

    @quietly(300)
    @given(CAPABILITIES)
    def test_parsing_what_was_printed_gives_it_back(self, found):
        """S45: the capability string makes the round trip."""
        self.assertEqual(found, parse_capabilities(format_capabilities(found)))

    @quietly(300)
    @given(CAPABILITIES)
    def test_printing_what_was_parsed_gives_it_back(self, found):
        """S45: the text is canonical after one round."""
        text = format_capabilities(found)
        self.assertEqual(text, format_capabilities(parse_capabilities(text)))

    def test_the_form_of_the_zone_aware_scheduler(self):
        found = parse_capabilities("hypervisor=xenserver;kvm, os=linux;windows")
        self.assertEqual({"hypervisor": ("xenserver", "kvm"), "os": ("linux", "windows")}, found)

    def test_spaces_and_empty_items_do_not_matter(self):
        self.assertEqual({"a": ("1", "2"), "b": ("3",)}, parse_capabilities(" a = 1 ; 2 ,, b=3 ,"))
        self.assertEqual({}, parse_capabilities(" "))

    def test_a_key_twice_adds_up(self):
        self.assertEqual({"a": ("1", "2")}, parse_capabilities("a=1, a=2"))

    def test_an_equals_sign_in_a_value_stays(self):
        self.assertEqual({"a": ("b=c",)}, parse_capabilities("a=b=c"))

    def test_what_is_not_key_and_value_is_refused(self):
        for text in ("a", "=b", "a=", "a=b;", "a=b;;c", " =b", "a=1, b"):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "is not key=value"):
                parse_capabilities(text)


class TestDocument(unittest.TestCase):
    """JSON."""

    def test_a_podm_makes_the_round_trip(self):
        words = {
            "id": "a",
            "facts": {"year": 2020.5, "owner": "x", "tags": ["p", "q"]},
            "pools": [{"id": "p", "limits": {"Compute": {"min": 1, "max": 2}}}],
            "blocks": [
                {
                    "uri": "b",
                    "type": ["Compute"],
                    "pools": ["p"],
                    "status": {"state": "Composed", "client": "me"},
                    "devices": {"processors": [{"cores": 8}]},
                }
            ],
            "stocks": [{"uri": "s", "resource": "gib", "total": 10.0, "step": 2.5}],
        }
        podm = msgspec.convert(words, FullPodm)
        self.assertEqual(podm, msgspec.json.decode(to_json(podm), type=FullPodm))
        self.assertEqual(words, msgspec.json.decode(to_json(podm)))
