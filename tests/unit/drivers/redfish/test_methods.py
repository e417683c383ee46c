# SPDX-License-Identifier: Apache-2.0
"""What a service requires of a composition, kept; what it cannot compose, refused beforehand."""

import contextlib
import unittest
from collections.abc import Iterator

from tests.unit.drivers.redfish.test_composer import NODE, Bench, quiet
from tests.unit.trees import RULES, V, ruled, tree
from valence_sched.drivers.connect import HttpSession
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline
from valence_sched.drivers.redfish.methods import ComposeCapabilities, read_capabilities
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
        with self.bench(self.ruled(**rules)) as site:
            outcome = site.compose()
            self.assertEqual("composed", outcome.state, outcome)
            return site.podm.documents.get(outcome.node)

    def test_what_is_required_is_sent_with_a_value_that_is_allowed(self):
        rules = {f"PowerPolicy{REQUIRED}": True, f"PowerPolicy{ALLOWED}": ["Eco", "Full"]}
        with self.bench(self.ruled(**rules)) as site:
            self.assertEqual("composed", site.compose().state)

    def test_a_name_for_the_host_is_that_of_the_node(self):
        self.assertEqual("node-1", self.sent(**{f"HostName{REQUIRED}": True})["HostName"])

    def test_an_object_that_is_required_has_what_is_required_in_it(self):
        boot = {f"BootSourceOverrideTarget{REQUIRED}": True,
                f"BootSourceOverrideTarget{ALLOWED}": ["Pxe", "Hdd"]}  # fmt: skip
        self.sent(**{f"Boot{REQUIRED}": True, "Boot": boot})

    def test_what_nobody_has_a_value_for_is_refused_before_any_effect(self):
        with self.bench(self.ruled(**{f"Tenant{REQUIRED}": True})) as site:
            self.assertRegex(site.composer.refusal(NODE), "requires 'Tenant' to compose")
            self.assertEqual("absent", site.compose().state)
            self.assertEqual({"GET"}, {seen.method for seen in site.podm.requests})

    def test_one_capability_that_cannot_be_read_keeps_nobody_from_composing(self):
        with self.bench(self.ruled(), f"status:500:GET:{RULES}") as site:
            self.assertEqual("composed", site.compose().state)


class TestPages(WithTree):
    """Collections that come page by page."""

    def read(self, page_size: int) -> ComposeCapabilities:
        documents = self.ruled()
        stated = documents[f"{V}/Systems"].pop("@Redfish.CollectionCapabilities")
        documents[f"{V}/CompositionService/ResourceZones/row-c"] |= {
            "@Redfish.CollectionCapabilities": stated
        }
        with self.bench(documents, page_size=page_size) as site:
            return read_capabilities(HttpSession(site.connection))

    def test_the_zones_of_every_page_tell_their_ways_to_compose(self):
        whole = self.read(page_size=0)
        self.assertEqual([(f"{V}/CompositionService/ResourceZones/row-c",)],
                         [case.zones for case in whole.use_cases])  # fmt: skip
        for size in (1, 2):
            self.assertEqual(whole, self.read(page_size=size))

    def test_what_every_collection_offers_is_told_once(self):
        documents = self.ruled()
        zones = documents[f"{V}/CompositionService/ResourceZones"]
        zones["@Redfish.CollectionCapabilities"] = documents[f"{V}/Systems"][
            "@Redfish.CollectionCapabilities"
        ]
        with self.bench(documents, page_size=1) as site:
            found = read_capabilities(HttpSession(site.connection)).use_cases
        self.assertEqual([SPECIFIC] * 2, [case.name for case in found])


class TestRefused(WithTree):
    """What this pod manager cannot make at all."""

    def test_an_amount_of_nothing_that_can_be_divided_is_refused_in_one_line(self):
        wanted = CompositionRequest(
            name="n", blocks=NODE.blocks, grants=(Grant(f"{V}/Chassis/1/Domain", 8),)
        )
        with self.bench(self.tree) as site:
            self.assertRegex(
                site.composer.refusal(wanted),
                "found nothing that a memory chunk .* expected to make 8",
            )

    def test_an_amount_that_an_operator_declares_is_counted_and_not_composed(self):
        wanted = CompositionRequest(
            name="n", blocks=NODE.blocks, grants=(Grant("declared:watts", 8),)
        )
        with self.bench(self.tree) as site:
            self.assertIsNone(site.composer.refusal(wanted))


class TestManifest(WithTree):
    """The Compose action, where nothing else is offered."""

    def test_a_reservation_is_used_up_by_the_node(self):
        with self.bench(with_action(self.copy())) as site:
            self.assertTrue(site.composer.reserve(NODE))
            self.assertEqual("composed", site.compose().state)

    def test_a_reservation_that_ended_before_the_node_is_none(self):
        with self.bench(with_action(self.copy())) as site:
            self.assertTrue(site.composer.reserve(NODE))
            site.composer._reservation = "ended-long-ago"
            reservations = site.podm.app.podm.writes.reservations
            for uri in list(site.podm.documents):
                if uri.startswith(f"{reservations.collection}/"):
                    reservations.delete(uri)
            self.assertEqual("composed", site.compose().state)
            self.assertEqual(3, sum(seen.method == "POST" for seen in site.podm.requests))

    def test_a_preview_says_why_not(self):
        with self.bench(with_action(self.copy())) as site:
            self.assertIsNone(site.composer.preview(NODE))
            site.compose()
            self.assertRegex(site.composer.preview(NODE), "in use")


class TestMarks(WithTree):
    """The flag Reserved."""

    def reserved(self, site: Bench) -> list[bool]:
        documents = site.podm.documents
        return [documents.get(uri)["CompositionStatus"]["Reserved"] for uri in NODE.blocks]

    def set(self, site: Bench, uri: str) -> None:
        documents = site.podm.documents
        json = documents.get(uri)
        status = {**json["CompositionStatus"], "Reserved": True}
        documents.put(uri, {**json, "CompositionStatus": status})

    def test_a_block_that_somebody_else_reserved_meanwhile_ends_it(self):
        with self.bench(self.tree) as site:
            self.set(site, NODE.blocks[1])
            with self.assertRaisesRegex(ClaimLost, "found Unused, reserved"):
                site.composer.reserve(NODE)
            self.assertEqual([False, True], self.reserved(site))

    def test_a_flag_that_cannot_be_set_leaves_none_set(self):
        with self.bench(self.tree, f"status:403:PATCH:{NODE.blocks[1]}") as site:
            self.assertFalse(site.composer.reserve(NODE))
            self.assertEqual([False, False], self.reserved(site))

    def test_a_composed_node_reserves_nothing_any_more(self):
        with self.bench(self.tree) as site:
            site.composer.reserve(NODE)
            node = site.compose().node
            self.assertEqual([False, False], self.reserved(site))
            site.composer.remove(NODE, node, quiet)
            self.assertEqual([], site.composer.conflicts(NODE))

    def test_an_etag_that_is_refused_for_nothing_is_left_out(self):
        with self.bench(self.tree, f"status:412:PATCH:{NODE.blocks[0]}:1") as site:
            self.assertTrue(site.composer.reserve(NODE))


class TestFound(WithTree):
    """Where a node is, whatever a reply says."""

    def located(self, location: str) -> str:
        """Compose, with the header Location as this; return the state."""
        with self.bench(self.copy()) as site:
            compose = site.podm.app.podm.writes._compose

            def answer(*words):
                found = compose(*words)
                where = location.replace("NODE", found.headers["Location"].rpartition("/")[2])
                return type(found)(found.status, None, {"Location": where})

            site.podm.app.podm.writes._compose = answer
            outcome = site.compose()
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
        with self.bench(self.copy()) as site:
            other = CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks[:1])
            uri = site.compose(other).node
            self.assertEqual("absent", site.composer.remove(NODE, uri, quiet).state)
            self.assertEqual("composed", site.composer.read_node(other, uri).state)

    def test_blocks_that_name_no_system_are_found_by_the_systems(self):
        with self.bench(self.copy()) as site:
            site.compose(CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks))
            for uri in NODE.blocks:
                json = site.podm.documents.get(uri)
                links = {**json.get("Links", {}), "ComputerSystems": []}
                site.podm.documents.put(uri, {**json, "Links": links})
            wanted = CompositionRequest(name="node-1", blocks=NODE.blocks[:1])
            self.assertEqual("absent", site.composer.read_node(wanted).state)

    def test_the_very_blocks_under_another_name_leave_it_to_a_person(self):
        with self.bench(self.copy()) as site:
            site.compose(CompositionRequest(name="node-other", pool="row-a", blocks=NODE.blocks))
            found = site.composer.read_node(NODE)
            self.assertEqual("unknown", found.state)
            self.assertRegex(found.reason, "under the name 'node-other'")

    def test_a_task_that_outlives_all_patience_goes_on(self):
        with self.bench(self.copy(), "async", task_s=60.0) as site:
            outcome = site.compose()
            self.assertEqual(("unknown", True), (outcome.state, outcome.works))

    def test_a_monitor_that_answers_later_is_waited_for(self):
        with self.bench(self.copy(), "async", f"status:503:GET:{V}/TaskService/*:6") as site:
            self.assertEqual("composed", site.compose().state)
