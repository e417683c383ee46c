# SPDX-License-Identifier: Apache-2.0
"""Whole words of model names."""

import unittest

from valence_sched.model.words import has_words


class TestWords(unittest.TestCase):
    """Model names are free text."""

    # (text of the podm, words asked for, whether they stand in it)
    TABLE = (
        ("NVIDIA A100-SXM4-80GB", "A100", True),
        ("NVIDIA A100-SXM4-80GB", "a100", True),
        ("NVIDIA A100-SXM4-80GB", "nvidia a100", True),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB", False),  # not side by side
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB", True),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4", True),
        ("NVIDIA A100-SXM4-80GB", "A10", False),  # a word is whole
        ("NVIDIA A10", "A100", False),
        ("NVIDIA A10", "A10", True),
        ("NVIDIA A10G", "A10", False),
        ("NVIDIA A100X", "A100", False),
        ("Tesla V100_PCIE_16GB", "v100", True),
        ("Intel(R) Xeon(R) Gold 6338", "Xeon Gold", True),
        ("Intel(R) Xeon(R) Gold 6338", "Gold 6338", True),
        ("Intel Xeon Gold 6338", "Gold Xeon", False),
        ("AMD EPYC 7713", "EPYC", True),
        ("AMD EPYC 7713", "EPYC 7713 64-Core", False),
        ("", "A100", False),
        ("A100", "", True),
        ("Straße GPU", "STRASSE", True),
    )

    def test_words_stand_whole_in_order_and_side_by_side(self):
        for text, words, expected in self.TABLE:
            with self.subTest(text=text, words=words):
                self.assertIs(expected, has_words(text, words))
