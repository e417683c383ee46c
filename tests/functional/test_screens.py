# SPDX-License-Identifier: Apache-2.0
"""The screens of live pod managers in the documentation match the programs."""

import unittest

from tests.functional.screens import FAILS, SCREENS, replayed


class TestScreens(unittest.TestCase):
    """Every transcript below ``doc/source/screens``."""

    maxDiff = None

    def test_every_transcript_is_what_its_commands_print(self):
        self.assertEqual(sorted(FAILS), sorted(path.name for path in SCREENS.iterdir()))
        for name in FAILS:
            with self.subTest(name):
                self.assertEqual((SCREENS / name).read_text(), replayed(name))
