# SPDX-License-Identifier: Apache-2.0
"""Lists over zones: what they lack goes into a header and comes out of it as it was."""

import unittest

from hypothesis import given
from hypothesis import strategies as st

from valence_sched.model.decision import SilentZone
from valence_sched.model.zoned_list import (
    MOST_HEADER_CHARS,
    ZonedList,
    parse_silent_header,
    silent_header,
    silent_zones,
)

WORDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=60)
ZONES = st.lists(st.builds(SilentZone, zone=WORDS, reason=WORDS), max_size=8)


def zone(name="east", reason="it did not answer in time"):
    return SilentZone(zone=name, reason=reason)


class TestHeader(unittest.TestCase):
    """Zones as a header."""

    @given(ZONES)
    def test_a_header_has_the_names_and_is_plain_ascii(self, zones):
        header = silent_header(zones)
        self.assertTrue(header.isascii() and header.isprintable(), header)
        found = parse_silent_header(header)
        self.assertEqual([one.zone for one in zones], [one.zone for one in found])

    def test_zones_that_are_too_many_are_counted(self):
        header = silent_header([zone(f"z{number}", "x" * 900) for number in range(100)])
        self.assertLess(len(header), MOST_HEADER_CHARS + 200)
        *found, rest = parse_silent_header(header)
        self.assertEqual(
            [f"z{number}" for number in range(len(found))], [one.zone for one in found]
        )
        self.assertGreater(len(found), 10)
        self.assertEqual(f"{100 - len(found)} more", rest.zone)

    def test_no_password_is_in_a_header_and_no_control_character_comes_out(self):
        header = silent_header([zone(reason="http://u:hunter2@x: refused")])
        self.assertNotIn("hunter2", header)
        (found,) = parse_silent_header(silent_header([zone("a\x1b[2J")]))
        self.assertTrue(found.zone.isprintable(), found)

    def test_a_header_that_is_none_is_an_error(self):
        for text in ("x", "{}", '[{"zone": 1}]', '[{"zone": "east"}]'):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "^Silent-Zones: "):
                parse_silent_header(text)
        self.assertEqual((), parse_silent_header(""))


class TestList(unittest.TestCase):
    """The list itself."""

    def test_it_is_a_list_that_knows_what_it_lacks(self):
        found = ZonedList([1, 2], [zone()])
        self.assertEqual([1, 2], found)
        self.assertEqual((zone(),), silent_zones(found))
        self.assertEqual((), silent_zones([1]))
