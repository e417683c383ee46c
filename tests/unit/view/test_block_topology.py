# SPDX-License-Identifier: Apache-2.0
"""The places of blocks on the shelf."""

import unittest

from valence_sched.core.digest import inventory_digest
from valence_sched.testing import view


class TestPlaces(unittest.TestCase):
    """What a million blocks without places must not pay for."""

    def test_a_podm_whose_blocks_tell_none_keeps_none(self):
        self.assertIsNone(
            view({"id": "a", "blocks": [{"uri": "1"}, {"uri": "2"}]}).block_tables[0].topologies
        )

    def test_equal_places_are_one_object_and_the_untold_stay_untold(self):
        where = {"pcie_root": "x", "chassis": "c"}
        blocks = [{"uri": str(n), **({"places": where} if n else {})} for n in range(3)]
        shelf = view({"id": "a", "blocks": blocks}).block_tables[0]
        self.assertIsNone(shelf.topologies[0])
        self.assertIs(shelf.topologies[1], shelf.topologies[2])
        self.assertEqual(("c", None), shelf.topology_values(1, ("chassis", "switch")))
        self.assertEqual((None, None), shelf.topology_values(0, ("chassis", "switch")))

    def test_places_are_part_of_what_a_decision_was_made_from(self):
        one, other, none = (
            view({"id": "a", "blocks": [{"uri": "1", **told}]})
            for told in ({"places": {"chassis": "c"}}, {"places": {"chassis": "d"}}, {})
        )
        self.assertEqual(3, len({inventory_digest(seen) for seen in (one, other, none)}))
