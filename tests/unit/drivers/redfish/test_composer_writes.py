# SPDX-License-Identifier: Apache-2.0
"""One write that composes: the documents read back, time limits, and reservations by action."""

import unittest
from typing import Any

from msgspec.structs import replace

from tests.unit.drivers.redfish.stored import PLAIN, Service, StoredPodm, block, link, lost, system
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import BlockReservations
from valence_sched.drivers.redfish.methods import ComposeCapabilities
from valence_sched.drivers.redfish.verify import NodeReader
from valence_sched.errors import ClaimLost, PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult

ACTION, RULES = "/R/Compose", "/R/Rules"


class TestConfirmed(unittest.TestCase):
    """A node is confirmed when a block shows that it is part of it."""

    def stored(self, states=("Unused", "Unused"), link_of=None) -> Service:
        """Answer with a system of both blocks, which have these states and may link it."""
        podm = Service()

        def store(uri, body):
            made = podm.add("/S", **system("/B/1", "/B/2"))
            for it, state in zip(PLAIN.blocks, states, strict=True):
                podm.documents[it] = block(state, *([made] if it == link_of else []))
            return Reply(201, {"Location": made}, None)

        podm.on_post = store
        return podm

    def test_what_no_block_confirms_is_unknown_with_what_was_seen(self):
        podm = self.stored()
        found = podm.ask(PLAIN)
        self.assertEqual(("unknown", False), (found.state, found.works))
        self.assertRegex(found.reason, "^/S/.* exists, but is not confirmed by any block "
                         r"\(/B/1: found Unused; /B/2: found Unused\)$")  # fmt: skip
        self.assertIn(found.node, podm.documents)
        self.assertEqual("unknown", podm.composer.read_node(PLAIN).state)

    def test_one_block_that_says_so_by_its_state_or_its_link_is_enough(self):
        for states, link_of in (
            (("Composed", "Unused"), None), (("Unused", "ComposedAndAvailable"), None),
            (("Unused", "Unused"), "/B/2"), (("Composed", "Composed"), "/B/1"),
        ):  # fmt: skip
            with self.subTest(states, link_of=link_of):
                podm = self.stored(states, link_of)
                found = podm.ask(PLAIN)
                self.assertEqual(("composed", PLAIN.blocks), (found.state, found.blocks))
                self.assertEqual("composed", podm.composer.read_node(PLAIN).state)

    def test_blocks_that_are_only_out_of_order_confirm_nothing(self):
        self.assertEqual("unknown", self.stored(("Unavailable", "Unknown")).ask(PLAIN).state)

    def test_a_block_may_say_so_late(self):
        podm = self.stored()
        composed = {it: block("Composed") for it in PLAIN.blocks}
        podm.meanwhile = [lambda: None] * 3 + [lambda: podm.documents.update(composed)]
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_a_shared_block_that_was_in_use_before_confirms_only_what_is_new(self):
        sharing = {"SharingCapable": True, "SharingEnabled": True}
        one = CompositionRequest(name="vs-1", blocks=("/B/1",))
        for count, state in ((1, "unknown"), (2, "composed")):
            podm = Service()
            podm.documents["/B/1"] = block(
                "ComposedAndAvailable", NumberOfCompositions=1, **sharing
            )

            def store(uri, body, podm=podm, count=count):
                podm.documents["/B/1"]["CompositionStatus"]["NumberOfCompositions"] = count
                return Reply(201, {"Location": podm.add("/S", **system("/B/1"))}, None)

            podm.on_post = store
            self.assertEqual([], list(podm.composer.conflicts(one)))
            self.assertEqual(state, podm.ask(one).state)

    def test_equal_devices_in_place_of_the_named_ones_confirm_as_well(self):
        podm = Service(**{"/B/3": block("Unused")})
        wanted = replace(PLAIN, substitutes={"/B/2": ("/B/3",)})

        def choose(uri, body):
            made = podm.add("/S", **system("/B/1", "/B/3"))
            podm.documents["/B/3"] = block("Composed", made)
            return Reply(201, {"Location": made}, None)

        podm.on_post = choose
        found = podm.ask(wanted)
        self.assertEqual(("composed", ("/B/1", "/B/3")), (found.state, found.blocks))

    def test_what_is_deleted_need_not_be_confirmed(self):
        podm = self.stored()
        made = podm.ask(PLAIN).node
        self.assertEqual("absent", podm.remove(made, PLAIN).state)


class TestLost(unittest.TestCase):
    """The documents read back, and the time limit, depend on the answer to the write."""

    def test_a_node_under_another_name_is_ours_where_the_answer_names_it(self):
        podm = Service()
        podm.on_post = lambda uri, body: Reply(201, {"Location": podm.compose("sys-1")}, None)
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_a_node_is_found_wherever_location_leads(self):
        for location in ("{}", "http://elsewhere.example{}", "{}/", "S/1", "/S/none", "/CS", ""):
            with self.subTest(location):
                podm = Service()
                podm.on_post = lambda uri, body, podm=podm, location=location: Reply(
                    201, {"Location": location.format(podm.compose())}, None
                )
                self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_a_node_that_its_blocks_link_is_not_absent_though_it_cannot_be_found(self):
        for hidden, late, state in (
            (404, True, "composed"), (404, False, "unknown"), ({}, False, "unknown"),
            ({"@odata.id": "/S", "Members": []}, False, "unknown"),
        ):  # fmt: skip
            with self.subTest(hidden=hidden, late=late):
                podm = Service()

                def make(_uri, _body, podm=podm, hidden=hidden, late=late):
                    made = podm.compose()
                    podm.documents |= {made: hidden, "/S": {"Members": []}}
                    there = system("/B/1", "/B/2")
                    shows = [lambda: podm.documents.update({made: there})] if late else []
                    podm.meanwhile = [lambda: None, *shows]
                    return Reply(201, {"Location": made}, None)

                podm.on_post = make
                found = podm.ask(PLAIN)
                self.assertEqual(state, found.state, found.reason)
        podm = Service(**dict.fromkeys(PLAIN.blocks, block("Composed", "/S/vs-1")))
        found = podm.composer.read_node(PLAIN)
        self.assertEqual(("unknown", PLAIN.blocks), (found.state, found.blocks))

    def test_a_list_with_a_missing_page_proves_no_absence(self):
        podm = Service()
        podm.documents["/S"] = {"Members": [], "Members@odata.nextLink": "?page=2"}
        found = podm.composer.read_node(PLAIN)
        reason = "could not be read back: /S?page=2: found no such document, expected a page of /S"
        self.assertEqual(("unknown", reason), (found.state, found.reason))
        podm.documents["/S?page=2"] = {"Members": []}
        self.assertEqual("absent", podm.composer.read_node(PLAIN).state)

    def test_a_monitor_that_answers_later_is_waited_for(self):
        podm = Service(**{"/T/1": 503})
        podm.on_post = lambda uri, body: Reply(202, {"Location": "/T/1"}, None)
        done = {"/T/1": {"TaskState": "Completed"}}
        podm.meanwhile = [lambda: None] * 6 + [
            lambda: podm.compose() and podm.documents.update(done)
        ]
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_it_stays_ours_while_its_blocks_are_composing(self):
        podm = Service()

        def start(uri, body):
            made = podm.compose("sys-1", "Composing")
            podm.meanwhile = [lambda: None, lambda: podm.documents.update(
                {it: block("Composed", made) for it in PLAIN.blocks})]  # fmt: skip
            return Reply(201, {"Location": made}, None)

        podm.on_post = start
        found = podm.ask(PLAIN)
        self.assertEqual(("composed", False), (found.state, found.works))
        self.assertEqual(["reading back"] * 2, podm.states[2:])

    def test_it_is_read_where_the_answer_says_while_its_blocks_are_composing(self):
        podm = Service()
        blocks = dict.fromkeys(PLAIN.blocks, block("Composing"))
        podm.meanwhile = [lambda: podm.documents.update(
            dict.fromkeys(PLAIN.blocks, block("Composed")))]  # fmt: skip

        def start(uri, body):
            podm.documents |= blocks | {"/X/1": system(*PLAIN.blocks, name="sys-1")}
            return Reply(201, {"Location": "/X/1"}, None)

        podm.on_post = start
        found = podm.ask(PLAIN)
        self.assertEqual(("composed", "/X/1"), (found.state, found.node))

    def test_a_new_system_that_comes_after_its_blocks_began_composing_is_ours(self):
        podm = Service()
        podm.meanwhile = [lambda: podm.compose("sys-1")]
        blocks = dict.fromkeys(PLAIN.blocks, block("Composing"))
        podm.on_post = lambda uri, body: podm.documents.update(blocks) or Reply(201, {}, None)
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_where_the_answer_names_nothing_a_new_system_of_its_blocks_is_ours(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.compose("sys-1") and Reply(201, {}, None)
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_a_system_that_was_there_before_is_not_ours_though_the_answer_names_it(self):
        podm = Service()
        old = podm.add("/S", **system("/B/1", name="theirs"))
        podm.on_post = lambda uri, body: Reply(201, {"Location": old}, None)
        self.assertEqual("absent", podm.ask(PLAIN).state)

    def test_after_a_lost_reply_the_node_is_looked_for_some_time(self):
        podm = Service()
        podm.on_post = lost
        podm.meanwhile = [lambda: None] * 3 + [podm.compose]
        self.assertEqual("composed", podm.ask(PLAIN).state)
        self.assertEqual(["composing (specific)", *["reading back"] * 4], podm.states)

    def test_it_is_absent_when_it_does_not_come(self):
        podm = Service()
        podm.on_post = lost
        expected = CompositionResult(state="absent", reason="no reply: timed out")
        self.assertEqual(expected, podm.ask(PLAIN))
        self.assertEqual(8, podm.states.count("reading back"))

    def test_the_very_blocks_under_another_name_leave_it_unknown_after_a_lost_reply(self):
        for later in (False, True):
            with self.subTest(later=later):
                podm = Service()
                podm.meanwhile = [lambda podm=podm: podm.compose("sys-1")]
                podm.on_post = lost if later else lambda uri, body, it=podm: (
                    it.meanwhile.pop()() and lost()
                )  # fmt: skip
                found = podm.ask(PLAIN)
                self.assertEqual("unknown", found.state)
                self.assertRegex(found.reason, "^no reply: timed out; /S/.* under the name 'sys-1'")

    def test_after_a_refusal_they_are_anothers(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.compose("sys-1") and podm.refuse()
        self.assertEqual("absent", podm.ask(PLAIN).state)
        self.assertNotIn("reading back", podm.states)

    def test_what_was_never_sent_is_absent_and_nothing_is_read_back(self):
        podm = Service()
        podm.on_post = podm.send_nothing
        expected = CompositionResult(state="absent", reason="no reply: no connection")
        self.assertEqual(expected, podm.ask(PLAIN))
        self.assertEqual([], podm.requests)

    def test_a_node_that_never_stops_composing_is_unknown_and_goes_on(self):
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: podm.compose(state="Composing") and Reply(201, {}, None)
        found = podm.ask(PLAIN)
        reason = f"{found.node} exists, and /B/1, /B/2 is Composing"
        self.assertEqual(("unknown", True, reason), (found.state, found.works, found.reason))
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: podm.compose(state="Composing") and podm.refuse()
        self.assertEqual(f"HTTP 400: not here; {reason}", podm.ask(PLAIN).reason)

    def test_a_task_that_goes_on_without_a_node_is_unknown(self):
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: Reply(202, {"Location": "/T/1"}, None)
        podm.documents["/T/1"] = {"TaskState": "Running"}
        expected = "unknown", True, "the task did not end in time"
        found = podm.ask(PLAIN)
        self.assertEqual(expected, (found.state, found.works, found.reason))
        podm.documents |= {it: block("Composed") for it in PLAIN.blocks}
        found = podm.ask(PLAIN)
        self.assertEqual(("left", False), (found.state, found.works))

    def test_a_flag_that_cannot_be_cleared_does_not_undo_a_composed_node(self):
        podm = Service()
        self.assertTrue(podm.composer.reserve(PLAIN))
        podm.on_patch = lost
        self.assertEqual("composed", podm.ask(PLAIN).state)

    def test_what_was_read_of_the_service_is_not_read_again(self):
        podm = Service()
        podm.ask(PLAIN)
        podm.composer.refusal(PLAIN)
        self.assertEqual(1, podm.sent("GET").count(ROOT))


class TestByAction(unittest.TestCase):
    """A service that composes only by manifests."""

    def podm(self, body: dict[str, Any] | None, status: int = 200) -> Service:
        offer = {"UseCase": "RegisterResourceBlock", "CapabilitiesObject": link(RULES)}
        podm = Service(**{
            "/S": {"Members": []},
            "/CS": {"Actions": {"#CompositionService.Compose": {"target": ACTION}}},
            RULES: {"Name": offer},
        })  # fmt: skip
        podm.on_post = lambda uri, sent: Reply(status, {}, body)
        return podm

    def test_a_preview_asks_and_returns_why_not(self):
        podm = self.podm({"error": {"message": "in use"}})
        self.assertEqual("HTTP 200: in use", podm.composer.preview(PLAIN))
        self.assertEqual(([ACTION], "Preview"), (podm.sent("POST"), podm.bodies[0]["RequestType"]))
        self.assertIsNone(self.podm(None).composer.preview(PLAIN))

    def test_the_task_of_a_preview_or_reservation_is_waited_for(self):
        podm = self.podm(None)
        podm.on_post = lambda uri, sent: Reply(202, {"Location": "/T/1"}, None)
        failed = {"TaskState": "Exception", "Messages": [{"Message": "in use"}]}
        podm.documents["/T/1"] = {"TaskState": "Running"}
        podm.meanwhile = [str, lambda: podm.documents.update({"/T/1": failed})]
        why = "HTTP 200: the task ended in state Exception; in use"
        self.assertEqual(why, podm.composer.preview(PLAIN))
        podm.documents["/T/1"] = {"ReservationId": "r-1"}
        self.assertIs(True, podm.composer.reserve(PLAIN))
        for task in ({"TaskState": "Running"}, 404):
            podm.documents["/T/1"] = task
            for ask, kind in (
                (podm.composer.preview, "Preview"),
                (podm.composer.reserve, "PreviewReserve"),
            ):
                with self.assertRaisesRegex(PodmError, f"no result of the accepted {kind}$"):
                    ask(PLAIN)

    def test_without_the_action_there_is_nothing_to_ask(self):
        podm = Service()
        with self.assertRaisesRegex(PodmError, "^the service has no Compose action for a preview$"):
            podm.composer.preview(PLAIN)

    def test_a_reservation_is_named_by_what_composes_and_undone_by_nothing(self):
        podm = self.podm({"ReservationId": 7})
        self.assertTrue(podm.composer.reserve(PLAIN))
        podm.composer.unreserve(PLAIN)
        podm.ask(PLAIN)
        found = [(body["RequestType"], body.get("ReservationId")) for body in podm.bodies]
        self.assertEqual([("PreviewReserve", None), ("Apply", "7")], found)
        self.assertEqual([ACTION] * 2, podm.sent("POST"))
        self.assertEqual([], podm.sent("PATCH"))

    def test_an_answer_without_a_reservation_is_none(self):
        for body in ({}, None, {"ReservationId": ""}):
            with self.subTest(body):
                podm = self.podm(body)
                self.assertIs(False, podm.composer.reserve(PLAIN))
                podm.ask(PLAIN)
                self.assertNotIn("ReservationId", podm.bodies[-1])

    def test_a_refused_reservation_is_an_error_that_says_why(self):
        podm = self.podm({"error": {"message": "in use"}}, 409)
        with self.assertRaisesRegex(PodmError, "^HTTP 409: in use$"):
            podm.composer.reserve(PLAIN)

    def test_a_refused_node_is_tried_once_more_without_its_reservation(self):
        podm = self.podm({"ReservationId": "r-1"})
        podm.composer.reserve(PLAIN)
        podm.on_post = podm.refuse
        expected = CompositionResult(state="absent", reason="HTTP 400: not here")
        self.assertEqual(expected, podm.ask(PLAIN))
        found = [body.get("ReservationId") for body in podm.bodies[1:]]
        self.assertEqual(["r-1", None], found)

    def test_one_whose_reply_is_lost_is_not_sent_again(self):
        podm = self.podm({"ReservationId": "r-1"})
        podm.composer.reserve(PLAIN)
        podm.on_post = lost
        self.assertEqual("absent", podm.ask(PLAIN).state)
        self.assertEqual(2, len(podm.bodies))

    def test_one_that_is_refused_and_there_is_not_sent_again(self):
        podm = self.podm({"ReservationId": "r-1"})
        podm.composer.reserve(PLAIN)
        podm.on_post = lambda uri, body: podm.compose() and podm.refuse()
        self.assertEqual("composed", podm.ask(PLAIN).state)
        self.assertEqual(2, len(podm.bodies))


class TestRequired(unittest.TestCase):
    """A service that requires a property without an allowed known value."""

    def test_it_is_refused_before_any_effect(self):
        use = {"UseCase": "ComputerSystemComposition", "CapabilitiesObject": link(RULES)}
        podm = Service(**{
            "/S": {"Members": [], "@Redfish.CollectionCapabilities": {"Capabilities": [use]}},
            RULES: {"Tenant@Redfish.RequiredOnCreate": True},
        })  # fmt: skip
        self.assertRegex(podm.composer.refusal(PLAIN), "the service requires 'Tenant', but")
        self.assertEqual("absent", podm.ask(PLAIN).state)
        self.assertEqual([], podm.sent("POST"))


class TestByWhatIsAskedFor(unittest.TestCase):
    """A service that chooses the blocks itself."""

    def test_it_has_nothing_to_reserve_or_to_let_go(self):
        use = {"UseCase": "ComputerSystemConstrainedComposition", "CapabilitiesObject": link(RULES)}
        podm = Service(**{
            "/S": {"Members": [], "@Redfish.CollectionCapabilities": {"Capabilities": [use]}},
            RULES: {"Processors": {"Members": [{}]}},
        })  # fmt: skip
        self.assertIs(False, podm.composer.reserve(PLAIN))
        podm.composer.unreserve(PLAIN)
        self.assertEqual(([], []), (podm.sent("PATCH"), podm.sent("POST")))


NODE = CompositionRequest(name="vs-1", blocks=("/B/1", "/B/2", "/B/3"))
CAPABILITIES = ComposeCapabilities("/S", None, False, ())


def flagged(reserved: object = False, **status: Any) -> dict[str, Any]:
    return {"CompositionStatus": {"CompositionState": "Unused", "Reserved": reserved, **status},
            "@odata.etag": "v1"}  # fmt: skip


def shared(reserved: object = False) -> dict[str, Any]:
    return flagged(reserved, SharingCapable=True, SharingEnabled=True, MaxCompositions=4)


class TestReservations(unittest.TestCase):
    """Three blocks, each with a flag unless a test removes it."""

    def podm(self, **blocks: Any) -> StoredPodm:
        found = {f"/B/{number}": flagged() for number in (1, 2, 3)}
        found |= {f"/B/{name[1:]}": json for name, json in blocks.items()}
        self.podm_ = StoredPodm(found)
        self.reservations = self.process()
        return self.podm_

    def process(self) -> BlockReservations:
        reader = NodeReader(self.podm_, lambda: CAPABILITIES)
        return BlockReservations(self.podm_, reader, self.podm_.patience)

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
        self.podm(_2=flagged(None))
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([False, None, False], self.flags())
        self.assertEqual(["/B/1", "/B/1"], self.podm_.sent("PATCH"))

    def test_one_that_another_client_reserved_loses_the_claim_and_keeps_its_flag(self):
        self.podm(_3=flagged(True))
        with self.assertRaisesRegex(ClaimLost, "^/B/3: found Unused, reserved$"):
            self.reservations.reserve(NODE)
        self.assertEqual([False, False, True], self.flags())

    def test_a_flag_that_is_refused_leaves_none_reserved(self):
        podm = self.podm()
        podm.on_patch = lambda uri, body: podm.refuse() if uri == "/B/2" else podm.change(uri, body)
        self.assertIs(False, self.reservations.reserve(NODE))
        self.assertEqual([False] * 3, self.flags())

    def test_the_task_of_a_flag_is_waited_for(self):
        podm = self.podm()

        def accept(uri, body):
            podm.documents["/T/1"] = {"TaskState": "Running"}
            done = {"/T/1": {"TaskState": "Completed"}}
            podm.meanwhile = [lambda: podm.change(uri, body) and podm.documents.update(done)]
            return Reply(202, {"Location": "/T/1"}, None)

        podm.on_patch = accept
        self.assertIs(True, self.reservations.reserve(NODE))
        self.assertEqual([True] * 3, self.flags())
        self.reservations.unreserve(NODE)
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
        with self.assertRaisesRegex(PodmError, "^may still be reserved: /B/1: the flag stays set$"):
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
        podm = self.podm()
        podm.on_patch = lambda uri, body: podm.documents[uri].clear() or Reply(412, {}, None)
        self.assertIs(False, self.reservations.reserve(NODE))

    def test_only_what_was_reserved_here_is_cleared_and_only_once(self):
        podm = self.podm(_3=shared())
        self.reservations.reserve(NODE)
        podm.documents["/B/3"] = flagged(True)
        self.reservations.unreserve(NODE)
        self.assertEqual([False, False, True], self.flags())
        podm.documents["/B/1"] = flagged(True)  # now of another client
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
        error = "may still be reserved: /B/1: the flag stays set; /B/2: /B/2: HTTP 500, expected"
        with self.assertRaisesRegex(PodmError, f"^{error} a document$"):
            self.reservations.unreserve(NODE)

    def test_a_second_reservation_knows_only_its_own_blocks(self):
        podm = self.podm()
        self.reservations.reserve(NODE)
        other = CompositionRequest(name="vs-2", blocks=("/B/4",))
        podm.documents["/B/4"] = flagged()
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
        podm.documents["/B/1"] = flagged(True)
        self.reservations.clear_own()
        self.reservations.unreserve(NODE)
        self.assertEqual([True, False, False], self.flags())

    def test_flags_are_cleared_as_far_as_can_be_and_nothing_else_is_written(self):
        self.podm(_1=500, _2=flagged(True), _3=flagged(None))
        self.reservations.clear(NODE.blocks)
        self.assertEqual(["/B/2"], self.podm_.sent("PATCH"))
        self.assertIs(False, self.podm_.documents["/B/2"]["CompositionStatus"]["Reserved"])
