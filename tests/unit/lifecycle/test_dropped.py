# SPDX-License-Identifier: Apache-2.0
"""Fabrics that drop a device of another node for a moment, while a device is attached."""

import unittest

from tests.unit.lifecycle.site import request, site
from tests.unit.store.site import part
from valence_sched.errors import ClaimLost
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.model.claim import request_from_node
from valence_sched.model.node_change import NodeChange
from valence_sched.model.request_spec import compile_request

PODM = "gpu-east"
WANTED = {"processor": {"total_cores": 8}, "accelerators": [{"count": 1}]}


class TestDropped(unittest.TestCase):
    def compose(self, here):
        claim = here.claim(request(properties=WANTED, podms=[PODM]))
        return here.composer.compose(claim)

    def drop(self, here, node):
        """Attach a device to a node; return the blocks of the other nodes then."""
        here.read_again()
        blocks = here.read(PODM).blocks
        free = (it.uri for it in blocks if it.status.slots and node.pool in it.pools
                and it.devices.accelerators)  # fmt: skip
        here.add_faults("drop-other:60000")
        with here.connect(PODM) as composer:
            changes = composer.may_change(request_from_node(node), node.uri)
            changed = changes.change(node.uri, [next(free)], [], lambda _state: None)
        self.assertEqual("", changed.reason)

    def test_another_node_does_not_get_the_dropped_device(self):
        for fail, reason in (
            (("fixed-hosts",), "found part of node"),
            (
                ("servers", "fabric-zones"),
                "is held by claim",
            ),  # the claim of a placed node holds it
        ):
            with self.subTest(fail), site(*fail, hosts="free") as here:
                first, other = self.compose(here), self.compose(here)
                self.drop(here, first)
                with here.connect(PODM) as composer:
                    self.assertEqual(other.blocks[:1], composer.node_blocks(other.uri))
                here.read_again()  # in the moment in which its blocks look free
                generation = here.store.load_podms([PODM])[PODM].generation
                changer = NodeChanger(here.store, here.connect, compile_request, None, 60.0)
                with self.assertRaisesRegex(ClaimLost, f"{reason}|is in use"):
                    changer.change(first.id, NodeChange(attach_blocks=other.blocks[1:]))
                with self.assertRaisesRegex(ClaimLost, reason):
                    claim = here.store.claims.create([part(PODM, generation, *other.blocks)])
                    here.composer.compose(claim)
                self.assertEqual([], here.blocks_used_twice())
                with here.connect(PODM) as composer:
                    self.assertEqual(other.blocks[:1], composer.node_blocks(other.uri))
