# SPDX-License-Identifier: Apache-2.0
"""Nodes of a rack: their volumes, which one is meant, and their removal."""

import unittest
from typing import Any

from tests.unit.drivers.redfish.stored import links
from tests.unit.drivers.rsd.rack import NODE, WHOSE, Rack, cut
from valence_sched.drivers.composer import Reply
from valence_sched.drivers.redfish.stocks import GIB
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest, CompositionResult


class TestVolumes(unittest.TestCase):
    """The volumes that a rack makes for a node."""

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
        reason = f"{self.node} is there without 1 of its 2 volumes"
        self.assertEqual(("left", reason), (found.state, found.reason))
        found = self.read(cut(1))
        self.assertEqual(f"{self.node} is there without 1 of its 1 volume", found.reason)

    def test_those_that_are_too_small_together_are_told_with_their_size(self):
        found = self.read(cut(10.0, 20.0), 10, 15)
        reason = f"{self.node} is there without volumes of 30 GiB: found 25"
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
        self.assertEqual(f"{self.node} is there without /D/1, 1 of its 1 volume", found.reason)

    def test_a_drive_of_its_system_or_a_local_one_is_none(self):
        found = self.read(NODE, 10, Storage=links("/S/1/Drives/1", "/D/1", "/St/V/1", "/S/10/V"),
                          LocalDrives=links("/D/1"))  # fmt: skip
        self.assertEqual(["/St/V/1", "/S/10/V"], [one.uri for one in found.amounts])


class TestReadBack(unittest.TestCase):
    """Which node is meant."""

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
        reason = f"{node} has the very blocks, under the name 'theirs': {WHOSE}"
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
        reason = f"{node} is Gone and no further"
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
    """Deleting a node, by force where it is stuck."""

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

    def test_the_task_of_a_removal_is_waited_for(self):
        rack = self.rack()
        drop = rack.on_delete
        rack.documents["/T/1"] = {"TaskState": "Running"}
        rack.on_delete = lambda uri: Reply(202, {"Location": "/T/1"}, None)

        def end():
            rack.documents["/T/1"] = {"TaskState": "Completed"}
            drop(self.node)

        rack.meanwhile = [lambda: None, end]
        gone = CompositionResult(state="absent", freed=NODE.blocks)
        self.assertEqual(gone, rack.remove(self.node))
        self.assertEqual(["deleting", "answered", "accepted", "running"], rack.states)

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
        why = f"{self.node} is still there: HTTP 400: not here"
        found = rack.remove(self.node)
        self.assertEqual(("left", self.node, why), (found.state, found.node, found.reason))
        rack.become(self.node, "Assembling")
        self.forced(rack, lambda uri, body: Reply(204, {}, None))
        found = rack.remove(self.node)
        why = f"{self.node} is still there: it answered that the node is gone"
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
        reason = "its volume /St/V/1, /St/V/3 is still there"
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
