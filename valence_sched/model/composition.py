# SPDX-License-Identifier: Apache-2.0
"""Making a node: what is wanted of a pod manager, and what came of it by reading back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from valence_sched.model.base import Noun
from valence_sched.model.claim import Claim, Grant, Part, Share
from valence_sched.model.inventory import Devices, FullPodm, Name

#: What is there after a write, whatever the answer to it was.
#:
#: composed  the node is there, of all its blocks
#: absent    no node, and nothing of ours in its blocks
#: left      something is there that is not the node: it must be taken back
#: unknown   it could not be read back, so anything may be there
State = Literal["composed", "absent", "left", "unknown"]


class Wanted(Noun, frozen=True, kw_only=True):
    """A node to make of these very blocks and amounts; ``name`` is found nowhere else.

    ``devices`` are those of the blocks together, for pod managers that choose blocks themselves.
    """

    name: str
    pool: str | None = None
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    devices: Devices = Devices()


class Outcome(Noun, frozen=True, kw_only=True):
    """What a pod manager has after a write.

    ``node`` is the URI of the node, ``blocks`` what it is really made of. ``reason`` says in
    words what was refused, what is left, or why it cannot be known. It ``works`` when it will
    change by itself.
    """

    state: State
    node: str | None = None
    blocks: tuple[str, ...] = ()
    reason: str = ""
    works: bool = False


class Composed(Noun, frozen=True, kw_only=True):
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
