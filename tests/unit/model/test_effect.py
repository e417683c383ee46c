# SPDX-License-Identifier: Apache-2.0
"""The log of effects: what may have happened is in it from the moment on that it may."""

import unittest

from valence_sched.errors import ClaimLost, StoreError, Unverified
from valence_sched.model.effect import EffectLog


def uncertain() -> StoreError:
    error = StoreError("gone")
    error.uncertain = True
    return error


class TestEffectLog(unittest.TestCase):
    """A claim, and how its change ends."""

    def test_a_change_is_noted_before_after_and_not_where_it_failed(self):
        for error, expected in (
            (None, ["claim c is held"]),
            (ClaimLost("other"), []),
            (StoreError("full"), []),
            (uncertain(), ["claim c may be held"]),
            (Unverified("what is there?"), ["claim c may be held"]),
            (KeyboardInterrupt(), ["claim c may be held"]),
            (ValueError("a bug"), ["claim c may be held"]),
        ):
            with self.subTest(repr(error)):
                effects = EffectLog()
                try:
                    with effects.change("claim", "c", "may be held", "is held"):
                        self.assertEqual(["claim c may be held"], effects.unnamed_lines())
                        if error is not None:
                            raise error
                except BaseException as caught:
                    self.assertIs(error, caught)
                self.assertEqual(expected, effects.unnamed_lines())
                self.assertEqual(bool(expected), bool(effects))

    def test_a_change_that_failed_leaves_what_was_known_before(self):
        effects = EffectLog()
        effects.note("node", "n", "is composed")
        with self.assertRaises(ClaimLost), effects.change("node", "n", "may be gone", "is gone"):
            raise ClaimLost("other")
        self.assertEqual(["node n is composed"], effects.unnamed_lines())

    def test_what_a_delivered_text_names_as_a_word_is_named(self):
        effects = EffectLog()
        for name in ("c1", "c2", "c.3"):
            effects.note("claim", name, "is held")
        effects.mark_named("| c1 | c22 | cx3 |")
        self.assertEqual(["claim c2 is held", "claim c.3 is held"], effects.unnamed_lines())
