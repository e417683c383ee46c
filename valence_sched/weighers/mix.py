# SPDX-License-Identifier: Apache-2.0
"""Mix weigher: keeps room for nodes of every flavor, whichever resource is short."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from valence_sched.model.request import FlavorShare, Mix, MixSupplies, Request
from valence_sched.view.availability import feasible_rows
from valence_sched.view.block_kinds import read_only
from valence_sched.view.mix_room import mix_room
from valence_sched.view.reads import completes_mix, reads, reads_podm
from valence_sched.view.view import Floats, View

MOST_SCARCITY = 1e6  # the largest scarcity of a share
Power = Annotated[float, Meta(ge=0, le=1)]


def mix_supplies(view: View, workload: Mix, *, power: float = 0.5) -> MixSupplies:
    """Return per share of a mix the number of nodes that all pools of a View can make.

    The result is empty if the mix has its scarcity, or if all shares count alike. The second half,
    of the hardware in use, is empty.
    """
    if workload.scarcity or not power or len(workload.shares) < 2:
        return ()
    totals = mix_room(view, workload).totals(view)
    return tuple([(total,) if total else () for total in totals] + [()] * len(totals))


def with_scarcity(workload: Mix, supplies: MixSupplies, *, power: float = 0.5) -> Mix:
    """Return a mix with the scarcity of its shares, from the supplies of all pools.

    ``((most + 1) / (own + 1)) ** power``, of the numbers of nodes that the pools can make of the
    most plentiful share and of its own; 1 for a share of which the pools can make no node.
    """
    if not supplies:
        return workload
    numbers = [math.fsum(parts) for parts in supplies[: len(workload.shares)]]
    most = max(numbers)
    scarcity = [((most + 1.0) / (own + 1.0)) ** power if own else 1.0 for own in numbers]
    capped = tuple([min(number, MOST_SCARCITY) for number in scarcity])
    return msgspec.structs.replace(workload, scarcity=capped)


@completes_mix(mix_supplies, with_scarcity)
@reads("mix", optional=True)
@reads_podm("traits")
def mix(view: View, request: Request, *, power: Power = 0.5) -> Floats:
    """Prefers pools that lose the least room for nodes of the mix of flavors.

    ``1 / (1 + x)``, where ``x`` is the number of nodes that the pool can make no longer: the mean
    over the flavors, by their weight in the mix and by their scarcity. The scarcity of a flavor is
    ``((most + 1) / (own + 1)) ** power``: ``own`` is the number of its nodes that all pools can
    make, ``most`` that of the most plentiful flavor. So any resource counts as scarce if it limits
    nodes of the mix: cores, memory, drives, devices, or stocks. With ``power`` 0 all flavors count
    by their weight alone. A request without a mix is its own mix.

    The need that runs out first limits the number of nodes of a flavor; a block serves one node.
    The blocks of the node are an estimate, exact if one kind of block serves each need. Source:
    ours; with ``power`` 1 it is the gradient of the weighted sum of the logarithms of the numbers
    of nodes (proportional fairness, Kelly 1997).
    """
    workload = request.mix
    if not workload.shares:
        workload = Mix((FlavorShare(request.needs, request.traits),))
    room = mix_room(view, workload)
    if not room:
        return view.constant(1.0)
    before = view.memoise_free("mix", workload.digest, lambda: read_only(room.nodes(view)))
    feasible = feasible_rows(view, request.needs)
    lost = before - room.nodes(view, request.needs, feasible)
    score: Floats = 1.0 / (1.0 + room.weighted(lost, view.traits, workload.scarcity))
    score[~feasible] = 0.0
    return score
