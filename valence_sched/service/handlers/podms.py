# SPDX-License-Identifier: Apache-2.0
"""Handlers of pod managers: their overviews, blocks, pools, devices, usage and reports."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from valence_sched.model.decision import InventorySummary
from valence_sched.model.hardware import BlockFilter, BlockOverview, DeviceCount, PoolOverview
from valence_sched.model.inventory import Node
from valence_sched.model.podm_overview import BlockUsage, PodmOverview, StatsReport
from valence_sched.model.service_bodies import Generation
from valence_sched.service.call import Call, CallResult

OTHERS = "another owner"  # in place of a claim of another user


def inventory(call: Call) -> InventorySummary:
    """Show how large the inventory is."""
    with call.parts.schedulers.reading() as scheduler:
        return scheduler.inventory()


def podms(call: Call) -> Sequence[PodmOverview]:
    """List the pod managers that are decided on."""
    with call.parts.schedulers.reading() as scheduler:
        found = tuple(scheduler.podms())
    return tuple(_with_own_nodes(call, one) for one in found)


def podm(call: Call) -> PodmOverview:
    """Show a pod manager with its pools."""
    with call.parts.schedulers.reading() as scheduler:
        return _with_own_nodes(call, scheduler.podm(call.name()))


def blocks(call: Call) -> Sequence[BlockOverview]:
    """List the blocks that the query describes."""
    with call.parts.schedulers.reading() as scheduler:
        found = tuple(scheduler.blocks(call.query_noun(BlockFilter)))
    return tuple(_visible(call, one) for one in found)


def block(call: Call) -> BlockOverview:
    """Show a block."""
    with call.parts.schedulers.reading() as scheduler:
        return _visible(call, scheduler.block(call.name(), call.text("podm")))


def pools(call: Call) -> Sequence[PoolOverview]:
    """List the pools of all pod managers, or of one."""
    with call.parts.schedulers.reading() as scheduler:
        return tuple(scheduler.pools(call.text("podm")))


def device_counts(call: Call) -> Sequence[DeviceCount]:
    """Count the devices of the blocks that the query describes."""
    with call.parts.schedulers.reading() as scheduler:
        return tuple(scheduler.device_counts(call.query_noun(BlockFilter)))


def usage(call: Call) -> BlockUsage:
    """Show which blocks of a pod manager are in use, and by which claims."""
    owner = call.user.owner
    with call.parts.schedulers.changing() as scheduler:
        found = scheduler.block_usage(call.name())
        own = {one.id for one in scheduler.claims(owner=owner)} if owner is not None else set()
    if owner is None:
        return found
    held = {uri: ids if ids in own else OTHERS for uri, ids in found.held.items()}
    return replace(found, held=held)


def update_stats(call: Call) -> Generation:
    """Store the statistics that a pod manager reports."""
    with call.parts.schedulers.changing() as scheduler:
        return Generation(generation=scheduler.update_resource_stats(call.name(), call.body.stats))


def reported_stats(call: Call) -> StatsReport:
    """Show what a pod manager reported by itself."""
    with call.parts.schedulers.changing() as scheduler:
        return scheduler.reported_stats(call.name())


def forget_report(call: Call) -> CallResult:
    """Forget what a pod manager reported by itself."""
    with call.parts.schedulers.changing() as scheduler:
        scheduler.forget_report(call.name())
    return CallResult(status=204)


def _with_own_nodes(call: Call, overview: PodmOverview) -> PodmOverview:
    """Return a pod manager that tells of the nodes of other users only which blocks they have."""
    owner = call.user.owner
    if owner is None:
        return overview
    nodes = tuple(
        node if node.owner == owner else Node(uri=node.uri, blocks=node.blocks)
        for node in overview.podm.nodes
    )
    return replace(overview, podm=replace(overview.podm, nodes=nodes))


def _visible(call: Call, block: BlockOverview) -> BlockOverview:
    """Return a block without the names of its nodes, which may be another user's."""
    return block if call.user.owner is None else replace(block, nodes=())
