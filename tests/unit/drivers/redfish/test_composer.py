# SPDX-License-Identifier: Apache-2.0
"""Composing on served Redfish pod managers: what came of it is judged by reading back."""

import contextlib
import unittest
from collections.abc import Iterator
from pathlib import Path

from valence_sched.drivers.connect import HttpSession
from valence_sched.drivers.http.connection import Connection
from valence_sched.drivers.http.exchange import Deadline, Patience
from valence_sched.drivers.redfish.composer import RedfishComposer
from valence_sched.errors import PodmError
from valence_sched.model.composition import CompositionRequest, CompositionResult
from valence_sched.model.registration import Registration
from valence_sched.testing.served import ServedPodm, served

SITE = str(Path(__file__).parents[4] / "examples" / "site.json")
BLOCKS = "/redfish/v1/CompositionService/ResourceBlocks"
NODE = CompositionRequest(
    name="node-1",
    pool="row-a",
    blocks=(f"{BLOCKS}/Compute-02", f"{BLOCKS}/GPU-02"),
)


def quiet(_state: str) -> None:
    pass


class Bench:
    """One served pod manager and the composer on it."""

    def __init__(self, served_: ServedPodm, connection: Connection) -> None:
        self.podm, self.connection = served_, connection
        self.composer = RedfishComposer(HttpSession(connection), lambda: Patience(2))

    def compose(self, wanted: CompositionRequest = NODE) -> CompositionResult:
        return self.composer.compose(wanted, quiet)

    def state(self, block: str) -> str:
        return str(self.podm.documents.get(block)["CompositionStatus"]["CompositionState"])

    @property
    def systems(self) -> list[str]:
        found = (uri.rpartition("/")[2] for uri in self.podm.documents)
        return [name for name in found if name.startswith("node-")]


@contextlib.contextmanager
def bench(*fail: str) -> Iterator[Bench]:
    with served(SITE, fail=fail) as podms:
        podm = podms["gpu-east"]
        entry = Registration(name=podm.id, url=podm.url)
        with Connection(entry, None, Deadline(20)) as connection:
            yield Bench(podm, connection)


class TestRedfishComposer(unittest.TestCase):
    """Nothing goes wrong."""

    def test_a_node_is_made_of_the_very_blocks(self):
        with bench() as site:
            result = site.compose()
            self.assertEqual(("composed", NODE.blocks), (result.state, result.blocks))
            self.assertEqual(["Composed"] * 2, [site.state(uri) for uri in NODE.blocks])

    def test_a_node_that_is_removed_leaves_nothing_behind(self):
        with bench() as site:
            node = site.compose().node
            self.assertEqual("absent", site.composer.remove(NODE, node, quiet).state)
            self.assertEqual(["Unused"] * 2, [site.state(uri) for uri in NODE.blocks])
            self.assertEqual([], site.composer.conflicts(NODE))

    def test_what_is_free_is_told_block_by_block(self):
        with bench() as site:
            self.assertEqual([], site.composer.conflicts(NODE))
            site.compose()
            first, _ = site.composer.conflicts(NODE)
            self.assertIn("Compute-02: found Composed", first)
            self.assertIn("by /redfish/v1/Systems/", first)

    def test_a_block_that_is_not_there_is_taken(self):
        with bench() as site:
            wanted = CompositionRequest(name="n", blocks=(f"{BLOCKS}/None",))
            self.assertEqual(
                [f"{BLOCKS}/None: found no such block"], site.composer.conflicts(wanted)
            )

    def test_reserved_blocks_are_seen_by_others_and_can_be_let_go(self):
        with bench() as site:
            self.assertTrue(site.composer.reserve(NODE))
            self.assertIn("reserved", site.composer.conflicts(NODE)[0])
            site.composer.unreserve(NODE)
            self.assertEqual([], site.composer.conflicts(NODE))

    def test_a_write_is_sent_once(self):
        with bench() as site:
            site.compose()
            writes = [seen for seen in site.podm.requests if seen.method == "POST"]
            self.assertEqual(1, len(writes))

    def test_without_a_compose_action_there_is_no_preview(self):
        with bench() as site, self.assertRaisesRegex(PodmError, "offers no Compose action"):
            site.composer.preview(NODE)


class TestFaults(unittest.TestCase):
    """Pod managers that say one thing and do another."""

    def check(self, rule: str, state: str, reason: str = "^") -> None:
        with bench(rule) as site:
            result = site.compose()
            self.assertEqual(state, result.state, result)
            self.assertRegex(result.reason, reason)

    def test_a_reply_that_is_lost_after_the_effect_is_a_node(self):
        self.check("drop-reply:POST:/redfish/v1/Systems", "composed")

    def test_created_and_nothing_composed_is_no_node(self):
        self.check("empty-create", "absent")

    def test_success_with_an_error_in_the_body_is_no_node(self):
        self.check("lie:POST:/redfish/v1/Systems", "absent", "HTTP 200: ")

    def test_an_accepted_task_is_waited_for(self):
        self.check("async", "composed")

    def test_a_task_that_ends_in_an_exception_is_no_node(self):
        self.check("task-exception", "absent")

    def test_a_block_that_somebody_takes_meanwhile_is_named(self):
        self.check(f"steal:{BLOCKS}/GPU-02", "absent", "GPU-02")

    def test_an_error_of_the_server_is_no_node(self):
        self.check("status:500:POST:/redfish/v1/Systems", "absent", "HTTP 500")

    def test_a_reply_that_is_no_json_is_judged_by_what_is_there(self):
        self.check("html:POST:/redfish/v1/Systems", "absent")

    def test_a_pod_manager_that_dies_at_the_write_leaves_it_unknown(self):
        self.check("die-after:0", "unknown", "could not be read back")

    def test_a_busy_block_composed_again_is_not_our_node(self):
        with bench("double-book") as site:
            site.compose()
            result = site.compose(
                CompositionRequest(name="node-2", pool="row-a", blocks=NODE.blocks)
            )
            self.assertEqual("left", result.state)
            self.assertRegex(result.reason, "part of .*node-1")

    def test_a_node_that_stays_after_its_removal_is_a_ghost(self):
        with bench("ghost") as site:
            node = site.compose().node
            gone = site.composer.remove(NODE, node, quiet)
            self.assertEqual("left", gone.state)
            self.assertRegex(gone.reason, "still there: it answered that the node is gone")

    def test_a_reply_that_is_lost_after_a_removal_is_a_removal(self):
        with bench("drop-reply:DELETE:/redfish/v1/Systems*") as site:
            node = site.compose().node
            self.assertEqual("absent", site.composer.remove(NODE, node, quiet).state)

    def test_a_patch_that_replaces_whole_objects_loses_no_state(self):
        with bench("patch-replaces") as site:
            self.assertTrue(site.composer.reserve(NODE))
            self.assertEqual("Unused", site.state(NODE.blocks[0]))
