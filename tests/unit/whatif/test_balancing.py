# SPDX-License-Identifier: Apache-2.0
"""Balancing: the fewest moves that make room, each to what is free while the old place is held."""

import unittest

from tests.unit.whatif.sites import site_of
from tests.unit.whatif.test_relocation import podm, where
from valence_sched.testing import request
from valence_sched.whatif.balancing import make_room

CARD = request({"processor": {"total_cores": 8}, "accelerators": [{}]}, id="card")


class TestMakeRoom(unittest.TestCase):
    def test_what_fits_moves_nothing(self):
        found = make_room(site_of(podm("a", "8c g", ["8c"])), CARD, 3)
        self.assertEqual(((), "a", ("f0", "f1")), (found.moves, found.room.podm, found.room.blocks))

    def test_one_node_goes_where_it_does_not_stand_in_the_way(self):
        found = make_room(site_of(podm("a", "g", ["8c"]), podm("b", "8c", [])), CARD, 3)
        self.assertEqual([("a-0", "b", ("f0",))], where(found))
        self.assertEqual(("a", ("f0", "n0b0"), 1),
                         (found.room.podm, found.room.blocks, found.least))  # fmt: skip

    def test_two_nodes_move_where_one_is_not_enough(self):
        site = site_of(podm("a", "g", ["4c", "4c"]), podm("b", "4c 4c", []))
        found = make_room(site, CARD, 3)
        self.assertEqual({"a-0", "a-1"}, {move.node for move in found.moves})
        self.assertEqual([1, 2], [move.step for move in found.moves])
        self.assertIsNone(make_room(site, CARD, 1).room)

    def test_a_node_that_nobody_knows_the_hardware_of_stays(self):
        site = site_of({"id": "a", "nodes": [{"uri": "/n", "name": "n"}]}, podm("b", "8c", []))
        found = make_room(site, CARD, 2)
        self.assertIsNone(found.room)
        self.assertEqual(("node n of a: nothing is known of its hardware",), found.notes)

    def test_without_room_anywhere_there_are_no_moves(self):
        found = make_room(site_of(podm("a", "", ["8c g"])), CARD, 3)
        self.assertEqual((None, (), True), (found.room, found.moves, found.complete))
