# SPDX-License-Identifier: Apache-2.0
"""Nodes placed on servers without a composition service: claimed, tracked and released."""

import itertools
import tempfile
import unittest
from pathlib import Path

from tests.unit.lifecycle.site import Site, request, site
from tests.unit.store.engines import empty_file
from tests.unit.store.site import claimer
from tests.unit.trees import tree
from valence_sched.errors import ClaimLost
from valence_sched.lifecycle.access import PodmAccess
from valence_sched.model.claim import NO_USAGE, request_from_node
from valence_sched.model.registration import Registration
from valence_sched.store.store import Store

PODM = "gpu-east"


def servers(hosts: str = "free", **words):
    documents = {PODM: tree(PODM)}
    return site("servers", source=None, documents=documents, hosts=hosts, **words)


class TestPlaced(unittest.TestCase):
    def written(self, here: Site) -> list[str]:
        return [f"{one.method} {one.path}" for podm in here.podms.values()
                for one in podm.requests
                if one.method != "GET" and "Sessions" not in one.path]  # fmt: skip

    def test_unmanaged_hosts_are_never_chosen(self):
        with servers("unmanaged") as here:
            self.assertEqual(0, here.free_to_decide())
            self.assertIsNone(here.claimer.claim(request()).claim)

    def test_a_node_holds_its_host_through_all_readings_and_frees_it_at_once(self):
        with servers() as here:
            free = here.free_to_decide()
            claim = here.claim(request())
            node = here.composer.compose(claim)
            self.assertEqual((node.uri,), node.blocks)
            for hosts in ("free", "unmanaged", "free"):
                here.hosts = hosts
                here.read_again()
                self.assertEqual([], here.reconcile(), hosts)
                self.assertEqual("COMPOSED", here.store.claims.show(claim.id).state)
            self.assertEqual(free - 1, here.free_to_decide())
            here.composer.remove(node)
            self.assertEqual("RELEASED", here.store.claims.show(claim.id).state)
            self.assertEqual(free, here.free_to_decide())
            self.assertEqual([], self.written(here))

    def test_while_hosts_are_unmanaged_a_released_one_is_not_free(self):
        with servers() as here:
            node = here.composer.compose(here.claim(request()))
            here.hosts = "unmanaged"
            here.read_again()
            here.composer.remove(node)
            self.assertEqual(0, here.free_to_decide())

    def test_all_hosts_are_used_once_by_two_schedulers_on_one_state(self):
        with tempfile.TemporaryDirectory() as folder:
            url = empty_file(Path(folder))
            with servers(url=url) as here, Store(url) as store:
                schedulers = itertools.cycle((here.claimer, claimer(store)))
                count = here.free_to_decide()
                for _, scheduler in zip(range(count), schedulers, strict=False):
                    if claim := scheduler.claim(request()).claim:
                        here.composer.compose(claim)
                self.assertLess(1, len(here.store.nodes.list()))
                self.assertEqual([], here.blocks_used_twice())

    def test_a_claim_of_a_dead_process_is_freed(self):
        with servers() as here:
            free = here.free_to_decide()
            claim = here.claim(request())
            here.store.claims.start_composing(claim.id, 1e-6)
            (done,) = here.reconcile()
            self.assertIn("freed its holds: no node was composed", done)
            self.assertEqual(free, here.free_to_decide())

    def test_a_server_that_disappears_ends_its_node(self):
        with servers() as here:
            node = here.composer.compose(here.claim(request()))
            documents = here.podms[node.podm].documents
            documents.remove_member("/redfish/v1/Systems", node.uri)
            documents.remove_below(node.uri)
            documents.remove(node.uri)
            (done,) = here.reconcile()
            self.assertIn("record deleted, and its claim released", done)
            self.assertEqual([], here.store.nodes.list())

    def test_a_server_in_a_bad_condition_loses_the_race_before_the_node_is_placed(self):
        with servers() as here:
            claim = here.claim(request())
            (part,) = claim.parts
            (uri,) = part.blocks
            here.podms[part.podm].documents.update(uri, Status={"Health": "Critical"})
            with self.assertRaisesRegex(ClaimLost, f"{uri}: found Critical"):
                here.composer.compose(claim)
            self.assertEqual("FAILED", here.store.claims.show(claim.id).state)

    def test_a_node_is_listed_live_beside_the_unmanaged_ones(self):
        with servers() as here:
            node = here.composer.compose(here.claim(request()))
            for hosts in ("free", "unmanaged"):
                url = here.podms[node.podm].url
                known = {node.podm: Registration(name=node.podm, url=url, hosts=hosts)}
                access = PodmAccess(here.store, known, lambda _one: None)
                states = {it.node.uri: it.state for it in access.nodes(node.podm, live=True)}
                self.assertEqual("COMPOSED", states.pop(node.uri), hosts)
                self.assertEqual({"FOREIGN"} if hosts == "unmanaged" else set(),
                                 set(states.values()))  # fmt: skip

    def test_its_amounts_count_once_until_it_is_removed(self):
        stock, size = "cxl_memory_mib", 65536
        documents = {"mem-1": tree("mem-1")}
        with site("servers", "connections", source=None, documents=documents, hosts="free") as here:

            def used():
                usage = here.store.usages(["mem-1"]).get("mem-1", NO_USAGE)
                stocks = here.store.load_podms()["mem-1"].stocks
                total = sum(it.used for it in stocks if it.resource == stock)
                return total + sum(usage.amounts.values())

            before = used()
            wanted = {"processor": {"total_cores": 8}, "resources": {stock: size}}
            claim = here.claim(request(properties=wanted))
            self.assertEqual(before + size, used())
            node = here.composer.compose(claim)
            self.assertTrue(node.is_placed)
            for _ in range(2):
                self.assertEqual(before + size, used())
                here.read_again()
            here.composer.remove(node)
            here.read_again()
            self.assertEqual(before, used())

    def test_nothing_is_attached_to_it(self):
        with servers() as here:
            node = here.composer.compose(here.claim(request()))
            with here.connect(node.podm) as composer:
                changes = composer.may_change(request_from_node(node), node.uri)
                change = changes.change(node.uri, ["/x"], [], lambda _state: None)
            self.assertIn("the service has no CompositionService", change.reason)
            self.assertEqual(node.blocks, change.blocks)
            self.assertEqual([], self.written(here))
