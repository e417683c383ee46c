# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks and amounts that are held for one consumer, and pod managers without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from valence_sched.errors import ClaimState, one_line
from valence_sched.model.base import Noun
from valence_sched.model.inventory import (
    Amount,
    Count,
    FullPodm,
    LeanBlock,
    LeanPodm,
    Name,
    Node,
    Status,
    Stock,
    parse_status,
    to_json,
)
from valence_sched.model.request import NodeRequest

#: PREPARED holds parts on several pod managers, not yet one claim; the last three are final.
State = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED", "RELEASED", "EXPIRED", "FAILED"
]
ACTIVE_STATES: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED")
FINAL_STATES: tuple[State, ...] = ("RELEASED", "EXPIRED", "FAILED")

TTL_S = 600.0  # how long a claim is held
LONGEST_TTL_S = 90.0 * 86400
TtlSeconds = Annotated[float, Meta(ge=1, le=LONGEST_TTL_S)]


class Grant(Noun, frozen=True):
    """An amount of a stock, in the stock's unit; its words are there where a decision told them."""

    uri: Name
    amount: Amount
    resource: str = ""
    unit: str = ""


class NodeAllocation(Noun, frozen=True, kw_only=True):
    """The blocks and amounts that one node of a claim is made of.

    ``places`` are the topology domains that the request constrains: blocks that are equal in all
    else differ in them. ``flavor`` and ``score`` are those of the decision, where it had them.
    ``charges`` is what the blocks and amounts count against the quota of an owner, by resource.
    """

    node: Count
    pool: Name
    blocks: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    places: tuple[str, ...] = ()
    flavor: str | None = None
    score: float | None = None
    charges: dict[str, float] = {}


class ClaimPart(Noun, frozen=True, kw_only=True):
    """What a claim holds of one pod manager, at the generation that the decision read.

    ``supplies`` is the free amount, before any claim, of stocks that an operator declared and the
    store does not know: claims never hold more than that. ``request`` is what each node was asked
    for, where the decision had it.
    """

    podm: Name
    generation: Count
    shares: tuple[NodeAllocation, ...]
    supplies: tuple[Grant, ...] = ()
    request: NodeRequest | None = None

    @property
    def blocks(self) -> Counter[str]:
        """Return the URIs of the blocks, each with the number of nodes that use it."""
        return Counter(uri for share in self.shares for uri in share.blocks)

    @property
    def amounts(self) -> dict[str, float]:
        """Return the total amount of each stock by its URI."""
        total: dict[str, float] = {}
        for share in self.shares:
            for grant in share.grants:
                total[grant.uri] = round(total.get(grant.uri, 0.0) + grant.amount, 9)
        return total


class Claim(Noun, frozen=True, kw_only=True):
    """A claim; times are seconds since 1970 by the clock of the database.

    ``content`` is a digest of the request: an idempotency ``key`` is for one request only.
    """

    id: Name
    state: State
    owner: str | None = None
    group: str | None = None
    key: str | None = None
    content: str = ""
    created_at: float = 0.0
    expires_at: float | None = None
    note: str | None = None
    parts: tuple[ClaimPart, ...] = ()

    @property
    def podms(self) -> tuple[str, ...]:
        return tuple(part.podm for part in self.parts)

    @property
    def nodes(self) -> int:
        return sum(len(part.shares) for part in self.parts)


def disabled_error(claim_id: str, podm: str, zone: str = "") -> ClaimState:
    """Return the error about a held claim on a pod manager of a zone that was disabled since."""
    where = f" of zone {zone}" if zone else ""
    enable, release = f"podm set {podm} --enable", f"podm claim release {claim_id}"
    text = f"claim {claim_id}: pod manager {podm!r}{where} is disabled"
    return ClaimState(one_line(f"{text}: enable it ({enable}) or release the claim ({release})"))


IN_USE_STATES = ("Composing", "Composed", "ComposedAndAvailable")


class Usage(Noun, frozen=True, kw_only=True):
    """What claims hold of one podm: nodes per block URI, amounts per stock URI.

    ``nodes`` are those that are claimed or composed and have an owner or a group.
    """

    blocks: dict[str, int] = {}
    amounts: dict[str, float] = {}
    nodes: tuple[Node, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks or self.amounts or self.nodes)

    def plus(self, other: Usage) -> Usage:
        blocks, amounts = dict(self.blocks), dict(self.amounts)
        for uri, nodes in other.blocks.items():
            blocks[uri] = blocks.get(uri, 0) + nodes
        for uri, amount in other.amounts.items():
            amounts[uri] = amounts.get(uri, 0.0) + amount
        return Usage(blocks=blocks, amounts=amounts, nodes=(*self.nodes, *other.nodes))


NO_USAGE = Usage()


def subtract_usage(podm: LeanPodm, usage: Usage) -> LeanPodm:
    """Return the podm after the usage: blocks and amounts are in use, its nodes are listed."""
    if not usage:
        return podm
    encoded: dict[tuple[bytes, int], Raw] = {}  # equal statuses are encoded once
    counts = ((block, usage.blocks.get(block.uri)) for block in podm.blocks)
    blocks = (one if n is None else _block_after_use(one, n, encoded) for one, n in counts)
    return _after(podm, blocks, usage)


def _after(podm: LeanPodm, blocks: Iterable[LeanBlock], usage: Usage) -> LeanPodm:
    return msgspec.structs.replace(
        podm,
        blocks=tuple(blocks),
        stocks=tuple(_stock(stock, usage.amounts) for stock in podm.stocks),
        nodes=all_nodes(podm.nodes, usage),
    )


class PodmRemainder:
    """A podm from which claims are subtracted one by one; ``podm`` is its present state."""

    def __init__(self, podm: LeanPodm, usage: Usage) -> None:
        self.podm = subtract_usage(podm, usage)
        #: By URI, once claims are subtracted one by one.
        self._block_indexes: dict[str, int] | None = None
        self._encoded_statuses: dict[tuple[bytes, int], Raw] = {}

    def subtract(self, usage: Usage) -> None:
        """Subtract another usage; only its own blocks are changed."""
        blocks = list(self.podm.blocks)
        if self._block_indexes is None:
            self._block_indexes = {block.uri: index for index, block in enumerate(blocks)}
        for uri, nodes in usage.blocks.items():
            if uri in self._block_indexes:  # else the pod manager does not have the block any more
                index = self._block_indexes[uri]
                blocks[index] = _block_after_use(blocks[index], nodes, self._encoded_statuses)
        self.podm = _after(self.podm, blocks, usage)


def status_after_use(status: Status, nodes: int) -> Status:
    """Return the status of a block after ``nodes`` more nodes use it."""
    if not status.shareable or status.max_compositions is None:
        return msgspec.structs.replace(status, reserved=True)
    return msgspec.structs.replace(
        status,
        state="ComposedAndAvailable" if status.state == "Unused" else status.state,
        compositions=status.compositions + nodes,
    )


def foreign_blocks(podm: FullPodm, ours: Iterable[str]) -> tuple[str, ...]:
    """Return the URIs of blocks in use that are not ``ours``: another program composed them."""
    own, found = frozenset(ours), []
    for block in podm.blocks:
        status = block.status
        if block.uri in own or status is None:
            continue
        if status.state in IN_USE_STATES or status.reserved or status.compositions > 0:
            found.append(block.uri)
    return tuple(found)


def _block_after_use(
    block: LeanBlock, nodes: int, encoded: dict[tuple[bytes, int], Raw]
) -> LeanBlock:
    key = bytes(block.status or b""), nodes
    if key not in encoded:
        encoded[key] = Raw(to_json(status_after_use(parse_status(key[0]), nodes)))
    return msgspec.structs.replace(block, status=encoded[key])


def all_nodes(read: Sequence[Node], usage: Usage) -> tuple[Node, ...]:
    """Return the nodes that were read and those of the usage, each once.

    Pod managers tell neither owner nor group. Of a node that is composed and was not read, only the
    blocks that are held yet are its own for sure.
    """
    known = {node.uri: node for node in usage.nodes}
    nodes = []
    for node in read:
        composed = known.pop(node.uri, node)
        owner, group = composed.owner or node.owner, composed.group or node.group
        nodes.append(msgspec.structs.replace(node, owner=owner, group=group))
    for node in known.values():
        held = tuple(uri for uri in node.blocks if uri in usage.blocks)
        nodes.append(msgspec.structs.replace(node, blocks=held))
    return tuple(nodes)


def _stock(stock: Stock, held: Mapping[str, float]) -> Stock:
    amount = held.get(stock.uri)
    if not amount:
        return stock
    return msgspec.structs.replace(stock, used=round(stock.used + amount, 9))
