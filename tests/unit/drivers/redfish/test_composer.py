# SPDX-License-Identifier: Apache-2.0
"""Composition on served Redfish pod managers: its result is verified by reading back."""

import contextlib
import unittest
from collections.abc import Iterator

from tests.unit.drivers.redfish.stored import (
    CHUNKS,
    DOMAIN,
    DOMAIN_JSON,
    GRANT,
    NODE,
    PLAIN,
    Service,
    block,
    lost,
)
from tests.unit.drivers.redfish.test_amounts import chunk
from tests.unit.trees import tree
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline, Patience
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.drivers.session import HttpSession
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant
from valence_sched.model.registration import Registration
from valence_sched.testing.served import ServedPodm, served

BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
EXAMPLE = CompositionRequest(
    name="node-1", pool="row-a", blocks=(f"{BLOCKS}/Compute-02", f"{BLOCKS}/GPU-02")
)


def quiet(_state: str) -> None:
    pass


class Bench:
    """One served pod manager and the composer on it."""

    def __init__(self, served_: ServedPodm, connection: Connection) -> None:
        self.podm, self.connection = served_, connection
        self.composer = RedfishComposer(HttpSession(connection), lambda: Patience(2))

    def compose(self, wanted: CompositionRequest = EXAMPLE) -> CompositionResult:
        return self.composer.compose(wanted, quiet)

    def state(self, block: str) -> str:
        return str(self.podm.documents.get(block)["CompositionStatus"]["CompositionState"])

    @property
    def systems(self) -> list[str]:
        found = (uri.rpartition("/")[2] for uri in self.podm.documents)
        return [name for name in found if name.startswith("node-")]


@contextlib.contextmanager
def bench(*fail: str) -> Iterator[Bench]:
    with served(documents={"gpu-east": tree()}, fail=fail) as podms:
        podm = podms["gpu-east"]
        entry = Registration(name=podm.id, url=podm.url)
        with Connection(entry, None, Deadline(20)) as connection:
            yield Bench(podm, connection)


class TestRedfishComposer(unittest.TestCase):
    """Compositions without faults."""

    def test_a_node_is_made_of_the_very_blocks(self):
        with bench() as site:
            result = site.compose()
            self.assertEqual(("composed", EXAMPLE.blocks), (result.state, result.blocks))
            self.assertEqual(["Composed"] * 2, [site.state(uri) for uri in EXAMPLE.blocks])

    def test_a_node_that_is_removed_leaves_nothing_behind(self):
        with bench() as site:
            node = site.compose().node
            self.assertEqual("absent", site.composer.remove(EXAMPLE, node, quiet).state)
            self.assertEqual(["Unused"] * 2, [site.state(uri) for uri in EXAMPLE.blocks])
            self.assertEqual([], site.composer.conflicts(EXAMPLE))

    def test_what_is_free_is_told_block_by_block(self):
        with bench() as site:
            self.assertEqual([], site.composer.conflicts(EXAMPLE))
            site.compose()
            first, _ = site.composer.conflicts(EXAMPLE)
            self.assertIn("Compute-02: found Composed", first)
            self.assertIn("by /redfish/v1/Systems/", first)

    def test_reserved_blocks_are_seen_by_others_and_can_be_let_go(self):
        with bench() as site:
            self.assertTrue(site.composer.reserve(EXAMPLE))
            self.assertIn("reserved", site.composer.conflicts(EXAMPLE)[0])
            site.composer.unreserve(EXAMPLE)
            self.assertEqual([], site.composer.conflicts(EXAMPLE))


class TestFaults(unittest.TestCase):
    """Pod managers whose answers do not match their actions."""

    def test_what_came_of_a_write_is_judged_by_what_is_there(self):
        systems = "/redfish/v1/Systems"
        for rule, state, reason in (
            (f"drop-reply:POST:{systems}", "composed", "^"),
            ("empty-create", "absent", "^"),
            (f"lie:POST:{systems}", "absent", "HTTP 200: "),
            ("async", "composed", "^"),
            ("task-exception", "absent", "^"),
            (f"steal:{BLOCKS}/GPU-02", "absent", "GPU-02"),
            (f"status:500:POST:{systems}", "absent", "HTTP 500"),
            (f"html:POST:{systems}", "absent", "^"),
            ("die-after:0", "unknown", "could not be read back"),
        ):
            with self.subTest(rule), bench(rule) as site:
                result = site.compose()
                self.assertEqual(state, result.state, result)
                self.assertRegex(result.reason, reason)

    def test_a_busy_block_composed_again_is_not_our_node(self):
        with bench("double-book") as site:
            site.compose()
            result = site.compose(
                CompositionRequest(name="node-2", pool="row-a", blocks=EXAMPLE.blocks)
            )
            self.assertEqual("left", result.state)
            self.assertRegex(result.reason, "part of .*node-1")

    def test_a_reply_that_is_lost_after_a_removal_is_a_removal(self):
        with bench("drop-reply:DELETE:/redfish/v1/Systems*") as site:
            node = site.compose().node
            self.assertEqual("absent", site.composer.remove(EXAMPLE, node, quiet).state)


GONE = f"found 0 of 1 memory chunks and volumes of vs-1 ({DOMAIN})"


class TestWithAmounts(unittest.TestCase):
    """A node and its amounts are created together or not at all."""

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
        self.assertRegex(found.reason, "^/none: found neither")
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
        self.assertRegex(found.reason, "^the service cannot compose")
        self.assertEqual([], podm.chunks)

    def test_an_amount_that_stays_without_its_node_is_left_and_named(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.refuse() if uri == "/S" else podm.make(uri, body)
        podm.on_delete = podm.refuse
        found = podm.ask()
        (stays,) = podm.chunks
        why = f"HTTP 400: not here; {stays} still exists: HTTP 400: not here"
        expected = CompositionResult(state="left", reason=why, amounts=(Grant(stays, 1024.0),))
        self.assertEqual(expected, found)

    def test_an_amount_in_doubt_leaves_it_unknown_and_makes_no_node(self):
        podm = Service()
        podm.on_post = lambda uri, body: podm.add(uri, **chunk()) and lost()
        found = podm.ask()
        self.assertEqual("unknown", found.state)
        self.assertRegex(found.reason, "appeared after the request: the owner is unknown")
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

    def test_an_amount_that_an_operator_declares_is_counted_and_not_composed(self):
        declared = CompositionRequest(name="vs-1", grants=(Grant("declared:watts", 8),))
        self.assertIsNone(Service().composer.refusal(declared))

    def test_the_amounts_that_are_no_longer_granted_are_named_after_the_blocks(self):
        podm = Service()
        podm.documents |= {"/B/2": block("Failed"), DOMAIN: DOMAIN_JSON | {"MemorySizeMiB": 512}}
        line = f"{DOMAIN}: found 512 MiB free, expected 1024 or more"
        self.assertEqual(["/B/2: found Failed", line], podm.composer.conflicts(NODE))


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
        there = f"{made[0]}, {made[1]} exists without its node"
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

    def test_an_amount_whose_monitor_is_gone_may_exist(self):
        podm = Service(**{"/T/1": 404})

        def create(uri, body):
            podm.create(uri, {"Name": 7, "MemoryChunkSizeMiB": 1024})  # not the requested name
            return Reply(202, {"Location": "/T/1"}, None)

        podm.on_post = create
        found = podm.ask()
        self.assertEqual("unknown", found.state)
        self.assertIn(f"{podm.chunks[0]} appeared after the request", found.reason)
        self.assertIn("may belong to the node", podm.composer.read_node(NODE).reason)

    def test_a_nameless_amount_of_the_same_size_may_be_made_for_an_absent_node(self):
        podm = Service()
        uris = [podm.add(CHUNKS, **chunk()) for _ in range(2)]
        doubt = f"{uris[0]}, {uris[1]} may belong to the node: the owner is unknown"
        expected = CompositionResult(state="left", reason=doubt)
        self.assertEqual(expected, podm.composer.read_node(NODE))
        podm.documents["/B/2"] = 404
        reason = f"/B/2: found no such block; {doubt}"
        self.assertEqual(reason, podm.composer.read_node(NODE).reason)

    def test_a_nameless_amount_is_not_in_doubt_beside_the_node_or_its_own_amount(self):
        podm = Service()
        podm.add(CHUNKS, **chunk())
        made = podm.add(CHUNKS, **chunk(Name="vs-1"))
        self.assertEqual(f"{made} exists without its node", podm.composer.read_node(NODE).reason)
        podm.decompose(made)
        podm.documents[CHUNKS]["Members"].pop()
        node = podm.compose()
        self.assertEqual(f"{node} exists, but {GONE}", podm.composer.read_node(NODE, node).reason)

    def test_a_node_without_its_amounts_is_left_once_they_were_made_and_else_unknown(self):
        podm = Service()
        node = podm.compose()
        found = podm.composer.read_node(NODE, node)
        reason = f"{node} exists, but {GONE}"
        self.assertEqual(("unknown", node, reason), (found.state, found.node, found.reason))
        gone = Grant("/X/1", 1024.0), Grant("/X/2", 512.0)
        podm.documents["/X/2"] = chunk(512)
        request = CompositionRequest(name="vs-1", blocks=PLAIN.blocks, amounts=gone)
        found = podm.composer.read_node(request, node)
        missing = "found 1 of 2 memory chunks and volumes of vs-1 (/X/1, /X/2)"
        expected = "left", node, gone[1:], f"{node} exists, but {missing}"
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
        gone = CompositionResult(state="absent", freed=PLAIN.blocks)
        self.assertEqual(gone, podm.remove(done.node))
        self.assertEqual([done.node, uri], podm.sent("DELETE"))
        self.assertEqual(["decomposing", "answered", "deleting", "answered"], podm.states)

    def test_without_a_uri_it_is_found_by_its_name(self):
        podm = Service()
        done = self.made(podm)
        self.assertEqual("absent", podm.remove("").state)
        self.assertEqual(done.node, podm.sent("DELETE")[0])

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
        expected = f"{done.amounts[0].uri} exists without its node"
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
        reason = f"{done.node} still exists: HTTP 400: not here"
        self.assertEqual(("left", done.node, reason), (found.state, found.node, found.reason))
        self.assertEqual([done.node], podm.sent("DELETE"))

    def test_the_task_of_a_removal_is_waited_for(self):
        podm = Service()
        done = self.made(podm)
        podm.documents["/T/1"] = {"TaskState": "Running"}
        podm.on_delete = lambda uri: (
            Reply(202, {"Location": "/T/1"}, None) if uri == done.node else podm.drop(uri)
        )

        def end():
            podm.documents["/T/1"] = {"TaskState": "Completed"}
            podm.decompose(done.node)

        podm.states.clear()
        podm.meanwhile = [lambda: None, end]
        self.assertEqual("absent", podm.remove(done.node).state)
        self.assertEqual(["decomposing", "answered", "accepted", "running"], podm.states[:4])

    def test_one_that_stays_after_an_answer_of_success_is_told_so(self):
        podm = Service()
        done = self.made(podm)
        podm.on_delete = lambda uri: Reply(204, {}, None)
        words = "the service reported its deletion"
        self.assertEqual(f"{done.node} still exists: {words}", podm.remove(done.node).reason)

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
