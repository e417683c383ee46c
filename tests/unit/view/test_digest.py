# SPDX-License-Identifier: Apache-2.0
"""The digest of an inventory is of the same bytes in any release."""

import unittest

from valence_sched.testing import view
from valence_sched.view.digest import _digits, inventory_digest


class TestInventoryDigest(unittest.TestCase):
    """Of one inventory."""

    def test_it_stays_what_it_was(self):
        sizes = ({}, {"state": "Composed"}, *({"shareable": True, "max_compositions": number}
                                              for number in (9, 10, 255, 256, 70_000)))  # fmt: skip
        blocks = [
            {"uri": f"/b/{number}", "type": ["Compute"], "status": status, "pools": ["p", "q"],
             "devices": {"processors": [{"count": 1, "cores": number + 1}]}}
            for number, status in enumerate(sizes)
        ]  # fmt: skip
        pools = [{"id": "p"}, {"id": "q"}]
        site = view(
            {"id": "a", "pools": pools, "blocks": blocks},
            {"id": "b", "pools": pools, "blocks": blocks[:1]}, {"id": "c"},
        )  # fmt: skip
        self.assertEqual(DIGEST, inventory_digest(site))

    def test_numbers_are_as_in_a_list(self):
        for numbers in ([], [0], [9, 0], [10], [9, 10], [255], [256, 1], [70_000]):
            self.assertEqual(repr(numbers), f"[{_digits(numbers)}]")


DIGEST = "b16c5ef5a80423df3106876451d42250"
