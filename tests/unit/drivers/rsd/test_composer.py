# SPDX-License-Identifier: Apache-2.0
"""Composing on served racks of Intel RSD: allocated, assembled, and judged by reading back."""

import contextlib
import unittest
from collections.abc import Iterator

from tests.unit.drivers.files.test_tree import documents_of
from tests.unit.drivers.racks import BAYS, FPGAS, NETWORK, PCIE, SYSTEMS
from valence_sched.drivers.connect import HttpSession
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline, Patience
from valence_sched.drivers.rsd.composer import RsdComposer
from valence_sched.drivers.rsd.reader import read_podm
from valence_sched.errors import PodmError
from valence_sched.model.composition import CompositionRequest, CompositionResult
from valence_sched.model.registration import Registration
from valence_sched.testing.served import ServedPodm, served

V = "/redfish/v1"


class Bench:
    """One served rack and the composer on it."""

    def __init__(self, served_: ServedPodm, connection: Connection) -> None:
        self.podm = served_
        self.states: list[str] = []
        self.composer = RsdComposer(HttpSession(connection, 10), lambda: Patience(2))

    def free(self) -> list[str]:
        blocks = read_podm(self.composer._service(), "podm", "rsd").blocks
        return [block.uri for block in blocks if block.status.slots]

    def wanted(self, number: int = -1, name: str = "vs-1") -> CompositionRequest:
        """The last free system: greedy Allocate would take the first."""
        systems = [uri for uri in self.free() if uri.startswith(SYSTEMS)]
        return CompositionRequest(name=name, blocks=(systems[number],))

    def compose(self, wanted: CompositionRequest) -> CompositionResult:
        return self.composer.compose(wanted, self.states.append)

    def remove(self, wanted: CompositionRequest, node: str) -> CompositionResult:
        return self.composer.remove(wanted, node, self.states.append)

    @property
    def names(self) -> list[str]:
        documents = self.podm.documents
        return [
            str(documents.get(uri).get("Name"))
            for uri in documents
            if uri.startswith(f"{V}/Nodes/") and "ComposedNodeState" in documents.get(uri)
        ]

    def sent(self, method: str, word: str = "") -> int:
        return sum(it.method == method and word in it.path for it in self.podm.requests)


@contextlib.contextmanager
def rack(*fail: str, name: str = PCIE) -> Iterator[Bench]:
    with served(documents={"rack": documents_of(name)}, fail=fail) as podms:
        podm = podms["rack"]
        with Connection(Registration(name="rack", url=podm.url), None, Deadline(20)) as connection:
            yield Bench(podm, connection)


class TestRsdHands(unittest.TestCase):
    """Nothing goes wrong."""

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

    def test_the_states_of_the_assembly_are_shown(self):
        with rack() as site:
            site.compose(site.wanted())
            self.assertEqual(["allocating", "answered", "assembling", "answered"], site.states[:4])
            self.assertEqual(("assembling", "assembled"), (site.states[4], site.states[-1]))

    def test_each_write_is_sent_once(self):
        with rack() as site:
            site.compose(site.wanted())
            self.assertEqual((1, 1), (site.sent("POST", "Allocate"), site.sent("POST", "Assemble")))

    def test_what_is_composed_is_taken_and_free_again_once_removed(self):
        with rack() as site:
            wanted = site.wanted()
            self.assertEqual([], site.composer.conflicts(wanted))
            node = site.compose(wanted).node
            self.assertRegex(site.composer.conflicts(wanted)[0], "found Composed")
            self.assertEqual("absent", site.remove(wanted, node).state)
            self.assertEqual([], site.composer.conflicts(wanted))

    def test_a_node_is_found_by_its_name(self):
        with rack() as site:
            wanted = site.wanted()
            node = site.compose(wanted).node
            self.assertEqual(node, site.composer.read_node(wanted).node)

    def test_a_node_at_its_uri_that_is_another_is_left_alone(self):
        with rack() as site:
            wanted = site.wanted()
            node = site.compose(wanted).node
            other = CompositionRequest(name="vs-2", blocks=("/redfish/v1/Systems/none",))
            self.assertEqual("absent", site.remove(other, node).state)
            self.assertEqual(0, site.sent("DELETE"))

    def test_there_is_nothing_to_reserve_and_nothing_to_ask(self):
        with rack() as site:
            self.assertFalse(site.composer.reserve(site.wanted()))
            with self.assertRaisesRegex(PodmError, "offers no preview"):
                site.composer.preview(site.wanted())


class TestRsdFaults(unittest.TestCase):
    """Racks that refuse, lie, or lose what they had."""

    def check(self, rule: str, state: str, reason: str = "^") -> None:
        with rack(rule) as site:
            result = site.compose(site.wanted())
            self.assertEqual(state, result.state, result)
            self.assertRegex(result.reason, reason)

    def test_the_counts_of_a_conflict_are_the_reason(self):
        with rack() as site:
            wanted = site.wanted()
            site.compose(wanted)
            result = site.compose(CompositionRequest(name="vs-2", blocks=wanted.blocks))
            self.assertEqual("absent", result.state)
            self.assertRegex(result.reason, r"HTTP 409: .*available: \d+ -> .*processors: 0")

    def test_a_lost_reply_to_allocate_is_a_node(self):
        self.check(f"drop-reply:POST:{V}/Nodes/Actions/Allocate", "composed")

    def test_a_lost_reply_to_assemble_is_a_node(self):
        self.check(f"drop-reply:POST:{V}/Nodes/*/Actions/ComposedNode.Assemble", "composed")

    def test_allocated_and_nothing_there_is_no_node(self):
        self.check("empty-create", "absent")

    def test_an_assembly_that_is_refused_leaves_what_must_be_taken_back(self):
        """semantics.md, trap 9: Allocate and Assemble are two calls, and the second may fail."""
        with rack(f"status:409:POST:{V}/Nodes/*/Actions/ComposedNode.Assemble") as site:
            wanted = site.wanted()
            result = site.compose(wanted)
            self.assertEqual("left", result.state)
            self.assertRegex(result.reason, "HTTP 409.*is Allocated and no further")
            self.assertEqual("absent", site.remove(wanted, result.node).state)

    def test_a_node_that_stays_failed_must_be_taken_back(self):
        self.check("failed-node", "left", "is Failed and no further")

    def test_a_failed_node_that_returns_by_itself_is_a_node(self):
        with rack("failed-node") as site:
            wanted, podm = site.wanted(), site.podm

            def watch(state: str) -> None:
                if state == "failed":
                    podm.app.podm.writes._rack.bring_back(wanted.blocks[0])

            result = site.composer.compose(wanted, watch)
            self.assertEqual("composed", result.state, result)

    def test_a_removal_that_breaks_is_done_by_force(self):
        with rack(f"status:500:DELETE:{V}/Nodes/*") as site:
            site.podm.documents.get(V)["Oem"]["Intel_RackScale"]["ApiVersion"] = "2.5.0"
            wanted = site.wanted()
            node = site.compose(wanted).node
            self.assertEqual("absent", site.remove(wanted, node).state)
            self.assertIn("deleting by force", site.states)

    def test_a_removal_that_breaks_without_force_leaves_the_node(self):
        with rack(f"status:500:DELETE:{V}/Nodes/*") as site:
            wanted = site.wanted()
            result = site.remove(wanted, site.compose(wanted).node)
            self.assertEqual("left", result.state)
            self.assertRegex(result.reason, "is still there: HTTP 500")

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

    def test_nodes_that_cannot_be_read_leave_it_unknown(self):
        with rack() as site:
            wanted = site.wanted()
        with rack(f"status:500:GET:{V}/Nodes/*") as site:
            self.assertEqual("unknown", site.compose(wanted).state)
