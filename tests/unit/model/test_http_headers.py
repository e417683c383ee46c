# SPDX-License-Identifier: Apache-2.0
"""HTTP headers: values, the route through zones, and the zones missing from a list."""

import unittest

from hypothesis import given, strategies as st

from valence_sched.model.decision import SilentZone
from valence_sched.model.http import header_problem, parse_route
from valence_sched.model.zone import (
    MOST_HEADER_CHARS,
    ZonedList,
    parse_silent_header,
    silent_header,
    silent_zones,
)


class TestHeaderProblem(unittest.TestCase):
    def test_one_line_of_latin_1_can_be_sent(self):
        self.assertIsNone(header_problem({"Accept": "*/*", "X-A": "a\tb \xe4\xff", "X-B": ""}))

    def test_the_first_that_cannot_be_sent_is_named_and_its_value_is_not(self):
        for character, what in (
            ("\n", "a line break or NUL"),
            ("\r", "a line break or NUL"),
            ("\0", "a line break or NUL"),
            ("\u0100", "a character beyond Latin-1"),
            ("\U0001f600", "a character beyond Latin-1"),
        ):
            with self.subTest(character):
                headers = {"Accept": "*/*", "X-Auth-Token": f"a{character}b", "If-Match": "\n"}
                self.assertEqual(
                    f"header X-Auth-Token: found {what}, expected one line of Latin-1",
                    header_problem(headers),
                )


class TestRoute(unittest.TestCase):
    """Comma-separated ids, and nothing else."""

    def test_it_is_read_as_it_was_written(self):
        for text, ids in (
            (None, ()),
            ("", ()),
            ("a1", ("a1",)),
            ("a,b-2,c_3", ("a", "b-2", "c_3")),
        ):
            with self.subTest(text):
                self.assertEqual(ids, parse_route(text))

    def test_what_is_none_is_refused(self):
        for text in ("a,", ",a", "a b", "ä", "a\n", "x" * 65, ",".join("a" * 33)):
            with self.subTest(text), self.assertRaisesRegex(ValueError, "up to 32 ids"):
                parse_route(text)


WORDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=60)
ZONES = st.lists(st.builds(SilentZone, zone=WORDS, reason=WORDS), max_size=8)


def zone(name="east", reason="it did not answer in time"):
    return SilentZone(zone=name, reason=reason)


class TestHeader(unittest.TestCase):
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
        for text in ("x", "{}", '[{"zone": 1}]', '[{"zone": "east"}]',
                     '[{"x": ' + "[" * 3_000):  # fmt: skip
            with self.subTest(text[:20]), self.assertRaisesRegex(ValueError, "^Silent-Zones: "):
                parse_silent_header(text)
        self.assertEqual((), parse_silent_header(""))


class TestList(unittest.TestCase):
    def test_it_is_a_list_that_knows_what_it_lacks(self):
        found = ZonedList([1, 2], [zone()])
        self.assertEqual([1, 2], found)
        self.assertEqual((zone(),), silent_zones(found))
        self.assertEqual((), silent_zones([1]))
