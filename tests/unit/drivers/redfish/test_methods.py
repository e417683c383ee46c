# SPDX-License-Identifier: Apache-2.0
"""What a service requires of a composition, kept; what it cannot compose, refused beforehand."""

import contextlib
import unittest
from collections.abc import Iterator

from tests.unit.drivers.redfish.test_composer import NODE, Bench, quiet
from tests.unit.trees import RULES, V, ruled, tree
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.errors import Deadline
from valence_sched.errors import ClaimLost
from valence_sched.model.claim import Grant
from valence_sched.model.composition import CompositionRequest
from valence_sched.model.registration import Registration
from valence_sched.simulator.server.podm import SimulatorSettings
from valence_sched.testing.served import served

SPECIFIC = "ComputerSystemComposition"
REQUIRED, ALLOWED = "@Redfish.RequiredOnCreate", "@Redfish.AllowableValues"
ACTION = f"{V}/CompositionService/Actions/CompositionService.Compose"


def with_action(documents: dict) -> dict:
    """Let nothing but the Compose action be offered; its name is not always spelt right."""
    ruled(documents, "RegisterResourceBlock")
    service = documents[f"{V}/CompositionService"]
    service["Actions"] = {"#CompositionService.Compose": {"target": ACTION}}
    service["CompositionReservations"] = {"@odata.id": f"{V}/CompositionService/Reservations"}
    service["ReservationDuration"] = "PT5S"
    return documents


class WithTree(unittest.TestCase):
    """Serves changed documents of one pod manager."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.tree = tree("gpu-east")

    @contextlib.contextmanager
    def bench(self, documents: dict, *fail: str, **settings) -> Iterator[Bench]:
        words = {"settings": SimulatorSettings(**settings)} if settings else {}
        with served(documents={"p": documents}, fail=fail, **words) as podms:
            entry = Registration(name="p", url=podms["p"].url)
            with Connection(entry, None, Deadline(20)) as connection:
                yield Bench(podms["p"], connection)

    def ruled(self, **rules) -> dict:
        return ruled(dict(self.copy()), SPECIFIC, **rules)

    def copy(self) -> dict:
        return {uri: dict(json) for uri, json in self.tree.items()}


class TestRequired(WithTree):
    """RequiredOnCreate and AllowableValues of the capabilities."""

    def sent(self, **rules) -> dict:
        with self.bench(self.ruled(**rules)) as here:
            outcome = here.compose()
            self.assertEqual("composed", outcome.state, outcome)
            return here.podm.documents.get(outcome.node)

    def test_what_is_required_is_sent_with_a_value_that_is_allowed(self):
        rules = {f"PowerPolicy{REQUIRED}": True, f"PowerPolicy{ALLOWED}": ["Eco", "Full"]}
        with self.bench(self.ruled(**rules)) as here:
            self.assertEqual("composed", here.compose().state)

    def test_a_name_for_the_host_is_that_of_the_node(self):
        self.assertEqual("node-1", self.sent(**{f"HostName{REQUIRED}": True})["HostName"])

    def test_an_object_that_is_required_has_what_is_required_in_it(self):
        boot = {f"BootSourceOverrideTarget{REQUIRED}": True,
                f"BootSourceOverrideTarget{ALLOWED}": ["Pxe", "Hdd"]}  # fmt: skip
        self.sent(**{f"Boot{REQUIRED}": True, "Boot": boot})

    def test_what_nobody_has_a_value_for_is_refused_before_any_effect(self):
        with self.bench(self.ruled(**{f"Tenant{REQUIRED}": True})) as here:
            self.assertRegex(here.hands.refusal(NODE), "requires 'Tenant' to compose")
            self.assertEqual("absent", here.compose().state)
            self.assertEqual({"GET"}, {seen.method for seen in here.podm.requests})

    def test_one_capability_that_cannot_be_read_keeps_nobody_from_composing(self):
        with self.bench(self.ruled(), f"status:500:GET:{RULES}") as here:
            self.assertEqual("composed", here.compose().state)


class TestRefused(WithTree):
    """What this pod manager cannot make at all."""

    def test_an_amount_of_memory_is_refused_in_one_line(self):
        wanted = CompositionRequest(
            name="n", blocks=NODE.blocks, grants=(Grant(f"{V}/Chassis/1/Domain", 8),)
        )
        with self.bench(self.tree) as here:
            self.assertRegex(here.hands.refusal(wanted), "only whole blocks are composed")

    def test_an_amount_that_an_operator_declares_is_counted_and_not_composed(self):
        wanted = CompositionRequest(
            name="n", blocks=NODE.blocks, grants=(Grant("declared:watts", 8),)
        )
        with self.bench(self.tree) as here:
            self.assertIsNone(here.hands.refusal(wanted))


class TestManifest(WithTree):
    """The Compose action, where nothing else is offered."""

    def test_a_reservation_is_used_up_by_the_node(self):
        with self.bench(with_action(self.copy())) as here:
            self.assertTrue(here.hands.reserve(NODE))
            self.assertEqual("composed", here.compose().state)

    def test_a_reservation_that_ended_before_the_node_is_none(self):
        with self.bench(with_action(self.copy())) as here:
            self.assertTrue(here.hands.reserve(NODE))
            here.hands._reservation = "ended-long-ago"
            reservations = here.podm.app.podm.writes.reservations
            for uri in list(here.podm.documents):
                if uri.startswith(f"{reservations.collection}/"):
                    reservations.delete(uri)
            self.assertEqual("composed", here.compose().state)
            self.assertEqual(3, sum(seen.method == "POST" for seen in here.podm.requests))

    def test_a_preview_says_why_not(self):
        with self.bench(with_action(self.copy())) as here:
            self.assertIsNone(here.hands.preview(NODE))
            here.compose()
            self.assertRegex(here.hands.preview(NODE), "in use")


class TestMarks(WithTree):
    """The flag Reserved."""

    def reserved(self, here: Bench) -> list[bool]:
        documents = here.podm.documents
        return [documents.get(uri)["CompositionStatus"]["Reserved"] for uri in NODE.blocks]

    def set(self, here: Bench, uri: str) -> None:
        documents = here.podm.documents
        json = documents.get(uri)
        status = {**json["CompositionStatus"], "Reserved": True}
        documents.put(uri, {**json, "CompositionStatus": status})

    def test_a_block_that_somebody_else_reserved_meanwhile_ends_it(self):
        with self.bench(self.tree) as here:
            self.set(here, NODE.blocks[1])
            with self.assertRaisesRegex(ClaimLost, "found Unused, reserved"):
                here.hands.reserve(NODE)
            self.assertEqual([False, True], self.reserved(here))

    def test_a_flag_that_cannot_be_set_leaves_none_set(self):
        with self.bench(self.tree, f"status:403:PATCH:{NODE.blocks[1]}") as here:
            self.assertFalse(here.hands.reserve(NODE))
            self.assertEqual([False, False], self.reserved(here))

    def test_a_composed_node_reserves_nothing_any_more(self):
        with self.bench(self.tree) as here:
            here.hands.reserve(NODE)
            node = here.compose().node
            self.assertEqual([False, False], self.reserved(here))
            here.hands.remove(NODE, node, quiet)
            self.assertEqual([], here.hands.conflicts(NODE))

    def test_an_etag_that_is_refused_for_nothing_is_left_out(self):
        with self.bench(self.tree, f"status:412:PATCH:{NODE.blocks[0]}:1") as here:
            self.assertTrue(here.hands.reserve(NODE))


class TestFound(WithTree):
    """Where a node is, whatever a reply says."""

    def located(self, location: str) -> str:
        """Compose, with the header Location as this; return the state."""
        with self.bench(self.copy()) as here:
            compose = here.podm.app.podm.writes._compose

            def answer(*words):
                found = compose(*words)
                where = location.replace("NODE", found.headers["Location"].rpartition("/")[2])
                return type(found)(found.status, None, {"Location": where})

            here.podm.app.podm.writes._compose = answer
            outcome = here.compose()
            self.assertTrue(outcome.node is None or outcome.node.endswith("node-1"), outcome)
            return outcome.state

    def test_a_node_is_found_wherever_location_leads(self):
        for location in (
            f"{V}/Systems/NODE",
            f"http://elsewhere.example{V}/Systems/NODE",
            f"{V}/Systems/NODE/",
            "Systems/NODE",
            f"{V}/Systems/there-is-none",
            f"{V}/Chassis",
            "",
        ):
            with self.subTest(location):
                self.assertEqual("composed", self.located(location))

    def test_another_system_is_never_taken_for_ours(self):
        with self.bench(self.copy()) as here:
            other = CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks[:1])
            uri = here.compose(other).node
            self.assertEqual("absent", here.hands.remove(NODE, uri, quiet).state)
            self.assertEqual("composed", here.hands.read_node(other, uri).state)

    def test_blocks_that_name_no_system_are_found_by_the_systems(self):
        with self.bench(self.copy()) as here:
            here.compose(CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks))
            for uri in NODE.blocks:
                json = here.podm.documents.get(uri)
                links = {**json.get("Links", {}), "ComputerSystems": []}
                here.podm.documents.put(uri, {**json, "Links": links})
            wanted = CompositionRequest(name="node-1", blocks=NODE.blocks[:1])
            self.assertEqual("absent", here.hands.read_node(wanted).state)

    def test_the_very_blocks_under_another_name_leave_it_to_a_person(self):
        with self.bench(self.copy()) as here:
            here.compose(CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks))
            found = here.hands.read_node(NODE)
            self.assertEqual("unknown", found.state)
            self.assertRegex(found.reason, "under the name 'node-other'")

    def test_a_task_that_outlives_all_patience_goes_on(self):
        with self.bench(self.copy(), "async", task_s=60.0) as here:
            outcome = here.compose()
            self.assertEqual(("unknown", True), (outcome.state, outcome.works))

    def test_a_monitor_that_answers_later_is_waited_for(self):
        with self.bench(self.copy(), "async", f"status:503:GET:{V}/TaskService/*:6") as here:
            self.assertEqual("composed", here.compose().state)
