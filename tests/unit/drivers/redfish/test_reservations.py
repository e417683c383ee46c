# SPDX-License-Identifier: Apache-2.0
"""The Reserved flags of the blocks of a node: set for all of them or for none."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish.composer import BlockReservations
from valence_sched.drivers.redfish.methods import ComposeCapabilities
from valence_sched.drivers.redfish.verify import NodeReader
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.composition import CompositionRequest

NODE = CompositionRequest(name="vs-1", blocks=("/B/1", "/B/2", "/B/3"))
CAPABILITIES = ComposeCapabilities("/S", None, False, ())


def block(reserved: object = False, **status: Any) -> dict[str, Any]:
    return {"CompositionStatus": {"CompositionState": "Unused", "Reserved": reserved, **status},
            "@odata.etag": "v1"}  # fmt: skip


def shared(reserved: object = False) -> dict[str, Any]:
    return block(reserved, SharingCapable=True, SharingEnabled=True, MaxCompositions=4)


class TestReservations(unittest.TestCase):
    """Three blocks, each with a flag unless a test says otherwise."""

    def podm(self, **blocks: Any) -> StoredPodm:
        found = {f"/B/{number}": block() for number in (1, 2, 3)}
        found |= {f"/B/{name[1:]}": json for name, json in blocks.items()}
        self.podm_ = StoredPodm(found)
        self.reservations = self.process()
        return self.podm_

    def process(self) -> BlockReservations:
        return BlockReservations(self.podm_, NodeReader(self.podm_, lambda: CAPABILITIES))

    def flags(self) -> list[object]:
        documents = self.podm_.documents
        return [documents[uri]["CompositionStatus"]["Reserved"] for uri in NODE.blocks]

    def test_every_block_is_reserved_with_the_whole_of_its_status(self):
        podm = self.podm()
        self.assertTrue(self.reservations.reserve(NODE))
        self.assertEqual([True] * 3, self.flags())
        self.assertEqual(list(NODE.blocks), podm.sent("PATCH"))
        status = {"CompositionState": "Unused", "Reserved": True}
        self.assertEqual([{"CompositionStatus": status}] * 3, podm.bodies)

    def test_a_shared_block_or_one_that_is_gone_is_not_reserved(self):
        self.podm(_2=shared())
        self.assertTrue(self.reservations.reserve(NODE))
        self.assertEqual([True, False, True], self.flags())
        self.podm(_1=404)
        self.assertTrue(self.reservations.reserve(NODE))
        self.assertEqual(["/B/2", "/B/3"], self.podm_.sent("PATCH"))

    def test_where_nothing_can_be_reserved_nothing_is(self):
        self.podm(_1=shared(), _2=shared(), _3=404)
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([], self.podm_.sent("PATCH"))

    def test_a_block_without_a_flag_leaves_none_reserved_and_is_not_written(self):
        self.podm(_2=block(None))
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([False, None, False], self.flags())
        self.assertEqual(["/B/1", "/B/1"], self.podm_.sent("PATCH"))

    def test_one_that_another_client_reserved_loses_the_claim_and_keeps_its_flag(self):
        self.podm(_3=block(True))
        with self.assertRaisesRegex(ClaimLost, "^/B/3: found Unused, reserved$"):
            self.reservations.reserve(NODE)
        self.assertEqual([False, False, True], self.flags())

    def test_a_flag_that_is_refused_leaves_none_reserved(self):
        podm = self.podm()
        podm.on_patch = lambda uri, body: podm.refuse() if uri == "/B/2" else podm.change(uri, body)
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([False] * 3, self.flags())

    def test_one_whose_reply_is_lost_may_be_reserved_and_is_cleared_too(self):
        podm = self.podm()

        def lose_the_second(uri, body):
            reply = podm.change(uri, body)
            if podm.sent("PATCH") == ["/B/1", "/B/2"]:
                raise PodmError("timed out")
            return reply

        podm.on_patch = lose_the_second
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([False] * 3, self.flags())

    def test_one_that_is_gone_after_the_write_is_not_reserved(self):
        podm = self.podm()
        podm.on_patch = lambda uri, body: (
            podm.drop(uri) if uri == "/B/2" else podm.change(uri, body)
        )
        self.assertIs(False, self.reservations.reserve(NODE))

    def test_what_stays_reserved_when_the_rest_cannot_be_is_an_error(self):
        podm = self.podm()
        podm.on_patch = lambda uri, body: (
            podm.refuse() if podm.sent("PATCH") != ["/B/1"] else podm.change(uri, body)
        )
        with self.assertRaisesRegex(PodmError, "^may be reserved still: /B/1: it does not let go$"):
            self.reservations.reserve(NODE)

    def test_a_change_that_is_refused_by_its_etag_is_sent_once_more_where_nothing_changed(self):
        for code in (412, 428):
            for meanwhile, reserved, writes in (({}, True, 2), ({"Reserved": None}, False, 1)):
                with self.subTest(code, meanwhile=meanwhile):
                    podm = self.podm()

                    def answer(uri, body, podm=podm, meanwhile=meanwhile, code=code):
                        if len(podm.sent("PATCH")) > 1:
                            return podm.change(uri, body)
                        status = podm.documents[uri]["CompositionStatus"] | meanwhile
                        podm.change(uri, {"CompositionStatus": status})
                        return Reply(code, {}, None)

                    podm.on_patch = answer
                    one = CompositionRequest(name="vs-1", blocks=("/B/1",))
                    self.assertIs(reserved, self.reservations.reserve(one))
                    self.assertEqual(["/B/1"] * writes, podm.sent("PATCH"))

    def test_an_answer_that_shows_the_block_is_taken_for_it_and_any_other_read_back(self):
        for shows, reads in ((True, 1), (False, 2)):
            podm = self.podm()
            one = CompositionRequest(name="vs-1", blocks=("/B/1",))

            def answer(uri, body, podm=podm, shows=shows):
                podm.change(uri, body)
                return Reply(200, {}, podm.documents[uri] if shows else {"error": {}})

            podm.on_patch = answer
            self.assertTrue(self.reservations.reserve(one))
            self.assertEqual(["/B/1"] * reads, podm.sent("GET"))

    def test_another_refusal_is_not_tried_again(self):
        podm = self.podm()
        podm.on_patch = podm.refuse
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual(["/B/1"], podm.sent("PATCH"))

    def test_one_that_is_gone_after_an_etag_was_refused_is_not_reserved(self):
        podm = self.podm()
        podm.on_patch = lambda uri, body: podm.drop(uri) and Reply(412, {}, None)
        self.assertIs(False, self.reservations.reserve(NODE))

    def test_only_what_was_reserved_here_is_cleared_and_only_once(self):
        podm = self.podm(_3=shared())
        self.reservations.reserve(NODE)
        podm.documents["/B/3"] = block(True)
        self.reservations.unreserve(NODE)
        self.assertEqual([False, False, True], self.flags())
        podm.documents["/B/1"] = block(True)  # another client's by now
        self.reservations.unreserve(NODE)
        self.assertEqual([True, False, True], self.flags())

    def test_another_process_clears_every_block_that_the_node_had_to_itself(self):
        self.podm(_2=shared(True))
        self.reservations.reserve(NODE)
        self.process().unreserve(NODE)
        self.assertEqual([False, True, False], self.flags())

    def test_what_does_not_let_go_or_cannot_be_read_is_named(self):
        podm = self.podm()
        self.reservations.reserve(NODE)
        podm.on_patch = podm.refuse
        podm.documents["/B/2"] = 500
        podm.documents["/B/3"] = 404
        error = "may be reserved still: /B/1: it does not let go; /B/2: /B/2: HTTP 500, expected"
        with self.assertRaisesRegex(PodmError, f"^{error} a document$"):
            self.reservations.unreserve(NODE)

    def test_a_second_reservation_knows_only_its_own_blocks(self):
        podm = self.podm()
        self.reservations.reserve(NODE)
        other = CompositionRequest(name="vs-2", blocks=("/B/4",))
        podm.documents["/B/4"] = block()
        self.reservations.reserve(other)
        self.reservations.unreserve(other)
        self.assertEqual([True] * 3, self.flags())
        self.assertIs(False, podm.documents["/B/4"]["CompositionStatus"]["Reserved"])

    def test_a_composed_node_clears_its_own_flags_once(self):
        podm = self.podm()
        self.reservations.clear_own()
        self.assertEqual([], podm.sent("PATCH"))
        self.reservations.reserve(NODE)
        self.reservations.clear_own()
        self.assertEqual([False] * 3, self.flags())
        podm.documents["/B/1"] = block(True)
        self.reservations.clear_own()
        self.reservations.unreserve(NODE)
        self.assertEqual([True, False, False], self.flags())

    def test_the_reserved_ones_among_some_blocks_are_told(self):
        self.podm(_2=block(True), _3=404)
        self.assertEqual(["/B/2"], self.reservations.reserved_among(NODE.blocks))

    def test_flags_are_cleared_as_far_as_can_be_and_nothing_else_is_written(self):
        self.podm(_1=500, _2=block(True), _3=block(None))
        self.reservations.clear(NODE.blocks)
        self.assertEqual(["/B/2"], self.podm_.sent("PATCH"))
        self.assertIs(False, self.podm_.documents["/B/2"]["CompositionStatus"]["Reserved"])
