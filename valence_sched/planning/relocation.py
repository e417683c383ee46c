# SPDX-License-Identifier: Apache-2.0
"""Relocation: places nodes of an inventory again, the hardest first, and those that fail earlier.

The order is improved as in squeaky wheel optimisation (Joslin and Clements, 1999): nodes that found
no place go to the front, and all are placed anew, while that leaves fewer without a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from valence_sched.core.fit.fit import Fit
from valence_sched.model.relocation import NodeMove, StuckNode
from valence_sched.model.replay import ReasonGroup
from valence_sched.model.request import Request
from valence_sched.planning.refusals import reason_groups
from valence_sched.planning.residents import Resident
from valence_sched.planning.succession import Succession

MOST_ROUNDS = 8  # orders that are tried

Placed = tuple[Resident, Request, Fit]


@dataclass(slots=True)
class Placing:
    """What one order came to: the nodes that were placed, in order, and those that were not."""

    placed: list[Placed] = field(default_factory=list)
    stuck: list[Resident] = field(default_factory=list)


def hardest_first(residents: Sequence[Resident]) -> list[Resident]:
    """Return nodes in the order in which they are placed: the dearest first, then by place."""
    return sorted(residents, key=lambda one: (-one.price, one.podm, one.node.uri))


def place_again(succession: Succession, residents: Sequence[Resident]) -> Placing:
    """Place nodes whose hardware is lost; the best order that was found stays taken."""
    order = hardest_first(residents)
    best: Placing | None = None
    for _ in range(MOST_ROUNDS):
        placing = _place(succession, order)
        if best is not None and len(placing.stuck) >= len(best.stuck):
            withdraw(succession, placing)
            _take(succession, best)
            return best
        best = placing
        movable = [one for one in placing.stuck if one.request is not None]
        if not movable:
            return best
        withdraw(succession, placing)
        front = {id(one) for one in movable}
        order = [*movable, *(one for one in order if id(one) not in front)]
    assert best is not None, "there is at least one round"
    _take(succession, best)
    return best


def withdraw(succession: Succession, placing: Placing) -> None:
    """Give back what placed nodes took."""
    for _, request, fit in placing.placed:
        succession.give_back(request, fit)


def _take(succession: Succession, placing: Placing) -> None:
    for _, request, fit in placing.placed:
        succession.take(request, fit)


def _place(succession: Succession, residents: Sequence[Resident]) -> Placing:
    placing = Placing()
    for one in residents:
        if one.request is None:
            placing.stuck.append(one)
            continue
        decision = succession.decide(one.request)
        if not decision.placed_nodes:
            placing.stuck.append(one)
            continue
        ((_, node),) = decision.placed_nodes
        succession.take(one.request, node.chosen)
        placing.placed.append((one, one.request, node.chosen))
    return placing


def moves(succession: Succession, placed: Sequence[Placed]) -> tuple[NodeMove, ...]:
    """Return placed nodes as moves, in their order."""
    view = succession.view
    return tuple(
        NodeMove(
            **structs.asdict(one.moved(view)),
            step=step,
            to_podm=view.podm(fit.row).id,
            to_pool=view.pools[fit.row].id,
            to_blocks=tuple(
                view.block_tables[view.podm_of[fit.row]].uris[block] for block in fit.blocks
            ),
        )
        for step, (one, _, fit) in enumerate(placed, 1)
    )


def stuck_nodes(succession: Succession, residents: Sequence[Resident]) -> tuple[StuckNode, ...]:
    """Return nodes without a place, with the reasons as things are now."""
    reasons: dict[int, tuple[ReasonGroup, ...]] = {}
    for one in residents:
        if one.request is not None and id(one.request) not in reasons:
            reasons[id(one.request)] = reason_groups(succession.decide(one.request))
    return tuple(
        StuckNode(**structs.asdict(one.moved(succession.view)),
                  reasons=reasons.get(id(one.request), ()))
        for one in residents
    )  # fmt: skip
