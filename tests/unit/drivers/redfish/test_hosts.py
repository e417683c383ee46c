# SPDX-License-Identifier: Apache-2.0
"""Nodes on hosts: systems that exist, to which blocks are attached by PATCH."""

import unittest

from tests.unit.drivers.redfish.stored import Service, block, link, links
from tests.unit.drivers.redfish.test_composer import BLOCKS, EXAMPLE, bench, quiet
from valence_sched.drivers.composer import Reply
from valence_sched.errors import ClaimLost
from valence_sched.model.claim import CompositionRequest

SYSTEMS = "/redfish/v1/Systems"
HOST, OTHER = f"{SYSTEMS}/Host-Compute-02", f"{SYSTEMS}/Host-Compute-03"
COMPUTE, GPU = EXAMPLE.blocks
ALONE = CompositionRequest(name="node-2", pool="row-a", blocks=(COMPUTE,))


def list_blocks(site, host=HOST):
    return [one["@odata.id"] for one in site.podm.documents.get(host)["Links"]["ResourceBlocks"]]


def attach(site, host, *blocks):
    """Attach blocks to a host as another client."""
    documents = site.podm.documents
    own = list_blocks(site, host)
    documents.update(host, Links={"ResourceBlocks": links(*own, *blocks)})
    for uri in blocks:
        documents.update(uri, Links={"ComputerSystems": [link(host)]})


class TestServedHosts(unittest.TestCase):
    """Hosts of a served pod manager that composes nothing."""

    def test_a_node_is_its_host_with_the_blocks_attached_and_goes_without_the_host(self):
        for fail in ((), ("if-match",), ("stale-tags",), ("late-change:300",)):
            with self.subTest(fail), bench("fixed-hosts", *fail) as site:
                self.assertIsNone(site.composer.refusal(EXAMPLE))
                self.assertEqual([], site.composer.conflicts(EXAMPLE))
                made = site.compose()
                self.assertEqual(("composed", HOST, ""), (made.state, made.node, made.reason))
                self.assertEqual(EXAMPLE.blocks, made.blocks)
                self.assertEqual([COMPUTE, GPU], list_blocks(site))
                self.assertEqual(HOST, site.composer.read_node(EXAMPLE).node)
                gone = site.composer.remove(EXAMPLE, HOST, quiet)
                self.assertEqual(("absent", EXAMPLE.blocks), (gone.state, gone.freed))
                self.assertEqual([COMPUTE], list_blocks(site))
                self.assertEqual([], site.composer.conflicts(EXAMPLE))

    def test_a_host_alone_is_a_node_too(self):
        with bench("fixed-hosts") as site:
            self.assertEqual("composed", site.compose(ALONE).state)
            self.assertEqual("absent", site.composer.remove(ALONE, HOST, quiet).state)
            attach(site, HOST, GPU)
            self.assertEqual("absent", site.composer.read_node(ALONE, HOST).state)
            self.assertEqual([COMPUTE, GPU], list_blocks(site))

    def test_blocks_of_another_tenant_are_a_conflict(self):
        with bench("fixed-hosts") as site:
            attach(site, OTHER, GPU)
            (found,) = site.composer.conflicts(EXAMPLE)
            self.assertEqual(f"{GPU}: found Unused, but part of {OTHER}", found)
            attach(site, HOST, f"{BLOCKS}/GPU-03")
            self.assertEqual(2, len(site.composer.conflicts(EXAMPLE)))

    def test_what_another_client_attached_to_the_node_is_not_detached(self):
        with bench("fixed-hosts") as site:
            site.compose()
            attach(site, HOST, f"{BLOCKS}/GPU-04")
            kept = site.composer.remove(EXAMPLE, HOST, quiet)
            self.assertEqual(("left", HOST), (kept.state, kept.node))
            self.assertIn("GPU-04, attached by another client: detach it first", kept.reason)
            self.assertEqual([COMPUTE, GPU, f"{BLOCKS}/GPU-04"], list_blocks(site))

    def test_a_block_or_a_host_taken_since_is_a_lost_race(self):
        for taken, reason in ((OTHER, f"{HOST}: HTTP 409"), (HOST, "a host with attached blocks")):
            with self.subTest(taken), bench("fixed-hosts") as site:
                self.assertIsNone(site.composer.refusal(EXAMPLE))
                attach(site, taken, GPU)
                with self.assertRaisesRegex(ClaimLost, reason):
                    site.compose()
                self.assertEqual([COMPUTE, GPU][: 1 + (taken == HOST)], list_blocks(site))

    def test_a_refusal_is_one_line_and_nothing_is_attached(self):
        for code in (404, 406, 500):
            with self.subTest(code), bench("fixed-hosts", f"status:{code}:PATCH:{HOST}") as site:
                made = site.compose()
                self.assertEqual("absent", made.state)
                self.assertRegex(made.reason, rf"^HTTP {code}: [^\n]+$")

    def test_a_lost_answer_is_read_back(self):
        with bench("fixed-hosts", f"drop-reply:PATCH:{HOST}") as site:
            self.assertEqual(("composed", HOST), (site.compose().state, list_blocks(site) and HOST))
            self.assertEqual("absent", site.composer.remove(EXAMPLE, HOST, quiet).state)
            self.assertEqual([COMPUTE], list_blocks(site))

    def test_a_service_that_composes_systems_is_asked_to(self):
        with bench() as site:
            attach_to = {"SystemType": "Physical", "Links": {"ResourceBlocks": links(COMPUTE)}}
            site.podm.documents.put(f"{SYSTEMS}/H", {"@odata.id": f"{SYSTEMS}/H", **attach_to})
            self.assertTrue(site.compose().node.endswith("/node-1"))


def compute(*systems):
    return block("Unused", *systems) | {"ResourceBlockType": ["Compute"]}


class TestStoredHosts(unittest.TestCase):
    """Services whose answers do not match their actions."""

    def service(self, **changes):
        host = {"SystemType": "Physical", "Links": {"ResourceBlocks": links("/B/1")}}
        podm = Service(**{"/S": {"Members": links("/S/1")}, "/S/1": host,
                          "/B/1": compute("/S/1"), **changes})  # fmt: skip
        self.podm = podm
        return podm

    def request(self):
        return CompositionRequest(name="vs-1", blocks=("/B/1", "/B/2"))

    def test_a_success_without_an_effect_is_not_verified(self):
        podm = self.service()
        podm.on_patch = lambda *_: Reply(204, {}, None)
        made = podm.ask(self.request())
        why = "the service reported success, but attached no block to /S/1"
        self.assertEqual(("unknown", why), (made.state, made.reason))
        self.assertEqual([], podm.sent("POST"))

    def test_a_service_that_only_stores_the_list_is_not_verified(self):
        podm = self.service()
        made = podm.ask(self.request())
        self.assertEqual(["/S/1"], podm.sent("PATCH"))
        self.assertEqual({"Links": {"ResourceBlocks": links("/B/1", "/B/2")}}, podm.bodies[0])
        self.assertEqual("unknown", made.state)
        self.assertIn("is not confirmed by any block", made.reason)

    def test_a_removal_without_an_effect_leaves_the_node(self):
        host = {"SystemType": "Physical", "Links": {"ResourceBlocks": links("/B/1", "/B/2")}}
        podm = self.service(**{"/S/1": host, "/B/2": block("Unused", "/S/1")})
        podm.on_patch = lambda *_: Reply(204, {}, None)
        left = podm.remove("/S/1", self.request())
        self.assertEqual(("left", ["/S/1"]), (left.state, podm.sent("PATCH")))
        self.assertIn("/S/1 still has the blocks of the node", left.reason)

    def test_a_block_without_types_is_of_the_host_if_it_has_a_cpu(self):
        untyped = block("Unused", "/S/1") | {"Processors": links("/P/1")}
        for kind, written in ((None, ["/S/1"]), ("CPU", ["/S/1"]), ("GPU", [])):
            with self.subTest(kind):
                cpu = {"ProcessorType": kind} if kind else {"TotalCores": 4}
                podm = self.service(**{"/B/1": untyped, "/P/1": cpu})
                podm.ask(self.request())
                self.assertEqual(written, podm.sent("PATCH"))
