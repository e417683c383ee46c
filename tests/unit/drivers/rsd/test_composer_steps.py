# SPDX-License-Identifier: Apache-2.0
"""Composing on a rack step by step: what is sent, which node is ours, and its assembly."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import link
from tests.unit.drivers.rsd.rack import ALLOCATE, NODE, WHOSE, Rack, cut, lost
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.rsd.composer import action_target
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, CompositionResult


class TestAsking(unittest.TestCase):
    """What a rack offers, and what of it is free."""

    def test_without_an_allocate_action_it_is_refused_by_name(self):
        reason = "found no Allocate action on its nodes, so it cannot compose vs-1"
        for documents in ({"/N": {"Members": []}}, {ROOT: {}}, {ROOT: 404}, {"/N": 404}):
            with self.subTest(documents):
                rack = Rack(**documents)
                self.assertEqual(reason, rack.composer.refusal(NODE))
                self.assertEqual(CompositionResult(state="absent", reason=reason), rack.ask())
                self.assertEqual([], rack.sent("POST"))
        self.assertIsNone(Rack().composer.refusal(NODE))

    def test_the_nodes_may_stand_in_intels_part_of_the_root_alone(self):
        oem = {"Oem": {"Intel_RackScale": {"Nodes": link("/N")}}, "Systems": link("/S")}
        self.assertEqual("composed", Rack(**{ROOT: oem}).ask().state)

    def test_a_block_that_is_gone_or_in_use_is_named_with_its_state(self):
        rack = Rack()
        request = CompositionRequest(name="vs-2", blocks=("/S/2", "/S/1", "/S/9"))
        self.assertEqual(["/S/9: found no such block"], rack.composer.conflicts(request))
        rack.assembled()
        lines = ["/S/1: found Composed", "/S/9: found no such block"]
        self.assertEqual(lines, rack.composer.conflicts(request))

    def test_nothing_is_asked_beforehand_and_nothing_reserved(self):
        rack = Rack()
        words = "^Rack Scale Design offers no preview: its Allocate takes what it finds$"
        with self.assertRaisesRegex(PodmError, words):
            rack.composer.preview(NODE)
        self.assertIs(False, rack.composer.reserve(NODE))
        rack.composer.unreserve(NODE)
        self.assertEqual([], rack.requests)

    def test_an_action_is_known_by_the_last_part_of_its_name(self):
        for key in ("#ComposedNode.Assemble", "Assemble", "#Assemble", "X/assemble", "A.ASSEMBLE"):
            self.assertEqual("/T", action_target({"Actions": {key: {"target": "/T/"}}}, "Assemble"))
        for actions in (None, [], {"#ComposedNode.Reassemble": {"target": "/T"}},
                        {"Assemble": "/T"}, {"Assemble": {}}, {"Assemble": {"target": 7}},
                        {"Assemble": {"target": ""}}, {"Reset": {"target": "/T"}}):  # fmt: skip
            with self.subTest(actions):
                self.assertIsNone(action_target({"Actions": actions}, "Assemble"))
        both = {"Assemble": {}, "#ComposedNode.Assemble": {"target": "/T"}}
        self.assertEqual("/T", action_target({"Actions": both}, "Assemble"))


class TestBody(unittest.TestCase):
    """What Allocate is asked for."""

    def body(self, request: CompositionRequest, **documents: Any) -> dict[str, Any]:
        rack = Rack(**documents)
        rack.ask(request)
        self.assertEqual(ALLOCATE, rack.sent("POST")[0])
        return rack.bodies[0]

    def test_a_system_is_named_by_one_of_its_processors(self):
        cpu = {"Resource": link("/S/1/P/1")}
        expected = {"Name": "vs-1", "Description": "vs-1", "Processors": [cpu]}
        self.assertEqual(expected, self.body(NODE))

    def test_pooled_cards_and_drives_are_named_themselves(self):
        request = CompositionRequest(name="vs-1", blocks=("/F/1", "/S/1", "/F/2", "/D/1", "/D/2"))
        found = self.body(request, **{
            "/F/1": {"@odata.type": "#Processor.v1_0_0.Processor", "ProcessorType": "GPU"},
            "/F/2": {"@odata.type": "#Processor.v1_0_0.Processor"},
            "/D/1": {"@odata.type": "#Drive.v1_0_0.Drive"},
        })  # fmt: skip
        cards = [{"Resource": link("/F/1"), "ProcessorType": "GPU"},
                 {"Resource": link("/S/1/P/1")},
                 {"Resource": link("/F/2"), "ProcessorType": "FPGA"}]  # fmt: skip
        drives = [{"Resource": link("/D/1")}, {"Resource": link("/D/2")}]
        expected = {"Name": "vs-1", "Description": "vs-1", "Processors": cards,
                    "LocalDrives": drives}  # fmt: skip
        self.assertEqual(expected, found)

    def test_a_system_without_processors_asks_for_none(self):
        request = CompositionRequest(name="vs-1", blocks=("/S/2",))
        self.assertEqual({"Name": "vs-1", "Description": "vs-1", "Processors": []},
                         self.body(request))  # fmt: skip

    def test_volumes_are_asked_for_in_whole_gib_but_for_an_error_of_rounding(self):
        sizes = [{"CapacityGiB": size} for size in (10, 11, 10)]
        self.assertEqual(sizes, self.body(cut(10.0, 10.5, 10.0000001))["RemoteDrives"])

    def test_an_amount_that_an_operator_declares_is_not_asked_for(self):
        grants = (Grant("declared:watts", 8.0),)
        request = CompositionRequest(name="vs-1", blocks=NODE.blocks, grants=grants)
        self.assertNotIn("RemoteDrives", self.body(request))


class TestAllocated(unittest.TestCase):
    """Which node is ours after Allocate."""

    def test_it_is_allocated_assembled_and_read_back(self):
        rack = Rack()
        found = rack.ask()
        (node,) = (uri for uri in rack.documents if uri.startswith("/N/"))
        self.assertEqual(CompositionResult(state="composed", node=node, blocks=("/S/1",)), found)
        self.assertEqual([ALLOCATE, f"{node}/Assemble"], rack.sent("POST"))
        states = ["allocating", "answered", "assembling", "answered", "assembled"]
        self.assertEqual(states, rack.states)
        self.assertEqual({}, rack.bodies[1])

    def test_one_under_another_name_is_ours_where_the_answer_names_it(self):
        rack = Rack()
        rack.on_post = lambda uri, body: (
            Reply(201, {"Location": rack.allocate("Node 7")}, None)
            if uri == ALLOCATE
            else rack.act(uri, body)
        )
        self.assertEqual("composed", rack.ask().state)

    def test_one_that_was_there_before_is_not_ours_though_the_answer_names_it(self):
        rack = Rack()
        old = rack.allocate("theirs", "/S/2")
        rack.on_post = lambda uri, body: Reply(201, {"Location": old.upper()}, None)
        self.assertEqual(CompositionResult(state="absent"), rack.ask())
        self.assertEqual([ALLOCATE], rack.sent("POST"))

    def test_one_of_other_systems_is_not_assembled(self):
        rack = Rack()
        rack.on_post = lambda uri, body: Reply(201, {"Location": rack.allocate("x", "/S/2")}, None)
        found = rack.ask()
        reason = f"{found.node} is there without /S/1"
        expected = CompositionResult(state="left", node=found.node, blocks=("/S/2",), reason=reason)
        self.assertEqual(expected, found)
        self.assertEqual([ALLOCATE], rack.sent("POST"))

    def test_what_is_refused_is_absent_with_why_and_what_is_not_free(self):
        rack = Rack()
        rack.assembled(name="theirs")
        rack.on_post = rack.refuse
        reason = "HTTP 400: not here; /S/1: found Composed"
        self.assertEqual(CompositionResult(state="absent", reason=reason), rack.ask())
        self.assertEqual(["allocating", "answered"], rack.states)

    def test_what_was_never_sent_is_absent_and_nothing_is_read_back(self):
        rack = Rack()
        error = PodmError("no connection")
        error.sent = False

        def fail(*_request):
            rack.requests.clear()
            raise error

        rack.on_post = fail
        reason = "no reply: no connection"
        self.assertEqual(CompositionResult(state="absent", reason=reason), rack.ask())
        self.assertEqual([], rack.requests)

    def test_after_a_lost_reply_it_is_looked_for_some_time_by_its_name(self):
        rack = Rack()
        rack.on_post = lambda uri, body: lost() if uri == ALLOCATE else rack.act(uri, body)
        rack.meanwhile = [lambda: None] * 7 + [rack.allocate]
        self.assertEqual("composed", rack.ask().state)
        rack = Rack()
        rack.on_post = lost
        rack.meanwhile = [lambda: None] * 8 + [rack.allocate]
        self.assertEqual("no reply: timed out", rack.ask().reason)
        self.assertEqual(1, len(rack.meanwhile))

    def test_after_a_success_it_is_looked_for_once(self):
        rack = Rack()
        rack.on_post = lambda uri, body: Reply(201, {}, None)
        rack.meanwhile = [rack.allocate]
        self.assertEqual(CompositionResult(state="absent"), rack.ask())
        self.assertEqual(1, len(rack.meanwhile))

    def test_a_new_one_with_the_blocks_is_ours_after_a_success_and_else_in_doubt(self):
        doubt = f"{{}} has the very blocks, under the name 'x': {WHOSE}"
        for state, reason, answer in (
            ("composed", "", lambda: Reply(201, {}, None)),
            ("unknown", f"no reply: timed out; {doubt}", lost),
            ("absent", "HTTP 400: not here; /S/1: found Composed", Rack().refuse),
        ):  # fmt: skip
            with self.subTest(state):
                rack = Rack()

                def post(uri, body, rack=rack, answer=answer):
                    return (
                        (rack.allocate("x") and answer())
                        if uri == ALLOCATE
                        else rack.act(uri, body)
                    )

                rack.on_post = post
                found = rack.ask()
                (node,) = (uri for uri in rack.documents if uri.startswith("/N/"))
                self.assertEqual((state, reason.format(node)), (found.state, found.reason))

    def test_a_new_one_of_other_blocks_is_anothers(self):
        rack = Rack()
        rack.on_post = lambda uri, body: rack.allocate("x", "/S/2") and Reply(201, {}, None)
        self.assertEqual("absent", rack.ask().state)

    def test_one_that_was_there_before_with_the_blocks_is_anothers(self):
        rack = Rack()
        rack.allocate("theirs")
        rack.on_post = lambda uri, body: Reply(201, {}, None)
        self.assertEqual("absent", rack.ask().state)

    def test_what_was_once_ours_stays_so_for_this_request_alone(self):
        rack = Rack()
        rack.on_post = lambda uri, body: Reply(
            201, {"Location": rack.allocate("Node 7", "/S/2")}, None
        )
        node = rack.ask().node
        self.assertEqual(node, rack.composer.read_node(NODE).node)
        other = CompositionRequest(name="vs-2", blocks=NODE.blocks)
        self.assertIsNone(rack.composer.read_node(other, node).node)

    def test_nodes_that_cannot_be_read_leave_it_unknown(self):
        rack = Rack()

        def post(uri, body):
            node = rack.allocate("x")
            rack.documents[node] = 500
            return Reply(201, {"Location": node}, None)

        rack.on_post = post
        found = rack.ask()
        error = f"could not be read back: {found.node}: HTTP 500, expected a document"
        self.assertEqual(("unknown", error), (found.state, found.reason))


class TestAssembled(unittest.TestCase):
    """What becomes of an allocated node."""

    def test_one_that_is_assembled_already_is_not_assembled_again(self):
        rack = Rack()
        rack.on_post = lambda uri, body: Reply(201, {"Location": rack.assembled()}, None)
        self.assertEqual("composed", rack.ask().state)
        self.assertEqual([ALLOCATE], rack.sent("POST"))

    def test_without_an_assemble_action_it_is_left_and_that_is_the_reason(self):
        rack = Rack()

        def post(uri, body):
            node = rack.allocate()
            del rack.documents[node]["Actions"]
            return Reply(201, {"Location": node}, None)

        rack.on_post = post
        found = rack.ask()
        reason = f"it offers no Assemble action; {found.node} is Allocated and no further"
        self.assertEqual(("left", reason, False), (found.state, found.reason, found.works))
        self.assertEqual(["allocating", "answered", "allocated"], rack.states)

    def ask_with_one_failed_read(
        self, number: int, is_named: bool = True, status: int = 500
    ) -> CompositionResult:
        """Compose while the read of this number, of those of the node, is answered so.

        Where it ``is_named`` the answer to Allocate names the node, and it has our name.
        """
        rack = Rack()
        if not is_named:
            rack.on_post = lambda uri, body: (
                Reply(201, {}, None) if rack.allocate("x") else rack.refuse()
            )
        get, reads = rack.get, []

        def read(uri: str) -> Reply:
            reads.extend([uri] if uri.startswith("/N/") else [])
            failed = uri.startswith("/N/") and len(reads) == number
            return Reply(status, {}, None) if failed else get(uri)

        rack.get = read
        return rack.ask()

    def test_a_read_of_the_node_that_fails_once_is_a_result_and_no_error(self):
        found = [self.ask_with_one_failed_read(number) for number in range(1, 10)]
        self.assertEqual({"composed", "left", "unknown"}, {one.state for one in found})
        error = "not assembled: {0}: HTTP 500, expected a document; {0} is Allocated and no further"
        (left,) = (one for one in found if one.reason.startswith("not assembled: "))
        self.assertEqual(error.format(left.node), left.reason)

    def test_a_node_that_is_gone_for_one_read_is_a_result_and_no_error(self):
        found = [self.ask_with_one_failed_read(number, status=404) for number in range(1, 10)]
        self.assertLessEqual({one.state for one in found}, {"composed", "left", "absent"})
        reason = "it offers no Assemble action; {0} is Allocated and no further"
        (left,) = (one for one in found if one.reason.startswith("it offers no Assemble"))
        self.assertEqual(reason.format(left.node), left.reason)

    def test_a_new_node_that_cannot_be_read_again_is_unknown_and_named(self):
        found = [self.ask_with_one_failed_read(number, is_named=False) for number in range(1, 6)]
        self.assertTrue([one for one in found if one.state == "unknown" and one.node])

    def test_one_that_is_assembled_though_the_reply_was_lost_is_composed_without_a_reason(self):
        rack = Rack()
        rack.on_post = lambda uri, body: (
            rack.act(uri, body) if uri == ALLOCATE else rack.act(uri, body) and lost()
        )
        found = rack.ask()
        self.assertEqual(("composed", ""), (found.state, found.reason))

    def test_a_refused_assembly_is_not_waited_for(self):
        rack = Rack()
        rack.on_post = lambda uri, body: rack.act(uri, body) if uri == ALLOCATE else rack.refuse()
        found = rack.ask()
        reason = f"HTTP 400: not here; {found.node} is Allocated and no further"
        self.assertEqual(("left", reason), (found.state, found.reason))
        self.assertEqual(1, rack.states.count("allocated"))

    def assembling(self, rack: Rack, *states: str) -> CompositionResult:
        """Compose while the node goes through these states, pause by pause."""

        def post(uri, body):
            if uri == ALLOCATE:
                return rack.act(uri, body)
            node = uri.rpartition("/")[0]
            rack.become(node, states[0])
            rack.meanwhile = [lambda it=state: rack.become(node, it) for state in states[1:]]
            return Reply(204, {}, None)

        rack.on_post = post
        return rack.ask()

    def test_it_is_waited_for_through_every_state_also_a_failure(self):
        rack = Rack()
        found = self.assembling(rack, "Allocated", "Assembling", "Failed", "ASSEMBLED")
        self.assertEqual("composed", found.state)
        states = ["allocated", "assembling", "failed", "assembled"]
        self.assertEqual(states, rack.states[-4:])

    def test_one_that_is_still_assembled_when_patience_ends_goes_on(self):
        rack = Rack(pauses=2)
        found = self.assembling(rack, "Assembling")
        reason = f"{found.node} is Assembling and no further"
        self.assertEqual(("left", True, reason), (found.state, found.works, found.reason))
        self.assertEqual(3, rack.states.count("assembling") - 1)

    def test_one_that_stays_failed_does_not_go_on(self):
        found = self.assembling(Rack(pauses=2), "Failed")
        reason = f"{found.node} is Failed and no further"
        self.assertEqual(("left", False, reason), (found.state, found.works, found.reason))

    def test_one_that_goes_meanwhile_is_absent(self):
        rack = Rack()

        def post(uri, body):
            if uri == ALLOCATE:
                return rack.act(uri, body)
            rack.drop(uri.rpartition("/")[0])
            rack.documents["/N"]["Members"].clear()
            return Reply(204, {}, None)

        rack.on_post = post
        self.assertEqual("absent", rack.ask().state)
        self.assertEqual("gone", rack.states[-1])

    def test_a_state_that_is_not_told_is_unknown(self):
        rack = Rack(pauses=1)
        node = rack.allocate()
        del rack.documents[node]["ComposedNodeState"]
        found = rack.composer.read_node(NODE, node)
        self.assertEqual(f"{node} is Unknown and no further", found.reason)
