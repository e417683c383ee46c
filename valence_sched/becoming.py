# SPDX-License-Identifier: Apache-2.0
"""What a claim is to become: its nodes, what each is made of, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator

from valence_sched.model.claim import Claim, Part, Share
from valence_sched.model.composed import Composed
from valence_sched.model.composition import Outcome, Wanted
from valence_sched.model.inventory import Devices, FullPodm

OURS = "vs-"  # what the names of all nodes composed here begin with


def only(claim: Claim) -> tuple[Part, Share]:
    """Return the one part and share of a claim of one node."""
    (part,) = claim.parts
    (share,) = part.shares
    return part, share


def shares_of(claim: Claim) -> Iterator[tuple[Part, Share]]:
    """Yield all that a claim is to become, node by node."""
    for part in claim.parts:
        for share in part.shares:
            yield part, share


def name_of(claim: Claim, share: Share) -> str:
    """Return the name of a node, by which it is found again whatever happens."""
    return f"{OURS}{claim.id}" if claim.nodes == 1 else f"{OURS}{claim.id}-{share.node}"


def wanted_of(claim: Claim, share: Share, podm: FullPodm | None) -> Wanted:
    """Return what to make, with the devices of its blocks as they were last read."""
    chosen = [block for block in podm.blocks if block.uri in share.blocks] if podm else []
    return Wanted(
        name=name_of(claim, share),
        pool=share.pool,
        blocks=share.blocks,
        grants=share.grants,
        devices=_together([block.devices for block in chosen if block.devices]),
    )


def wanted_again(node: Composed) -> Wanted:
    """Return what a node was to be, by what is remembered of it."""
    return Wanted(name=node.name or node.id, pool=node.pool, blocks=node.blocks)


def node_of(claim: Claim, part: Part, share: Share, outcome: Outcome) -> Composed:
    """Return the node that a claim became, of the blocks that it is really made of."""
    return Composed(
        id=name_of(claim, share),
        podm=part.podm,
        uri=outcome.node or "",
        claim=claim.id,
        name=name_of(claim, share),
        owner=claim.owner,
        group=claim.group,
        pool=share.pool,
        blocks=outcome.blocks,
    )


def _together(devices: list[Devices]) -> Devices:
    return Devices(
        processors=tuple(one for some in devices for one in some.processors),
        accelerators=tuple(one for some in devices for one in some.accelerators),
        memory=tuple(one for some in devices for one in some.memory),
        drives=tuple(one for some in devices for one in some.drives),
        nics=tuple(one for some in devices for one in some.nics),
    )
