# SPDX-License-Identifier: Apache-2.0
"""From a claim to a node on served pod managers, and back."""

import unittest

from tests.unit.lifecycle.site import request, site


class TestComposing(unittest.TestCase):
    """Nothing goes wrong."""

    def test_a_claim_becomes_a_node_and_is_counted_once(self):
        with site() as here:
            claim = here.claim(request())
            node = here.composer.compose(claim)
            self.assertEqual([node.name], here.node_names())
            self.assertEqual("COMPOSED", here.store.claims.show(claim.id).state)
            here.read_again()
            self.assertEqual("SETTLED", here.store.claims.show(claim.id).state)

    def test_a_node_that_is_removed_frees_its_blocks_and_its_claim(self):
        with site() as here:
            free = here.free_blocks()
            claim = here.claim(request())
            here.composer.remove(here.composer.compose(claim))
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))
            self.assertEqual("RELEASED", here.store.claims.show(claim.id).state)
            self.assertEqual([], here.store.nodes.list())

    def test_what_is_composed_is_not_decided_on_again(self):
        with site() as here:
            nodes = [here.composer.compose(here.claim(request())) for _ in range(4)]
            blocks = [(node.podm, uri) for node in nodes for uri in node.blocks]
            self.assertEqual(len(blocks), len(set(blocks)))

    def test_the_intent_is_there_before_the_effect(self):
        with site() as here:
            here.composer.compose(here.claim(request()))
            order = ["held", "intent", "checked", "reserved", "composing (specific)", "answered",
                     "read back", "confirmed"]  # fmt: skip
            self.assertEqual(order, here.points)

    def test_several_nodes_are_made_of_blocks_of_their_own(self):
        with site() as here:
            done = here.provisioner.provision(request(count=4))
            self.assertEqual(4, len(done.nodes), done)
            self.assertEqual(sorted(node.name for node in done.nodes), here.node_names())
            here.read_again()
            states = {claim.state for claim in here.store.claims.list()}
            self.assertEqual({"SETTLED"}, states)

    def test_the_same_key_twice_is_the_same_nodes(self):
        with site() as here:
            first = here.provisioner.provision(request(count=2), key="job-7")
            again = here.provisioner.provision(request(count=2), key="job-7")
            self.assertEqual(sorted(n.id for n in first.nodes), sorted(n.id for n in again.nodes))
            self.assertEqual(2, len(here.node_names()))


class TestComposeFaults(unittest.TestCase):
    """Pod managers that refuse, lie, or die while composing."""

    def refused(self, *rules: str) -> None:
        with site(*rules) as here:
            free = here.free_blocks()
            done = here.provisioner.provision(request())
            self.assertEqual((), done.nodes)
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))
            self.assertTrue(done.failures)
            self.assertEqual([], here.store.claims.list())

    def test_one_pod_manager_that_refuses_is_passed_over_for_the_next(self):
        with site() as here:
            podm = here.claimer.claim(request()).claim.parts[0].podm
            here.store.claims.release(here.store.claims.list()[0].id)
        with site(f"status:500:POST:/redfish/v1/Systems@{podm}") as here:
            done = here.provisioner.provision(request())
            (node,) = done.nodes
            self.assertNotEqual(podm, node.podm)
            self.assertRegex(done.notes[0], f"{podm}: HTTP 500.*: tried {node.podm} instead")

    def test_created_and_nothing_composed_leaves_nothing_held(self):
        self.refused("empty-create")

    def test_success_with_an_error_inside_leaves_nothing_held(self):
        self.refused("lie:POST:/redfish/v1/Systems")

    def test_a_task_that_ends_in_an_exception_leaves_nothing_held(self):
        self.refused("task-exception")

    def test_a_lost_reply_is_a_node(self):
        with site("drop-reply:POST:/redfish/v1/Systems") as here:
            (node,) = here.provisioner.provision(request()).nodes
            self.assertEqual([node.name], here.node_names())

    def test_a_task_is_waited_for(self):
        with site("async") as here:
            self.assertEqual(1, len(here.provisioner.provision(request()).nodes))

    def test_a_pod_manager_that_dies_half_way_leaves_the_claim_to_be_reaped(self):
        with site("die-after:1") as here:
            done = here.provisioner.provision(request())
            (error,) = done.unverified
            self.assertRegex(str(error), "stays COMPOSING: .*could not be read back")
            (claim,) = here.store.claims.list()
            self.assertEqual("COMPOSING", claim.state)

    def test_too_few_nodes_are_taken_apart_again(self):
        with site() as here:
            free = here.free_blocks()
            podm = here.claimer.claim(request()).claim.parts[0].podm
            (claim,) = here.store.claims.list()
            here.store.claims.release(claim.id)
        with site(f"status:500:POST:/redfish/v1/Systems:1@{podm}") as here:
            done = here.provisioner.provision(request(count=3, podms=[podm]))
            self.assertEqual((), done.nodes)
            self.assertEqual((free, []), (here.free_blocks(), here.node_names()))
