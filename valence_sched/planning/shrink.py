# SPDX-License-Identifier: Apache-2.0
"""Places nodes on blocks that shrinkable nodes do not need, if nothing else is free."""

from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from valence_sched.errors import RequestError
from valence_sched.model.claim import ComposedNode, NodeShrink
from valence_sched.model.decision import DecisionResult
from valence_sched.model.inventory import FREE_STATUS, FullPodm
from valence_sched.model.registration import RESERVED_BY
from valence_sched.model.request import Request
from valence_sched.planning.node_change import ChangePlanner, Decide, freed

#: Decides on a request for all pod managers.
DecideAll = Callable[[Mapping[str, FullPodm]], DecisionResult]
Surplus = dict[str, tuple[str, ...]]  # the blocks that each node can lose, by its id


def shrink(
    podms: Mapping[str, FullPodm],
    nodes: Sequence[ComposedNode],
    floors: Mapping[str, Request],
    decide_one: Decide,
    decide_all: DecideAll,
) -> tuple[DecisionResult, tuple[NodeShrink, ...]] | None:
    """Return a decision that takes blocks from few nodes, and these blocks; None if nothing fits.

    ``podms`` are readings without the hardware of claims. A node keeps what its floor needs, the
    request in ``floors`` by its id, else its own request.
    """
    known = {node.id: node for node in nodes if node.podm in podms}
    surplus: Surplus = {}
    for node in known.values():
        planner = ChangePlanner(podms[node.podm], node, decide_one)
        if blocks := _surplus(planner, floors.get(node.id)):
            surplus[node.id] = blocks

    def decide(offered: Surplus) -> DecisionResult | None:
        released = dict(podms)
        for id_, blocks in offered.items():
            podm = known[id_].podm
            released[podm] = _released(released[podm], blocks)
        found = decide_all(released)
        return found if found.report.placements else None

    if not surplus or (decision := decide(surplus)) is None:
        return None
    for id_ in sorted(surplus, key=lambda id_: (-len(surplus[id_]), id_)):
        rest = {other: blocks for other, blocks in surplus.items() if other != id_}
        if (found := decide(rest)) is not None:
            surplus, decision = rest, found
    chosen = {
        (one.chosen.podm, block.uri)
        for one in decision.report.placements
        for block in one.chosen.blocks
    }
    shrinks = []
    for id_, blocks in surplus.items():
        node = known[id_]
        taken = tuple(uri for uri in blocks if (node.podm, uri) in chosen)
        if taken:
            before, cycle = node.parts, node.power_cycle
            shrinks.append(
                NodeShrink(node=id_, podm=node.podm, blocks=taken, before=before, power_cycle=cycle)
            )
    return decision, tuple(shrinks)


def _surplus(planner: ChangePlanner, floor: Request | None) -> tuple[str, ...]:
    try:
        if floor is None:
            return planner.without_idle().detach
        found = planner.become(floor, free=False)
    except RequestError:  # a floor with amounts, or a node without a request
        return ()
    return found.detach if found.fits else ()


def _released(podm: FullPodm, blocks: Collection[str]) -> FullPodm:
    found = []
    for block in podm.blocks:
        if block.uri in blocks:
            before = block.status or FREE_STATUS
            reserved = (before.client or "").startswith(RESERVED_BY)
            status = replace(freed(before), reserved=reserved, taints=before.taints)
            block = replace(block, status=status)  # noqa: PLW2901
        found.append(block)
    return replace(podm, blocks=tuple(found))
