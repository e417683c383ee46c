# SPDX-License-Identifier: Apache-2.0
"""Claims: the blocks and amounts held for one consumer, and the nodes composed of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from msgspec import Meta, Raw
from msgspec.structs import replace

from valence_sched.errors import ClaimState, one_line
from valence_sched.model import inventory
from valence_sched.model.base import Noun
from valence_sched.model.codec import decode
from valence_sched.model.inventory import Count, Devices, FullPodm, LeanBlock, LeanPodm, Name, Node
from valence_sched.model.need import NodeRequest
from valence_sched.model.quantity import format_count

#: PREPARED: parts are held on several pod managers, but not yet joined to a claim. ATTACHING and
#: DETACHING: the blocks of its node are being changed. The last three states are final.
State = Literal[
    "PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED", "ATTACHING", "DETACHING",
    "RELEASED", "EXPIRED", "FAILED",
]  # fmt: skip
ACTIVE_STATES: tuple[State, ...] = ("PREPARED", "HELD", "COMPOSING", "COMPOSED", "SETTLED")
ACTIVE_STATES += ("ATTACHING", "DETACHING")
#: The states of the claim of a node that is not being changed.
COMPOSED_STATES: tuple[State, ...] = ("COMPOSED", "SETTLED")
#: The states in which an effect on a pod manager may be unknown; a reconciler ends them.
CHANGING_STATES: tuple[State, ...] = ("COMPOSING", "ATTACHING", "DETACHING")
FINAL_STATES: tuple[State, ...] = ("RELEASED", "EXPIRED", "FAILED")
TTL_S = 600.0  # how long a claim is held
WAIT_S = 300.0  # how long to wait for a pod manager that is still composing
KEEP_S = 30 * 86400.0  # the age at which ended claims, and decisions, are deleted
LONGEST_TTL_S = 90.0 * 86400
TtlSeconds = Annotated[float, Meta(ge=1, le=LONGEST_TTL_S)]
#: The state of a node, read back after a write; the response to the write does not matter.
#:
#: composed  the node exists, with all its blocks
#: absent    the node does not exist, and none of its blocks is in use by this program
#: left      a part of the node exists: it must be removed
#: unknown   the pod manager could not be read back
NodeState = Literal["composed", "absent", "left", "unknown"]
_NODE_PREFIX = "vs-"  # the names of composed nodes begin with it


class Grant(Noun, frozen=True):
    """An amount granted from a stock; resource and unit are named as in the decision."""

    uri: Name
    amount: inventory.Amount
    resource: str = ""
    unit: str = ""


def made_grants(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """Return the amounts that a pod manager provides; declared amounts are not among them."""
    return tuple(it for it in grants if not it.uri.startswith(inventory.DECLARED_SCHEME))


class NodeAllocation(Noun, frozen=True, kw_only=True):
    """The blocks and amounts of one node of a claim.

    ``places`` are the topology domains that the request constrains. ``flavor`` and ``score`` are
    taken from the decision. ``charges`` are the amounts, by resource, that count against the quota
    of the owner.
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
    """The part of a claim on one pod manager, at the generation that the decision read.

    ``declared_stocks`` are the free amounts of the stocks that an operator declared, before any
    claim is subtracted. Claims never hold more than these amounts. ``request`` has the requirements
    of each node. ``node`` is the existing node, by its id, that the blocks are held for.
    """

    podm: Name
    generation: Count
    shares: tuple[NodeAllocation, ...]
    declared_stocks: tuple[Grant, ...] = ()
    request: NodeRequest | None = None
    node: Name | None = None

    @property
    def blocks(self) -> Counter[str]:
        return Counter(uri for share in self.shares for uri in share.blocks)

    @property
    def amounts(self) -> dict[str, float]:
        total: dict[str, float] = {}
        for share in self.shares:
            for grant in share.grants:
                total[grant.uri] = round(total.get(grant.uri, 0.0) + grant.amount, 9)
        return total


class Claim(Noun, frozen=True, kw_only=True):
    """A claim; times are seconds since 1970 by the clock of the database.

    ``content`` is a digest of the request: another request cannot reuse the idempotency ``key``.
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
    """Return the error for a held claim whose pod manager was disabled later."""
    where = f" of zone {zone}" if zone else ""
    enable, release = f"podm set {podm} --enable", f"podm claim release {claim_id}"
    text = f"claim {claim_id}: pod manager {podm!r}{where} is disabled"
    return ClaimState(f"{text}: enable it ({enable}) or release the claim ({release})")


class Usage(Noun, frozen=True, kw_only=True):
    """The hardware of one podm in use by claims: nodes by block URI, amounts by stock URI.

    ``nodes`` are the claimed or composed nodes that have an owner or a group. ``settled`` are the
    composed nodes with the blocks that no claim holds, because a reading has shown them.
    """

    blocks: dict[str, int] = {}
    amounts: dict[str, float] = {}
    nodes: tuple[Node, ...] = ()
    settled: tuple[Node, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.blocks or self.amounts or self.nodes or self.settled)

    def plus(self, other: Self) -> Self:
        blocks: Counter[str] = Counter(self.blocks)
        blocks.update(other.blocks)
        amounts = self.amounts | {
            uri: self.amounts.get(uri, 0.0) + amount for uri, amount in other.amounts.items()
        }
        nodes, settled = (*self.nodes, *other.nodes), (*self.settled, *other.settled)
        return replace(self, blocks=blocks, amounts=amounts, nodes=nodes, settled=settled)


NO_USAGE = Usage()


def remaining_podm(text: bytes, usage: Usage, name: str) -> FullPodm:
    """Return the decoded podm with a usage applied; ``text`` is its JSON."""
    lean = PodmRemainder(decode(text, LeanPodm, name), usage).podm
    return decode(inventory.to_json(lean), FullPodm, name)


def with_lost_blocks(podm: inventory.PodmT, settled: Sequence[Node]) -> tuple[inventory.PodmT, str]:
    """Return the podm with the blocks that its ``settled`` nodes have, and a line about lost ones.

    While a fabric is reprogrammed, a pod manager may show a block of a node as free, or not list
    the node. The block stays in use by the node, which is listed as stale.
    """
    uses = Counter(uri for node in settled for uri in node.blocks)
    if not uses:
        return podm, ""
    blocks, free = list(podm.blocks), set[str]()
    for index, block in enumerate(blocks):
        if nodes_of_block := uses.get(block.uri):
            is_full = isinstance(block.status, inventory.Status)
            text = b"" if is_full else bytes(block.status or b"")
            before = block.status if is_full else inventory.parse_status(text)
            if (after := before.used(nodes_of_block)) != before:
                free.add(block.uri)
                status = after if is_full else Raw(inventory.to_json(after))
                blocks[index] = replace(block, status=status)
    nodes, lost = {node.uri: node for node in podm.nodes}, list[str]()
    for node in settled:
        shown = nodes.get(node.uri)
        known = shown or replace(node, blocks=())
        if missing := tuple(uri for uri in node.blocks if uri in free and uri not in known.blocks):
            nodes[node.uri] = replace(known, blocks=(*known.blocks, *missing), stale=True)
            how = f"read without {inventory.uri_tails(missing)}" if shown else "no longer read"
            lost.append(f"node {node.name} is {how}")
    line = ""
    if lost:
        others = f" and {format_count(len(lost) - 1, 'other node')} alike" if len(lost) > 1 else ""
        stay = "its blocks stay held (podm claim reap, if they are gone)"
        line = one_line(f"{podm.id}: {lost[0]}{others}: {stay}")
    return replace(podm, blocks=tuple(blocks), nodes=tuple(nodes.values())), line


class PodmRemainder:
    """A podm from which claims are subtracted one by one; ``podm`` is its present state.

    ``lost`` is a line about the nodes of the usage that the reading lacks, empty without any.
    """

    def __init__(self, podm: LeanPodm, usage: Usage) -> None:
        self.podm, self.lost = with_lost_blocks(podm, usage.settled)
        self._block_indexes: dict[str, int] | None = None
        self._encoded: dict[tuple[bytes, int], Raw] = {}  # equal statuses are encoded once
        self.subtract(usage)

    def subtract(self, usage: Usage) -> None:
        """Subtract a usage; only its own blocks are changed."""
        if not usage:
            return
        blocks = list(self.podm.blocks)
        if self._block_indexes is None:
            self._block_indexes = {block.uri: index for index, block in enumerate(blocks)}
        for uri, nodes in usage.blocks.items():
            if uri in self._block_indexes:  # the pod manager may no longer have the block
                index = self._block_indexes[uri]
                blocks[index] = self._after_use(blocks[index], nodes)
        stocks = (
            replace(one, used=round(one.used + amount, 9))
            if (amount := usage.amounts.get(one.uri))
            else one
            for one in self.podm.stocks
        )
        nodes_after = all_nodes(self.podm.nodes, usage)
        changes = {"blocks": tuple(blocks), "stocks": tuple(stocks), "nodes": nodes_after}
        self.podm = replace(self.podm, **changes)

    def _after_use(self, block: LeanBlock, nodes: int) -> LeanBlock:
        key = bytes(block.status or b""), nodes
        if key not in self._encoded:
            status = inventory.parse_status(key[0])
            if not status.shareable or status.max_compositions is None:
                after = replace(status, reserved=True)
            else:
                state = "ComposedAndAvailable" if status.state == "Unused" else status.state
                after = replace(status, state=state, compositions=status.compositions + nodes)
            self._encoded[key] = Raw(inventory.to_json(after))
        return replace(block, status=self._encoded[key])


def all_nodes(read: Sequence[Node], usage: Usage) -> tuple[Node, ...]:
    """Return the nodes read and those of the usage, each once, with owner and group if known."""
    known = {node.uri: node for node in usage.nodes}
    nodes = []
    for node in read:
        composed = known.pop(node.uri, node)
        owner, group = composed.owner or node.owner, composed.group or node.group
        nodes.append(replace(node, owner=owner, group=group))
    for node in known.values():
        held = tuple(uri for uri in node.blocks if uri in usage.blocks)
        nodes.append(replace(node, blocks=held))
    return tuple(nodes)


class CompositionRequest(Noun, frozen=True, kw_only=True):
    """One node to compose from exactly these blocks and amounts; its ``name`` is unique.

    ``devices`` are the devices of all blocks, for pod managers that choose the blocks themselves.
    ``substitutes`` maps each block to the blocks that can replace it. ``amounts`` are the memory
    chunks and volumes that exist already for its ``grants``, with their sizes.
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
        """The amounts that a pod manager provides."""
        return made_grants(self.grants)

    def names(self, name: str | None, uri: str) -> bool:
        """Return whether a node has this name; some services report the name only in the URI."""
        return bool(self.name) and self.name in (name, inventory.uri_tail(uri))

    def missing_blocks(self, found: Iterable[str]) -> list[str]:
        """Return the blocks of the request that the node lacks and that no equal block replaces."""
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
    """The state of a node on its pod manager, read back after a write.

    ``node`` is the URI of the node, ``blocks`` are its actual blocks, ``amounts`` its memory chunks
    and volumes. ``reason`` names the refusal, the remaining part, or the cause of an unknown state.
    ``works`` is true while the pod manager composes the node. ``freed`` are the blocks that its
    removal freed.
    """

    state: NodeState
    node: str | None = None
    blocks: tuple[str, ...] = ()
    amounts: tuple[Grant, ...] = ()
    reason: str = ""
    works: bool = False
    freed: tuple[str, ...] = ()


class ComposedNode(Noun, frozen=True, kw_only=True):
    """A node on one pod manager; this program assigns ``id``, the pod manager assigns ``uri``.

    ``amounts`` are its memory chunks and volumes with their sizes, ``grants`` its amounts of
    stocks. ``created_at`` is seconds since 1970 by the clock of the database. ``changing`` are the
    blocks that are being attached or detached, ``changing_amounts`` the grants that are being
    attached, or the amounts that are being detached. ``undo_claim`` is the claim of blocks that
    were detached to make room: they are attached again if the others cannot be attached. A node
    that was shut down for a change is started again before ``off_until``, else by a reconciler. A
    reconciler has found blocks of the node free since ``lost_at``. A plan has detached the
    ``taken`` blocks: after ``taken_until``, a reconciler attaches them again unless a node has
    them. ``changes`` has the content of each finished change by its idempotency key.
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
    changing: tuple[str, ...] = ()
    changing_amounts: tuple[Grant, ...] = ()
    undo_claim: Name | None = None
    off_until: float | None = None
    lost_at: float | None = None
    taken: tuple[Name, ...] = ()
    taken_until: float = 0.0
    changes: dict[str, str] = {}
    shrinkable: bool = False
    floor: Name | None = None
    power_cycle: bool = False

    @property
    def state(self) -> State:
        """Return COMPOSED, or ATTACHING or DETACHING while the node is being changed."""
        changing = (*self.changing, *(one.uri for one in self.changing_amounts))
        if changing:
            return "DETACHING" if changing[0] in self.parts else "ATTACHING"
        return "COMPOSED" if self.undo_claim is None else "DETACHING"

    @property
    def parts(self) -> tuple[str, ...]:
        """The URIs of the blocks and of the memory chunks and volumes."""
        return (*self.blocks, *(one.uri for one in self.amounts))

    def grants_of(self, amounts: Iterable[Grant]) -> tuple[Grant, ...]:
        """Return the grant of each amount: of the stock that its URI is below, and of its size."""
        left, found = list(self.grants), []
        for one in amounts:

            def distance(grant: Grant, of: Grant = one) -> tuple[bool, float]:
                return not of.uri.startswith(f"{grant.uri}/"), abs(grant.amount - of.amount)

            if made := made_grants(left):
                found.append(min(made, key=distance))
                left.remove(found[-1])
            else:  # of an unknown stock
                found.append(one)
        return tuple(found)

    @property
    def is_placed(self) -> bool:
        """Whether the node is a host on which nothing was composed: no reading shows its use."""
        return self.uri in self.blocks


class NodeShrink(Noun, frozen=True, kw_only=True):
    """The blocks that a shrinkable node loses, and its blocks before.

    With ``power_cycle``, the node is shut down for the change, and started again.
    """

    node: Name
    podm: Name
    blocks: tuple[Name, ...]
    before: tuple[Name, ...]
    power_cycle: bool = False


def own_name(name: str | None, uri: str) -> str:
    """Return the name that this program gave a node, from its name or its URI, else ``""``."""
    names = (name or "", inventory.uri_tail(uri))
    return next((one for one in names if one.startswith(_NODE_PREFIX)), "")


def node_allocations(claim: Claim) -> Iterator[tuple[ClaimPart, NodeAllocation]]:
    """Yield the parts and node allocations of a claim, node by node."""
    return ((part, allocation) for part in claim.parts for allocation in part.shares)


def node_name(claim: Claim, allocation: NodeAllocation) -> str:
    """Return the name of a node, by which a later run finds it again."""
    number = "" if claim.nodes == 1 else f"-{allocation.node}"
    return f"{_NODE_PREFIX}{claim.id}{number}"


def composition_request(
    claim: Claim, allocation: NodeAllocation, podm: FullPodm | None
) -> CompositionRequest:
    """Return the composition request of one node, with the devices of the last reading."""
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
    """Return the blocks with equal devices, pool and constrained places, for each block."""
    found: dict[tuple[Any, ...], list[str]] = {}
    keys: dict[str, tuple[Any, ...]] = {}
    for block in podm.blocks:
        places = tuple((block.places or {}).get(place) for place in allocation.places)
        sharing = block.status is not None and block.status.shareable
        keys[block.uri] = key = (tuple(sorted(block.type)), block.devices, sharing, places)
        if allocation.pool in block.pools or not podm.pools:
            found.setdefault(key, []).append(block.uri)
    own = allocation.blocks
    present = [uri for uri in own if uri in keys]
    return {uri: tuple(it for it in found.get(keys[uri], ()) if it not in own) for uri in present}


def request_from_node(node: ComposedNode) -> CompositionRequest:
    """Return the composition request of a stored node."""
    name, amounts = node.name or node.id, node.amounts
    return CompositionRequest(name=name, pool=node.pool, blocks=node.blocks, amounts=amounts)


def sum_devices(blocks: Iterable[Devices]) -> Devices:
    """Return the devices of several blocks; equal devices are merged, and their counts added up."""
    sums: dict[str, dict[bytes, Any]] = {name: {} for name in Devices.__struct_fields__}
    for block in blocks:
        for name, found in sums.items():
            for device in getattr(block, name):
                key = inventory.to_json(replace(device, count=None if device.count is None else 0))
                if (same := found.get(key)) and device.count is not None:
                    found[key] = replace(device, count=same.count + device.count)
                else:
                    found[key] = device
    return Devices(**{name: tuple(found.values()) for name, found in sums.items()})


def composed_node(
    claim: Claim, part: ClaimPart, allocation: NodeAllocation, result: CompositionResult
) -> ComposedNode:
    """Return the node that was composed for a claim, with its actual blocks."""
    name = node_name(claim, allocation)
    return ComposedNode(
        id=name,
        podm=part.podm,
        uri=result.node or "",
        claim=claim.id,
        name=name,
        owner=claim.owner,
        group=claim.group,
        pool=allocation.pool,
        blocks=result.blocks,
        amounts=result.amounts,
        flavor=allocation.flavor,
        grants=allocation.grants,
        request=part.request,
    )
