# SPDX-License-Identifier: Apache-2.0
"""Composing step by step: a node with its amounts, lost replies, reservations by action."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import StoredPodm, link, links
from tests.unit.drivers.redfish.test_amounts import CHUNKS, DOMAIN, DOMAIN_JSON, chunk
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import PodmError
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, CompositionResult

ACTION, RULES = "/R/Compose", "/R/Rules"
PLAIN = CompositionRequest(name="vs-1", blocks=("/B/1", "/B/2"))
GRANT = Grant(DOMAIN, 1024.0)
NODE = CompositionRequest(name="vs-1", blocks=PLAIN.blocks, grants=(GRANT,))
GONE = f"found 0 of 1 memory chunks and volumes of vs-1 ({DOMAIN})"


def block(state: str, *systems: str, **status: Any) -> dict[str, Any]:
    return {"CompositionStatus": {"CompositionState": state, "Reserved": False, **status},
            "Links": {"ComputerSystems": links(*systems)}}  # fmt: skip


def system(*blocks: str, name: str = "vs-1") -> dict[str, Any]:
    return {"Name": name, "SystemType": "Composed", "Links": {"ResourceBlocks": links(*blocks)}}


def lost(*_request: object) -> Reply:
    raise PodmError("timed out")


class Service(StoredPodm):
    """A pod manager of two blocks and one memory domain, which composes what is posted."""

    def __init__(self, pauses: int = 20, **root: Any) -> None:
        super().__init__(
            {
                ROOT: {"Systems": link("/S"), "CompositionService": link("/CS")},
                "/CS": {},
                "/S": {"Members": []},
                "/B/1": block("Unused"),
                "/B/2": block("Unused"),
                DOMAIN: DOMAIN_JSON,
                CHUNKS: {"Members": []},
                **root,
            },
            pauses,
        )
        self.on_post = self.make
        self.composer = RedfishComposer(self, self.patience)

    def make(self, uri: str, body: dict[str, Any]) -> Reply:
        if uri != "/S":
            return self.create(uri, body)
        made = self.compose(body["Name"])
        return Reply(201, {"Location": made}, None)

    def compose(self, name: str = "vs-1", state: str = "Composed") -> str:
        """Compose a system of both blocks; return its URI."""
        made = self.add("/S", **system("/B/1", "/B/2", name=name))
        self.documents |= {uri: block(state, made) for uri in PLAIN.blocks}
        return made

    def decompose(self, uri: str) -> Reply:
        """Take a document away, and free the blocks."""
        self.documents |= {block_: block("Unused") for block_ in PLAIN.blocks}
        return self.drop(uri)

    @property
    def chunks(self) -> list[str]:
        return [uri for uri in self.documents if uri.startswith(f"{CHUNKS}/")]

    def ask(self, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.compose(request, self.states.append)

    def remove(self, node: str, request: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.remove(request, node, self.states.append)


class TestWithAmounts(unittest.TestCase):
    """A node and what is made for it stand and fall together."""

    def test_a_node_is_composed_after_its_amounts_and_has_them(self):
        podm = Service()
        found = podm.ask()
        (made,) = podm.chunks
        self.assertEqual(("composed", (Grant(made, 1024.0),)), (found.state, found.amounts))
        self.assertEqual([CHUNKS, "/S"], podm.sent("POST"))
        states = ["creating", "answered", "composing (specific)", "answered"]
        self.assertEqual(states, podm.states)

    def test_what_is_refused_of_the_amounts_ends_it_and_the_others_are_deleted(self):
        podm = Service()
        found = podm.ask(CompositionRequest(name="vs-1", grants=(GRANT, Grant("/none", 1.0))))
        self.assertRegex(found.reason, "^/none: found nothing")
        self.assertEqual(("absent", ()), (found.state, found.amounts))
        self.assertEqual(([CHUNKS], []), (podm.sent("POST"), podm.chunks))

    def test_a_refused_node_takes_its_amounts_with_it(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.refuse() if uri == "/S" else podm.make(uri, body)
        expected = CompositionResult(state="absent", reason="HTTP 400: not here")
        self.assertEqual(expected, podm.ask())
        self.assertEqual([], podm.chunks)

    def test_without_a_way_to_compose_the_amounts_are_deleted_too(self):
        podm = Service()
        podm.documents[ROOT] = {}
        found = podm.ask()
        self.assertEqual("absent", found.state)
        self.assertRegex(found.reason, "^it offers no way to compose")
        self.assertEqual([], podm.chunks)

    def test_an_amount_that_stays_without_its_node_is_left_and_named(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.refuse() if uri == "/S" else podm.make(uri, body)
        podm.on_delete = podm.refuse
        found = podm.ask()
        (stays,) = podm.chunks
        why = f"HTTP 400: not here; {stays} is still there: HTTP 400: not here"
        expected = CompositionResult(state="left", reason=why, amounts=(Grant(stays, 1024.0),))
        self.assertEqual(expected, found)

    def test_an_amount_in_doubt_leaves_it_unknown_and_makes_no_node(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and lost()
        found = podm.ask()
        self.assertEqual("unknown", found.state)
        self.assertRegex(found.reason, "came meanwhile, and whose it is cannot be told")
        self.assertEqual([CHUNKS], podm.sent("POST"))
        self.assertEqual(1, len(podm.chunks))

    def test_a_node_that_is_left_keeps_its_amounts(self):
        podm = Service()

        def fail(uri, body):
            reply = podm.make(uri, body)
            if uri == "/S":
                podm.documents["/B/2"] = block("Failed", *podm.documents)
            return reply

        podm.on_post = fail
        found = podm.ask()
        self.assertEqual(("left", tuple(podm.chunks)),
                         (found.state, tuple(it.uri for it in found.amounts)))  # fmt: skip

    def test_the_amounts_that_are_no_longer_granted_are_named_after_the_blocks(self):
        podm = Service()
        podm.documents |= {"/B/2": block("Failed"), DOMAIN: DOMAIN_JSON | {"MemorySizeMiB": 512}}
        line = f"{DOMAIN}: found 512 MiB left, 1024 were chosen"
        self.assertEqual(["/B/2: found Failed", line], podm.composer.conflicts(NODE))

    def test_an_amount_that_nothing_is_made_of_is_refused(self):
        podm = Service(**{DOMAIN: 404})
        self.assertRegex(podm.composer.refusal(NODE), f"^{DOMAIN}: found nothing")
        self.assertIsNone(podm.composer.refusal(PLAIN))
        podm = Service(**{ROOT: {}})
        self.assertRegex(podm.composer.refusal(NODE), "^it offers no way to compose")


class TestReadBack(unittest.TestCase):
    """A node is read back with its amounts."""

    def test_a_node_that_has_all_of_its_amounts_is_composed(self):
        podm = Service()
        node, made = podm.compose(), podm.add(CHUNKS, **chunk(Name="vs-1"))
        found = podm.composer.read_node(NODE, node)
        expected = "composed", node, (Grant(made, 1024.0),), ""
        self.assertEqual(expected, (found.state, found.node, found.amounts, found.reason))

    def test_where_none_were_asked_for_none_are_looked_for(self):
        podm = Service()
        podm.add(CHUNKS, **chunk(Name="vs-1"))
        self.assertEqual("composed", podm.composer.read_node(PLAIN, podm.compose()).state)
        self.assertFalse({DOMAIN, CHUNKS} & {*podm.sent("GET")})

    def test_amounts_without_their_node_are_left_with_what_else_is_known(self):
        podm = Service()
        made = [podm.add(CHUNKS, **chunk(Name="vs-1")) for _ in range(2)]
        grants = tuple(Grant(uri, 1024.0) for uri in made)
        there = f"{made[0]}, {made[1]} is there without its node"
        expected = CompositionResult(state="left", amounts=grants, reason=there)
        self.assertEqual(expected, podm.composer.read_node(NODE))
        podm.documents["/B/2"] = 404
        reason = f"/B/2: found no such block; {there}"
        self.assertEqual(reason, podm.composer.read_node(NODE).reason)

    def test_recorded_amounts_are_read_where_nothing_is_granted(self):
        podm = Service()
        podm.documents["/X/1"] = chunk()
        one = Grant("/X/1", 1024.0)
        request = CompositionRequest(name="vs-1", blocks=PLAIN.blocks, amounts=(one,))
        found = podm.composer.read_node(request)
        self.assertEqual(("left", (one,)), (found.state, found.amounts))

    def test_a_nameless_amount_of_the_same_size_may_be_made_for_an_absent_node(self):
        podm = Service()
        uris = [podm.add(CHUNKS, **chunk()) for _ in range(2)]
        doubt = f"{uris[0]}, {uris[1]} may be made for it: whose it is cannot be told"
        expected = CompositionResult(state="left", reason=doubt)
        self.assertEqual(expected, podm.composer.read_node(NODE))
        podm.documents["/B/2"] = 404
        reason = f"/B/2: found no such block; {doubt}"
        self.assertEqual(reason, podm.composer.read_node(NODE).reason)

    def test_a_nameless_amount_is_not_in_doubt_beside_the_node_or_its_own_amount(self):
        podm = Service()
        podm.add(CHUNKS, **chunk())
        made = podm.add(CHUNKS, **chunk(Name="vs-1"))
        self.assertEqual(f"{made} is there without its node", podm.composer.read_node(NODE).reason)
        podm.decompose(made)
        podm.documents[CHUNKS]["Members"].pop()
        node = podm.compose()
        self.assertEqual(f"{node} is there, and {GONE}", podm.composer.read_node(NODE, node).reason)

    def test_a_node_without_its_amounts_is_left_once_they_were_made_and_else_unknown(self):
        podm = Service()
        node = podm.compose()
        found = podm.composer.read_node(NODE, node)
        reason = f"{node} is there, and {GONE}"
        self.assertEqual(("unknown", node, reason), (found.state, found.node, found.reason))
        gone = Grant("/X/1", 1024.0), Grant("/X/2", 512.0)
        podm.documents["/X/2"] = chunk(512)
        request = CompositionRequest(name="vs-1", blocks=PLAIN.blocks, amounts=gone)
        found = podm.composer.read_node(request, node)
        missing = "found 1 of 2 memory chunks and volumes of vs-1 (/X/1, /X/2)"
        expected = "left", node, gone[1:], f"{node} is there, and {missing}"
        self.assertEqual(expected, (found.state, found.node, found.amounts, found.reason))

    def test_amounts_that_cannot_be_read_leave_it_unknown(self):
        podm = Service(**{CHUNKS: 500})
        node = podm.compose()
        found = podm.composer.read_node(NODE, node)
        error = f"could not be read back: {CHUNKS}: HTTP 500, expected a document"
        self.assertEqual(("unknown", node, error), (found.state, found.node, found.reason))

    def test_a_node_that_cannot_be_read_is_unknown_whatever_its_amounts_are(self):
        podm = Service(**{"/B/1": 500})
        podm.add(CHUNKS, **chunk(Name="vs-1"))
        error = "could not be read back: /B/1: HTTP 500, expected a document"
        expected = CompositionResult(state="unknown", node="/S/1", reason=error)
        self.assertEqual(expected, podm.composer.read_node(NODE, "/S/1"))

    def test_the_very_blocks_under_another_name_are_in_doubt_only_without_a_uri(self):
        podm = Service()
        podm.compose("theirs")
        self.assertEqual("unknown", podm.composer.read_node(PLAIN).state)
        self.assertEqual("absent", podm.composer.read_node(PLAIN, "/S/1").state)


class TestRemove(unittest.TestCase):
    """A node is removed with its amounts."""

    def made(self, podm: Service) -> CompositionResult:
        podm.on_delete = lambda uri: podm.decompose(uri) if uri[:3] == "/S/" else podm.drop(uri)
        done = podm.ask()
        podm.states.clear()
        podm.requests.clear()
        return done

    def test_the_node_goes_first_and_then_its_amounts(self):
        podm = Service()
        done = self.made(podm)
        uri = done.amounts[0].uri
        self.assertEqual(CompositionResult(state="absent"), podm.remove(done.node))
        self.assertEqual([done.node, uri], podm.sent("DELETE"))
        self.assertEqual(["decomposing", "answered", "deleting", "answered"], podm.states)

    def test_without_a_uri_it_is_found_by_its_name(self):
        podm = Service()
        done = self.made(podm)
        self.assertEqual("absent", podm.remove("").state)
        self.assertEqual(done.node, podm.sent("DELETE")[0])

    def test_a_uri_that_is_given_is_where_the_node_is(self):
        podm = Service()
        node = podm.compose()
        moved = podm.documents["/X/1"] = podm.documents.pop(node)
        moved["@odata.id"] = "/X/1"
        podm.documents["/S"] = {"Members": []}
        podm.documents |= {uri: block("Composed") for uri in PLAIN.blocks}
        podm.on_delete = podm.decompose
        self.assertEqual("absent", podm.remove("/X/1", PLAIN).state)
        self.assertEqual(["/X/1"], podm.sent("DELETE"))

    def test_what_cannot_be_read_is_not_deleted(self):
        podm = Service()
        done = self.made(podm)
        podm.documents["/B/1"] = 500
        self.assertEqual("unknown", podm.remove(done.node).state)
        self.assertEqual([], podm.sent("DELETE"))

    def test_amounts_without_their_node_are_deleted(self):
        podm = Service()
        done = self.made(podm)
        podm.decompose(done.node)
        expected = f"{done.amounts[0].uri} is there without its node"
        found = podm.remove(done.node)
        self.assertEqual(CompositionResult(state="absent", reason=expected), found)
        self.assertEqual([done.amounts[0].uri], podm.sent("DELETE"))

    def test_what_is_gone_or_in_doubt_is_told_as_it_is(self):
        podm = Service()
        self.assertEqual(CompositionResult(state="absent"), podm.remove("/S/1"))
        podm.add(CHUNKS, **chunk())
        self.assertEqual("left", podm.remove("/S/1").state)
        self.assertEqual([], podm.sent("DELETE"))

    def test_a_node_that_is_refused_to_go_keeps_its_amounts(self):
        podm = Service()
        done = self.made(podm)
        podm.on_delete = podm.refuse
        found = podm.remove(done.node)
        reason = f"{done.node} is still there: HTTP 400: not here"
        self.assertEqual(("left", done.node, reason), (found.state, found.node, found.reason))
        self.assertEqual([done.node], podm.sent("DELETE"))

    def test_one_that_stays_after_an_answer_of_success_is_told_so(self):
        podm = Service()
        done = self.made(podm)
        podm.on_delete = lambda uri: Reply(204, {}, None)
        words = "it answered that the node is gone"
        self.assertEqual(f"{done.node} is still there: {words}", podm.remove(done.node).reason)

    def test_one_that_cannot_be_read_back_is_unknown_and_keeps_its_amounts(self):
        podm = Service()
        done = self.made(podm)
        podm.on_delete = lambda uri: podm.documents.update({uri: 500}) or Reply(204, {}, None)
        found = podm.remove(done.node)
        error = f"could not be read back: {done.node}: HTTP 500, expected a document"
        self.assertEqual(("unknown", error), (found.state, found.reason))
        self.assertEqual([done.node], podm.sent("DELETE"))

    def test_once_it_is_gone_it_is_read_no_more_and_another_may_have_its_blocks(self):
        podm = Service()
        done = self.made(podm)
        podm.on_delete = lambda uri: (
            podm.decompose(uri) if podm.compose("theirs") else podm.drop("")
        )
        found = podm.remove(done.node, PLAIN)
        self.assertEqual(("absent", None), (found.state, found.node))
        self.assertEqual(["decomposing", "answered"], podm.states)

    def test_flags_that_its_blocks_had_are_cleared_when_it_is_gone(self):
        podm = Service()
        done = self.made(podm)
        podm.documents["/B/1"] = block("Composed", done.node, Reserved=True)
        free = dict.fromkeys(PLAIN.blocks, block("Unused", Reserved=True))
        podm.on_delete = lambda uri: podm.documents.update(free) or podm.drop(uri)
        self.assertEqual("absent", podm.remove(done.node, PLAIN).state)
        self.assertEqual(["/B/1"], podm.sent("PATCH"))

    def test_flags_of_a_node_that_stays_are_not_cleared(self):
        podm = Service()
        done = self.made(podm)
        podm.documents["/B/1"] = block("Composed", done.node, Reserved=True)
        podm.on_delete = podm.refuse
        podm.remove(done.node, PLAIN)
        self.assertEqual([], podm.sent("PATCH"))


class TestLost(unittest.TestCase):
    """What is read back, and how long, depends on what came of the write."""

    def test_a_node_under_another_name_is_ours_where_the_answer_names_it(self):
        podm = Service()
        podm.on_post = lambda uri, body: Reply(201, {"Location": podm.compose("sys-1")}, None)
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
        error = PodmError("no connection")
        error.sent = False

        def fail(*_request):
            podm.requests.clear()
            raise error

        podm.on_post = fail
        expected = CompositionResult(state="absent", reason="no reply: no connection")
        self.assertEqual(expected, podm.ask(PLAIN))
        self.assertEqual([], podm.requests)

    def test_a_node_that_never_stops_composing_is_unknown_and_goes_on(self):
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: podm.compose(state="Composing") and Reply(201, {}, None)
        found = podm.ask(PLAIN)
        reason = f"{found.node} is there, and /B/1, /B/2 is Composing"
        self.assertEqual(("unknown", True, reason), (found.state, found.works, found.reason))
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: podm.compose(state="Composing") and podm.refuse()
        self.assertEqual(f"HTTP 400: not here; {reason}", podm.ask(PLAIN).reason)

    def test_a_task_that_goes_on_without_a_node_is_unknown(self):
        podm = Service(pauses=3)
        podm.on_post = lambda uri, body: Reply(202, {"Location": "/T/1"}, None)
        podm.documents["/T/1"] = {"TaskState": "Running"}
        expected = "unknown", True, "its task did not end in time"
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
    """A service that composes by manifests alone."""

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

    def test_without_the_action_there_is_nothing_to_ask(self):
        podm = Service()
        with self.assertRaisesRegex(PodmError, "^it offers no Compose action to ask$"):
            podm.composer.preview(PLAIN)

    def test_a_reservation_is_named_by_what_composes_and_undone_by_nothing(self):
        podm = self.podm({"ReservationId": 7})
        self.assertTrue(podm.composer.reserve(PLAIN))
        podm.composer.unreserve(PLAIN)
        podm.ask(PLAIN)
        found = [(body["RequestType"], body.get("ReservationId")) for body in podm.bodies]
        self.assertEqual([("PreviewReserve", None), ("Apply", "7")], found)
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
