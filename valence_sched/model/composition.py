# SPDX-License-Identifier: Apache-2.0
"""Composition requests: the nodes a claim stands for, their blocks and their names."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec.structs import replace

from valence_sched.model.base import Noun
from valence_sched.model.claim import Claim, ClaimPart, Grant, NodeAllocation
from valence_sched.model.custom_resource import DECLARED_SCHEME
from valence_sched.model.inventory import Devices, FullPodm, Name, to_json
from valence_sched.model.request import NodeRequest

#: What reading back finds after a write, whatever the pod manager answered to it.
#:
#: composed  the node exists, with all its blocks
#: absent    the node does not exist, and none of its blocks is in use by this program
#: left      a part of the node exists: it must be removed
#: unknown   the pod manager could not be read back, so anything is possible
NodeState = Literal["composed", "absent", "left", "unknown"]


class CompositionRequest(Noun, frozen=True, kw_only=True):
    """One node to compose of exactly these blocks and amounts; its ``name`` is unique.

    ``devices`` are those of all blocks, for pod managers that choose the blocks themselves.
    ``substitutes`` are, for each block, those that the request cannot tell from it. ``amounts``
    are the memory chunks and volumes that were made of its ``grants`` already, with their sizes.
    """

    name: str
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    devices: Devices = Devices()
    substitutes: dict[str, tuple[str, ...]] = {}
    amounts: tuple[Grant, ...] = ()

    @property
    def made_grants(self) -> tuple[Grant, ...]:
        """The amounts that something is made of; an operator's own are counted only."""
        return tuple(it for it in self.grants if not it.uri.startswith(DECLARED_SCHEME))

    def names(self, name: str | None, uri: str) -> bool:
        """Return whether this is the node's name: some services keep it only in the URI."""
        return bool(self.name) and self.name in (name, uri.rpartition("/")[2])

    def missing_blocks(self, found: Iterable[str]) -> list[str]:
        """Return the blocks that neither the node has nor an equal one in their place."""
        found, missing = set(found), []
        spare = found.difference(self.blocks)
        for uri in self.blocks:
            if uri not in found:
                equal = next((it for it in self.substitutes.get(uri, ()) if it in spare), None)
                if equal is None:
                    missing.append(uri)
                spare.discard(equal or "")
        return missing


class CompositionResult(Noun, frozen=True, kw_only=True):
    """What a pod manager has after a write, as it was read back.

    ``node`` is the URI of the node, ``blocks`` are those that it really has, ``amounts`` the memory
    chunks and volumes that were made for it. ``reason`` says what
    the pod manager refused, what remains, or why the state is unknown. With ``works`` the pod
    manager is still working on it. ``freed`` are the blocks that its removal left for others.
    """

    state: NodeState
    node: str | None = None
    blocks: tuple[str, ...] = ()
    amounts: tuple[Grant, ...] = ()
    reason: str = ""
    works: bool = False
    freed: tuple[str, ...] = ()


class ComposedNode(Noun, frozen=True, kw_only=True):
    """A node on one pod manager; this program chose the ``id``, the pod manager the ``uri``.

    ``amounts`` are the memory chunks and volumes that were made for it, with their sizes.
    ``created_at`` is seconds since 1970 by the clock of the database. ``flavor`` is that of the
    request, where it had one; ``grants`` are what it has of stocks. ``request`` is what it was
    asked for.
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
    amounts: tuple[Grant, ...] = ()
    created_at: float = 0.0
    flavor: str | None = None
    grants: tuple[Grant, ...] = ()
    request: NodeRequest | None = None


NODE_NAME_PREFIX = "vs-"  # of all nodes that this program composes


def own_name(name: str | None, uri: str) -> str:
    """Return the name that this program gave a node, maybe in its URI only; empty for another's."""
    names = (name or "", uri.rpartition("/")[2])
    return next((one for one in names if one.startswith(NODE_NAME_PREFIX)), "")


def single_allocation(claim: Claim) -> tuple[ClaimPart, NodeAllocation]:
    """Return the only part and node allocation of a claim of one node."""
    (part,) = claim.parts
    (allocation,) = part.shares
    return part, allocation


def node_allocations(claim: Claim) -> Iterator[tuple[ClaimPart, NodeAllocation]]:
    """Yield the parts and node allocations of a claim, node by node."""
    for part in claim.parts:
        for allocation in part.shares:
            yield part, allocation


def node_name(claim: Claim, allocation: NodeAllocation) -> str:
    """Return the name of a node, by which a later run finds it again."""
    number = "" if claim.nodes == 1 else f"-{allocation.node}"
    return f"{NODE_NAME_PREFIX}{claim.id}{number}"


def composition_request(
    claim: Claim, allocation: NodeAllocation, podm: FullPodm | None
) -> CompositionRequest:
    """Return the composition of one node, with the devices of its blocks as they were last read."""
    devices: dict[str, Any] = dict.fromkeys(Devices.__struct_fields__, ())
    for block in podm.blocks if podm else ():
        for field in devices if block.devices and block.uri in allocation.blocks else ():
            devices[field] += tuple(one for one in getattr(block.devices, field) if one.count)
    return CompositionRequest(
        name=node_name(claim, allocation),
        pool=allocation.pool,
        blocks=allocation.blocks,
        grants=allocation.grants,
        devices=Devices(**devices),
        substitutes=_substitutes(allocation, podm) if podm else {},
    )


def _substitutes(allocation: NodeAllocation, podm: FullPodm) -> dict[str, tuple[str, ...]]:
    """Return for each block of an allocation those that its request cannot tell from it.

    They have the same devices in the same pool, and stand in the same places where the request
    says anything of these.
    """
    found: dict[tuple[Any, ...], list[str]] = {}
    keys: dict[str, tuple[Any, ...]] = {}
    for block in podm.blocks:
        places = tuple((block.places or {}).get(place) for place in allocation.places)
        sharing = block.status is not None and block.status.shareable
        keys[block.uri] = key = (tuple(sorted(block.type)), block.devices, sharing, places)
        if allocation.pool in block.pools or not podm.pools:
            found.setdefault(key, []).append(block.uri)
    named = allocation.blocks
    present = [uri for uri in named if uri in keys]
    return {uri: tuple(it for it in found.get(keys[uri], ()) if it not in named) for uri in present}


def request_from_node(node: ComposedNode) -> CompositionRequest:
    """Return the composition request that a stored node came from."""
    return CompositionRequest(
        name=node.name or node.id, pool=node.pool, blocks=node.blocks, amounts=node.amounts
    )


def sum_devices(blocks: Iterable[Devices]) -> Devices:
    """Return the devices of several blocks together: equal ones once, with the sum of counts."""
    sums: dict[str, dict[bytes, Any]] = {name: {} for name in Devices.__struct_fields__}
    for block in blocks:
        for name, found in sums.items():
            for device in getattr(block, name):
                key = to_json(replace(device, count=None if device.count is None else 0))
                if (same := found.get(key)) and device.count is not None:
                    found[key] = replace(device, count=same.count + device.count)
                else:
                    found[key] = device
    return Devices(**{name: tuple(found.values()) for name, found in sums.items()})


def composed_node(
    claim: Claim, part: ClaimPart, allocation: NodeAllocation, result: CompositionResult
) -> ComposedNode:
    """Return the node that was composed for a claim, with the blocks that it really has."""
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
        amounts=result.amounts,
        flavor=allocation.flavor,
        grants=allocation.grants,
        request=part.request,
    )
