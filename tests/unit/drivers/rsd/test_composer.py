# SPDX-License-Identifier: Apache-2.0
"""Composition on served racks of Intel RSD: allocated, assembled, and verified by reading back."""

import contextlib
import unittest
from collections.abc import Iterator
from typing import Any

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import BAYS, FPGAS, NETWORK, PCIE, SYSTEMS
from tests.unit.drivers.redfish.stored import link, links, lost
from tests.unit.drivers.rsd.rack import ALLOCATE, NODE, WHOSE, Rack, cut
from valence_sched.drivers.actions import action_target
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline, Patience
from valence_sched.drivers.links import ROOT
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.drivers.rsd.composer import RsdComposer
from valence_sched.drivers.rsd.reader import read_podm
from valence_sched.drivers.session import HttpSession
from valence_sched.errors import PodmError
from valence_sched.model.claim import CompositionRequest, CompositionResult, Grant
from valence_sched.model.registration import Registration
from valence_sched.testing.served import ServedPodm, served

V = "/redfish/v1"


class Bench:
    """One served rack and the composer on it."""

    def __init__(self, served_: ServedPodm, connection: Connection) -> None:
        self.podm = served_
        self.composer = RsdComposer(HttpSession(connection, 10), lambda: Patience(2))

    def free(self) -> list[str]:
        blocks = read_podm(self.composer._service(), "podm", "rsd").blocks
        return [block.uri for block in blocks if block.status.slots]

    def wanted(self, number: int = -1, name: str = "vs-1") -> CompositionRequest:
        """Return the last free system: a greedy Allocate would choose the first."""
        systems = [uri for uri in self.free() if uri.startswith(SYSTEMS)]
        return CompositionRequest(name=name, blocks=(systems[number],))

    def compose(self, wanted: CompositionRequest) -> CompositionResult:
        return self.composer.compose(wanted, lambda _state: None)

    def remove(self, wanted: CompositionRequest, node: str) -> CompositionResult:
        return self.composer.remove(wanted, node, lambda _state: None)


@contextlib.contextmanager
def rack(*fail: str, name: str = PCIE) -> Iterator[Bench]:
    with served(documents={"rack": documents_of(name)}, fail=fail) as podms:
        podm = podms["rack"]
        with Connection(Registration(name="rack", url=podm.url), None, Deadline(20)) as connection:
            yield Bench(podm, connection)


class TestRsdHands(unittest.TestCase):
    """Compositions without faults."""

    def test_allocate_is_kept_to_the_very_system(self):
        with rack() as site:
            for number in (-1, 0):
                wanted = site.wanted(number, f"vs-{number}")
                result = site.compose(wanted)
                self.assertEqual(("composed", wanted.blocks), (result.state, result.blocks))

    def test_pooled_drives_and_cards_are_named(self):
        for name, place in ((PCIE, BAYS), (NETWORK, FPGAS)):
            with self.subTest(place), rack(name=name) as site:
                device = next(uri for uri in site.free() if uri.startswith(place))
                wanted = CompositionRequest(name="vs-d", blocks=(*site.wanted(0).blocks, device))
                result = site.compose(wanted)
                self.assertEqual(("composed", wanted.blocks), (result.state, result.blocks))
                self.assertEqual("absent", site.remove(wanted, result.node).state)

    def test_what_is_composed_is_taken_and_free_again_once_removed(self):
        with rack() as site:
            wanted = site.wanted()
            self.assertEqual([], site.composer.conflicts(wanted))
            node = site.compose(wanted).node
            self.assertRegex(site.composer.conflicts(wanted)[0], "found Composed")
            self.assertEqual("absent", site.remove(wanted, node).state)
            self.assertEqual([], site.composer.conflicts(wanted))


class TestRsdFaults(unittest.TestCase):
    """Racks that refuse, lie, or lose hardware."""

    def test_the_counts_of_a_conflict_are_the_reason(self):
        with rack() as site:
            wanted = site.wanted()
            site.compose(wanted)
            result = site.compose(CompositionRequest(name="vs-2", blocks=wanted.blocks))
            self.assertEqual("absent", result.state)
            self.assertRegex(result.reason, r"HTTP 409: .*available: \d+ -> .*processors: 0")

    def test_a_lost_reply_to_a_removal_is_a_removal(self):
        with rack(f"drop-reply:DELETE:{V}/Nodes/*") as site:
            wanted = site.wanted()
            node = site.compose(wanted).node
            self.assertEqual("absent", site.remove(wanted, node).state)

    def test_one_bad_document_does_not_keep_others_from_being_composed(self):
        with rack() as site:
            wanted, other = site.wanted(), site.wanted(0).blocks[0]
        with rack(f"status:500:GET:{other}") as site:
            self.assertEqual("composed", site.compose(wanted).state)


class TestVolumes(unittest.TestCase):
    """The volumes that a rack creates for a node."""

    def read(self, request: CompositionRequest, *sizes: object, **more: Any) -> CompositionResult:
        volumes = {f"/St/V/{number}": {"CapacityBytes": size and size * GIB}
                   for number, size in enumerate(sizes, start=1)}  # fmt: skip
        self.rack = Rack(**volumes)
        self.node = self.rack.assembled(RemoteDrives=links(*volumes), **more)
        return self.rack.composer.read_node(request)

    def test_they_are_told_with_their_sizes_in_gib(self):
        found = self.read(cut(10.0, 20.0), 10, 20.5)
        expected = Grant("/St/V/1", 10.0), Grant("/St/V/2", 20.5)
        self.assertEqual(("composed", expected), (found.state, found.amounts))

    def test_their_sizes_are_rounded_to_a_billionth(self):
        self.assertEqual(1.000000001, self.read(cut(1.0), 1 + 1 / GIB).amounts[0].amount)

    def test_those_that_are_missing_are_counted(self):
        found = self.read(cut(10.0, 20.0), 10)
        reason = f"{self.node} exists without 1 of its 2 volumes"
        self.assertEqual(("left", reason), (found.state, found.reason))
        found = self.read(cut(1))
        self.assertEqual(f"{self.node} exists without 1 of its 1 volume", found.reason)

    def test_those_that_are_too_small_together_are_told_with_their_size(self):
        found = self.read(cut(10.0, 20.0), 10, 15)
        reason = f"{self.node} exists without volumes of 30 GiB: found 25"
        self.assertEqual(("left", reason), (found.state, found.reason))
        self.assertEqual("composed", self.read(cut(10.0, 20.0), 15, 15).state)
        self.assertEqual("composed", self.read(cut(10.0000001), 10).state)

    def test_those_of_older_services_tell_no_size_and_are_taken(self):
        for size in (None, 0):
            found = self.read(cut(10.0, 20.0), 5, size)
            self.assertEqual(("composed", 0.0), (found.state, found.amounts[1].amount))

    def test_a_missing_block_is_named_before_them(self):
        request = CompositionRequest(name="vs-1", blocks=("/S/1", "/D/1"), grants=cut(1).grants)
        found = self.read(request)
        self.assertEqual(f"{self.node} exists without /D/1, 1 of its 1 volume", found.reason)

    def test_a_drive_of_its_system_or_a_local_one_is_none(self):
        found = self.read(NODE, 10, Storage=links("/S/1/Drives/1", "/D/1", "/St/V/1", "/S/10/V"),
                          LocalDrives=links("/D/1"))  # fmt: skip
        self.assertEqual(["/St/V/1", "/S/10/V"], [one.uri for one in found.amounts])


class TestReadBack(unittest.TestCase):
    """Finding the node that is meant."""

    def test_it_is_the_one_of_its_name_or_of_the_very_blocks_at_its_uri(self):
        rack = Rack()
        rack.assembled(name="other")
        node = rack.assembled(name="vs-1")
        self.assertEqual(node, rack.composer.read_node(NODE).node)
        rack.documents[node]["Name"] = "renamed"
        self.assertEqual(node, rack.composer.read_node(NODE, node.upper()).node)
        other = CompositionRequest(name="vs-1", blocks=("/S/1", "/S/2"))
        self.assertIsNone(rack.composer.read_node(other, node).node)
        nothing = CompositionRequest(name="vs-1")
        self.assertIsNone(rack.composer.read_node(nothing, node).node)

    def test_the_very_blocks_under_another_name_are_in_doubt_only_without_a_uri(self):
        rack = Rack()
        node = rack.assembled(name="theirs")
        reason = f"{node} has the same blocks, under the name 'theirs': {WHOSE}"
        expected = CompositionResult(state="unknown", reason=reason)
        self.assertEqual(expected, rack.composer.read_node(NODE))
        expected = CompositionResult(state="absent", reason="/S/1: found Composed")
        self.assertEqual(expected, rack.composer.read_node(NODE, "/N/other"))

    def test_a_node_that_goes_while_it_is_read_is_left(self):
        rack = Rack()
        node = rack.assembled()
        get, reads = rack.get, []

        def read(uri: str) -> Reply:
            reads.append(uri)
            return Reply(404, {}, None) if reads.count(node) > 1 and uri == node else get(uri)

        rack.get = read
        found = rack.composer.read_node(NODE)
        reason = f"{node} is Gone"
        self.assertEqual(("left", reason), (found.state, found.reason))

    def test_a_document_that_cannot_be_read_matters_only_where_the_node_is_not_found(self):
        rack = Rack(**{"/N/7": 500})
        node = rack.assembled()
        rack.documents["/N"]["Members"] += [{"@odata.id": "/N/7"}]
        self.assertEqual("composed", rack.composer.read_node(NODE, node).state)
        rack.documents[node]["Name"] = "theirs"
        found = rack.composer.read_node(NODE, "/N/99")
        error = "could not be read back: /N/7: HTTP 500, expected a document"
        self.assertEqual(CompositionResult(state="unknown", node="/N/99", reason=error), found)
        rack.documents["/N/7"] = 404
        self.assertEqual("absent", rack.composer.read_node(NODE, "/N/99").state)


class TestRemoved(unittest.TestCase):
    """Deleting a node, by force if it is stuck."""

    def rack(self, **more: Any) -> Rack:
        rack = Rack()
        self.node = rack.assembled(**more)
        rack.on_delete = self.drop(rack)
        return rack

    def drop(self, rack: Rack) -> Any:
        def answer(uri: str) -> Reply:
            rack.documents["/N"] = {**rack.documents["/N"], "Members": []}
            return rack.drop(uri)

        return answer

    def test_what_is_gone_is_absent(self):
        rack = self.rack()
        gone = CompositionResult(state="absent", freed=NODE.blocks)
        self.assertEqual(gone, rack.remove(self.node))
        self.assertEqual([self.node], rack.sent("DELETE"))
        self.assertEqual(["deleting", "answered"], rack.states)

    def test_what_is_not_there_or_in_doubt_is_not_deleted(self):
        rack = self.rack()
        other = CompositionRequest(name="vs-2", blocks=("/S/2",))
        self.assertEqual("absent", rack.remove(self.node, other).state)
        rack.documents[self.node] = 500
        self.assertEqual("unknown", rack.remove(self.node).state)
        self.assertEqual([], rack.sent("DELETE"))

    def forced(self, rack: Rack, answer: Any) -> None:
        target = {"target": f"{self.node}/ForceDelete"}
        rack.documents[self.node]["Actions"] |= {"#ComposedNode.ForceDelete": target}
        rack.on_post = answer

    def test_one_that_is_stuck_is_deleted_by_force(self):
        rack = self.rack()
        drop = rack.on_delete
        rack.on_delete = rack.refuse
        self.forced(rack, lambda uri, body: drop(self.node))
        self.assertEqual("absent", rack.remove(self.node).state)
        states = ["deleting", "answered", "deleting by force", "answered"]
        self.assertEqual(states, rack.states)
        self.assertEqual(([f"{self.node}/ForceDelete"], [{}]), (rack.sent("POST"), rack.bodies))

    def test_one_that_goes_late_needs_no_force_but_a_refused_one_is_not_waited_for(self):
        rack = self.rack()
        drop = rack.on_delete
        rack.on_delete = lambda uri: Reply(204, {}, None)
        rack.meanwhile = [lambda: None] * 6 + [lambda: drop(self.node)]
        self.forced(rack, rack.refuse)
        self.assertEqual("absent", rack.remove(self.node).state)
        self.assertEqual([], rack.sent("POST"))

    def test_force_is_waited_for_too(self):
        rack = self.rack()
        drop = rack.on_delete
        rack.on_delete = rack.refuse
        self.forced(rack, lambda uri, body: Reply(204, {}, None))
        rack.meanwhile = [lambda: None, lambda: drop(self.node)]
        self.assertEqual("absent", rack.remove(self.node).state)

    def test_one_that_stays_is_left_with_the_last_reason(self):
        rack = self.rack()
        rack.on_delete = rack.refuse
        why = f"{self.node} still exists: HTTP 400: not here"
        found = rack.remove(self.node)
        self.assertEqual(("left", self.node, why), (found.state, found.node, found.reason))
        rack.become(self.node, "Assembling")
        self.forced(rack, lambda uri, body: Reply(204, {}, None))
        found = rack.remove(self.node)
        why = f"{self.node} still exists: the service reported its deletion"
        self.assertEqual(("left", False, why), (found.state, found.works, found.reason))

    def test_one_that_cannot_be_read_back_is_unknown(self):
        rack = self.rack()
        rack.on_delete = lambda uri: rack.documents.update({uri: 500}) or Reply(204, {}, None)
        found = rack.remove(self.node)
        error = f"could not be read back: {self.node}: HTTP 500, expected a document"
        self.assertEqual(("unknown", error), (found.state, found.reason))

    def test_volumes_that_stay_without_their_node_are_named(self):
        rack = self.rack(RemoteDrives=links("/St/V/1", "/St/V/2", "/St/V/3"))
        rack.documents |= {"/St/V/1": {"CapacityBytes": GIB}, "/St/V/3": {}}
        reason = "volume /St/V/1, /St/V/3 of the node still exists"
        stays = Grant("/St/V/1", 1.0), Grant("/St/V/3", 0.0)
        expected = CompositionResult(state="left", reason=reason, amounts=stays)
        self.assertEqual(expected, rack.remove(self.node))

    def test_volumes_that_cannot_be_read_leave_it_unknown(self):
        rack = self.rack(RemoteDrives=links("/St/V/1"))
        drop = rack.on_delete
        rack.on_delete = lambda uri: rack.documents.update({"/St/V/1": 500}) or drop(uri)
        error = "could not be read back: /St/V/1: HTTP 500, expected a document"
        found = rack.remove(self.node)
        self.assertEqual(("unknown", error), (found.state, found.reason))


class TestAsking(unittest.TestCase):
    """The offers of a rack, and the free ones among them."""

    def test_without_an_allocate_action_it_is_refused_by_name(self):
        reason = "the collection of nodes has no Allocate action, so vs-1 cannot be composed"
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
        words = "^Rack Scale Design offers no preview: Allocate takes the hardware immediately$"
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
    """The body of Allocate."""

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
    """Finding our node after Allocate."""

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
        reason = f"{found.node} exists without /S/1"
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
        rack.on_post = rack.send_nothing
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
        doubt = f"{{}} has the same blocks, under the name 'x': {WHOSE}"
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
    """The states of an allocated node."""

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
        reason = f"the node has no Assemble action; {found.node} is Allocated"
        self.assertEqual(("left", reason, False), (found.state, found.reason, found.works))
        self.assertEqual(["allocating", "answered", "allocated"], rack.states)

    def ask_with_one_failed_read(
        self, number: int, is_named: bool = True, status: int = 500
    ) -> CompositionResult:
        """Compose with this answer to one read of the node, given by its number.

        With ``is_named`` the answer to Allocate names the node, and the node has our name.
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
        error = "not assembled: {0}: HTTP 500, expected a document; {0} is Allocated"
        (left,) = (one for one in found if one.reason.startswith("not assembled: "))
        self.assertEqual(error.format(left.node), left.reason)

    def test_a_node_that_is_gone_for_one_read_is_a_result_and_no_error(self):
        found = [self.ask_with_one_failed_read(number, status=404) for number in range(1, 10)]
        self.assertLessEqual({one.state for one in found}, {"composed", "left", "absent"})
        reason = "the node has no Assemble action; {0} is Allocated"
        (left,) = (one for one in found if one.reason.startswith("the node has no Assemble"))
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
        reason = f"HTTP 400: not here; {found.node} is Allocated"
        self.assertEqual(("left", reason), (found.state, found.reason))
        self.assertEqual(1, rack.states.count("allocated"))

    def assembling(self, rack: Rack, *states: str) -> CompositionResult:
        """Compose while the node goes through these states, one per pause."""

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
        reason = f"{found.node} is Assembling"
        self.assertEqual(("left", True, reason), (found.state, found.works, found.reason))
        self.assertEqual(3, rack.states.count("assembling") - 1)

    def test_one_that_stays_failed_does_not_go_on(self):
        found = self.assembling(Rack(pauses=2), "Failed")
        reason = f"{found.node} is Failed"
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
        self.assertEqual(f"{node} is Unknown", found.reason)
