# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows of live pod managers is what the programs print."""

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
