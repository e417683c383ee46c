# SPDX-License-Identifier: Apache-2.0
"""Fragmentation weigher: keeps room for nodes of every flavor, whichever resource is short."""

from typing import Annotated

from msgspec import Meta, structs

from valence_sched.model.request import FlavorShare, Mix, MixSupplies, Request
from valence_sched.view.mix_room import mix_room
from valence_sched.view.terms import completes_mix, reads, reads_podm
from valence_sched.view.view import Floats, View

MOST_SCARCITY = 1e6  # the largest scarcity of a share
Power = Annotated[float, Meta(ge=0, le=2)]


def mix_supplies(view: View, mix: Mix, *, power: float = 1.0, of: str = "") -> MixSupplies:
    """Return the number of nodes of each share of a mix that all pools of a View can make.

    The result is empty if the mix already has its scarcity, or if scarcity has no effect.
    """
    if mix.scarcity or not power or len(mix.shares) < 2:
        return ()
    return mix_room(view, mix, of).totals(view)


def with_scarcity(mix: Mix, supplies: MixSupplies, *, power: float = 1.0, of: str = "") -> Mix:
    """Return a mix with the scarcity of its shares, from the supplies of all pools.

    The scarcity is ``((most + 1) / (own + 1)) ** power``: ``own`` is the number of nodes of the
    share that all pools can make, and ``most`` is this number for the most plentiful share. A share
    has scarcity 1 if the pools can make none of its nodes.
    """
    if not supplies:
        return mix
    most = max(supplies)
    scarcity = [((most + 1) / (own + 1)) ** power if own else 1.0 for own in supplies]
    capped = tuple([min(number, MOST_SCARCITY) for number in scarcity])
    return structs.replace(mix, scarcity=capped)


@completes_mix(mix_supplies, with_scarcity)
@reads("mix", optional=True)
@reads_podm("traits")
def fragmentation(view: View, request: Request, *, power: Power = 1.0, of: str = "") -> Floats:
    """Prefers pools that lose the least room for nodes of the mix of flavors.

    The score is ``1 / (1 + x)``: ``x`` is the number of nodes that the pool can no longer make, as
    a mean over the flavors of the mix, weighted by the weight and by the scarcity of each flavor.
    The scarcity is ``((most + 1) / (own + 1)) ** power``: ``own`` is the number of nodes of the
    flavor that all pools can make, and ``most`` is this number for the most plentiful flavor. So
    any resource that limits nodes of the mix counts as scarce: cores, memory, drives, devices, or
    stocks. With ``power`` 0, only the weights count. A request without a mix is its own mix.

    The need that runs out first limits the number of nodes of a flavor; a block serves one node.
    ``of`` names the resource that must not be wasted, such as ``accelerators``. For a flavor that
    needs it, the other resources of a pool count as if they allowed 2.5 times as many nodes,
    because nodes of other flavors need less of them. A pool that cannot make a whole node counts
    none. The blocks of the requested node are an estimate, exact if one kind of block serves each
    need. Source: ours; with ``power`` 1, it is the gradient of the weighted sum of the logarithms
    of the numbers of nodes (proportional fairness, Kelly 1997).
    """
    mix = request.mix if request.mix.shares else Mix((FlavorShare(request.needs, request.traits),))
    room = mix_room(view, mix, of)
    if not room:
        return view.constant(1.0)
    return 1.0 / (1.0 + room.lost(view, request.needs, mix.scarcity))
