# SPDX-License-Identifier: Apache-2.0
"""What claims hold, taken away before anybody decides."""

import unittest

import msgspec

from tests.unit.core.deciders import cpu, engine_of, lean
from tests.unit.store.site import podm
from valence_sched.model.inventory import Node, Status
from valence_sched.model.usage import PodmRemainder, Usage, foreign_blocks, subtract_usage
from valence_sched.testing import request

ASKED = {"processor": {"total_cores": 8}}


class TestSubtraction(unittest.TestCase):
    """A podm without what is held."""

    def statuses(self, held, *blocks):
        site = subtract_usage(lean({"id": "p", "blocks": list(blocks)}), Usage(blocks=held))
        return [msgspec.json.decode(b.status, type=Status) if b.status else None
                for b in site.blocks]  # fmt: skip

    def test_a_held_block_has_no_slot_left_and_the_others_are_as_they_were(self):
        told = cpu("b", 8, status={"state": "Unused", "health": "OK"})
        first, second, third = self.statuses({"a": 1, "b": 1}, cpu("a", 8), told, cpu("c", 8))
        self.assertEqual((0, 0, None), (first.slots, second.slots, third))
        self.assertEqual("OK", second.health)

    def test_a_shareable_block_has_as_many_slots_less_as_nodes_hold_it(self):
        shared = {"shareable": True, "max_compositions": 3, "compositions": 1,
                  "state": "ComposedAndAvailable"}  # fmt: skip
        for nodes, slots in ((1, 1), (2, 0)):
            (status,) = self.statuses({"a": nodes}, cpu("a", 8, status=shared))
            self.assertEqual(slots, status.slots)
        unbounded = {"shareable": True}
        (status,) = self.statuses({"a": 1}, cpu("a", 8, status=unbounded))
        self.assertEqual(0, status.slots)

    def test_an_amount_that_is_held_is_used_and_nodes_to_be_are_listed(self):
        site = lean({"id": "p", "stocks": [{"uri": "m", "resource": "r", "total": 9, "used": 1}]})
        node = Node(uri="claim:1#1", owner="o")
        found = subtract_usage(site, Usage(amounts={"m": 2.5}, nodes=(node,)))
        self.assertEqual((3.5, (node,)), (found.stocks[0].used, found.nodes))

    def test_taken_one_by_one_the_same_is_left_as_taken_at_once(self):
        shared = cpu("s", 8, status={"shareable": True, "max_compositions": 3})
        stock = {"uri": "m", "resource": "r", "total": 9, "used": 1}
        site = lean({"id": "p", "blocks": [shared, cpu("a", 8), cpu("b", 8)], "stocks": [stock]})
        nodes = [Node(uri=f"claim:{number}#1", owner="o") for number in range(3)]
        remaining = PodmRemainder(site, Usage(blocks={"s": 1}, nodes=tuple(nodes[:1])))
        remaining.subtract(Usage(blocks={"a": 1, "s": 1, "went": 1}, nodes=tuple(nodes[1:2])))
        remaining.subtract(Usage(amounts={"m": 2.5}, nodes=tuple(nodes[2:])))
        whole = Usage(blocks={"s": 2, "a": 1}, amounts={"m": 2.5}, nodes=tuple(nodes))
        self.assertEqual(subtract_usage(site, whole), remaining.podm)

    def test_nothing_held_is_the_same_podm(self):
        site = lean({"id": "p", "blocks": [cpu("a", 8)]})
        self.assertIs(site, subtract_usage(site, Usage()))

    def test_the_very_next_decision_is_without_it(self):
        engine = engine_of({"id": "p", "blocks": [cpu("a", 8), cpu("b", 8)]})
        site = lean({"id": "p", "blocks": [cpu("a", 8), cpu("b", 8)]})
        for held, blocks in (({"a": 1}, ["b"]), ({"a": 1, "b": 1}, []), ({}, ["a"])):
            engine.replace(subtract_usage(site, Usage(blocks=held)))
            placed = engine.select_destinations(request(ASKED)).placements
            self.assertEqual(blocks, [b.uri for p in placed for b in p.chosen.blocks])


class TestForeign(unittest.TestCase):
    """Blocks in use that nobody here claimed."""

    def test_they_are_named_and_ours_are_not(self):
        states = {"a": "Composed", "b": "Composed", "c": "Unused", "d": "Failed"}
        blocks = [{"uri": uri, "status": {"state": state}} for uri, state in states.items()]
        self.assertEqual(("b",), foreign_blocks(podm(blocks=blocks), ["a"]))
