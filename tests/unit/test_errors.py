# SPDX-License-Identifier: Apache-2.0
"""The errors about unknown names."""

import unittest

from valence_sched.errors import (
    PodmError,
    StoreError,
    Undecodable,
    UnknownName,
    Unverified,
    suggest,
)
from valence_sched.model.http import problem_of

FLAVORS = ("gpu-large", "large", "small")


class TestSuggest(unittest.TestCase):
    """The hint about a name that is unknown."""

    def test_the_nearest_is_named_and_where_none_is_near_all_are(self):
        self.assertEqual("did you mean 'small'?", suggest("smal", FLAVORS))
        self.assertEqual("known: gpu-large, large, small", suggest("xyz", FLAVORS))
        halls = ("Hall, east", "hall-1")
        self.assertEqual("known: 'Hall, east', hall-1", suggest("xyz", halls))
        self.assertEqual("no name is known", suggest("xyz", ()))

    def test_the_case_of_letters_and_spaces_around_them_do_not_make_a_name_far(self):
        for name in ("SMALL", " small", "Small "):
            self.assertEqual("did you mean 'small'?", suggest(name, FLAVORS, 0.99))

    def test_several_names_in_one_word_are_told_from_a_misspelt_one(self):
        for name in ("small,large", "small, large"):
            hint = "this is a list of names: give each name separately"
            self.assertEqual(hint, suggest(name, FLAVORS))
        self.assertEqual("did you mean 'small'?", suggest("small,", FLAVORS))

    def test_a_character_that_only_looks_like_one_of_the_name_is_named(self):
        hint = "did you mean 'small', without CYRILLIC SMALL LETTER DZE (U+0455)?"
        self.assertEqual(hint, suggest("\u0455mall", FLAVORS))
        error = UnknownName("pod manager", "gpu\u2010large", FLAVORS)
        self.assertIn("'gpu-large', without HYPHEN (U+2010)?", str(error))
        self.assertEqual("did you mean 'café'?", suggest("caféx", ("café",)))


class TestPublicText(unittest.TestCase):
    """The text that a tenant sees of an error about the state: an id, but no file or host."""

    def wrapped(self, cause, text):
        try:
            raise Unverified(text) from cause
        except Unverified as error:
            return error

    def test_the_place_of_a_state_is_in_the_text_for_an_operator_alone(self):
        cause = StoreError("/var/lib/state.sqlite: claiming: disk full")
        for text in (f"p: /n/1 is composed: {cause}: claim c", f"p: {cause}"[:30]):
            error = self.wrapped(cause, text)
            self.assertIn("/var/lib", str(error))
            self.assertNotIn("/var/lib", problem_of(error).detail)
        self.assertRegex(problem_of(cause).detail, "^the state cannot be used: try again later")
        cause.uncertain = True
        self.assertIn("this change may have been made", problem_of(cause).detail)

    def test_another_error_is_as_it_is(self):
        for error in (Undecodable("claim", "c1"), self.wrapped(PodmError("p: no"), "of p: no")):
            self.assertEqual(str(error), problem_of(error).detail)


if __name__ == "__main__":
    unittest.main()
