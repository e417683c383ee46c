# SPDX-License-Identifier: Apache-2.0
"""Where pod managers stand: which stay, and how a rejection reads."""

import unittest

from tests.unit.core.deciders import engine_of
from valence_sched.core.explain.verdicts import Verdicts
from valence_sched.errors import RequestError
from valence_sched.filters.location import location
from valence_sched.model.request import Request
from valence_sched.testing import request, view

TOLD = ("dc1/row-3", "dc1/row-3/rack-7", "dc1/row-33", "DC1/row-3", ["dc2/row-1", "dc1/row-4"], 7,
        "dc1/", None, [])  # fmt: skip
SITE = view(
    *(
        {"id": str(number), "facts": {} if reported is None else {"location": reported}}
        for number, reported in enumerate(TOLD)
    )
)


class TestLocation(unittest.TestCase):
    """The filter."""

    def passing(self, *locations: str) -> list:
        found = location(SITE, Request(locations=locations)).tolist()
        return [reported for reported, keep in zip(TOLD, found, strict=True) if keep]

    def test_a_location_holds_itself_and_what_is_below_it(self):
        self.assertEqual(["dc1/row-3", "dc1/row-3/rack-7"], self.passing("dc1/row-3"))
        self.assertEqual(["dc1/row-3/rack-7"], self.passing("dc1/row-3/rack-7"))
        self.assertEqual([], self.passing("dc1/row-3/rack-7/slot-1"))
        self.assertEqual([], self.passing("row-3"))

    def test_a_name_that_begins_alike_is_another_location(self):
        self.assertEqual(["dc1/row-33"], self.passing("dc1/row-33"))
        self.assertEqual([], self.passing("dc1/row"))

    def test_upper_and_lower_case_differ(self):
        self.assertEqual(["DC1/row-3"], self.passing("DC1"))

    def test_a_slash_at_the_end_does_not_matter(self):
        self.assertEqual(self.passing("dc1"), self.passing("dc1/"))
        self.assertIn("dc1/", self.passing("dc1"))

    def test_a_letter_at_the_end_does(self):
        site = view(*({"id": str(n), "facts": {"location": f"dc/{name}"}}
                      for n, name in enumerate(("rack-X", "rack-", "rack-XX"))))  # fmt: skip
        found = location(site, Request(locations=("dc/rack-X/",)))
        self.assertEqual([True, False, False], found.tolist())

    def test_one_of_several_is_enough_on_either_side(self):
        self.assertEqual([["dc2/row-1", "dc1/row-4"]], self.passing("dc2"))
        self.assertEqual([["dc2/row-1", "dc1/row-4"]], self.passing("dc1/row-4", "nowhere"))
        self.assertEqual(
            ["dc1/row-33", ["dc2/row-1", "dc1/row-4"]], self.passing("dc1/row-33", "dc2")
        )

    def test_a_number_is_a_name(self):
        self.assertEqual([7], self.passing("7"))

    def test_without_a_wish_all_stay_those_that_tell_nothing_too(self):
        self.assertEqual(list(TOLD), self.passing())

    def test_a_reason_has_the_locations_and_what_is_told(self):
        for reported, text in (
            ("dc9", "location: needs dc1 or dc2, has dc9"),
            (["dc8", "dc9"], "location: needs dc1 or dc2, has dc8, dc9"),
            (None, "location: needs dc1 or dc2, has unknown"),
        ):
            podm = {"id": "a", "facts": {} if reported is None else {"location": reported}}
            asked = request({"processor": {"sockets": 1}}, locations=("dc1", "dc2"))
            found = Verdicts(engine_of(podm).select_destinations(asked)).reasons(0)
            self.assertIn(text, [reason.text for reason in found])

    def test_a_location_without_a_name_is_refused(self):
        for name in ("", "/", "//"):
            with self.subTest(name), self.assertRaises(RequestError):
                request({"processor": {"sockets": 1}}, locations=("dc1", name))
