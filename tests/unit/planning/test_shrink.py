# SPDX-License-Identifier: Apache-2.0
"""Decisions that take blocks from shrinkable nodes: surplus, floors, and few nodes."""

import unittest

import msgspec

from tests.unit.core.deciders import built_in
from tests.unit.planning.test_node_change import HOST, decide, gpu, gpus, tails
from valence_sched.core.decider import Decider
from valence_sched.core.explain.report import decision_result
from valence_sched.model.claim import ComposedNode
from valence_sched.model.codec import decode
from valence_sched.model.inventory import FullPodm, LeanPodm, to_json
from valence_sched.model.need import NodeRequest
from valence_sched.planning.node_change import shrink
from valence_sched.view.builder import ViewBuilder


def site(**held):
    """Return a pod manager with the GPUs in use of each node, and one free host."""
    used = [gpu(name, state="Composed") for names in held.values() for name in names]
    hosts = [{**HOST, "uri": f"/B/{node}", "status": {"state": "Composed"}} for node in held]
    podm = {"id": "p", "blocks": [HOST, *hosts, *used]}
    return {"p": msgspec.convert(podm, FullPodm)}


def node(name, *blocks, needs=1, **words):
    uris = (f"/B/{name}", *(f"/B/{one}" for one in blocks))
    request = NodeRequest.of(gpus(needs))
    return ComposedNode(id=name, podm="p", uri=f"/S/{name}", claim="c", blocks=uris,
                        request=request, shrinkable=True, **words)  # fmt: skip


class TestShrink(unittest.TestCase):
    def shrunk(self, count, podms, *nodes, **floors):
        wanted = gpus(count)

        def decide_all(found):
            builder = ViewBuilder()
            for name, podm in found.items():
                builder.add(decode(to_json(podm), LeanPodm, name), name)
            decider = Decider(builder.view(), built_in())
            return decision_result(decider.select_destinations(wanted), "report")

        found = shrink(podms, nodes, floors, decide, decide_all)
        return found and {one.node: tails(one.blocks) for one in found[1]}

    def test_a_node_loses_what_its_request_does_not_need(self):
        podms = site(n=("1", "2", "3"))
        self.assertEqual(2, len(self.shrunk(2, podms, node("n", "1", "2", "3"))["n"]))
        self.assertIsNone(self.shrunk(3, podms, node("n", "1", "2", "3")))
        self.assertIsNone(self.shrunk(1, podms, node("n", "1", "2", "3", needs=3)))

    def test_a_node_keeps_its_floor(self):
        podms, one = site(n=("1", "2", "3")), node("n", "1", "2", "3", needs=3)
        self.assertEqual(1, len(self.shrunk(1, podms, one, n=gpus(1))["n"]))
        self.assertIsNone(self.shrunk(3, podms, one, n=gpus(1)))
        self.assertIsNone(self.shrunk(1, podms, one, n=gpus(4)))

    def test_few_nodes_are_shrunk_and_only_by_the_chosen_blocks(self):
        podms = site(a=("1", "2"), b=("3", "4", "5"), c=("6", "7"))
        nodes = [node("a", "1", "2"), node("b", "3", "4", "5"), node("c", "6", "7")]
        (found,) = self.shrunk(1, podms, *nodes).items()
        self.assertEqual(1, len(found[1]))
        both = self.shrunk(2, podms, *nodes)
        self.assertEqual(2, sum(map(len, both.values())))
        every = self.shrunk(4, podms, *nodes)
        self.assertEqual({"a": 1, "b": 2, "c": 1}, {id_: len(it) for id_, it in every.items()})
        self.assertIsNone(self.shrunk(5, podms, *nodes))

    def test_a_tainted_or_reserved_block_is_not_given_away(self):
        for status in ({"taints": ["x:NoPlace"]},
                       {"reserved": True, "client": "operator: repair"}):  # fmt: skip
            podms = site(n=("1", "2"))
            blocks = msgspec.to_builtins(podms["p"])["blocks"]
            for block in blocks:
                if block["uri"] in ("/B/1", "/B/2"):
                    block["status"] |= status
            marked = {"p": msgspec.convert({"id": "p", "blocks": blocks}, FullPodm)}
            one = node("n", "1", "2")
            self.assertIsNone(self.shrunk(1, marked, one), status)
            self.assertIsNotNone(self.shrunk(1, podms, one))

    def test_a_node_without_a_request_or_a_floor_loses_nothing(self):
        one = msgspec.structs.replace(node("n", "1", "2"), request=None)
        self.assertIsNone(self.shrunk(1, site(n=("1", "2")), one))
        self.assertIsNone(self.shrunk(1, site(n=("1", "2"))))


if __name__ == "__main__":
    unittest.main()
