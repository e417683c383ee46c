# SPDX-License-Identifier: Apache-2.0
"""The tutorial matches the output that its reader gets, from the first to the last command."""

import re
import unittest

from tests.functional.tutorial import PART, TRANSCRIPT, replayed

PAGE = TRANSCRIPT.with_suffix(".rst")


class TestTutorial(unittest.TestCase):
    maxDiff = None

    def test_every_screen_is_what_its_command_prints(self):
        transcript = TRANSCRIPT.read_text()
        self.assertGreater(len(PART.findall(transcript)), 12)
        self.assertEqual(transcript, replayed(transcript))

    def test_the_page_shows_every_part_in_the_order_in_which_it_is_run(self):
        shown = re.findall(r":start-after: (# .+)", PAGE.read_text())
        self.assertEqual([head.strip() for head in PART.findall(TRANSCRIPT.read_text())], shown)


if __name__ == "__main__":
    unittest.main()
