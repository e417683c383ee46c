# SPDX-License-Identifier: Apache-2.0
"""Results of a scheduler on claims and nodes: claiming, composing, reconciling."""

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from valence_sched.errors import UnknownName, UsageError
from valence_sched.model.base import Noun
from valence_sched.model.claim import Claim, ComposedNode, NodeShrink, sum_devices
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import Count, Devices, LeanPodm, Positive, uri_tail

ExitCode = Annotated[int, Meta(ge=0, le=255)]


class Event(Noun, frozen=True, kw_only=True):
    """An event of a claim; ``at`` is seconds since 1970 by the clock of the database."""

    at: float
    kind: str
    claim: str | None = None
    podm: str | None = None
    words: str | None = None


class ClaimResult(Struct, frozen=True, kw_only=True):
    """The claim of a request, None if nothing fits.

    ``decision`` is None for an earlier claim of the same key. ``retries`` counts lost races.
    """

    claim: Claim | None
    decision: DecisionResult | None = None
    retries: Count = 0


class ClaimRecord(Struct, frozen=True, kw_only=True):
    """A claim with its nodes and events, the oldest event first."""

    claim: Claim
    nodes: tuple[ComposedNode, ...] = ()
    events: tuple[Event, ...] = ()


class UnverifiedNode(Struct, frozen=True, kw_only=True):
    """A node whose composition could be neither verified nor undone.

    ``node``, ``podm`` and ``claim`` are set if it is ``still_composing``.
    """

    message: str
    still_composing: bool = False
    node: str = ""
    podm: str = ""
    claim: str = ""

    def __str__(self) -> str:
        return self.message


class ProvisionResult(Struct, frozen=True, kw_only=True):
    """The nodes of a request; ``decision`` is None if an earlier request had the same key.

    ``failures`` has a line for each node that was not composed. ``claim_lost``: another claim or
    system uses the hardware; ``use_unknown``: the use of the hardware is unknown. ``notes`` name
    nodes that were composed on other hardware. ``shrinks`` are the nodes that lost blocks to these
    nodes.
    """

    decision: DecisionResult | None = None
    nodes: tuple[ComposedNode, ...] = ()
    failures: tuple[str, ...] = ()
    unverified: tuple[UnverifiedNode, ...] = ()
    notes: tuple[str, ...] = ()
    shrinks: tuple[NodeShrink, ...] = ()
    claim_lost: bool = False
    use_unknown: bool = False

    @property
    def still_composing(self) -> tuple[UnverifiedNode, ...]:
        return tuple(node for node in self.unverified if node.still_composing)


def added_results(results: Iterable[ProvisionResult]) -> ProvisionResult:
    """Return the nodes, failures and notes of several results, without a decision."""
    each = list(results)
    return ProvisionResult(
        nodes=tuple(node for one in each for node in one.nodes),
        failures=tuple(line for one in each for line in one.failures),
        unverified=tuple(node for one in each for node in one.unverified),
        notes=tuple(line for one in each for line in one.notes),
        shrinks=tuple(shrink for one in each for shrink in one.shrinks),
        claim_lost=any(one.claim_lost for one in each),
        use_unknown=any(one.use_unknown for one in each),
    )


class NodeStatus(Struct, frozen=True, kw_only=True):
    """A node and its state: COMPOSED, ATTACHING, DETACHING, GONE, FOREIGN or UNKNOWN.

    ``devices`` are the devices of its blocks at the last reading; ``unknown_blocks`` is the number
    of its blocks that this reading lacks. ``reason`` explains the state UNKNOWN, or names the
    blocks that a COMPOSED node has lost.
    """

    node: ComposedNode
    state: str
    reason: str | None = None
    devices: Devices = Devices()
    unknown_blocks: Count = 0


class NodeRecord(NodeStatus, frozen=True, kw_only=True):
    """A node, its state, its hardware, and the events of its claim, the oldest first.

    ``systems`` are the URIs of its ComputerSystems. The URIs, UUIDs and MAC addresses are empty if
    the pod manager does not report them.
    """

    podm_url: str | None = None
    systems: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    mac_addresses: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


class Action(Struct, frozen=True, kw_only=True):
    """A change of a claim or node, made or planned; ``exit_code`` is that of its error."""

    kind: str
    id: str
    podm: str
    done: str
    exit_code: ExitCode = 0


class ReconcileResult(Struct, frozen=True, kw_only=True):
    """The actions of reconciling, and the numbers of deleted claims and decisions.

    ``composing`` are the claims whose nodes may still be composed or changed, the oldest first;
    parts of claims are left out.
    """

    actions: tuple[Action, ...] = ()
    composing: tuple[Claim, ...] = ()
    forgotten_claims: Count = 0
    forgotten_decisions: Count = 0


class Preview(Struct, frozen=True, kw_only=True):
    """The answer of a pod manager to a preview: a ``refusal``, a ``problem``, or neither.

    If the pod manager offers no preview, the answer is found ``by_reading``.
    """

    node: Positive
    podm: str
    refusal: str | None = None
    problem: str | None = None
    by_reading: bool = False


_SAME_NAMES = ("uri", "name", "owner", "group", "blocks", "flavor", "request")


def recorded_nodes(
    podms: Iterable[LeanPodm], devices: Mapping[tuple[str, str], Devices]
) -> list[NodeRecord]:
    """Return the nodes of recorded pod managers; ``devices`` are by pod manager and block URI.

    A node without a readable document is UNKNOWN.
    """
    records = []
    for podm in podms:
        for node in podm.nodes:
            known = [devices.get((podm.id, uri)) for uri in node.blocks]
            same = {name: getattr(node, name) for name in _SAME_NAMES}
            id_ = node.name or node.uri
            record = NodeRecord(
                node=ComposedNode(id=id_, podm=podm.id, claim="-", **same),
                state="UNKNOWN" if node.stale else "COMPOSED",
                reason="its document could not be read" if node.stale else None,
                devices=sum_devices(one for one in known if one),
                unknown_blocks=known.count(None),
                podm_url=podm.url,
                systems=(node.uri,),
            )
            records.append(record)
    return records


def find_record(records: Iterable[NodeRecord], name: str) -> NodeRecord:
    """Return the node with this name: an ID, ``PODM/ID``, a URI or the last part of a URI.

    UnknownName: no node has the name. UsageError: several nodes have it.
    """
    every = {f"{one.node.podm}/{one.node.id}": one for one in records}
    found = {}
    for full, one in every.items():
        if name in (full, one.node.id, one.node.uri, uri_tail(one.node.uri)):
            found[full] = one
    if not found:
        raise UnknownName("node", name, [one.node.id for one in every.values()])
    if len(found) > 1 and name not in found:
        raise UsageError(f"node {name}: the name is ambiguous: {', '.join(found)}")
    return found.get(name) or next(iter(found.values()))
