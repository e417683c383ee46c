# SPDX-License-Identifier: Apache-2.0
"""The contract of changing living nodes, of every scheduler whose pod managers compose."""

from collections.abc import Mapping

import msgspec

from tests.seam.contract import RestoringContract, request
from valence_sched import errors
from valence_sched.model.claim import ComposedNode
from valence_sched.model.flavor import Properties
from valence_sched.model.hardware import BlockFilter
from valence_sched.model.node_change import NodeChange, NodeChangeResult, exact_change, uris
from valence_sched.model.quota import Quota
from valence_sched.model.request_spec import RequestSpec
from valence_sched.simulator.server.faults import faults_of
from valence_sched.testing.served import ServedPodm

GPU = msgspec.convert({"accelerators": [{"kind": "GPU"}]}, Properties)
MANY = msgspec.convert({"accelerators": [{"kind": "GPU", "count": 99}]}, Properties)
OWNER = "team-change"
STOCK, SIZE = "cxl_memory_mib", 65536
MEMORY = Properties(resources={STOCK: SIZE})


class NodeChangeContract(RestoringContract):
    """A node, and changes of it."""

    def gpu_node(self, **fields) -> ComposedNode:
        """Compose a node of eight cores and a GPU, which reaches further GPUs."""
        wanted = {"processor": {"total_cores": 8}, "accelerators": [{"kind": "GPU"}]}
        (node,) = self.scheduler.compose(request(properties=wanted, owner=OWNER, **fields)).nodes
        return node

    def change(self, node: ComposedNode, **fields) -> NodeChangeResult:
        options = {name: fields.pop(name) for name in ("key", "dry_run") if name in fields}
        result = self.scheduler.change_node(node.id, NodeChange(**fields), **options)
        self.check_sendable(result)
        return result

    def blocks(self, node: ComposedNode) -> set[str]:
        """Return the blocks of a node as its pod manager reports them now."""
        return {*self.scheduler.node_record(node.id).node.blocks}


class ChangingContract(NodeChangeContract):
    """Tests of attaching blocks to a node and detaching them; simulated nodes are powered on."""

    def test_a_device_is_attached_and_detached_again(self):
        node = self.gpu_node()
        attached = self.change(node, attach=GPU)
        (block,) = uris(attached.attached)
        self.assertTrue(attached.done)
        self.assertTrue(attached.attached[0].devices.accelerators)
        self.assertEqual({*node.blocks, block}, self.blocks(node))
        detached = self.change(node, detach_blocks=(block.rpartition("/")[2],), force=True)
        self.assertEqual(((block,), ()), (uris(detached.detached), detached.attached))
        self.assertEqual({*node.blocks}, self.blocks(node))

    def memory_node(self) -> ComposedNode:
        """Compose a node of 32 cores with an amount of pooled memory."""
        wanted = {"processor": {"total_cores": 32}, "resources": {STOCK: SIZE}}
        (node,) = self.scheduler.compose(request(properties=wanted, owner=OWNER)).nodes
        return node

    def amounts(self, node: ComposedNode) -> set[str]:
        """Return the memory chunks of a node as its record has them."""
        return {one.uri for one in self.scheduler.node_record(node.id).node.amounts}

    def test_an_amount_is_attached_and_detached_again(self):
        node = self.memory_node()
        (own,) = node.amounts
        attached = self.change(node, attach=MEMORY)
        (chunk,) = attached.attached_amounts
        self.assertEqual((True, STOCK, "MiB"), (attached.done, chunk.resource, chunk.unit))
        self.assertEqual({own.uri, chunk.uri}, self.amounts(node))
        with self.assertRaisesRegex(errors.HardwareInUse, "is not declared removable"):
            self.change(node, detach_amounts=(chunk.uri,))
        name = "/".join(chunk.uri.split("/")[-3:])
        detached = self.change(node, detach_amounts=(name,), power_cycle=True)
        self.assertEqual((chunk.uri,), uris(detached.detached_amounts))
        self.assertEqual({own.uri}, self.amounts(node))

    def test_an_attached_amount_counts_for_the_quota_of_the_owner(self):
        node = self.memory_node()
        used = self.used_memory()
        (chunk,) = uris(self.change(node, attach=MEMORY).attached_amounts)
        self.assertEqual(SIZE, self.used_memory() - used)
        self.change(node, detach_amounts=(chunk,), force=True)
        self.assertEqual(used, self.used_memory())

    def used_memory(self) -> float:
        return self.scheduler.quota(OWNER).used[f"stock:{STOCK}"]

    def test_a_planned_amount_is_attached_once_and_idle_afterwards(self):
        node, change = self.memory_node(), NodeChange(attach=MEMORY)
        planned = self.scheduler.change_node(node.id, change, dry_run=True)
        self.assertEqual([SIZE], [one.amount for one in planned.attached_amounts])
        self.assertEqual(1, len(self.amounts(node)))
        exact = exact_change(change, planned)
        done = self.scheduler.change_node(node.id, exact)
        self.assertEqual(2, len(self.amounts(node)))
        with self.assertRaisesRegex(errors.ClaimLost, "was changed since the plan"):
            self.scheduler.change_node(node.id, exact)
        idle = self.change(node, idle=True, force=True)
        self.assertEqual(SIZE, sum(one.amount for one in idle.detached_amounts))
        self.assertEqual(1, len(self.amounts(node)))
        self.assertLess(self.amounts(node), {one.uri for one in done.node.amounts})

    def test_a_node_gives_away_the_smallest_sufficient_amount_and_gets_what_a_flavor_lacks(self):
        node = self.memory_node()
        (own,) = node.amounts
        more = Properties(resources={STOCK: 2 * SIZE})
        (large,) = uris(self.change(node, attach=more).attached_amounts)
        self.assertEqual({own.uri, large}, self.amounts(node))
        planned = self.change(node, detach=more, dry_run=True)
        self.assertEqual(((large,), False), (uris(planned.detached_amounts), planned.done))
        self.assertIn("is not declared removable", planned.hazard)
        gone = self.change(node, detach=more, force=True)
        self.assertEqual(((large,), {own.uri}), (uris(gone.detached_amounts), self.amounts(node)))
        with self.assertRaisesRegex(errors.RequestError, f"has {SIZE} MiB of {STOCK}, expected"):
            self.change(node, detach=more, force=True)
        grown = self.change(node, flavor="memory-large", force=True)
        self.assertTrue(grown.attached_amounts)
        self.assertGreaterEqual(sum(it.amount for it in grown.node.amounts), 524288)
        self.assertEqual("memory-large", grown.node.flavor)
        again = self.change(node, flavor="memory-large")
        self.assertFalse(again.changes)
        shrunk = self.change(node, flavor="small", power_cycle=True)
        self.assertEqual((set(), True), (self.amounts(node), shrunk.power_cycled))
        self.assertEqual({*uris(grown.node.amounts)}, {*uris(shrunk.detached_amounts)})

    def test_an_amount_that_no_stock_has_is_a_decision_with_reasons(self):
        node = self.memory_node()
        result = self.change(node, attach=Properties(resources={STOCK: 1e9}))
        self.assertEqual((False, False), (result.fits, result.done))
        self.assertTrue(result.decision.report.podms[0].reason)
        with self.assertRaisesRegex(errors.UnknownName, "no memory chunk or volume of node"):
            self.change(node, detach_amounts=("nope",))

    def test_a_named_block_is_attached_and_no_other_node_gets_it(self):
        node = self.gpu_node()
        planned = self.change(node, attach=GPU, dry_run=True)
        self.assertFalse(planned.done)
        self.assertEqual({*node.blocks}, self.blocks(node))
        (block,) = uris(planned.attached)
        both = self.change(node, attach=GPU, attach_blocks=(block,), dry_run=True)
        self.assertEqual(2, len({*uris(both.attached)}))
        self.change(node, attach_blocks=(block,))
        self.assertEqual({*node.blocks, block}, self.blocks(node))
        unchanged = self.change(node, attach_blocks=(block,))
        self.assertEqual(((), ()), (unchanged.attached, unchanged.detached))
        later = self.change(node, attach=GPU, dry_run=True)
        self.assertNotIn(block, uris(later.attached))

    def test_a_plan_is_carried_out_once(self):
        node, change = self.gpu_node(), NodeChange(attach=GPU)
        planned = self.scheduler.change_node(node.id, change, dry_run=True)
        exact = exact_change(change, planned)
        done = self.scheduler.change_node(node.id, exact)
        self.assertEqual(planned.attached, done.attached)
        with self.assertRaisesRegex(errors.ClaimLost, "was changed since the plan"):
            self.scheduler.change_node(node.id, exact)

    def test_a_running_node_keeps_a_block_that_is_not_removable(self):
        node = self.gpu_node()
        (block,) = uris(self.change(node, attach=GPU).attached)
        planned = self.change(node, detach_blocks=(block,), dry_run=True)
        self.assertIn("powered on", planned.hazard)
        refusals = []
        for dry_run in ("server", False):
            words = "is not declared removable: shut it down"
            with self.assertRaisesRegex(errors.HardwareInUse, words) as caught:
                self.change(node, detach_blocks=(block,), dry_run=dry_run)
            refusals.append(str(caught.exception))
        self.assertEqual(refusals[0], refusals[1])
        self.assertIn(block, self.blocks(node))
        cycled = self.change(node, detach_blocks=(block,), power_cycle=True)
        self.assertTrue(cycled.power_cycled)
        self.assertEqual({*node.blocks}, self.blocks(node))

    def test_a_node_shrinks_to_a_flavor_and_grows_to_another(self):
        spec = RequestSpec(flavor="gpu-small", owner=OWNER)
        (node,) = self.scheduler.compose(self.scheduler.compile_request(spec)).nodes
        shrunk = self.change(node, flavor="small", force=True)
        self.assertEqual(((), "small"), (shrunk.attached, shrunk.node.flavor))
        self.assertEqual({*node.blocks} - {*uris(shrunk.detached)}, self.blocks(node))
        again = self.change(node, flavor="small")
        self.assertEqual(((), ()), (again.attached, again.detached))
        grown = self.change(node, flavor="gpu-small")
        self.assertEqual(((), "gpu-small"), (grown.detached, grown.node.flavor))
        self.assertEqual({*shrunk.node.blocks, *uris(grown.attached)}, self.blocks(node))
        self.assertTrue(grown.attached)

    def test_a_key_stands_for_one_change(self):
        node = self.gpu_node()
        first = self.change(node, attach=GPU, key="k")
        again = self.change(node, attach=GPU, key="k")
        self.assertEqual({*node.blocks, *uris(first.attached)}, self.blocks(node))
        self.assertEqual({*first.node.blocks}, {*again.node.blocks})
        with self.assertRaisesRegex(errors.NameTaken, "key 'k' belongs to another"):
            self.change(node, detach=GPU, force=True, key="k")

    def test_nothing_that_fits_is_a_decision_with_reasons(self):
        node = self.gpu_node()
        result = self.change(node, attach=MANY)
        self.assertEqual((False, False), (result.fits, result.done))
        self.assertTrue(result.decision.report.podms[0].reason)
        self.assertEqual({*node.blocks}, self.blocks(node))

    def test_what_is_not_known_is_named(self):
        node = self.gpu_node()
        for name, fields, words in (
            ("vs-nope", {"attach": GPU}, "no node named 'vs-nope'"),
            (node.id, {"attach_blocks": ("nope",)}, "no block of pod manager .* named 'nope'"),
            (node.id, {"detach_blocks": ("nope",)}, "no block of node .* named 'nope'"),
            (node.id, {"flavor": "nope"}, "no flavor named 'nope'"),
        ):
            with self.subTest(fields), self.assertRaisesRegex(errors.UnknownName, words):
                self.scheduler.change_node(name, NodeChange(**fields))

    def test_a_block_of_another_pod_manager_is_unknown(self):
        node = self.gpu_node()
        blocks = [*self.scheduler.blocks(BlockFilter())]
        known = {one.uri for one in blocks if one.podm == node.podm}
        other = next(one.uri for one in blocks if one.uri not in known)
        with self.assertRaisesRegex(errors.UnknownName, "no block of pod manager"):
            self.change(node, attach_blocks=(other,))

    def test_what_is_attached_counts_for_the_quota_of_the_owner(self):
        node = self.gpu_node()
        before = self.used_gpus()
        self.change(node, attach=GPU)
        self.assertGreater(self.used_gpus(), before)

    def used_gpus(self) -> float:
        quota: Quota = self.scheduler.quota(OWNER)
        return quota.used.get("accelerators", 0.0)


class DroppingContract(NodeChangeContract):
    """A test whose pod managers drop blocks, and so cannot be shared."""

    served: Mapping[str, ServedPodm]

    def test_a_block_that_its_pod_manager_drops_for_a_moment_stays_with_its_node(self):
        node = self.gpu_node()
        other = self.gpu_node(podms=[node.podm])
        name, lost = node.podm.rpartition("/")[2], other.blocks[-1]
        self.scheduler.reconcile()  # a reading settles both claims
        drops = faults_of(["drop-other:3600000"], [name])[name]
        self.served[name].app.podm.faults._faults += drops._faults
        self.change(node, attach=GPU)
        (reaped,) = self.scheduler.reconcile().actions
        self.assertRegex(reaped.done, "^unchanged: .* no longer found: freed by a reap after 60 s")
        shown = self.scheduler.block(lost, node.podm)
        self.assertEqual((0, "used", 1), (shown.slots, shown.use, len(shown.nodes)))
        self.assertIn("(not read)", shown.nodes[0])
        free = self.scheduler.blocks(BlockFilter(podm=node.podm, free=True))
        self.assertNotIn(lost, [one.uri for one in free])
        every = request(1, count=64, min_count=1, podms=[node.podm])
        gpus = request(properties={"accelerators": [{"kind": "GPU"}]}, count=64, min_count=1)
        for wanted in (every, gpus):
            report = self.scheduler.select_destinations(wanted).report
            self.assertNotIn((node.podm, lost), self.blocks_of(report))
        with self.assertRaisesRegex(errors.SchedulerError, f"{lost}: found |{lost} is in "):
            self.change(node, attach_blocks=(lost,))
        self.assertIn(lost, self.blocks(other))
        self.change(other, detach_blocks=(lost,), force=True)
        self.assertNotIn(lost, self.blocks(other))
        self.assertEqual(1, self.scheduler.block(lost, node.podm).slots)
