# SPDX-License-Identifier: Apache-2.0
"""Fabrics that drop a device of another node for a moment, while a device is attached."""

import unittest

import sqlalchemy as sa
from msgspec.structs import replace

from tests.unit.lifecycle.site import request, site
from tests.unit.store.site import part
from tests.unit.trees import tree
from valence_sched.errors import ClaimLost
from valence_sched.lifecycle.change import NodeChanger
from valence_sched.lifecycle.reconcile import Reconciler
from valence_sched.model.claim import request_from_node
from valence_sched.model.inventory import to_json
from valence_sched.model.node_change import NodeChange
from valence_sched.model.request_spec import compile_request
from valence_sched.store import tables

PODM = "gpu-east"
CARD = {"model": "NVIDIA A100-PCIE-40GB"}  # one pool has two of them, and another card
WANTED = {"processor": {"total_cores": 8}, "accelerators": [CARD]}


def one_podm(*fail, **words):
    """Serve one pod manager: others would only be read each time."""
    return site(*fail, documents={PODM: tree(PODM)}, **words)


class TestDropped(unittest.TestCase):
    def test_a_reap_frees_a_dropped_block_only_after_a_minute(self):
        with one_podm() as here:
            first, other = self.compose(here), self.compose(here)
            here.reconcile()
            self.drop(here, first)
            name = other.blocks[1].rpartition("/")[2]
            line = f"{other.id}: unchanged: {name} no longer found: freed by a reap after 60 s"
            self.assertEqual([line], here.reconcile())
            self.back_date(here, other)
            dry = Reconciler(here.store, here.connect, here.read, dry_run=True)
            (action,) = dry.reconcile()
            self.assertEqual(f"freed {name}: no longer part of the node", action.done)
            self.assertEqual(other.blocks, here.store.nodes.show(other.id).blocks)
            self.assertEqual([f"{other.id}: {action.done}"], here.reconcile())
            self.assertEqual(other.blocks[:1], here.store.nodes.show(other.id).blocks)
            self.assertEqual(0, here.leak_count())
            self.assertEqual([], here.reconcile())

    def test_a_host_that_loses_all_its_devices_is_deleted_only_after_a_minute(self):
        with one_podm("fixed-hosts", hosts="free") as here:
            first, other = self.compose(here), self.compose(here)
            here.reconcile()
            self.drop(here, first)
            for _ in range(2):
                (line,) = here.reconcile()
                self.assertRegex(line, "unchanged: its host lost its blocks: deleted by a reap")
                self.assertEqual(other.blocks, here.store.nodes.show(other.id).blocks)
                decider = here.claimer.decider()
                placed = decider.select_destinations(
                    request(properties=WANTED, count=20, min_count=1)
                )
                chosen = {block.uri for one in placed.placements for block in one.chosen.blocks}
                self.assertEqual(set(), chosen.intersection(other.blocks))
            self.back_date(here, other)
            self.assertRegex(*here.reconcile(), "record deleted, and its claim released")

    def test_a_block_that_is_back_counts_anew_if_it_is_dropped_again(self):
        with one_podm() as here:
            first, other = self.compose(here), self.compose(here)
            here.reconcile()
            self.drop(here, first)
            here.reconcile()
            self.assertIsNotNone(here.store.nodes.show(other.id).lost_at)
            here.clear_faults()
            with here.connect(PODM) as composer:
                changes = composer.may_change(request_from_node(other), other.uri)
                changes.change(other.uri, other.blocks[1:], [], lambda _state: None)
            self.assertEqual([], here.reconcile())
            self.assertIsNone(here.store.nodes.show(other.id).lost_at)

    def back_date(self, here, node):
        """Let a reap have found the loss more than a minute ago."""
        lost = replace(here.store.nodes.show(node.id), lost_at=1.0)
        update = sa.update(tables.nodes).where(tables.nodes.c.id == node.id)
        here.store._write(lambda c: c.execute(update.values(document=to_json(lost))))

    def compose(self, here):
        claim = here.claim(request(properties=WANTED, podms=[PODM]))
        return here.composer.compose(claim)

    def drop(self, here, node):
        """Attach a device to a node; return the blocks of the other nodes then."""
        here.read_again()
        blocks = here.read(PODM).blocks
        free = (it.uri for it in blocks if it.status.slots and node.pool in it.pools
                and it.devices.accelerators)  # fmt: skip
        here.add_faults("drop-other:3600000")
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
            with self.subTest(fail), one_podm(*fail, hosts="free") as here:
                first, other = self.compose(here), self.compose(here)
                self.drop(here, first)
                with here.connect(PODM) as composer:
                    self.assertEqual(other.blocks[:1], composer.reads.node_blocks(other.uri))
                here.read_again()  # in the moment in which its blocks look free
                generation = here.store.load_podms([PODM])[PODM].generation
                changer = NodeChanger(here.store, here.connect, compile_request, None, 60.0)
                used = f"{reason}|found (Composed|Unused, reserved).*, expected a free block"
                with self.assertRaisesRegex(ClaimLost, used):
                    changer.change(first.id, NodeChange(attach_blocks=other.blocks[1:]))
                with self.assertRaisesRegex(ClaimLost, reason):
                    claim = here.store.claims.create([part(PODM, generation, *other.blocks)])
                    here.composer.compose(claim)
                self.assertEqual([], here.blocks_used_twice())
                with here.connect(PODM) as composer:
                    self.assertEqual(other.blocks[:1], composer.reads.node_blocks(other.uri))
