# SPDX-License-Identifier: Apache-2.0
"""Balancing: the fewest moves of nodes that make room for one more."""

from __future__ import annotations

from msgspec import structs

from valence_sched.core.optimise.node_types import NodeType
from valence_sched.core.optimise.rebalance import MovableNode, fewest_migrations
from valence_sched.model.relocation import NodeMove, Rebalance, Room
from valence_sched.model.request import Request
from valence_sched.view.view import View
from valence_sched.whatif.residents import Resident, Residents
from valence_sched.whatif.site import Site


def make_room(site: Site, request: Request, most: int) -> Rebalance:
    """Return the fewest moves, at most so many, after which one more node of a request fits.

    A node takes its new place before it leaves the old one. Nodes that the inventory says too
    little of do not move.

    Raises:
        UnknownName, RequestError: the policies cannot place the node, or those that move.
    """
    view, residents = site.view(), Residents(site.view(), site.policy)
    succession = site.decider().succession()
    movable = [one for one in residents if one.request is not None]
    types = [NodeType.of(request, succession.eligible(request))]
    numbers: dict[int, int] = {}
    nodes = []
    for one in movable:
        asked = one.request
        assert asked is not None, "movable"
        if id(asked) not in numbers:
            numbers[id(asked)] = len(types)
            types.append(NodeType.of(asked, succession.eligible(asked)))
        nodes.append(_movable(view, one, numbers[id(asked)]))
    plan = fewest_migrations(view, types, 0, nodes, most=most)
    room = None
    if plan.fit is not None:
        room = Room(podm=view.podm(plan.fit.row).id, pool=view.pools[plan.fit.row].id,
                    blocks=_uris(view, plan.fit.row, plan.fit.blocks))  # fmt: skip
    return Rebalance(
        flavor=request.flavor or request.id,
        moves=tuple(
            NodeMove(
                **structs.asdict(movable[migration.node].moved(view)),
                step=step,
                to_podm=view.podm(migration.fit.row).id,
                to_pool=view.pools[migration.fit.row].id,
                to_blocks=_uris(view, migration.fit.row, migration.fit.blocks),
            )
            for step, migration in enumerate(plan.migrations, 1)
        ),
        room=room,
        least=plan.least,
        complete=plan.complete,
        notes=tuple(residents.notes),
    )


def _movable(view: View, one: Resident, node_type: int) -> MovableNode:
    uris = {uri: number for number, uri in enumerate(view.block_tables[one.podm].uris)}
    blocks = tuple(uris[uri] for uri in one.node.blocks if uri in uris)
    return MovableNode(one.node.uri, node_type, int(view.first_row[one.podm]), blocks)


def _uris(view: View, row: int, blocks: tuple[int, ...]) -> tuple[str, ...]:
    table = view.block_tables[view.podm_of[row]]
    return tuple(table.uris[block] for block in blocks)
