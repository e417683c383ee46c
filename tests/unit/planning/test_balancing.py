# SPDX-License-Identifier: Apache-2.0
"""Balancing: the fewest moves that make room, each to what is free while the old place is held."""

import unittest

import msgspec

from tests.unit.planning.sites import site_of
from tests.unit.planning.test_relocation import podm, where
from valence_sched.errors import RequestError
from valence_sched.model.node_request import NodeRequest
from valence_sched.model.request import FlavorShare, Mix, NameRequirements
from valence_sched.planning.rebalance import end_fragmentation, make_room
from valence_sched.testing import request

CARD = request({"processor": {"total_cores": 8}, "accelerators": [{}]}, id="card")
MIX = Mix((FlavorShare(CARD.needs, NameRequirements(), 1.0),))
EIGHT, FOUR = (
    msgspec.to_builtins(NodeRequest.of(request({"processor": {"total_cores": cores}})))
    for cores in (8, 4)
)


def full():
    """Write a pod manager with 20 cores for three needs of 8, 8 and 4, two of them in the way."""
    written = podm("a", "g", ["8c 4c", "4c 4c"])
    for node, asked in zip(written["nodes"], (EIGHT, FOUR), strict=True):
        node["request"] = asked
    return written


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

    def test_nodes_that_need_each_others_places_are_named_where_nothing_is_spare(self):
        found = make_room(site_of(full()), CARD, 3)
        self.assertEqual((None, True), (found.room, found.complete))
        self.assertEqual(("a-0", "a-1"), found.waiting)

    def test_a_node_that_needs_a_part_of_its_own_place_is_named(self):
        asked = podm("a", "g 4c", ["8c 4c"])
        asked["nodes"][0]["request"] = EIGHT
        self.assertEqual(("a-0",), make_room(site_of(asked), CARD, 3).waiting)

    def test_with_a_spare_place_there_is_an_order(self):
        found = make_room(site_of(full(), podm("b", "4c", [])), CARD, 3)
        self.assertEqual((True, ()), (found.reached, found.waiting))

    def test_each_move_says_what_there_is_after_it(self):
        site = site_of(podm("a", "g g", ["4c", "8c"]), podm("b", "4c 8c", []))
        found = make_room(site, CARD, 3, MIX)
        self.assertEqual((0, 1.0), (found.before.room, found.before.fragmentation))
        self.assertEqual([1], [move.after.room for move in found.moves])
        self.assertLess(found.after.fragmentation, 1.0)


class TestEndFragmentation(unittest.TestCase):
    def test_the_fewest_moves_make_free_cards_useful(self):
        site = site_of(podm("a", "g", ["8c"]), podm("b", "8c", []))
        found = end_fragmentation(site, 0.5, 5, CARD, MIX)
        self.assertEqual([("a-0", "b", ("f0",))], where(found))
        self.assertEqual((True, 1, 1.0, 0.0), (found.reached, found.least,
                                               found.before.fragmentation,
                                               found.after.fragmentation))  # fmt: skip
        self.assertEqual((0, 1), (found.before.room, found.after.room))

    def test_what_cannot_be_reached_is_proven_on_a_small_site(self):
        found = end_fragmentation(site_of(podm("a", "g", ["8c"])), 0.5, 5, None, MIX)
        self.assertEqual((False, True, ()), (found.reached, found.complete, found.moves))
        self.assertIsNone(found.before.room)

    def test_without_accelerators_there_is_no_fragmentation(self):
        site = site_of(podm("a", "8c", ["8c"]))
        with self.assertRaisesRegex(RequestError, "no pod manager has an accelerator"):
            end_fragmentation(site, 0.5, 5, None, MIX)
        with self.assertRaisesRegex(RequestError, "no flavor of the mix"):
            end_fragmentation(site_of(podm("a", "g", [])), 0.5, 5, None, Mix())
