# SPDX-License-Identifier: Apache-2.0
"""The status of blocks that do not tell all of it, and the limits of a node."""

from __future__ import annotations

from typing import Any

from tests.unit.drivers.redfish.test_device_identity import BLOCKS, Case, V, links
from valence_sched.model.inventory import Status

SHARED = {"SharingCapable": True, "SharingEnabled": True}


class TestStatus(Case):
    """``CompositionStatus`` with something missing."""

    def status(self, **status: Any) -> Status:
        self.setUp()
        self.block("b", CompositionStatus=status)
        return self.read().blocks[0].status

    def test_a_block_without_a_composition_state_is_not_free_and_said_to_be_so(self) -> None:
        for status in ({}, {"CompositionState": None}, {"CompositionState": ""}):
            with self.subTest(status):
                self.assertEqual(
                    ("Unknown", 0), ((found := self.status(**status)).state, found.slots)
                )
                self.assertTrue(self.noted("/b: CompositionStatus/CompositionState: found none"))
        self.setUp()
        self.block("b", CompositionStatus=None)
        self.assertEqual(0, self.read().blocks[0].status.slots)
        self.assertTrue(self.noted("/b: CompositionStatus/CompositionState: found none"))

    def test_of_a_shared_block_whose_use_is_unknown_one_more_node_is_certain(self) -> None:
        shared = {**SHARED, "CompositionState": "ComposedAndAvailable", "MaxCompositions": 8}
        for number, slots in ((2, 6), ("2", 6), (None, 1), ("x", 1), (-1, 1)):
            with self.subTest(number):
                self.assertEqual(slots, self.status(**shared, NumberOfCompositions=number).slots)
                noted = self.noted("NumberOfCompositions: found none, expected the nodes")
                self.assertEqual(slots == 1, noted)
        self.assertEqual(8, self.status(**shared | {"CompositionState": "Unused"}).slots)

    def test_a_shared_block_that_stays_unused_has_room_for_what_its_nodes_leave(self) -> None:
        self.documents[f"{V}/S"]["Members"] = links(f"{V}/S/n")
        self.put(f"{V}/S/n", SystemType="Composed", Links={"ResourceBlocks": links(f"{BLOCKS}/b")})
        self.block(
            "b", CompositionStatus={**SHARED, "CompositionState": "Unused", "MaxCompositions": 3}
        )
        status = self.read().blocks[0].status
        self.assertEqual(("ComposedAndAvailable", 1, 2),
                         (status.state, status.compositions, status.slots))  # fmt: skip
