# SPDX-License-Identifier: Apache-2.0
"""Composition requests: the nodes a claim stands for, their blocks and their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.claim import Claim, ClaimPart, Grant, NodeAllocation
from valence_sched.model.inventory import Devices, FullPodm, Name

#: What is there after a write, whatever the answer to it was.
#:
#: composed  the node is there, of all its blocks
#: absent    no node, and nothing of ours in its blocks
#: left      something is there that is not the node: it must be taken back
#: unknown   it could not be read back, so anything may be there
NodeState = Literal["composed", "absent", "left", "unknown"]


class CompositionRequest(Noun, frozen=True, kw_only=True):
    """A node to make of these very blocks and amounts; ``name`` is found nowhere else.

    ``devices`` are those of the blocks together, for pod managers that choose blocks themselves.
    """

    name: str
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    devices: Devices = Devices()


class CompositionResult(Noun, frozen=True, kw_only=True):
    """What a pod manager has after a write.

    ``node`` is the URI of the node, ``blocks`` what it is really made of. ``reason`` says in
    words what was refused, what is left, or why it cannot be known. It ``works`` when it will
    change by itself.
    """

    state: NodeState
    node: str | None = None
    blocks: tuple[str, ...] = ()
    reason: str = ""
    works: bool = False


class ComposedNode(Noun, frozen=True, kw_only=True):
    """A node on one pod manager; ``id`` is ours, ``uri`` the pod manager's.

    ``created_at`` is seconds since 1970 by the clock of the database.
    """

    id: Name
    podm: Name
    uri: Name
    claim: Name
    name: str | None = None
    owner: str | None = None
    group: str | None = None
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    created_at: float = 0.0


NODE_NAME_PREFIX = "vs-"  # what the names of all nodes composed here begin with


def single_allocation(claim: Claim) -> tuple[ClaimPart, NodeAllocation]:
    """Return the one part and share of a claim of one node."""
    (part,) = claim.parts
    (share,) = part.shares
    return part, share


def node_allocations(claim: Claim) -> Iterator[tuple[ClaimPart, NodeAllocation]]:
    """Yield all that a claim is to become, node by node."""
    for part in claim.parts:
        for share in part.shares:
            yield part, share


def node_name(claim: Claim, allocation: NodeAllocation) -> str:
    """Return the name of a node, by which it is found again whatever happens."""
    return (
        f"{NODE_NAME_PREFIX}{claim.id}"
        if claim.nodes == 1
        else f"{NODE_NAME_PREFIX}{claim.id}-{allocation.node}"
    )


def composition_request(
    claim: Claim, allocation: NodeAllocation, podm: FullPodm | None
) -> CompositionRequest:
    """Return what to make, with the devices of its blocks as they were last read."""
    chosen = [block for block in podm.blocks if block.uri in allocation.blocks] if podm else []
    return CompositionRequest(
        name=node_name(claim, allocation),
        pool=allocation.pool,
        blocks=allocation.blocks,
        grants=allocation.grants,
        devices=_merge_devices([block.devices for block in chosen if block.devices]),
    )


def request_from_node(node: ComposedNode) -> CompositionRequest:
    """Return what a node was to be, by what is remembered of it."""
    return CompositionRequest(name=node.name or node.id, pool=node.pool, blocks=node.blocks)


def composed_node(
    claim: Claim, part: ClaimPart, allocation: NodeAllocation, result: CompositionResult
) -> ComposedNode:
    """Return the node that a claim became, of the blocks that it is really made of."""
    return ComposedNode(
        id=node_name(claim, allocation),
        podm=part.podm,
        uri=result.node or "",
        claim=claim.id,
        name=node_name(claim, allocation),
        owner=claim.owner,
        group=claim.group,
        pool=allocation.pool,
        blocks=result.blocks,
    )


def _merge_devices(devices: list[Devices]) -> Devices:
    return Devices(
        processors=tuple(one for some in devices for one in some.processors),
        accelerators=tuple(one for some in devices for one in some.accelerators),
        memory=tuple(one for some in devices for one in some.memory),
        drives=tuple(one for some in devices for one in some.drives),
        nics=tuple(one for some in devices for one in some.nics),
    )
